package amdemu_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/gpu"
	"tokitai/device/gpu/amdemu"
	"tokitai/device/gpu/amdemu/codeobject"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/gputest"
)

// TestMain keeps the user's own cache out of the tests.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tokitai-cache-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TOKITAI_CACHE", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// prelude is what the kernels here need of HIP.
const prelude = `#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __device__ __attribute__((device))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
#define X __builtin_amdgcn_workitem_id_x()
#define BX __builtin_amdgcn_workgroup_id_x()
`

// kernels are compiled once for every architecture. Their lines are counted from the first one
// here, as a message names them.
const kernels = `#line 1 "kernels.cu"
struct Params { unsigned *y, *x; unsigned long long n; unsigned mode; float a; };
extern "C" __global__ void saxpy(const Params p) {
    unsigned i = BX * __builtin_amdgcn_workgroup_size_x() + X;
    if (i < p.n) ((float*)p.y)[i] = p.a * ((float*)p.x)[i] + ((float*)p.y)[i];
}
extern "C" __global__ void where(const Params p) {
    unsigned size[3] = {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z()};
    unsigned grid[3] = {__builtin_amdgcn_grid_size_x(), __builtin_amdgcn_grid_size_y(), __builtin_amdgcn_grid_size_z()};
    unsigned id[3] = {X, __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()};
    unsigned group[3] = {BX, __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()};
    unsigned at[3];
    for (int i = 0; i < 3; i++) at[i] = group[i] * size[i] + id[i];
    p.y[(at[2] * grid[1] + at[1]) * grid[0] + at[0]] = id[0] + 10 * id[1] + 100 * id[2] + 1000 * group[0] + 10000 * group[1] + 100000 * group[2];
}
extern "C" __global__ void spin(const Params p) {
    while (__atomic_load_n(p.y, __ATOMIC_RELAXED) == 0) {}
}
extern __shared__ unsigned dynamic_memory[];
extern "C" __global__ void reverse(const Params p) {
    __shared__ unsigned fixed[256];
    unsigned n = __builtin_amdgcn_workgroup_size_x();
    fixed[X] = p.x[BX * n + X];
    dynamic_memory[X] = 2 * X;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    p.y[BX * n + X] = fixed[n - 1 - X] + dynamic_memory[n - 1 - X];
    if (p.mode) p.y[0] = dynamic_memory[X + 64];
}
extern "C" __global__ void order(const Params p) {
    if (X == 0) p.y[BX] = __atomic_fetch_add(p.x, 1u, __ATOMIC_RELAXED);
}
extern "C" __global__ void reciprocal(const Params p) {
    float v = 1 + (BX * 64 + X) * 0x1p-20f;
    ((float*)p.y)[BX * 64 + X] = __builtin_amdgcn_rcpf(v);
}
extern "C" __global__ void spill(const Params p) {
    volatile unsigned memory[16];
    for (unsigned i = 0; i < 16; i++) memory[(i * 5 + X) & 15] = i * p.mode + X;
    unsigned sum = 0;
    for (unsigned i = 0; i < 16; i++) sum = sum * 3 + memory[i];
    p.y[BX * 64 + X] = sum;
}
extern "C" __global__ void __launch_bounds__(64) small(const Params p) { p.y[X] = X; }
static __device__ unsigned counter = 5;
__constant__ unsigned table[4] = {2, 3, 5, 7};
extern "C" __global__ void globals(const Params p) { p.y[X] = table[(X + p.mode) & 3] + counter; if (p.mode) counter = 9; }
#line 1 "header.h"
static __device__ unsigned fetch(const unsigned* p, unsigned long long i) {
    return p[i];
}
static __device__ unsigned twice(const unsigned* p, unsigned long long i) {
    return 2 * fetch(p, i);
}
#line 60 "kernels.cu"
extern "C" __global__ void inlined(const Params p) {
    p.y[X] = twice(p.x, p.n);
}
extern "C" __global__ void indexed(const Params p) {
    unsigned memory[300];
    for (unsigned i = 0; i < 300; i++) memory[i] = i * p.mode + X;
    for (unsigned i = 0; i < 40; i++) memory[(i * p.mode + X) % 300] += memory[(i * 7 + X) % 300];
    unsigned sum = 0;
    for (unsigned i = 0; i < 300; i++) sum = sum * 3 + memory[i];
    p.y[BX * 64 + X] = sum;
}
`

func source(text string) compile.Source {
	return compile.Source{Name: "kernels.cu", Text: prelude + text}
}

type params struct {
	y, x *gpu.Buffer
	n    uint64
	mode uint32
	a    float32
}

func (p params) bytes() []byte {
	var b []byte
	for _, buffer := range []*gpu.Buffer{p.y, p.x} {
		pointer := uint64(0)
		if buffer != nil {
			pointer = buffer.Pointer()
		}
		b = binary.LittleEndian.AppendUint64(b, pointer)
	}
	b = binary.LittleEndian.AppendUint64(b, p.n)
	b = binary.LittleEndian.AppendUint32(b, p.mode)
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(p.a))
}

// rig is a device with the kernels loaded.
type rig struct {
	t *testing.T
	*gpu.Device
	queue  *gpu.Queue
	module *gpu.Module
}

var entries = []string{"saxpy", "where", "spin", "reverse", "order", "reciprocal", "spill", "small", "globals", "inlined", "indexed"}

func newRig(t *testing.T, architecture string) *rig {
	t.Helper()
	r := &rig{t: t, Device: gputest.NeedsAMDEmulator(t, architecture)}
	var err error
	if r.queue, err = r.NewQueueWith(gpu.QueueOptions{}); err != nil {
		t.Fatal(err)
	}
	if r.module, err = r.Load(source(kernels), entries...); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) buffer(words ...uint32) *gpu.Buffer {
	r.t.Helper()
	b, err := r.Alloc(int64(4 * len(words)))
	if err != nil {
		r.t.Fatal(err)
	}
	var data []byte
	for _, w := range words {
		data = binary.LittleEndian.AppendUint32(data, w)
	}
	if err := b.CopyIn(0, data); err != nil {
		r.t.Fatal(err)
	}
	return b.(*gpu.Buffer)
}

func (r *rig) words(b *gpu.Buffer) []uint32 {
	r.t.Helper()
	data := make([]byte, b.Bytes())
	if err := b.CopyOut(0, data); err != nil {
		r.t.Fatal(err)
	}
	words := make([]uint32, len(data)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return words
}

func (r *rig) launch(entry string, grid, block [3]uint32, shared uint32, p []byte) error {
	r.t.Helper()
	f, err := r.module.Entry(entry)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.queue.Launch(f, grid, block, shared, p)
}

func each(t *testing.T, f func(t *testing.T, r *rig)) {
	for _, architecture := range amdemu.Architectures {
		t.Run(architecture, func(t *testing.T) { f(t, newRig(t, architecture)) })
	}
}

func TestKernels(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		const n = 1000
		xs, ys := make([]uint32, n), make([]uint32, n)
		for i := range n {
			xs[i], ys[i] = math.Float32bits(float32(i)/3), math.Float32bits(float32(n-i)/7)
		}
		x, y := r.buffer(xs...), r.buffer(ys...)
		if err := r.launch("saxpy", [3]uint32{4, 1, 1}, [3]uint32{256, 1, 1}, 0, params{y: y, x: x, n: n, a: 1.5}.bytes()); err != nil {
			t.Fatal(err)
		}
		for i, got := range r.words(y) {
			want := math.Float32bits(float32(1.5*math.Float32frombits(xs[i])) + math.Float32frombits(ys[i]))
			if got != want {
				t.Fatalf("saxpy: y[%d] = %#x, want %#x", i, got, want)
			}
		}

		// Every work item of a grid in three dimensions, whose groups are not whole waves.
		grid, block := [3]uint32{2, 3, 2}, [3]uint32{5, 3, 7}
		y = r.buffer(make([]uint32, 10*9*14)...)
		if err := r.launch("where", grid, block, 0, params{y: y}.bytes()); err != nil {
			t.Fatal(err)
		}
		for i, got := range r.words(y) {
			at := [3]uint32{uint32(i) % 10, uint32(i) / 10 % 9, uint32(i) / 90}
			want := at[0]%5 + 10*(at[1]%3) + 100*(at[2]%7) + 1000*(at[0]/5) + 10000*(at[1]/3) + 100000*(at[2]/7)
			if got != want {
				t.Fatalf("where: y%v = %d, want %d", at, got, want)
			}
		}

		xs = xs[:512]
		x, y = r.buffer(xs...), r.buffer(make([]uint32, 512)...)
		if err := r.launch("reverse", [3]uint32{2, 1, 1}, [3]uint32{256, 1, 1}, 1024, params{y: y, x: x}.bytes()); err != nil {
			t.Fatal(err)
		}
		for i, got := range r.words(y) {
			if want := xs[i/256*256+255-i%256] + uint32(2*(255-i%256)); got != want {
				t.Fatalf("reverse: y[%d] = %#x, want %#x", i, got, want)
			}
		}

		y = r.buffer(make([]uint32, 128)...)
		if err := r.launch("spill", [3]uint32{2, 1, 1}, [3]uint32{64, 1, 1}, 0, params{y: y, mode: 3}.bytes()); err != nil {
			t.Fatal(err)
		}
		for i, got := range r.words(y) {
			var memory [16]uint32
			item, sum := uint32(i%64), uint32(0)
			for j := range uint32(16) {
				memory[(j*5+item)&15] = j*3 + item
			}
			for _, v := range memory {
				sum = sum*3 + v
			}
			if got != sum {
				t.Fatalf("spill: y[%d] = %#x, want %#x", i, got, sum)
			}
		}

		y = r.buffer(make([]uint32, 128)...)
		if err := r.launch("indexed", [3]uint32{2, 1, 1}, [3]uint32{64, 1, 1}, 0, params{y: y, mode: 3}.bytes()); err != nil {
			t.Fatal(err)
		}
		for i, got := range r.words(y) {
			var memory [300]uint32
			item, sum := uint32(i%64), uint32(0)
			for j := range memory {
				memory[j] = uint32(j)*3 + item
			}
			for j := range uint32(40) {
				memory[(j*3+item)%300] += memory[(j*7+item)%300]
			}
			for _, v := range memory {
				sum = sum*3 + v
			}
			if got != sum {
				t.Fatalf("indexed: y[%d] = %#x, want %#x", i, got, sum)
			}
		}

		y = r.buffer(make([]uint32, 4)...)
		for mode, want := range [][4]uint32{{7, 8, 10, 12}, {8, 10, 12, 7}, {14, 16, 11, 12}} {
			if err := r.launch("globals", [3]uint32{1, 1, 1}, [3]uint32{4, 1, 1}, 0, params{y: y, mode: uint32(mode)}.bytes()); err != nil {
				t.Fatal(err)
			}
			if got := [4]uint32(r.words(y)); got != want {
				t.Fatalf("globals, mode %d: got %d, want %d", mode, got, want)
			}
		}
	})
}

func TestDescribe(t *testing.T) {
	for architecture, width := range map[string]int{"gfx1100": 32, "gfx942": 64} {
		d := gputest.NeedsAMDEmulator(t, architecture)
		about, limits := d.Describe(), d.Limits()
		if d.Name() != "amdemu:"+architecture || d.Kind() != "amdemu" || about.Architecture != architecture || about.Name != "emulated "+architecture ||
			about.Caveat != "emulated instructions, not hardware" || !strings.Contains(about.Driver, about.Caveat) || limits.WarpWidth != width || limits.SharedBytes != 64<<10 {
			t.Errorf("%s: %+v, %+v", d.Name(), about, limits)
		}
	}
	if _, err := amdemu.Table("gfx906"); !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), `"gfx906" is not an emulated architecture, want one of gfx1100`) {
		t.Errorf("gfx906: got %v", err)
	}
}

// TestFaults: what a kernel does wrong is an error that says what, where and by whom. The device
// can be used afterwards.
func TestFaults(t *testing.T) {
	t.Setenv("TOKITAI_AMDEMU_SEED", "0") // the first group in the grid is the first to fail
	r := newRig(t, "gfx1100")
	x := r.buffer(make([]uint32, 256)...) // 1024 bytes: the size of its block
	y := r.buffer(make([]uint32, 1024)...)
	one, items := [3]uint32{1, 1, 1}, [3]uint32{64, 1, 1}
	good := params{y: y, x: x, n: 256}
	for _, c := range []struct {
		name, entry string
		grid, block [3]uint32
		shared      uint32
		params      []byte
		want        []string
	}{
		{"read beyond a block", "saxpy", [3]uint32{9, 1, 1}, items, 0, params{y: y, x: x, n: 1 << 20}.bytes(), []string{
			"kernel saxpy: global_load", "(kernels.cu:4, offset 0x", "work group (4,0,0), wave 0, lane 0: reads 4 bytes at global address 0x",
			"0 bytes after the end of the block of 1024 bytes at 0x"}},
		{"in a function that was inlined", "inlined", one, items, 0, params{y: y, x: x, n: 1 << 20}.bytes(), []string{
			"(header.h:2, called at kernels.cu:61, offset 0x", "reads 4 bytes at global address 0x"}},
		{"read before a block", "saxpy", one, items, 0, func() []byte {
			b := good.bytes()
			binary.LittleEndian.PutUint64(b[8:], x.Pointer()-8)
			return b
		}(), []string{"lane 0: reads 4 bytes", "8 bytes before the block of 1024 bytes at 0x"}},
		{"a pointer that is nil", "saxpy", one, items, 0, params{y: y, n: 1}.bytes(), []string{"reads 4 bytes at global address 0x0", "no memory is allocated near it"}},
		{"writes to arguments", "small", one, items, 0, func() []byte {
			b := good.bytes()
			binary.LittleEndian.PutUint64(b, 0x0100_0000_0000)
			return b
		}(), []string{"kernels.cu:44", "writes 4 bytes at global address 0x10000000000: the memory is read only"}},
		{"LDS beyond the group's", "reverse", one, [3]uint32{32, 1, 1}, 128, params{y: y, x: x, mode: 1}.bytes(), []string{"(kernels.cu:28,", "LDS address", "the group has 1152 bytes"}},
		{"too many work items", "small", one, [3]uint32{65, 1, 1}, 0, good.bytes(), []string{"got groups of [65 1 1] = 65 work items, want at most 64"}},
		{"too few parameters", "saxpy", one, items, 0, good.bytes()[:16], []string{"got 16 bytes of parameters, want 32"}},
		{"too much LDS", "reverse", one, items, 64 << 10, good.bytes(), []string{"got 66560 bytes of LDS, 65536 of them dynamic, want at most 65536"}},
	} {
		err := r.launch(c.entry, c.grid, c.block, c.shared, c.params)
		fault, isFault := errors.AsType[*driver.LaunchError](err)
		if isFault && fault.Entry != c.entry || !isFault && c.name != "too much LDS" {
			t.Errorf("%s: got %v, want a LaunchError of %s", c.name, err, c.entry)
		}
		for _, part := range c.want {
			if !isFault && c.name == "too much LDS" {
				break // device/gpu refuses it before
			}
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want an error that says %q", c.name, err, part)
			}
		}
	}
	if err := r.launch("saxpy", [3]uint32{4, 1, 1}, items, 0, good.bytes()); err != nil {
		t.Errorf("after the faults: %v", err)
	}
}

func TestRunaway(t *testing.T) {
	t.Setenv("TOKITAI_AMDEMU_BUDGET", "100000")
	each(t, func(t *testing.T, r *rig) {
		y := r.buffer(0)
		err := r.launch("spin", [3]uint32{3, 1, 1}, [3]uint32{64, 1, 1}, 0, params{y: y}.bytes())
		for _, part := range []string{"kernel spin: ", "(kernels.cu:16, ", "has executed 100000 instructions, its budget (TOKITAI_AMDEMU_BUDGET): it does not end, or needs more"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("got %v, want an error that says %q", err, part)
			}
		}
		if err := r.launch("spin", [3]uint32{3, 1, 1}, [3]uint32{64, 1, 1}, 0, params{y: r.buffer(1)}.bytes()); err != nil {
			t.Errorf("a loop that ends: %v", err)
		}
	})
}

func TestSettings(t *testing.T) {
	for variable, values := range map[string][]string{"TOKITAI_AMDEMU_SEED": {"-1", "x"}, "TOKITAI_AMDEMU_BUDGET": {"0", "-5", "x"}} {
		for _, value := range values {
			t.Run(variable+"="+value, func(t *testing.T) {
				t.Setenv(variable, value)
				if _, err := amdemu.Table(""); !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), fmt.Sprintf("%s: got %q, want an integer", variable, value)) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// TestSeeds: a seed changes the order of work groups and the last bits of approximations; the
// same seed changes nothing.
func TestSeeds(t *testing.T) {
	run := func(seed string) (order, reciprocals []uint32) {
		t.Setenv("TOKITAI_AMDEMU_SEED", seed)
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // for one order
		r := newRig(t, "gfx1100")
		const groups = 37
		x, y := r.buffer(0), r.buffer(make([]uint32, groups)...)
		if err := r.launch("order", [3]uint32{groups, 1, 1}, [3]uint32{1, 1, 1}, 0, params{y: y, x: x}.bytes()); err != nil {
			t.Fatal(err)
		}
		z := r.buffer(make([]uint32, 64*groups)...)
		if err := r.launch("reciprocal", [3]uint32{groups, 1, 1}, [3]uint32{64, 1, 1}, 0, params{y: z}.bytes()); err != nil {
			t.Fatal(err)
		}
		order, reciprocals = r.words(y), r.words(z)
		seen := make([]bool, groups)
		for _, at := range order {
			if at >= groups || seen[at] {
				t.Fatalf("seed %s: the groups ran in the order %d", seed, order)
			}
			seen[at] = true
		}
		for i, bits := range reciprocals { // within one unit in the last place, as AMD documents it
			exact := 1 / (1 + float64(i)*0x1p-20)
			if error := math.Abs(float64(math.Float32frombits(bits)) - exact); error > 0x1p-24 {
				t.Fatalf("seed %s: v_rcp_f32 is %g off", seed, error)
			}
		}
		return order, reciprocals
	}
	zero, rounded := run("0")
	for i, bits := range rounded {
		if want := math.Float32bits(float32(1 / (1 + float64(i)*0x1p-20))); bits != want {
			t.Fatalf("seed 0: reciprocal %d is %#x, want %#x", i, bits, want)
		}
	}
	one, varied := run("1")
	two, other := run("2")
	same := func(a, b []uint32) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
	if same(rounded, varied) || same(varied, other) {
		t.Error("approximations do not depend on the seed")
	}
	if same(zero, one) || same(one, two) {
		t.Error("the order of groups does not depend on the seed")
	}
	if again, bits := run("2"); !same(bits, other) || !same(again, two) {
		t.Error("the same seed gives something else")
	}
	if standard, bits := run(""); !same(bits, varied) || !same(standard, one) {
		t.Error("the default seed is not 1")
	}
}

func TestWrongArchitecture(t *testing.T) {
	c := gputest.NeedsClang(t)
	p, err := c.Compile("gfx1101", source(kernels))
	if err != nil {
		t.Fatal(err)
	}
	table, err := amdemu.Table("gfx1100")
	if err != nil {
		t.Fatal(err)
	}
	_, err = table.Load(p.Image)
	if e, ok := errors.AsType[*codeobject.ArchitectureError](err); !ok || e.Got != "gfx1101" || e.Want != "gfx1100" {
		t.Errorf("got %v, want an ArchitectureError", err)
	}
	if _, err := table.Load([]byte("not a code object")); err == nil || !strings.HasPrefix(err.Error(), "load: code object: ") {
		t.Errorf("not a code object: got %v", err)
	}
}

// TestLines: tables of lines change no instruction.
func TestLines(t *testing.T) {
	c := gputest.NeedsClang(t)
	for _, architecture := range []string{"gfx1100", "gfx942"} {
		var code [2][]byte
		for i, c := range []*compile.Clang{c, c.WithLines()} {
			p, err := c.Compile(architecture, source(kernels))
			if err != nil {
				t.Fatal(err)
			}
			o, err := codeobject.Read(p.Image, architecture)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range o.Kernels {
				code[i] = append(code[i], k.Code...)
			}
			k, ok := o.Kernel("small")
			if !ok {
				t.Fatal("no kernel small")
			}
			if line := o.Line(k.Entry); line != map[int]string{0: "", 1: "kernels.cu:44"}[i] {
				t.Errorf("%s: the first line of small is %q", architecture, line)
			}
		}
		if len(code[0]) == 0 || !bytes.Equal(code[0], code[1]) {
			t.Errorf("%s: the instructions differ", architecture)
		}
	}
}

func TestNoClang(t *testing.T) {
	t.Setenv("TOKITAI_CLANG", "no-such-clang")
	table, err := amdemu.Table("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Compiler(0); !errors.Is(err, compile.ErrNoClang) {
		t.Errorf("got %v, want ErrNoClang", err)
	}
	if _, err := table.Compile(0, source(kernels)); !errors.Is(err, compile.ErrNoClang) {
		t.Errorf("got %v, want ErrNoClang", err)
	}
}

func TestDisassemble(t *testing.T) {
	c := gputest.NeedsClang(t).WithLines()
	p, err := c.Compile("gfx90a", source(kernels))
	if err != nil {
		t.Fatal(err)
	}
	text, err := amdemu.Disassemble(p.Image, "gfx90a")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"\nsmall: ", " VGPRs, 0 bytes of LDS, 0 bytes of private memory\n; kernels.cu:44\n  000000  s_load_dwordx2 s[0:1], s[4:5], 0x0\n", "\n; header.h:2\n", "s_endpgm\n\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("the listing does not have %q", part)
		}
	}
	if n := strings.Count(text, "s_endpgm\n"); n < len(entries) {
		t.Errorf("%d ends, want at least %d", n, len(entries))
	}
	if _, err := amdemu.Disassemble(p.Image, "gfx942"); err == nil {
		t.Error("listed for another architecture")
	}
	if _, err := amdemu.Disassemble(p.Image, "gfx1"); err == nil {
		t.Error("listed for an unknown architecture")
	}
}
