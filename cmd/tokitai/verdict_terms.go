package main

import (
	"fmt"
	"io"
	"strings"

	"tokitai/evidence"
	"tokitai/promise"
)

// printTerms prints what became of promises other than bits: whether each was kept, and how much
// it asked.
func (v *verification) printTerms(w io.Writer) {
	var held []*evidence.Report
	width := len("promise kept")
	for _, r := range v.reports() {
		if r.Promise != "" && r.Promise != promise.Bits.String() && r.Verdict != evidence.Skipped {
			held = append(held, r)
			width = max(width, len(r.Lowering))
		}
	}
	if len(held) == 0 {
		return
	}
	const form = "%-*s  %-5s  %-9s  %-9s  %6s  %6s  %8s  %8s  %8s\n"
	fmt.Fprintf(w, "\n"+form, width, "promise kept", "dtype", "honest", "accurate", "worst", "own", "values", "allclose", "decided")
	for _, r := range held {
		own := "-"
		if r.Own != nil {
			own = share(r.Own.WorstErrorShare)
		}
		fmt.Fprintf(w, form, width, r.Lowering, r.DType, r.Honest, r.Accurate, share(r.WorstErrorShare), own, values(r.MedianAdmissible), values(r.MedianAllClose), leastDecided(r.Decided))
	}
	fmt.Fprint(w, `honest    every output is one that the promise and the declarations admit
accurate  every output is as close to the real-number result as the definition promises; worst
          is the largest error as a share of that, and own that of the definition's own kernel
values    that are admitted for an output, in the median, beside those that allclose(1e-2) takes
decided   share of outputs with few enough values to say something, 16 or in f32 256
`)
	printed := map[string]bool{}
	for _, r := range held {
		for _, line := range termLines(r) {
			if !printed[line] {
				fmt.Fprintln(w, line)
			}
			printed[line] = true
		}
	}
}

// termLines returns what was declared, found and forgiven in one report.
func termLines(r *evidence.Report) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if r.Declared != "" {
		add("declared  %s", oneLine(r.Declared))
	}
	if height, length := mostHeight(r.Heights); height > 0 {
		add("height    %s, %s: no sum of up to %d terms needs more than %s on the way of a term", r.Lowering, r.DType, length, counted(height, "addition"))
	}
	for _, c := range r.Clauses {
		if c.IsWaived {
			add("waived    %s, %s: %s differ from clause %s, %s", r.Lowering, r.DType, counted(int(c.Outputs), "output"), c.Clause, oneLine(c.Text))
		}
	}
	for _, a := range r.Allowances {
		if a.Outputs > 0 {
			add("allowed   %s, %s: %s only by the allowance %s", r.Lowering, r.DType, counted(int(a.Outputs), "output"), oneLine(a.Text))
		}
	}
	if len(r.Omitted) > 0 {
		add("omitted   %s: %s", r.Lowering, strings.Join(r.Omitted, ", "))
	}
	return lines
}

// mostHeight returns the largest height that sums were found to need, and the longest of them.
func mostHeight(list []evidence.Height) (height, length int) {
	for _, h := range list {
		height, length = max(height, h.Height), max(length, h.MostLength)
	}
	return height, length
}

// values formats a median number of values.
func values(x *float64) string {
	switch {
	case x == nil:
		return "-"
	}
	return rounded(int64(*x))
}

// leastDecided formats the share of decided elements of the output that has the fewest.
func leastDecided(list []evidence.Decided) string {
	least, isKnown := 1.0, false
	for _, d := range list {
		if d.Known > 0 {
			least, isKnown = min(least, d.Share), true
		}
	}
	if !isKnown {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*least)
}
