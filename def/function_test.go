package def_test

import (
	"math"
	"testing"

	"tokitai/def"
)

func TestDomains(t *testing.T) {
	inf := math.Inf(1)
	type interval struct{ lo, hi float64 }
	for _, test := range []struct {
		d       def.Domain
		text    string
		inside  []interval
		outside []interval
	}{
		{def.EveryX, "every x", []interval{{-inf, inf}, {0, 0}}, nil},
		{def.Positive, "x > 0", []interval{{0x1p-149, inf}, {1, 2}}, []interval{{0, 1}, {-1, 1}, {-2, -1}}},
		{def.NonZero, "x != 0", []interval{{-2, -1}, {1, inf}}, []interval{{-1, 1}, {0, 1}, {-1, 0}}},
		{def.Above(-1), "x > -1", []interval{{-1 + 0x1p-24, inf}, {0, 1}}, []interval{{-1, 0}, {-inf, 2}}},
		{def.AtMost(44), "x <= 44", []interval{{-inf, 44}}, []interval{{43, 45}}},
		{def.Domain{Low: -128, High: 44}, "-128 <= x <= 44", []interval{{-128, 44}}, []interval{{-129, 0}, {0, 45}}},
		{def.Domain{Low: 0x1p-125, High: 0x1p125, OfAbs: true}, "2^-125 <= |x| <= 2^125",
			[]interval{{-0x1p125, -0x1p-125}, {1, 2}}, []interval{{-1, 1}, {0, 1}, {1, 0x1p126}, {-0x1p126, -1}}},
		{def.Domain{High: 9, OfAbs: true}, "|x| <= 9", []interval{{-9, 9}}, []interval{{-10, 1}, {-1, 10}}},
	} {
		if got := test.d.String(); got != test.text {
			t.Errorf("got %q, want %q", got, test.text)
		}
		for _, i := range test.inside {
			if !test.d.Contains(i.lo, i.hi) {
				t.Errorf("%s does not contain [%v, %v]", test.text, i.lo, i.hi)
			}
		}
		for _, i := range test.outside {
			if test.d.Contains(i.lo, i.hi) {
				t.Errorf("%s contains [%v, %v]", test.text, i.lo, i.hi)
			}
		}
	}
}
