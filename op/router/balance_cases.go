package router

import (
	"math"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/op"
)

var balanceParams = []op.Param{{Name: "choices", Help: "the sum of all counts: tokens times experts of each"}}

var balanceOperations = []*op.Operation{
	{
		Name: "router.balance.forward", Summary: "losses of each token for balanced experts and for small logits",
		Usual:       map[string]int{"C": 256},
		Definitions: []*def.Definition{BalanceForwardDefinition}, Bounds: balanceForwardBounds, Run: op.Plain(BalanceForwardDefinition), Params: balanceParams,
		Data: balanceData(BalanceForwardDefinition), Patterns: balancePatterns(BalanceForwardDefinition), Clauses: balanceForwardClauses,
	},
	{
		Name: "router.balance.backward", Summary: "gradient of router.balance.forward, from its inputs",
		Usual:       map[string]int{"C": 256},
		Definitions: []*def.Definition{BalanceBackwardDefinition}, Bounds: balanceBackwardBounds, Run: op.Plain(BalanceBackwardDefinition), Params: balanceParams,
		Data: balanceData(BalanceBackwardDefinition), Patterns: balancePatterns(BalanceBackwardDefinition), Clauses: balanceBackwardClauses,
	},
	{
		Name: "router.bias.step", Summary: "moves the bias of each expert toward a balanced load",
		Usual:       map[string]int{"C": 256, "R": 16},
		Definitions: []*def.Definition{BiasDefinition}, Bounds: biasBounds, Run: op.Plain(BiasDefinition), Clauses: biasClauses,
		Params: []op.Param{{Name: "rate", Default: "0.001", Help: "how far a bias moves"}},
		Data: []op.Data{
			{Name: "normal", Definition: BiasDefinition, Sizes: map[string]int{"R": 16, "C": 256}, Params: []float64{0.001}, Values: map[string]op.Element{"bias": op.Scaled(0x1p-4), "count": small}},
		},
		Patterns: []op.Pattern{
			biasPattern("balanced", func(*gen.Generator, int, int) int64 { return 1000 }),
			biasPattern("one-above", func(_ *gen.Generator, _, c int) int64 { return 1000 + int64(btoi(c == 1)) }),
			biasPattern("wide-products", func(g *gen.Generator, _, c int) int64 { return int64(btoi(c == 0))<<30 + int64(g.Below(3)) }),
			biasPattern("few", func(g *gen.Generator, _, _ int) int64 { return int64(g.Below(3)) }),
		},
	},
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func biasPattern(name string, count op.Integer) op.Pattern {
	return op.Pattern{Name: name, Definition: BiasDefinition, Params: []float64{0.25}, Integers: map[string]op.Integer{"count": count}}
}

// small has counts as tokens give them.
func small(g *gen.Generator, _, _ int) float32 { return float32(g.Below(512)) }

func balanceData(d *def.Definition) []op.Data {
	return []op.Data{
		{Name: "normal", Definition: d, Sizes: map[string]int{"R": 64, "C": 256}, Params: []float64{64 * 8}, Values: map[string]op.Element{"count": func(g *gen.Generator, _, _ int) float32 { return float32(g.Below(5)) }}},
		{Name: "large logits", Definition: d, Sizes: map[string]int{"R": 64, "C": 60}, Params: []float64{64 * 4}, Values: map[string]op.Element{"logits": op.Scaled(16), "count": small}},
	}
}

func balancePatterns(d *def.Definition) []op.Pattern {
	of := func(name string, choices float64, logits op.Element, count op.Integer) op.Pattern {
		p := op.Pattern{Name: name, Definition: d, Params: []float64{choices}, Integers: map[string]op.Integer{"count": count}}
		if logits != nil {
			p.Values = map[string]op.Element{"logits": logits}
		}
		return p
	}
	return []op.Pattern{
		of("balanced", 512, nil, func(*gen.Generator, int, int) int64 { return 2 }),
		of("one-expert", 512, oneHuge, func(_ *gen.Generator, _, c int) int64 { return 512 * int64(btoi(c == 0)) }),
		of("unused-experts", 100, nil, func(g *gen.Generator, _, _ int) int64 { return int64(g.Below(2)) }),
		of("many-choices", math.MaxInt32, nil, func(g *gen.Generator, _, _ int) int64 { return int64(g.Below(1 << 30)) }),
		of("large-logits", 64, op.Between(60, 80), func(g *gen.Generator, _, _ int) int64 { return int64(g.Below(9)) }),
	}
}

var (
	noProbabilities = op.Either(op.WhereRow(op.IsNaN, "logits"), op.WhereRow(isPlusInfinity, "logits"), onlyMinusInfinity)

	balanceForwardClauses = op.ClausesOf(BalanceForwardDefinition,
		op.Interfaces(), op.Calculates(), op.Specially(noProbabilities), op.Specially(op.WhereRow(isMinusInfinity, "logits")), op.Specially(smallLosses))
	balanceBackwardClauses = op.ClausesOf(BalanceBackwardDefinition,
		op.Interfaces(), op.Specially(noProbabilities), op.Specially(op.Where(isMinusInfinity, "logits")), op.Specially(smallBalanceGradients), op.Interfaces())
	biasClauses = op.ClausesOf(BiasDefinition,
		op.Interfaces(), op.Calculates(), op.Specially(op.Where(op.IsNoNumber, "bias")), op.Specially(op.WhereResult(op.IsAtAnEnd, newBias)))
)

// newBias returns a bias after a step away from zero.
func newBias(c *bound.Call) func(operand, row, col int) float64 {
	bias, rate := op.InputOf(c, "bias"), c.Param("rate")
	return func(_, row, col int) float64 {
		if v := bias(row, col); math.Abs(v) > 1 {
			return math.Abs(v) + rate
		}
		return math.Abs(math.Abs(bias(row, col)) - rate)
	}
}

// smallLosses covers rows whose losses may be subnormal or too large.
func smallLosses(c *bound.Call) func(operand, row, col int) bool {
	t := tokensOf(c)
	return func(operand, row, _ int) bool {
		if op.RowHas(c, op.IsNoNumber, row, "logits") {
			return false
		}
		if c.Definition.Operands[operand].Name == "z" {
			lse, _ := t.lse(row)
			return op.IsAtAnEnd(c.Operands[operand].DType, lse*lse)
		}
		p := t.at(row)
		return op.IsAtAnEnd(c.Operands[operand].DType, bound.Sum(t.cols, func(e int) float64 { return float64(t.cols) * t.f[e] * p.At(e) }))
	}
}

// smallBalanceGradients covers gradients that may be subnormal in their format or too large.
func smallBalanceGradients(c *bound.Call) func(operand, row, col int) bool {
	t := tokensOf(c)
	dbalance, dz := c.Matrix("dbalance"), c.Matrix("dz")
	return func(operand, row, col int) bool {
		if op.RowHas(c, op.IsNoNumber, row, "logits") {
			return false
		}
		p := t.at(row)
		lse, _ := t.lse(row)
		mean := bound.Sum(t.cols, func(e int) float64 { return t.f[e] * p.At(e) })
		y := float64(t.cols)*dbalance.At(row, 0)*(t.f[col]-mean) + 2*dz.At(row, 0)*lse
		format := c.Operands[operand].DType
		return op.IsAtAnEnd(format, p.At(col)*y) || op.IsAtAnEnd(format, p.At(col)) || op.IsAtAnEnd(format, y)
	}
}
