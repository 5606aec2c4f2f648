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

// TestSoak compiles the kernels that hold a GPU to known answers. None spills, and four blocks fit on a
// multiprocessor.
func TestSoak(t *testing.T) {
	compiler := nvrtc(t)
	for _, architecture := range []string{"sm_75", "sm_80", "sm_90a", "sm_120"} {
		source := gpu.NewSoak(architecture).Source
		text := source.Text
		if source.NeedsTensorCores {
			text = "#include \"tensorcore.h\"\n" + text
		}
		s := complete("soak.cu", text)
		s.Headers = append(s.Headers, compile.Header{Name: "tensorcore.h", Text: gpu.TensorCores})
		program, err := compiler.Compile(architecture, s)
		if err != nil {
			t.Errorf("%s: %v", architecture, err)
			continue
		}
		for _, use := range program.Usage {
			t.Logf("%s, %s: %d registers", architecture, use.Entry, use.Registers)
			if use.Registers > 64 || use.SpillStoreBytes > 0 {
				t.Errorf("%s, %s: %d registers, %d bytes spilled", architecture, use.Entry, use.Registers, use.SpillStoreBytes)
			}
		}
	}
}
