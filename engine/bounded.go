package engine

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
	"tokitai/truth"
)

// judgeBounded says what is wrong with the outputs of a lowering that promises no bits.
// Every element has to be one that it may give. Where a NaN or an infinity takes part,
// so that there is no such set, it has to be of the reference's class; where an
// intermediate result alone may overflow or leave the domain of a function, it may be
// anything.
func (c *selfTestCase) judgeBounded(d *def.Definition, l *Lowering, got []num.Array) (reason string, err error) {
	want, err := c.answer(d, l.Model)
	if err != nil {
		return "", fmt.Errorf("the reference refused: %w", err)
	}
	o := truth.Options{Params: c.params, Model: l.Model, Order: &l.Order, FunctionULP: l.FunctionULP, IsIEEE: l.IsIEEE, Mode: truth.Exact}
	exact, err := truth.Enclose(d, c.before, o)
	if err != nil {
		return "", err
	}
	o.Mode = truth.Rounded
	rounded, err := truth.Enclose(d, c.before, o)
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
						wanted = pattern(dtype, lo) + " to " + pattern(dtype, hi)
						if n := rounded.Count(i, r, col); dtype == num.I32 && lo != hi {
							wanted = fmt.Sprintf("one of %d values from %s", n, wanted)
						}
					}
				case !exact.At(i, r, col).Known():
					if y := want[i].Bits(r, col); classOf(dtype, x) != classOf(dtype, y) {
						wanted = classOf(dtype, y)
					}
				}
				if wanted != "" {
					return fmt.Sprintf("%s[%d,%d] is %s, want %s", d.Operands[i].Name, r, col, pattern(dtype, x), wanted), nil
				}
			}
		}
	}
	return "", nil
}

func classOf(d num.DType, bits uint32) string {
	switch v := num.Widen(d, bits); {
	case v != v:
		return "NaN"
	case v-v == 0:
		return "a finite value"
	}
	return pattern(d, bits)
}

// pattern shows a stored value: a float's bits, an int32 as a number.
func pattern(d num.DType, bits uint32) string {
	if d == num.I32 {
		return fmt.Sprint(int32(bits))
	}
	return fmt.Sprintf("0x%0*x", 2*d.Size(), bits)
}

// pureOutputs are the outputs of which the kernel reads nothing and that take no
// input's place.
func (c *selfTestCase) pureOutputs(d *def.Definition) []int {
	var pure []int
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsOut && !o.IsIn && c.places[i] == i {
			pure = append(pure, i)
		}
	}
	return pure
}

// unwritten runs the self-test once more, with other contents of the outputs, and names
// an element that has kept both. The bits of an answer tell it from what was there
// before; a set of admissible values may not.
func (q *Queue) unwritten(k Kernel, d *def.Definition, test selfTest, first *selfTestCase) (reason string, err error) {
	second := newSelfTestCase(d, first.dtypes, test)
	second.fill(d, test)
	for _, i := range second.pureOutputs(d) {
		for at := range second.operands[i].Data {
			second.operands[i].Data[at] ^= 0xff
		}
	}
	if err := q.launchCase(k, &second); err != nil {
		return "", err
	}
	for _, i := range second.pureOutputs(d) {
		x, y, old := first.operands[i], second.operands[i], first.before[i]
		for r := range old.Rows {
			for c := range old.Cols {
				mask := uint32(1)<<(8*old.DType.Size()) - 1
				if was := old.Bits(r, c); x.Bits(r, c) == was && y.Bits(r, c) == was^mask {
					return fmt.Sprintf("%s[%d,%d] is not written", d.Operands[i].Name, r, c), nil
				}
			}
		}
	}
	return "", nil
}
