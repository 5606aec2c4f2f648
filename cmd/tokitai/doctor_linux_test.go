package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tokitai/internal/noexec"
	"tokitai/lower/cpu/machine"
)

// TestDoctorWithoutExecutableMemory runs doctor in a process that may not execute what it has
// written: all kernels pass with what every processor has, and doctor says why.
func TestDoctorWithoutExecutableMemory(t *testing.T) {
	const variable = "TOKITAI_TEST_REFUSED"
	if os.Getenv(variable) == "" {
		p := exec.Command(os.Args[0], "-test.run=^TestDoctorWithoutExecutableMemory$", "-test.v")
		p.Env = append(os.Environ(), variable+"=1", machine.Variable+"=")
		out, err := p.CombinedOutput()
		if err != nil {
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
	if machine.Available()[0] != machine.Plain {
		t.Fatalf("code is generated for %v", machine.Available())
	}
	if !strings.Contains(machine.Note(), "executable memory") {
		t.Skip(machine.Note()) // another processor
	}
	doctorTests(t, "softmax.forward", "gemm.forward", "embedding.forward", "embedding.backward")
	var stdout, stderr bytes.Buffer
	if code := execute(context.Background(), []string{"doctor", "--device", "cpu"}, &stdout, &stderr); code != exitOK {
		t.Errorf("exit code %d\n%s", code, stderr.String())
	}
	for _, want := range []string{
		"kernels for  plain\n             no code is generated, and kernels are slower: machine: executable memory: permission denied\n",
		"softmax.forward/cpu.rowwise ", "gemm.forward/cpu.packed ", "embedding.forward/cpu.gather ", "embedding.backward/cpu.scatter ",
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("doctor does not say %q:\n%s", want, stdout.String())
		}
	}
}
