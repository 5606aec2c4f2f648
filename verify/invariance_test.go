package verify_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// The kernels of these tests are honest: every result is that of some order of sums, or off by an
// ulp that promise stable admits. But the same row, or the same call, does not always have the same
// bits.

// backwards adds up from the last term on.
func backwards(terms []float32) float32 {
	turned := slices.Clone(terms)
	slices.Reverse(turned)
	return sequential(turned)
}

// orderedBy returns a product that sums backwards if isBackwards returns true.
func orderedBy(isBackwards func(l *engine.Launch, row int) bool) kernelFunc {
	return func(d *def.Definition, l *engine.Launch) error {
		return product(func(row int, terms []float32) float32 {
			if isBackwards(l, row) {
				return backwards(terms)
			}
			return sequential(terms)
		}, num.Narrow)(d, l)
	}
}

func rowsOf(l *engine.Launch) int { return l.Arrays()[2].Rows }

// split adds up two halves where K is split.
func split(isSplit func(l *engine.Launch) bool) kernelFunc {
	return func(d *def.Definition, l *engine.Launch) error {
		return plainProduct(func(terms []float32) float32 {
			if n := len(terms) / 2; isSplit(l) && n > 0 {
				return sequential(terms[:n]) + sequential(terms[n:])
			}
			return sequential(terms)
		})(d, l)
	}
}

// lastElements is GELU, with an error of one ulp in elements after the last multiple of 8.
func lastElements(d *def.Definition, l *engine.Launch) error {
	out := answer(d, l)
	for r := range out[1].Rows {
		for c := out[1].Cols / 8 * 8; c < out[1].Cols; c++ {
			if v := out[1].At(r, c); v > 0x1p-100 {
				out[1].SetBits(r, c, out[1].Bits(r, c)+1)
			}
		}
	}
	store(d, l, out, nil)
	return nil
}

// keptScratch adds the leftovers of the call before, times zero.
func keptScratch() kernelFunc {
	scratch := float32(0)
	return func(d *def.Definition, l *engine.Launch) error {
		first := l.Arrays()[0].At(0, 0)
		defer func() { scratch = first }()
		return plainProduct(func(terms []float32) float32 { return sequential(append(slices.Clone(terms), 0*scratch)) })(d, l)
	}
}

// TestPropertiesBite plants kernels that lack one property each. All of them are honest, and
// promise stable admits their results.
func TestPropertiesBite(t *testing.T) {
	t.Parallel()
	var count atomic.Int64
	var firstQueue sync.Map
	for i, test := range []struct {
		what  string
		d     *def.Definition
		run   kernelFunc
		fails []string // properties; kernels without memory fail in no others
		text  string   // of the first counterexample
		when  string
	}{
		{"nothing", gemm.ForwardDefinition, plainProduct(sequential), nil, "", ""},
		{"K is split where M is at most 8", gemm.ForwardDefinition, split(func(l *engine.Launch) bool { return rowsOf(l) <= 8 }), []string{"rows"},
			"between M = 9 and M = 1", "rows differ from M = 9 on: the same bits for M = 1 to 8, and for M = 9 to 17"},
		{"K is split for one row", gemm.ForwardDefinition, split(func(l *engine.Launch) bool { return rowsOf(l) == 1 }), []string{"rows"},
			"between M = 2 and M = 1", "M = 1 differs from M = 2 to 17, which agree"},
		{"K is split for 16 rows and for 3", gemm.ForwardDefinition, split(func(l *engine.Launch) bool { return rowsOf(l) == 16 || rowsOf(l) == 3 }), []string{"rows"},
			"between M = 3 and M = 1", "rows have 2 kinds of bits: for M = 1 to 2, 4 to 15, 17; for M = 3, 16"},
		{"odd rows are added up backwards", gemm.ForwardDefinition, orderedBy(func(_ *engine.Launch, row int) bool { return row%2 == 1 }), []string{"rows"},
			"between M = 17 and M = 1, with the same row", "the row has 2 kinds of bits by its place among M = 17 rows: at 0, 2, 4, 6, 8, 10, …; at 1, 3"},
		{"the last of 17 rows is added up backwards", gemm.ForwardDefinition, orderedBy(func(_ *engine.Launch, row int) bool { return row == 16 }), []string{"rows"},
			"between M = 17 and M = 1", "by its place among M = 17 rows: at 0 to 15; at 16"},
		{"a NaN in the first row", gemm.ForwardDefinition, orderedBy(func(l *engine.Launch, _ int) bool { return isNaN(l.Arrays()[0].At(0, 0)) }), []string{"rows"},
			"with NaN in every other M", ""},
		{"the last elements of a row", gelu.ForwardDefinition, lastElements, []string{"elements"}, "at another place: all elements along C moved by 1", ""},

		// These have memory, so that several properties show it.
		{"terms in a random order", gemm.ForwardDefinition, plainProduct(inRandomOrder), evidence.PropertyNames, "when the same call, with M = 2, is repeated: this is not about rows", ""},
		{"every other call is added up backwards", gemm.ForwardDefinition, func(d *def.Definition, l *engine.Launch) error {
			isOdd := count.Add(1)%2 == 1
			return orderedBy(func(*engine.Launch, int) bool { return isOdd })(d, l)
		}, []string{"reruns"}, "", ""},
		{"the call before had NaN", gemm.ForwardDefinition, keptScratch(), []string{"state"}, "", ""},
		{"old contents of the output", gemm.ForwardDefinition, orderedBy(func(l *engine.Launch, _ int) bool {
			a := l.Arrays()[2]
			return a.Bits(a.Rows-1, a.Cols-1)&1 == 1
		}), []string{"memory"}, "", ""},
		{"the queue", gemm.ForwardDefinition, orderedBy(func(l *engine.Launch, _ int) bool {
			first, _ := firstQueue.LoadOrStore("", l.Queue)
			return l.Queue != first
		}), []string{"queues"}, "", ""},
	} {
		if !isTried(i, 2) {
			continue
		}
		t.Run(strings.ReplaceAll(test.what, " ", "_"), func(t *testing.T) {
			r := run(t, target(test.d, num.F32, stable(test.run)), verify.Options{Level: verify.Smoke, Seed: 1, OnlyInvariance: true}).Report
			var fails []string
			var first *evidence.Pair
			for _, p := range r.Properties {
				if p.Failed > 0 {
					fails = append(fails, p.Name)
				}
				if first == nil {
					first = p.Counterexample
				}
			}
			if len(test.fails) == 0 {
				if r.Verdict != evidence.Accepted || fails != nil {
					t.Errorf("%s: %v: %s; want accepted", r.Verdict, fails, r.Reason)
				}
				return
			}
			if r.Verdict != evidence.Rejected || test.text != "" && !slices.Equal(fails, test.fails) || !slices.Contains(fails, test.fails[0]) {
				t.Fatalf("%s because of %v (%s), want rejected because of %v", r.Verdict, fails, first, test.fails)
			}
			if !strings.Contains(first.Text, test.text) || !strings.Contains(first.When, test.when) || first.Got == first.Want || first.Got == "" {
				t.Errorf("counterexample %s; want one that differs %s; %s", first, test.text, test.when)
			}
		})
	}
}

func isNaN(x float32) bool { return x != x }

func inRandomOrder(terms []float32) float32 {
	terms = slices.Clone(terms)
	rand.Shuffle(len(terms), func(i, k int) { terms[i], terms[k] = terms[k], terms[i] })
	return sequential(terms)
}

// TestInvarianceIsAskedFor checks that a kernel whose rows depend on M is accepted under promise
// stable without Options.Invariance, and rejected with it, although it is still honest.
func TestInvarianceIsAskedFor(t *testing.T) {
	t.Parallel()
	x := brief(target(gemm.ForwardDefinition, num.F32, stable(split(func(l *engine.Launch) bool { return rowsOf(l) <= 8 }))))
	for _, isAsked := range []bool{false, true} {
		r := run(t, x, verify.Options{Level: verify.Smoke, Seed: 1, Invariance: isAsked})
		want := []evidence.TierName(nil)
		if isAsked {
			want = []evidence.TierName{evidence.Invariance}
		}
		if got := r.RejectedBy(); !slices.Equal(got, want) || (len(r.Report.Properties) > 0) != isAsked {
			t.Errorf("invariance %v: rejected by %v (%s), want %v; %d properties", isAsked, got, r.Report.Reason, want, len(r.Report.Properties))
		}
		if r.Report.Honest != evidence.Yes {
			t.Errorf("invariance %v: honest is %s, want yes: every output is admissible", isAsked, r.Report.Honest)
		}
		if f := r.Report.Failure; isAsked && (!strings.HasPrefix(f.Case, "rows-M:") || !strings.Contains(f.Case, "M=9,") || f.Got == f.Want || !strings.Contains(f.When, "from M = 9 on")) {
			t.Errorf("smallest case %s: %s and %s, when %s; want M=9", f.Case, f.Got, f.Want, f.When)
		}
	}
}

// TestPropertiesDoNotApply checks that reports say which properties do not apply, such as rows alone
// for sums over rows.
func TestPropertiesDoNotApply(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d        *def.Definition
		property string
		note     string
		isAsked  bool
	}{
		{embedding.BackwardDefinition, "rows", "does not apply: dweight sums over Q", false},
		{gemm.GradBDefinition, "rows", "does not apply: dB sums over M", false},
		{layernorm.BackwardDefinition, "rows", "dgamma sums over R; dbeta sums over R", true},
		{softmax.ForwardDefinition, "elements", "does not apply: an element depends on others", false},
		{gemm.GradBDefinition, "elements", "", true},
		{norm.SquareSumDefinition, "elements", "does not apply: an element depends on others", false},
	} {
		r := run(t, target(test.d, num.F32, bitwise(honest)), verify.Options{Level: verify.Smoke, Seed: 1, OnlyInvariance: true}).Report
		for _, p := range r.Properties {
			if p.Name == test.property && (!strings.Contains(p.Note, test.note) || (p.Cases > 0) != test.isAsked || (p.Checks > 0) != test.isAsked) {
				t.Errorf("%s: property %s has %d cases, note %q, want %q", test.d.Name, p.Name, p.Cases, p.Note, test.note)
			}
		}
		if r.Verdict != evidence.Accepted || r.Scope != evidence.ScopeInvariance || r.Honest != evidence.Open || r.Coverage.Judged != 0 {
			t.Errorf("%s: %s (%s), scope %q, honest %s, %d judged; want accepted, and nothing judged", test.d.Name, r.Verdict, r.Reason, r.Scope, r.Honest, r.Coverage.Judged)
		}
	}
}

// TestVariants checks that a variant of a kernel must give the same bits, and that an error of a
// variant leaves the verification without a decision.
func TestVariants(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		variant kernelFunc
		want    evidence.Verdict
	}{
		{plainProduct(sequential), evidence.Accepted},
		{plainProduct(backwards), evidence.Rejected},
		{func(*def.Definition, *engine.Launch) error { return errors.New("with 3 threads it fails") }, evidence.Inadmissible},
	} {
		x := target(gemm.ForwardDefinition, num.F32, stable(plainProduct(sequential)))
		x.Variants = []verify.Variant{{Name: "with 3 threads", Lowering: stable(test.variant)}}
		r := run(t, x, verify.Options{Level: verify.Smoke, Seed: 1, OnlyInvariance: true}).Report
		if r.Verdict != test.want || test.want != evidence.Accepted && !strings.Contains(r.Reason, "with 3 threads") {
			t.Errorf("%s: %s, want %s", r.Verdict, r.Reason, test.want)
		}
	}
}
