package main

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	backends "tokitai/backend/all"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/foreign"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/promise"
	"tokitai/verify"
)

// checkFlags are the flags of check. Those that name a kernel are registered by the
// kernelWay that uses them.
type checkFlags struct {
	exec            string
	execFiles       string
	batch           string
	library, symbol string
	strided         bool
	emit            string
	cuda, hip       string
	entry, launch   string
	given           givenFlags
	device          string // of a source

	showsOutput bool
	shapes      []string // conditions on sizes
	shown       string   // in the place of exec, in replays

	judgeFlags
	speed   foreignBenchFlags
	options foreign.Options // of every kernel, but for its definition
}

// kernelWay is a way to name a kernel on the command line.
type kernelWay struct {
	flag     string // that names the kernel, without dashes
	kind     string // of the lowering check.KIND
	register func(f *checkFlags, flags *pflag.FlagSet)

	isCommand bool // the flag's value is split into words

	// open opens the kernel for a definition.
	open func(f *checkFlags, d *def.Definition) (*foreign.Kernel, error)

	// words returns the flags that name the kernel, for a replay.
	words func(f *checkFlags) []string

	// judge takes the place of open and words where there is no kernel to run.
	judge func(f *checkFlags, c *cobra.Command, name string) error
}

// kernelWays are all ways, in the order of the help.
var kernelWays = []*kernelWay{
	&execWay,
	&filesWay,
	&givenWay,
	&libraryWay,
	cudaWay,
	hipWay,
}

// waysOf maps flags to the ways, by their flags, that take them. All ways but --got take the
// flags that are not listed: how a kernel is run.
var waysOf = map[string][]string{
	"in": {"got"}, "tensor": {"got"}, "param": {"got"},
	"symbol": {"library"}, "strided": {"library"},
	"entry": {"cuda", "hip"}, "launch": {"cuda", "hip"}, "device": {"cuda", "hip"},
}

// ofGiven are the flags that --got takes as well: what outputs are held to, and where the result
// goes.
var ofGiven = []string{"promise", "profile", "declare", "waive", "out", "html", "json", "help"}

// takes returns an error that names a flag which the way would ignore.
func (w *kernelWay) takes(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		ways, isListed := waysOf[f.Name]
		switch {
		case err != nil || f.Name == w.flag || slices.Contains(ways, w.flag):
		case isListed:
			var names []string
			for _, way := range ways {
				names = append(names, "--"+way)
			}
			err = wrongUse("--%s is for %s, and the kernel is given by --%s", f.Name, oneOf(names), w.flag)
		case w.judge != nil && !slices.Contains(ofGiven, f.Name):
			err = wrongUse("--%s and --%s are both given: no kernel is run", f.Name, w.flag)
		}
	})
	return err
}

func newCheck() *cobra.Command {
	var f checkFlags
	c := &cobra.Command{
		Use:   "check OP",
		Short: "judge a kernel of yours, in any language",
		Long: `Judge a kernel that was written elsewhere: run it on cases that reach every boundary of
sizes and values, and compare every output with what the definition admits. OP is a
definition such as softmax.forward, an operation, a group (softmax: the kernel is asked for
softmax.forward and softmax.backward by name), or a file that defines an operation
(docs/definitions.md). 'tokitai explain OP' says what the operation computes.

The kernel is named in one of these ways:

  --exec "python my_kernel.py"   a program that answers calls over a socket, whose number is
                                 in TOKITAI_FD (docs/protocol.md, Kernels in other languages)
  --exec-files "./prog {in} {out}"
                                 a program that is run for each call: it reads its inputs from
                                 one safetensors file and writes its outputs to another
  --in x.npy --got y.npy         no kernel at all: are these outputs admissible for these
                                 inputs? Files, operands and parameters are named as for
                                 'tokitai run'
  --library libmine.so --symbol softmax
                                 a C function, which is called in processes of its own
                                 (docs/sources.md, Functions in C)
  --cuda softmax.cu              a kernel in CUDA C++, launched as --launch says:
                                 on a GPU, or without one in a simulator that also finds races,
                                 misused barriers and accesses out of bounds (docs/sources.md)
  --hip softmax.hip              a kernel in HIP, launched in the same way: on a GPU of AMD's,
                                 on an emulated one, or in the simulator

Unless --promise says otherwise, a kernel is held to stable: every output is as close to the
exact result as a kernel comes in whatever form it is written. What --promise, --profile,
--declare, --waive, --shape, --level, --out and --html mean is said by 'tokitai verify
--help'.

With --invariance, the kernel is also held to properties that need no reference: a row has
the same bits alone and in a batch of any size and at any place; a call gives the same bits
again, with other memory around it, after other calls, on other queues, and, if it is a
program, with other numbers of threads. With --invariance-only nothing else is judged: for
an operation of your own, a definition file that says which operands have which rows is
enough. See 'tokitai verify --help'.

With --shapes, the kernel is run on shapes that satisfy a condition on sizes, such as
'C % 16 == 0 and R <= 64': sizes of cases are rounded to these, the rest is left out, and the
report says so. Without it, a kernel that refuses some shapes is undecided.

With --bench, a kernel that is not wrong is timed, in turns with a copy of memory and with our
own kernel. Caches are filled with other data before each call. No two calls have the same
inputs. Outputs are copied when the timer stops and judged on rows that are drawn then, and
on the row that is farthest from our own kernel's, in every repetition, before and after; one
that is wrong voids the times, and the exit code is 3. A program is timed from outside, the
way of the operands included, and beside that by the time that it states itself.

With --budget, the cases of level smoke run first, and others until the time is spent.
Accepted needs all cases of level smoke; a kernel without a fault so far is unfinished, with
the number of cases that were done. The time begins when the kernel's first process
answers, and is divided among the formats: how long a program takes to start, and --bench,
come on top of it. Later processes take as long to start, and may compile at their first
call: that comes on top of it too, up to as much time again.

With --batch FOLDER, every file of a folder is a kernel: --exec 'python3 {}' runs it, with the
file's path in the place of {}. Each kernel is judged by a process of its own, as many at a
time as there are processors, all under one seed. A line is printed for each as it finishes;
with --json, it is an object. The exit code is 3 if any is rejected, else 4 if any is
undecided, else 5 if any is unfinished. --out, --html and --bench are for one kernel.

Inputs are drawn from a seed that the kernel cannot know. The seed is printed and recorded;
--seed repeats a run.

The exit code is 0 if the kernel is accepted in every format that it takes, 3 if it is
rejected, 4 if it is not rejected but something is undecided: it ended in an error,
crashed or hung, or refused shapes; and 5 if it is unfinished.`,
		Example: `  tokitai check softmax.forward --exec "python3 softmax.py" --level smoke
  tokitai check softmax.forward --exec ./softmax.py --dtype f32 --level smoke --json
  tokitai check softmax.forward --exec ./softmax.py --dtype f32 --level smoke --invariance
  tokitai check softmax.forward --cuda softmax.cu --entry 'softmax<T>' --launch 'grid=R block=32 args=x,y,C' --device sim --dtype f32 --level smoke
  tokitai check softmax.forward --hip softmax.hip --entry 'softmax<T>' --launch 'grid=R block=64 args=x,y,C' --device sim --dtype f32 --level smoke
  tokitai check --emit header
  tokitai check softmax.forward --library ./libsoftmax.so --symbol softmax --dtype f32 --level smoke
  tokitai check softmax.forward --in x.npy --got y.npy`,
		Args: func(c *cobra.Command, args []string) error {
			if f.emit == "" {
				return exactlyOneOperation(c, args)
			}
			if len(args) > 0 || c.Flags().NFlag() > 1 {
				return wrongUse("--emit is given with something else: it prints, and judges nothing")
			}
			return nil
		},
		ValidArgsFunction: completeOperation,
		RunE: func(c *cobra.Command, args []string) error {
			if f.emit != "" {
				return f.emitHeader(c)
			}
			return f.run(c, args[0])
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	for _, w := range kernelWays {
		w.register(&f, flags)
	}
	f.registerLaunch(flags)
	f.judgeFlags.register(c, "check", "")
	f.speed.register(c)
	flags.StringVar(&f.batch, "batch", "", "judge every file in `FOLDER`, several at a time; {} in the flag that names the kernel stands for its path")
	flags.BoolVar(&f.showsOutput, "show-output", false, "copy what the kernel prints to standard error")
	flags.StringArrayVar(&f.shapes, "shapes", nil, "the kernel is made for these shapes alone: `CONDITIONS` such as 'C % 16 == 0 and R <= 64'; may be repeated")
	c.RegisterFlagCompletionFunc("shapes", cobra.NoFileCompletions)
	registerProgress(c)
	flags.StringVar(&f.shown, "shown-as", "", "name this `COMMAND` in replays, in the place of --exec, for any folder; - if there is none")
	flags.MarkHidden("shown-as")
	flags.Lookup("promise").Usage = "hold the kernel to this `PROMISE`: bits, ordered or stable (default stable)"
	flags.Lookup("seed").Usage += " (default drawn anew for each run)"
	return c
}

// exactlyOneOperation refuses other numbers of arguments.
func exactlyOneOperation(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return wrongUse("got %s, want one operation", counted(len(args), "argument"))
	}
	return nil
}

// way returns the one way in which the command line names a kernel.
func (f *checkFlags) way(flags *pflag.FlagSet) (*kernelWay, error) {
	var given []*kernelWay
	var all, both []string
	for _, w := range kernelWays {
		all = append(all, "--"+w.flag)
		if flags.Changed(w.flag) {
			given, both = append(given, w), append(both, "--"+w.flag)
		}
	}
	switch len(given) {
	case 1:
		return given[0], nil
	case 0:
		return nil, wrongUse("no kernel is given, want %s", oneOf(all))
	}
	return nil, wrongUse("%s are given, want one of them", allOf(both))
}

// run judges a kernel.
func (f *checkFlags) run(c *cobra.Command, name string) error {
	w, err := f.way(c.Flags())
	if err != nil {
		return err
	}
	if err := w.takes(c.Flags()); err != nil {
		return err
	}
	if f.batch != "" {
		return f.runBatch(c, w)
	}
	if w.judge != nil {
		return w.judge(f, c, name)
	}
	if err := f.speed.check(); err != nil {
		return err
	}
	if f.seed == "" {
		f.seed = strconv.FormatUint(secretSeed(), 10)
	}
	options, terms, err := f.judgeFlags.parse()
	if err != nil {
		return err
	}
	for _, text := range f.shapes {
		list, err := verify.ParseRestrictions(text)
		if err != nil {
			return wrongUse("--shapes: %v", err)
		}
		options.Restrict = append(options.Restrict, list...)
	}
	definitions, err := definitionsNamed(name)
	if err != nil {
		return err
	}
	dtypes, err := parseDTypes(f.dtypes)
	if err != nil {
		return err
	}
	f.options = foreign.Options{Seed: options.Seed, Deadline: f.deadline}
	if f.showsOutput {
		f.options.Stderr = c.ErrOrStderr()
	}
	var targets []*verify.Target
	for _, d := range definitions {
		k, err := w.open(f, d.definition)
		if _, isMissing := errors.AsType[*foreign.MissingError](err); isMissing && len(definitions) > 1 {
			fmt.Fprintf(c.ErrOrStderr(), "left out: %v\n", err)
			continue
		}
		if err != nil {
			failure := w.failed(err)
			if exitCode(failure) != exitUndecided {
				return failure
			}
			k = unopened(w, d.definition)
			options.Open = func(string) (engine.Device, error) { return nil, failure }
		}
		defer k.Close()
		f.showOrigin(k)
		backend, _, err := backends.Parse(k.Device)
		if err != nil {
			return err
		}
		options.Device, options.Deadline = k.Device, f.deadline+k.Overhead
		variants, err := f.variants(w, d.definition)
		if err != nil {
			return w.failed(err)
		}
		defer closeAll(variants)
		for _, target := range d.targets(k.Lowering, backend) {
			if t := target.DType; (k.DTypes == nil || slices.Contains(k.DTypes, t)) && (len(dtypes) == 0 || slices.Contains(dtypes, t)) {
				targets = append(targets, target)
			}
		}
		setVariants(targets, d.definition, variants)
	}
	switch {
	case len(targets) == 0 && len(dtypes) > 0:
		return wrongUse("%s cannot be stored in %s", name, strings.Join(f.dtypes, " or "))
	case len(targets) == 0:
		return wrongUse("the kernel has nothing of %s", name)
	}
	if targets, err = terms.apply(targets); err != nil {
		return err
	}
	for _, target := range targets {
		if err := target.CheckRestrictions(options.Restrict); err != nil {
			return wrongUse("--shapes: %v", err)
		}
	}
	if f.only != "" {
		one, err := targetOfCase(targets, f.only)
		if err != nil {
			return err
		}
		targets = []*verify.Target{one}
	}
	options.Command = f.checkCommand(name, w)
	if options.Command == "" {
		options.IsNamed = false
	}
	v := &verification{targets: targets, terms: terms, options: options}
	v.isTold = func(*evidence.Report) bool { return true }
	if f.speed.isSet {
		if v.measure, err = f.speed.measurer(v); err != nil {
			return err
		}
	}
	return f.conduct(c, v)
}

// failed returns the error of a kernel that could not be opened. Unless the command line is to
// blame, the kernel is undecided.
func (w *kernelWay) failed(err error) error {
	_, isUsage := errors.AsType[*usageError](err)
	_, isMissing := errors.AsType[*foreign.MissingError](err)
	_, isNotStarted := errors.AsType[*foreign.StartError](err)
	_, isNoLibrary := errors.AsType[*foreign.LibraryError](err)
	switch {
	case isUsage:
		return err
	case isMissing || isNotStarted || isNoLibrary:
		return wrongUse("--%s: %v", w.flag, err)
	}
	return &verdictError{exitUndecided, err}
}

// unopened stands in reports for a kernel that could not be opened.
func unopened(w *kernelWay, d *def.Definition) *foreign.Kernel {
	l := &engine.Lowering{Name: "check." + cmp.Or(w.kind, w.flag), Device: "cpu"}
	if !d.IsExact() {
		l.Promise.Name = promise.Stable
	}
	l.Compile = func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
		return nil, errors.New("the kernel could not be opened")
	}
	return &foreign.Kernel{Lowering: l, Device: "cpu", Close: func() error { return nil }}
}

// checkCommand returns the beginning of a command that judges the same kernel, from any folder. It
// returns "" if there is none.
func (f *checkFlags) checkCommand(name string, w *kernelWay) string {
	words, text := w.words(f), ""
	if w.isCommand {
		if f.shown == noCommand {
			return ""
		}
		if f.shown != "" {
			words[1] = f.shown
		} else {
			text = inFolder()
		}
	}
	for _, conditions := range f.shapes {
		words = append(words, "--shapes", conditions)
	}
	if f.deadline != defaultDeadline {
		words = append(words, "--deadline", f.deadline.String())
	}
	text += toolName + " check " + shellQuoted(absolute(name))
	for _, word := range words {
		text += " " + shellQuoted(word)
	}
	return text
}

// showOrigin has reports name the command of --shown-as, in the place of the one that ran.
func (f *checkFlags) showOrigin(k *foreign.Kernel) {
	words, err := splitWords(f.exec)
	origin, shown := k.Lowering.Origin, f.shown
	if f.shown == "" || origin == nil || err != nil {
		return
	}
	if shown == noCommand {
		shown = "a function of the program that asked for this check"
	}
	k.Lowering.Origin = func() string { return strings.ReplaceAll(origin(), strings.Join(words, " "), shown) }
}

// noCommand is the value of --shown-as for a kernel that only the calling program can run.
const noCommand = "-"

// secretSeed returns a seed that nobody knows before.
func secretSeed() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// ofOperation is a definition with its operation.
type ofOperation struct {
	operation  *op.Operation
	definition *def.Definition
}

// targets returns a target for each format in which a definition can be stored, integers included:
// some operations compute nothing else.
func (d ofOperation) targets(l *engine.Lowering, b engine.Backend) []*verify.Target {
	var list []*verify.Target
	for _, t := range num.AllDTypes {
		target := &verify.Target{Operation: d.operation, Definition: d.definition, Lowering: l, DType: t, Backend: b}
		if target.IsStored() {
			list = append(list, target)
		}
	}
	return list
}

// definitionsNamed returns the definitions of a name: the definition itself, or those of an
// operation, a group or a file.
func definitionsNamed(name string) ([]ofOperation, error) {
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			if d.Name == name {
				return []ofOperation{{o, d}}, nil
			}
		}
	}
	operations, err := operationsNamed(name)
	if err != nil {
		return nil, err
	}
	var list []ofOperation
	for _, o := range operations {
		for _, d := range o.Definitions {
			if !slices.ContainsFunc(list, func(x ofOperation) bool { return x.definition == d }) {
				list = append(list, ofOperation{o, d})
			}
		}
	}
	if len(list) == 0 {
		return nil, wrongUse("%s has no definition to hold a kernel to", name)
	}
	return list, nil
}
