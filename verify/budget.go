package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/gen"
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

// schedule holds the cases of a verification in the order in which they run.
type schedule struct {
	cases   []*Case
	smoke   int // if there is a budget, the number of cases of level smoke, which come first
	leftOut int // cases of the level that are beyond the budget of work
}

// schedule lists the cases of a verification.
func (t *Target) schedule(o *Options) schedule {
	list := t.cases(o)
	if o.Budget <= 0 && o.WorkBudget <= 0 {
		return schedule{cases: list}
	}
	least := *o
	least.Level, least.Shapes = Smoke, nil
	first := t.cases(&least)
	at := make(map[string]int, len(first))
	for i, c := range first {
		at[c.name(t)] = i
	}
	type drawn struct {
		c   *Case
		key uint64
	}
	var rest []drawn
	for _, c := range list {
		name := c.name(t)
		if i, ok := at[name]; ok {
			first[i] = c // with what the level asks of it
			continue
		}
		rest = append(rest, drawn{c, gen.New(fmt.Sprintf("budget %d %s", o.Seed, name)).Next()})
	}
	slices.SortStableFunc(rest, func(a, b drawn) int { return cmp.Compare(a.key, b.key) })
	slices.SortStableFunc(first, func(a, b *Case) int { return cmp.Compare(newProcesses(a), newProcesses(b)) })
	s := schedule{cases: first, smoke: len(first)}
	for _, d := range rest {
		s.cases = append(s.cases, d.c)
	}
	if o.WorkBudget > 0 {
		s.cut(t, o)
	}
	return s
}

// cut leaves out the cases beyond the budget of work: those after the one that reaches it. What
// comes next in the drawn order is never passed over for a smaller case, so that large cases
// have the same chance as small ones.
func (s *schedule) cut(t *Target, o *Options) {
	work := 0.0
	for i, c := range s.cases {
		if i >= s.smoke && work >= o.WorkBudget {
			s.leftOut, s.cases = len(s.cases)-i, s.cases[:i]
			return
		}
		work += t.workOf(c, o)
	}
}

// WorkBudgets divides an amount of work among verifications, given the work of each: every one gets
// the same amount, but for those that need less, whose rest the others share. 0 means no limit.
func WorkBudgets(total float64, works []float64) []float64 {
	shares := make([]float64, len(works))
	order := make([]int, len(works))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(works[a], works[b]) })
	for n, i := range order {
		if share := total / float64(len(order)-n); works[i] > share {
			shares[i] = share
			total -= share
			continue
		}
		total -= works[i]
	}
	return shares
}

// newProcesses returns how many processes a case starts.
func newProcesses(c *Case) int {
	if c.Check == freshCheck {
		return 1
	}
	return 0
}

// endurance returns how often a kernel is rerun on a tiny case. It is smaller under a budget, where
// this case must be done.
func (o *Options) endurance() int {
	if o.Budget > 0 {
		return plans[Smoke].endurance
	}
	return plans[o.Level].endurance
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
