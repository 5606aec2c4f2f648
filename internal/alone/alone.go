// Package alone runs a test in a process of its own. What is counted for the whole process
// (descriptors, mappings, goroutines, memory) is the test's own there, whatever other tests
// have left behind or are doing at the moment.
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

// variable marks the process, by the test's name.
const variable = "TOKITAI_TEST_ALONE"

var skipped = regexp.MustCompile(`(?m)^ *\w+\.go:\d+: (.*)\n *--- SKIP: `)

// Process returns true in a process that runs nothing but this test. Otherwise it starts
// one, takes over its verdict and returns false: the test returns then.
func Process(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) == t.Name() {
		// What the runtime opens for its poller, once, is nothing that the test opens.
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

// elsewhere runs the named test in a new process, and returns what is wrong or why the
// test was skipped, if anything.
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
		return fmt.Sprintf("in a process of its own: %v\n%s", err, out), ""
	}
	if why := skipped.FindSubmatch(out); why != nil {
		return "", string(why[1])
	}
	if !strings.Contains(string(out), "--- PASS: "+name+" ") {
		return fmt.Sprintf("in a process of its own it did not run to its end:\n%s", out), ""
	}
	return "", ""
}
