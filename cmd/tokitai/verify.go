package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	backends "tokitai/backend/all"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/leftover"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/verify"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	device, lowering, level, only string
	dtypes                        []string
	seed, out, interpret          string
	resume, compact               bool
	deadline                      time.Duration
	json                          bool
}

// verifyTargets returns all targets of a backend; tests replace it.
var verifyTargets = func(b engine.Backend) []*verify.Target { return verify.Targets(all.Operations, b) }

func newVerify() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify [OP]...",
		Short: "check that kernels compute what their definitions say",
		Long: `Run the kernels of every operation, or of the named ones, on cases that reach every
boundary, and compare every output with the reference, bit for bit. OP is an
operation, a definition, a group (softmax is softmax.forward and softmax.backward), or a
file that defines an operation (docs/definitions.md).

What is verified is what calls run on this machine. --lowering selects another lowering,
or with all every one that a call may choose: on the CPU machine code for each instruction
set of the processor (cpu.avx512, cpu.avx2, cpu.neon) and plain Go (cpu.rowwise,
cpu.packed, cpu.gather, cpu.scatter), which run where the better ones are not admitted.
Chosen by name only are cpu.reference, the interpreter, cpu.mma-16-25 and others, models
of tensor cores, and cuda.cublaslt, NVIDIA's library. It promises no bits. Its results
are also compared with the model of the tensor cores, and the output says for each of its
algorithms whether they have the model's bits. A name may lack the kind of device:
cublaslt.

Operands are surrounded by guards, and outputs are poisoned before each run. Besides
the plain comparison, results of related inputs must be related, and no result may
depend on repetition, layout, the number of workers, or what runs at the same time. On
ordinary data, outputs are also compared with the real-number result: the column
error/promise is the largest error as a share of what the definition promises. It is at
most 1, close to 1 where rounding the result is the only error, and - if no case was
compared this way. See docs/verification.md.

  --level smoke       seconds: some shapes, for a first look
          quick       a minute: every pattern of values, every boundary of sizes
          full        minutes: more of everything
          exhaustive  hours: every 32-bit argument of elementwise operations, and
                      every pair of 16-bit arguments

On a device other than the CPU, most answers come from compiled code for the CPU, which is
first verified against the interpreter of definitions; at least one output in 16 is
interpreted as well. With --interpret all, everything is. On the CPU, and at level smoke,
everything always is.

mma stands for the matrix instructions of a GPU's tensor cores. Each is held to every
model mma(L,F) on more than ten million outputs, special values among them (100 thousand
at level smoke), and the one that holds is reported. It is compared with the model that
kernels for this architecture promise; a device of unknown architecture promises none.

A wrong kernel is shown with the smallest failing case that was found, its inputs,
and a command that repeats it. The name of a case and the seed determine it completely.

With --out, a report of each lowering and format is written as JSON and Markdown,
with an index; problems with the folder are reported before anything runs. With
--compact the JSON has a digest of each case instead of its shapes and hashes, and is
compressed with gzip: small enough to be committed. During a run, finished cases are
kept in DIR/journal.jsonl, from which --resume continues after an interrupt; the
reports are the same as without one. Reports of earlier runs stay in DIR unless this
run writes one of the same name; a note counts them.

The exit code is 0 if all are accepted, 3 if one is rejected, and 4 if none is rejected
but something is undecided: a kernel that ended in an error or hung, or an interrupt.`,
		Example: `  tokitai verify softmax --level smoke
  tokitai verify gelu.forward --dtype f16 --level smoke --out evidence/gelu
  tokitai verify gemm.forward.accumulate --lowering cpu.packed --level smoke --json
  tokitai verify softmax.forward --dtype bf16 --case normal/R=3,C=257 --seed 7
  tokitai verify mma --help`,
		ValidArgsFunction: completeOperations,
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	deviceFlag(flags, &f.device, "auto", "verify on")
	flags.StringSliceVar(&f.dtypes, "dtype", nil, "verify only `DTYPE`: f16, bf16, f32, e4m3 or e5m2; may be repeated")
	flags.StringVar(&f.level, "level", "quick", "how much to check: `LEVEL` smoke, quick, full or exhaustive")
	flags.StringVar(&f.lowering, "lowering", "", "verify this `LOWERING` instead: a name such as cpu.avx2, or softmax.forward/cpu.avx2; all means every one that a call may choose")
	flags.StringVar(&f.only, "case", "", "run only this `CASE`")
	flags.StringVar(&f.seed, "seed", "1", "`SEED` of the inputs, an integer from 0 to 2⁶⁴−1")
	flags.StringVar(&f.interpret, "interpret", "sample", "interpret `WHAT` where answers can be compiled: sample, or all")
	flags.StringVar(&f.out, "out", "", "write reports to the folder `DIR`")
	flags.BoolVar(&f.compact, "compact", false, "with --out, write small reports: a digest of each case, compressed with gzip")
	flags.BoolVar(&f.resume, "resume", false, "resume the interrupted run in --out")
	flags.DurationVar(&f.deadline, "deadline", time.Minute, "abandon a launch after this `TIME`")
	jsonFlag(c, &f.json)
	c.MarkFlagDirname("out")
	for name, values := range map[string][]string{"device": deviceNames, "dtype": dtypeNames(), "level": levelNames(), "interpret": interpretNames} {
		c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	c.RegisterFlagCompletionFunc("lowering", f.completeLowering)
	for _, name := range []string{"case", "seed", "deadline"} {
		c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return c
}

var interpretNames = []string{"sample", "all"}

func levelNames() (names []string) {
	for l := verify.Smoke; l <= verify.Exhaustive; l++ {
		names = append(names, l.String())
	}
	return names
}

func (f *verifyFlags) completeLowering(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	targets, err := namedTargets(verifyTargets(backendOf(f.device)), args)
	if err != nil {
		targets = verifyTargets(backendOf(f.device))
	}
	return loweringsOf(targets), cobra.ShellCompDirectiveNoFileComp
}

// run verifies the named targets. It reports errors in the command line, and a folder that
// cannot be written to, before the first case runs.
func (f *verifyFlags) run(c *cobra.Command, names []string) error {
	level, err := verify.ParseLevel(f.level)
	seed, seedErr := strconv.ParseUint(f.seed, 10, 64)
	switch {
	case err != nil:
		return unknownName("level", f.level, levelNames())
	case seedErr != nil:
		return wrongUse("--seed is %q, want an integer from 0 to %d", f.seed, uint64(math.MaxUint64))
	case !slices.Contains(interpretNames, f.interpret):
		return unknownName("interpretation", f.interpret, interpretNames)
	case f.deadline <= 0:
		return wrongUse("--deadline is %v, want more than 0", f.deadline)
	case f.compact && f.out == "":
		return wrongUse("--compact needs --out, the folder for the reports")
	case f.resume && f.out == "":
		return wrongUse("--resume needs --out, the folder of the run to resume")
	case f.resume && f.only != "":
		return wrongUse("--resume and --case are both given: a single case cannot be resumed")
	}
	if err := checkDevice(f.device); err != nil {
		return err
	}
	if slices.Contains(names, probeName) {
		return f.probe(c, names, verify.Options{Level: level, Seed: seed, Tool: toolName, Version: version})
	}
	dev, err := backends.Open(f.device)
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), dev) // not before: whoever opens a GPU first waits for it
	device := dev.Name()
	targets, leftOut, err := f.targets(dev.Backend(), names)
	if err != nil {
		return err
	}
	program, err := programSHA256()
	if err != nil {
		return err
	}
	if f.out != "" {
		undo, err := prepareFolder(f.out)
		if err != nil {
			return err
		}
		defer undo()
	}
	notes := c.ErrOrStderr()
	journal, err := f.openJournal(notes)
	if err != nil {
		return err
	}
	if len(names) > 0 && f.only == "" && len(leftOut) > 0 {
		fmt.Fprintf(notes, "left out: %s cannot be stored in %s\n", allOf(leftOut), strings.Join(f.dtypes, " or "))
	}
	v := &verification{targets: targets, options: verify.Options{
		Device: device, Open: backends.Open, Level: level, Seed: seed, Case: f.only, Deadline: f.deadline, Journal: journal,
		InterpretAll: f.interpret == "all", Tool: toolName, Version: version, Program: program, IsNamed: true,
	}}
	verify.Share(targets)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // cases allocate much, little of which is kept
	}
	table := newVerdictTable(c.OutOrStdout(), targets)
	if !f.json {
		table.head()
	}
	progress := v.newProgress(c)
	err = v.run(c.Context(), progress, func(r *verify.Result) {
		if r.Report.Verdict == evidence.Rejected {
			isRejected.Store(true)
		}
		// What the device cannot run is told below the table, unless it was asked for.
		if isTold := f.lowering == "" && r.Report.Verdict == evidence.Skipped; !f.json && !isTold {
			progress.aside(func() { table.row(&r.Report.Summary) })
		}
	})
	progress.end()
	if err != nil {
		return err
	}
	// Print the results before writing the reports: after an interrupt there may be too
	// little time for both.
	w := c.OutOrStdout()
	if f.json {
		err = v.printJSON(w)
	} else {
		v.print(w, f.out)
	}
	flush(w)
	v.warn(notes)
	verdict, failure := v.verdict(), both(journal.Close(), f.write(v, notes))
	f.reportResumed(journal, notes)
	if !f.json {
		err = v.printEnd(w, f.out, failure == nil)
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

// journalFile is the file in the folder of --out that lists finished cases during a run.
const journalFile = "journal.jsonl"

// openJournal creates the journal of --out, or continues it with --resume. A single case
// has none.
func (f *verifyFlags) openJournal(notes io.Writer) (*verify.Journal, error) {
	if f.out == "" || f.only != "" {
		return nil, nil
	}
	path := filepath.Join(f.out, journalFile)
	if _, err := os.Stat(path); f.resume && err != nil {
		fmt.Fprintf(notes, "there is no %s to resume from: starting from the beginning\n", path)
	}
	return verify.OpenJournal(path, f.resume)
}

// reportResumed prints how much of the journal --resume could use.
func (f *verifyFlags) reportResumed(j *verify.Journal, notes io.Writer) {
	path := filepath.Join(f.out, journalFile)
	switch {
	case !f.resume || j.Known() == 0:
	case j.Taken() == 0:
		fmt.Fprintf(notes, "nothing in %s could be used: it belongs to other lowerings, or another seed, level or program\n", path)
	default:
		fmt.Fprintf(notes, "%s resumed from %s\n", counted(j.Taken(), "case"), path)
	}
}

// write writes the reports to the folder of --out and notes other reports there. It
// removes the journal once the run is complete.
func (f *verifyFlags) write(v *verification, notes io.Writer) error {
	if f.out == "" {
		return nil
	}
	write := evidence.Write
	if f.compact {
		write = evidence.WriteCompact
	}
	if err := write(f.out, v.reports()); err != nil {
		return err
	}
	others, err := otherReports(f.out)
	if err != nil {
		return err
	}
	if others > 0 {
		fmt.Fprintf(notes, "%s in %s: not from this run, and not in its index\n", counted(others, "other file"), f.out)
	}
	if v.isInterrupted || f.only != "" {
		return nil
	}
	if err := os.Remove(filepath.Join(f.out, journalFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// otherReports counts the files in a folder that look like reports but are not in its
// index.
func otherReports(dir string) (n int, err error) {
	data, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		return 0, err
	}
	var index evidence.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, "index.json"), err)
	}
	known := map[string]bool{"index.json": true, "index.md": true}
	for _, r := range index.Reports {
		known[r.JSON], known[r.Markdown] = true, true
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if ending := filepath.Ext(strings.TrimSuffix(e.Name(), ".gz")); (ending == ".json" || ending == ".md") && !known[e.Name()] {
			n++
		}
	}
	return n, err
}

// prepareFolder creates a folder and checks that files can be created in it, before
// anything is computed. undo removes the folders that it created, if they are empty.
func prepareFolder(dir string) (undo func(), err error) {
	var made []string // innermost first
	for path := filepath.Clean(dir); ; path = filepath.Dir(path) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, path)
	}
	remove := func() {
		for _, path := range made {
			os.Remove(path) // fails if it is not empty
		}
	}
	forget := leftover.Add(remove)
	undo = func() {
		remove()
		forget()
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		undo()
		return nil, err
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		undo()
		return nil, err
	}
	return undo, nil
}

// programSHA256 returns the SHA-256 of the running program's file.
func programSHA256() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program's file: %w", err)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading this program's file: %w", err)
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", fmt.Errorf("reading this program's file: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// everyLowering is the value of --lowering that stands for all that a call may choose.
const everyLowering = "all"

// targets returns the targets that the command line names, and the definitions that have
// none because of --dtype.
func (f *verifyFlags) targets(b engine.Backend, names []string) (chosen []*verify.Target, leftOut []string, err error) {
	dtypes, err := parseDTypes(f.dtypes)
	if err != nil {
		return nil, nil, err
	}
	every := verifyTargets(b)
	for _, name := range names {
		if isDefinitionFile(name) {
			o, err := readDefinition(name)
			if err != nil {
				return nil, nil, err
			}
			every = append(every, verify.Targets([]*op.Operation{o}, b)...)
		}
	}
	if chosen, err = namedTargets(every, names); err != nil {
		return nil, nil, err
	}
	known := append(loweringsOf(chosen), everyLowering)
	if f.lowering = fullName(b, f.lowering, known); f.lowering != "" && !slices.Contains(known, f.lowering) {
		if slices.Contains(loweringsOf(every), f.lowering) {
			return nil, nil, wrongUse("lowering %q exists, but not for %s, want %s", f.lowering, oneOf(names), oneOf(loweringNamesOf(chosen)))
		}
		return nil, nil, unknownName("lowering", f.lowering, known)
	}
	chosen = slices.DeleteFunc(chosen, func(t *verify.Target) bool {
		switch f.lowering {
		case "":
			return slices.Contains(b.OnDemand(t.Definition.Kind), t.Lowering) || t.IsFallback()
		case everyLowering:
			return slices.Contains(b.OnDemand(t.Definition.Kind), t.Lowering)
		}
		return t.Lowering.Name != f.lowering && t.ID() != f.lowering
	})
	if len(chosen) == 0 {
		return nil, nil, wrongUse("%s has no lowering that a call chooses by itself: name one with --lowering", b.Kind())
	}
	if len(dtypes) > 0 {
		before := slices.Clone(chosen)
		chosen = slices.DeleteFunc(chosen, func(t *verify.Target) bool { return !slices.Contains(dtypes, t.DType) })
		if len(chosen) == 0 {
			return nil, nil, wrongUse("%s cannot be stored in %s", before[0].ID(), strings.Join(f.dtypes, " or "))
		}
		for _, t := range before {
			isLeft := slices.ContainsFunc(chosen, func(c *verify.Target) bool { return c.Definition == t.Definition })
			if !isLeft && !slices.Contains(leftOut, t.Definition.Name) {
				leftOut = append(leftOut, t.Definition.Name)
			}
		}
	}
	if f.only == "" {
		return chosen, leftOut, nil
	}
	one, err := targetOfCase(chosen, f.only)
	return []*verify.Target{one}, leftOut, err
}

// fullName completes a lowering's name that lacks the kind of device: cublaslt on cuda is
// cuda.cublaslt.
func fullName(b engine.Backend, name string, known []string) string {
	if full := b.Kind() + "." + name; !slices.Contains(known, name) && slices.Contains(known, full) {
		return full
	}
	return name
}

// namedTargets returns the targets of all names, in the order of all. A name is that of a
// definition, an operation or a group. Without names it returns all.
func namedTargets(all []*verify.Target, names []string) ([]*verify.Target, error) {
	if len(names) == 0 {
		return slices.Clone(all), nil
	}
	isChosen := make([]bool, len(all))
	for _, name := range names {
		operations, err := operationsNamed(name)
		isKnown := false
		for i, t := range all {
			runs := func(o *op.Operation) bool { return slices.Contains(o.Definitions, t.Definition) }
			if name == t.Definition.Name || slices.ContainsFunc(operations, runs) {
				isKnown, isChosen[i] = true, true
			}
		}
		switch {
		case isKnown:
		case err != nil:
			var definitions []string
			for _, t := range all {
				definitions = append(definitions, t.Definition.Name)
			}
			return nil, unknownOperation(name, definitions...)
		default:
			return nil, wrongUse("%s has no kernel to verify", name)
		}
	}
	var chosen []*verify.Target
	for i, t := range all {
		if isChosen[i] {
			chosen = append(chosen, t)
		}
	}
	return chosen, nil
}

// loweringNamesOf returns the names of the targets' lowerings, each once.
func loweringNamesOf(targets []*verify.Target) (names []string) {
	for _, t := range targets {
		names = append(names, t.Lowering.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// loweringsOf returns the names and the ids of the targets' lowerings, each once.
func loweringsOf(targets []*verify.Target) []string {
	var ids []string
	for _, t := range targets {
		ids = append(ids, t.ID())
	}
	return append(loweringNamesOf(targets), slices.Compact(ids)...)
}

// targetOfCase returns the target that has the case. There must be exactly one.
func targetOfCase(targets []*verify.Target, name string) (*verify.Target, error) {
	var having []*verify.Target
	var known, reasons []string
	for _, t := range targets {
		err := t.CheckCase(name)
		var unknown *verify.UnknownError
		switch {
		case err == nil:
			having = append(having, t)
		case errors.As(err, &unknown):
			known, reasons = append(known, unknown.Known...), append(reasons, unknown.Error())
		default:
			return nil, err
		}
	}
	slices.Sort(known)
	known, reasons = slices.Compact(known), slices.Compact(reasons)
	switch {
	case len(having) == 1:
		return having[0], nil
	case len(having) == 0 && len(reasons) == 1:
		return nil, wrongUse("%s%s", reasons[0], didYouMean(name, known))
	case len(having) == 0:
		return nil, wrongUse("case %q: none of %d lowerings and formats has it%s", name, len(targets), didYouMean(name, known))
	}
	var places []string
	for _, t := range having[:min(len(having), 3)] {
		places = append(places, fmt.Sprintf("%s in %s", t.ID(), t.DType))
	}
	return nil, wrongUse("case %q is one of %d lowerings and formats, such as %s: choose one with OP, --lowering and --dtype", name, len(having), oneOf(places))
}

// verification is one run of the command.
type verification struct {
	targets       []*verify.Target
	options       verify.Options
	results       []*verify.Result // of the targets, in their order
	seconds       float64
	isInterrupted bool
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
	for range min(runtime.GOMAXPROCS(0), len(v.targets)) {
		go func() {
			for i := int(next.Add(1)) - 1; i < len(v.targets); i = int(next.Add(1)) - 1 {
				o := v.options
				o.Work = progress.of(v.targets[i])
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
	accepted := v.count(evidence.Accepted)
	if accepted > 0 { // what the device cannot run is no question there
		n -= v.count(evidence.Skipped)
	}
	switch {
	case accepted == n:
		return nil
	case v.isInterrupted:
		return &verdictError{exitUndecided, fmt.Errorf("interrupted: %d of %d were fully verified", accepted, n)}
	}
	return &verdictError{exitUndecided, fmt.Errorf("%d of %d are undecided", n-accepted, n)}
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
	go func() { // listing the cases takes a while, and nothing waits for it
		cases, work := 0, 0.0
		for _, t := range v.targets {
			if c.Context().Err() != nil {
				return
			}
			n, w := t.Work(v.options)
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
