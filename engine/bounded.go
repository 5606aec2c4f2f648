package engine

import (
	"context"
	"fmt"

	"tokitai/def"
	"tokitai/num"
	"tokitai/promise"
	"tokitai/trial"
	"tokitai/truth"
)

// judgeBounded says what is wrong with the outputs of a lowering that promises no bits.
// Every element has to be one that it may give. Where a NaN or an infinity takes part,
// so that there is no such set, it has to be of the reference's class, or of one that another
// form gives; where an intermediate result alone may overflow or leave the domain of a
// function, it may be anything.
func (c *selfTestCase) judgeBounded(l *Lowering, m def.Model, got []num.Array) (reason string, err error) {
	d, before := c.operands.Definition, c.operands.Arrays()
	want, err := c.answer(m)
	if err != nil {
		return "", fmt.Errorf("the reference refused: %w", err)
	}
	o := truth.Options{Params: c.params, Model: m, Order: &l.Order, FunctionULP: l.FunctionULP, IsIEEE: l.IsIEEE, Mode: truth.Exact}
	exact, err := truth.Enclose(d, before, o)
	if err != nil {
		return "", err
	}
	o.Mode = truth.Rounded
	rounded, err := truth.Enclose(d, before, o)
	if err != nil {
		return "", err
	}
	forms, err := c.forms(l)
	if err != nil {
		return "", err
	}
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			continue
		}
		dtype := got[i].DType
		for r := range got[i].Rows {
			for col := range got[i].Cols {
				x, wanted := got[i].Bits(r, col), ""
				switch {
				case rounded.At(i, r, col).Known():
					if !rounded.Admits(i, r, col, x) {
						lo, hi := rounded.Between(i, r, col)
						wanted = trial.Pattern(dtype, lo) + " to " + trial.Pattern(dtype, hi)
						if n := rounded.Count(i, r, col); dtype == num.I32 && lo != hi {
							wanted = fmt.Sprintf("one of %d values from %s", n, wanted)
						}
					}
				case !exact.At(i, r, col).Known():
					if y := want[i].Bits(r, col); classOf(dtype, x) != classOf(dtype, y) && !isOfAnotherForm(forms, i, r, col, num.Widen(dtype, x), num.Widen(dtype, y)) {
						wanted = classOf(dtype, y)
					}
				}
				if wanted != "" {
					return fmt.Sprintf("%s[%d,%d] is %s, want %s", d.Operands[i].Name, r, col, trial.Pattern(dtype, x), wanted), nil
				}
			}
		}
	}
	return "", nil
}

// forms returns where all forms of the definition agree on what becomes of infinities; nil if
// there are none, or the lowering promises the definition's own form.
func (c *selfTestCase) forms(l *Lowering) (*truth.Forms, error) {
	d, before := c.operands.Definition, c.operands.Arrays()
	if _, hasInfinity := truth.Tame(d, before); !hasInfinity || l.Promised() != promise.Stable {
		return nil, nil
	}
	return truth.FindForms(context.Background(), d, before, c.params)
}

// isOfAnotherForm reports whether an output that is of another class than the answer may come
// from another form: NaN for what infinities make, and infinities for such a NaN. Whether a
// form that is finite avoids NaN on purpose, the definition does not say; verification knows.
func isOfAnotherForm(forms *truth.Forms, operand, row, col int, got, want float32) bool {
	return forms != nil && got-got != 0 && (got != got || want != want) && (want-want == 0 || !forms.Agree(operand, row, col))
}

// Admissible holds the values that a bounded lowering may give for the outputs of a call.
type Admissible struct {
	d       *def.Definition
	rounded *truth.Result
}

// Admissible returns the values that the lowering, which is bounded, may give under a
// model, for operands as they are before a call.
func (l *Lowering) Admissible(ctx context.Context, d *def.Definition, operands []num.Array, params []float64, m def.Model) (*Admissible, error) {
	rounded, err := truth.Enclose(d, operands, truth.Options{
		Params: params, Model: m, Order: &l.Order, FunctionULP: l.FunctionULP, IsIEEE: l.IsIEEE, Mode: truth.Rounded, Context: ctx,
	})
	if err != nil {
		return nil, err
	}
	return &Admissible{d, rounded}, nil
}

// Outside says which element of an output is not admissible; it returns "" if none. Where
// an intermediate result may overflow, or an operand is no number, every value is. The
// function number returns the number of a row for the text.
func (a *Admissible) Outside(output int, got num.Array, number func(row int) int) string {
	for r := range got.Rows {
		for c := range got.Cols {
			x := got.Bits(r, c)
			if !a.rounded.At(output, r, c).Known() || a.rounded.Admits(output, r, c, x) {
				continue
			}
			lo, hi := a.rounded.Between(output, r, c)
			return fmt.Sprintf("%s[%d,%d] is %s, want %s to %s", a.d.Operands[output].Name, number(r), c,
				trial.Pattern(got.DType, x), trial.Pattern(got.DType, lo), trial.Pattern(got.DType, hi))
		}
	}
	return ""
}

func classOf(d num.DType, bits uint32) string {
	switch v := num.Widen(d, bits); {
	case v != v:
		return "NaN"
	case v-v == 0:
		return "a finite value"
	}
	return trial.Pattern(d, bits)
}

// unwritten runs the self-test once more if an output element holds what it held before,
// now with other contents of the outputs, and names an element that has kept both. An
// answer's bits differ from what was there before; a set of admissible values may not.
func (q *Queue) unwritten(k Kernel, first selfTestCase, after *trial.Operands) (reason string, err error) {
	suspects := after.Unwritten(first.operands, nil)
	if len(suspects) == 0 {
		return "", nil
	}
	second := first
	second.operands = first.operands.Clone()
	second.operands.Poison(0)
	if after, err = q.launchCase(k, &second); err != nil {
		return "", err
	}
	if suspects = after.Unwritten(second.operands, suspects); len(suspects) == 0 {
		return "", nil
	}
	at := suspects[0]
	return fmt.Sprintf("%s[%d,%d] is not written", second.operands.Definition.Operands[at.Operand].Name, at.Row, at.Col), nil
}
