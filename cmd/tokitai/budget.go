package main

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"tokitai/evidence"
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

// printLeftOut says which cases kernels do not take.
func (v *verification) printLeftOut(w io.Writer) {
	for _, r := range v.reports() {
		if r.LeftOut != "" && r.Verdict != evidence.Skipped {
			fmt.Fprintf(w, "%s, %s: %s\n", r.Lowering, r.DType, oneLine(r.LeftOut))
		}
	}
}

// printUnchecked says what a budget left undone.
func (v *verification) printUnchecked(w io.Writer) {
	cases := 0
	for _, r := range v.reports() {
		if r.Unchecked != nil {
			cases += r.Unchecked.Cases
		}
	}
	if cases > 0 {
		fmt.Fprintf(w, "unchecked: %s did not fit into the budget of %v\n", counted(cases, "case"), v.options.Budget)
	}
}
