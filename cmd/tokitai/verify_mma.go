package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	backends "tokitai/backend/all"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/tensorcore"
	"tokitai/verify"
)

// probeName is the argument of verify that stands for the matrix instructions.
const probeName = "mma"

// probeFlags are the flags that verify mma takes.
var probeFlags = []string{"device", "dtype", "level", "seed", "out", "json", "help"}

// takenByProbe returns an error that names a flag which verify mma would ignore.
func takenByProbe(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && !slices.Contains(probeFlags, f.Name) {
			err = wrongUse("verify %s does not take --%s: it runs instructions, all of them, which promise their model's bits", probeName, f.Name)
		}
	})
	return err
}

// probe holds the matrix instructions of a device to every model.
func (f *verifyFlags) probe(c *cobra.Command, names []string, o verify.Options) error {
	switch {
	case len(names) > 1:
		return wrongUse("%s is verified alone, got also %s", probeName, strings.Join(slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == probeName }), ", "))
	}
	dev, err := backends.Open(f.device)
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), dev)
	instructions, err := f.instructions(dev)
	if err != nil {
		return err
	}
	if f.out != "" {
		undo, err := prepareReports(f.out)
		if err != nil {
			return err
		}
		defer undo()
	}
	o.Device = dev.Name()
	if o.Program, err = programSHA256(); err != nil {
		return err
	}
	v := &verification{options: o}
	w, began := c.OutOrStdout(), time.Now()
	if !f.json {
		fmt.Fprintf(w, probeForm, "instruction", "dtype", "outputs", "mismatches", "model", "next best", "verdict")
		flush(w)
	}
	progress := startProgress(c)
	for n, i := range instructions {
		o.Progress = func(done, total int) {
			progress.say("%v %s", i, i.DType)
			progress.of(float64(n)+float64(done)/float64(total), 0, float64(len(instructions)))
		}
		r, err := verify.Probe(c.Context(), dev.(verify.MatrixDevice), i, o)
		if err != nil {
			progress.end()
			return err
		}
		if r.Verdict == evidence.Rejected {
			isRejected.Store(true)
		}
		v.results = append(v.results, &verify.Result{Report: r})
		if !f.json {
			progress.aside(func() { printProbe(w, i, r) })
		}
	}
	progress.end()
	v.seconds, v.isInterrupted = time.Since(began).Seconds(), c.Context().Err() != nil
	if f.json {
		err = v.printJSON(w)
	} else {
		v.printProbes(w, dev)
	}
	flush(w)
	failure := f.write(v, c.ErrOrStderr())
	if f.out != "" && failure == nil && !f.json {
		fmt.Fprintf(w, "reports: %s\n", reportsPath(f.out))
	}
	if err = both(failure, err); err != nil {
		return err
	}
	return v.verdict()
}

// instructions returns those of a device in the formats of --dtype.
func (f *verifyFlags) instructions(dev engine.Device) ([]tensorcore.Instruction, error) {
	matrix, ok := dev.(verify.MatrixDevice)
	if !ok || len(matrix.MatrixInstructions()) == 0 {
		return nil, wrongUse("%s (%s) has no tensor cores that can be probed: there is nothing to hold to a model; --device names another device, such as cuda:0 or sim",
			dev.Name(), dev.Describe().Architecture)
	}
	all := matrix.MatrixInstructions()
	list := slices.DeleteFunc(slices.Clone(all), func(i tensorcore.Instruction) bool {
		return len(f.dtypes) > 0 && !slices.Contains(f.dtypes, i.DType.String())
	})
	var known []string
	for _, i := range all {
		known = append(known, i.DType.String())
	}
	for _, d := range f.dtypes {
		if !slices.Contains(known, d) {
			return nil, unknownName("format of matrix instructions on "+dev.Name(), d, known)
		}
	}
	return list, nil
}

const probeForm = "%-18s  %-5s  %8s  %10v  %-13s  %-34s  %s\n"

// printProbe prints the line of one instruction.
func printProbe(w io.Writer, i tensorcore.Instruction, r *evidence.Report) {
	next := "-"
	for _, c := range r.Candidates {
		if c.Model != r.Model {
			next = fmt.Sprintf("%s: %d of %s differ", c.Model, c.Mismatches, rounded(c.Elements))
			break
		}
	}
	fmt.Fprintf(w, probeForm, i, i.DType, rounded(r.Elements), r.Mismatches, r.Model, next, verdictText(r))
	flush(w)
}

// printProbes prints each failure, then a summary.
func (v *verification) printProbes(w io.Writer, dev engine.Device) {
	for _, r := range v.reports() {
		switch {
		case r.Failure != nil:
			printFailure(w, r)
		case r.Verdict == evidence.Inadmissible:
			fmt.Fprintf(w, "\n%s, %s: undecided\n  reason  %s\n", r.Lowering, r.DType, oneLine(r.Reason))
		}
	}
	var outputs, candidates int64
	for _, r := range v.reports() {
		outputs += r.Elements
		candidates = max(candidates, int64(len(r.Candidates)))
	}
	d := dev.Describe()
	fmt.Fprintf(w, "\n%d accepted, %d rejected, %d undecided: matrix instructions of %s (%s)\n", v.count(evidence.Accepted), v.count(evidence.Rejected),
		len(v.results)-v.count(evidence.Accepted)-v.count(evidence.Rejected), d.Name, d.Architecture)
	fmt.Fprintf(w, "%s outputs, each held to up to %d models, in %.1f s; level %s, seed %d, %s\n", rounded(outputs), candidates, v.seconds, v.options.Level, v.options.Seed, dev.Name())
	if v.isInterrupted {
		fmt.Fprintf(w, "partial: interrupted before everything was compared\n")
	}
}
