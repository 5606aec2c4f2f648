package truthtest

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
)

// dual is a number and its derivative.
type dual struct{ v, d float64 }

// model interprets a rowwise definition in float64 with the errors that the promise stable
// allows: an independent and slow account of the inequality, from the definition's text alone.
type model struct {
	t        *testing.T
	d        *def.Definition
	operands []num.Array
	params   []float64
	height   func(terms int) int
	rows     int
	cols     int

	// error returns the change of a value: that of node n at a row and a column, given the
	// largest that is allowed.
	error func(n *def.Node, row, col int, most float64) dual

	// read has, by node, the errors that elements of the other column have where they are read: as errors of their own.
	read map[*def.Node][]float64
}

func newModel(t *testing.T, d *def.Definition, operands []num.Array, params []float64) *model {
	m := &model{t: t, d: d, operands: operands, params: params, height: func(n int) int { return max(n-1, 0) }}
	for i, o := range d.Operands {
		if o.Extent == def.PerElement {
			m.rows, m.cols = operands[i].Rows, operands[i].Cols
		}
	}
	return m
}

// values are those of a node: by row and column, where it has several.
type values struct {
	x    []dual
	i    []int
	b    []bool
	n    *def.Node
	cols int
}

func (z *values) at(r, c int) int {
	if z.n.Extent&def.PerRow == 0 {
		r = 0
	}
	if z.n.Extent&def.PerColumn == 0 {
		return r
	}
	return r*z.cols + c
}

// evaluate returns the values of every node.
func (m *model) evaluate() []values {
	all := make([]values, len(m.d.Math().Nodes))
	for _, n := range m.d.Math().Nodes {
		rows, cols := 1, 1
		if n.Extent&def.PerRow != 0 {
			rows = m.rows
		}
		if n.Extent&def.PerColumn != 0 {
			cols = m.cols
		}
		z := &all[n.ID]
		*z = values{n: n, cols: cols, x: make([]dual, rows*cols), i: make([]int, rows*cols), b: make([]bool, rows*cols)}
		for r := range rows {
			for c := range cols {
				m.element(all, n, r, c)
			}
		}
	}
	return all
}

func (m *model) element(all []values, n *def.Node, r, c int) {
	out := &all[n.ID]
	at := out.at(r, c)
	x := func(k int) dual { a := &all[n.Args[k].ID]; return a.x[a.at(r, c)] }
	i := func(k int) int { a := &all[n.Args[k].ID]; return a.i[a.at(r, c)] }
	b := func(k int) bool { a := &all[n.Args[k].ID]; return a.b[a.at(r, c)] }
	const u = 0x1p-24
	set := func(v, d, most float64) {
		z := dual{v, d}
		if m.error != nil && most > 0 {
			e := m.error(n, r, c, most)
			z.v, z.d = z.v+e.v, z.d+e.d
		}
		out.x[at] = z
	}
	sum := func(rows, cols []int) {
		v, d, size := 0.0, 0.0, 0.0
		a := &all[n.Args[0].ID]
		for _, r := range rows {
			for _, c := range cols {
				t := a.x[a.at(r, c)]
				v, d, size = v+t.v, d+t.d, size+max(math.Abs(t.v), m.parts(all, n.Args[0], r, c))
			}
		}
		h := m.height(len(rows) * len(cols))
		if op := n.Args[0].Op; op == def.OpAdd || op == def.OpSub {
			h = max(h, 4)
		}
		set(v, d, float64(h)*u*size)
	}
	extreme := func(sign float64) {
		a := &all[n.Args[0].ID]
		best := a.x[a.at(r, 0)]
		for c := range m.cols {
			if v := a.x[a.at(r, c)]; sign*v.v > sign*best.v {
				best = v
			}
		}
		set(best.v, best.d, 0)
	}
	lost := func(v float64) float64 {
		if v == 0 {
			return 0
		}
		most := 4.0
		if n.Op == def.OpDiv && n.Args[0].Op == def.OpRowSum && n.Args[1].Extent&def.PerColumn == 0 { // the terms may be divided
			most = max(most, float64(m.cols))
		}
		return most * 0x1p-150
	}
	switch n.Op {
	case def.OpInput:
		a := m.operands[n.Operand]
		if n.Type == def.Int {
			out.i[at] = int(a.Int(r, c))
		} else {
			v := float64(a.At(r, c))
			set(v, 0, 4*u*math.Abs(v))
		}
	case def.OpLookup:
		if a, k := m.operands[n.Args[0].Operand], i(1); 0 <= k && k < a.Rows {
			v := float64(a.At(k, c))
			set(v, 0, 4*u*math.Abs(v))
		}
	case def.OpParam:
		out.i[at] = int(m.params[n.Param])
		set(float64(float32(m.params[n.Param])), 0, 0)
	case def.OpConst:
		v := float64(n.Real.F32())
		if big := n.Real.Big(80); big != nil {
			v, _ = big.Float64()
		}
		set(v, 0, 0)
	case def.OpInt:
		out.i[at] = int(n.Int)
	case def.OpColumns:
		set(float64(m.cols), 0, 0)
	case def.OpRows:
		set(float64(m.rows), 0, 0)
	case def.OpCol:
		out.i[at] = c
	case def.OpRandom:
		word := func(k int) uint64 { return uint64(uint32(i(k))) }
		e := uint64(r*m.cols + c)
		if len(n.Args) > 4 {
			e += word(4) | word(5)<<32
		}
		block := num.Philox(word(0)|word(1)<<32, [4]uint32{uint32(e >> 2), uint32(e >> 34), uint32(word(2)), uint32(word(3))})
		out.i[at] = int(int32(block[e&3]))
	case def.OpPartner:
		if k := c ^ 1; k < m.cols {
			a := &all[n.Args[0].ID]
			v := a.x[a.at(r, k)]
			if own, ok := m.read[n]; ok {
				set(v.v, 0, own[a.at(r, k)])
			} else {
				set(v.v, v.d, 0)
			}
		}
	case def.OpIAnd:
		out.i[at] = int(int32(i(0)) & int32(i(1)))
	case def.OpIXor:
		out.i[at] = int(int32(i(0)) ^ int32(i(1)))
	case def.OpIAdd:
		out.i[at] = int(int32(i(0)) + int32(i(1)))
	case def.OpIMul:
		out.i[at] = int(int32(i(0)) * int32(i(1)))
	case def.OpUMulHigh:
		out.i[at] = int(int32(uint64(uint32(i(0))) * uint64(uint32(i(1))) >> 32))
	case def.OpIToF:
		if float64(float32(i(0))) != float64(i(0)) {
			m.t.Fatalf("%s: no model for itof of %d", m.d.Name, i(0))
		}
		set(float64(i(0)), 0, 0)
	case def.OpAdd:
		set(x(0).v+x(1).v, x(0).d+x(1).d, 0)
	case def.OpSub:
		set(x(0).v-x(1).v, x(0).d-x(1).d, 0)
	case def.OpMul:
		v := x(0).v * x(1).v
		set(v, x(0).d*x(1).v+x(0).v*x(1).d, lost(v))
	case def.OpFMA:
		v := x(0).v*x(1).v + x(2).v
		set(v, x(0).d*x(1).v+x(0).v*x(1).d+x(2).d, lost(v))
	case def.OpDiv:
		v := x(0).v / x(1).v
		set(v, (x(0).d-v*x(1).d)/x(1).v, u*math.Abs(v)+lost(v))
	case def.OpSqrt:
		v := math.Sqrt(x(0).v)
		d := 0.0
		if v > 0 {
			d = x(0).d / (2 * v)
		}
		set(v, d, u*v)
	case def.OpNeg:
		set(-x(0).v, -x(0).d, 0)
	case def.OpAbs:
		if x(0).v < 0 {
			set(-x(0).v, -x(0).d, 0)
		} else {
			set(x(0).v, x(0).d, 0)
		}
	case def.OpMin:
		if x(1).v < x(0).v {
			set(x(1).v, x(1).d, 0)
		} else {
			set(x(0).v, x(0).d, 0)
		}
	case def.OpMax:
		if x(1).v > x(0).v {
			set(x(1).v, x(1).d, 0)
		} else {
			set(x(0).v, x(0).d, 0)
		}
	case def.OpRint:
		set(math.RoundToEven(x(0).v), 0, 0)
	case def.OpScale:
		v := math.Ldexp(x(0).v, int(x(1).v))
		set(v, math.Ldexp(x(0).d, int(x(1).v)), 2*lost(v))
	case def.OpSRound: // of an output, whose bound is that of the value before it is stored
		set(x(0).v, x(0).d, 0)
	case def.OpRound:
		d := n.Storage.Fixed
		if n.Storage.Of != "" {
			d = m.operands[m.d.Operand(n.Storage.Of)].DType
		}
		if sum := n.Args[0]; m.stores(n, d) && sum.Op == def.OpAdd && sum.Args[0].Op == def.OpInput && sum.Args[1].Op == def.OpInput {
			stored := func(k int) float32 { return m.operands[sum.Args[k].Operand].At(r, c) }
			v := float64(num.Round(d, stored(0)+stored(1)))
			set(v, 0, 4*u*math.Abs(v)) // like an input
			break
		}
		most := num.ULP(d, 1)/2*math.Abs(x(0).v) + num.ULP(d, 0)/2
		if d == num.F32 {
			most = 0
		}
		set(x(0).v, x(0).d, most)
	case def.OpCall:
		v, slope := m.function(n.Func.Math, x(0).v)
		k := 2 * max(2, n.Func.ULPs)
		set(v, slope*x(0).d, k*u*math.Abs(v)+max(k*0x1p-150, 1/math.MaxFloat32))
	case def.OpLess, def.OpLessEqual, def.OpEqual:
		// The comparisons of the definitions tested here are exact: of inputs and constants.
		left, right := x(0).v, x(1).v
		if n.Args[0].Type == def.Int {
			left, right = float64(i(0)), float64(i(1))
		}
		out.b[at] = map[def.Op]bool{def.OpLess: left < right, def.OpLessEqual: left <= right, def.OpEqual: left == right}[n.Op]
	case def.OpInside:
		out.b[at] = 0 <= i(0) && i(0) < m.cols
	case def.OpSelect:
		k := 2
		if b(0) {
			k = 1
		}
		set(x(k).v, x(k).d, 0)
		out.i[at] = i(k)
	case def.OpRowSum:
		if n.Type == def.Int {
			a, total := &all[n.Args[0].ID], int32(0)
			for c := range m.cols {
				total += int32(a.i[a.at(r, c)])
			}
			out.i[at] = int(total)
			break
		}
		sum([]int{r}, upTo(m.cols))
	case def.OpColSum:
		sum(upTo(m.rows), []int{c})
	case def.OpTotalSum:
		sum(upTo(m.rows), upTo(m.cols))
	case def.OpRowMax:
		extreme(1)
	case def.OpRowMin:
		extreme(-1)
	case def.OpAt:
		if k := i(1); 0 <= k && k < m.cols {
			a := &all[n.Args[0].ID]
			v := a.x[a.at(r, k)]
			set(v.v, v.d, 0)
		}
	default:
		m.t.Fatalf("%s: no model for %s", m.d.Name, n.Op)
	}
}

// stores reports whether a node is an output in format d.
func (m *model) stores(n *def.Node, d num.DType) bool {
	for _, o := range m.d.Math().Outputs {
		if o.Value == n && m.operands[o.Operand].DType == d {
			return true
		}
	}
	return false
}

// parts returns the magnitudes of the parts of a term that differ between columns.
func (m *model) parts(all []values, n *def.Node, r, c int) float64 {
	if n.Op != def.OpAdd && n.Op != def.OpSub && n.Op != def.OpNeg {
		a := &all[n.ID]
		return math.Abs(a.x[a.at(r, c)].v)
	}
	sum := 0.0
	for _, a := range n.Args {
		if a.Extent&def.PerColumn != 0 {
			sum += m.parts(all, a, r, c)
		}
	}
	return sum
}

func (m *model) function(f def.Math, x float64) (v, slope float64) {
	switch f {
	case def.MathExp:
		return math.Exp(x), math.Exp(x)
	case def.MathExp2:
		return math.Exp2(x), math.Exp2(x) * math.Ln2
	case def.MathExpm1:
		return math.Expm1(x), math.Exp(x)
	case def.MathLog:
		return math.Log(x), 1 / x
	case def.MathLog2:
		return math.Log2(x), 1 / (x * math.Ln2)
	case def.MathLog1p:
		return math.Log1p(x), 1 / (1 + x)
	case def.MathTanh:
		return math.Tanh(x), 1 / (math.Cosh(x) * math.Cosh(x))
	case def.MathSigmoid:
		s := 1 / (1 + math.Exp(-x))
		return s, s / (1 + math.Exp(x))
	case def.MathRecip:
		return 1 / x, -1 / (x * x)
	case def.MathSqrt:
		return math.Sqrt(x), 0.5 / math.Sqrt(x)
	case def.MathRsqrt:
		return 1 / math.Sqrt(x), -0.5 / (x * math.Sqrt(x))
	case def.MathSin:
		return math.Sin(x), math.Cos(x)
	case def.MathCos:
		return math.Cos(x), -math.Sin(x)
	case def.MathErf:
		return math.Erf(x), 2 / math.Sqrt(math.Pi) * math.Exp(-x*x)
	case def.MathErfcx:
		y := math.Exp(x*x) * math.Erfc(x)
		return y, 2*x*y - 2/math.Sqrt(math.Pi)
	}
	m.t.Fatalf("%s: no model for function %s", m.d.Name, f)
	return 0, 0
}

func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// inequality returns the right-hand side of the inequality, to first order, for each float output by operand. What the other column of a
// pair reads has its error as one of its own.
func (m *model) inequality() map[int][]float64 {
	m.read = map[*def.Node][]float64{}
	defer func() { m.read = nil }()
	for _, n := range m.d.Math().Nodes {
		if n.Op == def.OpPartner && n.Type == def.Float {
			m.read[n] = m.bounds(n.Args[:1])[0]
		}
	}
	var results []*def.Node
	for _, o := range m.d.Math().Outputs {
		results = append(results, o.Value)
	}
	exact, bounds, bound := m.evaluate(), m.bounds(results), map[int][]float64{}
	for k, o := range m.d.Math().Outputs {
		for i, y := range exact[o.Value.ID].x {
			bounds[k][i] += 4 * 0x1p-24 * math.Abs(y.v)
		}
		bound[o.Operand] = bounds[k]
	}
	return bound
}

// bounds returns the sums of the effects of all errors on the elements of nodes: one evaluation with derivatives for each value that has
// an error.
func (m *model) bounds(of []*def.Node) [][]float64 {
	type place struct {
		node     *def.Node
		row, col int
	}
	limits := map[place]float64{}
	var places []place
	m.error = func(n *def.Node, row, col int, most float64) dual {
		p := place{n, row, col}
		limits[p] = most
		places = append(places, p)
		return dual{}
	}
	exact := m.evaluate()
	var bound [][]float64
	for _, n := range of {
		bound = append(bound, make([]float64, len(exact[n.ID].x)))
	}
	for _, p := range places {
		m.error = func(n *def.Node, row, col int, _ float64) dual {
			if (place{n, row, col}) == p {
				return dual{0, 1}
			}
			return dual{}
		}
		changed := m.evaluate()
		for k, n := range of {
			for i, y := range changed[n.ID].x {
				bound[k][i] += math.Abs(y.d) * limits[p]
			}
		}
	}
	return bound
}
