package rope

import (
	"maps"
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

// turnedOf names what a definition of interleaved pairs turns, and the result.
func turnedOf(d *def.Definition) (x, y string) {
	if d == InterleavedBackwardDefinition {
		return "dy", "dx"
	}
	return "x", "y"
}

// wave has the waves of cosine and sine as neighbours.
func wave(g *gen.Generator, r, c int) float32 {
	if c%2 == 0 {
		return cosine(g, r, c/2)
	}
	return sine(g, r, c/2)
}

// waves returns a table of two numbers.
func waves(cos, sin float32) op.Element {
	return func(_ *gen.Generator, _, c int) float32 { return [2]float32{cos, sin}[c%2] }
}

func interleavedData(d *def.Definition) []op.Data {
	x, _ := turnedOf(d)
	kind := func(name string, e op.Element) op.Data {
		return op.Data{Name: name, Definition: d, Sizes: map[string]int{"R": 512, "C": 128, "P": 128}, Values: map[string]op.Element{x: e, "wave": wave}}
	}
	return []op.Data{kind("normal", op.Normal), kind("wide", op.Wide)}
}

func interleavedPatterns(d *def.Definition) []op.Pattern {
	x, _ := turnedOf(d)
	var list []op.Pattern
	add := func(name string, values map[string]op.Element, index op.Index) {
		p := op.Pattern{Name: name, Definition: d, Values: map[string]op.Element{"wave": wave}}
		maps.Copy(p.Values, values)
		if index != nil {
			p.Index = map[string]op.Index{"position": index}
		}
		list = append(list, p)
	}
	of := func(e op.Element) map[string]op.Element { return map[string]op.Element{x: e} }
	add("first-position", nil, func(*gen.Generator, int, int) int { return 0 })
	add("both-ends", nil, func(_ *gen.Generator, r, bound int) int { return r % 2 * (bound - 1) })
	add("ascending-positions", nil, func(_ *gen.Generator, r, bound int) int { return r % bound })
	add("just-outside", nil, func(_ *gen.Generator, r, bound int) int { return []int{-1, bound, 0, bound - 1}[r%4] })
	add("quarter-turn", map[string]op.Element{"wave": waves(0, 1)}, nil)
	add("no-turn", map[string]op.Element{"wave": waves(1, 0)}, nil)
	add("cancels", map[string]op.Element{ // a*c = b*s, up to a rounding
		x: func(g *gen.Generator, r, c int) float32 { return shared(r, c/2) }, "wave": waves(math.Sqrt2/2, math.Sqrt2/2),
	}, nil)
	add("waves-not-of-an-angle", map[string]op.Element{"wave": op.Wide}, nil)
	add("wide", of(op.Wide), nil)
	add("one-column-huge", of(func(g *gen.Generator, _, c int) float32 { return g.Normal() * [2]float32{10000, 0x1p-10}[c%2] }), nil)
	add("largest-f16", of(func(g *gen.Generator, r, c int) float32 { return sign(r+c/2) * (65504 - float32(32*g.Below(200))) }), nil)
	add("subnormal-f16", of(func(g *gen.Generator, r, c int) float32 { return sign(r+c) * 0x1p-24 * float32(g.Below(1<<10)) }), nil)
	add("subnormal", of(func(g *gen.Generator, r, c int) float32 {
		return sign(r+c) * math.Float32frombits(uint32(g.Below(1<<23)))
	}), nil)
	add("quarters", map[string]op.Element{ // sums and products are exact
		x:      func(g *gen.Generator, _, _ int) float32 { return float32(g.Below(7) - 3) },
		"wave": func(_ *gen.Generator, r, c int) float32 { return [4]float32{1, 0, -1, 0}[(r+c/2+3*(c%2))&3] },
	}, nil)
	list[len(list)-1].IsGrid = true
	return list
}

func interleavedScalings(d *def.Definition) []op.Scaling {
	x, y := turnedOf(d)
	return []op.Scaling{
		{Name: "scaled-" + x, Definition: d, Inputs: map[string]int{x: 1}, Outputs: map[string]int{y: 1}},
		{Name: "scaled-wave", Definition: d, Inputs: map[string]int{"wave": 1}, Outputs: map[string]int{y: 1}},
	}
}

// neighbours returns the exact result of each element and the size of its product that is rounded.
func neighbours(call *bound.Call) func(r, c int) turned {
	d := call.Definition
	name, _ := turnedOf(d)
	x, w, position := call.Matrix(name), call.Matrix("wave"), call.Operands[d.Operand("position")]
	at := func(m bound.Matrix, r, c int) float64 {
		if r < 0 || r >= m.Rows || c >= m.Cols {
			return 0
		}
		return m.At(r, c)
	}
	return func(r, c int) turned {
		p, even := int(position.Int(r, 0)), c&^1
		pair := turns(at(x, r, even), at(x, r, even+1), at(w, p, even), at(w, p, even+1), d == InterleavedBackwardDefinition)
		return pair[c&1]
	}
}

func interleavedBounds(d *def.Definition) []bound.Form {
	_, y := turnedOf(d)
	return []bound.Form{{
		Output: y,
		Text:   []string{"bound = 1.001*(u*(|b*w'| + |" + y + "|) + 2^-149), b the second element of the pair, w' the wave in the other column"},
		At: func(call *bound.Call) func(r, c int) float64 {
			at := neighbours(call)
			return func(r, c int) float64 { return bound.More * at(r, c).error() }
		},
	}}
}

// inPair covers the results of pairs in which an element is of some kind.
func inPair(covers op.Covering) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		at, cols := covers(c), c.Operands[0].Cols
		return func(operand, row, col int) bool {
			return at(operand, row, col) || col^1 < cols && at(operand, row, col^1)
		}
	}
}

// inWave covers the results of pairs with what is no number in their row of the table.
func inWave(c *bound.Call) func(operand, row, col int) bool {
	w, position := c.Matrix("wave"), c.Operands[c.Definition.Operand("position")]
	return func(_, row, col int) bool {
		p := int(position.Int(row, 0))
		return p >= 0 && p < w.Rows && op.IsNoNumber(w.At(p, col))
	}
}

// outsideWave covers the rows whose position names no row of the table.
func outsideWave(c *bound.Call) func(operand, row, col int) bool {
	w, position := c.Matrix("wave"), c.Operands[c.Definition.Operand("position")]
	return func(_, row, _ int) bool { p := int(position.Int(row, 0)); return p < 0 || p >= w.Rows }
}

func neighboursResult(c *bound.Call) func(operand, row, col int) float64 {
	at := neighbours(c)
	return func(_, row, col int) float64 { return at(row, col).value }
}

var interleavedForwardClauses = op.ClausesOf(InterleavedForwardDefinition,
	op.Interfaces(),
	op.Specially(outsideWave),
	op.InfiniteOrNaN(inPair(inWave)),
	op.Specially(inPair(op.Where(op.IsNaN, "x"))),
	op.InfiniteOrNaN(inPair(op.Where(op.IsInfinite, "x"))),
	op.Calculates(),
	op.Specially(op.Either(inPair(op.WhereSubnormal("x")), op.WhereResult(op.IsAtAnEnd, neighboursResult))),
	op.Interfaces(),
)

var interleavedBackwardClauses = op.ClausesOf(InterleavedBackwardDefinition,
	op.Calculates(),
	op.Interfaces(),
	op.Specially(outsideWave),
	op.Interfaces(),
)
