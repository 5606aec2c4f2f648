package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

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
func (c *selfTestCase) judgeBounded(l *Lowering, m def.Accum, got []num.Array) (reason string, err error) {
	d, before := c.operands.Definition, c.operands.Arrays()
	want, err := c.answer(m)
	if err != nil {
		return "", fmt.Errorf("the reference refused: %w", err)
	}
	exact, err := truth.Enclose(d, before, truth.Options{Params: c.params, Accum: m, Mode: truth.Exact})
	if err != nil {
		return "", err
	}
	admissible, err := l.Admissible(context.Background(), d, before, c.params, m)
	if err != nil {
		return "", err
	}
	forms, err := c.forms(l)
	if err != nil {
		return "", err
	}
	for i := range d.Operands {
		if !d.Operands[i].IsOut || slices.Contains(l.Promise.Declares.Omits, d.Operands[i].Name) {
			continue
		}
		dtype := got[i].DType
		for r := range got[i].Rows {
			for col := range got[i].Cols {
				x, wanted := got[i].Bits(r, col), ""
				switch {
				case admissible.Known(i, r, col):
					if !admissible.Admits(i, r, col, x) {
						wanted = admissible.text(i, r, col)
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

// StableOptions returns what promise stable allows the lowering, for calls with the given
// parameters under an accumulation rule.
func (l *Lowering) StableOptions(ctx context.Context, params []float64, m def.Accum) truth.StableOptions {
	declares := l.Promise.Declares
	declares.FlushesSubnormals = declares.Flushes()
	return truth.StableOptions{
		Params: params, Accum: m, Order: l.Promise.Order, FunctionULP: l.Promise.FunctionULP, Declares: declares, Errors: l.Promise.Declares.Error, Context: ctx,
		CountSteps: true, // whatever form a kernel has, it computes that step by step
	}
}

// forms returns where all forms of the definition agree on what becomes of infinities; nil if
// there are none, or the lowering promises the definition's own form.
func (c *selfTestCase) forms(l *Lowering) (*truth.Forms, error) {
	d, before := c.operands.Definition, c.operands.Arrays()
	if _, hasInfinity := truth.Tame(d, before); !hasInfinity || l.Promise.Named() != promise.Stable {
		return nil, nil
	}
	return truth.FindForms(context.Background(), d, before, c.params)
}

// isOfAnotherForm reports whether an output that is of another class than the answer may come
// from another form: NaN for what infinities make, infinities for such a NaN, and the other
// infinity where its sign is lost in rounding errors. Whether a
// form that is finite avoids NaN on purpose, the definition does not say; verification knows.
func isOfAnotherForm(forms *truth.Forms, operand, row, col int, got, want float32) bool {
	if forms == nil || got-got == 0 {
		return false
	}
	if want-want != 0 && want == want && forms.IsEither(operand, row, col) {
		return true
	}
	return (got != got || want != want) && (want-want == 0 || !forms.Agree(operand, row, col))
}

// Admissible holds the values that a bounded lowering may give for the outputs of a call.
type Admissible struct {
	d        *def.Definition
	operands []num.Array
	admitted
}

// admitted is the values that a promise admits for the elements of outputs.
type admitted interface {
	Known(operand, row, col int) bool
	Between(operand, row, col int) (lo, hi uint32)
	Count(operand, row, col int) int64
	Admits(operand, row, col int, bits uint32) bool
}

// ordered has the values of promise ordered.
type ordered struct{ *truth.Result }

func (o ordered) Known(operand, row, col int) bool { return o.At(operand, row, col).Known() }

// stable has the values of promise stable, with sums of any height that the order allows.
type stable struct{ truth.StableForms }

func (s stable) Between(operand, row, col int) (lo, hi uint32) {
	return s.StableForms.Between(operand, row, col, math.MaxInt)
}

func (s stable) Count(operand, row, col int) int64 {
	return s.StableForms.Count(operand, row, col, math.MaxInt)
}

func (s stable) Admits(operand, row, col int, bits uint32) bool {
	return s.StableForms.Admits(operand, row, col, math.MaxInt, bits)
}

// anything has no known values: those of a form that the engine does not know.
type anything struct{ ordered }

func (anything) Known(operand, row, col int) bool { return false }

// Admissible returns the values that the lowering, which is bounded, may give under a
// model, for operands as they are before a call. The engine knows the usual forms of a
// definition, but not those that have to be declared: of a lowering that declares one, nothing is
// known. Nor does it know a profile's allowances: kernels that need one are inadmissible.
func (l *Lowering) Admissible(ctx context.Context, d *def.Definition, operands []num.Array, params []float64, m def.Accum) (*Admissible, error) {
	a := &Admissible{d: d, operands: operands}
	switch l.Promise.Named() {
	case promise.Stable:
		if l.Promise.Declares.Formula != "" {
			a.admitted = anything{}
			return a, nil
		}
		s, err := truth.EncloseStableForms(append([]*def.Definition{d}, d.UsualForms()...), operands, l.StableOptions(ctx, params, m))
		a.admitted = stable{s}
		return a, err
	default:
		rounded, err := truth.Enclose(d, operands, truth.Options{
			Params: params, Accum: m, Order: &l.Promise.Order, FunctionULP: l.Promise.FunctionULP, IsIEEE: l.Promise.IsIEEE, Mode: truth.Rounded, Context: ctx,
		})
		a.admitted = ordered{rounded}
		return a, err
	}
}

// text returns the values of an element.
func (a *Admissible) text(operand, row, col int) string {
	dtype := a.operands[operand].DType
	lo, hi := a.Between(operand, row, col)
	text := trial.Pattern(dtype, lo) + " to " + trial.Pattern(dtype, hi)
	if dtype == num.I32 && lo != hi {
		return fmt.Sprintf("one of %d values from %s", a.Count(operand, row, col), text)
	}
	return text
}

// Outside says which element of an output is not admissible; it returns "" if none. Where
// an intermediate result may overflow, or an operand is no number, every value is. The
// function number returns the number of a row for the text.
func (a *Admissible) Outside(output int, got num.Array, number func(row int) int) string {
	for r := range got.Rows {
		for c := range got.Cols {
			if x := got.Bits(r, c); a.Known(output, r, c) && !a.Admits(output, r, c, x) {
				return fmt.Sprintf("%s[%d,%d] is %s, want %s", a.d.Operands[output].Name, number(r), c, trial.Pattern(got.DType, x), a.text(output, r, c))
			}
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
func (q *Queue) unwritten(l *Lowering, k Kernel, first selfTestCase, after *trial.Operands) (reason string, err error) {
	suspects := after.Unwritten(first.operands, l.Promise.Declares.Omits, nil)
	if len(suspects) == 0 {
		return "", nil
	}
	second := first
	second.operands = first.operands.Clone()
	second.operands.Poison(0)
	if after, err = q.launchCase(k, &second); err != nil {
		return "", err
	}
	if suspects = after.Unwritten(second.operands, nil, suspects); len(suspects) == 0 {
		return "", nil
	}
	at := suspects[0]
	return fmt.Sprintf("%s[%d,%d] is not written", second.operands.Definition.Operands[at.Operand].Name, at.Row, at.Col), nil
}
