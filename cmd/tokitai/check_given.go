package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	page "tokitai/evidence/html"
	"tokitai/foreign"
	"tokitai/op"
	"tokitai/verify"
)

// givenFlags name inputs and outputs of a call that somebody has computed.
type givenFlags struct {
	in, got, tensors, params []string
}

// givenWay judges outputs that are given. No kernel runs.
var givenWay = kernelWay{
	flag: "got",
	register: func(f *checkFlags, flags *pflag.FlagSet) {
		g := &f.given
		flags.StringArrayVar(&g.got, "got", nil, "judge the outputs in `FILE`, or one output in OPERAND=FILE; may be repeated")
		flags.StringArrayVar(&g.in, "in", nil, "with --got, read the inputs from `FILE`, or one operand from OPERAND=FILE; may be repeated")
		flags.StringArrayVar(&g.tensors, "tensor", nil, "with --got, read an operand from the tensor NAME, as `OPERAND=NAME`; may be repeated")
		flags.StringArrayVar(&g.params, "param", nil, "with --got, set a parameter of the call, as `NAME=VALUE`; may be repeated")
	},
	judge: (*checkFlags).judgeGiven,
}

// judgeGiven judges outputs that are given.
func (f *checkFlags) judgeGiven(c *cobra.Command, name string) error {
	if len(f.given.in) == 0 {
		return wrongUse("--in is missing: the inputs that the outputs of --got are judged for")
	}
	o, err := findOperation(name)
	if err != nil {
		return err
	}
	if o.Takes != nil {
		return wrongUse("%s takes any number of tensors: its outputs cannot be judged by themselves", o.Name)
	}
	terms, err := f.promiseFlags.parse()
	if err != nil {
		return err
	}
	params, options, err := (&runFlags{params: f.given.params}).parameters(o)
	if err != nil {
		return err
	}
	undo, err := f.prepare()
	if err != nil {
		return err
	}
	defer undo()
	report, err := f.given.judge(c, o, params, options, terms)
	if err != nil {
		return err
	}
	return f.tellGiven(c, o, report)
}

// judge reads the files and judges the call. Errors of files, shapes and formats are its own;
// the result is in the report.
func (g *givenFlags) judge(c *cobra.Command, o *op.Operation, params *op.Values, options []engine.Option, terms *terms) (*evidence.Report, error) {
	plan, err := (&fileFlags{in: g.in, tensors: g.tensors}).reading(o, params)
	if err != nil {
		return nil, err
	}
	got := &filePlan{op: o, definition: plan.definition, tensors: plan.tensors, isGot: true, omits: terms.Declares.Omits}
	if err := got.nameSources(g.got); err != nil {
		return nil, err
	}
	host := cpu.Queue().Device()
	in, err := plan.readAll(c.Context(), host)
	if err != nil {
		return nil, err
	}
	outputs, err := got.readAll(c.Context(), host)
	if err != nil {
		return nil, err
	}
	kernel, err := foreign.Given(outputs, foreign.Options{Definition: plan.definition})
	if err != nil {
		return nil, err
	}
	target := &verify.Target{Operation: o, Definition: plan.definition, Lowering: kernel.Lowering}
	if err := terms.checkWaived([]*op.Operation{o}); err != nil {
		return nil, err
	}
	lowering, err := terms.hold(target)
	if err != nil {
		return nil, err
	}
	program, err := programSHA256()
	if err != nil {
		return nil, err
	}
	report := &verify.CallReport{
		Tool: toolName, Version: version, Program: program, Op: o.Name, Operation: o, Waive: terms.waived, IsGiven: true, Replay: replayOf(c, results),
	}
	progress := startProgress(c)
	defer progress.end()
	report.Progress = func(definition string, done, total int) {
		progress.say("comparing %s with what is admissible, part %d of %d", definition, done, total)
		progress.of(float64(done), 0, float64(total))
	}
	options = append(options, engine.Using(lowering), engine.WithAdmission(engine.Off), verify.Checked(report))
	q, err := engine.NewQueue(host, options...)
	if err != nil {
		return nil, err
	}
	_, err = o.Run(q.WithContext(c.Context()), in, params)
	if argument, ok := errors.AsType[*device.ArgumentError](err); ok {
		return nil, argument
	}
	if reports := report.Reports(); len(reports) == 1 && reports[0].Verdict != evidence.Inadmissible {
		return reports[0], nil
	}
	return nil, cmp.Or(err, fmt.Errorf("%s: the call made %d kernels, want 1", o.Name, len(report.Reports())))
}

// readAll reads all files of a plan into memory of the host.
func (p *filePlan) readAll(ctx context.Context, host device.Device) (engine.Args, error) {
	files, err := p.open()
	if err != nil {
		return nil, err
	}
	defer files.close()
	return files.read(ctx, host)
}

// tellGiven prints and writes the result. It returns an error unless the outputs are accepted.
func (f *checkFlags) tellGiven(c *cobra.Command, o *op.Operation, r *evidence.Report) error {
	v := &verification{results: []*verify.Result{{Report: r}}}
	w := c.OutOrStdout()
	var err error
	if f.json {
		err = v.printJSON(w)
	} else {
		printGiven(w, r)
	}
	flush(w)
	if r.Verdict == evidence.Rejected {
		isRejected.Store(true)
	}
	failure := both(f.write(v, c.ErrOrStderr()), writePage(f.html, v.reports(), page.Extra{Command: replayOf(c, results)}))
	if !f.json && failure == nil {
		err = both(err, f.printWritten(w))
	}
	err = both(err, failure)
	verdict := v.verdict()
	if err != nil && exitCode(verdict) == exitRejected {
		return &verdictError{exitRejected, both(verdict, err)}
	}
	return cmp.Or(err, verdict)
}

// printGiven prints what became of given outputs.
func printGiven(w io.Writer, r *evidence.Report) {
	fmt.Fprintf(w, "%s, %s, promise %s: %s\n", r.Op, r.Formats[0], r.Promise, verdictText(r))
	fmt.Fprintf(w, "  %s compared, %s\n", counted(int(r.Elements), "output"), counted(int(r.Mismatches), "mismatch"))
	if r.Verdict != evidence.Accepted && r.Failure == nil {
		fmt.Fprintf(w, "  %s\n", oneLine(r.Reason))
	}
	for _, text := range []string{r.Answers(), r.Sharpness()} {
		if text != "" {
			fmt.Fprintf(w, "  %s\n", text)
		}
	}
	if r.WorstAdmissible != nil && *r.WorstAdmissible > 1 {
		fmt.Fprintf(w, "  at most %s values are admissible for one output\n", rounded(*r.WorstAdmissible))
	}
	for _, line := range termLines(r) {
		fmt.Fprintln(w, " ", line)
	}
	for _, x := range r.WorstCases {
		what := fmt.Sprintf("%.4g ulp off", x.Value)
		if x.Figure == evidence.FigureErrorShare {
			what = fmt.Sprintf("%.4g of what the definition promises", x.Value)
		}
		fmt.Fprintf(w, "  worst   %s is %s: got %s, truth %s\n", x.Place, what, x.Got, x.Truth)
	}
	if r.Failure != nil {
		printFailure(w, r)
	}
}
