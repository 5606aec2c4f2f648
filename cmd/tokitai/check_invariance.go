package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"tokitai/evidence"
)

// invarianceFlags are the flags of verify and check about properties that need no reference.
type invarianceFlags struct {
	invariance, invarianceOnly bool
}

func (f *invarianceFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.invariance, "invariance", false, "also check that rows, reruns, memory, other calls, queues and threads do not change a bit")
	flags.BoolVar(&f.invarianceOnly, "invariance-only", false, "check that alone, and judge no output")
}

// flag returns the name of a flag that is set, or "".
func (f *invarianceFlags) flag() string {
	switch {
	case f.invarianceOnly:
		return "--invariance-only"
	case f.invariance:
		return "--invariance"
	}
	return ""
}

// printProperties prints what became of the properties that --invariance asks for: for each
// kernel a line for each property, with the first pair of calls that differ.
func (v *verification) printProperties(w io.Writer) {
	for _, r := range v.reports() {
		if len(r.Properties) == 0 || r.Verdict == evidence.Skipped {
			continue
		}
		scope := ""
		if r.Scope == evidence.ScopeInvariance {
			scope = "; no output was judged"
		}
		fmt.Fprintf(w, "\ninvariance of %s, %s%s\n", r.Lowering, r.DType, scope)
		for _, p := range r.Properties {
			result, text := "holds", fmt.Sprintf("%s outputs in %s", rounded(p.Checks), counted(int(p.Runs), "run"))
			switch {
			case p.Failed > 0:
				result, text = "DIFFERS", fmt.Sprintf("in %d of %s", p.Failed, counted(p.Cases, "case"))
			case p.Cases == 0:
				result, text = "-", oneLine(p.Note)
			}
			fmt.Fprintf(w, "  %-8s  %-7s  %s\n", p.Name, result, text)
			if c := p.Counterexample; c != nil {
				fmt.Fprintf(w, "  %18s %s of %s differs %s\n", "", c.Place, c.Case, oneLine(c.Text))
				if c.Got != "" {
					fmt.Fprintf(w, "  %18s %s and %s\n", "", c.Got, c.Want)
				}
				if c.When != "" {
					fmt.Fprintf(w, "  %18s %s\n", "", oneLine(c.When))
				}
			}
		}
	}
}
