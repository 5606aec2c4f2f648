package verify

import (
	"math"
	"reflect"
	"testing"

	"tokitai/evidence"
	"tokitai/num"
)

func TestBinOf(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ value, upTo float64 }{
		{0, 0}, {math.SmallestNonzeroFloat64, 0x1p-10}, {0x1p-11, 0x1p-10}, {0x1p-10, 0x1p-10}, {math.Nextafter(0x1p-10, 1), 0x1p-9},
		{0.25, 0.25}, {0.3, 0.5}, {0.5, 0.5}, {math.Nextafter(0.5, 1), 1}, {1, 1}, {3, 4}, {4, 4}, {5, 8},
		{0x1p40, 0x1p40}, {math.Nextafter(0x1p40, math.Inf(1)), 0x1p40}, {math.MaxFloat64, 0x1p40},
	} {
		var u ulps
		u.count(x.value)
		if got, want := u.bins(), []evidence.Bin{{UpTo: x.upTo, Outputs: 1}}; !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %v, want %v", x.value, got, want)
		}
	}
}

func TestULPsAdd(t *testing.T) {
	t.Parallel()
	var a, b ulps
	a.count(0)
	a.count(0.5)
	b.count(0.5)
	b.count(100)
	a.add(b)
	if got, want := a.bins(), []evidence.Bin{{UpTo: 0, Outputs: 1}, {UpTo: 0.5, Outputs: 2}, {UpTo: 128, Outputs: 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := b.bins(); len(got) != 2 {
		t.Errorf("the second is now %v", got)
	}
}

// TestDistanceFromSets checks that distances are counted in values of the format, on both sides.
func TestDistanceFromSets(t *testing.T) {
	t.Parallel()
	one, next := num.Stored(num.F16, 1), num.Stored(num.F16, 1)+3
	inf, nan := num.Stored(num.F16, float32(math.Inf(1))), num.Stored(num.F16, float32(math.NaN()))
	interval := set{lo: one, hi: next, count: 4}
	for _, x := range []struct {
		name string
		s    set
		got  uint64
		want int64
		ok   bool
	}{
		{"below", interval, one - 2, 2, true},
		{"above", interval, next + 5, 5, true},
		{"across zero", oneValue(1), 0x8001, 2, true},
		{"NaN", interval, nan, 0, false},
		{"infinity", interval, inf, 0, false},
		{"of an infinity", oneValue(inf), one, 0, false},
		{"zero of the wrong sign", set{isBits: true, lo: 0, hi: 0, count: 1}, 0x8000, 0, false},
	} {
		if got, ok := x.s.distance(num.F16, x.got); got != x.want && ok || ok != x.ok {
			t.Errorf("%s: got %d, %t, want %d, %t", x.name, got, ok, x.want, x.ok)
		}
	}
	if _, ok := (&set{lo: 3, hi: 3}).distance(num.I32, 5); ok {
		t.Error("an int32 has a distance")
	}
}
