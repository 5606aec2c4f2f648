package foreign

import (
	"bytes"
	"debug/elf"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	backendgpu "tokitai/backend/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/num"
)

// hipDialect compiles HIP for AMD's GPUs, with hipRTC or clang. No header of ROCm is used.
type hipDialect struct{}

//go:embed cuda/tokitai_hip.h
var hipHeader string

func (hipDialect) check(string, string) error { return nil }

func (hipDialect) typeOf(t num.DType) string {
	if t == num.BF16 {
		return "__hip_bfloat16"
	}
	return cxxTypes[t]
}

func (hipDialect) include([]num.DType) string { return "#include \"tokitai_hip.h\"\n" }

func (hipDialect) rewrite(text string) string {
	return strings.NewReplacer("<hip/hip_runtime.h>", "<hip_runtime.h>", "<hip/hip_fp16.h>", "<hip_fp16.h>", "<hip/hip_bf16.h>", "<hip_bf16.h>").Replace(text)
}

// entries uses the kernels, so that templates become code.
func (hipDialect) entries(names []string) string {
	var b strings.Builder
	for i, name := range names {
		fmt.Fprintf(&b, "__attribute__((device, used)) const void* tokitai_entry_%d = (const void*)&%s;\n", i, name)
	}
	return b.String()
}

var hipHeaders = []string{"hip_runtime.h", "hip_fp16.h", "hip_bf16.h", "stdio.h", "stdlib.h", "math.h", "cmath", "assert.h", "float.h", "cfloat", "limits.h", "climits", "stdint.h", "cstdint", "string.h"}

func (hipDialect) compile(dev *backendgpu.Device, s compile.Source, entries []string, _ []num.DType) (*compile.Program, []string, error) {
	compiler, err := dev.Device.Compiler()
	if err != nil {
		return nil, nil, err
	}
	s.Headers = append(s.Headers[:len(s.Headers):len(s.Headers)], compile.Header{Name: "tokitai_hip.h", Text: hipHeader})
	for _, name := range hipHeaders {
		s.Headers = append(s.Headers, compile.Header{Name: name, Text: "#include \"tokitai_hip.h\"\n"})
	}
	p, err := compile.Default().Compile(compiler, dev.Describe().Architecture, s)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, entry := range entries {
		name, err := kernelOf(p.Image, entry)
		if err != nil {
			return nil, nil, err
		}
		names = append(names, name)
	}
	return p, names, nil
}

// kernelOf finds a kernel in a code object by its C++ name: each kernel has a descriptor named
// after it.
func kernelOf(image []byte, entry string) (string, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return "", fmt.Errorf("the code object: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return "", fmt.Errorf("the code object: %w", err)
	}
	name, _, isTemplate := strings.Cut(entry, "<")
	mangled := fmt.Sprintf("_Z%d%s", len(name), name)
	var found []string
	for _, s := range symbols {
		kernel, ok := strings.CutSuffix(s.Name, ".kd")
		if ok && (kernel == name && !isTemplate || strings.HasPrefix(kernel, mangled) && strings.HasPrefix(kernel[len(mangled):], "I") == isTemplate) {
			found = append(found, kernel)
		}
	}
	slices.Sort(found)
	if len(found) != 1 {
		return "", fmt.Errorf("the code object has %d kernels that may be %s, want 1", len(found), entry)
	}
	return found[0], nil
}

func (hipDialect) params(arguments []byte, _ func() []region) []byte { return arguments }
