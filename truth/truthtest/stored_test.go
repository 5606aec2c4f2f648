package truthtest

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/truth"
)

// storedBesides returns a definition that rounds what value computes to the format of x and goes on
// with that: y is four times it, in f32. The rounded value is an output, too, if isStored.
func storedBesides(value func(x, w def.Value) def.Value, isStored bool) *def.Definition {
	return def.Must(def.Rowwise("stored", func(b *def.Builder) {
		x, w := b.In("x", def.Only(num.F16, num.BF16, num.F32)), b.In("w", def.Like("x"))
		v := value(x, w).Round(def.StorageOf("x"))
		if isStored {
			b.Out("s", v, def.Like("x"))
		}
		b.Out("y", v.Mul(def.Const(4)), def.Only(num.F32))
	}))
}

// A rounding that an output shows is part of the mathematics; one that none shows is an error.
func TestStoredRounding(t *testing.T) {
	plus := func(x, w def.Value) def.Value { return x.Add(w) }
	minus := func(x, w def.Value) def.Value { return x.Sub(w) }
	times := func(x, w def.Value) def.Value { return x.Mul(w) }
	for _, test := range []struct {
		name  string
		value func(x, w def.Value) def.Value
		dtype num.DType
		x, w  float32
		want  float32 // what is stored
	}{
		{"between", plus, num.BF16, 1, 0x1.8p-9, 1},
		{"a tie", plus, num.BF16, 1, 0x1p-8, 1},
		{"a tie to the even neighbour above", plus, num.BF16, 1 + 0x1p-7, 0x1p-8, 1 + 0x1p-6},
		{"just above a tie", plus, num.BF16, 1, 0x1.02p-8, 1 + 0x1p-7},
		{"a tie of f16", plus, num.F16, 1, 0x1p-11, 1},
		{"a tie of f32", plus, num.F32, 1, 0x1p-24, 1},
		{"far apart", plus, num.BF16, 1, 0x1p-120, 1},
		{"difference", minus, num.F16, 1, -0x1.8p-11, 1 + 0x1p-10},
		{"product", times, num.BF16, 1 + 0x1p-7, 1 + 0x1p-7, 1 + 0x1p-6},
		{"a sum that cancels", plus, num.BF16, 1, -1, 0},
	} {
		d := storedBesides(test.value, true)
		operands := []num.Array{num.NewArray(test.dtype, 1, 1), num.NewArray(test.dtype, 1, 1), num.NewArray(test.dtype, 1, 1), num.NewArray(num.F32, 1, 1)}
		operands[0].Set(0, 0, test.x)
		operands[1].Set(0, 0, test.w)
		for _, o := range []truth.Options{
			{Mode: truth.Exact},
			{Mode: truth.Rounded},
			{Mode: truth.Rounded, Order: &def.Order{}},
			{Mode: truth.Rounded, IsIEEE: true},
		} {
			r, err := truth.Enclose(d, operands, o)
			if err != nil {
				t.Fatal(err)
			}
			if lo, hi := r.At(2, 0, 0).Bounds(); lo != float64(test.want) || hi != lo {
				t.Errorf("%s, %s, %+v: [%v, %v] is stored, want %v", test.name, test.dtype, o, lo, hi, test.want)
			}
			lo, hi := r.At(3, 0, 0).Bounds()
			if most := 0x1p-22 * math.Abs(float64(test.want)); !(lo <= 4*float64(test.want) && 4*float64(test.want) <= hi && hi-lo <= 4*most) {
				t.Errorf("%s, %s, %+v: y is [%v, %v], want %v", test.name, test.dtype, o, lo, hi, 4*test.want)
			}
		}
		s, err := truth.EncloseStable(d, operands, truth.StableOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Count(2, 0, 0, 0); test.dtype != num.F32 && (n != 1 || !s.Admits(2, 0, 0, 0, num.Narrow(test.dtype, test.want))) {
			t.Errorf("%s, %s: stable admits %d values, want %v alone", test.name, test.dtype, n, test.want)
		}
		// Like an input, the stored value may be off by 4 units; y has 4 more.
		if got, most := s.Error(3, 0, 0, 0), 8.01*4*0x1p-24*math.Abs(float64(test.want))+0x1p-145; !(got <= most) {
			t.Errorf("%s, %s: stable has an error of %v, want at most %v", test.name, test.dtype, got, most)
		}
	}
}

// What is not a single step has errors, and both neighbours of a tie within them may be stored. A
// rounding that no output shows does nothing in mode Exact.
func TestStoredWithErrors(t *testing.T) {
	operands := func(isStored bool, x, w float32) []num.Array {
		list := []num.Array{num.NewArray(num.BF16, 1, 1), num.NewArray(num.BF16, 1, 1), num.NewArray(num.BF16, 1, 1), num.NewArray(num.F32, 1, 1)}
		list[0].Set(0, 0, x)
		list[1].Set(0, 0, w)
		if !isStored {
			list = append(list[:2], list[3])
		}
		return list
	}
	chain := func(x, w def.Value) def.Value { return x.Add(w).Sub(def.Const(0x1p-26)) }
	for _, isStored := range []bool{true, false} {
		d := storedBesides(chain, isStored)
		y := len(d.Operands) - 1
		at := operands(isStored, 1, 0x1p-8) // just below the tie between 1 and 1 + 2^-7
		rounded, err := truth.Enclose(d, at, truth.Options{Mode: truth.Rounded})
		if err != nil {
			t.Fatal(err)
		}
		if lo, hi := rounded.At(y, 0, 0).Bounds(); !(lo <= 4 && hi >= 4+0x1p-5) {
			t.Errorf("stored %v: y is [%v, %v], want both neighbours of the tie", isStored, lo, hi)
		}
		s, err := truth.EncloseStable(d, at, truth.StableOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if lo, hi := s.Between(y, 0, 0, 0); num.Widen(num.F32, lo) > 4 || num.Widen(num.F32, hi) < 4+0x1p-5 {
			t.Errorf("stored %v: stable admits y in [%v, %v], want both neighbours of the tie", isStored, num.Widen(num.F32, lo), num.Widen(num.F32, hi))
		}

		at = operands(isStored, 1, 0x1.8p-9) // far from a tie
		exact, err := truth.Enclose(d, at, truth.Options{Mode: truth.Exact})
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]float64{true: 4, false: 4 * (1 + 0x1.8p-9 - 0x1p-26)}[isStored]
		if lo, hi := exact.At(y, 0, 0).Bounds(); !(lo <= want && want <= hi && hi-lo < 0x1p-40) {
			t.Errorf("stored %v: y is exactly [%v, %v], want %v", isStored, lo, hi, want)
		}
		if s, err = truth.EncloseStable(d, at, truth.StableOptions{}); err != nil {
			t.Fatal(err)
		}
		if isNarrow := s.Error(y, 0, 0, 0) < 4*0x1p-18; isNarrow != isStored {
			t.Errorf("stored %v: stable has an error of %v", isStored, s.Error(y, 0, 0, 0))
		}
	}
}
