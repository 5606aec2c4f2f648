// Package simtest runs kernels in the simulator, in separate processes: nothing is
// loaded into the test, so that sanitizers work and a crash is an error.
package simtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/sim"
	"tokitai/internal/tool"
	"tokitai/lower/gpu"
)

// Build says what a program checks besides barriers and shuffles.
type Build uint8

const (
	Plain   Build = iota
	Address       // bounds, by AddressSanitizer
	Race          // order of accesses, by the simulator's race detector
)

func (b Build) String() string { return [...]string{"plain", "address", "race"}[b] }

// flags of the kernel and of the runtime.
func (b Build) flags() (kernel, runtime []string) {
	common := []string{"-g1", "-gdwarf-4", "-std=c++17", "-ffp-contract=off", "-fno-fast-math", "-DTOKITAI_SIM", "-I."}
	switch b {
	case Address:
		common = append(common, "-O1", "-fsanitize=address")
		return common, common
	case Race:
		return append(common[:len(common):len(common)], "-O1", "-fsanitize=thread"), append(common, "-O2")
	}
	return append(common[:len(common):len(common)], "-O1", "-Wall", "-Werror", "-Wno-unused-function", "-Wno-unknown-pragmas", "-Wno-unknown-warning-option"), append(common, "-O2")
}

// Compiler returns the C++ compiler, that of TOKITAI_CXX if it is set, or skips the test
// where there is none.
func Compiler(t testing.TB) string {
	t.Helper()
	if named := os.Getenv("TOKITAI_CXX"); named != "" {
		return tool.Need(t, named)
	}
	return tool.Need(t, "g++", "clang++")
}

// runtime objects, one for each build, live as long as the process.
var runtimes [3]runtime

type runtime struct {
	once   sync.Once
	folder string
	err    error

	tensorCore    sync.Once
	tensorCoreErr error
}

// Clean removes the runtime objects; TestMain calls it.
func Clean() {
	for i := range runtimes {
		if runtimes[i].folder != "" {
			os.RemoveAll(runtimes[i].folder)
		}
	}
}

// addressSanitizer reports whether there is one: clang++ has its library in a separate
// package.
var addressSanitizer struct {
	once   sync.Once
	exists bool
}

func hasAddressSanitizer(t testing.TB, compiler string) bool {
	addressSanitizer.once.Do(func() {
		folder := t.TempDir()
		text := filepath.Join(folder, "empty.cc")
		if err := os.WriteFile(text, []byte("int main() {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		addressSanitizer.exists = runCompiler(folder, compiler, "-fsanitize=address", text, "-o", "empty") == nil
	})
	return addressSanitizer.exists
}

func runCompiler(folder, compiler string, arguments ...string) error {
	command := exec.Command(compiler, arguments...)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", compiler, arguments, err, out)
	}
	return nil
}

// runtimeOf returns a folder that holds the headers and the runtime as object files.
func runtimeOf(compiler string, b Build) (string, error) {
	r := &runtimes[b]
	r.once.Do(func() {
		if r.folder, r.err = os.MkdirTemp("", "tokitai-sim-"); r.err != nil {
			return
		}
		headers := append([]compile.Header{{Name: "prelude.h", Text: gpu.Prelude}, {Name: "tensorcore.h", Text: gpu.TensorCores}}, sim.Headers...)
		for _, f := range append(headers, sim.Units...) {
			if r.err = os.WriteFile(filepath.Join(r.folder, f.Name), []byte(f.Text), 0o600); r.err != nil {
				return
			}
		}
		r.err = r.compile(compiler, b, sim.Units)
	})
	return r.folder, r.err
}

// tensorCoreOf adds the runtime of the tensor-core dialect to the folder.
func tensorCoreOf(compiler string, b Build) error {
	r := &runtimes[b]
	r.tensorCore.Do(func() { r.tensorCoreErr = r.compile(compiler, b, sim.TensorCoreUnits) })
	return r.tensorCoreErr
}

func (r *runtime) compile(compiler string, b Build, units []compile.Header) error {
	_, flags := b.flags()
	for _, f := range units {
		if err := os.WriteFile(filepath.Join(r.folder, f.Name), []byte(f.Text), 0o600); err != nil {
			return err
		}
		if err := runCompiler(r.folder, compiler, append(flags[:len(flags):len(flags)], "-DTOKITAI_SIM_MAIN", "-c", f.Name, "-o", object(f))...); err != nil {
			return err
		}
	}
	return nil
}

func object(f compile.Header) string { return strings.TrimSuffix(f.Name, ".cc") + ".o" }

// Program is a compiled source.
type Program struct {
	path  string
	build Build
}

// Compile builds a source, which is called kernel.cu in messages. One that includes
// tensorcore.h is linked with the runtime of the tensor-core dialect.
func Compile(t testing.TB, source string, b Build) *Program {
	t.Helper()
	compiler := Compiler(t)
	if b == Address && !hasAddressSanitizer(t, compiler) {
		t.Skip("no AddressSanitizer: the C++ compiler lacks its library")
	}
	runtime, err := runtimeOf(compiler, b)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	p := &Program{path: filepath.Join(folder, "program"), build: b}
	text := "#include \"prelude.h\"\n#line 1 \"kernel.cu\"\n" + source
	if err := os.WriteFile(filepath.Join(folder, "kernel.cc"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags, linkFlags := b.flags()
	if err := runCompiler(folder, compiler, append(flags, "-I"+runtime, "-c", "kernel.cc", "-o", "kernel.o")...); err != nil {
		t.Fatal(err)
	}
	units := sim.Units
	if strings.Contains(source, "#include \"tensorcore.h\"") {
		if err := tensorCoreOf(compiler, b); err != nil {
			t.Fatal(err)
		}
		units = append(units[:len(units):len(units)], sim.TensorCoreUnits...)
	}
	linkFlags = append(linkFlags, "kernel.o", "-o", "program", "-pthread", "-ldl")
	for _, f := range units {
		linkFlags = append(linkFlags, filepath.Join(runtime, object(f)))
	}
	if err := runCompiler(folder, compiler, linkFlags...); err != nil {
		t.Fatal(err)
	}
	return p
}

// Run is the input of a program.
type Run struct {
	Warp     int    // 32 or 64; 0 stands for 32
	Seed     uint64 // of the order of blocks, warps and lanes; 0 is ascending
	Buffers  [][]byte
	Table    int // one more than the number of the buffer whose words may be addresses of others; 0 for none
	Launches []Launch
}

// Launch is one launch of an entry, by its name.
type Launch struct {
	Entry       string
	Grid, Block [3]uint32
	Shared      uint32
	Params      []byte
}

// LaunchesOf returns the launches of a kernel's plan, which may be reused.
func LaunchesOf(k *gpu.Kernel, p *gpu.Plan) []Launch {
	var list []Launch
	for _, l := range p.Launches {
		list = append(list, Launch{k.Source.Entries[l.Entry], l.Grid, l.Block, l.Shared, bytes.Clone(l.Params)})
	}
	for i := range p.Maps {
		m := &p.Maps[i]
		x := &m.Tensor
		encoded := &TensorMap{x.Address, uint32(x.ElementBytes), x.Sizes[:x.Rank], x.Strides[:x.Rank-1], x.Box[:x.Rank], true}
		copy(list[m.Launch].Params[m.At:], encoded.AppendTo(nil))
	}
	return list
}

// Pointer returns the address of a buffer in the parameters of a launch.
func Pointer(buffer int) uint64 { return uint64(buffer+1) << 40 }

// timeout is how long a program may run before it is considered hung, on a busy machine
// too.
const timeout = 5 * time.Minute

// Run runs the launches in order and writes the buffers back. The error holds what
// the program said.
func (p *Program) Run(r Run) error {
	folder := filepath.Dir(p.path)
	in, err := os.CreateTemp(folder, "in-")
	if err != nil {
		return err
	}
	defer os.Remove(in.Name())
	out := in.Name() + ".out"
	defer os.Remove(out)
	_, err = in.Write(r.encode())
	if err := errors.Join(err, in.Close()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	command := exec.CommandContext(ctx, p.path, in.Name(), out)
	command.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0")
	said, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("the program hangs: %w", ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	results, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	for _, b := range r.Buffers {
		results = results[copy(b, results):]
	}
	return nil
}

func (r *Run) encode() []byte {
	var b bytes.Buffer
	word := func(w uint64) { b.Write(binary.LittleEndian.AppendUint64(nil, w)) }
	warp := r.Warp
	if warp == 0 {
		warp = 32
	}
	word(uint64(warp))
	word(r.Seed)
	word(uint64(len(r.Buffers)))
	for _, buffer := range r.Buffers {
		word(uint64(len(buffer)))
		b.Write(buffer)
	}
	word(uint64(r.Table))
	word(uint64(len(r.Launches)))
	for _, l := range r.Launches {
		word(uint64(len(l.Entry)))
		b.WriteString(l.Entry)
		for _, n := range append(l.Grid[:], l.Block[:]...) {
			word(uint64(n))
		}
		word(uint64(l.Shared))
		word(uint64(len(l.Params)))
		b.Write(l.Params)
	}
	return b.Bytes()
}

// TensorMap is a tensor that kernels copy in boxes. The first dimension is contiguous.
type TensorMap struct {
	Address      uint64 // from Pointer
	ElementBytes uint32
	Sizes        []uint64
	Strides      []uint64 // in bytes, of all dimensions but the first
	Box          []uint32 // in elements
	IsSwizzled   bool     // lines of 128 or 64 bytes
}

// AppendTo appends the map to a launch's parameters, encoded as runtime/async.h has it.
func (m *TensorMap) AppendTo(params []byte) []byte {
	swizzle := uint64(0)
	if m.IsSwizzled {
		swizzle = uint64(m.Box[0] * m.ElementBytes)
	}
	words := [16]uint64{m.Address, uint64(m.ElementBytes) | uint64(len(m.Sizes))<<16 | swizzle<<32 | 0x706d<<48}
	copy(words[2:7], m.Sizes)
	copy(words[7:11], m.Strides)
	for i, n := range m.Box {
		words[11+i] = uint64(n)
	}
	for _, w := range words {
		params = binary.LittleEndian.AppendUint64(params, w)
	}
	return params
}
