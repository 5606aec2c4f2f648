package crossentropy

import (
	"math"

	"tokitai/bound"
	"tokitai/op"
)

var clauses = op.ClausesOf(Definition,
	op.Interfaces(),
	op.Specially(ignored(op.Either(op.WhereRow(op.IsNoNumber, "logits"), op.WherePowersOverflow("logits")))),
	op.Specially(whereOutside),
	op.Specially(counted(op.WhereRow(func(v float64) bool { return v != v || math.IsInf(v, 1) }, "logits"))),
	op.Specially(counted(whereMasked)),
	op.Interfaces(),
	op.Avoiding(counted(op.OnlyOf(op.WhereResult(op.IsTooLargeFor, result), "loss")), counted(op.OnlyOf(op.WherePowersOverflow("logits"), "loss"))),
	op.Avoiding(counted(op.OnlyOf(op.Either(op.WhereSubnormal("logits"), op.WhereResult(op.IsAtAnEnd, result)), "dlogits")), counted(op.OnlyOf(op.WherePowersOverflow("logits"), "dlogits"))),
	op.Specially(counted(whereNegativeZero)),
	op.Interfaces(),
)

// ignored restricts a covering to rows whose label is ignore. Kernels multiply such a row by zero,
// which gives NaN where its loss or gradient is not finite. Elsewhere it gives zero as well, and a
// kernel that gives something else is wrong, whatever is waived.
func ignored(covering op.Covering) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		at, label, ignore := covering(c), labelOf(c), c.Params[c.Definition.Param("ignore")]
		return func(operand, row, col int) bool { return label(row) == ignore && at(operand, row, col) }
	}
}

// whereOutside covers the rows whose label is neither ignore nor a column.
func whereOutside(c *bound.Call) func(operand, row, col int) bool {
	label, ignore := labelOf(c), c.Params[c.Definition.Param("ignore")]
	return func(_, row, _ int) bool { return label(row) != ignore && !counts(c, label(row)) }
}

func labelOf(c *bound.Call) func(row int) float64 {
	a := c.Operands[c.Definition.Operand("label")]
	return func(row int) float64 { return float64(a.Int(row, 0)) }
}

// counted restricts a covering to rows that are not ignored.
func counted(covering op.Covering) op.Covering {
	return func(c *bound.Call) func(operand, row, col int) bool {
		at, label := covering(c), labelOf(c)
		return func(operand, row, col int) bool { return counts(c, label(row)) && at(operand, row, col) }
	}
}

// whereMasked covers the gradient of a logit of -Inf, and the loss of a label that has one.
func whereMasked(c *bound.Call) func(operand, row, col int) bool {
	return atLogit(c, func(v float64) bool { return math.IsInf(v, -1) })
}

func whereNegativeZero(c *bound.Call) func(operand, row, col int) bool {
	return atLogit(c, op.IsNegativeZero)
}

func atLogit(c *bound.Call, is func(float64) bool) func(operand, row, col int) bool {
	x, label := op.InputOf(c, "logits"), labelOf(c)
	return func(operand, row, col int) bool {
		if c.Definition.Operands[operand].Name == "loss" {
			col = int(label(row))
		}
		return is(x(row, col))
	}
}

// result returns the loss, or a gradient. Only rows that count are asked for.
func result(c *bound.Call) func(operand, row, col int) float64 {
	x, label, scale := c.Matrix("logits"), labelOf(c), c.Param("scale")
	rows := op.ByRow(func(row int) bound.Probabilities { return bound.ProbabilitiesOf(x.Row(row)) })
	return func(operand, row, col int) float64 {
		p := rows(row)
		if c.Definition.Operands[operand].Name == "loss" {
			return math.Log(p.Sum) + (p.Max - x.At(row, int(label(row))))
		}
		v := p.At(col)
		if col == int(label(row)) {
			v--
		}
		return scale * v
	}
}

// The loss is log of a sum that contains 1, less a difference of at most 0; another form,
// log of the sum plus the maximum less the logit, may end below 0 by its errors: those of
// functions, of a sum of C terms, and of numbers as large as the maximum.
var ranges = []op.Range{{
	Definition: Definition, Output: "loss", Clause: "C7", Assumes: []string{"exp", "exp2", "log", "log2", "log1p"},
	Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
		x, label := c.Matrix("logits"), labelOf(c)
		return func(r, _ int) (lo, hi float64) {
			if !counts(c, label(r)) {
				return 0, 0
			}
			p := bound.ProbabilitiesOf(x.Row(r))
			below := 2*bound.Gamma(x.Cols) + 16*bound.U*(1+math.Abs(p.Max)+math.Log(float64(x.Cols)))
			if op.RowHas(c, func(v float64) bool { return v != v || math.IsInf(v, 1) }, r, "logits") || math.IsInf(p.Max, -1) {
				return math.Inf(-1), math.Inf(1)
			}
			return -below, math.Inf(1)
		}
	},
}, {
	// A probability is at most 1 up to rounding, as in softmax.
	Definition: Definition, Output: "dlogits", Clause: "C8", Assumes: []string{"div", "recip"},
	Between: func(c *bound.Call) func(r, col int) (lo, hi float64) {
		x, label, scale := c.Matrix("logits"), labelOf(c), math.Abs(c.Param("scale"))
		most := scale * (1 + 2*bound.Gamma(x.Cols) + 0x1p-20)
		isOpen := op.ByRow(func(row int) bool {
			return op.RowHas(c, func(v float64) bool { return v != v || math.IsInf(v, 1) }, row, "logits") || math.IsInf(bound.ProbabilitiesOf(x.Row(row)).Max, -1)
		})
		return func(r, _ int) (lo, hi float64) {
			switch {
			case !counts(c, label(r)):
				return 0, 0
			case isOpen(r):
				return math.Inf(-1), math.Inf(1)
			}
			return -most, most
		}
	},
}}
