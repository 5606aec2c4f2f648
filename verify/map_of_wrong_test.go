package verify_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/verify"
)

// TestMaps checks that a map shows the wrong elements of the case that is run.
func TestMaps(t *testing.T) {
	t.Parallel()
	last := flipWhere(func(_ *engine.Launch, _, c int) bool { return c >= 128 })
	f := run(t, target(softmax.ForwardDefinition, num.F16, last), verify.Options{Seed: 1, Case: "normal/R=3,C=130"}).Report.Failure
	if f == nil || len(f.Maps) != 1 {
		t.Fatalf("got %+v, want one map", f)
	}
	want := evidence.Map{
		Case: "normal/R=3,C=130", Output: "y", Rows: 3, Cols: 130, RowAxis: "R", ColAxis: "C", CellRows: 1, CellCols: 3, Wrong: 6,
		Cells: slices.Repeat([]string{strings.Repeat(".", 42) + "39"}, 3), // 1 of 3 columns, and 1 of 1
	}
	if !reflect.DeepEqual(f.Maps[0], want) {
		t.Errorf("got %+v, want %+v", f.Maps[0], want)
	}
}

// TestMapsOfShrunkCases checks that there are maps of the original and of the smallest case.
func TestMapsOfShrunkCases(t *testing.T) {
	t.Parallel()
	late := flipWhere(func(l *engine.Launch, _, c int) bool { return c >= l.Operands[0].Cols-3 && c > 16 })
	f := run(t, target(softmax.ForwardDefinition, num.F16, late), verify.Options{Seed: 1}).Report.Failure
	if f == nil || len(f.Maps) != 2 || f.Maps[0].Case != f.OriginalCase || f.Maps[1].Case != f.Case {
		t.Fatalf("got %+v, want maps of %s and %s", f.Maps, f.OriginalCase, f.Case)
	}
	if m := f.Maps[1]; m.Rows != 1 || m.Cols != 18 || m.Wrong != 1 || m.Cells[0] != strings.Repeat(".", 17)+"9" {
		t.Errorf("the smallest case: got %+v", m)
	}
}

// TestHistogram checks that every judged output is counted once, by its distance in ulps.
func TestHistogram(t *testing.T) {
	t.Parallel()
	l := bitwise(damaged(func(_ *engine.Launch, out []num.Array) {
		y := out[1]
		y.SetBits(0, 0, y.Bits(0, 0)+1)
		y.SetBits(0, 1, y.Bits(0, 1)-3)
		y.SetBits(0, 2, y.Bits(0, 2)+4)
		y.SetBits(0, 3, num.NarrowF64(num.F16, math.NaN()))
	}))
	r := run(t, target(softmax.ForwardDefinition, num.F16, l), verify.Options{Seed: 1, Case: "normal/R=3,C=40"}).Report
	want := &evidence.Histogram{Set: []evidence.Bin{{UpTo: 0, Outputs: 116}, {UpTo: 1, Outputs: 1}, {UpTo: 4, Outputs: 2}}, SetUndefined: 1}
	if r.Histogram == nil || !reflect.DeepEqual(r.Histogram.Set, want.Set) || r.Histogram.SetUndefined != want.SetUndefined {
		t.Errorf("got %+v, want %+v", r.Histogram, want)
	}
}

// TestHistogramOfErrors checks that errors against the truth are counted where accuracy is measured,
// with those of the definition's own kernel beside those of a kernel that promises no bits.
func TestHistogramOfErrors(t *testing.T) {
	t.Parallel()
	for _, p := range []promise.Name{promise.Bits, promise.Stable} {
		l := bitwise(honest)
		l.Promise.Name = p
		r := run(t, target(softmax.ForwardDefinition, num.F16, l), verify.Options{Seed: 1}).Report // which checks the sums
		if r.Histogram == nil || len(r.Histogram.Truth) < 3 {
			t.Fatalf("got %+v, want errors of several sizes", r.Histogram)
		}
		if last := r.Histogram.Truth[len(r.Histogram.Truth)-1].UpTo; last < *r.WorstErrorULP || last >= 2**r.WorstErrorULP {
			t.Errorf("the last bin is up to %v, and the worst error %v", last, *r.WorstErrorULP)
		}
		switch {
		case p == promise.Bits && r.Histogram.Own != nil:
			t.Errorf("promise bits: got the errors of the definition's own kernel: %v", r.Histogram.Own)
		case p != promise.Bits && !reflect.DeepEqual(r.Histogram.Own, r.Histogram.Truth): // the kernel is that one
			t.Errorf("got %v, and %v of the definition's own kernel", r.Histogram.Truth, r.Histogram.Own)
		}
	}
}
