package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	backends "tokitai/backend/all"
	"tokitai/evidence"
	"tokitai/verify"
)

// judgeFlags are the flags that verify and check share: how much to check, what kernels are
// held to, and where the result goes.
type judgeFlags struct {
	level, only, seed, out string
	html                   string
	dtypes                 []string
	resume                 bool
	deadline, budget       time.Duration
	json                   bool
	invarianceFlags
	promiseFlags
}

// register adds the flags to a command. The verb says what it does, and seed is the value of
// --seed if none is given.
func (f *judgeFlags) register(c *cobra.Command, verb, seed string) {
	flags := c.Flags()
	flags.StringSliceVar(&f.dtypes, "dtype", nil, verb+" only `DTYPE`: f16, bf16, f32, e4m3, e5m2, i32 or i64; may be repeated")
	flags.StringVar(&f.level, "level", "quick", "how much to check: `LEVEL` smoke, quick, full or exhaustive")
	f.promiseFlags.register(c)
	f.invarianceFlags.register(flags)
	flags.StringVar(&f.only, "case", "", "run only this `CASE`")
	flags.StringVar(&f.seed, "seed", seed, "`SEED` of the inputs, an integer from 0 to 2⁶⁴−1")
	flags.StringVar(&f.out, "out", "", "write reports to the folder `DIR`, or to the archive NAME.zip")
	flags.BoolVar(&f.resume, "resume", false, "resume the interrupted run in --out")
	htmlFlag(c, &f.html)
	flags.DurationVar(&f.deadline, "deadline", defaultDeadline, "abandon a launch after this `TIME`")
	budgetFlag(c, &f.budget)
	jsonFlag(c, &f.json)
	c.MarkFlagFilename("out", "zip")
	for name, values := range map[string][]string{"dtype": dtypeNames(), "level": levelNames()} {
		c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	for _, name := range []string{"case", "seed", "deadline", "budget"} {
		c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// defaultDeadline is how long a launch may take, unless --deadline says otherwise.
const defaultDeadline = time.Minute

func levelNames() (names []string) {
	for l := verify.Smoke; l <= verify.Exhaustive; l++ {
		names = append(names, l.String())
	}
	return names
}

// parse returns what the flags say, as far as it does not depend on what is judged.
func (f *judgeFlags) parse() (o verify.Options, t *terms, err error) {
	level, err := verify.ParseLevel(f.level)
	seed, seedErr := strconv.ParseUint(f.seed, 10, 64)
	switch {
	case err != nil:
		return o, nil, unknownName("level", f.level, levelNames())
	case seedErr != nil:
		return o, nil, wrongUse("--seed is %q, want an integer from 0 to %d", f.seed, uint64(math.MaxUint64))
	case f.deadline <= 0:
		return o, nil, wrongUse("--deadline is %v, want more than 0", f.deadline)
	case f.budget < 0:
		return o, nil, wrongUse("--budget is %v, want more than 0", f.budget)
	case f.budget > 0 && f.only != "":
		return o, nil, wrongUse("--budget and --case are both given: a single case has no budget")
	case f.resume && f.out == "":
		return o, nil, wrongUse("--resume needs --out, the folder or archive of the run to resume")
	case f.resume && f.only != "":
		return o, nil, wrongUse("--resume and --case are both given: a single case cannot be resumed")
	}
	o = verify.Options{
		Open: backends.Open, Level: level, Seed: seed, Case: f.only, Deadline: f.deadline, Budget: f.budget,
		Invariance: f.invariance, OnlyInvariance: f.invarianceOnly,
		Tool: toolName, Version: version, IsNamed: true,
	}
	t, err = f.promiseFlags.parse()
	return o, t, err
}

// prepare checks that reports and their page can be written, before anything is computed. undo
// removes folders that are still empty.
func (f *judgeFlags) prepare() (undo func(), err error) {
	undo = func() {}
	if f.out != "" {
		if undo, err = prepareReports(f.out); err != nil {
			return nil, err
		}
	}
	if err := preparePage(f.html); err != nil {
		undo()
		return nil, err
	}
	return undo, nil
}

// printWritten prints the paths of the reports and their page, which were written.
func (f *judgeFlags) printWritten(w io.Writer) (err error) {
	if f.out != "" {
		_, err = fmt.Fprintf(w, "reports: %s\n", reportsPath(f.out))
	}
	if f.html != "" {
		_, err = fmt.Fprintf(w, "page: %s\n", f.html)
	}
	return err
}

// conduct runs a verification, prints its results and writes its reports. It returns an error
// unless everything is accepted.
func (f *judgeFlags) conduct(c *cobra.Command, v *verification) (err error) {
	if f.out != "" || f.html != "" || f.json && f.budget == 0 { // reports name the program; a short budget is better spent on cases
		if v.options.Program, err = programSHA256(); err != nil {
			return err
		}
	}
	undo, err := f.prepare()
	if err != nil {
		return err
	}
	defer undo()
	notes := c.ErrOrStderr()
	journal, err := f.openJournal(notes)
	if err != nil {
		return err
	}
	v.options.Journal = journal
	v.options.Unhashed = f.out == "" && f.html == "" && !f.json
	verify.Share(v.targets)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // cases allocate much, little of which is kept
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(4 << 30) // nearer to it, garbage is collected more often
	}
	w := c.OutOrStdout()
	table := newVerdictTable(w, v.targets)
	if !f.json {
		table.head()
	}
	progress := v.newProgress(c)
	err = v.run(c.Context(), progress, func(r *verify.Result) {
		if r.Report.Verdict == evidence.Rejected {
			isRejected.Store(true)
		}
		if !f.json && v.isTold(r.Report) {
			progress.aside(func() { table.row(r.Report) })
		}
	})
	progress.end()
	if err != nil {
		return err
	}
	if v.measure != nil {
		v.measure(c.Context())
	}
	// Print the results before writing the reports: after an interrupt there may be too
	// little time for both.
	if f.json {
		err = v.printJSON(w)
	} else {
		v.print(w, f.out)
	}
	flush(w)
	v.warn(notes)
	verdict, failure := v.verdict(), both(both(journal.Close(), f.write(v, notes)), writePage(f.html, v.reports(), v.extra(c)))
	f.reportResumed(journal, notes)
	if !f.json {
		if failure == nil {
			f.printWritten(w)
		}
		err = v.printEnd(w)
	}
	switch err = both(failure, err); {
	case err == nil:
		return verdict
	case exitCode(verdict) == exitRejected: // which must not be overlooked
		return &verdictError{exitRejected, both(verdict, err)}
	}
	return err
}

// both joins two errors in one line.
func both(a, b error) error {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return fmt.Errorf("%w; %w", a, b)
}
