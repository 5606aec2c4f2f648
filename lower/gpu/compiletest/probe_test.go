package compiletest

import (
	"fmt"
	"testing"

	"tokitai/device/gpu/compile"
	"tokitai/lower/gpu"
)

// TestProbes compiles the kernels that run matrix instructions, for architectures that have
// them.
func TestProbes(t *testing.T) {
	compiler := nvrtc(t)
	for _, architecture := range []string{"sm_80", "sm_89", "sm_90a", "sm_100", "sm_120"} {
		instructions := gpu.MatrixInstructions(architecture)
		if len(instructions) == 0 {
			t.Errorf("%s has no instruction", architecture)
		}
		for _, i := range instructions {
			s := complete("probe.cu", "#include \"tensorcore.h\"\n"+gpu.NewProbe(i).Source.Text)
			s.Headers = append(s.Headers, compile.Header{Name: "tensorcore.h", Text: gpu.TensorCores})
			if _, err := compiler.Compile(architecture, s); err != nil {
				t.Errorf("%s, %v, %s: %v", architecture, i, i.DType, err)
			}
		}
	}
	for _, architecture := range []string{"sm_75", "sim64", "gfx942", ""} {
		if list := gpu.MatrixInstructions(architecture); len(list) > 0 {
			t.Errorf("%s has %v", architecture, fmt.Sprint(list))
		}
	}
}
