package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"tokitai/evidence"
	"tokitai/verify"
)

// budgetFlag adds --budget.
func budgetFlag(c *cobra.Command, to *time.Duration) {
	c.Flags().DurationVar(to, "budget", 0, "spend about this `TIME`, such as 2s: the cases of level smoke first, then what fits")
}

// budget divides the time of a command among its targets, of which several run at once.
type budget struct {
	ends    time.Time // zero: there is no limit
	targets int
	atOnce  int
}

func newBudget(total time.Duration, targets int) *budget {
	b := &budget{targets: targets, atOnce: min(runtime.GOMAXPROCS(0), targets)}
	if total > 0 {
		b.ends = time.Now().Add(total)
	}
	return b
}

// share returns the time for target i, which starts now: what is left, divided by the number of
// targets that run one after the other from now on. 0 is no limit.
func (b *budget) share(i int) time.Duration {
	if b.ends.IsZero() {
		return 0
	}
	rounds := (b.targets - i + b.atOnce - 1) / b.atOnce
	return max((time.Until(b.ends) / time.Duration(rounds)).Round(time.Millisecond), time.Millisecond)
}

// defaultWork is the work of a verification for which neither operations nor a level are named, in the
// unit of verify.Target.Work: about 50 seconds of two cores. It counts cases by their size and not by
// the clock, so that every machine runs the same ones. Tests replace it.
var defaultWork = 7.5e8

// workBudgets returns the work that each target may do, each 0 if there is no limit.
func (v *verification) workBudgets(ctx context.Context) []float64 {
	if v.workBudget <= 0 {
		return make([]float64, len(v.targets))
	}
	v.divide.Do(func() {
		cases, works := make([]int, len(v.targets)), make([]float64, len(v.targets))
		var next atomic.Int64
		var listing sync.WaitGroup
		for range min(runtime.GOMAXPROCS(0), len(works)) {
			listing.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(works) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
					cases[i], works[i] = v.targets[i].Work(v.terms.options(v.options, v.targets[i]))
				}
			})
		}
		listing.Wait()
		v.shares = verify.WorkBudgets(v.workBudget, works)
		for _, n := range cases {
			v.ofLevel += n
		}
	})
	return v.shares
}

// printLeftOut says which cases kernels do not take.
func (v *verification) printLeftOut(w io.Writer) {
	for _, r := range v.reports() {
		if r.LeftOut != "" && r.Verdict != evidence.Skipped {
			fmt.Fprintf(w, "%s, %s: %s\n", r.Lowering, r.DType, oneLine(r.LeftOut))
		}
	}
}

// printUnchecked says what a budget left out.
func (v *verification) printUnchecked(w io.Writer) {
	leftOut := 0
	for _, r := range v.reports() {
		if r.Unchecked != nil {
			leftOut += r.Unchecked.Cases
		}
	}
	switch {
	case leftOut == 0:
	case v.options.Budget > 0:
		fmt.Fprintf(w, "unchecked: %s did not fit into the budget of %v\n", counted(leftOut, "case"), v.options.Budget)
	default:
		fmt.Fprintf(w, "left out: %d of %d cases of level %s; --level %s runs all\n", leftOut, v.ofLevel, v.options.Level, v.options.Level)
	}
}
