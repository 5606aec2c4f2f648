package verify

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/promise"
	"tokitai/trial"
	"tokitai/truth"
	"tokitai/verify/cases"
	"tokitai/verify/claimed"
	"tokitai/verify/origin"
)

// report returns the report of a verification.
func (s *verification) report(ctx context.Context) *evidence.Report {
	t := s.t
	r := newReport(t, s.o)
	r.Level = s.o.Level.String()
	if s.o.Case != "" {
		r.Level = "case"
	}
	r.Generator = evidence.Generator{Name: "tokitai/internal/gen, SplitMix64 per element", Seed: new(s.o.Seed)}
	if s.machine != nil {
		r.Machine = origin.Machine(*s.machine)
		if s.glued != nil {
			s.glued.setOrigin(r, s.artifacts)
		} else if s.t.Lowering.OpenLibrary != nil {
			origin.SetLibrary(r, s.t.Lowering)
		} else {
			origin.SetCompiler(r, s.device, s.artifacts)
		}
	}
	r.Fingerprints[1] = s.source()
	s.setOrigin(r)

	total := &judgement{}
	kernel, worstCase, worstShareCase := 0.0, "", ""
	for _, c := range s.done {
		kernel += c.Kernel
		if !c.HasOutputs {
			continue // it ended in an error, so there is nothing to list
		}
		listed, produced := s.listed(c)
		r.CaseList = append(r.CaseList, listed)
		before, beforeShare := total.Accuracy.WorstError, total.Accuracy.WorstShare
		total.add(&c.Found)
		if total.Accuracy.WorstError != before {
			worstCase = c.Name
		}
		if total.Accuracy.WorstShare != beforeShare {
			worstShareCase = c.Name
		}
		if !s.o.OnlyInvariance {
			r.Coverage.Produced += produced
		}
		r.Coverage.Judged += c.Found.Elements
		r.Coverage.Compiled += c.Found.Compiled
		r.Coverage.Freivalds += c.Found.Freivalds
		addAlgorithm(r, &c)
	}
	r.Coverage.Tiles = total.Tiles
	r.Cases = len(r.CaseList)
	for _, c := range r.CaseList {
		r.Elements += c.Elements
		r.Mismatches += c.Mismatches
	}
	r.DigestSHA256 = evidence.DigestOf(r.CaseList)
	if len(s.done) > 0 {
		r.KernelSeconds = &kernel
	}
	s.setFigures(r, total)
	s.setTerms(r, total)
	setHistogram(r, total)
	for _, w := range []struct {
		figure, name string
		at           worst
	}{{evidence.FigureErrorULP, worstCase, total.Accuracy.WorstError}, {evidence.FigureErrorShare, worstShareCase, total.Accuracy.WorstShare}} {
		if w.at.IsSeen {
			c, _ := t.Cases().Parse(w.name)
			r.WorstCases = append(r.WorstCases, t.load(c, s.o.Seed).worstCase(w.figure, w.at, w.name))
		}
	}
	s.listTiers(r)
	r.Unchecked, r.LeftOut = s.unchecked(), s.leftOut()
	s.setProperties(r)
	s.decide(ctx, r)
	r.Seconds = time.Since(s.began).Seconds()
	origin.Finish(r)
	return r
}

// addAlgorithm adds a case to the algorithm that a library chose for it.
func addAlgorithm(r *evidence.Report, c *caseResult) {
	const most = 8 // cases with other bits that are listed
	if c.Choice == nil {
		return
	}
	i := slices.IndexFunc(r.Algorithms, func(a evidence.Algorithm) bool {
		return a.Name == c.Choice.Algorithm && a.Parts == c.Choice.Parts && a.Model == c.Model
	})
	if i < 0 {
		i = len(r.Algorithms)
		r.Algorithms = append(r.Algorithms, evidence.Algorithm{Name: c.Choice.Algorithm, Parts: c.Choice.Parts, Model: c.Model, Others: []string{}})
	}
	a := &r.Algorithms[i]
	a.Cases++
	a.Elements += c.Found.Elements
	a.SameBits += c.Found.SameBits
	if c.Found.SameBits == c.Found.Elements {
		a.SameCases++
	} else if len(a.Others) < most {
		a.Others = append(a.Others, c.Name)
	}
}

// newReport returns a report with the fields that do not depend on the result.
func newReport(t *Target, o *Options) *evidence.Report {
	d := t.Definition
	r := &evidence.Report{
		Schema: evidence.SchemaID, Tool: o.Tool, Version: o.Version, Time: time.Now().UTC(), Host: origin.Host(o.Program),
		Summary: evidence.Summary{
			Op: d.Name, Lowering: t.ID(), DType: t.DType.String(), Device: o.device(),
			Contract: evidence.ContractBits, Model: t.models.names(t.Lowering), Params: t.fixed.Texts,
		},
		Toolchain: origin.Toolchain(),
		Fingerprints: []evidence.Fingerprint{
			{Of: "definition", SHA256: d.Hash(), Note: "definition.text"},
			{Of: "source", Note: "the kernel prints no program"},
			{Of: "compiler", Note: "the compiler of the program is not at hand when it runs; toolchain names it"},
			{Of: "artifact", Note: "the kernel is part of the program: host.program_sha256"},
		},
		Definition: evidence.Definition{Name: d.Name, SHA256: d.Hash(), Text: d.Text()},
	}
	if t.Operation != nil {
		r.Op = t.Operation.Name
	}
	if !t.Lowering.Promise.IsBits() {
		r.Contract = evidence.ContractBounded
		if steps := r.Model; steps == def.FMAChain.String() {
			r.Model = t.Lowering.Promise.Order.String()
		} else {
			r.Model = "any order of " + steps
		}
	}
	for _, f := range t.formats() {
		r.Formats = append(r.Formats, formatText(d, f))
	}
	return r
}

func formatText(d *def.Definition, f []num.DType) string {
	var parts []string
	for i := range d.Operands {
		parts = append(parts, d.Operands[i].Name+" "+f[i].String())
	}
	return strings.Join(parts, ", ")
}

// source returns the fingerprint of the programs that ran.
func (s *verification) source() evidence.Fingerprint {
	f := evidence.Fingerprint{Of: "source", Note: "the kernel prints no program"}
	slices.Sort(s.listings)
	if len(s.listings) > 0 {
		f.SHA256 = evidence.FingerprintOf([]byte(strings.Join(s.listings, "\n")))
		f.Note = fmt.Sprintf("the listings of %d compiled programs, sorted, a newline between them; tokitai explain --emit prints one", len(s.listings))
	}
	return f
}

// listed returns a case as the report lists it, and the number of outputs of one run.
func (s *verification) listed(c caseResult) (listed evidence.Case, produced int64) {
	listed = evidence.Case{
		Name: c.Name, Elements: c.Found.Elements + c.Extra, Mismatches: c.Found.Mismatches,
		InputsSHA256: c.Inputs, OutputsSHA256: c.Outputs,
	}
	parsed, err := s.t.Cases().Parse(c.Name)
	if err != nil {
		panic("verify: a case has a name that means nothing: " + err.Error())
	}
	for i := range s.t.Definition.Operands {
		o := &s.t.Definition.Operands[i]
		rows, cols := o.Matrix(parsed.Lengths())
		listed.Shapes = append(listed.Shapes, fmt.Sprintf("%s %s[%d,%d]", o.Name, parsed.Formats[i], rows, cols))
	}
	listed.Params = paramTexts(s.t.Definition, s.t.Cases().Params(parsed))
	for _, name := range evidence.TierNames {
		if t, ok := c.Tiers[name]; ok {
			listed.Tiers = append(listed.Tiers, name)
			if (name == evidence.Relations || name == evidence.Invariance) && t.Failed > 0 {
				listed.Mismatches += t.Failed
			}
		}
	}
	return listed, s.t.outputsOf(parsed)
}

// paramTexts returns parameters as text, such as eps=1e-05.
func paramTexts(d *def.Definition, params []float64) []string {
	texts := []string{}
	for i, p := range d.Params {
		texts = append(texts, p.Name+"="+strconv.FormatFloat(params[i], 'g', -1, 64))
	}
	return texts
}

// setFigures sets how tight the check was and how accurate the answer is.
func (s *verification) setFigures(r *evidence.Report, total *judgement) {
	if r.Elements > 0 && s.t.Lowering.Promise.IsBits() && !s.o.OnlyInvariance {
		r.MeanAdmissible, r.MedianAdmissible, r.WorstAdmissible, r.ShareOverOne = new(1.0), new(1.0), new(int64(1)), new(0.0)
	}
	if a := &total.Admissible; a.N > 0 {
		r.MeanAdmissible, r.MedianAdmissible, r.WorstAdmissible, r.ShareOverOne = new(a.Sum/float64(a.N)), new(a.median()), new(a.Worst), new(float64(a.Over)/float64(a.N))
	}
	a := &total.Accuracy
	r.TruthElements, r.Undecided, r.ErrorUndefined = a.Elements, a.Undecided, a.Undefined
	if a.Elements > 0 {
		r.Misrounded = new(float64(a.Misrounded) / float64(a.Elements))
	}
	if w := a.WorstError; w.IsSeen {
		r.WorstErrorULP, r.ErrorDType = new(w.Value), w.DType.String()
	}
	if w := a.WorstShare; w.IsSeen {
		r.WorstErrorShare = new(w.Value)
	}
}

// worstCase describes the place where a figure was largest.
func (l *loaded) worstCase(figure string, w worst, name string) evidence.WorstCase {
	return evidence.WorstCase{
		Figure: figure, Value: w.Value, Case: name,
		Place: place(&l.target.Definition.Operands[w.Operand], l.array(w.Operand), w.Row, w.Col), Got: trial.PatternWithValue(l.c.Formats[w.Operand], w.Got), Truth: w.Truth,
		Inputs: l.inputsAt(w.Operand, w.Row, w.Col),
	}
}

// listTiers lists every tier, with the reason for those that did not apply.
func (s *verification) listTiers(r *evidence.Report) {
	bounded := !s.t.Lowering.Promise.IsBits()
	notes := map[evidence.TierName]string{}
	if s.o.OnlyInvariance {
		r.Scope = evidence.ScopeInvariance
	}
	if bounded {
		notes[evidence.Bits] = "does not apply: the lowering promises no bits"
	} else {
		notes[evidence.Set] = "does not apply: the lowering promises bits, and one value is admissible"
		notes[evidence.Statistics] = "does not apply: the lowering promises bits"
	}
	for _, name := range evidence.TierNames {
		tier := evidence.Tier{Name: name, Note: notes[name]}
		if got := s.tiers[name]; got != nil {
			tier = *got
			tier.Name = name
		} else if tier.Note == "" {
			tier.Note = "nothing of this kind was run"
			if name == evidence.Grid && !slices.ContainsFunc(s.t.Cases().Patterns(), func(p *cases.Pattern) bool { return p.IsGrid }) {
				tier.Note = "does not apply: no inputs are known for which every order of this operation's sums gives one answer"
			}
		}
		r.Tiers = append(r.Tiers, tier)
	}
}

// decide sets the verdict.
func (s *verification) decide(ctx context.Context, r *evidence.Report) {
	switch {
	case slices.ContainsFunc(r.Tiers, func(t evidence.Tier) bool { return t.Failed > 0 }):
		r.Verdict = evidence.Rejected
		if r.Failure = s.glued.shrunk(); r.Failure == nil {
			r.Failure = s.failure(r)
		}
		r.Reason = r.Failure.Message
	case s.openErr != nil:
		r.Verdict, r.Reason = evidence.Inadmissible, origin.FirstLine(s.openErr.Error())
	case s.causes > 0:
		r.Verdict = evidence.Inadmissible
		r.Reason = fmt.Sprintf("%s (%d of %d cases ended so)", s.firstErr, s.causes, s.total)
		if replay := s.replay(s.first.c); replay != "" {
			r.Reason = fmt.Sprintf("%s (%d of %d cases ended so; replay: %s)", s.firstErr, s.causes, s.total, replay)
		}
	case ctx.Err() != nil:
		r.Verdict, r.Reason = evidence.Interrupted, fmt.Sprintf("interrupted: %d of %d cases are done, and none of them failed", len(s.done), s.total)
		if len(s.done) == 0 {
			r.Reason = "interrupted: no case is done"
		}
	case s.unsuited > 0 && len(s.done) == 0:
		r.Verdict, r.Reason = evidence.Skipped, s.whyUnsuited.Error()
	case s.overBudget(r) != "":
		r.Verdict, r.Reason = evidence.Unfinished, s.overBudget(r)
	case r.Elements == 0:
		r.Verdict, r.Reason = evidence.Inadmissible, "nothing was compared"
	case s.refused.reason(s) != "":
		r.Verdict, r.Reason = evidence.Inadmissible, s.refused.reason(s)
	case claimed.Broken(s.t.Definition) != "":
		r.Verdict, r.Reason = evidence.Inadmissible, claimed.Broken(s.t.Definition)
	case tooFew(r) != "":
		r.Verdict, r.Reason = evidence.Undecided, tooFew(r)
	default:
		r.Verdict = evidence.Accepted
	}
	r.Honest = r.HonestAnswer()
	r.Evidence, r.NonClaims = s.claims(r)
}

// failure describes the first rejection in its smallest form.
func (s *verification) failure(r *evidence.Report) *evidence.Failure {
	small := s.shrunk
	if small == nil {
		small = &shrunk{c: s.first.c, original: s.first.c, found: s.first.found, isAlone: true}
	}
	if small.found.IsCause { // alone it ends in an error, which says less
		small = &shrunk{c: s.first.c, original: s.first.c, found: s.first.found, isAlone: true}
	}
	l := s.t.load(small.c, s.o.Seed)
	fail := l.failureOf(small.found)
	fail.Case, fail.OriginalCase, fail.Seed = small.c.Name(s.t.Cases()), small.original.Name(s.t.Cases()), s.o.Seed
	fail.Replay = s.replay(small.c)
	fail.When = cmp.Or(small.found.When, s.whenFails)
	fail.Maps = s.maps(small)
	if small == s.shrunk {
		fail.Terms = small.culprit.texts
		if small.culprit.terms != nil {
			fail.Inputs = l.inputsOf(small.found, small.culprit.terms)
		}
		if fail.Where = small.where; fail.Where != "" && fail.Case != fail.OriginalCase {
			fail.Where = fmt.Sprintf("in %s: %s", fail.OriginalCase, fail.Where)
		}
	}
	fail.Kinds = s.kinds()
	fail.Note = cmp.Or(small.state, s.profiles, s.waivable(), noteOn(small))
	if !small.isAlone {
		fail.Replay = s.replay(nil)
		fail.Note = cmp.Or(small.state, "the case passes alone, on a kernel compiled afresh: the result depends on what ran before it, or on timing; no single case shows it, so the replay runs all of them")
	}
	return fail
}

// kinds lists the tiers that failed, with counts, if there are several: the first failure is described
// in detail, and may not be the one that says most.
func (s *verification) kinds() (list []string) {
	for _, name := range evidence.TierNames {
		tier := s.tiers[name]
		if tier == nil || tier.Failed == 0 {
			continue
		}
		cases, text := 0, ""
		for i := range s.done {
			c := &s.done[i]
			if c.Tiers[name].Failed == 0 {
				continue
			}
			if cases++; text == "" {
				text = ", first in " + c.Name
				for _, f := range []*finding{c.First, c.Check} {
					if f != nil && f.Tier == name && f.Message != "" {
						text += ": " + origin.FirstLine(f.Message)
						break
					}
				}
			}
		}
		list = append(list, fmt.Sprintf("%s: %d of %d failed, in %d of %d cases%s", name, tier.Failed, tier.Checks, cases, len(s.done), text))
	}
	if len(list) < 2 {
		return nil
	}
	return list
}

// noteOn says what got and want are where two runs of the kernel were compared.
func noteOn(f *shrunk) string {
	if f.found.Tier != evidence.Relations && f.found.Tier != evidence.Invariance || f.found.IsJudged {
		return ""
	}
	return fmt.Sprintf("got and want are both results of the kernel: check %s runs it again, and docs/verification.md, relations and invariance, says why they must agree", f.c.Check)
}

// failureOf describes a finding.
func (l *loaded) failureOf(f *finding) *evidence.Failure {
	t := l.target
	fail := &evidence.Failure{Tier: f.Tier, Inputs: []string{}, Row: []string{}}
	operand := f.Operand
	if operand < 0 {
		operand = outputOf(t.Definition)
	}
	o := &t.Definition.Operands[operand]
	fail.Place = o.Name
	if f.Operand < 0 || f.Row < 0 { // it is not about one element
		fail.Message = fmt.Sprintf("%s: %s", t.ID(), f.Message)
		return fail
	}
	call := l.callOf(f)
	if call == nil { // of which the finding alone is left
		fail.Place, fail.Truth, fail.Row = place(o, l.array(operand), f.Row, f.Col), f.Truth, append(fail.Row, f.Near...)
	} else {
		fail.Place = place(o, call.array(operand), f.Row, f.Col)
		fail.Inputs = call.inputsAt(operand, f.Row, f.Col)
		fail.Row, fail.Where = call.rowsNear(f), call.where(f)
		fail.Truth = call.truthAt(operand, f.Row, f.Col)
	}
	if f.Tier == evidence.Structure {
		fail.Message = fmt.Sprintf("%s: %s: %s", t.ID(), fail.Place, f.Message)
		return fail
	}
	dtype := l.c.Formats[operand]
	fail.Got, fail.Want = trial.PatternWithValue(dtype, f.Got), trial.PatternWithValue(dtype, f.Want)
	switch {
	case len(f.Ints) > 0:
		fail.Want = intsText(f.Ints)
	case f.Want != f.WantTo:
		fail.Want += " to " + trial.PatternWithValue(dtype, f.WantTo)
	}
	fail.Clause = f.Clause
	fail.Message = strings.TrimSpace(fmt.Sprintf("%s: %s differs %s", t.ID(), fail.Place, f.Message))
	return fail
}

// replay returns the command that runs a case, or the whole verification, again. It returns "" if
// the program does not have the target, because its lowering or definition is the caller's.
func (s *verification) replay(c *cases.Case) string {
	t, o := s.t, s.o
	b := o.Command
	switch {
	case b != "":
	case o.IsNamed || t.isShipped():
		b = s.verifyCommand()
	default:
		return ""
	}
	b += fmt.Sprintf(" --dtype %s --seed %d", t.DType, o.Seed)
	b += s.flags()
	for _, text := range t.fixed.Texts {
		b += " --param " + text
	}
	if c == nil {
		for _, shape := range o.Shapes {
			b += " --shape " + shape.String()
		}
		return b + " --level " + o.Level.String() + budgetText(o.Budget)
	}
	if c.Check != "" && o.Level != Quick { // which says how often a check repeats a call
		b += " --level " + o.Level.String()
	}
	return b + " --case '" + c.Name(t.Cases()) + "'"
}

// verifyCommand returns the beginning of a command that verifies the target.
func (s *verification) verifyCommand() string {
	t := s.t
	op, lowering := t.Definition.Name, t.Lowering.Name
	switch {
	case t.Operation != nil && t.Operation.File != "":
		op = t.Operation.File
		if path, err := filepath.Abs(op); err == nil {
			op = path // for any folder
		}
		if strings.ContainsAny(op, " \t\n'\"`\\$&;|<>()[]{}*?!#~") {
			op = "'" + strings.ReplaceAll(op, "'", `'\''`) + "'"
		}
	case t.Operation != nil:
		op = t.Operation.Name
	}
	if t.Operation != nil && len(t.Operation.Definitions) > 1 {
		lowering = t.ID()
	}
	return fmt.Sprintf("tokitai verify %s --device %s --lowering %s", op, s.o.device(), lowering)
}

// isShipped reports whether the command line can name the target.
func (t *Target) isShipped() bool {
	b := t.Backend
	if b == nil {
		b = cpu.Backend
	}
	return t.Operation != nil && (!t.Operation.IsOwn || t.Operation.File != "") && slices.Contains(t.Operation.Definitions, t.Definition) &&
		slices.Contains(engine.Lowerings(b, t.Definition), t.Lowering)
}

// claims returns what the report shows, and what it does not show.
func (s *verification) claims(r *evidence.Report) (claims, nonClaims []string) {
	if r.Verdict == evidence.Accepted {
		how := "has the reference's bits under model " + r.Model
		if !s.t.Lowering.Promise.IsBits() {
			how = fmt.Sprintf("is one of the values that binary32 arithmetic gives when it adds up in %s", r.Model)
			if s.t.Promised() == promise.Stable {
				how = "is as close to the real-number result as promise stable says, with sums in " + r.Model
			}
			if steps, ok := strings.CutPrefix(r.Model, "any order of "); ok {
				how = fmt.Sprintf("is one of the values that steps of %s and binary32 additions give in any order", steps)
			}
		}
		if !s.o.OnlyInvariance {
			claims = append(claims, fmt.Sprintf("every one of the %d outputs that %d cases first gave %s", r.Coverage.Judged, r.Cases, how))
		}
		claims = append(claims,
			"every output element was written, nothing beside the outputs was, and no input changed, in every case")
		if n := s.refusedCalls(); n > 0 {
			claims = append(claims, fmt.Sprintf("calls with an index outside of its table are refused, as the definition says (%d calls): their cases ran again with other indices", n))
		}
		claims = append(claims,
			"the cases of case_list, which its digest fixes, can be run again one by one by their names and the seed")
		for _, t := range r.Tiers {
			switch {
			case t.Checks == 0:
			case t.Name == evidence.Relations:
				claims = append(claims, fmt.Sprintf("results of related inputs are related bit for bit as the mathematics is (%d outputs)", t.Checks))
			case t.Name == evidence.Invariance:
				claims = append(claims, fmt.Sprintf("results do not depend on repetition, layout, number of workers or concurrent launches (%d outputs)", t.Checks))
				for _, p := range r.Properties {
					if p.Cases > 0 {
						claims = append(claims, fmt.Sprintf("%s (%d outputs in %d runs)", p.Text, p.Checks, p.Runs))
					}
				}
			case t.Name == evidence.Statistics:
				claims = append(claims, fmt.Sprintf("the errors pass %d tests with thresholds that were fixed before", t.Checks))
			}
		}
		for _, a := range r.Algorithms {
			if a.SameCases == a.Cases {
				claims = append(claims, fmt.Sprintf("%s has the bits of model %s in all %d cases that it computed", a.Name, a.Model, a.Cases))
			}
		}
		if r.WorstErrorULP != nil {
			claims = append(claims, fmt.Sprintf("against the real-number result, enclosed by proven bounds, the worst of %d outputs is %.4g ulp off", r.TruthElements, *r.WorstErrorULP))
		}
	}
	if s.glued != nil {
		claims = append(claims, fmt.Sprintf("the cases ran in %d shards, each case in one of them, and the shards have all cases; the list of their files, as sha256sum prints it, has SHA-256 %s", s.glued.shards, s.glued.digest))
	}
	if n := r.Coverage.Compiled; n > 0 {
		nonClaims = append(nonClaims, fmt.Sprintf("the answers to %d outputs come from compiled code for the CPU, which was verified in the same run: they were not interpreted", n))
	}
	if n := r.Coverage.Freivalds; n > 0 {
		nonClaims = append(nonClaims, byFreivalds(n))
	}
	for _, f := range s.faults {
		nonClaims = append(nonClaims, "compiled code for the CPU was found wrong, and no answer comes from it: "+f)
	}
	if s.o.OnlyInvariance {
		nonClaims = append(nonClaims, "no output was compared with an answer: the kernel may compute anything, as long as it always computes the same")
	}
	nonClaims = append(nonClaims, s.caveats()...)
	nonClaims = append(nonClaims, s.termClaims(r)...)
	if len(r.Params) > 0 {
		nonClaims = append(nonClaims, fmt.Sprintf("every case ran with %s: other values were not run", strings.Join(r.Params, " and ")))
	}
	nonClaims = append(nonClaims,
		"inputs, shapes and layouts other than those of case_list were not run",
		"nothing is said of speed, nor of other devices, drivers, compilers or builds of the program",
		"a fault that shows rarely may not have shown: at random, as of failing hardware; for one input in 10^8; at the 100,000th call")
	nonClaims = append(nonClaims, s.outOfReach()...)
	if !s.t.Lowering.Promise.IsBits() {
		nonClaims = append(nonClaims, "the lowering need not give the same bits on another machine",
			"where arithmetic may overflow on the way, or an input that is no number reaches an output, only its class was compared, or nothing")
	}
	if r.Undecided > 0 {
		nonClaims = append(nonClaims, fmt.Sprintf("of %d outputs the correct rounding was left open by float64; level full decides them", r.Undecided))
	}
	for _, c := range claimed.Of(s.t.Definition) {
		nonClaims = append(nonClaims, c.String())
	}
	if hasIntOutputs(s.t.Definition) {
		nonClaims = append(nonClaims, noULPs)
	}
	if s.t.Lowering.Name == "cpu.reference" {
		nonClaims = append(nonClaims, "the lowering is the reference itself: that it agrees with the reference shows nothing about either")
	}
	if r.Verdict == evidence.Inadmissible || r.Verdict == evidence.Interrupted {
		nonClaims = append(nonClaims, "this report is partial and decides nothing")
	}
	if u := r.Unchecked; u != nil {
		nonClaims = append(nonClaims, s.undone(u))
	}
	if r.Verdict == evidence.Undecided && tooFew(r) != "" {
		nonClaims = append(nonClaims, "this report decides nothing: a kernel with larger errors would have passed as well")
	}
	return claims, nonClaims
}

// caveats returns the limits that the device's description states.
func (s *verification) caveats() []string {
	if s.machine == nil || s.machine.Caveat == "" {
		return nil
	}
	return []string{fmt.Sprintf("the device was %s: %s", s.machine.Name, s.machine.Caveat)}
}

// noULPs is a non-claim of reports on int32 outputs.
const noULPs = "int32 outputs have no error in ulps: they were compared with the answer, or with the set of admissible values, and with nothing else"

func hasIntOutputs(d *def.Definition) bool {
	return slices.ContainsFunc(d.Operands, func(o def.Operand) bool { return o.IsOut && o.IsInt() })
}

// outputOf returns the position of the first output.
func outputOf(d *def.Definition) int {
	return slices.IndexFunc(d.Operands, func(o def.Operand) bool { return o.IsOut })
}

// mostInputs is how many inputs of one output element are shown.
const mostInputs = 8

// inputsAt shows the inputs of one output element: those in its row and column; of a
// product, the first terms of its sum.
func (l *loaded) inputsAt(operand, row, col int) []string {
	d := l.target.Definition
	at := l.indicesAt(operand, row, col)
	along, length := "", 1
	if d.Multiplies() {
		along = d.SummedOver()
		length, _ = l.c.Size(along)
	}
	list := []string{}
	first := at[along] // of a group
	for k := range length {
		at[along] = first + k
		for i := range d.Operands {
			in, a := &d.Operands[i], l.array(i)
			if !in.IsIn || len(list) >= mostInputs || k > 0 && !slices.Contains(in.Dims, along) {
				continue
			}
			r, c := offsetOf(in, a, at)
			if r < a.Rows && c < a.Cols {
				list = append(list, fmt.Sprintf("%s = %s", place(in, a, r, c), trial.PatternWithValue(a.DType, a.Bits64(r, c))))
			}
		}
	}
	return list
}

// truthAt returns the real-number result of an element, or "" where it is not known.
func (l *loaded) truthAt(operand, row, col int) string {
	const most = 1 << 22 // elements of the output
	t := l.target
	if a := l.array(operand); a.Rows > most/a.Cols {
		return ""
	}
	exact, err := truth.Enclose(t.Definition, l.inputs(), truth.Options{Params: l.params, Mode: truth.Exact, Accum: l.accum()})
	if err != nil {
		return ""
	}
	return truthText(exact, l.c.Formats[operand], operand, row, col)
}

// outputsOf returns the number of output elements of one run that are judged.
func (t *Target) outputsOf(c *cases.Case) int64 {
	n, sizes := int64(0), c.Lengths()
	for i := range t.Definition.Operands {
		if t.isJudged(i) {
			rows, cols := t.Definition.Operands[i].Matrix(sizes)
			n += int64(rows) * int64(cols)
		}
	}
	return n
}
