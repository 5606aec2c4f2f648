package randdef

import (
	"fmt"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
)

// Case is operands and parameters of one call. Every operand lies in a buffer of
// its own, at an odd offset, between guards, with gaps between its rows.
type Case struct {
	Definition *def.Definition
	Operands   []num.Array // in the order of the definition
	Params     []float64   // in the order of the definition

	buffers [][]byte
	starts  []int  // of the operand in its buffer, in bytes
	shared  []bool // inputs whose place an output has taken
}

const guard = 0xa5

// DTypes are random storage formats that the definition's rules allow.
func DTypes(g *gen.Generator, d *def.Definition) []num.DType {
	chosen := make([]num.DType, len(d.Operands))
	var choose func(i int) num.DType
	choose = func(i int) num.DType {
		if chosen[i] != num.NoDType {
			return chosen[i]
		}
		rule := d.Operands[i].DTypes
		allowed := slices.Clone(rule.Allowed)
		if rule.Like != "" {
			allowed = append(allowed, choose(d.Operand(rule.Like)))
		}
		chosen[i] = allowed[g.Below(len(allowed))]
		return chosen[i]
	}
	for i := range d.Operands {
		choose(i)
	}
	return chosen
}

// interesting numbers of columns: chunks, lanes and their tails.
var widths = []int{
	1, 1, 2, 3, 7, 7, 8, 31, 64, 255, 256, 257, 300, 511, 512, 513, 600, 1023, 1024, 1025, 1500,
	2047, 2048, 2049, 4097, 8191, 8192, 8193, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1<<16 + 700,
}

// Sizes are random numbers of rows and columns for a rowwise definition. The work
// of the reference is about rows × columns × nodes; it stays below the limit.
func Sizes(g *gen.Generator, d *def.Definition, limit int) map[string]int {
	elems := max(1, limit/(len(d.Exec.Nodes)+1))
	c := widths[g.Below(len(widths))]
	for c > elems {
		c = widths[g.Below(len(widths))]
	}
	r := 1 + g.Below(9)
	if c < 10 && g.Below(4) == 0 {
		r = 1 + g.Below(5000) // beyond the lanes of a column sum
	}
	return map[string]int{"R": max(1, min(r, elems/c)), "C": c}
}

// NewCase makes operands of the given sizes, by the letters of the definition.
func NewCase(g *gen.Generator, d *def.Definition, dtypes []num.DType, sizes map[string]int) *Case {
	c := &Case{Definition: d, shared: make([]bool, len(d.Operands))}
	for _, p := range d.Params {
		c.Params = append(c.Params, param(g, p))
	}
	for i := range d.Operands {
		o := &d.Operands[i]
		a := c.place(g, dtypes[i], o, sizes)
		switch {
		case o.IsIndex:
			c.fillIndex(g, a, o, sizes[o.Bound])
		case o.IsInt(): // an output
			for r := range a.Rows {
				for col := range a.Cols {
					a.SetBits(r, col, uint32(g.Next()))
				}
			}
		default:
			fill(g, a)
		}
	}
	return c
}

func param(g *gen.Generator, p def.Param) float64 {
	switch {
	case p.IsInt && g.Below(2) == 0:
		return float64(int32(g.Next()))
	case p.IsInt:
		return float64(g.Below(12) - 3)
	case g.Below(3) == 0:
		if v := g.Special(); v == v { // calls refuse NaN
			return float64(v)
		}
	}
	return float64(g.Ordinary()) * (1 + 0x1p-40) // not a binary32
}

// place allocates an operand: guards around, gaps between rows, any alignment.
func (c *Case) place(g *gen.Generator, dtype num.DType, o *def.Operand, sizes map[string]int) num.Array {
	rows, cols := 1, 1
	switch {
	case len(o.Dims) == 2:
		rows, cols = sizes[o.Dims[0]], sizes[o.Dims[1]]
	case len(o.Dims) == 1 && o.Dims[0] == "C":
		cols = sizes["C"]
	case len(o.Dims) == 1:
		rows = sizes[o.Dims[0]]
	}
	stride := cols
	if len(o.Dims) == 2 && rows > 1 && g.Below(2) == 0 {
		stride += 1 + g.Below(5)
	}
	size := dtype.Size()
	start, span := (1+g.Below(9))*size, ((rows-1)*stride+cols)*size
	buffer := make([]byte, start+span+9*size)
	for i := range buffer {
		buffer[i] = guard
	}
	c.buffers = append(c.buffers, buffer)
	c.starts = append(c.starts, start)
	a := num.Array{DType: dtype, Rows: rows, Cols: cols, Stride: stride, Data: buffer[start : start+span : start+span]}
	c.Operands = append(c.Operands, a)
	return a
}

func (c *Case) fillIndex(g *gen.Generator, a num.Array, o *def.Operand, bound int) {
	for r := range a.Rows {
		v := int32(g.Below(bound))
		switch g.Below(8) {
		case 0:
			v = []int32{-1, int32(bound), math.MinInt32, math.MaxInt32}[g.Below(4)]
		case 1:
			if o.Except != "" {
				v = int32(c.Params[c.Definition.Param(o.Except)])
			}
		}
		a.SetBits(r, 0, uint32(v))
	}
}

// fill gives the array one kind of data.
func fill(g *gen.Generator, a num.Array) {
	value := [...]func() float32{
		g.Ordinary, g.Ordinary, g.Special, g.Normal,
		func() float32 { return float32(g.Below(7) - 3) },
		func() float32 { return g.Exponents(-126, 127) },
	}
	kind := g.Below(len(value) + 1)
	for r := range a.Rows {
		for c := range a.Cols {
			if kind == len(value) {
				a.SetBits(r, c, uint32(g.Next())) // any pattern
			} else {
				a.Set(r, c, value[kind]())
			}
		}
	}
}

// Clone copies a case into memory of its own.
func (c *Case) Clone() *Case {
	n := &Case{
		Definition: c.Definition, Params: slices.Clone(c.Params), Operands: slices.Clone(c.Operands),
		starts: slices.Clone(c.starts), shared: slices.Clone(c.shared),
	}
	for i, b := range c.buffers {
		n.buffers = append(n.buffers, slices.Clone(b))
		at := c.starts[i]
		n.Operands[i].Data = n.buffers[i][at : at+len(c.Operands[i].Data) : at+len(c.Operands[i].Data)]
	}
	return n
}

// InPlace is a copy in which every element output takes the place of an element
// input, any that the contract allows; false if no output can.
func (c *Case) InPlace(g *gen.Generator) (*Case, bool) {
	n, any := c.Clone(), false
	d := c.Definition
	for i := range d.Operands {
		partners := d.InPlacePartners(&d.Operands[i])
		first := g.Below(len(partners) + 1)
		for j := range partners {
			if k := d.Operand(partners[(first+j)%len(partners)]); !n.shared[k] && n.Operands[k].DType == n.Operands[i].DType {
				n.shared[k], any = true, true
				n.Operands[i] = n.Operands[k]
				break
			}
		}
	}
	return n, any
}

// Diff says where got differs from want, a case with the same operands on which
// the answer has been computed: an output's bits, where all NaN are one; an input;
// a guard or a gap between rows. It is empty if there is no difference.
func Diff(got, want *Case) string {
	d := want.Definition
	for i := range d.Operands {
		o := &d.Operands[i]
		if text := got.guards(i); text != "" {
			return text
		}
		if got.shared[i] {
			continue
		}
		x, y := got.Operands[i], want.Operands[i]
		for r := range y.Rows {
			for c := range y.Cols {
				a, b := x.Bits(r, c), y.Bits(r, c)
				if o.IsOut && d.Kind != def.KindGather {
					a, b = num.Canonical(y.DType, a), num.Canonical(y.DType, b)
				}
				if a != b {
					return fmt.Sprintf("%s[%d,%d] of [%d %d] %s: got 0x%0*x, want 0x%0*x (%v, %v)", o.Name, r, c, y.Rows, y.Cols, y.DType,
						2*y.DType.Size(), a, 2*y.DType.Size(), b, num.Widen(y.DType, a), num.Widen(y.DType, b))
				}
			}
		}
	}
	return ""
}

// guards says which byte around an operand or between its rows has changed.
func (c *Case) guards(i int) string {
	buffer, at := c.buffers[i], c.starts[i]
	a := c.Operands[i]
	if len(a.Data) == 0 || &a.Data[0] != &buffer[at] {
		return "" // an output in the place of an input, whose buffer is looked at instead
	}
	size := a.DType.Size()
	check := func(from, to int) string {
		for k := from; k < to; k++ {
			if buffer[k] != guard {
				return fmt.Sprintf("%s: byte %d outside its elements has changed", c.Definition.Operands[i].Name, k-at)
			}
		}
		return ""
	}
	if text := check(0, at); text != "" {
		return text
	}
	for r := range a.Rows {
		end := at + (r*a.Stride+a.Cols)*size
		next := len(buffer)
		if r+1 < a.Rows {
			next = at + (r+1)*a.Stride*size
		}
		if text := check(end, next); text != "" {
			return text
		}
	}
	return ""
}
