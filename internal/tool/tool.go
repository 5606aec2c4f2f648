// Package tool finds the programs that tests need besides Go, git and GNU coreutils. A test
// that needs a missing one is skipped with the reason. If the environment variable
// TOKITAI_REQUIRE lists the program, the test fails instead, so that a green run cannot mean
// that nothing ran.
package tool

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Variable lists, separated by commas, the programs and devices that must be present.
const Variable = "TOKITAI_REQUIRE"

// Need returns the path of the first of the named programs that is on PATH. Names after the
// first are alternatives to it; Variable lists the first. A name may be a path.
func Need(t testing.TB, name string, alternatives ...string) string {
	t.Helper()
	for _, name := range append([]string{name}, alternatives...) {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	reason := "it is not on PATH"
	if len(alternatives) != 0 {
		reason = fmt.Sprintf("neither it nor %s is on PATH", strings.Join(alternatives, " or "))
	}
	Missing(t, name, reason)
	return ""
}

// Has reports whether the named program is on PATH, for tests that do one thing more where it
// is. It fails the test if Variable lists the program and it is missing.
func Has(t testing.TB, name string) bool {
	t.Helper()
	_, err := exec.LookPath(name)
	if err != nil && IsRequired(name) {
		t.Fatalf("%s lists %s: it is not on PATH", Variable, name)
	}
	return err == nil
}

// Missing skips the test because it lacks what; it fails the test if Variable lists it.
func Missing(t testing.TB, what string, reason any) {
	t.Helper()
	if IsRequired(what) {
		t.Fatalf("%s lists %s: %v", Variable, what, reason)
	}
	t.Skipf("needs %s: %v", what, reason)
}

// IsRequired reports whether Variable lists what.
func IsRequired(what string) bool {
	return slices.Contains(strings.Split(os.Getenv(Variable), ","), what)
}
