package foreign

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"

	backendgpu "tokitai/backend/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/hip"
	"tokitai/num"
)

//go:embed cuda/tokitai_hip.h
var simHIPHeader string

//go:embed cuda/tokitai_hip_names.h
var hipNamesText string

var hipNames = compile.Header{Name: "tokitai_hip_names.h", Text: hipNamesText}

// hipLanguage is HIP, which the simulator knows as CUDA with further names.
var hipLanguage = &language{
	name: "hip", title: "HIP",
	types: map[num.DType]string{num.F32: "float", num.F16: "__half", num.BF16: "__hip_bfloat16", num.I32: "int", num.E4M3: "unsigned char", num.E5M2: "unsigned char", num.I8: "signed char", num.I64: "long long"},
	onGPU: hipDialect{}, kinds: []string{"hip", "amdemu"}, gpu: "hip:0",
	places:     "hip:0, or without a GPU on an emulated one, --device amdemu, or in the simulator, --device sim",
	simHeaders: []compile.Header{{Name: "tokitai_hip.h", Text: simHIPHeader}, {Name: "tokitai_cuda.h", Text: simHeader}, hipNames},
	simRewrite: func(text string) string { return rewriteHIP(text, "tokitai_hip.h") },
}

// rewriteHIP lets a text include a header in the place of HIP's own, and declares shared memory
// in the newer way.
func rewriteHIP(text, header string) string {
	text = hipInclude.ReplaceAllString(text, fmt.Sprintf("${1}%q", header))
	return hipDynamicShared.ReplaceAllString(text, "extern __shared__ $1 $2[];")
}

var (
	// hipInclude matches the inclusion of a header of HIP that every compilation has.
	hipInclude = regexp.MustCompile(`(?m)^([ \t]*#[ \t]*include[ \t]*)[<"]hip/(?:hip_runtime|hip_runtime_api|hip_fp16|hip_bf16|hip_bfloat16|hip_vector_types|hip_common|math_functions|device_functions)\.h[>"]`)

	// hipDynamicShared matches HIP's older way to declare shared memory whose size the launch gives.
	hipDynamicShared = regexp.MustCompile(`\bHIP_DYNAMIC_SHARED\s*\(\s*([^,()]+?)\s*,\s*(\w+)\s*\)[ \t]*;?`)
)

// hipDialect compiles HIP for AMD's GPUs, with hipRTC and the options that hipcc has by default.
type hipDialect struct{}

func (hipDialect) check(string, string) error { return nil }

func (hipDialect) include([]num.DType) string { return including(hipRTCHeader.Name) }

// rewrite includes what hipRTC has without a file.
func (hipDialect) rewrite(text string) string { return rewriteHIP(text, hipRTCHeader.Name) }

func (hipDialect) entries([]string) string { return "" }

//go:embed cuda/tokitai_hiprtc.h
var hipRTCHeaderText string

var hipRTCHeader = compile.Header{Name: "tokitai_hiprtc.h", Text: hipRTCHeaderText}

func (hipDialect) compile(dev *backendgpu.Device, s compile.Source, entries []string, _ []num.DType) (*compile.Program, []string, error) {
	architecture := dev.Describe().Architecture
	compiler, err := hip.RuntimeCompiler(architecture)
	if err != nil {
		return nil, nil, fmt.Errorf("hipRTC compiles for %s; the simulator, --device sim, needs only g++: %w", architecture, err)
	}
	s.Headers = append(slices.Clone(s.Headers), hipRTCHeader, hipNames)
	for _, name := range hostHeaders {
		s.Headers = append(s.Headers, compile.Header{Name: name, Text: including(hipRTCHeader.Name)})
	}
	return compiler.CompileNamed(architecture, s, []string{"--offload-arch=" + architecture, "-O3", "-std=c++17", "-gline-tables-only"}, entries)
}

func (hipDialect) params(arguments []byte, _ func() []region) []byte { return arguments }
