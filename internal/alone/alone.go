// Package alone runs a test in a separate process. Things that are counted per process
// (descriptors, mappings, goroutines, memory) are then the test's own, whatever other tests
// do or have left behind.
package alone

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// variable is the environment variable that marks the process; its value is the test's
// name.
const variable = "TOKITAI_TEST_ALONE"

var skipped = regexp.MustCompile(`(?m)^ *\w+\.go:\d+: (.*)\n *--- SKIP: `)

// Process returns true in the separate process, which runs only this test. Otherwise it
// starts that process, reports its result on t and returns false; the test must then
// return.
func Process(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) == t.Name() {
		// Open the runtime's poller first, so that it does not count as the test's.
		if r, w, err := os.Pipe(); err == nil {
			r.Close()
			w.Close()
		}
		return true
	}
	switch failure, skip := elsewhere(t.Context(), t.Name()); {
	case failure != "":
		t.Error(failure)
	case skip != "":
		t.Skip(skip)
	}
	return false
}

// elsewhere runs the named test in a new process. It returns the failure or the reason why
// the test was skipped, if any.
func elsewhere(ctx context.Context, name string) (failure, skip string) {
	self, err := os.Executable()
	if err != nil {
		return err.Error(), ""
	}
	var pattern []string
	for part := range strings.SplitSeq(name, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	command := exec.CommandContext(ctx, self, "-test.run="+strings.Join(pattern, "/"), "-test.v", "-test.count=1", "-test.timeout=0")
	command.Env = append(os.Environ(), variable+"="+name)
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("in a separate process: %v\n%s", err, out), ""
	}
	if why := skipped.FindSubmatch(out); why != nil {
		return "", string(why[1])
	}
	if !strings.Contains(string(out), "--- PASS: "+name+" ") {
		return fmt.Sprintf("in a separate process: the test did not pass:\n%s", out), ""
	}
	return "", ""
}
