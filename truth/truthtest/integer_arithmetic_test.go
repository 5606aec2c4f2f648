package truthtest

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/truth"
)

// TestIntegerArithmetic: int32 of exact inputs have one right value in every mode, sums that wrap
// among them. One that hangs on an open comparison has the values of both sides, and a conversion
// encloses its rounding.
func TestIntegerArithmetic(t *testing.T) {
	d := rowwise("ints", func(b *def.Builder) {
		k, x := b.In("k", def.Only(num.I32)), b.In("x", def.Only(num.F32))
		third := x.Div(def.Const(3))
		isOpen := third.Add(third).Add(third).Less(x)
		choice := def.Select(isOpen, def.IntConst(2), def.IntConst(5)).As("choice")
		b.Out("product", k.IMul(x.Stored()))
		b.OutRow("sum", def.RowSum(k))
		b.OutScalar("all", def.TotalSum(k.IXor(b.Element(def.IntConst(0), def.IntConst(0)))))
		b.OutRow("choices", def.RowSum(choice))
		b.Out("self", choice.ISub(choice))
		b.Out("float", k.IToF(), def.Only(num.F32))
	})
	k := num.NewArray(num.I32, 1, 2)
	k.SetBits(0, 0, math.MaxInt32)
	k.SetBits(0, 1, 3)
	ints := func(cols int) num.Array { return num.NewArray(num.I32, 1, cols) }
	operands := []num.Array{k, row(1, 1.5), ints(2), ints(1), ints(1), ints(1), ints(2), num.NewArray(num.F32, 1, 2)}
	for _, mode := range []truth.Mode{truth.Exact, truth.Rounded} {
		r, err := truth.Enclose(d, operands, truth.Options{Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		bits := math.Float32bits(1)
		for _, want := range []struct {
			operand, col int
			value        uint32
		}{{2, 0, math.MaxInt32 * bits}, {2, 1, 3 * math.Float32bits(1.5)}, {3, 0, 1<<31 + 2}, {4, 0, 1<<31 + 1}, {6, 0, 0}, {6, 1, 0}} {
			if r.Count(want.operand, 0, want.col) != 1 || !r.Admits(want.operand, 0, want.col, want.value) {
				t.Errorf("%v: %s[%d] has %v, want %#x alone", mode, d.Operands[want.operand].Name, want.col, r.Ints(want.operand, 0, want.col), want.value)
			}
		}
		// Two choices of 2 or 5.
		if r.Count(5, 0, 0) != 3 || !r.Admits(5, 0, 0, 4) || !r.Admits(5, 0, 0, 7) || !r.Admits(5, 0, 0, 10) {
			t.Errorf("%v: choices has %v, want 4, 7 and 10", mode, r.Ints(5, 0, 0))
		}
		lo, hi := r.At(7, 0, 0).Bounds()
		isRounded := mode == truth.Rounded
		if lo > math.MaxInt32 || hi < math.MaxInt32 || isRounded && hi < 0x1p31 || !isRounded && hi != lo {
			t.Errorf("%v: the float of 2^31-1 is in [%v, %v]", mode, lo, hi)
		}
		if lo, hi := r.At(7, 0, 1).Bounds(); lo != 3 || hi != 3 {
			t.Errorf("%v: the float of 3 is in [%v, %v]", mode, lo, hi)
		}
	}
}
