package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/promise"
	"tokitai/verify/cases"
	"tokitai/verify/origin"
)

// The cases of a verification are launched one after another, in order, so that the earlier calls
// of a kernel do not depend on chance. Inputs are made, and outputs judged, in parallel.

// mostCauses is the number of kernel errors after which a verification ends.
const mostCauses = 3

func (s *verification) run(ctx context.Context, list []*cases.Case) {
	s.total = len(list)
	if s.open(ctx); s.bench == nil {
		return
	}
	defer s.bench.close()
	s.plan(s.planned)
	line := s.start(list)
	for i, c := range list {
		if s.causes >= mostCauses || s.judges.wrongAnswer() != "" || s.hasEnough() {
			break
		}
		e, err := line.result(ctx, i)
		if err != nil {
			s.waitedFor = c.Name(s.t.Cases())
			break
		}
		if e.isSkipped || ctx.Err() != nil && e.r.First != nil && e.r.First.IsCause { // the end may have caused the error
			break
		}
		if e.unsuited != nil {
			s.unsuited, s.whyUnsuited = s.unsuited+1, e.unsuited.Cause
			s.refused.count(s.t, c, e.unsuited)
			if !e.isKnown && s.o.Part != nil {
				e.r.Unsuited = &unsuited{e.unsuited.Lowering, e.unsuited.Cause.Error(), e.unsuited.IsRefused, e.unsuited.Index}
				s.o.Journal.add(s.key(), e.r)
			}
			s.passed(c, e)
			continue
		}
		if !e.isKnown && (e.r.First == nil || !e.r.First.IsCause) { // an error may not occur the next time
			s.o.Journal.add(s.key(), e.r)
		}
		s.take(e.c, e.r)
		s.passed(c, e)
	}
	close(line.end)
	if _, err := until(ctx, func() any { line.workers.Wait(); return nil }, nil); err == nil && s.first != nil && !s.o.FirstFailure && s.judges.wrongAnswer() == "" {
		s.study(ctx)
	}
}

// hasEnough reports whether the search for failures ends: if only the first is wanted, or if the
// rest of a budget is better spent on studying it, or on formats other than one that the kernel
// refuses in every case of level smoke.
func (s *verification) hasEnough() bool {
	isFailed := s.first != nil && !s.first.found.IsCause
	isRefused := len(s.done) == 0 && s.first == nil
	isOver := s.o.Budget > 0 && len(s.done)+s.unsuited >= s.smoke
	return isFailed && s.o.FirstFailure || isOver && (isFailed || isRefused)
}

// passed tells the caller that a case is over.
func (s *verification) passed(c *cases.Case, e *caseRun) {
	if s.o.Progress != nil {
		s.o.Progress(len(s.done)+s.unsuited, s.total)
	}
	if s.o.Work != nil {
		s.o.Work(s.t.Cases().WorkOf(c, s.o.request(s.t)), e.isKnown)
	}
}

// open opens the bench or sets openErr; it does neither if the context ends first.
func (s *verification) open(ctx context.Context) {
	type opened struct {
		bench *bench
		err   error
	}
	made, err := until(ctx, func() (o opened) {
		if o.err = engine.CheckReference(s.t.Definition, s.t.formats()[0]); o.err == nil {
			o.bench, o.err = s.t.newBench(ctx, s.o, 0)
		}
		return o
	}, func(o opened) { o.bench.close() })
	if err != nil {
		return
	}
	if s.bench, s.openErr = made.bench, made.err; s.bench != nil {
		s.machine, s.device = new(s.bench.device.Describe()), s.bench.device
		if err := canWatch(s.device); err != nil {
			s.unwatched = err.Error()
		}
		if s.waiting != nil {
			s.waiting.trial.Store(s.bench.trial)
		}
	}
}

// line holds cases in progress.
type line struct {
	results []chan *caseRun // by case
	turns   []chan struct{} // by case: closed when all earlier ones have been launched
	end     chan struct{}   // closed when nobody waits for results any more
	workers sync.WaitGroup
}

// result returns the result of a case, or an error if the context ends before there is one. A
// result that is available is returned even if the context has ended.
func (l *line) result(ctx context.Context, i int) (*caseRun, error) {
	select {
	case e := <-l.results[i]:
		return e, nil
	case <-ctx.Done():
	}
	select {
	case e := <-l.results[i]:
		return e, nil
	default:
		return nil, ctx.Err()
	}
}

// start starts to run cases, as many at a time as there are processors.
func (s *verification) start(list []*cases.Case) *line {
	l := &line{results: make([]chan *caseRun, len(list)), turns: make([]chan struct{}, len(list)+1), end: make(chan struct{})}
	for i := range list {
		l.results[i] = make(chan *caseRun, 1)
	}
	for i := range l.turns {
		l.turns[i] = make(chan struct{})
	}
	close(l.turns[0])
	var next atomic.Int64
	var begins sync.Mutex // cases enter in their order: a later one waits for the turn of an earlier one
	for range min(runtime.GOMAXPROCS(0), len(list)) {
		s.bench.users.Add(1)
		l.workers.Go(func() {
			defer s.bench.close()
			for {
				begins.Lock()
				i := int(next.Add(1)) - 1
				if i >= len(list) {
					begins.Unlock()
					return
				}
				n := list[i].Elements(s.t.Definition)
				memory.enter(n)
				begins.Unlock()
				isOver := s.runAt(l, list, i)
				memory.leave(n)
				if isOver {
					return
				}
			}
		})
	}
	return l
}

// runAt runs case i when it is its turn, and reports whether nobody waits for further results.
func (s *verification) runAt(l *line, list []*cases.Case, i int) (isOver bool) {
	select {
	case <-l.end:
		return true
	default:
	}
	e := s.begin(list[i])
	select {
	case <-l.end:
		return true
	case <-l.turns[i]:
	}
	s.launch(e)
	close(l.turns[i+1])
	s.judgeRun(e)
	e.x = nil // whose memory is free, though the result may wait for earlier ones
	l.results[i] <- e
	return false
}

// caseRun is a case in progress.
type caseRun struct {
	c *cases.Case
	x *trialRun
	r caseResult

	isKnown   bool                  // from the journal
	isSkipped bool                  // the device cannot be used any more
	isEnded   bool                  // by an error of the kernel: there is nothing to judge
	unsuited  *engine.UnsuitedError // why the lowering does not take the case, or nil

	breach   *finding
	refused  int64    // calls, as their definition refuses them
	compared int64    // by the case's check
	failed   *finding // of the check
	checkErr error
}

// fail ends a run with an error.
func (e *caseRun) fail(err error) {
	e.isEnded = true
	if unsuited, ok := errors.AsType[*engine.UnsuitedError](err); ok {
		e.unsuited = unsuited
		return
	}
	if _, ok := errors.AsType[*engine.OutputError](err); ok {
		e.r.HasOutputs, e.r.Outputs = true, evidence.FingerprintOf(nil)
	}
	e.r.fail(e.x.l.target.cause(err), 1)
}

// begin makes the inputs of a case, unless the journal has its result.
func (s *verification) begin(c *cases.Case) *caseRun {
	e := &caseRun{c: c}
	name := c.Name(s.t.Cases())
	if e.r, e.isKnown = s.o.Journal.find(s.key(), name); e.isKnown {
		if e.r.Unsuited != nil {
			e.unsuited = e.r.Unsuited.err()
		}
		return e
	}
	s.fill(e)
	return e
}

// fill makes the inputs of a case.
func (s *verification) fill(e *caseRun) {
	e.r = caseResult{Name: e.c.Name(s.t.Cases()), IsOwnData: s.t.isOwnData(e.c), Tiers: map[evidence.TierName]evidence.Tier{}}
	e.x = &trialRun{s: s, c: e.c, l: s.t.load(e.c, s.o.Seed)}
	e.x.l.question = s.t.questionOf(e.x.l, s.o)
}

// launch runs the kernel: once, once more if outputs seem to be unwritten, and as often as
// the case's check needs. If the kernel rightly refuses one of these calls, the case is replaced by
// one with all indices in range, so that its results are judged as well.
func (s *verification) launch(e *caseRun) {
	if e.isKnown {
		s.ranListings = append(s.ranListings, e.r.Listings...)
		s.ranArtifacts = append(s.ranArtifacts, e.r.Artifacts...)
		return
	}
	if e.isSkipped = s.bench.isHung.Load(); e.isSkipped {
		return
	}
	defer s.notePrograms(&e.r)
	err := s.launchOnce(e)
	if _, ok := errors.AsType[*dueRefusal](err); ok {
		e.refused++
		e.c = e.c.Clone()
		e.c.IsInside = true
		s.fill(e)
		err = s.launchOnce(e)
	}
	if err != nil {
		e.fail(err)
	}
}

// launchOnce runs a case. It returns an error if there is nothing to judge.
func (s *verification) launchOnce(e *caseRun) (err error) {
	if e.x.base, err = s.bench.run(e.x.l, s.o.deadline(), 0); err != nil {
		return err
	}
	e.r.Kernel = e.x.base.seconds
	if e.r.Choice = e.x.base.choice; e.r.Choice != nil {
		e.r.Model = e.x.l.accum().String()
	}
	if e.breach, err = s.breach(e.x); err != nil {
		return err
	}
	if e.c.Check != "" {
		before := s.bench.launches.Load()
		e.compared, e.failed, e.checkErr = s.t.checkNamed(e.c.Check).run(e.x)
		e.r.Runs = s.bench.launches.Load() - before
		_, isUnsuited := errors.AsType[*engine.UnsuitedError](e.checkErr)
		if _, isDue := errors.AsType[*dueRefusal](e.checkErr); isUnsuited || isDue { // of a call that the check needs
			return e.checkErr
		}
	}
	return nil
}

// notePrograms adds the programs that no earlier case has run to a result. They are kept
// with the case: a resumed verification does not compile them again.
func (s *verification) notePrograms(r *caseResult) {
	if s.bench.trial.Compiled() == s.compiled {
		return
	}
	s.compiled = s.bench.trial.Compiled()
	without := func(all, known []string) []string {
		return slices.DeleteFunc(slices.Compact(all), func(x string) bool { return slices.Contains(known, x) })
	}
	r.Listings, r.Artifacts = without(s.bench.trial.Listings(), s.ranListings), without(s.bench.trial.Artifacts(), s.ranArtifacts)
	s.ranListings, s.ranArtifacts = append(s.ranListings, r.Listings...), append(s.ranArtifacts, r.Artifacts...)
}

// judgeRun judges what was launched.
func (s *verification) judgeRun(e *caseRun) {
	if e.isKnown || e.isSkipped {
		return
	}
	x, r := e.x, &e.r
	if !s.o.Unhashed {
		r.Inputs = x.l.question.inputsHash(x.l)
	}
	if r.Refused = e.refused; r.Refused > 0 {
		r.count(evidence.Structure, r.Refused, 0)
	}
	if e.isEnded {
		return
	}
	if s.o.Case != "" {
		r.shown = x.l.shown(x.base)
	}
	if e.breach != nil {
		r.fail(e.breach, 1)
	} else {
		r.count(evidence.Structure, 1, 0)
	}
	if s.o.OnlyInvariance {
		s.hash(x, nil, r)
	} else if err := s.judgeFirst(x, r); err != nil {
		e.fail(err)
		return
	}
	if e.c.Check == "" {
		return
	}
	r.Extra += e.compared
	r.Check = e.failed
	switch {
	case e.checkErr != nil:
		r.fail(s.t.cause(e.checkErr), e.compared)
	case e.failed != nil:
		r.fail(e.failed, e.compared)
	default:
		r.count(s.t.checkNamed(e.c.Check).tier(), e.compared, 0)
	}
}

// judgeFirst judges the outputs of a case's first run.
func (s *verification) judgeFirst(x *trialRun, r *caseResult) error {
	j, err := s.t.judge(s.bench.ctx, x.l, x.base, s.manner(x))
	s.hash(x, j, r)
	if err != nil {
		return err
	}
	s.count(x, j, r)
	return nil
}

// hash records that a first run has outputs, and their hash. If they were not judged, j is nil.
func (s *verification) hash(x *trialRun, j *judgement, r *caseResult) {
	if r.HasOutputs = true; !s.o.Unhashed {
		r.Outputs = x.l.question.outputsHash(s.t, j, x.base)
	}
}

// manner returns how the outputs of a case are judged.
func (s *verification) manner(x *trialRun) manner {
	m := manner{withTruth: x.c.IsAccuracy, withBig: s.o.Level >= Full, waived: s.o.Waive}
	if s.mayCompile() {
		m.compiled, m.withAll = s.compiledFor(s.bench.ctx, x.l.accum()), s.whole[x.c]
	}
	if m.withFreivalds = s.t.Definition.Ring().IsExact() && !s.o.InterpretAll; m.withFreivalds || m.compiled != nil {
		m.key = drawKey(s.o.Seed, x.l, x.base)
	}
	return m
}

// count counts the judgement of a case's first run.
func (s *verification) count(x *trialRun, j *judgement, r *caseResult) {
	r.Found = *j
	r.count(s.t.mainTier(), j.Elements-j.Unspecified, j.Mismatches)
	if j.first != nil && r.First == nil {
		r.First = j.first
	}
	switch {
	case s.t.Promised() != promise.Bits && j.OnGrid > 0:
		r.count(evidence.Grid, j.OnGrid, j.OffGrid)
	case s.t.Promised() == promise.Bits && x.l.isGrid():
		r.count(evidence.Grid, j.Elements, j.Mismatches)
		if j.first != nil {
			r.First.Tier = evidence.Grid
		}
	}
	s.spreadStatistics(j, r)
	if !s.t.Lowering.Promise.IsBits() && x.c.IsStatistics {
		s.statistics(x, j, r)
	}
}

// attempt runs one case by itself, unless the context ends first. The case that it returns is the
// one that ran, which has other indices if the kernel rightly refused the given one.
func (s *verification) attempt(ctx context.Context, c *cases.Case) (*caseRun, error) {
	s.bench.users.Add(1)
	e, err := until(ctx, func() *caseRun {
		defer s.bench.close()
		e := s.begin(c)
		s.launch(e)
		s.judgeRun(e)
		return e
	}, nil)
	if err == nil && ctx.Err() != nil && e.r.First != nil && e.r.First.IsCause {
		err = ctx.Err() // which may be the cause
	}
	return e, err
}

// take adds the result of a case to the verification.
func (s *verification) take(c *cases.Case, r caseResult) {
	s.done, s.shown = append(s.done, r), r.shown
	s.listings = append(s.listings, r.Listings...)
	s.artifacts = append(s.artifacts, r.Artifacts...)
	for name, t := range r.Tiers {
		if s.tiers[name] == nil {
			s.tiers[name] = &evidence.Tier{Name: name}
		}
		s.tiers[name].Checks += t.Checks
		s.tiers[name].Failed += t.Failed
	}
	if r.First == nil {
		return
	}
	if s.o.Case == "" && s.bench != nil {
		r.First.places = nil // of the first failure alone, which runs again
	}
	if r.First.IsCause {
		s.causes++
		s.firstErr = cmp.Or(s.firstErr, fmt.Sprintf("%s: %s", r.Name, r.First.Message))
	}
	if s.first == nil || r.First.isWorse(s.first.found) {
		if s.first != nil {
			s.first.found.run = nil // it takes memory
		}
		s.first = &failedCase{c, r.First}
	}
	for _, f := range []*finding{r.First, r.Check} {
		if f != nil && f != s.first.found {
			f.run = nil
		}
	}
}

func (r *caseResult) count(tier evidence.TierName, checks, failed int64) {
	t := r.Tiers[tier]
	t.Checks += checks
	t.Failed += failed
	r.Tiers[tier] = t
}

func (r *caseResult) fail(f *finding, checks int64) {
	if !f.IsCause {
		r.count(f.Tier, max(checks, 1), 1)
	}
	if r.First == nil {
		r.First = f
	}
}

// cause returns the finding that a kernel ended in an error. Breaking a rule of the device, and
// returning something other than an output, are faults of the kernel.
func (t *Target) cause(err error) *finding {
	if wrong, ok := errors.AsType[*engine.OutputError](err); ok {
		return noOutput(t, wrong)
	}
	if fault, ok := errors.AsType[*engine.FaultError](err); ok {
		return &finding{Tier: evidence.Structure, Operand: -1, Row: -1, Message: origin.FirstLine(fault.Message)}
	}
	return &finding{Operand: -1, Message: origin.FirstLine(err.Error()), IsCause: true, IsHang: errors.Is(err, engine.ErrHung)}
}

// breach returns what is wrong with a run's structure, or nil. If an output still holds the
// poison, the case is run again with another poison: a kernel may write any NaN and any
// int32.
func (s *verification) breach(x *trialRun) (*finding, error) {
	if x.base.breach != nil {
		return x.base.breach, nil
	}
	suspects := x.base.after.Unwritten(x.l.operands, s.t.Lowering.Promise.Declares.Omits, nil)
	if len(suspects) == 0 {
		return nil, nil
	}
	out, err := s.bench.run(x.l, s.o.deadline(), 1)
	if err != nil {
		return nil, err
	}
	if suspects = out.after.Unwritten(x.l.operands, nil, suspects); len(suspects) == 0 {
		return nil, nil
	}
	at := suspects[0]
	bits := out.operands[at.Operand].Bits64(at.Row, at.Col)
	message := "it is not written"
	if n := len(suspects); n > 1 {
		message = fmt.Sprintf("it is not written, like %d other elements", n-1)
	}
	return &finding{
		Tier: evidence.Structure, Operand: at.Operand, Row: at.Row, Col: at.Col, Got: bits, Want: bits, WantTo: bits,
		Message: message, places: suspects,
	}, nil
}
