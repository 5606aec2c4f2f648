// Package verify decides whether a lowering computes its definition. It runs the kernel on
// cases that reach every boundary (cases.go), in guarded and poisoned memory (launch.go,
// package trial), compares the outputs with the answer (judge.go, tile.go), checks relations
// between results and invariances of them (check.go), tests the errors of kernels that
// promise no bits statistically (statistics.go), shrinks a failing case (shrink.go), and
// writes a report (report.go).
//
// A verdict lists tiers by name:
//
//	structure   every output written, nothing else, inputs unchanged
//	bits        equal to the reference under the declared model (contract bits)
//	set         in the admissible set of the declared order (contract bounded)
//	grid        one answer in every order: a lost product always shows
//	statistics  contract bounded: bias, spread and misrounding of the errors
//	relations   powers of two, permutation, splitting, padding, transposition, in place
//	invariance  repeated runs, layouts, numbers of workers, concurrent launches
//
// Start reading at [Run]. The package verifies the operations and lowerings that it is
// given; it names none.
package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op"
	"tokitai/trial"
)

// Target is what is verified: one lowering of one definition, in the storage formats
// that one format names.
type Target struct {
	// Operation has the kinds of data, patterns and relations. If it is nil, those that
	// every definition has are used.
	Operation  *op.Operation
	Definition *def.Definition
	Lowering   *engine.Lowering
	DType      num.DType
	Backend    engine.Backend // whose devices the lowering is for; nil is the CPU's

	formatList  once[[][]num.DType]
	patternList once[[]*pattern]
	checkList   once[[]*check]
	nameList    once[[]string]

	architecture once[string] // of the device
	models       models
}

// once is a value that is built at its first use: verifications of one target may run at
// the same time.
type once[T any] struct {
	made  sync.Once
	value T
}

func (o *once[T]) get(build func() T) T {
	o.made.Do(func() { o.value = build() })
	return o.value
}

// Targets lists the targets of operations on a backend: every definition once, in every
// format, with each of the backend's lowerings.
func Targets(operations []*op.Operation, b engine.Backend) []*Target {
	var list []*Target
	seen := map[*def.Definition]bool{}
	for _, o := range operations {
		for _, d := range o.Definitions {
			if seen[d] {
				continue
			}
			seen[d] = true
			for _, l := range engine.Lowerings(b, d) {
				for _, dtype := range num.FloatDTypes {
					t := &Target{Operation: o, Definition: d, Lowering: l, DType: dtype, Backend: b}
					if len(t.formats()) > 0 {
						list = append(list, t)
					}
				}
			}
		}
	}
	return list
}

// formats lists the choices of formats that the target's format names, the usual one
// first.
func (t *Target) formats() [][]num.DType { return t.formatList.get(t.namedFormats) }

func (t *Target) namedFormats() [][]num.DType {
	var list [][]num.DType
	for _, f := range t.Definition.Formats() {
		if t.Definition.Format(f) == t.DType && t.Lowering.Takes(t.Definition, f) == nil {
			list = append(list, f)
		}
	}
	return list
}

// ID returns the lowering's id.
func (t *Target) ID() string { return t.Lowering.ID(t.Definition) }

// Level says how much is checked.
type Level uint8

const (
	Smoke      Level = iota // at most 2·10⁵ outputs of an operation: for emulators and sanitizers
	Quick                   // everything on two cores in a minute
	Full                    // minutes
	Exhaustive              // hours: every pattern, every pair of 16-bit patterns
)

var levelNames = []string{"smoke", "quick", "full", "exhaustive"}

func (l Level) String() string { return levelNames[l] }

// ParseLevel returns the level with the given name.
func ParseLevel(s string) (Level, error) {
	if i := slices.Index(levelNames, s); i >= 0 {
		return Level(i), nil
	}
	return 0, &UnknownError{What: "level", Name: s, Known: levelNames}
}

// UnknownError reports an unknown name.
type UnknownError struct {
	What, Name string
	Reason     string // "" if there is nothing of that name
	Known      []string
}

func (e *UnknownError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("%s %q: %s", e.What, e.Name, e.Reason)
	}
	return fmt.Sprintf("unknown %s %q", e.What, e.Name)
}

// Options configures Run. The zero value is level smoke on the CPU with seed 0.
type Options struct {
	Device   string                                   // as Open takes it; "" is cpu
	Open     func(name string) (engine.Device, error) // nil is cpu.Open
	Level    Level
	Seed     uint64
	Case     string        // this case alone, and unshrunk: a replay
	Deadline time.Duration // for one launch; 0 is a minute

	// Progress is called after every case; it may be nil.
	Progress func(done, total int)

	// Work is called after every case with its share of the work that [Target.Work]
	// returns, and with whether the journal had the result; it may be nil.
	Work func(work float64, isKnown bool)

	// Journal records finished cases across runs; it may be nil.
	Journal *Journal

	// IsNamed says that the command line of the program tokitai can name the target, so
	// that a failure has a replay command. Targets of shipped operations and lowerings
	// always have one.
	IsNamed bool

	// Tool and Version are copied to the report. Program is the SHA-256 of the executable:
	// the results in a journal are used by the same program only.
	Tool, Version, Program string
}

func (o *Options) device() string { return cmp.Or(o.Device, cpu.Kind) }

func (o *Options) open() (engine.Device, error) {
	if o.Open == nil {
		return cpu.Open(o.device())
	}
	return o.Open(o.device())
}

func (o *Options) deadline() time.Duration { return cmp.Or(o.Deadline, time.Minute) }

// Result is a verdict with its report.
type Result struct {
	Report *evidence.Report

	// Replay is a command that runs the first case that failed or ended in an error again,
	// or else all of them. It is "" for a lowering or a definition that is not the
	// program's own.
	Replay string

	// Shown holds the inputs and outputs of Options.Case as text, truncated if they are large.
	Shown []string
}

// RejectedBy returns the tiers that failed, in the order of evidence.TierNames.
func (r *Result) RejectedBy() []evidence.TierName {
	var names []evidence.TierName
	for _, t := range r.Report.Tiers {
		if t.Failed > 0 {
			names = append(names, t.Name)
		}
	}
	return names
}

// Run verifies a target. It returns an error only for options that name something unknown,
// otherwise a result. When the context ends, Run returns at once: the finished cases are
// reported, with the verdict interrupted unless one has failed. A case in progress runs to
// its end in the background and is not counted.
func Run(ctx context.Context, t *Target, o Options) (*Result, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	if int(o.Level) >= len(plans) {
		return nil, &UnknownError{What: "level", Name: fmt.Sprint(uint8(o.Level)), Known: levelNames}
	}
	s := &verification{t: t, o: &o, tiers: map[evidence.TierName]*evidence.Tier{}, began: time.Now()}
	var list []*Case
	switch {
	case o.Case != "":
		c, err := t.parseCase(o.Case)
		if err != nil {
			return nil, err
		}
		list = []*Case{c}
	case ctx.Err() == nil:
		list = t.cases(o.Level)
	}
	s.run(ctx, list)
	r := &Result{Report: s.report(ctx), Replay: s.replay(nil), Shown: s.shown}
	switch {
	case r.Report.Failure != nil:
		r.Replay = r.Report.Failure.Replay
	case s.first != nil:
		r.Replay = s.replay(s.first.c)
	}
	return r, nil
}

// check returns an error for a target that cannot be verified at all.
func (t *Target) check() error {
	switch {
	case t == nil || t.Definition == nil || t.Definition.Text() == "":
		return errors.New("verify: the target has no definition")
	case t.Lowering == nil || t.Lowering.Compile == nil:
		return fmt.Errorf("verify: %s: the target has no lowering that can be compiled", t.Definition.Name)
	case t.Lowering.Name == "":
		return fmt.Errorf("verify: %s: the lowering has no name", t.Definition.Name)
	case len(t.formats()) == 0:
		return fmt.Errorf("verify: %s: %s names none of its formats", t.Definition.Name, t.DType)
	}
	if err := t.Lowering.Order.Check(); err != nil {
		return fmt.Errorf("verify: %s: %w", t.ID(), err)
	}
	return nil
}

// verification is a target being verified, with the results so far.
type verification struct {
	t     *Target
	o     *Options
	bench *bench
	tiers map[evidence.TierName]*evidence.Tier

	total    int // cases
	done     []caseResult
	first    *failedCase // what is reported
	causes   int         // cases in which the kernel ended in an error
	firstErr string      // of these
	began    time.Time
	openErr  error
	shrunk   *shrunk
	shown    []string // of the one case that was asked for

	machine             *device.Description
	device              engine.Device // perhaps closed
	listings, artifacts []string      // of the programs that ran, each once
}

// caseResult is the result of one case, as a journal keeps it.
type caseResult struct {
	Name    string                              `json:"name"`
	Inputs  string                              `json:"inputs"`
	Outputs string                              `json:"outputs"`
	Found   judgement                           `json:"found"`
	Extra   int64                               `json:"extra"` // outputs compared by a relation or invariance
	Tiers   map[evidence.TierName]evidence.Tier `json:"tiers"`
	First   *finding                            `json:"first,omitempty"`
	Kernel  float64                             `json:"kernel"` // seconds

	shown []string // its operands, where one case was asked for

	Listings  []string `json:"listings,omitempty"`  // of programs that were first compiled for this case
	Artifacts []string `json:"artifacts,omitempty"` // their SHA-256, where they were compiled at run time
}

type failedCase struct {
	c     *Case
	found *finding
}

// mostCauses is the number of kernel errors after which a verification ends.
const mostCauses = 3

func (s *verification) run(ctx context.Context, list []*Case) {
	s.total = len(list)
	if s.open(ctx); s.bench == nil {
		return
	}
	defer s.bench.close()
	for _, c := range list {
		if ctx.Err() != nil || s.causes >= mostCauses || s.bench.isHung.Load() {
			break
		}
		name := c.name(s.t)
		r, isKnown := s.o.Journal.find(s.key(), name)
		if !isKnown {
			var err error
			if r, err = s.attempt(ctx, c); err != nil {
				break
			}
			r.Name = name
			r.Listings, r.Artifacts = s.newPrograms()
			if r.First == nil || !r.First.IsCause { // an error may have passed by the next time
				s.o.Journal.add(s.key(), r)
			}
		}
		s.take(c, r)
		if s.o.Progress != nil {
			s.o.Progress(len(s.done), s.total)
		}
		if s.o.Work != nil {
			s.o.Work(s.t.workOf(c, s.o.Level), isKnown)
		}
	}
	if s.first != nil && s.o.Case == "" && ctx.Err() == nil {
		s.shrunk = s.shrink(ctx, s.first)
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
	}
}

// attempt runs one case, unless the context ends first.
func (s *verification) attempt(ctx context.Context, c *Case) (caseResult, error) {
	s.bench.users.Add(1)
	r, err := until(ctx, func() caseResult {
		defer s.bench.close()
		return s.runCase(c)
	}, nil)
	if err == nil && ctx.Err() != nil && r.First != nil && r.First.IsCause {
		err = ctx.Err() // which is perhaps the cause
	}
	return r, err
}

// take adds the result of a case to the verification.
func (s *verification) take(c *Case, r caseResult) {
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
	if r.First.IsCause {
		s.causes++
		s.firstErr = cmp.Or(s.firstErr, fmt.Sprintf("%s: %s", r.Name, r.First.Message))
	}
	if s.first == nil || s.first.found.IsCause && !r.First.IsCause {
		s.first = &failedCase{c, r.First}
	}
}

// newPrograms returns the programs that no earlier case has run. They are kept with the
// case: a resumed verification does not compile them again.
func (s *verification) newPrograms() (listings, artifacts []string) {
	without := func(all, known []string) []string {
		return slices.DeleteFunc(slices.Compact(all), func(x string) bool { return slices.Contains(known, x) })
	}
	return without(s.bench.trial.Listings(), s.listings), without(s.bench.trial.Artifacts(), s.artifacts)
}

// runCase runs one case on the verification's bench.
func (s *verification) runCase(c *Case) caseResult {
	r := caseResult{Tiers: map[evidence.TierName]evidence.Tier{}}
	l := s.t.load(c, s.o.Seed)
	r.Inputs = trial.EvidenceInputs(s.t.Definition, l.inputs(), l.params)
	x := &trialRun{s: s, c: c, l: l}
	var err error
	if x.base, err = s.bench.run(l, s.o.deadline(), 0); err != nil {
		r.First = cause(err)
		return r
	}
	r.Kernel = x.base.seconds
	r.Outputs = trial.EvidenceOutputs(s.t.Definition, x.base.operands)
	if s.o.Case != "" {
		r.shown = l.shown(x.base)
	}
	if err := s.judgeBase(x, &r); err != nil {
		r.First = cause(err)
		return r
	}
	if c.Check == "" {
		return r
	}
	k := s.t.checkNamed(c.Check)
	n, f, err := k.run(x)
	r.Extra += n
	switch {
	case err != nil:
		r.fail(cause(err), n)
	case f != nil:
		r.fail(f, n)
	default:
		r.count(k.tier, n, 0)
	}
	return r
}

// judgeBase judges a case's first run.
func (s *verification) judgeBase(x *trialRun, r *caseResult) error {
	switch breach, err := s.breach(x); {
	case err != nil:
		return err
	case breach != nil:
		r.fail(breach, 1)
	default:
		r.count(evidence.Structure, 1, 0)
	}
	j, err := s.t.judge(s.bench.ctx, x.l, x.base, manner{withTruth: x.c.isAccuracy, withBig: s.o.Level >= Full})
	if err != nil {
		return err
	}
	r.Found = *j
	tier := s.t.mainTier()
	r.count(tier, j.Elements-j.Unspecified, j.Mismatches)
	if j.first != nil && r.First == nil {
		r.First = j.first
	}
	if x.l.isGrid() {
		r.count(evidence.Grid, j.Elements, j.Mismatches)
		if j.first != nil {
			r.First.Tier = evidence.Grid
		}
	}
	if s.t.Lowering.IsBounded && x.c.isStatistics {
		s.statistics(x, j, r)
	}
	return nil
}

// mainTier returns the tier in which every output is compared.
func (t *Target) mainTier() evidence.TierName {
	if t.Lowering.IsBounded {
		return evidence.Set
	}
	return evidence.Bits
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

// cause returns the finding that a kernel ended in an error.
func cause(err error) *finding {
	return &finding{Operand: -1, Message: firstLine(err.Error()), IsCause: true, IsHang: errors.Is(err, errHung)}
}

// breach returns what is wrong with a run's structure, or nil. If an output still holds the
// poison, the case is run again with another poison: a kernel may write any NaN and any
// int32.
func (s *verification) breach(x *trialRun) (*finding, error) {
	if x.base.breach != nil {
		return x.base.breach, nil
	}
	suspects := x.base.after.Unwritten(x.l.operands, nil)
	if len(suspects) == 0 {
		return nil, nil
	}
	out, err := s.bench.run(x.l, s.o.deadline(), 1)
	if err != nil {
		return nil, err
	}
	if suspects = out.after.Unwritten(x.l.operands, suspects); len(suspects) == 0 {
		return nil, nil
	}
	at := suspects[0]
	bits := out.operands[at.Operand].Bits(at.Row, at.Col)
	return &finding{
		Tier: evidence.Structure, Operand: at.Operand, Row: at.Row, Col: at.Col, Got: bits, Want: bits, WantTo: bits,
		Message: fmt.Sprintf("it is not written (%d such elements)", len(suspects)),
	}, nil
}

func sortedKeys[V any](m map[int64]V) []int64 { return slices.Sorted(maps.Keys(m)) }
