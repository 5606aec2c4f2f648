package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"tokitai/evidence"
	"tokitai/verify"
)

// verification is one run of the command.
type verification struct {
	targets       []*verify.Target
	parts         []map[string]bool // of a shard: the cases of each target; nil means all
	options       verify.Options    // of all targets
	workBudget    float64           // for all targets together; 0 means no limit
	terms         *terms
	divide        sync.Once
	shares        []float64                   // of the budget of work, by target
	ofLevel       int                         // cases that the targets have without it
	isTold        func(*evidence.Report) bool // whether a report has a row in the table
	results       []*verify.Result            // of the targets, in their order
	seconds       float64
	isInterrupted bool

	// measure adds speeds to the results; it may be nil.
	measure func(ctx context.Context)
}

// run verifies the targets, several at a time, and calls tell for each result in order, as
// soon as possible.
func (v *verification) run(ctx context.Context, progress *verifyProgress, tell func(*verify.Result)) error {
	began := time.Now()
	errs := make([]error, len(v.targets))
	finished, isFinished := v.start(ctx, progress, errs), make([]bool, len(v.targets))
	next := 0
	for range v.targets {
		isFinished[<-finished] = true
		progress.finish()
		for ; next < len(v.targets) && isFinished[next] && errs[next] == nil; next++ {
			tell(v.results[next])
		}
	}
	v.seconds, v.isInterrupted = time.Since(began).Seconds(), ctx.Err() != nil
	return errors.Join(errs...)
}

// start starts to verify the targets, and returns a channel with the indices of those that
// are done.
func (v *verification) start(ctx context.Context, progress *verifyProgress, errs []error) <-chan int {
	v.results = make([]*verify.Result, len(v.targets))
	finished := make(chan int, len(v.targets))
	var next atomic.Int64
	budget, works := newBudget(v.options.Budget, len(v.targets)), v.workBudgets(ctx)
	for range budget.atOnce {
		go func() {
			for i := int(next.Add(1)) - 1; i < len(v.targets); i = int(next.Add(1)) - 1 {
				o := v.terms.options(v.options, v.targets[i])
				o.Work, o.Budget, o.WorkBudget = progress.of(v.targets[i]), budget.share(i), works[i]
				if v.parts != nil {
					o.Part = func(name string) bool { return v.parts[i][name] }
				}
				v.results[i], errs[i] = verify.Run(ctx, v.targets[i], o)
				finished <- i
			}
		}()
	}
	return finished
}

func (v *verification) reports() []*evidence.Report {
	reports := make([]*evidence.Report, len(v.results))
	for i, r := range v.results {
		reports[i] = r.Report
	}
	return reports
}

// count returns the number of reports with a verdict.
func (v *verification) count(verdict evidence.Verdict) (n int) {
	for _, r := range v.results {
		if r.Report.Verdict == verdict {
			n++
		}
	}
	return n
}

// judgeFaults returns what was found wrong with compiled code that computes answers, each
// once.
func (v *verification) judgeFaults() (faults []string) {
	for _, r := range v.results {
		faults = append(faults, r.JudgeFaults...)
	}
	slices.Sort(faults)
	return slices.Compact(faults)
}

// warn says if the judge is broken.
func (v *verification) warn(notes io.Writer) {
	for _, fault := range v.judgeFaults() {
		fmt.Fprintf(notes, "THE JUDGE IS BROKEN: %s; nothing was judged by it, all answers were interpreted instead\n", fault)
	}
}

// verdict returns an error unless all are accepted that the device can run.
func (v *verification) verdict() error {
	n := len(v.results)
	if faults := v.judgeFaults(); len(faults) > 0 {
		return &verdictError{exitRejected, errors.New(faults[0])}
	}
	if rejected := v.count(evidence.Rejected); rejected > 0 {
		return &verdictError{exitRejected, fmt.Errorf("%d of %d are rejected", rejected, n)}
	}
	for _, r := range v.reports() {
		if r.Speed != nil && r.Speed.IsWrong {
			return &verdictError{exitRejected, fmt.Errorf("%s, %s: wrong while it was timed", r.Lowering, r.DType)}
		}
	}
	accepted, unfinished := v.count(evidence.Accepted), v.count(evidence.Unfinished)
	if accepted+unfinished > 0 { // what the device cannot run is no question there
		n -= v.count(evidence.Skipped)
	}
	switch {
	case accepted == n:
		return nil
	case v.isInterrupted:
		return &verdictError{exitUndecided, fmt.Errorf("interrupted: %d of %d were fully verified", accepted, n)}
	case accepted+unfinished == n:
		return &verdictError{exitUnfinished, fmt.Errorf("%d of %d are unfinished: no fault, but the budget was too short for level smoke", unfinished, n)}
	}
	return &verdictError{exitUndecided, fmt.Errorf("%d of %d are undecided", n-accepted-unfinished, n)}
}

// verifyProgress is the progress of all targets.
type verifyProgress struct {
	*progress
	mu                  sync.Mutex
	cases, ofCases      int
	finished, ofTargets int
	work, known, ofWork float64
}

func (v *verification) newProgress(c *cobra.Command) *verifyProgress {
	p := &verifyProgress{progress: startProgress(c), ofTargets: len(v.targets)}
	if v.options.Case != "" {
		p.ofCases = 1
		return p
	}
	if v.options.Budget > 0 || v.parts != nil { // a budget says when it ends; a shard's work is counted by cases
		for _, part := range v.parts {
			p.ofCases += len(part)
		}
		return p
	}
	go func() { // listing the cases takes a while, and nothing waits for it
		budgets := v.workBudgets(c.Context())
		cases, work := 0, 0.0
		for i, t := range v.targets {
			if c.Context().Err() != nil {
				return
			}
			o := v.terms.options(v.options, t)
			o.WorkBudget = budgets[i]
			n, w := t.Work(o)
			cases, work = cases+n, work+w
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ofCases, p.ofWork = cases, work
	}()
	return p
}

// of returns the function to call after each case of a target.
func (p *verifyProgress) of(t *verify.Target) func(work float64, isKnown bool) {
	return func(work float64, isKnown bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cases++
		if p.work += work; isKnown {
			p.known += work
		}
		cases := counted(p.cases, "case")
		if p.ofCases > 0 {
			cases = fmt.Sprintf("%d of %d cases", p.cases, p.ofCases)
		}
		p.say("%s, %d of %d lowerings and formats done, now %s %s", cases, p.finished, p.ofTargets, t.ID(), t.DType)
		p.progress.of(p.work, p.known, p.ofWork)
	}
}

// finish counts a target.
func (p *verifyProgress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished++
}
