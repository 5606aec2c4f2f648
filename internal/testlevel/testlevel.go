// Package testlevel controls how much tests do. `go test ./...` has to be quick on every
// machine, so it runs at level smoke: a little of everything. Longer tests run at a higher
// level, set by the environment variable TOKITAI_LEVEL, and in a step of .ci/run.
package testlevel

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
)

// Level is how much is tested. The names are those of `tokitai verify --level`.
type Level uint8

const (
	Smoke      Level = iota // the default of go test
	Quick                   // minutes for everything: the steps of .ci/run
	Full                    // minutes for a package
	Exhaustive              // every argument
)

// Variable is the environment variable that sets the level.
const Variable = "TOKITAI_LEVEL"

var names = []string{"smoke", "quick", "full", "exhaustive"}

func (l Level) String() string { return names[l] }

// parse parses the variable's value. An unknown name is an error, so that a typing mistake
// does not lower the level.
func parse(s string) (Level, error) {
	if s == "" {
		return Smoke, nil
	}
	if i := slices.Index(names, s); i >= 0 {
		return Level(i), nil
	}
	return 0, fmt.Errorf("%s: got %q, want one of %v", Variable, s, names)
}

// Current returns the level of this process. It exits if the variable is invalid.
func Current() Level {
	l, err := parse(os.Getenv(Variable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return l
}

// Pick returns the value for the current level: the first at smoke, the second at quick,
// and so on; the last value is for all higher levels.
func Pick[T any](smoke T, above ...T) T {
	values := append([]T{smoke}, above...)
	return values[min(int(Current()), len(values)-1)]
}

// SampleVariable is the environment variable with the number of the sample that tests take of what
// takes too long to do in full.
const SampleVariable = "TOKITAI_SAMPLE"

// InSample reports whether element i is in a sample of one in every. Which sample it is, the environment
// says: .ci/run draws it from the content of the commit. Without that it is the first.
func InSample(i, every int) bool {
	sample, err := parseSample(os.Getenv(SampleVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return i%every == sample%every
}

func parseSample(s string) (int, error) {
	sample, err := strconv.Atoi(cmp.Or(s, "0"))
	if err != nil || sample < 0 {
		return 0, fmt.Errorf("%s: got %q, want a number from 0 on", SampleVariable, s)
	}
	return sample, nil
}

// Need skips the test if the current level is below l.
func Need(t testing.TB, l Level, why string) {
	t.Helper()
	if Current() < l {
		t.Skipf("%s: set %s=%s", why, Variable, l)
	}
}
