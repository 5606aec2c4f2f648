package verify_test

import (
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/verify"
)

// saturating are definitions that no operation has patterns for, each with a shortcut for tensors
// that lie in one region as a whole.
var saturating = []struct {
	name     string
	define   func(b *def.Builder)
	dtype    num.DType
	applies  func(x num.Array) bool // of the whole input
	shortcut func(x float32) float32
}{
	{"relu", func(b *def.Builder) { b.Out("y", b.In("x").Max(def.Zero), def.Like("x")) }, num.F32, allBelow(0), func(float32) float32 { return -1 }},
	{"sigmoid", func(b *def.Builder) { b.Out("y", fn.Sigmoid(b.In("x")), def.Like("x")) }, num.F32, allAbove(8), func(float32) float32 { return 1 }},
	{"sigmoid_low", func(b *def.Builder) { b.Out("y", fn.Sigmoid(b.In("x")), def.Like("x")) }, num.F16, allBelow(-8), func(float32) float32 { return 0 }},
	{"tanh", func(b *def.Builder) { b.Out("y", fn.Tanh(b.In("x")), def.Like("x")) }, num.BF16, allAbove(2.5), func(float32) float32 { return 1 }},
	{"exp", func(b *def.Builder) { b.Out("y", fn.Exp(b.In("x")), def.Like("x")) }, num.F32, allBelow(-40), func(float32) float32 { return 0 }},
	{"silu", func(b *def.Builder) { x := b.In("x"); b.Out("y", x.Mul(fn.Sigmoid(x)), def.Like("x")) }, num.F16, allAbove(6), func(x float32) float32 { return x }},
	{"sharpest", func(b *def.Builder) { // exp(x - max): one element exceeds all others
		x := b.In("x")
		b.Out("y", fn.Exp(x.Sub(def.RowMax(x))), def.Like("x"))
	}, num.F32, peaked(12), nil},
}

func allAbove(least float32) func(num.Array) bool {
	return func(x num.Array) bool { return every(x, func(v float32) bool { return v > least }) }
}

func allBelow(most float32) func(num.Array) bool {
	return func(x num.Array) bool { return every(x, func(v float32) bool { return v < most }) }
}

func every(x num.Array, holds func(v float32) bool) bool {
	for r := range x.Rows {
		for c := range x.Cols {
			if !holds(x.At(r, c)) {
				return false
			}
		}
	}
	return true
}

// peaked reports whether one finite element of every row exceeds all others of the row by so much,
// and these are close to each other.
func peaked(least float32) func(num.Array) bool {
	return func(x num.Array) bool {
		for r := range x.Rows {
			var row []float32
			for c := range x.Cols {
				row = append(row, x.At(r, c))
			}
			slices.Sort(row)
			if n := len(row); n < 3 || !(row[n-1]-row[n-2] > least) || !(row[n-2]-row[0] < 1) {
				return false
			}
		}
		return true
	}
}

// TestRegions checks that a definition without patterns of its own has cases in which every element
// lies where the definition's function saturates, just before and behind: a kernel with a shortcut
// for such tensors is rejected at level smoke.
func TestRegions(t *testing.T) {
	t.Parallel()
	for _, s := range saturating {
		d := def.Must(def.Rowwise("test."+s.name, s.define))
		cheat := bitwise(damaged(func(l *engine.Launch, out []num.Array) {
			x := l.Operands[0].Array
			if !s.applies(x) {
				return
			}
			for r := range x.Rows {
				for c := range x.Cols {
					if s.shortcut != nil {
						out[1].Set(r, c, s.shortcut(x.At(r, c)))
					} else if v := out[1].At(r, c); v < 1 {
						out[1].Set(r, c, 0)
					}
				}
			}
		}))
		x := &verify.Target{Definition: d, Lowering: cheat, DType: s.dtype}
		r := run(t, x, verify.Options{Level: verify.Smoke, Seed: 1, FirstFailure: true}).Report
		if r.Verdict != evidence.Rejected {
			t.Errorf("%s: a shortcut for whole tensors is %s: %s", s.name, r.Verdict, r.Reason)
			continue
		}
		if c := r.Failure.Case; !strings.HasPrefix(c, "region-x-") && !strings.HasPrefix(c, "peak-x-") {
			t.Errorf("%s: %s rejects the shortcut, want a region or a peak", s.name, c)
		}
	}
}

// TestRegionNames checks that the name of a region says which values it has, whatever the definition.
func TestRegionNames(t *testing.T) {
	t.Parallel()
	d := def.Must(def.Rowwise("test.twice", func(b *def.Builder) { x := b.In("x"); b.Out("y", x.Add(x), def.Like("x")) }))
	x := &verify.Target{Definition: d, Lowering: bitwise(honest), DType: num.F32}
	for name, in := range map[string][2]float32{"region-x-3.25..3.5": {3.25, 3.5}, "region-x--160..-120": {-160, -120}, "region-x-1e-05..0.001": {1e-5, 1e-3}} {
		inputs := verify.Inputs(x, name+"/R=3,C=40", 7)
		if a := inputs[0]; !every(a, func(v float32) bool { return in[0] <= v && v <= in[1] }) {
			t.Errorf("%s has an element outside", name)
		}
	}
	inputs := verify.Inputs(x, "peak-x-16..18/R=9,C=5", 7)
	if !peaked(15)(inputs[0]) {
		t.Error("peak-x-16..18: not every row has one element that exceeds the others by 15")
	}
	for _, name := range []string{"region-y-1..2", "region-x-2..1", "region-x-1..2e99", "region-x-1.0..2", "region-x-NaN..2", "valley-x-1..2", "region-x"} {
		if _, err := verify.ParseCase(x, name+"/R=1,C=1"); err == nil {
			t.Errorf("%s is a pattern", name)
		}
	}
}
