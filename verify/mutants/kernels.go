package mutants

import (
	"math"

	"tokitai/num"
)

// Parts are the parts of a correct kernel, each of which can be replaced.
type Parts struct {
	Sum       func(terms []float32) float32
	Exp, Log  func(x float32) float32
	Rsqrt     func(x float32) float32
	Divide    func(a, b float32) float32
	Normalise func(e, sum float32) float32 // e/sum in some form
	Step      func(x float32) float32      // what becomes of the result of a step
}

// Ordered returns correct parts with the given sum; functions are almost correctly rounded.
func Ordered(sum func([]float32) float32) Parts {
	return Parts{
		Sum: sum, Exp: Exp32, Log: Log32,
		Rsqrt:     func(x float32) float32 { return 1 / num.Sqrt(x) },
		Divide:    func(a, b float32) float32 { return a / b },
		Normalise: func(e, s float32) float32 { return e * (1 / s) },
		Step:      func(x float32) float32 { return x },
	}
}

func Exp32(x float32) float32 { return float32(math.Exp(float64(x))) }
func Log32(x float32) float32 { return float32(math.Log(float64(x))) }

// The orders of additions of def.Order.

func InLanes(width int) func([]float32) float32 {
	return func(x []float32) float32 { return num.LaneSum(x, width) }
}

func Ascending(x []float32) float32 {
	s := float32(0)
	for _, v := range x {
		s += v
	}
	return s
}

func Descending(x []float32) float32 {
	s := float32(0)
	for i := len(x) - 1; i >= 0; i-- {
		s += x[i]
	}
	return s
}

func inChunks(width int) func([]float32) float32 {
	return func(x []float32) float32 {
		s := float32(0)
		for len(x) > 0 {
			n := min(width, len(x))
			s += Ascending(x[:n])
			x = x[n:]
		}
		return s
	}
}

func InPairs(x []float32) float32 {
	switch len(x) {
	case 0:
		return 0
	case 1:
		return x[0]
	}
	half := (len(x) + 1) / 2
	return InPairs(x[:half]) + InPairs(x[half:])
}

// InDouble adds in binary64 and rounds once.
func InDouble(x []float32) float32 {
	s := 0.0
	for _, v := range x {
		s += float64(v)
	}
	return float32(s)
}

// Compensated computes Kahan's compensated sum.
func Compensated(x []float32) float32 {
	s, c := float32(0), float32(0)
	for _, v := range x {
		y := v - c
		t := s + y
		c = (t - s) - y
		s = t
	}
	if s-s != 0 {
		return Ascending(x) // c is then NaN, where the sum is infinite
	}
	return s
}

// Rounding returns a sum that rounds every partial result.
func Rounding(round func(float32) float32) func([]float32) float32 {
	return func(x []float32) float32 {
		s := float32(0)
		for _, v := range x {
			s = round(s + v)
		}
		return s
	}
}

// RoundingLanes is Rounding in 16 lanes.
func RoundingLanes(round func(float64) float32) func([]float32) float32 {
	return func(x []float32) float32 {
		var lanes [16]float32
		for i, v := range x {
			lanes[i%16] = round(float64(lanes[i%16]) + float64(v))
		}
		for n := 8; n > 0; n /= 2 {
			for i := range n {
				lanes[i] = round(float64(lanes[2*i]) + float64(lanes[2*i+1]))
			}
		}
		return lanes[0]
	}
}

// RoundingTree is Rounding in halves of halves.
func RoundingTree(round func(float32) float32) func([]float32) float32 {
	var sum func(x []float32) float32
	sum = func(x []float32) float32 {
		if len(x) == 1 {
			return x[0]
		}
		half := (len(x) + 1) / 2
		return round(sum(x[:half]) + sum(x[half:]))
	}
	return sum
}

// WithoutEvery leaves the last of every n terms out of a sum.
func WithoutEvery(n int, sum func([]float32) float32) func([]float32) float32 {
	return func(x []float32) float32 {
		if len(x) < n {
			return sum(x)
		}
		kept := make([]float32, 0, len(x))
		for i, v := range x {
			if i%n != n-1 {
				kept = append(kept, v)
			}
		}
		return sum(kept)
	}
}

// To rounds to a storage format and back.
func To(d num.DType) func(float32) float32 {
	return func(x float32) float32 { return num.Round(d, x) }
}

// TowardZero truncates a binary64 to binary32.
func TowardZero(x float64) float32 {
	y := float32(x)
	if math.Abs(float64(y)) > math.Abs(x) {
		y = math.Nextafter32(y, 0)
	}
	return y
}

// KeepBits rounds to the given number of significand bits.
func KeepBits(n int) func(float64) float32 {
	return func(x float64) float32 {
		if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
			return float32(x)
		}
		_, e := math.Frexp(x)
		unit := math.Ldexp(1, e-n)
		return float32(math.RoundToEven(x/unit) * unit)
	}
}

func Maximum(x []float32) float32 {
	m := x[0]
	for _, v := range x[1:] {
		m = max(m, v)
	}
	return m
}

// Correct kernels. Each takes the steps of its definition.

func SoftmaxRow(p Parts, x, y []float32) (m, sum float32) {
	m = Maximum(x)
	for i, v := range x {
		y[i] = p.Step(p.Exp(p.Step(v - m)))
	}
	sum = p.Step(p.Sum(y))
	for i, e := range y {
		y[i] = p.Normalise(e, sum)
	}
	return m, sum
}

// Each returns a body that computes element by element.
func Each(in, out string, f func(x float32) float32) func(c *Call) {
	return func(c *Call) {
		x, y := c.In(in).V, c.In(out).V
		for i, v := range x {
			y[i] = f(v)
		}
	}
}

// EachGrad is Each for a gradient.
func EachGrad(f func(dy, x float32) float32) func(c *Call) {
	return func(c *Call) {
		dy, x, dx := c.In("dy").V, c.In("x").V, c.In("dx").V
		for i := range x {
			dx[i] = f(dy[i], x[i])
		}
	}
}

// Dot is a sum of products that begins with an old value.
type Dot func(a, b []float32, old float32, accumulate bool) float32

// Products returns a Dot that rounds the products and adds them with the given sum; the old
// value is the first term.
func Products(sum func([]float32) float32) Dot {
	return func(a, b []float32, old float32, accumulate bool) float32 {
		terms := make([]float32, 0, len(a)+1)
		if accumulate {
			terms = append(terms, old)
		}
		for k := range a {
			terms = append(terms, float32(a[k]*b[k]))
		}
		return sum(terms)
	}
}

// Fused computes a chain of fused multiply-adds.
func Fused(a, b []float32, old float32, _ bool) float32 {
	for k := range a {
		old = num.FMA(a[k], b[k], old)
	}
	return old
}

// Contraction returns a body that computes each element of the result separately.
func Contraction(f Dot) func(c *Call) {
	return ContractionAt(func(_, _ int, a, b []float32, old float32, accumulate bool) float32 { return f(a, b, old, accumulate) })
}

// ContractionAt is Contraction with a sum that knows the row and column of the result.
func ContractionAt(f func(m, n int, a, b []float32, old float32, accumulate bool) float32) func(c *Call) {
	return StackAt(func(h int) (left, right int) { return h, h }, f)
}

// StackAt computes matrix h of the result from the matrices of the operands that of names;
// all have one batch axis, or none. Of groups, it computes the rows or the matrix of group h: of names
// the group whose matrix is taken.
func StackAt(of func(h int) (left, right int), f func(m, n int, a, b []float32, old float32, accumulate bool) float32) func(c *Call) {
	return func(c *Call) {
		d, count := c.Definition, c.Stored[2].Matrices()
		groups := d.Groups()
		if groups.Offsets != "" {
			count = c.Stored[d.Operand(groups.Offsets)].Rows - 1
		}
		matrix := func(i, h, taken int) Matrix {
			x := c.Operands[i]
			if groups.Offsets != "" && d.Operands[i].Dims[0] == groups.Of {
				offsets := &c.Stored[d.Operand(groups.Offsets)]
				first, end := int(offsets.Int(h, 0)), int(offsets.Int(h+1, 0))
				return Matrix{end - first, x.Cols, x.V[first*x.Cols : end*x.Cols]}
			}
			rows := x.Rows / count
			return Matrix{rows, x.Cols, x.V[taken*rows*x.Cols : (taken+1)*rows*x.Cols]}
		}
		for h := range count {
			i, j := of(h)
			left, right, result := matrix(0, h, i%count), matrix(1, h, j%count), matrix(2, h, h)
			if d.Product().TransposeLeft {
				left = Transposed(left)
			}
			if !d.Product().TransposeRight {
				right = Transposed(right)
			}
			for m := range result.Rows {
				for n := range result.Cols {
					old := float32(0)
					if d.Accumulates() {
						old = result.Row(m)[n]
					}
					result.Row(m)[n] = f(m, n, left.Row(m), right.Row(n), old, d.Accumulates())
				}
			}
		}
	}
}

// Scale multiplies the sums of a contraction by the scales of its definition, if it has any.
func Scale(c *Call) {
	by := func(name string, at func(m, n int) int) {
		if name == "" {
			return
		}
		result := c.Operands[2]
		for m := range result.Rows {
			for n := range result.Cols {
				result.Row(m)[n] *= c.In(name).V[at(m, n)]
			}
		}
	}
	by(c.Definition.Scales().Row, func(m, _ int) int { return m })
	by(c.Definition.Scales().Col, func(_, n int) int { return n })
}

// FusedStack computes with fused multiply-adds, from the matrices that of names.
func FusedStack(of func(h int) (left, right int)) func(c *Call) {
	return StackAt(of, func(_, _ int, a, b []float32, old float32, accumulate bool) float32 {
		return Fused(a, b, old, accumulate)
	})
}

// LoadPackedStack reads an operand as if its matrices followed each other without gaps.
func LoadPackedStack(a num.Array, r, c int) float32 {
	a.Stride, a.Batch = a.Cols, num.Batch{}
	if i := a.Index(r, c); (i+1)*a.DType.Size() > len(a.Data) {
		return 0
	}
	return a.At(r, c)
}

// Scatter adds the rows of every index in ascending order; an accumulated old value is the
// first term. A row that no index names is zero, or unchanged if it accumulates.
func Scatter(sum func([]float32) float32) func(c *Call) {
	return func(c *Call) {
		rows, result := c.In("dout"), c.In("dweight")
		at := make([][]int, result.Rows)
		for q, v := range c.Index {
			if v >= 0 && int(v) < result.Rows {
				at[v] = append(at[v], q)
			}
		}
		for v, list := range at {
			if len(list) == 0 {
				continue
			}
			for i := range result.Cols {
				var terms []float32
				if c.Definition.Accumulates() {
					terms = append(terms, result.Row(v)[i])
				}
				for _, q := range list {
					terms = append(terms, rows.Row(q)[i])
				}
				result.Row(v)[i] = sum(terms)
			}
		}
	}
}

// Gather copies patterns; take returns the row of an index, or -1 for a row of zeros.
func Gather(take func(v, rows int) int) Plain {
	return Plain{Body: func(*Call) {}, Write: func(c *Call, _ int, _ Matrix, k *Plain) {
		table, out := c.Stored[1], c.Stored[2]
		for q, v := range c.Index {
			row := take(int(v), table.Rows)
			for col := range out.Cols {
				if k.Puts != nil && !k.Puts(c, 2, q, col) {
					continue
				}
				p := uint32(0)
				if row >= 0 {
					p = table.Bits(row, col)
				}
				if k.Store != nil {
					p = k.Store(out.DType, num.Widen(out.DType, p))
				}
				out.SetBits(q, col, p)
			}
		}
	}}
}

// RowOf is the correct choice of a row.
func RowOf(v, rows int) int {
	if v < 0 || v >= rows {
		return -1
	}
	return v
}

// Replaced returns p with a change.
func Replaced(p Parts, change func(*Parts)) Parts {
	change(&p)
	return p
}

// ExpTaylor5 reduces its argument correctly and ends the series after the fifth power.
func ExpTaylor5(x float32) float32 {
	if x != x || x < -104 {
		return Exp32(x)
	}
	n := math.Round(float64(x) / math.Ln2)
	r := float64(x) - n*math.Ln2
	p := 1 + r*(1+r*(1./2+r*(1./6+r*(1./24+r/120))))
	return float32(math.Ldexp(p, int(n)))
}
