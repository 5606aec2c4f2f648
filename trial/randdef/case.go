package randdef

import (
	"maps"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/trial"
)

// Case holds the operands and parameters of one call. Every operand is between guards, at
// any alignment, perhaps with gaps between its rows.
type Case struct {
	Definition *def.Definition
	Operands   []num.Array // in the order of the definition: views of Memory
	Params     []float64   // in the order of the definition
	Memory     *trial.Operands
}

// DTypes returns random storage formats that the definition allows.
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

// widths are numbers of columns around the ends of chunks and lanes.
var widths = []int{
	1, 1, 2, 3, 7, 7, 8, 31, 64, 255, 256, 257, 300, 511, 512, 513, 600, 1023, 1024, 1025, 1500,
	2047, 2048, 2049, 4097, 8191, 8192, 8193, 1<<16 - 1, 1 << 16, 1<<16 + 1, 1<<16 + 700,
}

// Sizes returns random numbers of rows and columns for a rowwise definition, and of the rows of
// its tables. The work of the
// reference, about rows × columns × nodes, stays below the limit.
func Sizes(g *gen.Generator, d *def.Definition, limit int) map[string]int {
	elems := max(1, limit/(len(d.Exec().Nodes)+1))
	c := widths[g.Below(len(widths))]
	for c > elems {
		c = widths[g.Below(len(widths))]
	}
	r := 1 + g.Below(9)
	if c < 10 && g.Below(4) == 0 {
		r = 1 + g.Below(5000) // beyond the lanes of a column sum
	}
	sizes := map[string]int{"R": max(1, min(r, elems/c)), "C": c}
	if slots := d.AxisOf(def.Slot); slots != "" {
		sizes[slots] = 1 + g.Below(min(c, 40)+1)
	}
	drawTables(g, d, sizes, elems/c)
	return sizes
}

// drawTables draws the numbers of tables' rows that are not known.
func drawTables(g *gen.Generator, d *def.Definition, sizes map[string]int, most int) {
	for _, a := range d.Axes() {
		if a.Role == def.Indexed && sizes[a.Letter] == 0 {
			sizes[a.Letter] = 1 + g.Below(max(1, min(300, most)))
		}
	}
}

// NewCase returns a case with operands of the given sizes, by the letters of the definition.
// It draws numbers of rows of a rowwise definition's tables that are not given.
func NewCase(g *gen.Generator, d *def.Definition, dtypes []num.DType, sizes map[string]int) *Case {
	c := &Case{Definition: d, Memory: &trial.Operands{Definition: d}}
	if d.Expression() != nil {
		sizes = maps.Clone(sizes)
		drawTables(g, d, sizes, 9)
	}
	for _, p := range d.Params {
		c.Params = append(c.Params, param(g, p))
	}
	for i := range d.Operands {
		o := &d.Operands[i]
		a := c.Memory.Add(dtypes[i], sizes, layout(g, o, sizes))
		switch {
		case o.IsOffsets:
			n := sizes[o.Bound]
			trial.FillOffsets(a, n, func(int) int { return g.Below(n + 1) }) // groups may be empty
		case o.IsLengths || o.Lengths != "":
			fillPages(g, d, i, c.Memory.Arrays(), sizes)
		case o.IsIndex:
			c.fillIndex(g, a, o, sizes[o.Bound])
		case o.IsInt():
			trial.FillBits(a, func(int, int) uint32 { return uint32(g.Int32()) })
		default:
			fill(g, a)
		}
	}
	c.Operands = c.Memory.Arrays()
	return c
}

// FillNormal fills floats with normally distributed values, among which every rounding counts, and sets
// parameters to a factor for them, or to one that makes almost everything underflow.
func FillNormal(g *gen.Generator, c *Case) {
	for i := range c.Definition.Operands {
		if o := &c.Definition.Operands[i]; o.IsIn && !o.IsInt() {
			trial.Fill(c.Operands[i], func(int, int) float32 { return g.Normal() })
		}
	}
	for i, p := range c.Definition.Params {
		if !p.IsInt {
			c.Params[i] = []float64{0.3, 0.3, 0.3, -0x1p-148}[g.Below(4)]
		}
	}
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

// layout draws gaps between rows, or none, and any alignment.
func layout(g *gen.Generator, o *def.Operand, sizes map[string]int) trial.Layout {
	var l trial.Layout
	if rows, _ := o.Matrix(sizes); len(o.Dims) >= 2 && rows > 1 && g.Below(2) == 0 {
		l.Gap = 1 + g.Below(5)
	}
	l.Offset = 1 + g.Below(9)
	if len(o.Dims) > 2 {
		stack(g, &l, o)
	}
	return l
}

func (c *Case) fillIndex(g *gen.Generator, a num.Array, o *def.Operand, bound int) {
	trial.FillBits(a, func(int, int) uint32 {
		v := int32(g.Below(bound))
		switch g.Below(8) {
		case 0:
			v = []int32{-1, int32(bound), math.MinInt32, math.MaxInt32}[g.Below(4)]
		case 1:
			if o.Except != "" {
				v = int32(c.Params[c.Definition.Param(o.Except)])
			}
		}
		return uint32(v)
	})
}

// fill fills an array with one kind of data.
func fill(g *gen.Generator, a num.Array) {
	value := [...]func() float32{
		g.Ordinary, g.Ordinary, g.Special, g.Normal,
		func() float32 { return float32(g.Below(7) - 3) },
		func() float32 { return g.Exponents(-126, 127) },
	}
	kind := g.Below(len(value) + 1)
	if kind == len(value) {
		trial.FillBits(a, func(int, int) uint64 { return g.Next() }) // any pattern
		return
	}
	trial.Fill(a, func(int, int) float32 { return value[kind]() })
}

// Clone returns a copy in memory of its own.
func (c *Case) Clone() *Case {
	n := &Case{Definition: c.Definition, Params: slices.Clone(c.Params), Memory: c.Memory.Clone()}
	n.Operands = n.Memory.Arrays()
	return n
}

// Relaid returns a copy in another layout.
func (c *Case) Relaid(layout func(operand int) trial.Layout) *Case {
	n := &Case{Definition: c.Definition, Params: slices.Clone(c.Params), Memory: trial.CopyOf(c.Definition, c.Operands, layout)}
	n.Operands = n.Memory.Arrays()
	return n
}

// InPlace returns a copy in which every element output takes the place of a random element
// input that the contract allows; false if no output can.
func (c *Case) InPlace(g *gen.Generator) (*Case, bool) {
	n, any := c.Clone(), false
	d := c.Definition
	for i := range d.Operands {
		partners := d.InPlacePartners(&d.Operands[i])
		first := g.Below(len(partners) + 1)
		for j := range partners {
			if n.Memory.Replace(i, d.Operand(partners[(first+j)%len(partners)])) {
				any = true
				break
			}
		}
	}
	n.Operands = n.Memory.Arrays()
	return n, any
}

// Diff says where got differs from want, a case with the same operands whose outputs are the
// answer: in an output, an input, a guard or a gap between rows. It returns "" if nowhere.
func Diff(got, want *Case) string { return got.Memory.Fault(want.Memory) }
