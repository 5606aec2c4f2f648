package verify_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// TestBudget checks that the cases of level smoke run first and the others in an order drawn from
// the seed until the budget is spent, that cases that were not run are counted, and that a kernel is
// accepted only if all cases of level smoke ran. Budgets end after a number of cases, not after a time.
func TestBudget(t *testing.T) {
	run := func(o verify.Options, lowering *engine.Lowering, spentAfter int) *evidence.Report {
		t.Helper()
		var spend context.CancelFunc
		defer verify.SpendBudget(func(ctx context.Context, _ time.Duration, _ func() time.Duration) (context.Context, context.CancelFunc) {
			ctx, spend = context.WithCancel(ctx)
			if spentAfter == 0 {
				spend()
			}
			return ctx, spend
		})()
		o.Progress = func(done, _ int) {
			if done == spentAfter {
				spend()
			}
		}
		r, err := verify.Run(context.Background(), &verify.Target{Operation: softmax.Operations[0], Definition: softmax.ForwardDefinition, Lowering: lowering, DType: num.F16}, o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Report.Tool, r.Report.Version = "test", "1"; r.Report.Check() != nil {
			t.Error(r.Report.Check())
		}
		return r.Report
	}
	names := func(r *evidence.Report) (list []string) {
		for _, c := range r.CaseList {
			list = append(list, c.Name)
		}
		return list
	}
	smoke := names(run(verify.Options{Level: verify.Smoke, Seed: 3}, bitwise(honest), -1))
	o := verify.Options{Level: verify.Quick, Seed: 3, Budget: time.Hour}

	more := run(o, bitwise(honest), len(smoke)+5)
	if more.Verdict != evidence.Accepted || more.Unchecked == nil || more.Unchecked.Smoke != 0 || more.Unchecked.Cases == 0 || more.Unchecked.BudgetSeconds != 3600 {
		t.Errorf("five cases more than smoke's: got %s, %+v, want accepted with cases that were not run", more.Verdict, more.Unchecked)
	}
	got := names(more)
	if len(got) < len(smoke)+5 || !slices.Equal(got[:len(smoke)], smoke) {
		t.Fatalf("got %d cases that begin %q, want those of level smoke first: %q", len(got), got[:3], smoke[:3])
	}
	if again := names(run(o, bitwise(honest), len(smoke)+5)); !slices.Equal(again[:len(smoke)+5], got[:len(smoke)+5]) {
		t.Errorf("again: got %q after smoke's cases, want %q", again[len(smoke):], got[len(smoke):])
	}
	o.Seed = 4
	first := len(names(run(verify.Options{Level: verify.Smoke, Seed: 4}, bitwise(honest), -1)))
	if other := names(run(o, bitwise(honest), first+5))[first:][:5]; slices.Equal(other, got[len(smoke):][:5]) {
		t.Errorf("another seed draws the same order: %q", other)
	}

	for _, done := range []int{0, 5} {
		less := run(o, bitwise(honest), done)
		if less.Verdict != evidence.Unfinished || less.Unchecked == nil || less.Unchecked.Smoke == 0 || !strings.Contains(less.Reason, "budget of 1h0m0s") {
			t.Errorf("%d cases: got %s, %q, %+v, want unfinished, with the budget as the reason", done, less.Verdict, less.Reason, less.Unchecked)
		}
	}

	o.Seed = 3
	wrong := run(o, bitwise(damaged(func(_ *engine.Launch, out []num.Array) { out[1].SetBits(0, 0, out[1].Bits(0, 0)^1) })), -1)
	if wrong.Verdict != evidence.Rejected || wrong.Cases != len(smoke) || wrong.Failure.Case == wrong.Failure.OriginalCase {
		t.Errorf("wrong kernel: got %s after %d cases, want rejected after %d, with a case that was made smaller", wrong.Verdict, wrong.Cases, len(smoke))
	}
}

// TestWorkBudget checks that a budget of work runs all cases of level smoke and then the first of
// those that a budget of time would run, the same ones in every run, and counts the others.
func TestWorkBudget(t *testing.T) {
	t.Parallel()
	target := &verify.Target{Operation: softmax.Operations[0], Definition: softmax.ForwardDefinition, Lowering: bitwise(honest), DType: num.F16}
	run := func(work float64) *evidence.Report {
		t.Helper()
		r, err := verify.Run(t.Context(), target, verify.Options{Level: verify.Quick, Seed: 3, WorkBudget: work})
		if err != nil {
			t.Fatal(err)
		}
		if r.Report.Tool, r.Report.Version = "test", "1"; r.Report.Check() != nil {
			t.Error(r.Report.Check())
		}
		return r.Report
	}
	names := func(r *evidence.Report) (list []string) {
		for _, c := range r.CaseList {
			list = append(list, c.Name)
		}
		return list
	}
	_, whole := target.Work(verify.Options{Level: verify.Quick, Seed: 3})
	inTime := verify.ScheduledCases(target, verify.Options{Level: verify.Quick, Seed: 3, Budget: time.Hour})
	all := len(inTime) // with the cases of level smoke that level quick does not have
	smoke, _ := target.Work(verify.Options{Level: verify.Smoke, Seed: 3})
	for _, row := range []struct {
		work        float64
		least, most int // cases
	}{
		{1, smoke, smoke},
		{whole / 5, smoke + 1, all / 2},
	} {
		r := run(row.work)
		got := names(r)
		if r.Verdict != evidence.Accepted || len(got) < row.least || len(got) > row.most {
			t.Errorf("work %.0f of %.0f: got %s after %d cases of %d, want accepted after %d to %d", row.work, whole, r.Verdict, len(got), all, row.least, row.most)
		}
		if u := r.Unchecked; u == nil || u.Cases != all-len(got) || u.Smoke != 0 || u.BudgetSeconds != 0 {
			t.Errorf("work %.0f: got unchecked %+v, want %d cases", row.work, u, all-len(got))
		}
		if want := "of level quick; --level quick runs all"; !strings.HasSuffix(r.LeftUndone(), want) {
			t.Errorf("work %.0f: got %q, want it to end in %q", row.work, r.LeftUndone(), want)
		}
		if !slices.Equal(got, inTime[:len(got)]) {
			t.Errorf("work %.0f: got other cases than a budget of time runs first", row.work)
		}
		if again := names(run(row.work)); !slices.Equal(again, got) {
			t.Errorf("work %.0f: got %d other cases in a second run", row.work, len(again))
		}
	}
	if n, _ := target.Work(verify.Options{Level: verify.Quick, Seed: 3, WorkBudget: 2 * whole}); n != all {
		t.Errorf("a budget for everything: got %d cases, want %d", n, all)
	}
}

// TestWorkBudgets checks that targets share work evenly, that none gets more than it needs, and
// that together they get all of it.
func TestWorkBudgets(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		total       float64
		works, want []float64
	}{
		{30, []float64{5, 10, 15}, []float64{0, 0, 0}},
		{31, []float64{5, 10, 15}, []float64{0, 0, 0}},
		{24, []float64{15, 4, 16}, []float64{10, 0, 10}},
		{12, []float64{15, 4, 16}, []float64{4, 0, 4}},
		{9, []float64{15, 4, 16}, []float64{3, 3, 3}},
		{9, nil, []float64{}},
	} {
		if got := verify.WorkBudgets(row.total, row.works); !slices.Equal(got, row.want) {
			t.Errorf("%v among %v: got %v, want %v", row.total, row.works, got, row.want)
		}
	}
}

// TestBudgetOfStarts checks that the time that cases wait for processes comes on top of a budget, at
// most as much again.
func TestBudgetOfStarts(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		waits time.Duration // in all, from the beginning
		ends  time.Duration
	}{{0, 10 * time.Second}, {4 * time.Second, 14 * time.Second}, {13 * time.Second, 20 * time.Second}, {time.Hour, 20 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx, cancel := verify.Budgeted(t.Context(), 10*time.Second, func() time.Duration { return min(time.Since(began), row.waits) })
			defer cancel()
			<-ctx.Done()
			if got := time.Since(began); got != row.ends {
				t.Errorf("with waits of %v, a budget of 10s ends after %v, want %v", row.waits, got, row.ends)
			}
		})
	}
}
