package verify

import (
	"context"

	"tokitai/def"
	"tokitai/promise"
	"tokitai/truth"
)

// The sets of promise stable do not depend on the form in which a kernel is written, and so not
// on the definition's: w - d·w rounds a product that w·(1 - d) does not have. A kernel that takes
// the definition's own steps is honest all the same. Its sets are asked for only where those of
// promise stable do not have an output.

// ownSteps encloses what the definition's own steps give, in its own order of sums, fused or
// not.
type ownSteps struct {
	ctx      context.Context
	isKnown  bool
	enclosed *ordered // nil if there is nothing more to be found
}

// ownSet returns the set of an element that the definition's own steps give.
func (v *view) ownSet(operand, row, col int) (set, bool) {
	d := v.target.Definition
	if v.target.Promised() != promise.Stable || d.Kind != def.KindRowwise || v.isOne(operand, row, col) {
		return set{}, false
	}
	if !v.own.isKnown {
		v.own.isKnown = true
		l := v.target.Lowering
		rounded, err := truth.Enclose(d, v.inputs, truth.Options{Params: v.l.params, Mode: truth.Rounded, FunctionULP: l.FunctionULP, Context: v.own.ctx})
		if err == nil {
			v.own.enclosed = &ordered{rounded, d}
		}
	}
	if v.own.enclosed == nil {
		return set{}, false
	}
	s, ok := v.own.enclosed.known(operand, row, col)
	if ok && !d.Operands[operand].IsInt() {
		v.cut(&s, operand, row, col)
	}
	return s, ok
}
