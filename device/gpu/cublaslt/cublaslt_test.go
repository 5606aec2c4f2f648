package cublaslt

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"tokitai/device/gpu/cublaslt/stub"
	"tokitai/device/gpu/driver"
	"tokitai/internal/dl"
	"tokitai/internal/gen"
	"tokitai/num"
)

func openStub(t *testing.T, change ...string) (*Library, *Handle) {
	t.Helper()
	stub.Use(t, change...)
	l, err := open()
	if err != nil {
		t.Fatal(err)
	}
	h, err := l.NewHandle()
	if err != nil {
		t.Fatal(err)
	}
	return l, h
}

// live returns how many descriptors and handles of the stub have not been given back.
func live(t *testing.T, l *Library) int {
	t.Helper()
	p, err := l.library.Proc("stub_live")
	if err != nil {
		t.Fatal(err)
	}
	return int(int32(p.Call(nil)))
}

var formats = map[Type]num.DType{F32: num.F32, F16: num.F16, BF16: num.BF16}

// operand is memory for matrices: alignment bytes after a multiple of MaxAlignment.
type operand struct {
	num.Array
	memory []byte
}

func newOperand(g *gen.Generator, m *Matrix, t Type, rows, cols, batch int) operand {
	if m.Transpose {
		rows, cols = cols, rows
	}
	elements := (batch-1)*m.BatchStride + (rows-1)*m.Stride + cols
	d := formats[t]
	memory := make([]byte, elements*d.Size()+2*MaxAlignment)
	first := MaxAlignment - int(uintptr(unsafe.Pointer(&memory[0]))%MaxAlignment) + m.Alignment%MaxAlignment
	o := operand{num.Array{DType: d, Rows: rows, Cols: cols, Stride: m.Stride, Data: memory[first:][:elements*d.Size()]}, memory}
	for i := range elements {
		at := num.Array{DType: d, Rows: 1, Cols: elements, Stride: elements, Data: o.Data}
		at.Set(0, i, float32(g.Below(17))-8) // sums of small integers are exact in every order
	}
	return o
}

func (o *operand) pointer() driver.Pointer {
	return driver.Pointer(uintptr(unsafe.Pointer(&o.Data[0])))
}

// at returns an element of matrix z; transposed if the factor is.
func (o *operand) at(m *Matrix, z, r, c int) float64 {
	if m.Transpose {
		r, c = c, r
	}
	a := o.Array
	a.Data = a.Data[z*m.BatchStride*a.DType.Size():]
	return float64(a.At(r, c))
}

// TestProducts compares products of every form with plain loops.
func TestProducts(t *testing.T) {
	l, h := openStub(t)
	g := gen.New("cublaslt")
	n := 0
	for _, size := range [][3]int{{1, 1, 1}, {3, 5, 7}, {16, 8, 520}} {
		for bits := range 16 {
			for _, types := range [][2]Type{{F32, F32}, {F16, F16}, {F16, F32}, {BF16, BF16}, {BF16, F32}} {
				p := Problem{In: types[0], Out: types[1], Rows: size[0], Cols: size[1], Depth: size[2], Batch: 1 + 2*(bits>>3), Accumulate: bits&4 != 0,
					Left:   Matrix{Stride: max(size[0], size[2]) + bits%3, Alignment: 256, Transpose: bits&1 != 0},
					Right:  Matrix{Stride: max(size[1], size[2]) + 2, Alignment: 16, Transpose: bits&2 != 0},
					Result: Matrix{Stride: size[1] + 1, Alignment: 4}}
				p.Left.BatchStride, p.Right.BatchStride = p.Left.Stride*max(size[0], size[2])+3, 0
				p.Result.BatchStride = p.Result.Stride * size[0]
				check(t, h, g, p)
				n++
			}
		}
	}
	if len(h.plans) != n {
		t.Errorf("%d plans for %d problems", len(h.plans), n)
	}
	if err := h.Close(); err != nil || live(t, l) != 0 {
		t.Errorf("closing: %v, and %d descriptors are left", err, live(t, l))
	}
}

func check(t *testing.T, h *Handle, g *gen.Generator, p Problem) {
	t.Helper()
	left := newOperand(g, &p.Left, p.In, p.Rows, p.Depth, p.Batch)
	right := newOperand(g, &p.Right, p.In, p.Depth, p.Cols, p.Batch)
	result := newOperand(g, &p.Result, p.Out, p.Rows, p.Cols, p.Batch)
	before := append([]byte(nil), result.memory...)
	plan, err := h.Plan(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.Plan(p)
	if again != plan || err != nil {
		t.Fatalf("%v: planned twice: %v", p, err)
	}
	if isSplit := p.Depth >= 512; (plan.Algorithm.SplitK == 2) != isSplit || (plan.Algorithm.Workspace > 0) != isSplit {
		t.Errorf("%v: algorithm %+v", p, plan.Algorithm)
	}
	workspace := make([]byte, plan.Algorithm.Workspace+2*MaxAlignment)
	address := uintptr(unsafe.Pointer(&workspace[0]))
	address += MaxAlignment - address%MaxAlignment
	old := operand{result.Array, before}
	old.Data = append([]byte(nil), result.Data...)
	if err := plan.Run(5, left.pointer(), right.pointer(), result.pointer(), driver.Pointer(address)); err != nil {
		t.Fatalf("%v: %v", p, err)
	}
	for z := range p.Batch {
		for r := range p.Rows {
			for c := range p.Cols {
				want := 0.0
				if p.Accumulate {
					want = old.at(&p.Result, z, r, c)
				}
				for k := range p.Depth {
					want += left.at(&p.Left, z, r, k) * right.at(&p.Right, z, k, c)
				}
				want = float64(num.Widen(formats[p.Out], num.NarrowF64(formats[p.Out], want)))
				if got := result.at(&p.Result, z, r, c); got != want {
					t.Fatalf("%v: product %d, element %d,%d: got %v, want %v", p, z, r, c, got, want)
				}
			}
		}
	}
}

// TestRoundsOnce: where the old result is added and the result has 16 bits, the library's
// first choice is passed over if it rounds the product before the addition.
func TestRoundsOnce(t *testing.T) {
	_, h := openStub(t)
	aligned := Matrix{Stride: 8, Alignment: 16}
	for _, test := range []struct {
		out        Type
		accumulate bool
		want       int
	}{{F16, true, 24}, {F16, false, 66}, {F32, true, 66}, {F32, false, 66}} {
		p := Problem{In: F16, Out: test.out, Rows: 8, Cols: 8, Depth: 8, Batch: 1, Accumulate: test.accumulate, Left: aligned, Right: aligned, Result: aligned}
		plan, err := h.Plan(p)
		if err != nil || plan.Algorithm.ID != test.want {
			t.Errorf("%v, accumulate %v: got %+v, %v, want algorithm %d", test.out, test.accumulate, plan, err, test.want)
		}
	}
	_, h = openStub(t, "CANDIDATES 3", "CANDIDATES 2")
	_, err := h.Plan(Problem{In: F16, Out: F16, Rows: 8, Cols: 8, Depth: 8, Batch: 1, Accumulate: true, Left: aligned, Right: aligned, Result: aligned})
	if _, ok := errors.AsType[*UnsupportedError](err); !ok {
		t.Errorf("no other algorithm: got %v, want an UnsupportedError", err)
	}
}

// TestUnsupported: what the library has no algorithm for is an error that says what was
// asked for, and leaves nothing behind.
func TestUnsupported(t *testing.T) {
	l, h := openStub(t)
	p := Problem{In: F16, Out: F16, Rows: 4, Cols: 4, Depth: 4, Batch: 1, Left: Matrix{Stride: 4, Alignment: 1}, Right: Matrix{Stride: 4, Alignment: 2}, Result: Matrix{Stride: 4, Alignment: 2}}
	_, err := h.Plan(p)
	if e, ok := errors.AsType[*UnsupportedError](err); !ok || e.Problem != p || !strings.Contains(err.Error(), "cuBLASLt 13.1.0 has no algorithm for 4×4×4 in f16") {
		t.Errorf("a misaligned operand: %v", err)
	}
	p.Left.Alignment, p.Left.Stride = 2, 3
	if _, err := h.Plan(p); err == nil || !strings.Contains(err.Error(), "cublasLtMatrixLayoutCreate: the stub refused (CUBLAS_STATUS_INVALID_VALUE, code 7)") {
		t.Errorf("rows that overlap: %v", err)
	}
	p.Left.Stride = 4
	for _, batch := range []int{0, math.MaxInt32 + 1} {
		p.Batch = batch
		if _, err := h.Plan(p); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("got %d products", batch)) {
			t.Errorf("%d products: %v", batch, err)
		}
	}
	if err := h.Close(); err != nil || live(t, l) != 0 {
		t.Errorf("closing: %v, and %d descriptors are left", err, live(t, l))
	}
}

// TestManyPlans: a handle keeps a limited number of plans.
func TestManyPlans(t *testing.T) {
	l, h := openStub(t)
	p := Problem{In: F32, Out: F32, Rows: 1, Cols: 4, Depth: 4, Batch: 1, Left: Matrix{Stride: 4, Alignment: 4}, Right: Matrix{Stride: 4, Alignment: 4}, Result: Matrix{Stride: 4, Alignment: 4}}
	for i := range maxPlans + 10 {
		p.Rows = i + 1
		if _, err := h.Plan(p); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.plans) != 10 || live(t, l) != 10*4+1 {
		t.Errorf("%d plans and %d descriptors, want 10 and 41", len(h.plans), live(t, l))
	}
	if err := h.Close(); err != nil || live(t, l) != 0 {
		t.Errorf("closing: %v, and %d descriptors are left", err, live(t, l))
	}
}

func TestOpen(t *testing.T) {
	path := stub.Use(t)
	l, err := open()
	if err != nil || l.String() != "cuBLASLt 13.1.0" || l.Path() != path {
		t.Errorf("got %v, %v", l, err)
	}
	if hash, err := l.Hash(); err != nil || hash == [32]byte{} {
		t.Errorf("its hash: %x, %v", hash, err)
	}
	stub.Use(t, "VERSION 130100", "VERSION 120901")
	if l, err := open(); err != nil || l.String() != "cuBLASLt 12.9.1" {
		t.Errorf("an older one: %v, %v", l, err)
	}
	stub.Use(t, "#define CREATE 0", "#define CREATE 1")
	if l, err = open(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.NewHandle(); err == nil || !strings.Contains(err.Error(), "cublasLtCreate: the stub refused (CUBLAS_STATUS_OTHER, code 1)") {
		t.Errorf("a handle that cannot be made: %v", err)
	}
	stub.Use(t, "cublasLtMatmul(", "cublasLtMatmulV2(")
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "not cuBLASLt of CUDA 12 or newer") || !strings.Contains(err.Error(), "has no cublasLtMatmul") {
		t.Errorf("a library without the product: %v", err)
	}
	t.Setenv("TOKITAI_CUBLASLT", "/does/not/exist.so")
	_, err = open()
	if _, ok := errors.AsType[*dl.NotFoundError](err); !ok || !strings.Contains(err.Error(), "cuBLASLt, NVIDIA's library of matrix products: not found: tried /does/not/exist.so") {
		t.Errorf("a missing library: %v", err)
	}
}

func TestAlignmentOf(t *testing.T) {
	for address, want := range map[uint64]int{0x7f0000000000: 256, 0x1100: 256, 0x1080: 128, 0x1002: 2, 0x1001: 1, 0: 256} {
		if got := AlignmentOf(address); got != want {
			t.Errorf("%#x: got %d, want %d", address, got, want)
		}
	}
}

func TestAlgorithmString(t *testing.T) {
	a := Algorithm{ID: 66, Tile: 23, Stages: 36, SplitK: 1, Cluster: 3}
	if got, want := a.String(), "algorithm 66, tile 23, stages 36, cluster 3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	a = Algorithm{ID: 21, Tile: 20, Stages: 8, SplitK: 4, Reduction: 2, Custom: 1}
	if got, want := a.String(), "algorithm 21, tile 20, stages 8, custom 1, split-K 4, reduction 2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
