// Package cases decides on which inputs a kernel is tried: it lists the cases of a verification by
// level and seed, names them and parses their names, and fills their operands.
//
// A case ([Case]) is one call: a pattern of values (pattern.go, region.go), sizes (list.go, drawn.go,
// checks.go), a layout, formats and parameters (params.go, fixed.go). Its name and a seed determine
// every value (fill.go). How many cases there are and how large follows from the level (level.go),
// which of them run under a budget from the schedule (schedule.go). The package knows a kernel only by
// the [Facts] that it is given: it neither runs nor judges one.
package cases

import (
	"sync"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op"
)

// Facts are what the cases of a target depend on.
type Facts struct {
	// Operation has the kinds of data and patterns. If it is nil, those that every definition has
	// are used.
	Operation  *op.Operation
	Definition *def.Definition
	DType      num.DType
	Formats    [][]num.DType // choices that DType names, the usual one first

	Grain   int  // of the kernel: sizes are multiples of it; 0 is 1
	IsBits  bool // what the kernel promises
	Flushes bool // parameters that are subnormal, as the kernel declares
	Fixed   Fixed

	// Checks lists the relations and invariances of the target, in the order in which they run.
	Checks func() []Check

	// Values returns the values that build makes, which other targets may have made before, or nil if
	// they are not kept. It may be nil.
	Values func(key string, n int, build func() []float32) []float32
}

// Check is a relation between results or an invariance of them that a case may be about.
type Check struct {
	Name         string
	IsInvariance bool
	IsAsked      bool                    // it runs only if the request has Invariance
	Sizes        func(length int) []Size // that it needs, of a length; nil if any will do
}

// NeedsNoAnswer reports whether a check can run without judging outputs.
func (k *Check) NeedsNoAnswer() bool { return k.IsInvariance && k.Name != "late-change" }

// Target makes cases: it lists them, parses their names and fills their operands.
type Target struct {
	Facts

	patternList func() []*Pattern
	borders     func() []border // of every input of a rowwise definition, those closest to 1 first
	caseNames   func() []string // of the quick cases under seed 0, for messages about unknown names
}

// New returns the target with the given facts.
func New(f Facts) *Target {
	t := &Target{Facts: f}
	t.patternList = sync.OnceValue(t.makePatterns)
	t.borders = sync.OnceValue(t.findBorders)
	t.caseNames = sync.OnceValue(t.quickNames)
	return t
}

// checks lists the checks that are part of every verification, or those that are asked for.
func (t *Target) checks(areAsked bool) []Check {
	var list []Check
	for _, k := range t.Checks() {
		if k.IsAsked == areAsked {
			list = append(list, k)
		}
	}
	return list
}

func (t *Target) checkNamed(name string) *Check {
	for _, k := range t.Checks() {
		if k.Name == name {
			return &k
		}
	}
	return nil
}

// Request says which cases are wanted.
type Request struct {
	Level    Level
	Seed     uint64
	Shapes   []Shape // beside those of the level
	Restrict Restrictions

	Invariance     bool // checks of properties that need no answer are added
	OnlyInvariance bool // nothing else is wanted
	HasVariants    bool // there are other ways to run the kernel

	IsTimed    bool    // the time is limited: cases of level smoke come first
	WorkBudget float64 // likewise the work; 0 means no limit

	Outputs int64 // of one boundary case, at most; 0: as the level says
}
