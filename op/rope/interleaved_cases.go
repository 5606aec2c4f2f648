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
	if d == InterleavedBackwardDefinition || d == InterleavedNormBackwardDefinition {
		return "dy", "dx"
	}
	return "x", "y"
}

func hasNorm(d *def.Definition) bool {
	return d == InterleavedNormForwardDefinition || d == InterleavedNormBackwardDefinition
}

// usualWaves are the usual values of the table, and of the factors of a norm.
func usualWaves(d *def.Definition) map[string]op.Element {
	values := map[string]op.Element{"wave": wave}
	if hasNorm(d) {
		values["gamma"] = op.Around(1)
	}
	if d == InterleavedNormBackwardDefinition {
		values["rstd"] = op.Between(1, 2)
	}
	return values
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
		data := op.Data{Name: name, Definition: d, Sizes: map[string]int{"R": 512, "C": 128, "P": 128}, Values: usualWaves(d)}
		data.Values[x] = e
		if len(d.Params) > 0 {
			data.Params = []float64{DefaultEps}
		}
		return data
	}
	return []op.Data{kind("normal", op.Normal), kind("wide", op.Wide)}
}

func interleavedPatterns(d *def.Definition) []op.Pattern {
	x, _ := turnedOf(d)
	var list []op.Pattern
	add := func(name string, values map[string]op.Element, index op.Index) {
		p := op.Pattern{Name: name, Definition: d, Values: usualWaves(d)}
		maps.Copy(p.Values, values)
		if len(d.Params) > 0 {
			p.Params = []float64{DefaultEps}
		}
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
	list[len(list)-1].IsGrid = !hasNorm(d)
	outlier := func(g *gen.Generator, r, c int) float32 {
		if c == r%9 {
			return 1000
		}
		return g.Normal()
	}
	zeroOrNegative := func(_ *gen.Generator, _, c int) float32 { return float32(c%3) - 1 }
	switch d {
	case InterleavedNormForwardDefinition:
		add("zero-rows", of(func(_ *gen.Generator, r, c int) float32 { return 0 * sign(r+c) }), nil)
		add("one-outlier", of(outlier), nil)
		add("square-like-eps", of(op.Scaled(0x1p-10)), nil)
		add("squares-overflow", of(op.Scaled(0x1p66)), nil) // infinities in f16
		add("gamma-zero-or-negative", map[string]op.Element{"gamma": zeroOrNegative}, nil)
	case InterleavedNormBackwardDefinition:
		add("rstd-zero", map[string]op.Element{"rstd": constant(0)}, nil)
		add("along-x", map[string]op.Element{ // u is xhat, so that dx cancels
			"x": func(_ *gen.Generator, r, c int) float32 { return shared(r, c) }, "dy": func(_ *gen.Generator, r, c int) float32 { return shared(r, c) },
			"wave": waves(1, 0), "gamma": constant(1), "rstd": constant(1),
		}, nil)
		add("one-outlier", map[string]op.Element{"x": outlier}, nil)
		add("gamma-zero-or-negative", map[string]op.Element{"gamma": zeroOrNegative}, nil)
	}
	return list
}

func interleavedScalings(d *def.Definition) []op.Scaling {
	x, y := turnedOf(d)
	switch d {
	case InterleavedNormForwardDefinition:
		return []op.Scaling{
			{Name: "scaled-gamma", Definition: d, Inputs: map[string]int{"gamma": 1}, Outputs: map[string]int{y: 1}},
			{Name: "scaled-wave", Definition: d, Inputs: map[string]int{"wave": 1}, Outputs: map[string]int{y: 1}},
			{Name: "scaled-x", Definition: d, Inputs: map[string]int{x: 1}, Params: map[string]int{"eps": 2}, Outputs: map[string]int{"rstd": -1}},
		}
	case InterleavedNormBackwardDefinition:
		return []op.Scaling{
			{Name: "scaled-dy", Definition: d, Inputs: map[string]int{x: 1}, Outputs: map[string]int{y: 1, "dgamma": 1}},
			{Name: "scaled-gamma", Definition: d, Inputs: map[string]int{"gamma": 1}, Outputs: map[string]int{y: 1}},
		}
	}
	return []op.Scaling{
		{Name: "scaled-" + x, Definition: d, Inputs: map[string]int{x: 1}, Outputs: map[string]int{y: 1}},
		{Name: "scaled-wave", Definition: d, Inputs: map[string]int{"wave": 1}, Outputs: map[string]int{y: 1}},
	}
}

// waveOf returns the cosine and the sine of the pair of each element: zeros where a position names none.
func waveOf(call *bound.Call) func(r, c int) (cos, sin float64) {
	w, position := call.Matrix("wave"), call.Operands[call.Definition.Operand("position")]
	return func(r, c int) (cos, sin float64) {
		p := int(position.Int(r, 0))
		return inTable(w, p, c&^1), inTable(w, p, c|1)
	}
}

// inTable returns an element, and 0 of what is outside of a matrix.
func inTable(m bound.Matrix, r, c int) float64 {
	if r < 0 || r >= m.Rows || c >= m.Cols {
		return 0
	}
	return m.At(r, c)
}

// neighbours returns the exact result of turning each element of x, and the size of its product that is rounded.
func neighbours(call *bound.Call, x func(r, c int) float64, cols int, isBack bool) func(r, c int) turned {
	wave := waveOf(call)
	return func(r, c int) turned {
		cos, sin := wave(r, c)
		second := 0.0
		if c|1 < cols {
			second = x(r, c|1)
		}
		return turns(x(r, c&^1), second, cos, sin, isBack)[c&1]
	}
}

// neighboursOf is neighbours of what a definition without a norm turns.
func neighboursOf(call *bound.Call) func(r, c int) turned {
	name, _ := turnedOf(call.Definition)
	x := call.Matrix(name)
	return neighbours(call, x.At, x.Cols, name == "dy")
}

func interleavedBounds(d *def.Definition) []bound.Form {
	_, y := turnedOf(d)
	return []bound.Form{{
		Output: y,
		Text:   []string{"bound = 1.001*(u*(|b*w'| + |" + y + "|) + 2^-149), b the second element of the pair, w' the wave in the other column"},
		At: func(call *bound.Call) func(r, c int) float64 {
			at := neighboursOf(call)
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

// outsideWave covers the rows whose position names no row of the table, and sums over such rows.
func outsideWave(c *bound.Call) func(operand, row, col int) bool {
	w, position := c.Matrix("wave"), c.Operands[c.Definition.Operand("position")]
	isBad := func(row int) bool { p := int(position.Int(row, 0)); return p < 0 || p >= w.Rows }
	return func(operand, row, _ int) bool {
		if c.Definition.Operands[operand].Name != "dgamma" {
			return isBad(row)
		}
		for r := range position.Rows {
			if isBad(r) {
				return true
			}
		}
		return false
	}
}

func neighboursResult(c *bound.Call) func(operand, row, col int) float64 {
	at := neighboursOf(c)
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
