package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tokitai/backend/cpu"
	"tokitai/data"
	"tokitai/engine"
	"tokitai/ranks/launch"
	"tokitai/train"
)

// trainFlags are the flags of train.
type trainFlags struct {
	device, data, suffix, out, page, tensorboard string
	set                                          []string
	ranks, transport, audit, experts             string
	dryRun, diagnose, profile, json              bool
}

func newTrain() *cobra.Command {
	var f trainFlags
	c := &cobra.Command{
		Use:   "train [CONFIG]",
		Short: "train a decoder, with the same bits on every device and after every interrupt",
		Long: `Train a decoder on the text of a file or a folder. CONFIG is a JSON file of
settings; --set changes single ones. Those that are not given have the values of a small
decoder: four layers of 128. The rate rises in the first twentieth of the steps, or the first
100, if warmup is not given.

Every bit of the run follows from its settings and its data. --out is the run's folder: it
has run.json, metrics.jsonl with a line for each step, and checkpoints. Running the same
command again resumes from the newest checkpoint; an interrupt (SIGINT, SIGTERM) writes one
after the step that is under way, a second one does not wait for it, and SIGUSR1 writes one
and goes on. A run that was stopped anywhere, also by a loss of power, has the same chain in the end as one that was not: an
entry for each step over loss, norm and weights. 'tokitai replay' computes steps again.

--data names a file, which is one document, or a folder, of which every regular file is one,
in the order of their paths. Of a file whose name ends in .jsonl, the member text of the JSON
object in each line is one. grammar:N is a text of N letters whose entropy is known. Tokens are
bytes; with --set tokenizer=bpe a byte-pair encoding of --set vocabulary=N tokens is trained
on the data, and --set tokenizer=FILE takes that of a tokenizer.json.

With --set features=SIZE, or an object instead of a size, the network computes rows of numbers
from rows of features, and --data names a file with a row in each line: a JSON object whose
members features and targets are arrays of numbers. synthetic:N stands for N rows that are
made. Settings of decoders are refused then.

--set start=PATH begins with the weights of another run, of a checkpoint, of a folder of the
library transformers, or of a TKP1 file, and takes the settings of the network from there. The
moments of a TKP1 file are taken too, those of runs with --set moments=start.

--ranks N trains with N processes of this machine, which share its processors and the leaves
of each step: --set leaves=M divides a step into M of them, at least N. N changes no bit, and the
run may go on with another one. If a process dies, the run goes on from its last checkpoint.
--ranks env makes this process one of those that mpirun (of Open MPI or MPICH), srun or torchrun has
started. On several machines TOKITAI_RANKS_ADDRESS is HOST:PORT of rank 0, unless the launcher says
it, and TOKITAI_RANKS_SECRET a text that all of them know. If one dies, the others end with
exit code 4, and the same commands go on from the last checkpoint. Their bytes go through shared
memory on one machine and over TCP between several. --transport mpi has the launcher's own library
of MPI move them, nccl and rccl those of NVIDIA and AMD between GPUs of which each rank has one; a
process beside each rank calls the library. No transport changes a bit.

--experts divided divides the experts of a mixture among the ranks, for one that a single device
cannot hold: each rank has the weights and moments of its experts alone, and rows of tokens go to the
ranks of their experts and back. It changes no bit either. --dry-run says what each rank holds.

--audit finds bits that a rank computes, keeps or sends wrongly, and names the rank, the tensor and
the step; the run goes on from its last checkpoint. What ranks send and what they keep between steps
is compared in every step. What they compute is compared in a SHARE of the steps, drawn at random: a
second rank computes these again. So a fault in one step of what a rank computes is found with the
chance SHARE, one in each of n steps with 1 - (1 - SHARE)^n; with all, in the step in which it occurs.

--profile measures every call of a step, several times in a row, and prints a line for each
kernel: its time in a step, the least bytes that it has to move and the products that it adds
up in a second, and what part of its time a copy of memory of as many bytes, or the device at its
peak, would take. Operands that fit into a cache move faster than a copy.

Standard output has a line for each validation, and the last entry of the chain. Settings:
` + inLines(train.Names(), 88),
		Example: `  tokitai train config.json --data text.txt --out new
  tokitai train --set steps=3 --data grammar:20000 --out small
  tokitai train config.json --data text.txt --dry-run`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return []cobra.Completion{"json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "" {
				return wrongUse("CONFIG is empty, want a file")
			}
			return f.run(c, args)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.set, "set", nil, "change a setting: `NAME=VALUE`; may be repeated")
	flags.StringVar(&f.data, "data", "", "train on the text of `PATH`, a file or a folder")
	flags.StringVar(&f.suffix, "suffix", "", "of a folder, read only files whose names end in `SUFFIX`")
	flags.StringVar(&f.out, "out", "", "`FOLDER` of the run, begun or resumed")
	deviceFlag(flags, &f.device, "auto", "train on")
	flags.StringVar(&f.ranks, "ranks", "1", "train with `N` processes of this machine; env for those that a launcher has started")
	flags.StringVar(&f.transport, "transport", autoTransport, "with --ranks env, what moves the bytes between ranks: "+strings.Join(transports, ", "))
	flags.StringVar(&f.experts, "experts", "whole", "what each rank has of the experts of a mixture: whole, or divided among the ranks")
	flags.StringVar(&f.audit, "audit", "", "have two ranks compute a `SHARE` of the steps, from 0 to 1 or all, and compare all that ranks send and keep")
	flags.StringVar(&f.page, "page", "", "serve a page of the run at `ADDRESS`, such as 127.0.0.1:8080; see 'tokitai page'")
	flags.StringVar(&f.tensorboard, "tensorboard", "", "also write loss, validation, norm, rate and speed to an event file in `FOLDER`")
	flags.BoolVar(&f.dryRun, "dry-run", false, "plan the run and measure a few steps, whose results are thrown away; write nothing")
	flags.BoolVar(&f.diagnose, "diagnose", false, "print how large weights and gradients of the first step are, by name, and what gradients would lose in f16; write nothing")
	flags.BoolVar(&f.profile, "profile", false, "measure where the time of a step goes, by kernel, and print a table; write nothing")
	jsonFlag(c, &f.json)
	registerProgress(c)
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("transport", cobra.FixedCompletions(transports, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("experts", cobra.FixedCompletions([]cobra.Completion{"whole", "divided"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// inLines returns names in lines of at most so many columns, indented.
func inLines(names []string, columns int) string {
	text, line := "", ""
	for i, name := range names {
		if i < len(names)-1 {
			name += ","
		}
		if len(line)+len(name)+3 > columns {
			text, line = text+"  "+line+"\n", ""
		}
		if line != "" {
			line += " "
		}
		line += name
	}
	return text + "  " + line
}

// settings reads the settings that the command line gives. What they do not say follows from what they say: from the
// kind of network, or the network that the run starts with, and from the number of steps.
func (f *trainFlags) settings(args []string) (train.Settings, error) {
	s, err := f.given(args, train.Default())
	if err != nil {
		return s, err
	}
	base := train.Default()
	switch {
	case s.Start != "":
		start, err := train.ReadStart(cpu.Queue().Device(), s.Start)
		if err != nil {
			return s, err
		}
		base = start.Settings()
	case s.HasFeatures():
		base = train.DefaultFeatures()
	}
	if s, err = f.given(args, base); err != nil {
		return s, err
	}
	if s, err = f.given(args, base.ForSteps(s.Steps)); err != nil {
		return s, err
	}
	return s, s.Check()
}

// given returns settings, changed as the command line says.
func (f *trainFlags) given(args []string, s train.Settings) (train.Settings, error) {
	if len(args) > 0 {
		var err error
		if s, err = train.ReadSettings(args[0], s); err != nil {
			return s, err
		}
	}
	for _, one := range f.set {
		if err := s.Set(one); err != nil {
			return s, wrongUse("--set: %v", err)
		}
	}
	return s, nil
}

func (f *trainFlags) run(c *cobra.Command, args []string) error {
	s, err := f.settings(args)
	var only []string // instead of training
	for _, x := range []struct {
		name  string
		isSet bool
	}{{"--dry-run", f.dryRun}, {"--diagnose", f.diagnose}, {"--profile", f.profile}} {
		if x.isSet {
			only = append(only, x.name)
		}
	}
	switch {
	case err != nil:
		return err
	case f.data == "":
		return wrongUse("--data is missing, want a file or a folder with text")
	case len(only) > 1:
		return wrongUse("%s are different things: want one of them", strings.Join(only, " and "))
	case f.out == "" && len(only) == 0:
		return wrongUse("--out is missing, want the folder of the run, or --dry-run")
	case f.out != "" && len(only) > 0:
		return wrongUse("%s writes nothing: want no --out", only[0])
	case f.page != "" && len(only) > 0:
		return wrongUse("%s trains nothing: want no --page", only[0])
	case f.ranks != "1" && len(only) > 0 && !f.dryRun:
		return wrongUse("%s is of one process: want no --ranks", only[0])
	case f.page != "" && f.ranks == launchedRanks:
		return wrongUse("--page is of one machine: want no --ranks env; 'tokitai page' shows the run too")
	case f.tensorboard != "" && len(only) > 0:
		return wrongUse("%s trains nothing: want no --tensorboard", only[0])
	case f.page != "" && f.json:
		return wrongUse("--page prints where it is: want no --json; 'tokitai page' shows the run too")
	}
	l, err := f.launched(&s)
	if err != nil {
		return err
	}
	return endingJob(l, f.runAs(c, s, l))
}

// runAs does what the command is for, alone or as a rank.
func (f *trainFlags) runAs(c *cobra.Command, s train.Settings, l *launch.Rank) error {
	if _, err := f.auditShare(l.Size); err != nil {
		return err
	}
	if err := f.checkExperts(&s, l.Size); err != nil {
		return err
	}
	if err := checkDevice(f.device); err != nil {
		return err
	}
	content, err := readData(f.data, f.suffix, &s, s.Corpus)
	if err != nil {
		return err
	}
	shareCores(l.OnMachine)
	return withQueue(c, f.device, func(q *engine.Queue) error {
		switch {
		case f.dryRun && f.ranks != launchedRanks:
			return f.plan(c, q, s, content, func() (train.Team, func(), error) { return f.startTeam(q, s, l.Size) })
		case f.diagnose:
			return f.tellGradients(c, q, s, content)
		case f.profile:
			return f.tellCosts(c, q, s, content)
		}
		if f.ranks == launchedRanks {
			return f.trainLaunched(c, q, s, content, l)
		}
		return f.train(c, q, s, content, l.Size)
	})
}

// launched returns how many ranks train and, if they are launched already, which one this is.
func (f *trainFlags) launched(s *train.Settings) (*launch.Rank, error) {
	var l launch.Rank
	var err error
	if f.ranks == launchedRanks {
		if l, err = launch.Read(os.Getenv); err != nil {
			return nil, wrongUse("--ranks env: %v", err)
		}
	} else if l.Size, err = strconv.Atoi(f.ranks); err != nil || l.Size < 1 {
		return nil, wrongUse("--ranks is %q, want a number from 1 on, or env", f.ranks)
	} else {
		l.OnMachine = l.Size
	}
	if err := f.checkTransport(&l); err != nil {
		return nil, err
	}
	if l.Size > s.Leaves {
		return nil, wrongUse("--ranks is %d, want at most as many as leaves, %d", l.Size, s.Leaves)
	}
	return &l, nil
}

// auditShare returns the share of steps that two ranks compute.
func (f *trainFlags) auditShare(ranks int) (float64, error) {
	switch f.audit {
	case "":
		return 0, nil
	case "all":
		f.audit = "1"
	}
	share, err := strconv.ParseFloat(f.audit, 64)
	if err != nil || !(share > 0 && share <= 1) {
		return 0, wrongUse("--audit is %q, want a number above 0 and up to 1, or all", f.audit)
	}
	if ranks < 2 {
		return 0, wrongUse("--audit compares ranks: want --ranks of at least 2")
	}
	return share, nil
}

// checkExperts returns an error if the experts of the settings cannot be divided among so many ranks, and are to be.
func (f *trainFlags) checkExperts(s *train.Settings, ranks int) error {
	switch n := s.Mixture.Experts; {
	case f.experts == "whole":
		return nil
	case f.experts != "divided":
		return wrongUse("--experts is %q, want whole or divided", f.experts)
	case n == 0:
		return wrongUse("--experts divided is for mixtures of experts, and the settings have none")
	case ranks > n:
		return wrongUse("--experts divided: --ranks is %d, want at most as many as experts, %d", ranks, n)
	case f.audit != "":
		return wrongUse("--audit needs ranks that hold the same experts: want no --experts divided")
	}
	return nil
}

// readData reads the data that a run with these settings learns from: rows of numbers, or documents, which it turns into tokens.
// Bad data are wrong use; a failure to read is not.
func readData(path, suffix string, s *train.Settings, tokens func(data.Documents) (*data.Corpus, error)) (train.Data, error) {
	var documents data.Documents
	var table *data.Table
	var err error
	if s.HasFeatures() {
		table, err = data.ReadTable(path)
	} else {
		documents, err = data.ReadDocuments(path, suffix)
	}
	if _, isPath := errors.AsType[*fs.PathError](err); err != nil && !isPath {
		return nil, wrongUse("--data: %v", err)
	}
	if err != nil {
		return nil, err
	}
	if s.HasFeatures() {
		return table, nil
	}
	return tokens(documents)
}

// modelAdmission is that of the queues on which models run. At level smoke, tests do without self-tests.
var modelAdmission = engine.SelfTest

// withQueue calls f with a queue on a device, which is closed afterwards.
func withQueue(c *cobra.Command, device string, f func(q *engine.Queue) error) error {
	q, err := openQueue(device, engine.WithAdmission(modelAdmission))
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), q.Device())
	defer closeUnlessInterrupted(c.Context(), q)
	return f(q)
}

// trained is the JSON output of train.
type trained struct {
	Run        string   `json:"run"`
	Device     string   `json:"device"`
	Steps      int      `json:"steps"`
	Resumed    int      `json:"resumed"` // the step that it began behind
	Loss       *float32 `json:"loss,omitempty"`
	Validation *float64 `json:"validation,omitempty"`
	Chain      string   `json:"chain"`
	Seconds    float64  `json:"seconds"`                 // of this process, from the first step on
	Share      float64  `json:"share_of_peak,omitempty"` // of the products that the device could add up in these seconds
}

func (f *trainFlags) train(c *cobra.Command, q *engine.Queue, s train.Settings, content train.Data, ranks int) error {
	if f.page != "" {
		end, err := servePage(c, f.page, f.out)
		if err != nil {
			return err
		}
		defer end()
	}
	progress := startProgress(c)
	defer progress.end()
	endsItself.Store(true)
	defer endsItself.Store(false)
	start := func() (train.Team, func(), error) { return f.startTeam(q, s, ranks) }
	for again := (restarts{}); ; {
		result, err := f.attempt(c, q, s, content, progress, start)
		if result != nil && again.allows(c.Context(), err, result.Resumed) {
			progress.aside(func() { fmt.Fprintf(c.ErrOrStderr(), "%v; the run goes on from its last checkpoint\n", err) })
			continue
		}
		return f.tell(c, progress, result, err)
	}
}

// startTeam starts the other ranks, which end returns.
func (f *trainFlags) startTeam(q *engine.Queue, s train.Settings, ranks int) (with train.Team, end func(), err error) {
	audit, err := f.auditShare(ranks)
	if err != nil {
		return with, nil, err
	}
	spec := rankSpec{Config: s.Config, Source: s.Source, Device: f.device, Data: f.data, Suffix: f.suffix, Audit: audit, DividesExperts: f.experts == "divided"}
	others, err := startRanks(ranks, spec)
	return others.team(q, &spec), others.end, err
}

// tell prints how an attempt has ended.
func (f *trainFlags) tell(c *cobra.Command, progress *progress, result *trained, err error) error {
	progress.end()
	if e, isBad := errors.AsType[*train.NotFiniteError](err); isBad {
		return e
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if f.json {
		return errors.Join(err, printJSON(c.OutOrStdout(), result))
	}
	fmt.Fprintf(c.OutOrStdout(), "step %d  chain %s\n", result.Steps, result.Chain)
	return err
}

// attempt trains until the end of the run, an interrupt or an error, with the ranks that start gives. The result is nil if the run could not be opened.
func (f *trainFlags) attempt(c *cobra.Command, q *engine.Queue, s train.Settings, content train.Data, progress *progress, start func() (with train.Team, end func(), err error)) (result *trained, err error) {
	w := c.OutOrStdout()
	progress.say("preparing")
	team, end, err := start()
	if err != nil {
		return nil, err
	}
	defer end()
	run, err := train.OpenRanked(q, team, f.out, s, content, f.data, f.suffix)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	t := run.Trainer()
	result = &trained{Run: f.out, Device: q.Device().Name(), Resumed: t.Steps()}
	if result.Resumed > 0 && !f.json {
		fmt.Fprintf(w, "resumed behind step %d\n", result.Resumed)
		flush(w)
	}
	defer onCheckpointSignal(run.Checkpoint)()
	events, err := newEventFile(f.tensorboard)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, events.end()) }()
	began, rows, about := time.Now(), float64(s.Rows()), t.Device()
	err = run.Train(c.Context(), func(l train.Line) {
		progress.of(float64(l.Step), float64(result.Resumed), float64(s.Steps))
		speed := float64(l.Step-result.Resumed) / time.Since(began).Seconds()
		events.write(&l, speed*rows, s.RowName())
		if l.Loss != nil {
			result.Loss = l.Loss
			progress.say("step %d of %d, loss %.4f, norm %.3f, %.0f %s/s%s", l.Step, s.Steps, *l.Loss, *l.Norm, speed*rows, s.RowName(), percentOfPeak(about.ShareOfPeak(speed)))
			return
		}
		if l.Sample != nil {
			progress.aside(func() {
				if !f.json {
					fmt.Fprintf(w, "step %d  sample %q\n", l.Step, *l.Sample)
					flush(w)
				}
			})
			return
		}
		result.Validation = l.Validation
		progress.aside(func() {
			if !f.json {
				fmt.Fprintf(w, "step %d  loss %.4f  validation %.4f\n", l.Step, *cmp.Or(result.Loss, new(float32)), *l.Validation)
				flush(w)
			}
		})
	})
	result.Seconds = time.Since(began).Seconds()
	result.Steps, result.Chain = t.Steps(), t.Chain().String()
	result.Share = about.ShareOfPeak(float64(result.Steps-result.Resumed) / result.Seconds)
	return result, err
}

// percentOfPeak returns a share of the device's peak as the end of a line; "" if it is not known.
func percentOfPeak(share float64) string {
	if share == 0 {
		return ""
	}
	return fmt.Sprintf(", %.1f %% of peak", 100*share)
}

// tellGradients prints the sizes of weights and gradients.
func (f *trainFlags) tellGradients(c *cobra.Command, q *engine.Queue, s train.Settings, content train.Data) error {
	t, err := train.NewStarted(q, train.Team{}, &s, content)
	if err != nil {
		return err
	}
	defer t.Close()
	loss, norm, list, err := t.Diagnose()
	if err != nil {
		return err
	}
	w := c.OutOrStdout()
	if f.json {
		return printJSON(w, struct {
			Loss    float32           `json:"loss"`
			Norm    float32           `json:"norm"`
			Weights []train.Diagnosis `json:"weights"`
		}{loss, norm, list})
	}
	fmt.Fprintf(w, "loss %.4f, norm of all gradients %.4g; of weight and gradient the root of the mean square\n", loss, norm)
	fmt.Fprintln(w, "stored in f16, without a scale: gradients that become 0, subnormal or infinite, and the relative error of all that stay finite")
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "name\telements\tweight\tgradient\tlargest\tzeros\tto 0\tsubnormal\tinfinite\terror\t")
	for _, d := range list {
		note := ""
		switch {
		case d.Bad > 0:
			note = fmt.Sprintf("%d are not finite", d.Bad)
		case d.Zeros == d.Elements:
			note = "no gradient"
		}
		percent := func(n int) float64 { return 100 * float64(n) / float64(d.Elements) }
		fmt.Fprintf(table, "%s\t%d\t%.3g\t%.3g\t%.3g\t%.1f %%\t%.2f %%\t%.2f %%\t%.2f %%\t%.1e\t%s\n", d.Name, d.Elements, d.Weight, d.Gradient, d.Largest, percent(d.Zeros),
			percent(d.F16.Zeros), percent(d.F16.Subnormals), percent(d.F16.Infinite), d.F16.Error, note)
	}
	table.Flush()
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	return nil
}

// planned is the output of train --dry-run.
type planned struct {
	Device      string       `json:"device"`
	Parameters  int          `json:"parameters"`
	Program     string       `json:"program"` // identity of the program of a leaf
	Calls       int          `json:"calls"`   // of a leaf
	MemoryBytes int64        `json:"memory_bytes"`
	Ranks       []train.Size `json:"ranks,omitempty"` // of each of several
	Tokens      int          `json:"tokens"`          // or rows, of the data
	Blocks      int          `json:"blocks"`          // or rows, for training
	Validation  int          `json:"validation_blocks"`
	Epochs      float64      `json:"epochs"`
	StepSeconds float64      `json:"step_seconds"`
	Seconds     float64      `json:"seconds"` // of all steps, without validation
}

// measuredSteps is how many steps a dry run measures, behind one that is not: kernels are prepared in it.
const measuredSteps = 3

// timeSteps returns the median time of the first steps of a trainer, and how many it has measured.
func timeSteps(c *cobra.Command, t *train.Trainer, most int) (seconds float64, measured int, err error) {
	var times []float64
	for i := range min(most, measuredSteps+1) {
		if err := c.Context().Err(); err != nil {
			return 0, 0, err
		}
		began := time.Now()
		if _, err := t.Step(); err != nil {
			return 0, 0, err
		}
		if i > 0 || most == 1 {
			times = append(times, time.Since(began).Seconds())
		}
	}
	slices.Sort(times)
	return times[len(times)/2], len(times), nil
}

// plan prints what a run will take. Nothing of it is invented: the time is that of steps which are taken on
// weights that nobody gets.
func (f *trainFlags) plan(c *cobra.Command, q *engine.Queue, s train.Settings, content train.Data, start func() (train.Team, func(), error)) error {
	progress := startProgress(c)
	defer progress.end()
	progress.say("measuring %d steps", measuredSteps)
	with, end, err := start()
	if err != nil {
		return err
	}
	defer end()
	t, err := train.NewStarted(q, with, &s, content)
	if err != nil {
		return err
	}
	defer t.Close()
	step, measured, err := timeSteps(c, t, s.Steps)
	if err != nil {
		return err
	}
	sizes, err := t.Sizes()
	if err != nil {
		return err
	}
	progress.end()
	blocks, validation := t.Examples()
	p := planned{
		Device: q.Device().Name(), Parameters: t.Parameters(), Program: t.Network().Program.Identity(), Calls: len(t.Network().Program.Calls),
		MemoryBytes: t.Bytes(), Tokens: content.Len(), Blocks: blocks, Validation: validation,
		Epochs: float64(s.Steps) * float64(s.Batch) / float64(blocks), StepSeconds: step,
	}
	p.Seconds = p.StepSeconds * float64(s.Steps)
	if len(sizes) > 1 {
		p.Ranks = sizes
	}
	w := c.OutOrStdout()
	if f.json {
		return printJSON(w, p)
	}
	fmt.Fprintf(w, "parameters  %d\n", p.Parameters)
	fmt.Fprintf(w, "memory      %.1f MiB on %s\n", float64(p.MemoryBytes)/(1<<20), p.Device)
	for r, size := range p.Ranks {
		rows := ""
		if f.experts == "divided" {
			rows = fmt.Sprintf(", and sends %.1f KiB of rows a step to experts and back", float64(size.Rows)/(1<<10))
		}
		fmt.Fprintf(w, "rank %-6d has %.1f MiB%s\n", r, float64(size.Memory)/(1<<20), rows)
	}
	unit := " blocks"
	if s.HasFeatures() {
		unit = ""
	}
	fmt.Fprintf(w, "data        %d %s: %d%s for training, %d for validation\n", p.Tokens, s.RowName(), p.Blocks, unit, p.Validation)
	fmt.Fprintf(w, "steps       %d, %.2f epochs\n", s.Steps, p.Epochs)
	fmt.Fprintf(w, "time        about %s: %.3f s a step, the median of %d, without validation\n", roughly(time.Duration(p.Seconds*float64(time.Second))), p.StepSeconds, measured)
	fmt.Fprintf(w, "program     %s, %d calls a leaf\n", p.Program, p.Calls)
	return nil
}
