package amdemu_test

import (
	"encoding/binary"
	"math"
	"testing"

	"tokitai/device/gpu"
	"tokitai/device/gpu/amdemu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/gputest"
	"tokitai/internal/testlevel"
)

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
	for _, architecture := range testlevel.Pick([]string{"gfx1100", "gfx90a", "gfx942"}, amdemu.Architectures) {
		t.Run(architecture, func(t *testing.T) { f(t, newRig(t, architecture)) })
	}
}
