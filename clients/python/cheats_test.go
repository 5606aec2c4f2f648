package python_test

import (
	"bytes"
	"os/exec"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// TestCheats has kernels judged that cheat (cheats), and runs what docs/foreign.md says of kernels that are plain Python.
func TestCheats(t *testing.T) { judged(t, false, "test_cheats.Plain", "test_foreign.Document") }

// TestCheatsWithTorch has kernels judged that cheat by means of torch.
func TestCheatsWithTorch(t *testing.T) { judged(t, true, "test_cheats.Torch") }

// TestForeign runs the reproductions of docs/foreign.md that need torch.
func TestForeign(t *testing.T) { judged(t, true, "test_foreign.Torch") }

func TestAutograd(t *testing.T) { judged(t, true, "test_autograd.Torch") }

func judged(t *testing.T, needsTorch bool, tests ...string) {
	t.Helper()
	watch(t)
	testlevel.Need(t, testlevel.Quick, "kernels are judged, which takes half a minute")
	interpreter := python(t)
	if needsTorch {
		if err := exec.Command(interpreter, "-c", "import torch").Run(); err != nil {
			tool.Missing(t, "torch", interpreter+" cannot import it: kernels that use it, and the reproductions in docs/foreign.md, are not tested")
		}
	}
	unittest(t, build(t), interpreter, tests...)
}

// unittest runs tests of which none may be skipped.
func unittest(t *testing.T, program, python string, tests ...string) {
	t.Helper()
	if out := run(t, program, python, append([]string{"-m", "unittest"}, tests...)...); !bytes.HasSuffix(out, []byte("\nOK\n")) {
		t.Errorf("want all tests to pass and none to be skipped, got\n%s", out)
	}
}
