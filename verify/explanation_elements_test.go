package verify_test

import (
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// TestWhere checks the places that are reported for kernels with wrong elements at known places.
func TestWhere(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, name string
		is         func(r, c int) bool
		want       string
	}{
		{"everything", "normal/R=3,C=40", func(int, int) bool { return true }, "all 120 elements of y"},
		{"one element", "normal/R=3,C=40", func(r, c int) bool { return r == 2 && c == 7 }, "y[2,7] alone, of 120 elements"},
		{"late columns", "normal/R=3,C=1030", func(_, c int) bool { return c >= 1024 }, "column ≥ 1024: all 18 such elements of y, and none of the 3072 others"},
		{"early columns", "normal/R=3,C=1030", func(_, c int) bool { return c < 16 }, "column ≤ 15: all 48 such elements of y, and none of the 3042 others"},
		{"the last column", "normal/R=4,C=33", func(_, c int) bool { return c == 32 }, "the last column, 32: all 4 such elements of y, and none of the 128 others"},
		{"the last row", "normal/R=300,C=33", func(r, _ int) bool { return r == 299 }, "the last row, 299: all 33 such elements of y, and none of the 9867 others"},
		{"a lane", "normal/R=2,C=500", func(_, c int) bool { return c%16 == 5 }, "every 16th column from 5 on: all 62 such elements of y, and none of the 938 others"},
		{"a lane of some rows", "normal/R=9,C=500", func(r, c int) bool { return c%16 == 5 && r >= 4 }, "row ≥ 4 and every 16th column from 5 on: all 155 such elements of y, and none of the 4345 others"},
		{"scattered", "normal/R=3,C=40", func(r, c int) bool { return (r*40+c)*2654435761>>9%7 == 0 }, " elements of y, in 3 of 3 rows and "},
	} {
		t.Run(test.what, func(t *testing.T) {
			l := flipWhere(func(_ *engine.Launch, r, c int) bool { return test.is(r, c) })
			f := run(t, target(softmax.ForwardDefinition, num.F16, l), verify.Options{Seed: 1, Case: test.name}).Report.Failure
			if f == nil || !strings.Contains(f.Where, test.want) {
				t.Errorf("got %+v, want %q", f, test.want)
			}
		})
	}
	tail := bitwise(func(d *def.Definition, l *engine.Launch) error {
		store(d, l, answer(d, l), func(_, _, c int) bool { return c >= l.Operands[2].Cols/16*16 })
		return nil
	})
	f := run(t, target(gemm.ForwardDefinition, num.F16, tail), verify.Options{Seed: 1, Case: "normal/M=5,K=3,N=70"}).Report.Failure
	if want := "column ≥ 64: all 30 such elements of C, and none of the 320 others"; f == nil || f.Where != want {
		t.Errorf("not written: got %+v, want %q", f, want)
	}
	l := flipWhere(func(l *engine.Launch, _, c int) bool { return c >= l.Operands[0].Cols-3 && c > 16 })
	f = run(t, target(softmax.ForwardDefinition, num.F16, l), verify.Options{Seed: 1}).Report.Failure
	if f == nil || !strings.HasPrefix(f.Where, "in "+f.OriginalCase+": column ≥ ") {
		t.Errorf("after shrinking: got %+v", f)
	}
}
