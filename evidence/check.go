package evidence

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	hashForm     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	digestForm   = regexp.MustCompile(fmt.Sprintf(`^([0-9a-f]{%d}){1,2}$`, caseDigits))
	opForm       = regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)*$`)
	loweringForm = regexp.MustCompile(`^[^/\s]+/[^/\s]+$`)
	paramForm    = regexp.MustCompile(`^[A-Za-z0-9_.]+=[^\s]+$`)
	deviceForm   = regexp.MustCompile(`^[a-z]+(:[a-z0-9]+)?$`)
)

// Check returns an error that lists the rules of the package that the report breaks. A
// report without an error is consistent. Whether it is true, only a replay can show.
func (r *Report) Check() error {
	var faults faults
	faults.values("", reflect.ValueOf(r).Elem())
	faults.identity(r)
	faults.cases(r)
	faults.algorithms(r)
	faults.figures(r)
	faults.tiers(r)
	faults.verdict(r)
	faults.failure(r)
	faults.worst(r)
	faults.candidates(r)
	faults.texts(r)
	faults.terms(r)
	faults.unchecked(r)
	faults.pictures(r)
	faults.properties(r)
	faults.speed(r.Speed)
	if len(faults) == 0 {
		return nil
	}
	const most = 80 // listed
	if n := len(faults); n > most {
		faults = append(faults[:most], fmt.Sprintf("and %d more", n-most))
	}
	return fmt.Errorf("evidence: report of %s, %s, contradicts itself: %s", Printable(r.Lowering), Printable(r.DType), Printable(strings.Join(faults, "; ")))
}

// faults are the rules that a report breaks.
type faults []string

// unless adds a fault if a rule does not hold.
func (f *faults) unless(holds bool, format string, args ...any) {
	if !holds {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}

func oneOf[S ~string](f *faults, field string, got S, allowed []S) {
	f.unless(slices.Contains(allowed, got), "%s is %q, want one of %s", field, got, joined(allowed))
}

func (f *faults) form(field, got string, want *regexp.Regexp) {
	f.unless(want.MatchString(got), "%s is %q, want the form %s", field, got, want)
}

// values checks that JSON can represent every number and text, at any depth.
func (f *faults) values(field string, v reflect.Value) {
	if v.Type() == timeType {
		return
	}
	switch v.Kind() {
	case reflect.String:
		f.unless(utf8.ValidString(v.String()), "%s is not UTF-8: %q", field, v.String())
	case reflect.Int, reflect.Int64:
		f.unless(v.Int() >= 0, "%s is %d, want at least 0", field, v.Int())
	case reflect.Float64:
		f.unless(v.Float() >= 0 && !math.IsInf(v.Float(), 0), "%s is %v, want a finite number of at least 0", field, v.Float())
	case reflect.Pointer:
		if !v.IsNil() {
			f.values(field, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			f.values(fmt.Sprintf("%s[%d]", field, i), v.Index(i))
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			f.values(fmt.Sprintf("%s[%q]", field, key), value)
		}
	case reflect.Struct:
		for t, value := range v.Fields() {
			f.values(strings.TrimPrefix(field+"."+jsonName(t), "."), value)
		}
	}
}

// identity checks what was verified, and the tool.
func (f *faults) identity(r *Report) {
	f.unless(r.Schema == SchemaID, "schema is %q, want %q", r.Schema, SchemaID)
	f.unless(r.Tool != "" && r.Version != "", "tool is %q of version %q, want both", r.Tool, r.Version)
	f.unless(!r.Time.IsZero(), "time is not set")
	f.form("op", r.Op, opForm)
	for i, text := range r.Params {
		f.form(fmt.Sprintf("params[%d]", i), text, paramForm)
	}
	f.form("lowering", r.Lowering, loweringForm)
	f.form("device", r.Device, deviceForm)
	oneOf(f, "dtype", r.DType, DTypes)
	oneOf(f, "level", r.Level, Levels)
	oneOf(f, "contract", r.Contract, Contracts)
	f.unless(r.Model != "", "model is empty")
	if r.Host.ProgramSHA256 != "" {
		f.form("host.program_sha256", r.Host.ProgramSHA256, hashForm)
	}

	d := r.Definition
	f.form("definition.name", d.Name, opForm)
	f.unless(strings.HasPrefix(r.Lowering, d.Name+"/"), "lowering is %q, want definition.name %q before the slash", r.Lowering, d.Name)
	want := FingerprintOf([]byte(d.Text))
	f.unless(d.SHA256 == want, "definition.sha256 is %q, want %s, that of definition.text", d.SHA256, want)

	for i, p := range r.Fingerprints {
		field := fmt.Sprintf("fingerprints[%d]", i)
		oneOf(f, field+".of", p.Of, fingerprintKinds)
		if p.SHA256 == "" {
			f.unless(p.Note != "", "%s of the %s has neither sha256 nor a note that says why", field, p.Of)
		} else {
			f.form(field+".sha256", p.SHA256, hashForm)
		}
		f.unless(p.Of != "definition" || p.SHA256 == d.SHA256, "%s.sha256 is %q, want definition.sha256 %s", field, p.SHA256, d.SHA256)
	}
	for _, kind := range fingerprintKinds {
		f.unless(slices.ContainsFunc(r.Fingerprints, func(p Fingerprint) bool { return p.Of == kind }), "fingerprints: none of the %s", kind)
	}
}

// cases checks the list of cases, the sums, the digest and the coverage.
func (f *faults) cases(r *Report) {
	var elements, mismatches int64
	names := map[string]bool{}
	for i, c := range r.CaseList {
		field := fmt.Sprintf("case_list[%d]", i)
		f.unless(c.Name != "" && !strings.ContainsFunc(c.Name, unicode.IsSpace), "%s.name is %q, want a name without white space", field, c.Name)
		f.unless(!names[c.Name], "%s.name is %q, the name of an earlier case", field, c.Name)
		names[c.Name] = true
		if f.unless((c.Digest != "") == r.IsCompact(), "%s has digest %q: all cases have one, or none", field, c.Digest); r.IsCompact() {
			f.form(field+".digest", c.Digest, digestForm)
		} else {
			f.unless(len(c.Shapes) > 0, "%s.shapes is empty", field)
			f.form(field+".inputs_sha256", c.InputsSHA256, hashForm)
			f.form(field+".outputs_sha256", c.OutputsSHA256, hashForm)
		}
		f.unless(c.Mismatches <= c.Elements, "%s: %d mismatches in %d elements", field, c.Mismatches, c.Elements)
		for _, name := range c.Tiers {
			f.unless(hasTier(r, name), "%s.tiers has %q, which is not in tiers", field, name)
		}
		elements += c.Elements
		mismatches += c.Mismatches
	}
	f.unless(r.Cases == len(r.CaseList), "cases is %d, want %d, the length of case_list", r.Cases, len(r.CaseList))
	f.unless(r.Elements == elements, "elements is %d, want %d, the sum over case_list", r.Elements, elements)
	f.unless(r.Mismatches == mismatches, "mismatches is %d, want %d, the sum over case_list", r.Mismatches, mismatches)
	if r.IsCompact() {
		f.form("digest_sha256", r.DigestSHA256, hashForm)
	} else {
		want := DigestOf(r.CaseList)
		f.unless(r.DigestSHA256 == want, "digest_sha256 is %q, want %s, that of case_list", r.DigestSHA256, want)
	}
	f.unless(r.Coverage.Judged <= r.Coverage.Produced, "coverage: %d judged of %d produced", r.Coverage.Judged, r.Coverage.Produced)
	f.unless(r.Coverage.Compiled+r.Coverage.Freivalds <= r.Coverage.Judged, "coverage: %d of %d judged by compiled answers, and %d by Freivalds' check", r.Coverage.Compiled, r.Coverage.Judged, r.Coverage.Freivalds)
}

// algorithms checks what a vendor's library chose.
func (f *faults) algorithms(r *Report) {
	f.unless(len(r.Algorithms) == 0 || r.Contract == ContractBounded, "algorithms: contract is %s, want %s", r.Contract, ContractBounded)
	type key struct {
		name, model string
		parts       int
	}
	seen := map[key]bool{}
	cases := 0
	for i, a := range r.Algorithms {
		field := fmt.Sprintf("algorithms[%d]", i)
		k := key{a.Name, a.Model, a.Parts}
		f.unless(a.Name != "" && a.Model != "" && !seen[k], "%s is %q with %d parts beside model %q, want a name and a model that no other has", field, a.Name, a.Parts, a.Model)
		seen[k] = true
		f.unless(a.Parts >= 1 && a.Cases >= 1, "%s has %d parts and %d cases, want at least 1 of each", field, a.Parts, a.Cases)
		f.unless(a.SameCases <= a.Cases && a.SameBits <= a.Elements && (a.SameCases == a.Cases) == (a.SameBits == a.Elements) && (a.SameCases == a.Cases) == (len(a.Others) == 0),
			"%s: %d of %d cases and %d of %d elements have the model's bits, and %d cases with others are listed", field, a.SameCases, a.Cases, a.SameBits, a.Elements, len(a.Others))
		for _, name := range a.Others {
			f.unless(hasCase(r, name), "%s.others has %q, which is not in case_list", field, name)
		}
		cases += a.Cases
	}
	f.unless(cases <= r.Cases, "algorithms computed %d cases of %d", cases, r.Cases)
}

func hasTier(r *Report, name TierName) bool {
	return slices.ContainsFunc(r.Tiers, func(t Tier) bool { return t.Name == name })
}

// figures checks the measured figures; those not measured are null.
func (f *faults) figures(r *Report) {
	mean, median, worst, share := r.MeanAdmissible, r.MedianAdmissible, r.WorstAdmissible, r.ShareOverOne
	measured := mean != nil
	f.unless(measured == (median != nil) && measured == (worst != nil) && measured == (share != nil),
		"mean_admissible, median_admissible, worst_admissible and share_over_one are measured together, but some are null")
	f.unless(!measured || r.Elements > 0, "mean_admissible is %v without elements, want null", value(mean))
	f.unless((mean == nil || *mean >= 1) && (median == nil || *median >= 1) && (worst == nil || *worst >= 1),
		"mean_admissible is %v, median_admissible %v, worst_admissible %v, want at least 1: the right value is admissible", value(mean), value(median), value(worst))
	f.unless(share == nil || *share <= 1, "share_over_one is %v, want at most 1", value(share))
	if r.Contract == ContractBits && measured && median != nil && worst != nil && share != nil {
		f.unless(*mean == 1 && *median == 1 && *worst == 1 && *share == 0,
			"contract is bits, but mean_admissible %v, median_admissible %v, worst_admissible %v, share_over_one %v, want 1, 1, 1, 0", *mean, *median, *worst, *share)
	}

	f.unless(r.TruthElements <= r.Elements, "truth_elements is %d of %d elements", r.TruthElements, r.Elements)
	f.unless(r.Undecided <= r.TruthElements, "undecided is %d of %d truth_elements", r.Undecided, r.TruthElements)
	f.unless(r.ErrorUndefined <= r.TruthElements, "error_undefined is %d of %d truth_elements", r.ErrorUndefined, r.TruthElements)
	f.unless((r.Misrounded != nil) == (r.TruthElements > 0), "misrounded is %v with %d truth_elements: null if and only if there are none", value(r.Misrounded), r.TruthElements)
	f.unless(r.Misrounded == nil || *r.Misrounded <= 1, "misrounded is %v, want at most 1", value(r.Misrounded))
	f.unless((r.ErrorDType != "") == (r.WorstErrorULP != nil), "error_dtype is %q and worst_error_ulp %v: empty if and only if that is null", r.ErrorDType, value(r.WorstErrorULP))
	f.unless((r.WorstErrorULP != nil) == (r.TruthElements > r.ErrorUndefined), "worst_error_ulp is %v with %d truth_elements, of which %d have no error: null if and only if none has one",
		value(r.WorstErrorULP), r.TruthElements, r.ErrorUndefined)
	f.unless(r.WorstErrorShare == nil || r.WorstErrorULP != nil, "worst_error_share is %v, but worst_error_ulp is null", value(r.WorstErrorShare))
	isWaived := slices.ContainsFunc(r.Clauses, func(c Departure) bool { return c.IsWaived })
	f.unless(r.WorstErrorShare == nil || r.Verdict != Accepted || r.Contract != ContractBits || isWaived || *r.WorstErrorShare <= 1,
		"accepted under contract bits, but worst_error_share is %v, want at most 1", value(r.WorstErrorShare))
}

// value returns a figure for printing.
func value[T any](figure *T) any {
	if figure == nil {
		return "null"
	}
	return *figure
}

func (f *faults) tiers(r *Report) {
	for i, t := range r.Tiers {
		field := fmt.Sprintf("tiers[%d]", i)
		oneOf(f, field+".name", t.Name, TierNames)
		f.unless(!slices.ContainsFunc(r.Tiers[:i], func(o Tier) bool { return o.Name == t.Name }), "%s.name is %q, the name of an earlier tier", field, t.Name)
		f.unless(t.Failed <= t.Checks, "%s: %d failed of %d checks", field, t.Failed, t.Checks)
	}
}

func failed(t Tier) bool { return t.Failed > 0 }

func (f *faults) verdict(r *Report) {
	f.unless(slices.Contains(Verdicts, r.Verdict), "verdict is %q, want one of %q", r.Verdict, Verdicts)
	anyFailed := slices.ContainsFunc(r.Tiers, failed)
	f.unless(r.Mismatches == 0 || anyFailed, "mismatches is %d, but no tier failed", r.Mismatches)
	f.unless((r.Verdict == Rejected) == anyFailed, "verdict is %s and tiers failed: %v; rejected if and only if one did", r.Verdict, anyFailed)
	f.unless((r.Verdict == Accepted) == (r.Reason == ""), "verdict is %s and reason %q: empty if and only if accepted", r.Verdict, r.Reason)
	switch r.Verdict {
	case Accepted:
		f.unless(r.Elements > 0, "accepted, but no output was compared")
		f.unless((r.Coverage.Produced > 0 || r.Scope == ScopeInvariance) && r.Coverage.Judged == r.Coverage.Produced, "accepted, but %d judged of %d produced", r.Coverage.Judged, r.Coverage.Produced)
		f.unless(16*(r.Coverage.Judged-r.Coverage.Freivalds-r.Coverage.Compiled) >= r.Coverage.Judged-r.Coverage.Freivalds, "accepted, but %d of %d judged by compiled answers alone, want at most 15 in 16", r.Coverage.Compiled, r.Coverage.Judged)
		f.unless(len(r.Evidence) > 0, "accepted, but evidence is empty")
	case Skipped:
		f.unless(r.Cases == 0, "skipped, but there are %d cases", r.Cases)
	}
}

func (f *faults) failure(r *Report) {
	f.unless((r.Failure != nil) == (r.Verdict == Rejected), "verdict is %s and there is a failure: %v; rejected if and only if there is one", r.Verdict, r.Failure != nil)
	if r.Failure == nil {
		return
	}
	fail := r.Failure
	f.unless(slices.ContainsFunc(r.Tiers, func(t Tier) bool { return t.Name == fail.Tier && failed(t) }), "failure.tier is %q, which did not fail", fail.Tier)
	f.unless(fail.OriginalCase == "" || hasCase(r, fail.OriginalCase), "failure.original_case is %q, which is not in case_list", fail.OriginalCase)
	for _, text := range []struct{ field, got string }{
		{"case", fail.Case}, {"place", fail.Place}, {"message", fail.Message},
	} {
		f.unless(text.got != "", "failure.%s is empty", text.field)
		f.unless(isOneLine(text.got), "failure.%s has more than one line: %q", text.field, text.got)
	}
	for _, text := range []struct{ field, got string }{{"replay", fail.Replay}, {"when", fail.When}, {"where", fail.Where}} {
		f.unless(isOneLine(text.got), "failure.%s has more than one line: %q", text.field, text.got)
	}
}

// isOneLine reports whether a text has no line feed.
func isOneLine(text string) bool { return !strings.Contains(text, "\n") }

func hasCase(r *Report, name string) bool {
	return slices.ContainsFunc(r.CaseList, func(c Case) bool { return c.Name == name })
}

// worst compares the figures with the cases in which they were worst.
func (f *faults) worst(r *Report) {
	largest, names := map[string]float64{}, map[string]bool{}
	if len(r.WorstCases) > 0 {
		for _, c := range r.CaseList {
			names[c.Name] = true
		}
	}
	for i, w := range r.WorstCases {
		field := fmt.Sprintf("worst_cases[%d]", i)
		oneOf(f, field+".figure", w.Figure, []string{FigureErrorULP, FigureErrorShare, FigureAdmissible})
		f.unless(names[w.Case], "%s.case is %q, which is not in case_list", field, w.Case)
		f.unless(w.Place != "", "%s.place is empty", field)
		largest[w.Figure] = max(largest[w.Figure], w.Value)
	}
	if got, ok := largest[FigureErrorULP]; ok {
		f.unless(r.WorstErrorULP != nil && *r.WorstErrorULP == got, "worst_error_ulp is %v, want %v, the largest in worst_cases", value(r.WorstErrorULP), got)
	}
	if got, ok := largest[FigureErrorShare]; ok {
		f.unless(r.WorstErrorShare != nil && *r.WorstErrorShare == got, "worst_error_share is %v, want %v, the largest in worst_cases", value(r.WorstErrorShare), got)
	}
	if got, ok := largest[FigureAdmissible]; ok {
		f.unless(r.WorstAdmissible != nil && float64(*r.WorstAdmissible) == got, "worst_admissible is %v, want %v, the largest in worst_cases", value(r.WorstAdmissible), got)
	}
}

// candidates compares the counts of the model with those of the report.
func (f *faults) candidates(r *Report) {
	isListed := len(r.Candidates) == 0
	for i, c := range r.Candidates {
		field := fmt.Sprintf("candidates[%d]", i)
		f.unless(c.Model != "", "%s.model is empty", field)
		f.unless(!slices.ContainsFunc(r.Candidates[:i], func(o Candidate) bool { return o.Model == c.Model }), "%s.model is %q, that of an earlier candidate", field, c.Model)
		f.unless(c.Mismatches <= c.Elements, "%s: %d mismatches in %d elements", field, c.Mismatches, c.Elements)
		if c.Model == r.Model {
			isListed = true
			f.unless(c.Elements == r.Elements && c.Mismatches == r.Mismatches, "%s: %d mismatches in %d elements, want those of the report: %d in %d", field, c.Mismatches, c.Elements, r.Mismatches, r.Elements)
		}
	}
	f.unless(isListed, "model is %q, which is none of the candidates", r.Model)
}

// IsAbsent reports whether a report does not have an optional field, by its JSON name.
func (r *Report) IsAbsent(field string) bool { return isAbsent(reflect.ValueOf(r).Elem(), field) }

func isAbsent(v reflect.Value, field string) bool {
	for t, value := range v.Fields() {
		switch {
		case t.Anonymous && isAbsent(value, field):
			return true
		case jsonName(t) == field:
			return strings.HasSuffix(t.Tag.Get("json"), ",omitempty") && value.IsZero()
		}
	}
	return false
}

// texts checks what is claimed, what is not, and how each field was obtained.
func (f *faults) texts(r *Report) {
	f.unless(len(r.NonClaims) > 0, "non_claims is empty")
	for _, list := range []struct {
		field string
		texts []string
	}{{"evidence", r.Evidence}, {"non_claims", r.NonClaims}, {"formats", r.Formats}} {
		f.unless(!slices.Contains(list.texts, ""), "%s has an empty entry", list.field)
	}
	f.unless(len(r.Signatures) == 0, "signatures has %d entries, want none: they belong to an envelope", len(r.Signatures))

	fields := Fields()
	for _, name := range fields {
		f.unless(r.Obtained[name] != "" || r.IsAbsent(name), "obtained does not say how %s was obtained", name)
	}
	for name := range r.Obtained {
		f.unless(slices.Contains(fields, name), "obtained names %q, which is not a field", name)
	}
}
