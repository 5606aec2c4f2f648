package cases

import (
	"fmt"
	"slices"
	"strconv"
)

// Level says how much is checked.
type Level uint8

const (
	Smoke      Level = iota // at most 2.1·10⁵ outputs of an operation: for emulators and sanitizers
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

// Check returns an *UnknownError unless the level is one of those above.
func (l Level) Check() error {
	if int(l) >= len(levelNames) {
		return &UnknownError{What: "level", Name: strconv.Itoa(int(l)), Known: levelNames}
	}
	return nil
}

// Reruns returns how often the check rerun makes a call again.
func (l Level) Reruns() int { return plans[l].reruns }

// plan holds how many cases of each kind a level has, and how large they are.
type plan struct {
	small    int   // every size up to this
	edges    int   // boundaries (powers of two and their neighbours) up to this, of the last axis
	others   int   // and of the others
	outputs  int64 // of one boundary case, at most
	shapes   int   // of the list below, for each pattern
	random   int   // cases of random shape, pattern and layout, whatever the seed
	drawn    int   // cases of shape, pattern and layout that the seed draws
	area     int64 // outputs of one of these, at most
	accuracy int64 // outputs of a kind of data, at least
	alone    int   // values that are no number, each alone in a long sum
	checks   int   // shapes on which each relation and invariance is tried
	params   int   // variations of the parameters
	pairs    bool  // axes that are long together
	macs     int64 // multiply-adds of one contraction, at most
	factors  int64 // of a product of a model's shape, at most
	large    int64 // outputs of one large case
	every    bool  // every pattern of the first input's format, if it has 16 bits
	all      bool  // every pattern of 32 bits, every pair of 16

	endurance int   // times that a kernel runs again on a tiny case
	reruns    int   // times that a call is made again, with Request.Invariance
	popular   int   // shapes of models that are long in all axes; 0: one of the smallest from level quick on
	far       []int // how far apart the rows of some cases lie: the exponents of numbers of elements
}

var plans = [...]plan{
	Smoke:      {small: 8, edges: 2049, others: 257, outputs: 2100, shapes: 1, random: 10, drawn: 8, area: 128, accuracy: 0, alone: 4, checks: 1, macs: 1 << 17, factors: 1 << 13, params: 4, endurance: 40, reruns: 20},
	Quick:      {small: 40, edges: 33_000, others: 8193, outputs: 50_000, shapes: 3, random: 25, drawn: 100, area: 1 << 12, accuracy: 1 << 16, alone: 24, checks: 2, macs: 1 << 21, factors: 1 << 17, large: 1 << 16, every: true, params: 40, pairs: true, endurance: 3000, reruns: 100, far: []int{24, 31}},
	Full:       {small: 140, edges: 1 << 20, others: 1 << 17, outputs: 1 << 21, shapes: 6, random: 1500, drawn: 1500, area: 1 << 17, accuracy: 1 << 20, alone: 100, checks: 4, macs: 1 << 26, factors: 1 << 23, large: 1 << 24, every: true, params: 300, pairs: true, endurance: 30_000, reruns: 1000, popular: 6, far: []int{24, 31, 32}},
	Exhaustive: {small: 600, edges: 1 << 24, others: 1 << 20, outputs: 1 << 25, shapes: 8, random: 40_000, drawn: 20_000, area: 1 << 20, accuracy: 1 << 24, alone: 1000, checks: 8, macs: 1 << 30, factors: 1 << 27, large: 1 << 26, every: true, all: true, params: 3000, pairs: true, endurance: 1_000_000, reruns: 10_000, popular: 60, far: []int{24, 31, 32}},
}
