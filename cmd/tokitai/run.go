package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	backends "tokitai/backend/all"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/verify"
)

// runFlags are the flags of run.
type runFlags struct {
	files            fileFlags
	report           string
	device, lowering string
	params           []string
	options          [len(runOptions)]string
	json             bool
}

// runOptions lists the options of every operation, each with its flag and parameter.
var runOptions = [...]struct {
	param, flag, help string
	values            []string
	parse             func(string) (engine.Option, error)
}{
	{"policy", "policy", "`POLICY` fast, or same for the same bits on every device (default fast)", []string{"fast", "same"}, option(engine.ParsePolicy, engine.WithPolicy)},
	{"bad_index", "bad-index", "`WHAT` to do with a bad index: reject, or skip for a row of zeros (default reject)", []string{"reject", "skip"}, option(engine.ParseBadIndex, engine.WithBadIndex)},
	{"admission", "admission", "`ADMISSION` selftest, or off to use kernels that have not passed it (default selftest)", []string{"selftest", "off"}, option(engine.ParseAdmission, engine.WithAdmission)},
}

func option[T any](parse func(string) (T, error), with func(T) engine.Option) func(string) (engine.Option, error) {
	return func(s string) (engine.Option, error) {
		v, err := parse(s)
		return with(v), err
	}
}

func newRun() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run OP --in FILE --out FILE",
		Short: "compute one operation on tensors from files",
		Long: `Compute one operation on tensors from files, and write its outputs to files.
'tokitai explain OP' lists its operands and parameters. OP may be a file that defines an
operation (docs/definitions.md).

The ending of a file name, in upper or lower case, decides its format:
  NAME.npy                     one NumPy array: float16, float32, int8, int32 or
                               int64; write --in x=x.npy for operand x
  NAME.npz                     named NumPy arrays, as numpy.savez writes them; read only
  NAME.safetensors.index.json  the index of sharded safetensors files
  a folder                     the index in it, or its only .safetensors file
  any other name               safetensors: F16, BF16, F32, F8_E4M3, F8_E5M2,
                               I8, I32 or I64

An operand is read from the tensor of the same name, or from the one named with
--tensor; nothing else is read from a file. --tensor also names outputs; a tensor
that is updated is written under the name it was read from. With several --in, all
files are searched for all operands; --in x=FILE is for operand x only. --out y=FILE
writes output y only, and --out FILE writes all others. Without the latter, only the
named outputs are written.

The norms use all tensors of the files, in the order of their names, and
adamw.step_all uses NAME.weight, NAME.m, NAME.v and NAME.grad for each tensor
of a model. With --tensor they use the named ones only.

All files of --out are replaced together, after everything is computed; they may be
files of --in. A file that holds tensors of other names, or none at all, is not replaced:
they would be lost. --replace replaces it. The metadata of safetensors files names the operation, the
lowerings that ran, the SHA-256 of their definitions, and this program. One line is
printed for each output.

With --report every kernel is checked on these tensors: each output is compared with
the reference, and with the real-number result for its accuracy. A report of each kernel is
written into DIR; reports with the same name are numbered in the order in which the
kernels ran (adamw.step_all and the norms sort tensors by name). The check takes as long as
the reference. Reports are written first; if that fails, --out is unchanged. If a kernel is
rejected, the outputs are still written, with a warning, and the exit code is 3; it is 4
if a kernel ended in an error or could not be judged. With --report, --out must not be a
file of --in, so that the command can be repeated.

After an interrupt nothing is written, and the exit code is 4.

policy, bad_index and admission can also be given with --param.

--admission off skips the self-test of kernels. It is for people who work on kernels, to
see what a kernel does that does not pass. Then only --report checks the outputs.`,
		Example: `  tokitai run softmax.forward --in x.safetensors --out y.safetensors
  tokitai run softmax.forward --in x.npy --out y.npy
  tokitai run layernorm.forward --in model/ --tensor gamma=ln_f.weight --tensor beta=ln_f.bias --in x=x.npy --out y=y.npy
  tokitai run crossentropy --in logits.safetensors --out loss.safetensors --param scale=0.5 --bad-index skip
  tokitai run softmax.forward --in x.safetensors --out y.safetensors --report evidence
  tokitai run gemm.forward --in ab.safetensors --out c.safetensors --param out=f32 --json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return wrongUse("no operation given; 'tokitai explain' lists them")
			case 1:
				return nil
			}
			return wrongUse("unexpected argument %q", args[1])
		},
		ValidArgsFunction: completeOperation,
		RunE: func(c *cobra.Command, args []string) error {
			o, err := findOperation(args[0])
			if err != nil {
				return err
			}
			return f.run(c, o)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.files.register(c)
	flags.StringVar(&f.report, "report", "", "check every kernel on these tensors, and write reports to the folder `DIR`, or to the archive NAME.zip")
	flags.StringArrayVar(&f.params, "param", nil, "set a parameter, as `NAME=VALUE`; may be repeated")
	deviceFlag(flags, &f.device, "auto", "compute on")
	flags.StringVar(&f.lowering, "lowering", "", "use only this `LOWERING`, such as cpu.rowwise")
	for i, o := range runOptions {
		flags.StringVar(&f.options[i], o.flag, "", o.help)
		c.RegisterFlagCompletionFunc(o.flag, cobra.FixedCompletions(o.values, cobra.ShellCompDirectiveNoFileComp))
	}
	jsonFlag(c, &f.json)
	c.MarkFlagFilename("report", "zip")
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("lowering", f.completeLowering)
	c.RegisterFlagCompletionFunc("param", completeParam)
	return c
}

func (f *runFlags) completeLowering(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 || all.Find(args[0]) == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return loweringNames(backendOf(f.device), all.Find(args[0])), cobra.ShellCompDirectiveNoFileComp
}

func completeParam(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	if len(args) > 0 && all.Find(args[0]) != nil {
		for _, p := range all.Find(args[0]).Params {
			names = append(names, cobra.CompletionWithDesc(p.Name+"=", p.Help))
		}
	}
	for _, o := range runOptions {
		names = append(names, cobra.CompletionWithDesc(o.param+"=", oneOf(o.values)))
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func (f *runFlags) run(c *cobra.Command, o *op.Operation) error {
	params, options, err := f.parameters(o)
	if err != nil {
		return err
	}
	plan, err := f.files.plan(o, params)
	if err != nil {
		return err
	}
	if err := checkDevice(f.device); err != nil {
		return err
	}
	files, err := plan.open()
	if err != nil {
		return err
	}
	defer files.close()
	if outputs := plan.outputs(); outputs != nil { // or else after the run
		if err := plan.checkLosses(outputs); err != nil {
			return err
		}
	}
	dev, err := backends.Open(f.device)
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), dev)
	lowering, definition, err := f.demanded(dev.Backend(), o)
	if err != nil {
		return err
	}
	var used usedLowerings
	options = append(options, engine.WithLowering(lowering), engine.WithObserver(&used), engine.WithLog(warnings(c.ErrOrStderr())))
	checked, err := f.checked(c, o, files)
	if err != nil {
		return err
	}
	if checked != nil {
		undo, err := prepareReports(f.report)
		if err != nil {
			return err
		}
		defer undo()
		options = append(options, verify.Checked(checked))
	}
	q, err := engine.NewQueue(dev, options...)
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), q)

	progress := startProgress(c)
	defer progress.end()
	files.note(c.ErrOrStderr())
	progress.say("reading the inputs of %s", o.Name)
	in, err := files.read(c.Context(), q.Device())
	if err != nil {
		return err
	}
	progress.say("computing %s on %s", o.Name, dev.Name())
	if checked != nil {
		checked.Progress = func(definition string, done, total int) {
			progress.say("comparing %s with the reference and the real numbers, part %d of %d", definition, done, total)
			progress.of(float64(done), 0, float64(total))
		}
	}
	q = q.WithContext(c.Context())
	results, err := o.Run(q, in, params)
	if err == nil {
		err = q.Wait()
	}
	if err == nil {
		err = c.Context().Err() // an interrupted check is not an error of the call
	}
	if err != nil {
		return f.failed(checked, err)
	}
	if definition != "" && !used.hasDefinition(definition) {
		return wrongUse("%s was not used: with these parameters %s", f.lowering, used.String())
	}
	var reports []*evidence.Report
	if checked != nil {
		reports = checked.Reports()
		if err := evidence.Write(f.report, reports); err != nil {
			return fmt.Errorf("%s not written: %w", plan.wereWritten(), err)
		}
	}
	outputs, err := plan.write(c.Context(), results, used.metadata(o))
	if err != nil {
		return err
	}
	progress.end()
	if err := f.print(c.OutOrStdout(), &runResult{Operation: o.Name, Device: dev.Name(), Lowerings: used, File: plan.onlyTarget(), Outputs: outputs}, reports); err != nil {
		return err
	}
	if checked == nil {
		return nil
	}
	return f.verdict(checked, plan)
}

// checked returns the report to fill in for --report, or nil without it.
func (f *runFlags) checked(c *cobra.Command, o *op.Operation, files *openedFiles) (*verify.CallReport, error) {
	if f.report == "" {
		return nil, nil
	}
	if files.isAlsoWritten() {
		return nil, wrongUse("with --report, --out must not be a file of --in: give another file")
	}
	program, err := programSHA256()
	if err != nil {
		return nil, err
	}
	return &verify.CallReport{Tool: toolName, Version: version, Program: program, Replay: replayOf(c, nil), Op: o.Name}, nil
}

// failed returns the error of a run that failed. If a checked kernel failed, or an earlier
// one was rejected, it writes the reports.
func (f *runFlags) failed(r *verify.CallReport, err error) error {
	code := exitRejected
	switch {
	case r == nil:
		return err
	case r.Verdict() == evidence.Rejected:
	case r.Verdict() == evidence.Inadmissible:
		code = exitUndecided
	case r.Verdict() == evidence.Interrupted:
		return context.Canceled
	default:
		return err
	}
	return &verdictError{code, both(err, evidence.Write(f.report, r.Reports()))}
}

// verdict returns an error unless every kernel was accepted.
func (f *runFlags) verdict(r *verify.CallReport, plan *filePlan) error {
	for _, p := range r.Reports() {
		if p.Verdict != r.Verdict() {
			continue
		}
		switch p.Verdict {
		case evidence.Accepted:
			return nil
		case evidence.Rejected:
			return &verdictError{exitRejected, fmt.Errorf("%s; the outputs in %s are wrong: do not use them", p.Reason, allOf(plan.targets()))}
		}
		return &verdictError{exitUndecided, fmt.Errorf("%s: %s; the outputs in %s are unchecked", p.Lowering, p.Reason, allOf(plan.targets()))}
	}
	return &verdictError{exitUndecided, errors.New("no kernel ran: nothing was checked")}
}

// parameters parses --param and the option flags into the operation's parameters and the
// options that every operation has.
func (f *runFlags) parameters(o *op.Operation) (*op.Values, []engine.Option, error) {
	var names []string
	for _, p := range o.Params {
		names = append(names, p.Name)
	}
	for _, r := range runOptions {
		names = append(names, r.param)
	}
	given, order, err := parseParams(f.params)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range order {
		if !slices.Contains(names, name) {
			hint := didYouMean(name, names)
			if hint == "" {
				hint = ", want " + oneOf(names)
			}
			return nil, nil, wrongUse("%s: unknown parameter %q%s", o.Name, name, hint)
		}
	}
	var options []engine.Option
	for i, r := range runOptions {
		value, isParam := given[r.param]
		delete(given, r.param)
		switch {
		case isParam && f.options[i] != "":
			return nil, nil, wrongUse("--%s and --param %s are both given", r.flag, r.param)
		case !isParam && f.options[i] == "":
			continue
		case !isParam:
			value = f.options[i]
		}
		option, err := r.parse(value)
		if err != nil {
			return nil, nil, wrongUse("%v", err)
		}
		options = append(options, option)
	}
	values, err := o.NewValues(given)
	return values, options, err
}

// parseParams parses the values of --param. It also returns the names in their order.
func parseParams(texts []string) (given map[string]string, names []string, err error) {
	given = map[string]string{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		_, isRepeated := given[name]
		switch {
		case !ok:
			return nil, nil, wrongUse("--param %q: want NAME=VALUE", text)
		case isRepeated:
			return nil, nil, wrongUse("parameter %s is given twice", name)
		}
		given[name], names = value, append(names, name)
	}
	return given, names, nil
}

// demanded resolves --lowering, which is a name or an id: softmax.forward/cpu.rowwise. It
// also returns the id's definition if that differs from the operation.
func (f *runFlags) demanded(b engine.Backend, o *op.Operation) (name, definition string, err error) {
	if f.lowering == "" {
		return "", "", nil
	}
	names := loweringNames(b, o)
	name = f.lowering
	if before, after, ok := strings.Cut(f.lowering, "/"); ok {
		var definitions []string
		for _, d := range o.Definitions {
			definitions = append(definitions, d.Name)
		}
		if before != o.Name && !slices.Contains(definitions, before) {
			return "", "", wrongUse("lowering %q is not one of %s", f.lowering, o.Name)
		}
		if name = after; before != o.Name {
			definition = before
		}
	}
	if name = fullName(b, name, names); !slices.Contains(names, name) {
		hint := didYouMean(name, names)
		if hint == "" {
			hint = ", want " + oneOf(names)
		}
		return "", "", wrongUse("%s: unknown lowering %q on %s%s", o.Name, name, b.Kind(), hint)
	}
	return name, definition, nil
}

func loweringNames(b engine.Backend, o *op.Operation) []string {
	var names []string
	for _, d := range o.Definitions {
		for _, l := range engine.Lowerings(b, d) {
			if !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	return names
}

// warnings returns a logger that prints the engine's warnings to w, one per line, without
// the time.
func warnings(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// runResult is the JSON output of run.
type runResult struct {
	Operation string         `json:"operation"`
	Device    string         `json:"device"`
	Lowerings []usedLowering `json:"lowerings"`
	File      string         `json:"file,omitempty"` // if there is only one
	Outputs   []runOutput    `json:"outputs"`

	Reports []evidence.Summary `json:"reports,omitempty"` // with --report
}

// runOutput is one output and its place in a file.
type runOutput struct {
	Name   string `json:"name"` // the operand's
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	File   string `json:"file"`
	Tensor string `json:"tensor,omitempty"` // its name in the file
}

func (f *runFlags) print(w io.Writer, r *runResult, reports []*evidence.Report) error {
	for _, p := range reports {
		r.Reports = append(r.Reports, p.Summary)
	}
	if f.json {
		return printJSON(w, r)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, out := range r.Outputs {
		fmt.Fprintf(table, "%s\t%s\t%v", oneLine(out.Name), out.DType, out.Shape)
		if out.Tensor != "" && out.Tensor != out.Name {
			fmt.Fprintf(table, "\tas %s", oneLine(out.Tensor))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil || len(r.Reports) == 0 {
		return err
	}
	fmt.Fprintln(w)
	verdicts := &verdictTable{w: w}
	for i := range r.Reports {
		verdicts.width = max(verdicts.width, len(r.Reports[i].Lowering))
	}
	verdicts.head()
	for _, p := range reports {
		verdicts.row(p)
	}
	for _, p := range reports {
		if p.Failure != nil {
			printFailure(w, p)
		}
	}
	_, err := fmt.Fprintf(w, "reports: %s\n", reportsPath(f.report))
	return err
}

// usedLowerings are the lowerings of a run's calls, each once, in order.
type usedLowerings []usedLowering

type usedLowering struct {
	ID         string `json:"id"`
	Definition string `json:"definition"`
	SHA256     string `json:"definition_sha256"`
}

// Before implements engine.Observer.
func (u *usedLowerings) Before(r *engine.Record) error {
	l := usedLowering{ID: r.Lowering.ID(r.Definition), Definition: r.Definition.Name, SHA256: r.Definition.Hash()}
	if !slices.Contains(*u, l) {
		*u = append(*u, l)
	}
	return nil
}

// After implements engine.Observer.
func (u *usedLowerings) After(*engine.Record, error) {}

func (u usedLowerings) ids() (all []string) {
	for _, l := range u {
		all = append(all, l.ID)
	}
	return all
}

func (u usedLowerings) hashes() (all []string) {
	for _, l := range u {
		all = append(all, l.SHA256)
	}
	return all
}

// metadata returns the metadata of output files, which says how the outputs were computed.
func (u usedLowerings) metadata(o *op.Operation) map[string]string {
	return map[string]string{
		"operation":         o.Name,
		"lowering":          strings.Join(u.ids(), ","),
		"definition_sha256": strings.Join(u.hashes(), ","),
		"tool":              "tokitai " + version,
	}
}

func (u usedLowerings) hasDefinition(name string) bool {
	return slices.ContainsFunc(u, func(l usedLowering) bool { return l.Definition == name })
}

func (u usedLowerings) String() string { return strings.Join(u.ids(), " and ") + " ran" }
