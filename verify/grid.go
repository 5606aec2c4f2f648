package verify

import (
	"context"

	"tokitai/promise"
	"tokitai/truth"
)

// findGrid finds the elements of a tile on which every honest kernel agrees, where the pattern
// is meant as a grid. Whether it is one depends on the values: too long sums, or varied
// parameters, leave it. A kernel that declares additional roundings has no such elements.
func (v *view) findGrid(ctx context.Context) (*truth.Grid, error) {
	l := v.target.Lowering
	if !v.l.isGrid() || len(l.Promise.Declares.Roundings) > 0 {
		return nil, nil
	}
	return truth.FindGrid(v.target.Definition, v.inputs, truth.GridOptions{
		Params: v.l.params, Accum: v.l.accum(), InAnyForm: v.target.Promised() == promise.Stable, Context: ctx,
	})
}

// isOnGrid reports whether an element has only one right value.
func (v *view) isOnGrid(operand, row, col int) bool {
	return v.grid != nil && v.grid.Has(operand, row, col)
}
