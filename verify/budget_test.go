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
