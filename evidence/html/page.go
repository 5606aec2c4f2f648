package html

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tokitai/evidence"
)

// document is a page before it is laid out.
type document struct {
	Extra
	First     *evidence.Report
	Verdict   verdict
	Headline  string
	Lead      string
	Counts    []verdictCount
	Grid      grid
	Groups    []group
	Skipped   []skipped
	NonClaims []string // of all reports
	Facts     []fact   // where and when
	Time      time.Time
}

// verdict is how a verdict is shown: never by its colour alone.
type verdict struct{ Word, Class, Symbol string }

var verdicts = map[evidence.Verdict]verdict{
	evidence.Accepted:     {"accepted", "good", "✓"},
	evidence.Rejected:     {"rejected", "bad", "✗"},
	evidence.Inadmissible: {evidence.Inadmissible.Word(), "fair", "!"},
	evidence.Interrupted:  {"interrupted", "fair", "…"},
	evidence.Undecided:    {"undecided", "fair", "?"},
	evidence.Unfinished:   {"unfinished", "fair", "…"},
	evidence.Skipped:      {"skipped", "none", "–"},
}

// verdictMeanings say what verdicts mean, for the legend.
var verdictMeanings = map[evidence.Verdict]string{
	evidence.Accepted:     "every check passed",
	evidence.Rejected:     "a check failed",
	evidence.Inadmissible: "it did not compile, ended in an error or hung",
	evidence.Interrupted:  "stopped before everything was checked",
	evidence.Undecided:    "nothing failed, but too little was decided",
	evidence.Unfinished:   "nothing failed, but the budget was too small for level smoke",
	evidence.Skipped:      "the device cannot run it",
}

type verdictCount struct {
	verdict
	Number  int
	Meaning string
}

// fact is a name and its value.
type fact struct {
	Name, Value, Note string
	IsCode            bool
}

// grid is the table of all verdicts: a row for each lowering, with a column for each format
// and for each tier.
type grid struct {
	Formats []string
	Tiers   []tierHead
	Rows    []gridRow
}

type tierHead struct {
	Name    evidence.TierName
	Meaning string
}

// tierMeanings say what each tier checks.
var tierMeanings = map[evidence.TierName]string{
	evidence.Structure:  "every output written, nothing else, no input changed",
	evidence.Bits:       "equal to the reference to the last bit",
	evidence.Set:        "among the values that the promise admits",
	evidence.Grid:       "sums that are exact in any order: a lost term shows",
	evidence.Statistics: "bias, spread and misrounding of the errors",
	evidence.Relations:  "scaled, permuted, split or padded inputs, or in place",
	evidence.Invariance: "again: repeated, in other layouts, concurrently",
}

type gridRow struct {
	Lowering string
	Cells    []gridCell
	Tiers    []tierCell
}

type gridCell struct {
	verdict
	Target string // id; "" if there is no such report
	Name   string // for those who hear the page
}

type tierCell struct {
	Class, Symbol string
	Text          string
	Failed        int64
	Checks        int64
}

// group is the targets with one kind of verdict.
type group struct {
	Title   string
	Targets []*target
}

// skipped is what the device cannot run, with the reason.
type skipped struct {
	Names  string
	Reason string
}

// target is one report as it is shown.
type target struct {
	*evidence.Report
	verdict
	ID     string
	IsOpen bool
	Brief  string // the figures that matter most

	Answers []fact // promise, honest, accurate and so on
	Figures []fact
	Truth   *histogram
	Set     *histogram
	Admits  *admitted
	Inside  string // that all outputs are admissible, instead of a chart
	Maps    []*heatMap
	Replay  string
	Undone  string   // cases that were not run
	Only    []string // what this report does not show, beyond what all of them do not
	Machine string
}

// newPage returns the page of reports.
func newPage(reports []*evidence.Report, extra Extra) *document {
	d := &document{Extra: extra, First: reports[0]}
	counts := map[evidence.Verdict]int{}
	for _, r := range reports {
		counts[r.Verdict]++
		if r.Time.After(d.Time) {
			d.Time = r.Time
		}
	}
	for _, v := range evidence.Verdicts {
		if n := counts[v]; n > 0 {
			d.Counts = append(d.Counts, verdictCount{verdicts[v], n, verdictMeanings[v]})
		}
	}
	d.headline(reports, counts)
	d.NonClaims = common(reports)
	targets := make([]*target, len(reports))
	for i, r := range reports {
		targets[i] = newTarget(r, i, d.NonClaims)
		if len(extra.Replays) > 0 {
			targets[i].Replay = cmp.Or(targets[i].Replay, extra.Replays[i])
		}
		targets[i].IsOpen = r.Verdict != evidence.Accepted || len(reports) <= 3
	}
	d.Grid = newGrid(targets)
	d.group(targets)
	d.Facts = whereAndWhen(reports)
	return d
}

// headline says the verdict on everything in words.
func (d *document) headline(reports []*evidence.Report, counts map[evidence.Verdict]int) {
	n := len(reports) - counts[evidence.Skipped]
	one := ""
	if len(reports) == 1 {
		one = fmt.Sprintf("%s in %s", reports[0].Lowering, reports[0].DType)
	}
	rejected, accepted := counts[evidence.Rejected], counts[evidence.Accepted]
	switch {
	case rejected > 0:
		d.Verdict = verdicts[evidence.Rejected]
		d.Headline = fmt.Sprintf("%d of %s %s not compute what the definition says", rejected, counted(int64(n), "kernel"), either(rejected == 1, "does", "do"))
		if one != "" {
			d.Headline = one + " does not compute what the definition says"
		}
	case accepted > 0 && accepted == n:
		d.Verdict = verdicts[evidence.Accepted]
		d.Headline = fmt.Sprintf("all %s compute what their definitions say", counted(int64(n), "kernel"))
		if n == 1 {
			d.Headline = cmp.Or(one, "the only kernel that could run") + " computes what the definition says"
		}
	default:
		d.Verdict = verdicts[evidence.Undecided]
		d.Headline = cmp.Or(one, fmt.Sprintf("%d of %s", max(n, 1)-accepted, counted(int64(max(n, 1)), "kernel"))) + " could not be decided"
	}
	var cases, elements, mismatches int64
	for _, r := range reports {
		cases += int64(r.Cases)
		elements += r.Elements
		mismatches += r.Mismatches
	}
	found := "no mismatch"
	if mismatches > 0 {
		found = counted(mismatches, "mismatch")
	}
	d.Lead = fmt.Sprintf("%s, %s compared, %s.", counted(cases, "case"), counted(elements, "output"), found)
	if len(reports) > 1 {
		d.Lead += " A kernel is counted once for each format."
	}
}

// either returns one of two words.
func either(isFirst bool, first, second string) string {
	if isFirst {
		return first
	}
	return second
}

// common returns what none of the reports shows, if there are several.
func common(reports []*evidence.Report) []string {
	if len(reports) == 1 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(reports[0].NonClaims), func(text string) bool {
		return slices.ContainsFunc(reports, func(r *evidence.Report) bool { return !slices.Contains(r.NonClaims, text) })
	})
}

// group sorts the targets by their verdicts, rejected ones first.
func (d *document) group(targets []*target) {
	for _, g := range []struct {
		title    string
		verdicts []evidence.Verdict
	}{
		{"Rejected", []evidence.Verdict{evidence.Rejected}},
		{"Undecided", []evidence.Verdict{evidence.Inadmissible, evidence.Interrupted, evidence.Undecided, evidence.Unfinished}},
		{"Accepted", []evidence.Verdict{evidence.Accepted}},
	} {
		list := slices.DeleteFunc(slices.Clone(targets), func(t *target) bool { return !slices.Contains(g.verdicts, t.Report.Verdict) })
		if len(list) > 0 {
			d.Groups = append(d.Groups, group{g.title, list})
		}
	}
	for _, t := range targets {
		if t.Report.Verdict != evidence.Skipped {
			continue
		}
		name := t.Lowering + " " + t.DType
		if i := slices.IndexFunc(d.Skipped, func(s skipped) bool { return s.Reason == t.Reason }); i >= 0 {
			d.Skipped[i].Names += ", " + name
		} else {
			d.Skipped = append(d.Skipped, skipped{name, t.Reason})
		}
	}
}

// newGrid returns the table of all verdicts.
func newGrid(targets []*target) grid {
	var g grid
	has := map[string]bool{}
	ran := map[evidence.TierName]bool{}
	var lowerings []string
	for _, t := range targets {
		has[t.DType] = true
		for _, tier := range t.Tiers {
			ran[tier.Name] = ran[tier.Name] || tier.Checks > 0
		}
		if !slices.Contains(lowerings, t.Lowering) {
			lowerings = append(lowerings, t.Lowering)
		}
	}
	for _, f := range evidence.DTypes {
		if has[f] {
			g.Formats = append(g.Formats, f)
		}
	}
	for _, name := range evidence.TierNames {
		if ran[name] {
			g.Tiers = append(g.Tiers, tierHead{name, tierMeanings[name]})
		}
	}
	for _, lowering := range lowerings {
		row := gridRow{Lowering: lowering, Cells: make([]gridCell, len(g.Formats))}
		sums := map[evidence.TierName]evidence.Tier{}
		for _, t := range targets {
			if t.Lowering != lowering {
				continue
			}
			row.Cells[slices.Index(g.Formats, t.DType)] = gridCell{t.verdict, t.link(), fmt.Sprintf("%s in %s: %s", t.Lowering, t.DType, t.Word)}
			for _, tier := range t.Tiers {
				sum := sums[tier.Name]
				sum.Checks += tier.Checks
				sum.Failed += tier.Failed
				sums[tier.Name] = sum
			}
		}
		for _, head := range g.Tiers {
			row.Tiers = append(row.Tiers, newTierCell(sums[head.Name]))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// link returns the id of the target's section; "" if it has none.
func (t *target) link() string {
	if t.Report.Verdict == evidence.Skipped {
		return ""
	}
	return t.ID
}

func newTierCell(t evidence.Tier) tierCell {
	c := tierCell{Checks: t.Checks, Failed: t.Failed}
	switch {
	case t.Failed > 0:
		c.Class, c.Symbol, c.Text = "bad", "✗", fmt.Sprintf("%s of %s failed", evidence.Integer(t.Failed), evidence.Integer(t.Checks))
	case t.Checks > 0:
		c.Class, c.Symbol, c.Text = "good", "✓", counted(t.Checks, "check")+" passed"
	default:
		c.Class, c.Symbol, c.Text = "none", "–", "not checked"
	}
	return c
}

// newTarget returns a report as it is shown, without what none of the reports shows.
func newTarget(r *evidence.Report, number int, common []string) *target {
	dtype := cmp.Or(r.ErrorDType, r.DType)
	t := &target{
		Report: r, verdict: verdicts[r.Verdict], ID: "t" + strconv.Itoa(number+1),
		Truth: truthChart(r.Histogram, dtype), Set: setChart(r.Histogram), Admits: admittedChart(r),
		Undone: r.LeftUndone(),
	}
	if h := r.Histogram; h != nil && t.Set == nil && len(h.Set) == 1 {
		t.Inside = fmt.Sprintf("All %s whose admissible values are known have one of them.", counted(h.Set[0].Outputs, "output"))
		if r.Contract == evidence.ContractBits {
			t.Inside = fmt.Sprintf("All %s have the reference's bits, the only admissible ones.", counted(h.Set[0].Outputs, "output"))
		}
	}
	t.Brief = counted(int64(r.Cases), "case")
	if r.Mismatches > 0 {
		t.Brief += ", " + counted(r.Mismatches, "mismatch")
	}
	if r.WorstErrorULP != nil {
		t.Brief += ", errors up to " + figure(r.WorstErrorULP) + " ulp"
	}
	t.answers()
	t.figures(dtype)
	if f := r.Failure; f != nil {
		t.Replay = f.Replay
		for _, m := range f.Maps {
			t.Maps = append(t.Maps, newHeatMap(m))
		}
	}
	t.Only = slices.DeleteFunc(slices.Clone(r.NonClaims), func(text string) bool { return slices.Contains(common, text) })
	t.Machine = strings.Join(slices.DeleteFunc([]string{r.Device, r.Machine.Name, r.Machine.Architecture, r.Machine.Driver}, func(s string) bool { return s == "" }), ", ")
	return t
}

// answers lists what was promised, and what became of it.
func (t *target) answers() {
	r := t.Report
	add := func(name, value, note string) {
		if value != "" {
			t.Answers = append(t.Answers, fact{Name: name, Value: value, Note: note})
		}
	}
	add("parameters", strings.Join(r.Params, ", "), "in every case; other values were not run")
	add("promise", cmp.Or(r.Promise, string(r.Contract)), promiseMeanings[cmp.Or(r.Promise, string(r.Contract))])
	add("profile", r.Profile, "its documented errors of functions were granted")
	add("declared", r.Declared, "")
	add("honest", string(r.Honest), "whether every output is one that the promise and the declarations admit")
	add("accurate", string(r.Accurate), "whether every output is as close to the truth as the definition promises")
	for _, d := range r.Decided {
		add("decided of "+d.Output, percent(d.Share), fmt.Sprintf("%s of %s on the operation's own kinds of data; accepted needs %s", evidence.Integer(d.Decided), counted(d.Known, "output"), percent(d.Needed)))
	}
	if len(r.Omitted) > 0 {
		add("not written", strings.Join(r.Omitted, ", "), "declared, and not judged")
	}
}

// promiseMeanings say what a kernel promises.
var promiseMeanings = map[string]string{
	"bits":    "every output has the reference's bits",
	"ordered": "every output is one that the definition's own steps give, with sums in a declared order",
	"stable":  "every output is as close to the exact result as a stable kernel comes",
	"bounded": "every output is in the admissible set",
}

// figures lists what was measured.
func (t *target) figures(dtype string) {
	r := t.Report
	add := func(name, value, note string) {
		t.Figures = append(t.Figures, fact{Name: name, Value: value, Note: note})
	}
	add("cases", evidence.Integer(int64(r.Cases)), "")
	add("outputs compared", evidence.Integer(r.Elements), "")
	add("mismatches", evidence.Integer(r.Mismatches), "")
	if r.TruthElements > 0 {
		add("compared with the truth", evidence.Integer(r.TruthElements), "outputs")
	}
	own := func(x *float64) string {
		if x == nil {
			return ""
		}
		return "the definition's own kernel: " + number(*x)
	}
	var o evidence.Errors
	if r.Own != nil {
		o = *r.Own
	}
	if r.WorstErrorULP != nil {
		add("worst error", figure(r.WorstErrorULP)+" ulp of "+dtype, own(o.WorstErrorULP))
	}
	if r.WorstErrorShare != nil {
		add("worst error / promised", figure(r.WorstErrorShare), own(o.WorstErrorShare))
	}
	if r.Misrounded != nil {
		note := ""
		if o.Misrounded != nil {
			note = "the definition's own kernel: " + percent(*o.Misrounded)
		}
		add("not correctly rounded", percent(*r.Misrounded), note)
	}
	if r.ErrorUndefined > 0 {
		add("not finite, where the truth is", evidence.Integer(r.ErrorUndefined), "outputs")
	}
	if r.MeanAdmissible != nil && r.MeanAllClose == nil {
		add("values admitted per output", figure(r.MeanAdmissible), "")
	}
	if r.WorstAdmissible != nil && *r.WorstAdmissible > 1 {
		add("values admitted at most", figure(r.WorstAdmissible), "")
	}
	add("how sums round", r.Model, "")
	if r.Coverage.Compiled > 0 {
		add("answers interpreted", evidence.Integer(r.Coverage.Judged-r.Coverage.Freivalds-r.Coverage.Compiled), fmt.Sprintf("%s come from compiled code for the CPU", evidence.Integer(r.Coverage.Compiled)))
	}
	if r.Coverage.Freivalds > 0 {
		add("judged by Freivalds' check", evidence.Integer(r.Coverage.Freivalds), "which misses a wrong row with a probability of at most 2^-40")
	}
	if r.KernelSeconds != nil {
		add("time in the kernel", duration(*r.KernelSeconds), "")
	}
	add("time in all", duration(r.Seconds), "")
}

// whereAndWhen lists what the reports say about the run.
func whereAndWhen(reports []*evidence.Report) []fact {
	var facts []fact
	add := func(name string, of func(r *evidence.Report) string) {
		var values []string
		for _, r := range reports {
			if v := of(r); v != "" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			facts = append(facts, fact{Name: name, Value: strings.Join(values, "; ")})
		}
	}
	list := func(parts ...string) string {
		return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
	}
	positive := func(n int64, unit string) string {
		if n == 0 {
			return ""
		}
		return counted(n, unit)
	}
	memory := func(bytes int64) string {
		if bytes == 0 {
			return ""
		}
		return strconv.FormatFloat(float64(bytes)/(1<<30), 'f', 1, 64) + "\u202fGiB"
	}
	add("tool", func(r *evidence.Report) string { return r.Tool + " " + r.Version })
	add("level", func(r *evidence.Report) string { return r.Level })
	add("seed", func(r *evidence.Report) string {
		if r.Generator.Seed == nil {
			return ""
		}
		return strconv.FormatUint(*r.Generator.Seed, 10)
	})
	add("inputs", func(r *evidence.Report) string { return r.Generator.Name })
	add("device", func(r *evidence.Report) string {
		return list(r.Device, r.Machine.Name, r.Machine.Architecture, r.Machine.Driver, memory(r.Machine.MemoryBytes), positive(int64(r.Machine.Workers), "worker"))
	})
	add("compiler", func(r *evidence.Report) string {
		return list(strings.TrimSpace(r.Toolchain.Compiler+" "+r.Toolchain.Version), r.Toolchain.Options)
	})
	add("host", func(r *evidence.Report) string {
		return list(r.Host.CPU, r.Host.OS+"/"+r.Host.Arch, positive(int64(r.Host.Cores), "core"), memory(r.Host.MemoryBytes))
	})
	add("program, SHA-256", func(r *evidence.Report) string { return r.Host.ProgramSHA256 })
	total := 0.0
	for _, r := range reports {
		total += r.Seconds
	}
	facts = append(facts, fact{Name: "duration", Value: duration(total), Note: "of all verifications; several may have run at the same time"})
	if len(reports) == 1 {
		facts[len(facts)-1].Note = ""
	}
	return facts
}
