package alone

import (
	"os"
	"strings"
	"testing"
)

// number is what tests would count.
var number int

func TestProcess(t *testing.T) {
	number++
	t.Run("a process", func(t *testing.T) {
		if !Process(t) {
			if number < 1 || os.Getenv(variable) != "" {
				t.Errorf("this process has %d, and is marked %q", number, os.Getenv(variable))
			}
			return
		}
		if number != 1 {
			t.Errorf("got %d, want 1: not a new process", number)
		}
		t.Log("seen in the new process")
	})
	number++
}

func TestFailing(t *testing.T) {
	if os.Getenv(variable) == t.Name() {
		t.Error("it fails there")
	}
}

func TestSkipping(t *testing.T) {
	if os.Getenv(variable) == t.Name() {
		t.Skip("it is skipped there")
	}
}

func TestEnding(t *testing.T) {
	if os.Getenv(variable) == t.Name() {
		os.Exit(0)
	}
}

// TestVerdicts: what happens in the process happens to the test.
func TestVerdicts(t *testing.T) {
	for name, want := range map[string][2]string{
		"TestFailing": {"it fails there", ""}, "TestSkipping": {"", "it is skipped there"}, "TestEnding": {"the test did not pass", ""}, "TestNothing": {"the test did not pass", ""},
	} {
		failure, skip := elsewhere(t.Context(), name)
		if !strings.Contains(failure, want[0]) || (failure == "") != (want[0] == "") || skip != want[1] {
			t.Errorf("%s: got %q and %q, want %q", name, failure, skip, want)
		}
	}
}
