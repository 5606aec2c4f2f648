package verify

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
