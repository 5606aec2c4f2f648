// Package verify decides whether a lowering computes its definition. It runs the kernel on
// cases that reach every boundary (package cases), in guarded and poisoned memory (launch.go,
// package trial), compares the outputs with the answer (judge.go, tile.go), checks relations
// between results and invariances of them (check.go), tests the errors of kernels that
// promise no bits statistically (statistics.go), shrinks a failing case (shrink.go), and
// writes a report (report.go).
//
// A verdict lists tiers by name:
//
//	structure   every output written, nothing else, inputs unchanged
//	bits        equal to the reference under the declared model (promise bits)
//	set         in the admissible set (promises ordered and stable)
//	grid        one answer in every order: a lost product always shows
//	statistics  promises ordered and stable: bias, spread and misrounding of the errors
//	relations   powers of two, permutation, splitting, padding, transposition, in place
//	invariance  repeated runs, layouts, numbers of workers, concurrent launches
//
// Which outputs are admissible depends on the promise (sets.go): the answer; the results of the
// definition's own steps in a declared order; or those of any stable form (stable.go), with sums
// of a height that is declared or inferred (height.go). A verdict says whether a kernel is honest,
// and a report also says whether it is accurate (accuracy.go). If the sets are too wide to decide
// anything, the verdict is undecided (sharpness.go, kept_promise.go).
//
// [Probe] finds the model of a device's matrix instructions (package probe).
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
	"tokitai/promise"
	"tokitai/verify/cases"
)

// Target is the subject of a verification: one lowering of one definition, in the storage formats
// that one format names.
type Target struct {
	// Operation has the kinds of data, patterns and relations. If it is nil, those that
	// every definition has are used.
	Operation  *op.Operation
	Definition *def.Definition
	Lowering   *engine.Lowering
	DType      num.DType
	Backend    engine.Backend // whose devices the lowering is for; nil is the CPU's
	Variants   []Variant      // other ways to run the kernel, for Options.Invariance

	formatList     once[[][]num.DType]
	checkList      once[[]*check]
	invarianceList once[[]*check]

	architecture once[string] // of the device
	models       models
	shared       *shared // with other targets
	fixed        cases.Fixed
	caseTarget   once[*cases.Target]
}

// once is a value that is built on first use. Verifications of one target may run concurrently.
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
				for _, dtype := range num.AllDTypes {
					t := &Target{Operation: o, Definition: d, Lowering: l, DType: dtype, Backend: b}
					if t.IsStored() {
						list = append(list, t)
					}
				}
			}
		}
	}
	return list
}

// IsStored reports whether the definition can be stored in the target's format, and the lowering
// takes it.
func (t *Target) IsStored() bool { return len(t.formats()) > 0 }

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

// IsFallback reports whether calls use the lowering only if another one, which computes by the
// same rules and which the backend prefers, is not admitted.
func (t *Target) IsFallback() bool {
	preferred := t.Backend.Preferred(t.Definition)
	at := slices.Index(preferred, t.Lowering)
	return at > 0 && slices.ContainsFunc(preferred[:at], func(l *engine.Lowering) bool {
		return t.takesLike(l) && l.Promise.AccumFor == nil && t.Lowering.Promise.AccumFor == nil && l.Promise.Accum == t.Lowering.Promise.Accum && l.Promise.IsBits() == t.Lowering.Promise.IsBits()
	})
}

// takesLike reports whether another lowering takes the target's operands.
func (t *Target) takesLike(l *engine.Lowering) bool {
	return slices.ContainsFunc(t.Definition.Formats(), func(f []num.DType) bool { return t.Definition.Format(f) == t.DType && l.Takes(t.Definition, f) == nil })
}

// ID returns the lowering's id.
func (t *Target) ID() string { return t.Lowering.ID(t.Definition) }

// Options configures Run. The zero value is level smoke on the CPU with seed 0.
type Options struct {
	Device   string                                   // as Open takes it; "" is cpu
	Open     func(name string) (engine.Device, error) // nil is cpu.Open
	Level    Level
	Seed     uint64
	Case     string        // this case alone, and unshrunk: a replay
	Deadline time.Duration // for one launch; 0 is a minute

	// Budget is the time after which Run waits for no further case; 0 means no limit. The cases of
	// level smoke run first, and all of them must have run for the verdict accepted; the others
	// follow in an order drawn from the seed. The report counts the cases that were not run. The time
	// that a kernel's processes take to start and to answer their first calls does not count, up to as
	// much again. A single case (Case) has no budget.
	Budget time.Duration

	// WorkBudget is the work, in the unit of [Target.Work], after which no further case is run; 0
	// means no limit. Cases are in the same order as under Budget, and those of level smoke always
	// run. Unlike Budget it chooses the same cases on every machine.
	WorkBudget float64

	// Part says which of the cases are run, by their names: those of one shard of a campaign. nil is all.
	// The journal then also has what Glue needs, and the report is only about these cases.
	Part func(name string) bool

	// Shapes are run beside those of the level, with every pattern, format and check. Each
	// has a size for every letter of the definition.
	Shapes []Shape

	// Restrict leaves out shapes that the kernel is not declared for.
	Restrict Restrictions

	// FirstFailure ends the verification after the first case that fails, which is not shrunk:
	// the verdict is that of all cases, and the tiers count only what ran.
	FirstFailure bool

	// Progress is called after every case; it may be nil.
	Progress func(done, total int)

	// Work is called after every case with its share of the work that [Target.Work]
	// returns, and with whether the journal had the result; it may be nil.
	Work func(work float64, isKnown bool)

	// Journal records finished cases across runs; it may be nil.
	Journal *Journal

	// InterpretAll interprets every answer. Otherwise, for devices other than the CPU and
	// above level smoke, most answers come from compiled code for the CPU that was verified
	// in the same run, and at least one output in 16 is interpreted as well.
	InterpretAll bool

	// Invariance adds checks of properties that need no answer: a row alone and in batches of
	// every size, reruns, other memory, other calls in between, other queues. The report lists
	// every property.
	Invariance bool

	// OnlyInvariance runs only the checks of these properties, and judges no output. If a kernel is
	// accepted, the properties hold, and it writes every output and nothing else.
	OnlyInvariance bool

	// Unhashed leaves out the hashes of every case's inputs and outputs. The report has the verdict,
	// but others cannot check it.
	Unhashed bool

	// IsNamed says that the command line of the program tokitai can name the target, so
	// that a failure has a replay command. Targets of shipped operations and lowerings
	// always have one.
	IsNamed bool

	// Command is the beginning of the replay command, such as tokitai check softmax.forward --exec
	// ./kernel, for a target that OP, --device and --lowering do not name.
	Command string

	// Waive names clauses of the operation's contract, such as crossentropy.forward.C5, from which
	// the kernel may differ: outputs that differ are counted and reported, but are not mismatches.
	// Clauses about arithmetic cannot be waived.
	Waive []string

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

	// JudgeFaults lists the compiled code for computing answers that was found wrong. If one of its
	// answers was wrong, the report is that of a second run, in which all answers are interpreted.
	JudgeFaults []string

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
	if err := t.checkWaived(o.Waive); err != nil {
		return nil, err
	}
	if err := o.Level.Check(); err != nil {
		return nil, err
	}
	for _, s := range o.Shapes {
		if err := t.CheckShape(s); err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
	}
	if err := t.CheckRestrictions(o.Restrict); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	if o.Case != "" {
		o.Budget, o.WorkBudget = 0, 0
	}
	o.Invariance = o.Invariance || o.OnlyInvariance
	defer t.shared.leave()
	var waiting waiting
	limited, spend := o.limited(ctx, &waiting)
	defer spend()
	var planned cases.Schedule
	switch {
	case o.Case != "":
		c, err := t.Cases().Parse(o.Case)
		if err != nil {
			return nil, err
		}
		planned.Cases = []*cases.Case{c}
	case ctx.Err() == nil:
		planned = t.Cases().Schedule(o.request(t))
	}
	s := newVerification(t, &o, planned)
	s.waiting = &waiting
	own := o.part(t, planned.Cases)
	s.run(limited, own)
	defer s.judges.close()
	faults := s.judges.faults
	if wrong := s.judges.wrongAnswer(); wrong != "" {
		faults = append(faults, wrong)
		o.InterpretAll = true
		s = newVerification(t, &o, planned)
		s.waiting = &waiting
		s.run(limited, own)
	}
	s.faults = faults
	report := s.report(ctx)
	if o.Part != nil && o.Journal != nil {
		s.keepRan(report)
	}
	r := &Result{Report: report, Replay: s.replay(nil), Shown: s.shown, JudgeFaults: faults}
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
		for _, f := range t.Definition.Formats() {
			if err := t.Lowering.Takes(t.Definition, f); err != nil && t.Definition.Format(f) == t.DType {
				return fmt.Errorf("verify: %s: %w", t.Definition.Name, err)
			}
		}
		return fmt.Errorf("verify: %s: %s names none of its formats", t.Definition.Name, t.DType)
	}
	if err := t.checkDeclared(); err != nil {
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

	total         int // cases
	smoke         int // of these, those of level smoke, which run first if there is a budget
	leftOutOfWork int // cases of the level that are not among them, for a budget of work
	done          []caseResult
	first         *failedCase // what is reported
	causes        int         // cases in which the kernel ended in an error
	firstErr      string      // of these
	began         time.Time
	openErr       error
	waiting       *waiting // what a budget does not count

	waitedFor string // the case that was running when the context ended

	unsuited    int   // cases that the lowering leaves to others
	whyUnsuited error // the last of them
	refused     refusals
	shrunk      *shrunk
	whenFails   string   // what the failing cases have in common
	profiles    string   // which of them admit the kernel
	shown       []string // of the one case that was asked for

	ranListings, ranArtifacts []string // the programs that have run, as whoever launches sees it
	compiled                  int      // kernels

	planned             []*cases.Case // of all shards
	glued               *gluedFrom    // nil if the cases ran here
	machine             *device.Description
	unwatched           string        // why callers cannot be watched on the device, or ""
	device              engine.Device // perhaps closed
	listings, artifacts []string      // of the programs that ran, each once

	judges judges
	faults []string             // of judges
	whole  map[*cases.Case]bool // where compiled code computes answers: the cases that are interpreted as a whole
}

func newVerification(t *Target, o *Options, planned cases.Schedule) *verification {
	return &verification{t: t, o: o, planned: planned.Cases, smoke: planned.Smoke, leftOutOfWork: planned.LeftOut, tiers: map[evidence.TierName]*evidence.Tier{}, began: time.Now()}
}

// caseResult is the result of one case, as a journal keeps it.
type caseResult struct {
	Name    string                              `json:"name"`
	Inputs  string                              `json:"inputs"`  // their hash
	Outputs string                              `json:"outputs"` // likewise
	Found   judgement                           `json:"found"`
	Check   *finding                            `json:"check,omitempty"`   // of the case's relation or invariance
	Runs    int64                               `json:"runs,omitempty"`    // of the kernel, for it
	Refused int64                               `json:"refused,omitempty"` // calls, as the definition refuses them
	Extra   int64                               `json:"extra"`             // outputs compared by a relation or invariance
	Tiers   map[evidence.TierName]evidence.Tier `json:"tiers"`
	First   *finding                            `json:"first,omitempty"`
	Kernel  float64                             `json:"kernel"` // seconds

	HasOutputs bool `json:"has_outputs,omitempty"` // or was found to have none, which is a failure
	IsOwnData  bool `json:"is_own_data,omitempty"` // its sets count for the verdict

	Unsuited *unsuited `json:"unsuited,omitempty"` // why the kernel does not take the case; kept in shards alone

	Choice *engine.Choice `json:"choice,omitempty"`
	Model  string         `json:"model,omitempty"` // of a case with a choice

	shown []string // its operands, where one case was asked for

	Listings  []string `json:"listings,omitempty"`  // of programs that were first compiled for this case
	Artifacts []string `json:"artifacts,omitempty"` // their SHA-256, where they were compiled at run time
}

type failedCase struct {
	c     *cases.Case
	found *finding
}

// Promised returns what the target's lowering promises.
func (t *Target) Promised() promise.Name { return t.Lowering.Promise.Named() }

// isJudged reports whether an operand is an output that the kernel writes.
func (t *Target) isJudged(operand int) bool {
	o := &t.Definition.Operands[operand]
	return o.IsOut && !slices.Contains(t.Lowering.Promise.Declares.Omits, o.Name)
}

// mainTier returns the tier in which every output is compared.
func (t *Target) mainTier() evidence.TierName {
	if !t.Lowering.Promise.IsBits() {
		return evidence.Set
	}
	return evidence.Bits
}

func sortedKeys[V any](m map[int64]V) []int64 { return slices.Sorted(maps.Keys(m)) }
