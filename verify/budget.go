package verify

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"tokitai/engine"
	"tokitai/evidence"
)

// There are two budgets. Under both, a verification runs the cases of level smoke first, in their
// order, and then those of its own level in an order drawn from the seed: until the time is spent, or
// up to an amount of work that is estimated beforehand, so that every run chooses the same cases.
// The report counts the cases that were not run. A kernel is accepted only if all cases of level smoke
// have run.
//
// A kernel in processes of its own may take long to start: interpreters import libraries, and
// compilers compile at the first call of each process. Cases that need a new process come last
// among those of level smoke. The time that cases wait for processes to start and to answer their
// first call has a budget of its own, of the same size.

// withBudget is budgeted; tests replace it.
var withBudget = budgeted

// budgeted returns a context that ends after the budget. The time that was spent waiting by then is
// added once, up to the size of the budget.
func budgeted(ctx context.Context, budget time.Duration, waited func() time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		var added time.Duration
		for left := budget; left > 0; {
			timer := time.NewTimer(left)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
			left = min(waited(), budget) - added
			added += left
		}
		cancel()
	}()
	return ctx, cancel
}

// waiting holds the trial whose waits do not count. It is set once there is one.
type waiting struct{ trial atomic.Pointer[engine.Trial] }

func (w *waiting) time() time.Duration {
	if t := w.trial.Load(); t != nil {
		return t.Waited()
	}
	return 0
}

// limited returns a context that ends when the budget is spent.
func (o *Options) limited(ctx context.Context, w *waiting) (context.Context, context.CancelFunc) {
	if o.Budget <= 0 {
		return ctx, func() {}
	}
	return withBudget(ctx, o.Budget, w.time)
}

// unchecked counts the cases that a budget left out. It returns nil if there are none.
func (s *verification) unchecked() *evidence.Unchecked {
	u := &evidence.Unchecked{Cases: s.leftOutOfWork, BudgetSeconds: s.o.Budget.Seconds()}
	if over := len(s.done) + s.unsuited; s.o.Budget > 0 {
		u.Cases, u.Smoke = u.Cases+s.total-over, max(s.smoke-over, 0)
	}
	if u.Cases == 0 {
		return nil
	}
	return u
}

// undone says how many cases were not run.
func (s *verification) undone(u *evidence.Unchecked) string {
	if s.o.Budget <= 0 {
		return fmt.Sprintf("%d cases of level %s were not run", u.Cases, s.o.Level)
	}
	return fmt.Sprintf("%d of the %d cases were not run, in a budget of %v", u.Cases, s.total+s.leftOutOfWork, s.o.Budget)
}

// overBudget says how far a verification came whose budget was too small for level smoke, or
// returns "".
func (s *verification) overBudget(r *evidence.Report) string {
	u := r.Unchecked
	if u == nil || u.Smoke == 0 {
		return ""
	}
	reason := fmt.Sprintf("no fault in %d of the %d cases of level smoke; the budget of %v was spent", s.smoke-u.Smoke, s.smoke, s.o.Budget)
	if s.waitedFor != "" {
		reason += fmt.Sprintf(" in case %s", s.waitedFor)
	}
	return reason
}

// budgetText returns the budget as the value of a flag.
func budgetText(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return " --budget " + d.String()
}

// Work is the number of cases of a verification, and an estimate of the time that they take
// together, in a unit of its own.
func (t *Target) Work(o Options) (cases int, work float64) {
	r := o.request(t)
	list := t.Cases().Schedule(r).Cases
	for _, c := range list {
		work += t.Cases().WorkOf(c, r)
	}
	return len(list), work
}
