package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Markdown returns the report as Markdown. Everything that depends on the machine and the
// time is in its last section.
func (r *Report) Markdown() string { return r.markdown(r.FileName() + ".json") }

// markdown returns the report as Markdown with a link to its JSON file.
func (r *Report) markdown(file string) string {
	var p page
	p.line("# %s, %s: %s", escape(r.Lowering), escape(r.DType), r.Verdict.Word())
	p.line("")
	p.line("%s", r.sentence())
	if text := r.Sharpness(); text != "" {
		p.line("\n%s. %s.", capital(r.Answers()), capital(text))
	}
	p.failure(r.Failure)
	p.properties(r.Properties)
	p.checked(r)
	p.figures(r)
	p.terms(r)
	p.algorithms(r.Algorithms)
	p.speed(r.Speed)
	p.worst(r.WorstCases)
	p.candidates(r)
	p.list("What this shows", r.Evidence, "Nothing.")
	p.list("What this does not show", r.NonClaims, "")
	p.made(r, file)
	p.cases(r)
	p.whereAndWhen(r)
	return p.String()
}

// sentence returns the verdict in a sentence.
func (r *Report) sentence() string {
	kept := "contract " + string(r.Contract)
	if r.Promise != "" {
		kept = "promise " + r.Promise
	}
	subject := fmt.Sprintf("%s on %s, %s, level %s", code(r.Lowering), code(r.Device), kept, r.Level)
	switch r.Verdict {
	case Accepted:
		return fmt.Sprintf("**accepted**: %s. %s, %s compared, no mismatch.", subject, count(int64(r.Cases), "case"), count(r.Elements, "output"))
	case Rejected:
		return fmt.Sprintf("**rejected**: %s. %s in %s compared, in %s.\n\n%s",
			subject, count(r.Mismatches, "mismatch"), count(r.Elements, "output"), count(int64(r.Cases), "case"), escape(r.Reason))
	}
	return fmt.Sprintf("**%s**: %s.\n\n%s", r.Verdict.Word(), subject, escape(r.Reason))
}

// capital returns a text as the beginning of a sentence.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// page is a Markdown document under construction.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) heading(title string) { p.line("\n## %s\n", title) }

// table writes a table of Markdown cells. Columns whose head ends in a colon are aligned
// right.
func (p *page) table(head []string, rows [][]string) {
	row := func(cells []string) { p.line("| %s |", strings.Join(cells, " | ")) }
	names, rules := make([]string, len(head)), make([]string, len(head))
	for i, h := range head {
		name, isRight := strings.CutSuffix(h, ":")
		names[i], rules[i] = name, "---"
		if isRight {
			rules[i] = "---:"
		}
	}
	row(names)
	row(rules)
	for _, cells := range rows {
		row(cells)
	}
}

func (p *page) list(title string, texts []string, none string) {
	p.heading(title)
	if len(texts) == 0 {
		p.line("%s", none)
	}
	for _, text := range texts {
		p.line("- %s", escape(text))
	}
}

func (p *page) failure(f *Failure) {
	if f == nil {
		return
	}
	p.heading("The failing case")
	p.line("%s", escape(f.Message))
	p.line("")
	rows := [][]string{
		{"tier", escape(string(f.Tier))},
		{"case", code(f.Case) + ", seed " + strconv.FormatUint(f.Seed, 10)},
		{"place", code(f.Place)},
		{"got", code(f.Got)},
		{"want", code(f.Want)},
		{"truth", code(cmp.Or(f.Truth, "not known"))},
	}
	for _, kind := range f.Kinds {
		rows = append(rows, []string{"kind", escape(kind)})
	}
	if f.When != "" {
		rows = append(rows, []string{"when", escape(f.When)})
	}
	if f.Where != "" {
		rows = append(rows, []string{"where", escape(f.Where)})
	}
	for _, term := range f.Terms {
		rows = append(rows, []string{"terms", escape(term)})
	}
	for _, input := range f.Inputs {
		rows = append(rows, []string{"input", code(input)})
	}
	for _, row := range f.Row {
		rows = append(rows, []string{"row", code(row)})
	}
	if f.OriginalCase != "" && f.OriginalCase != f.Case {
		rows = append(rows, []string{"found in", code(f.OriginalCase)})
	}
	if f.Note != "" {
		rows = append(rows, []string{"note", escape(f.Note)})
	}
	p.table([]string{"", ""}, rows)
	if f.Replay == "" {
		p.line("\nOnly the program that had it verified can show it again.")
		return
	}
	p.line("\nTo see it again:\n")
	p.line("    %s", f.Replay)
}

// mostCandidates is how many candidates a page lists.
const mostCandidates = 12

func (p *page) candidates(r *Report) {
	if len(r.Candidates) == 0 {
		return
	}
	p.heading("The models it was held to")
	var rows [][]string
	for _, c := range r.Candidates[:min(mostCandidates, len(r.Candidates))] {
		rows = append(rows, []string{code(c.Model), Integer(c.Elements), Integer(c.Mismatches)})
	}
	p.table([]string{"model", "outputs compared:", "mismatches:"}, rows)
	if n := len(r.Candidates) - mostCandidates; n > 0 {
		p.line("\nThe JSON file has %d more, none of them closer.", n)
	}
}

func (p *page) checked(r *Report) {
	p.heading("What was checked")
	if len(r.Tiers) == 0 {
		p.line("Nothing.")
	} else {
		var rows [][]string
		for _, t := range r.Tiers {
			rows = append(rows, []string{escape(string(t.Name)), Integer(t.Checks), Integer(t.Failed), escape(t.Note)})
		}
		p.table([]string{"tier", "checks:", "failed:", ""}, rows)
	}
	c := r.Coverage
	p.line("\nOf %s produced, %s judged, in %s.", count(c.Produced, "output"), Integer(c.Judged), count(c.Tiles, "tile"))
	if c.Compiled > 0 {
		p.line("The answers to %s of these were interpreted; the answers to %s come from compiled code for the CPU.", Integer(c.Judged-c.Freivalds-c.Compiled), Integer(c.Compiled))
	}
	if c.Freivalds > 0 {
		p.line("%s of these were judged by Freivalds' check, which misses a wrong row with a probability of at most 2^-40.", Integer(c.Freivalds))
	}
	if text := r.LeftUndone(); text != "" {
		p.line("%s.", capital(text))
	}
	if len(r.Formats) > 0 {
		p.line("Storage formats: %s.", codes(r.Formats))
	}
}

func (p *page) figures(r *Report) {
	p.heading("How tightly")
	p.table([]string{"figure", "value:"}, [][]string{
		{"how sums round", code(r.Model)},
		{"admissible values per output, mean", figure(r.MeanAdmissible)},
		{"median", figure(r.MedianAdmissible)},
		{"worst", figure(r.WorstAdmissible)},
		{"share of outputs with more than one", figure(r.ShareOverOne)},
		{"outputs compared with the truth", Integer(r.TruthElements)},
		{"worst error in ulp of " + escape(cmp.Or(r.ErrorDType, r.DType)), figure(r.WorstErrorULP)},
		{"worst error as a share of what is promised", figure(r.WorstErrorShare)},
		{"share not correctly rounded", figure(r.Misrounded)},
		{"correct rounding not known", Integer(r.Undecided)},
		{"no distance to the truth", Integer(r.ErrorUndefined)},
	})
}

// algorithms writes what a vendor's library chose.
func (p *page) algorithms(list []Algorithm) {
	if len(list) == 0 {
		return
	}
	p.heading("Algorithms")
	p.line("The library chose an algorithm for each case. The outputs were also compared with a model, bit for bit.\n")
	var rows [][]string
	for _, a := range list {
		rows = append(rows, []string{escape(a.Name), strconv.Itoa(a.Parts), code(a.Model), strconv.Itoa(a.Cases), strconv.Itoa(a.SameCases), Integer(a.Elements), Integer(a.SameBits), codes(a.Others)})
	}
	p.table([]string{"algorithm", "parts of a sum:", "model", "cases:", "with its bits:", "outputs:", "with its bits:", "first others"}, rows)
}

func (p *page) worst(cases []WorstCase) {
	if len(cases) == 0 {
		return
	}
	p.heading("Worst cases")
	var rows [][]string
	for _, w := range cases {
		rows = append(rows, []string{escape(w.Figure), figure(&w.Value), code(w.Case), code(w.Place), code(w.Got), code(cmp.Or(w.Truth, "not known")), codes(w.Inputs)})
	}
	p.table([]string{"figure", "value:", "case", "place", "got", "truth", "inputs"}, rows)
}

// made writes what was judged and how it was compiled.
func (p *page) made(r *Report, file string) {
	p.heading("What was judged")
	rows := [][]string{
		{"operation", code(r.Op)},
		{"definition", code(r.Definition.Name)},
		{"compiler", known(r.Toolchain.Compiler)},
		{"its version", known(r.Toolchain.Version)},
		{"its options", known(r.Toolchain.Options)},
	}
	for _, f := range r.Fingerprints {
		text := "none"
		if f.SHA256 != "" {
			text = code(f.SHA256)
		}
		if f.Note != "" {
			text += ": " + escape(f.Note)
		}
		rows = append(rows, []string{"SHA-256, " + escape(f.Of), text})
	}
	p.table([]string{"", ""}, rows)
	p.line("\nThe text of the definition, and how every field was obtained, are in %s.", link(file))
}

func (p *page) cases(r *Report) {
	p.heading("Cases")
	from := code(r.Generator.Name)
	if r.Generator.Seed != nil {
		from = fmt.Sprintf("the generator %s, seed %d", from, *r.Generator.Seed)
	}
	if len(r.Params) > 0 {
		from += ", all with " + codes(r.Params)
	}
	p.line("%s from %s. SHA-256 of the list: %s.", count(int64(len(r.CaseList)), "case"), from, code(r.DigestSHA256))
	if len(r.CaseList) == 0 {
		return
	}
	shown := []int{0, len(r.CaseList) - 1}
	var rows [][]string
	for _, i := range slices.Compact(shown) {
		c := r.CaseList[i]
		if r.IsCompact() {
			rows = append(rows, []string{strconv.Itoa(i + 1), code(c.Name), code(c.Digest), Integer(c.Elements), Integer(c.Mismatches)})
			continue
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), code(c.Name), codes(c.Shapes), escape(joined(c.Tiers)), Integer(c.Elements), Integer(c.Mismatches)})
	}
	p.line("")
	if r.IsCompact() {
		p.table([]string{"no.:", "case", "digest", "outputs:", "mismatches:"}, rows)
		return
	}
	p.table([]string{"no.:", "case", "shapes", "tiers", "outputs:", "mismatches:"}, rows)
}

func (p *page) whereAndWhen(r *Report) {
	h, m := r.Host, r.Machine
	p.heading("Where and when")
	kernel := "not measured"
	if r.KernelSeconds != nil {
		kernel = seconds(*r.KernelSeconds)
	}
	p.table([]string{"", ""}, [][]string{
		{"tool", escape(r.Tool + " " + r.Version)},
		{"time", r.Time.UTC().Format(time.RFC3339)},
		{"device", known(m.Name)},
		{"its architecture", known(m.Architecture)},
		{"its driver", known(m.Driver)},
		{"its memory", knownCount(m.MemoryBytes, " bytes")},
		{"its workers", knownCount(int64(m.Workers), "")},
		{"host", known(h.CPU)},
		{"its system", code(h.OS + "/" + h.Arch)},
		{"its cores", knownCount(int64(h.Cores), "")},
		{"its memory", knownCount(h.MemoryBytes, " bytes")},
		{"SHA-256, program", known(h.ProgramSHA256)},
		{"kernel time", kernel},
		{"time in all", seconds(r.Seconds)},
	})
}

// Markdown returns the index as Markdown.
func (x *Index) Markdown() string {
	var p page
	p.line("# Evidence")
	p.line("")
	p.line("%s: %s.", count(int64(x.Totals.Reports), "report"), x.Counts)
	p.line("%s, %s compared, %s.", count(int64(x.Totals.Cases), "case"), count(x.Totals.Elements, "output"), count(x.Totals.Mismatches, "mismatch"))
	p.line("")
	var rows [][]string
	for _, e := range x.Reports {
		rows = append(rows, []string{
			fmt.Sprintf("[%s](%s)", escape(e.Lowering), e.Markdown), escape(e.DType), escape(e.Device), string(e.Contract),
			Integer(int64(e.Cases)), Integer(e.Elements), Integer(e.Mismatches), e.Verdict.Word(), escape(e.Reason),
		})
	}
	p.table([]string{"lowering", "dtype", "device", "contract", "cases:", "outputs:", "mismatches:", "verdict", "reason"}, rows)
	p.line("\nThe same for machines, with the SHA-256 of every report: %s. Signatures: none.", link("index.json"))
	p.heading("Where and when")
	p.table([]string{"", ""}, [][]string{
		{"tool", escape(x.Tool + " " + x.Version)},
		{"time", x.Time.UTC().Format(time.RFC3339)},
		{"host", known(x.Host.CPU)},
		{"its system", code(x.Host.OS + "/" + x.Host.Arch)},
		{"time in all", seconds(x.Totals.Seconds)},
	})
	return p.String()
}

var escaper = strings.NewReplacer(
	"\\", "\\\\", "|", "\\|", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "<", "\\<", ">", "\\>", "#", "\\#",
	"\r\n", " ", "\n", " ", "\r", " ")

// joined returns words with commas between them.
func joined[S ~string](words []S) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

// escape returns a text that Markdown shows literally, in one line.
func escape(text string) string { return escaper.Replace(text) }

// code returns a text as Markdown code, for use in a table too, where even code needs \|
// for a bar.
func code(text string) string {
	text = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "|", "\\|").Replace(text)
	if text == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		return fence + " " + text + " " + fence
	}
	return fence + text + fence
}

func codes(texts []string) string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = code(text)
	}
	return strings.Join(out, ", ")
}

func link(file string) string { return fmt.Sprintf("[%s](%s)", escape(file), file) }

func known(text string) string { return cmp.Or(code(text), "not known") }

// figure formats a measured number: integers in full, others with four digits.
func figure[T int64 | float64](x *T) string {
	if x == nil {
		return "not measured"
	}
	f := float64(*x)
	if f < 1e15 && f == float64(int64(f)) {
		return Integer(int64(f))
	}
	return strconv.FormatFloat(f, 'g', 4, 64)
}

// Integer formats n with its digits in groups of three.
func Integer(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// count formats a number of things: "1 case", "2 mismatches".
func count(n int64, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "ch"):
		return Integer(n) + " " + thing + "es"
	}
	return Integer(n) + " " + thing + "s"
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'g', 4, 64) + " s" }

func knownCount(n int64, unit string) string {
	if n == 0 {
		return "not known"
	}
	return Integer(n) + unit
}
