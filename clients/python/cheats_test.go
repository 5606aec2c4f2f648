package python_test

import (
	"bytes"
	"os/exec"
	"testing"

	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
)

// TestForeign has kernels judged that cheat (cheats), and runs what docs/foreign.md says of
// PyTorch. Both have parts that need torch.
func TestForeign(t *testing.T) {
	watch(t)
	testlevel.Need(t, testlevel.Quick, "some fifty kernels are judged, which takes a minute")
	interpreter := python(t)
	program := build(t)
	t.Run("plain", func(t *testing.T) { unittest(t, program, interpreter, "test_cheats.Plain", "test_foreign.Document") })
	t.Run("torch", func(t *testing.T) {
		if err := exec.Command(interpreter, "-c", "import torch").Run(); err != nil {
			tool.Missing(t, "torch", interpreter+" cannot import it: kernels that cheat with it, and the reproductions in docs/foreign.md, are not tested")
		}
		unittest(t, program, interpreter, "test_cheats.Torch", "test_foreign.Torch", "test_autograd.Torch")
	})
}

// unittest runs tests of which none may be skipped.
func unittest(t *testing.T, program, python string, tests ...string) {
	t.Helper()
	if out := run(t, program, python, append([]string{"-m", "unittest"}, tests...)...); !bytes.HasSuffix(out, []byte("\nOK\n")) {
		t.Errorf("want all tests to pass and none to be skipped, got\n%s", out)
	}
}
