package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/foreign"
	"tokitai/verify"
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

// variant is a kernel that was opened another time.
type variant struct {
	name   string
	kernel *foreign.Kernel
}

// threadVariables tell the usual libraries how many threads to use.
var threadVariables = []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS"}

// variants opens a kernel that is a program again, with other numbers of threads in its
// environment. Other kernels have no environment of their own.
func (f *checkFlags) variants(w *kernelWay, d *def.Definition) (list []variant, err error) {
	if f.invarianceFlags.flag() == "" || !slices.Contains([]string{"exec", "exec-files"}, w.flag) {
		return nil, nil
	}
	usual := f.options.Environment
	defer func() { f.options.Environment = usual }()
	for _, threads := range []int{1, 3} {
		f.options.Environment = slices.Clone(usual)
		for _, name := range threadVariables {
			f.options.Environment = append(f.options.Environment, fmt.Sprintf("%s=%d", name, threads))
		}
		k, err := w.open(f, d)
		if err != nil {
			closeAll(list)
			return nil, err
		}
		list = append(list, variant{fmt.Sprintf("in another process, with OMP_NUM_THREADS=%d and the like", threads), k})
	}
	return list, nil
}

func closeAll(list []variant) {
	for _, v := range list {
		v.kernel.Close()
	}
}

// setVariants gives the variants of a definition's kernel to its targets.
func setVariants(targets []*verify.Target, d *def.Definition, list []variant) {
	for _, t := range targets {
		for _, v := range list {
			if t.Definition == d {
				t.Variants = append(t.Variants, verify.Variant{Name: v.name, Lowering: v.kernel.Lowering})
			}
		}
	}
}

// holds reports whether all properties of a report hold.
func holds(r *evidence.Report) bool {
	return !slices.ContainsFunc(r.Properties, func(p evidence.Property) bool { return p.Failed > 0 })
}

// printProperties prints what became of the properties that --invariance asks for: for each
// kernel a line for each property, with the first pair of calls that differ. Where all hold in
// many kernels, each has one line.
func (v *verification) printProperties(w io.Writer) {
	const most = 3 // kernels whose properties are all listed
	isShort := len(v.results) > most
	if isShort && slices.ContainsFunc(v.reports(), func(r *evidence.Report) bool { return len(r.Properties) > 0 }) {
		fmt.Fprintln(w)
	}
	for _, r := range v.reports() {
		if len(r.Properties) == 0 || r.Verdict == evidence.Skipped {
			continue
		}
		scope := ""
		if r.Scope == evidence.ScopeInvariance {
			scope = "; no output was judged"
		}
		if isShort && holds(r) {
			var names []string
			for _, p := range r.Properties {
				if p.Cases > 0 {
					names = append(names, p.Name)
				}
			}
			fmt.Fprintf(w, "invariance of %s, %s: %s hold%s\n", r.Lowering, r.DType, strings.Join(names, ", "), scope)
			continue
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
