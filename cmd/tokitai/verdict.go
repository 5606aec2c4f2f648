package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"tokitai/evidence"
	"tokitai/promise"
	"tokitai/verify"
)

// verdictTable prints a line for each lowering and format when it is done, with column
// widths known before the first.
type verdictTable struct {
	w     io.Writer
	width int // of the first column

	// promises has what lowerings are held to, by id, such as stable/cuda. It is nil if all
	// promise bits: then there is no such column.
	promises  map[string]string
	ofPromise int // width
}

func newVerdictTable(w io.Writer, targets []*verify.Target) *verdictTable {
	t := &verdictTable{w: w}
	promises, isOther := map[string]string{}, false
	for _, target := range targets {
		t.width = max(t.width, len(target.ID()))
		text := target.Promised().String()
		if profile := target.Lowering.Promise.Declares.Profile; profile != "" {
			text += "/" + profile
		}
		promises[target.ID()] = text
		t.ofPromise = max(t.ofPromise, len("promise"), len(text))
		isOther = isOther || target.Promised() != promise.Bits
	}
	if isOther {
		t.promises = promises
	}
	return t
}

const verdictForm = "%-*s  %-5s  %s%5v  %8s  %10v  %13s  %s\n"

// head prints the head of the table.
func (t *verdictTable) head() {
	fmt.Fprintf(t.w, verdictForm, t.width, "lowering", "dtype", t.promise("promise"), "cases", "elements", "mismatches", "error/promise", "verdict")
	flush(t.w)
}

func (t *verdictTable) row(r *evidence.Report) {
	fmt.Fprintf(t.w, verdictForm, t.width, r.Lowering, r.DType, t.promise(t.promises[r.Lowering]), r.Cases, rounded(r.Elements), r.Mismatches, share(r.WorstErrorShare), verdictText(r))
	flush(t.w)
}

// verdictText returns the word for the verdict. Where a kernel is rejected although no output differs, the kinds
// of checks that failed are added.
func verdictText(r *evidence.Report) string {
	if r.Verdict == evidence.Rejected && r.Mismatches == 0 {
		return fmt.Sprintf("%s by %s", r.Verdict, allOf(failedTiers(r)))
	}
	return r.Verdict.Word()
}

// failedTiers returns the kinds of checks that failed.
func failedTiers(r *evidence.Report) (names []string) {
	for _, t := range r.Tiers {
		if t.Failed > 0 {
			names = append(names, string(t.Name))
		}
	}
	return names
}

// promise returns a cell of the column of promises with the space after it, or "" if there is
// no such column.
func (t *verdictTable) promise(text string) string {
	if t.promises == nil {
		return ""
	}
	return fmt.Sprintf("%-*s  ", t.ofPromise, text)
}

// rounded formats a number as 912, 66.7 k or 3.1 G.
func rounded(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	x := float64(n)
	for _, unit := range []string{"k", "M", "G"} {
		if x /= 1000; x < 999.95 {
			return fmt.Sprintf("%.1f %s", x, unit)
		}
	}
	return fmt.Sprintf("%.1f T", x/1000)
}

// share formats an error as a share of the promised bound.
func share(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *x)
}

// printJSON prints the results as an evidence.Run.
func (v *verification) printJSON(w io.Writer) error {
	run := evidence.Run{Tool: toolName, Version: version}
	for _, r := range v.reports() {
		run.Host, run.Seed = r.Host, r.Generator.Seed
		run.Results = append(run.Results, r.Summary)
		if r.Failure != nil {
			run.Failures = append(run.Failures, evidence.RunFailure{Lowering: r.Lowering, DType: r.DType, Failure: *r.Failure})
		}
	}
	data, err := run.JSON()
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// print prints the lines after the table: each failure, then a summary.
func (v *verification) print(w io.Writer, out string) {
	for _, r := range v.results {
		switch {
		case r.Report.Failure != nil:
			printFailure(w, r.Report)
		case r.Report.Verdict == evidence.Inadmissible, r.Report.Verdict == evidence.Undecided:
			fmt.Fprintf(w, "\n%s, %s: undecided\n", r.Report.Lowering, r.Report.DType)
			fmt.Fprintf(w, "  reason  %s\n", oneLine(r.Report.Reason))
			printReplay(w, r.Replay)
		case r.Report.Verdict == evidence.Unfinished:
			fmt.Fprintf(w, "\n%s, %s: %s\n", r.Report.Lowering, r.Report.DType, oneLine(r.Report.Reason))
		}
		if len(r.Shown) > 0 {
			name := v.options.Case
			if list := r.Report.CaseList; len(list) == 1 { // the one that ran, perhaps with other indices
				name = list[0].Name
			}
			fmt.Fprintf(w, "\n%s, %s: %s seed=%d\n", r.Report.Lowering, r.Report.DType, name, v.options.Seed)
			for _, line := range r.Shown {
				fmt.Fprintf(w, "  %s\n", line)
			}
		}
	}
	v.printAlgorithms(w)
	v.printTerms(w)
	v.printProperties(w)
	v.printSpeeds(w)
	v.printSkipped(w)
	fmt.Fprintln(w)
	v.printCounts(w)
	v.printUnchecked(w)
	v.printLeftOut(w)
	v.printOrigins(w)
	v.printTiers(w)
	v.printWorst(w)
	if v.isInterrupted {
		fmt.Fprintf(w, "partial: interrupted before everything was verified\n")
	}
	if v.isInterrupted && out != "" && v.options.Case == "" {
		fmt.Fprintf(w, "the same command with --resume continues\n")
	}
}

// printAlgorithms prints what a vendor's library chose, and whether its results have the
// bits of a model.
func (v *verification) printAlgorithms(w io.Writer) {
	for _, r := range v.results {
		if len(r.Report.Algorithms) == 0 {
			continue
		}
		cases, same := 0, 0
		for _, a := range r.Report.Algorithms {
			cases, same = cases+a.Cases, same+a.SameCases
		}
		fmt.Fprintf(w, "\n%s, %s: %d of %s with the bits of a model in all outputs\n", r.Report.Lowering, r.Report.DType, same, counted(cases, "case"))
		for _, a := range r.Report.Algorithms {
			text := fmt.Sprintf("all with the bits of %s", a.Model)
			if a.SameCases < a.Cases {
				text = fmt.Sprintf("%d with the bits of %s (%d of %d outputs), not %s", a.SameCases, a.Model, a.SameBits, a.Elements, a.Others[0])
			}
			parts := ""
			if a.Parts > 1 {
				parts = fmt.Sprintf(" (sums in %d parts)", a.Parts)
			}
			fmt.Fprintf(w, "  %s%s: %s, %s\n", a.Name, parts, counted(a.Cases, "case"), text)
		}
	}
}

// printEnd prints where to read more.
func (v *verification) printEnd(w io.Writer) error {
	_, err := fmt.Fprint(w, `
docs/verification.md  how this works, and what it does not show
docs/promises.md      what a kernel can promise, and what each promise admits
docs/mutants.md       the broken kernels that it has to find
docs/contracts.md     what each operation promises
`)
	return err
}

// printFailure prints the smallest failing case.
func printFailure(w io.Writer, r *evidence.Report) {
	f := r.Failure
	fmt.Fprintf(w, "\n%s\n", oneLine(f.Message))
	if r.Generator.Seed != nil { // not a caller's own data
		fmt.Fprintf(w, "  case    %s seed=%d\n", f.Case, f.Seed)
	}
	if f.Got != "" {
		fmt.Fprintf(w, "  got     %s\n", f.Got)
	}
	want := f.Want
	if f.Truth != "" {
		want = fmt.Sprintf("%-22s truth %s", want, f.Truth)
	}
	if want != "" {
		fmt.Fprintf(w, "  want    %s\n", want)
	}
	for _, line := range []struct{ label, text string }{{"when", f.When}, {"where", f.Where}} {
		if line.text != "" {
			fmt.Fprintf(w, "  %-6s  %s\n", line.label, oneLine(line.text))
		}
	}
	for _, list := range []struct {
		label string
		lines []string
	}{{"kinds", f.Kinds}, {"terms", f.Terms}, {"inputs", f.Inputs}, {"row", f.Row}} {
		for i, line := range list.lines {
			if i > 0 {
				list.label = ""
			}
			fmt.Fprintf(w, "  %-6s  %s\n", list.label, line)
		}
	}
	if f.Note != "" {
		fmt.Fprintf(w, "  note    %s\n", oneLine(f.Note))
	}
	printReplay(w, f.Replay)
}

// printReplay prints a command, if there is one.
func printReplay(w io.Writer, command string) {
	if command != "" {
		fmt.Fprintf(w, "  replay  %s\n%s", oneLine(command), pathNote())
	}
}

// pathNote returns a line to print behind a command that names this program where a shell would not find it by its name. It
// returns "" for a test, which is no program of that name.
func pathNote() string {
	self, err := os.Executable()
	if err != nil || strings.TrimSuffix(filepath.Base(self), ".exe") != toolName {
		return ""
	}
	if found, err := exec.LookPath(toolName); err == nil {
		a, errA := os.Stat(found)
		b, errB := os.Stat(self)
		if errA == nil && errB == nil && os.SameFile(a, b) {
			return ""
		}
	}
	return fmt.Sprintf("          (%s is %s here, which PATH does not lead to)\n", toolName, oneLine(self))
}

// printSkipped prints what the device cannot run, once for each lowering, and why.
func (v *verification) printSkipped(w io.Writer) {
	var lines []string
	for _, r := range v.reports() {
		line := fmt.Sprintf("skipped: %s: %s\n", r.Lowering[strings.LastIndex(r.Lowering, "/")+1:], oneLine(r.Reason))
		if r.Verdict == evidence.Skipped && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(w, "\n%s", strings.Join(lines, ""))
	}
}

// printCounts prints the totals.
func (v *verification) printCounts(w io.Writer) {
	lowerings, formats := map[string]bool{}, map[string]bool{}
	cases, elements, mismatches := 0, int64(0), int64(0)
	for _, r := range v.reports() {
		lowerings[r.Lowering], formats[r.DType] = true, true
		cases += r.Cases
		elements += r.Elements
		mismatches += r.Mismatches
	}
	accepted, rejected, others := v.count(evidence.Accepted), v.count(evidence.Rejected), ""
	undecided := len(v.results) - accepted - rejected
	for _, verdict := range []evidence.Verdict{evidence.Unfinished, evidence.Skipped} {
		if n := v.count(verdict); n > 0 {
			undecided -= n
			others += fmt.Sprintf(", %d %s", n, verdict)
		}
	}
	fmt.Fprintf(w, "%d accepted, %d rejected, %d undecided%s: %s in %s\n",
		accepted, rejected, undecided, others, counted(len(lowerings), "lowering"), counted(len(formats), "format"))
	if rejected > 0 && mismatches == 0 {
		others = ""
		for _, r := range v.reports() {
			for _, name := range failedTiers(r) {
				if !strings.Contains(others, name) {
					others += ", failed checks of " + name
				}
			}
		}
	} else {
		others = ""
	}
	params := ""
	for _, r := range v.reports() {
		for _, text := range r.Params {
			if !strings.Contains(params+", ", ", "+text+", ") {
				params += ", " + text
			}
		}
	}
	fmt.Fprintf(w, "%s, %s outputs compared, %s%s, in %.1f s; level %s, seed %d, %s%s\n", counted(cases, "case"), rounded(elements),
		counted(int(mismatches), "mismatch"), others, v.seconds, v.options.Level, v.options.Seed, v.options.Device, params)
}

// printOrigins prints where kernels of somebody else's come from, each once.
func (v *verification) printOrigins(w io.Writer) {
	for _, text := range v.origins() {
		fmt.Fprintf(w, "kernel: %s\n", oneLine(text))
	}
}

// origins returns where kernels of somebody else's come from, each once.
func (v *verification) origins() (known []string) {
	for _, t := range v.targets {
		if t.Lowering.Origin == nil {
			continue
		}
		if text := t.Lowering.Origin(); !slices.Contains(known, text) {
			known = append(known, text)
		}
	}
	return known
}

// counted formats a number of things: 1 case, 2 cases, 0 mismatches.
func counted(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "ch"):
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// tierMeanings says what each kind of check counts and shows.
var tierMeanings = map[evidence.TierName]string{
	evidence.Structure:  "runs that wrote every output and nothing else, and changed no input",
	evidence.Bits:       "outputs equal to the reference to the last bit",
	evidence.Set:        "outputs among the values that the promise admits",
	evidence.Grid:       "outputs of inputs whose sums are exact in any order: a lost term shows",
	evidence.Statistics: "tests of bias, spread and misrounding of the errors",
	evidence.Relations:  "outputs of scaled, permuted, split, padded or transposed inputs, or in place",
	evidence.Invariance: "outputs again: repeated, in other layouts, with other workers, concurrently",
}

func (v *verification) printTiers(w io.Writer) {
	for _, name := range evidence.TierNames {
		var sum evidence.Tier
		for _, r := range v.reports() {
			for _, t := range r.Tiers {
				if t.Name == name {
					sum.Checks += t.Checks
					sum.Failed += t.Failed
				}
			}
		}
		if sum.Checks == 0 {
			continue
		}
		fmt.Fprintf(w, "  %-10s  %8s  %s", name, rounded(sum.Checks), tierMeanings[name])
		if sum.Failed > 0 {
			fmt.Fprintf(w, "; %d FAILED", sum.Failed)
		}
		fmt.Fprintln(w)
	}
}

// printWorst prints the largest error against the real numbers in each format, as a share
// of the promised bound. In ulps it would be large, and mean little, where terms cancel.
func (v *verification) printWorst(w io.Writer) {
	var compared int64
	worst := map[string]*evidence.Report{}
	for _, r := range v.reports() {
		compared += r.TruthElements
		if r.WorstErrorShare != nil && (worst[r.DType] == nil || *r.WorstErrorShare > *worst[r.DType].WorstErrorShare) {
			worst[r.DType] = r
		}
	}
	if len(worst) == 0 {
		return
	}
	fmt.Fprintf(w, "%s outputs were also compared with the real numbers. Their errors, as a share of what the\n", rounded(compared))
	fmt.Fprintf(w, "definitions promise, half an ulp of rounding included (docs/accuracy.md), are at most\n")
	for _, dtype := range dtypeNames() {
		r := worst[dtype]
		if r == nil {
			continue
		}
		fmt.Fprintf(w, "  %-10s  %8s  %s", dtype, share(r.WorstErrorShare), r.Lowering)
		for _, c := range r.WorstCases {
			if c.Figure == evidence.FigureErrorShare {
				fmt.Fprintf(w, ", %s of %s", c.Place, c.Case)
			}
		}
		fmt.Fprintln(w)
	}
}
