package cpu

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/cpu"
)

// features returns the instruction sets that matter to kernels and that both the
// processor and the operating system support, sorted.
var features = sync.OnceValue(func() []string {
	var names []string
	for name, present := range featureTable {
		if present {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Clip(names)
})

// featureTable maps names to support. All features of other architectures are
// false.
var featureTable = map[string]bool{
	"avx":         cpu.X86.HasAVX,
	"avx2":        cpu.X86.HasAVX2,
	"f16c":        cpu.X86.HasF16C,
	"fma":         cpu.X86.HasFMA,
	"avx512f":     cpu.X86.HasAVX512F,
	"avx512bw":    cpu.X86.HasAVX512BW,
	"avx512dq":    cpu.X86.HasAVX512DQ,
	"avx512vl":    cpu.X86.HasAVX512VL,
	"avx512_bf16": cpu.X86.HasAVX512BF16,
	"avx512_vnni": cpu.X86.HasAVX512VNNI,
	"amx_tile":    cpu.X86.HasAMXTile,
	"amx_bf16":    cpu.X86.HasAMXBF16,
	"amx_int8":    cpu.X86.HasAMXInt8,
	"asimd":       cpu.ARM64.HasASIMD,
	"asimdhp":     cpu.ARM64.HasASIMDHP,
	"sve":         cpu.ARM64.HasSVE,
	"sve2":        cpu.ARM64.HasSVE2,
	"i8mm":        cpu.ARM64.HasI8MM,
}

// processorName returns the model name that Linux reports, or else the
// architecture.
var processorName = sync.OnceValue(func() string {
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if name := modelName(text); name != "" {
			return name
		}
	}
	return runtime.GOARCH
})

// modelName returns the first "model name" in the text of /proc/cpuinfo. It is
// empty on arm64, where Linux writes none.
func modelName(cpuinfo []byte) string { return field(cpuinfo, "model name") }

// machineMemory returns the memory this process may use: that of the machine, or
// the limit of its control group or address space if that is less. It returns 0
// if unknown.
func machineMemory() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	memory := totalMemory(text)
	for _, path := range []string{
		"/sys/fs/cgroup/memory.max",                   // version 2
		"/sys/fs/cgroup/memory/memory.limit_in_bytes", // version 1
	} {
		text, _ := os.ReadFile(path)
		// "max", or no such file, means no limit.
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 {
			if memory == 0 || limit < memory {
				memory = limit
			}
		}
	}
	limits, _ := os.ReadFile("/proc/self/limits")
	status, _ := os.ReadFile("/proc/self/status")
	if space, ok := addressSpace(limits, status); ok && (memory == 0 || space < memory) {
		memory = space
	}
	return memory
}

// addressSpace returns the unused part of a limited address space, given the
// texts of /proc/self/limits and /proc/self/status; false if it is unlimited.
func addressSpace(limits, status []byte) (int64, bool) {
	_, rest, _ := strings.Cut(string(limits), "Max address space")
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0, false
	}
	limit, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil { // "unlimited"
		return 0, false
	}
	taken, _ := strconv.ParseInt(strings.TrimSuffix(field(status, "VmSize"), " kB"), 10, 64)
	return max(1, limit-taken<<10), true
}

// totalMemory returns MemTotal from the text of /proc/meminfo in bytes, or 0 if
// it is missing.
func totalMemory(meminfo []byte) int64 {
	kib, err := strconv.ParseInt(strings.TrimSuffix(field(meminfo, "MemTotal"), " kB"), 10, 64)
	if err != nil || kib < 0 || kib > 1<<53 {
		return 0
	}
	return kib << 10
}

// field returns the value of the first "key: value" line with that key.
func field(text []byte, key string) string {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
