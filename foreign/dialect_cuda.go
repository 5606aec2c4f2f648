package foreign

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	backendgpu "tokitai/backend/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/internal/dl"
	"tokitai/num"
)

// cudaLanguage is CUDA C++.
var cudaLanguage = &language{
	name: "cuda", title: "CUDA",
	types: map[num.DType]string{num.F32: "float", num.F16: "__half", num.BF16: "__nv_bfloat16", num.I32: "int", num.E4M3: "unsigned char", num.E5M2: "unsigned char", num.I8: "signed char", num.I64: "long long"},
	onGPU: cudaDialect{}, kinds: []string{"cuda"}, gpu: "cuda:0",
	places:     "cuda:0, or without a GPU in the simulator, --device sim",
	simHeaders: []compile.Header{{Name: "tokitai_cuda.h", Text: simHeader}},
	simRewrite: func(text string) string { return text },
}

// cudaDialect compiles CUDA C++ for NVIDIA's GPUs, with NVRTC and the options that nvcc has
// by default.
type cudaDialect struct{}

//go:embed cuda/tokitai_nvrtc.h
var nvrtcHeader string

func (cudaDialect) check(string, string) error { return nil }

func (cudaDialect) include(formats []num.DType) string {
	text := "#include \"tokitai_nvrtc.h\"\n"
	if slices.Contains(formats, num.F16) {
		text += "#include <cuda_fp16.h>\n"
	}
	if slices.Contains(formats, num.BF16) {
		text += "#include <cuda_bf16.h>\n"
	}
	return text
}

func (cudaDialect) rewrite(text string) string { return text }

func (cudaDialect) entries([]string) string { return "" }

// hostHeaders are headers that NVRTC lacks and kernels include by habit.
var hostHeaders = []string{"stdio.h", "cstdio", "stdlib.h", "cstdlib", "math.h", "cmath", "assert.h", "cassert", "float.h", "cfloat", "limits.h", "climits",
	"stdint.h", "cstdint", "stddef.h", "cstddef", "string.h", "cstring", "cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h"}

func (cudaDialect) compile(dev *backendgpu.Device, s compile.Source, entries []string, formats []num.DType) (*compile.Program, []string, error) {
	compiler, err := dev.Device.Compiler()
	if err != nil {
		return nil, nil, err
	}
	nvrtc, ok := compiler.(*compile.NVRTC)
	if !ok {
		return nil, nil, fmt.Errorf("%s has no NVRTC", dev.Describe().Name)
	}
	architecture := dev.Describe().Architecture
	options := []string{"--gpu-architecture=" + architecture, "--std=c++17", "-lineinfo"}
	folder, tried := toolkitHeaders(nvrtc.Path())
	switch {
	case folder != "":
		options = append(options, "-I"+folder)
	case slices.Contains(formats, num.F16) || slices.Contains(formats, num.BF16):
		return nil, nil, fmt.Errorf("cuda_fp16.h was not found in %s; install a CUDA toolkit, or pip install nvidia-cuda-runtime, or set CUDA_HOME to the toolkit's folder", strings.Join(tried, ", "))
	}
	s.Headers = append(s.Headers[:len(s.Headers):len(s.Headers)], compile.Header{Name: "tokitai_nvrtc.h", Text: nvrtcHeader})
	for _, name := range hostHeaders {
		s.Headers = append(s.Headers, compile.Header{Name: name, Text: "#include \"tokitai_nvrtc.h\"\n"})
	}
	return nvrtc.CompileNamed(architecture, s, options, entries)
}

// toolkitHeaders returns the folder with the headers of CUDA: that beside NVRTC, or else one in
// the usual places. It returns "" and what was tried if there is none.
func toolkitHeaders(library string) (folder string, tried []string) {
	lib := filepath.Dir(library)
	candidates := []string{filepath.Join(lib, "../include"), filepath.Join(lib, "../../include"), filepath.Join(lib, "../../cuda_runtime/include")}
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if root := os.Getenv(name); root != "" {
			candidates = append(candidates, filepath.Join(root, "include"))
		}
	}
	candidates = append(candidates, "/usr/local/cuda/include", "/usr/include")
	candidates = append(candidates, dl.PythonDirs("nvidia/cu13/include", "nvidia/cuda_runtime/include")...)
	for _, c := range candidates {
		if _, err := os.Stat(filepath.Join(c, "cuda_fp16.h")); err == nil {
			return c, nil
		}
		tried = append(tried, filepath.Clean(c))
	}
	return "", tried
}

func (cudaDialect) params(arguments []byte, _ func() []region) []byte { return arguments }
