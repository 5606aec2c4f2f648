package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
	"tokitai/trial"
	"tokitai/verify/cases"
	"tokitai/verify/origin"
)

// CallReport holds the reports of checked calls, one for each kernel that ran. An operation
// may run several.
type CallReport struct {
	// Tool, Version and Program are copied to the reports, as those of Options are. Replay
	// is a command that makes the call again; "" if only the caller can.
	Tool, Version, Program, Replay string

	// Op is the operation that the caller asked for; "" takes the definition's name.
	Op string

	// Operation has the clauses, allowances and formulas of the definition. It is nil if there
	// are none. Waive names clauses from which outputs may differ.
	Operation *op.Operation
	Waive     []string

	// IsGiven says that the outputs were computed elsewhere before, and the call only copies them.
	IsGiven bool

	// Progress is called with the number of judged tiles of a kernel's outputs, from several
	// goroutines; it may be nil.
	Progress func(definition string, done, total int)

	mu    sync.Mutex
	parts []*evidence.Report
}

// Checked returns an option that checks a call: after it has run on the caller's own data,
// every output is compared with the reference on the original inputs, and with the truth
// for its accuracy. The call returns the same error as without the option; the result is in
// the report. A checked call waits for the kernel and needs memory for copies of the
// operands. When the queue's context ends, it returns, and the report has the verdict
// interrupted.
func Checked(r *CallReport) engine.Option {
	if r == nil {
		r = &CallReport{}
	}
	return engine.WithObserver(r)
}

// Reports returns the reports so far, in the order of the kernels.
func (r *CallReport) Reports() []*evidence.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*evidence.Report(nil), r.parts...)
}

// Verdict returns the worst of the reports' verdicts: rejected, then inadmissible, then
// interrupted, then undecided, then accepted; skipped if nothing ran.
func (r *CallReport) Verdict() evidence.Verdict {
	order := []evidence.Verdict{evidence.Skipped, evidence.Accepted, evidence.Unfinished, evidence.Undecided, evidence.Interrupted, evidence.Inadmissible, evidence.Rejected}
	worst := 0
	for _, p := range r.Reports() {
		worst = max(worst, slices.Index(order, p.Verdict))
	}
	return order[worst]
}

// observed is a call between its beginning and its end.
type observed struct {
	report *CallReport
	target *Target
	l      *loaded // every operand as the caller gave it
	began  time.Time
}

// Before implements engine.Observer: it copies the operands.
func (r *CallReport) Before(call *engine.Record) error {
	o := &observed{report: r, began: time.Now()}
	d := call.Definition
	operands, err := read(call)
	if err != nil {
		return fmt.Errorf("a checked call reads its operands: %w", err)
	}
	formats := operands.DTypes()
	l := &loaded{params: call.Params, c: &cases.Case{Formats: formats}, operands: operands}
	o.target = &Target{Operation: r.Operation, Definition: d, Lowering: call.Lowering, DType: d.Format(formats)}
	o.target.formatList.get(func() [][]num.DType { return append([][]num.DType{formats}, o.target.namedFormats()...) })
	o.target.architecture.get(func() string { return call.Queue.Device().Describe().Architecture })
	l.target = o.target
	if err := o.target.checkDeclared(); err != nil {
		return err
	}
	if err := o.target.checkWaived(r.Waive); err != nil {
		return err
	}
	o.l = l
	call.State = o
	return nil
}

// read copies the operands of a call.
func read(call *engine.Record) (*trial.Operands, error) {
	d := call.Definition
	arrays := make([]num.Array, len(d.Operands))
	for i, t := range call.Tensors {
		raw, err := t.Bytes()
		if err != nil {
			return nil, err
		}
		arrays[i] = folded(&d.Operands[i], t, raw)
	}
	x := trial.Wrap(d, arrays)
	for out := range d.Operands {
		for in := range d.Operands {
			if out != in && tensor.Overlap(call.Tensors[out], call.Tensors[in]) != tensor.Disjoint {
				x.Replace(out, in)
			}
		}
	}
	return x, nil
}

// folded returns a tensor's values as the matrix of its operand.
func folded(o *def.Operand, t *tensor.Tensor, raw []byte) num.Array {
	a := num.Array{DType: t.DType(), Rows: t.Rows(), Cols: t.Cols(), Stride: t.Cols(), Data: raw}
	n := t.Len()
	for k := range o.BatchDims() { // further leading dimensions are part of the first
		shape := t.Shape()[:t.Rank()-len(o.Dims)+1]
		if k > 0 {
			shape = t.Shape()[t.Rank()-len(o.Dims)+k:][:1]
		}
		size := 1
		for _, s := range shape {
			size *= s
		}
		n /= size
		a.Batch.Append(size, n)
	}
	if len(o.Dims) == 1 && o.Extent != def.PerColumn {
		a.Rows, a.Cols, a.Stride = t.Len(), 1, 1
	}
	return a
}

// After implements engine.Observer: it compares the outputs.
func (r *CallReport) After(call *engine.Record, err error) {
	o, ok := call.State.(*observed)
	if !ok {
		return
	}
	part := o.judge(call, err, time.Since(o.began).Seconds())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parts = append(r.parts, part)
}

func (o *observed) judge(call *engine.Record, callErr error, seconds float64) *evidence.Report {
	t, d := o.target, call.Definition
	options := &Options{Device: call.Queue.Device().Name(), Tool: o.report.Tool, Version: o.report.Version, Program: o.report.Program, Waive: o.report.Waive}
	o.l.accum() // which the report names
	r := newReport(t, options)
	r.Level = "call"
	r.Op = cmp.Or(o.report.Op, r.Op)
	r.Formats = []string{formatText(d, o.l.c.Formats)}
	about := call.Queue.Device().Describe()
	r.Machine = origin.Machine(about)
	if dev, ok := call.Queue.Device().(engine.Device); ok {
		origin.SetCompiler(r, dev, slices.Clone(call.Artifacts))
	}
	r.Generator = evidence.Generator{Name: "the caller's own data"}
	r.KernelSeconds = nil
	ctx := call.Queue.Context()
	fail := func(reason string) *evidence.Report {
		r.Verdict, r.Reason = evidence.Inadmissible, origin.FirstLine(reason)
		if ctx.Err() != nil {
			r.Verdict, r.Reason = evidence.Interrupted, "interrupted: the outputs were not compared"
		}
		r.DigestSHA256 = evidence.DigestOf(nil)
		r.NonClaims = []string{"this report decides nothing: the call did not come to its end"}
		r.Seconds = time.Since(o.began).Seconds()
		origin.Finish(r)
		maps.Copy(r.Obtained, obtainedOfCall)
		return r
	}
	if callErr != nil {
		return fail(callErr.Error())
	}
	if err := call.Queue.Wait(); err != nil {
		return fail(err.Error())
	}
	if !o.report.IsGiven {
		r.KernelSeconds = &seconds
	}
	after, err := read(call)
	if err != nil {
		return fail(err.Error())
	}
	out := &outcome{after: after, operands: after.Arrays()}
	breach := after.Breach(o.l.operands)
	how := manner{withTruth: true, waived: o.report.Waive, withFreivalds: true, key: rand.Uint64()}
	if tell := o.report.Progress; tell != nil {
		how.progress = func(done, total int) { tell(d.Name, done, total) }
	}
	j, err := o.judgeUntil(ctx, out, how)
	if err != nil {
		return fail(err.Error())
	}
	s := &verification{t: t, o: options, machine: &about, tiers: map[evidence.TierName]*evidence.Tier{}}
	result := caseResult{Name: "call", Found: *j, Tiers: map[evidence.TierName]evidence.Tier{}}
	result.Inputs, result.Outputs = trial.EvidenceInputs(d, o.l.inputs(), o.l.params), trial.EvidenceOutputs(d, out.operands)
	result.count(evidence.Structure, 1, 0)
	if breach != nil {
		result.Tiers[evidence.Structure] = evidence.Tier{}
		result.fail(&finding{Tier: evidence.Structure, Operand: outputOf(d), Row: -1, Message: breach.String()}, 1)
	}
	result.count(t.mainTier(), j.Elements-j.Unspecified, j.Mismatches)
	if result.First == nil {
		result.First = j.first
	}
	s.take(o.l.c, result)
	o.fill(s, r, result)
	if r.Verdict == evidence.Rejected && breach == nil {
		if note := o.admittedBy(ctx, out, how); note != "" {
			r.Failure.Note = note
		}
	}
	r.Seconds = time.Since(o.began).Seconds()
	origin.Finish(r)
	maps.Copy(r.Obtained, obtainedOfCall)
	return r
}

// judgeUntil judges the outputs, unless the context ends first.
func (o *observed) judgeUntil(ctx context.Context, out *outcome, how manner) (*judgement, error) {
	type judged struct {
		found *judgement
		err   error
	}
	got, err := until(ctx, func() (j judged) {
		j.found, j.err = o.target.judge(ctx, o.l, out, how)
		return j
	}, nil)
	return got.found, cmp.Or(err, got.err)
}

// fill copies the result to the report.
func (o *observed) fill(s *verification, r *evidence.Report, result caseResult) {
	t, d, j := o.target, o.target.Definition, &result.Found
	listed := evidence.Case{
		Name: result.Name, Elements: j.Elements, Mismatches: j.Mismatches, InputsSHA256: result.Inputs, OutputsSHA256: result.Outputs,
		Tiers: []evidence.TierName{evidence.Structure, t.mainTier()}, Params: paramTexts(d, o.l.params),
	}
	for i, a := range o.l.inputs() {
		listed.Shapes = append(listed.Shapes, fmt.Sprintf("%s %s[%d,%d]", d.Operands[i].Name, a.DType, a.Rows, a.Cols))
	}
	r.CaseList = []evidence.Case{listed}
	r.Cases, r.Elements, r.Mismatches = 1, j.Elements, j.Mismatches
	r.DigestSHA256 = evidence.DigestOf(r.CaseList)
	r.Coverage = evidence.Coverage{Judged: j.Elements, Tiles: j.Tiles, Freivalds: j.Freivalds}
	for i, a := range o.l.inputs() {
		if t.isJudged(i) {
			r.Coverage.Produced += int64(a.Rows) * int64(a.Cols)
		}
	}
	s.setFigures(r, j)
	s.setTerms(r, j)
	setHistogram(r, j)
	for figure, w := range map[string]worst{evidence.FigureErrorULP: j.Accuracy.WorstError, evidence.FigureErrorShare: j.Accuracy.WorstShare} {
		if w.IsSeen {
			r.WorstCases = append(r.WorstCases, o.l.worstCase(figure, w, result.Name))
		}
	}
	slices.SortFunc(r.WorstCases, func(a, b evidence.WorstCase) int { return cmp.Compare(b.Figure, a.Figure) })
	for _, name := range evidence.TierNames {
		tier := evidence.Tier{Name: name, Note: "does not apply to a single call on a caller's data"}
		if got := s.tiers[name]; got != nil {
			tier = evidence.Tier{Name: name, Checks: got.Checks, Failed: got.Failed}
		}
		switch {
		case name == evidence.Structure && o.report.IsGiven:
			tier.Note = "inputs are compared; nothing ran that could write elsewhere"
		case name == evidence.Structure:
			tier.Note = "inputs are compared; guards cannot be put around a caller's memory"
		}
		r.Tiers = append(r.Tiers, tier)
	}
	r.NonClaims = append(s.caveats(),
		"nothing is said of other inputs, shapes or calls",
		"memory around the operands was not watched",
		"nothing is said of speed: the check itself takes most of the time",
	)
	if o.report.IsGiven {
		r.NonClaims = append(r.NonClaims, "nothing is said of who computed the outputs, or whether the same inputs give them again")
	}
	if j.Freivalds > 0 {
		r.NonClaims = append(r.NonClaims, byFreivalds(j.Freivalds))
	}
	if hasIntOutputs(d) {
		r.NonClaims = append(r.NonClaims, noULPs)
	}
	defer func() { r.Honest = evidence.HonestOf(r.Verdict) }()
	r.NonClaims = append(r.NonClaims, s.termClaims(r)...)
	if reason := tooFew(r); result.First == nil && reason != "" {
		r.Verdict, r.Reason = evidence.Undecided, reason
		return
	}
	if result.First == nil {
		r.Verdict = evidence.Accepted
		r.Evidence = []string{fmt.Sprintf("every one of the call's %d outputs is what the definition gives on the inputs that the call was given", j.Elements)}
		if !t.Lowering.Promise.IsBits() {
			r.Evidence[0] = fmt.Sprintf("every one of the call's %d outputs is one that promise %s admits on the inputs that the call was given", j.Elements, t.Promised())
		}
		if r.WorstErrorULP != nil {
			r.Evidence = append(r.Evidence, fmt.Sprintf("against the real-number result, enclosed by proven bounds, the worst is %.4g ulp off", *r.WorstErrorULP))
		}
		return
	}
	r.Verdict = evidence.Rejected
	r.Failure = o.l.failureOf(result.First)
	r.Failure.Case, r.Failure.OriginalCase = result.Name, result.Name
	if m := o.l.mapOf(result.First, result.Name); m != nil {
		r.Failure.Maps = []evidence.Map{*m}
	}
	if r.Failure.Replay = o.report.Replay; r.Failure.Replay == "" && !o.report.IsGiven {
		r.Failure.Note = "the caller can make the call again, on the inputs whose SHA-256 is " + result.Inputs
	}
	r.Reason = r.Failure.Message
}

// obtainedOfCall has the entries that differ in the report of a checked call.
var obtainedOfCall = map[string]string{
	"op":             "the operation that the caller named, or the definition that ran",
	"device":         "the device of the call's queue",
	"level":          "call: the caller's own data",
	"cases":          "one: the call",
	"elements":       "counted: the call's outputs",
	"truth_elements": "counted: outputs whose real-number result is enclosed; where outputs differ in format, those stored in dtype",
	"formats":        "the formats of the call's tensors",
	"generator":      "there is none: the inputs are the caller's",
	"case_list":      "the call; hashes are of the inputs and parameters before, and of the outputs after it",
	"failure":        "the first output that differs",
	"kernel_seconds": "the host's monotonic clock around the call",
	"reason":         "the first output that differs, or why nothing was decided",
}
