package machine

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tokitai/internal/noexec"
)

// TestRefusedMemory runs itself in a process that may not execute what it has written.
func TestRefusedMemory(t *testing.T) {
	const variable = "TOKITAI_TEST_REFUSED"
	if os.Getenv(variable) == "" {
		if len(supported()) == 0 {
			t.Skip("nothing generates code for this processor")
		}
		p := exec.Command(os.Args[0], "-test.run=^TestRefusedMemory$", "-test.v")
		p.Env = append(os.Environ(), variable+"=1", Variable+"=")
		out, err := p.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Skip("this program runs in an emulator, which cannot start it: ", err)
		}
		if err != nil || strings.Contains(string(out), "--- FAIL") {
			t.Fatalf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("%s", out)
		}
		return
	}
	if err := noexec.Forbid(); err != nil {
		t.Skip(err)
	}
	if c, err := Load(emptyFunction); c != nil || err == nil || !strings.Contains(err.Error(), "executable memory: "+syscall.EACCES.Error()) {
		t.Errorf("Load gave %v, error %v", c, err)
	}
	if got := Available(); !slices.Equal(got, []Set{Plain}) {
		t.Errorf("Available() = %v, want plain alone", got)
	}
	if err := Check(); err != nil {
		t.Errorf("Check() = %v, want nil", err)
	}
	if want := "no code is generated, and kernels are slower: machine: executable memory: permission denied"; Note() != want {
		t.Errorf("Note() = %q, want %q", Note(), want)
	}
}
