package gpu

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tokitai/internal/tensorcore"
	"tokitai/num"
)

//go:embed kernels/probe.cu
var probeText string

// Probe is a kernel that runs a matrix instruction on many tiles, one block each. Its
// parameters are the addresses of a [tensorcore.Batch]'s A, B, C and D.
type Probe struct {
	Source      Source
	Threads     int
	SharedBytes int
}

// MatrixInstructions lists the matrix instructions of an architecture that a Probe can run.
func MatrixInstructions(architecture string) []tensorcore.Instruction {
	number, isNVIDIA := strings.CutPrefix(architecture, "sm_")
	capability, _ := strconv.Atoi(strings.TrimRight(number, "af"))
	isSimulated := architecture == "sim32"
	var list []tensorcore.Instruction
	add := func(family string, m, n, bytes int, formats ...num.DType) {
		for _, d := range formats {
			list = append(list, tensorcore.Instruction{Family: family, M: m, N: n, K: bytes / d.Size(), DType: d})
		}
	}
	if isNVIDIA && capability >= 80 || isSimulated {
		add("mma.sync", 16, 8, probeBytes, num.F16, num.BF16)
	}
	if isNVIDIA && capability >= 89 {
		add("mma.sync", 16, 8, probeBytes, num.FP8DTypes...)
	}
	if architecture == "sm_90a" || isSimulated {
		add("wgmma", 64, 64, probeBytes, num.F16, num.BF16)
	}
	if architecture == "sm_90a" {
		add("wgmma", 64, 64, probeBytes, num.FP8DTypes...)
	}
	return list
}

// KnownArchitectures lists the architectures of NVIDIA's GPUs whose matrix instructions have a
// model.
func KnownArchitectures() []string {
	names := slices.Sorted(maps.Keys(tensorCoreAccums))
	return slices.DeleteFunc(names, func(s string) bool { return !strings.HasPrefix(s, "sm_") })
}

// HasMMA reports whether an architecture has mma.sync with f16 and bf16.
func HasMMA(architecture string) bool { return len(MatrixInstructions(architecture)) > 0 }

// MatrixAccum returns the accumulation rule of an architecture's matrix instruction, or false if it is not
// known. FP8 is known for Hopper's wgmma alone.
func MatrixAccum(architecture string, i tensorcore.Instruction) (num.MMA, bool) {
	if i.DType.IsFP8() {
		return num.MMA{L: 32, F: 13, R: 13}, architecture == "sm_90a" && i.Family == "wgmma"
	}
	m, ok := TensorCoreAccum(architecture)
	return m.MMA(), ok
}

// probeBytes is the length of a row of A and of a column of B.
const probeBytes = 32

// NewProbe returns the kernel for an instruction.
func NewProbe(i tensorcore.Instruction) *Probe {
	isWarpgroup := i.Family == "wgmma"
	p := &Probe{Threads: 32}
	family := 0
	if isWarpgroup {
		family, p.Threads, p.SharedBytes = 1, 128, 2*64*128+1024
	}
	format := map[num.DType]int{num.F16: 0, num.BF16: 1, num.E4M3: 2, num.E5M2: 3}[i.DType]
	p.Source = Source{
		Name: "probe", Entries: []string{"probe_tiles"}, NeedsTensorCores: true,
		Text: fmt.Sprintf("#define FAMILY %d\n#define FORMAT %d\n#define FACTORS \"%s\"\n\n%s", family, format, i.DType, probeText),
	}
	return p
}
