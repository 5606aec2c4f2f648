// Package testlevel says how much a test does. `go test ./...` is for every machine at every
// moment, so it takes level smoke: a little of everything. What takes longer has a level at
// which it runs, named by the environment variable TOKITAI_LEVEL, and a step of .ci/run.
package testlevel

import (
	"fmt"
	"os"
	"slices"
	"testing"
)

// Level is how much is tested. The names are those of `tokitai verify --level`.
type Level uint8

const (
	Smoke      Level = iota // what go test does by itself
	Quick                   // minutes for everything: what .ci/run does, by steps
	Full                    // minutes for a package
	Exhaustive              // every argument
)

// Variable names the environment variable.
const Variable = "TOKITAI_LEVEL"

var names = []string{"smoke", "quick", "full", "exhaustive"}

func (l Level) String() string { return names[l] }

// parse reads the variable's value. A name that means nothing must not pass for less.
func parse(s string) (Level, error) {
	if s == "" {
		return Smoke, nil
	}
	if i := slices.Index(names, s); i >= 0 {
		return Level(i), nil
	}
	return 0, fmt.Errorf("%s is %q, want one of %v", Variable, s, names)
}

// Current is the level of this process.
func Current() Level {
	l, err := parse(os.Getenv(Variable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return l
}

// Pick returns what the current level asks for: the first value at smoke, the second at
// quick, and so on; the last one stands for all levels above it.
func Pick[T any](smoke T, above ...T) T {
	values := append([]T{smoke}, above...)
	return values[min(int(Current()), len(values)-1)]
}

// Need skips the test below a level.
func Need(t testing.TB, l Level, why string) {
	t.Helper()
	if Current() < l {
		t.Skipf("%s: set %s=%s", why, Variable, l)
	}
}
