package cuda

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/gpu"
	"tokitai/def"
	devicegpu "tokitai/device/gpu"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/cublaslt"
	"tokitai/device/gpu/cublaslt/stub"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/sim"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/dl"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/tensor"
	"tokitai/verify"
)

// openHost opens a GPU of kind cuda whose memory is the host's, on which the stub of
// cuBLASLt computes. Nothing else does.
func openHost(t *testing.T) *gpu.Device {
	t.Helper()
	if _, err := compile.OpenHost(); err != nil {
		tool.Missing(t, "g++", err)
	}
	real, err := sim.Table(sim.Width)
	if err != nil {
		t.Skipf("needs the simulator's memory: %v", err)
	}
	table := *real
	table.Kind, table.Name = Kind, func(int) string { return "cuda:0" }
	table.Properties = func(index int) (driver.Properties, error) {
		p, err := real.Properties(index)
		p.Architecture = "sm_90a"
		return p, err
	}
	table.NewStream = func() (driver.Stream, error) { return 5, nil } // a library may not be given stream 0
	table.DestroyStream = func(driver.Stream) error { return nil }
	dev, err := devicegpu.Open(&table, sim.Width, devicegpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := New(dev)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// accelerated returns the targets of the shipped products on cuBLASLt.
func accelerated(t *testing.T) []*verify.Target {
	list := slices.DeleteFunc(verify.Targets(gemm.Operations, Backend), func(x *verify.Target) bool { return x.Lowering != cublasLt })
	if len(list) != 36 {
		t.Fatalf("%d targets, want 12 products in 3 formats", len(list))
	}
	if testlevel.Current() == testlevel.Smoke { // a few that have every form together
		list = slices.DeleteFunc(list, func(x *verify.Target) bool {
			return x.ID()+" "+x.DType.String() != "gemm.forward/cuda.cublaslt f16" && x.ID()+" "+x.DType.String() != "gemm.batched.grad_b.accumulate/cuda.cublaslt bf16" &&
				x.ID()+" "+x.DType.String() != "gemm.batched.grad_a/cuda.cublaslt f32"
		})
	}
	return list
}

func verified(t *testing.T, target *verify.Target) *evidence.Report {
	t.Helper()
	r, err := verify.Run(t.Context(), target, verify.Options{
		Device: "cuda:0", Open: func(string) (engine.Device, error) { return openHost(t), nil }, Level: verify.Smoke, Seed: 1, Tool: "test", Version: "0",
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Report
}

// TestVerified: products by the stub, which computes honestly, are accepted for every
// definition and format, with every layout that a verification tries, and the report has
// the stub's algorithms.
func TestVerified(t *testing.T) {
	stub.Use(t, "SPLIT_DEPTH 512", "SPLIT_DEPTH 60")
	for _, target := range accelerated(t) {
		r := verified(t, target)
		if err := r.Check(); err != nil || r.Verdict != evidence.Accepted || r.Contract != evidence.ContractBounded {
			t.Errorf("%s %s: %s: %s %v", target.ID(), target.DType, r.Verdict, r.Reason, err)
		}
		if r.Toolchain.Compiler != "cuBLASLt" || r.Toolchain.Version != "13.1.0" || !strings.Contains(r.Toolchain.Options, "compute type 32F") || r.Fingerprints[2].SHA256 == "" || !strings.Contains(r.Fingerprints[3].Note, "part of the library") {
			t.Errorf("%s %s: toolchain %+v, fingerprints %+v", target.ID(), target.DType, r.Toolchain, r.Fingerprints)
		}
		if model := map[bool]string{true: "any order", false: "any order of mma(16,25)"}[target.DType == num.F32]; r.Model != model {
			t.Errorf("%s %s: model %q, want %q", target.ID(), target.DType, r.Model, model)
		}
		cases, parts, same := 0, map[int]bool{}, 0
		for _, a := range r.Algorithms {
			model := "mma(16,25)"
			if target.DType == num.F32 {
				model = "fma"
			}
			if isSplit := strings.Contains(a.Name, "split-K 2, reduction 2"); isSplit != (a.Parts == 2) || a.Model != model || !strings.Contains(a.Name, ", tile 23, stages 36, cluster 3") {
				t.Errorf("%s %s: %+v", target.ID(), target.DType, a)
			}
			if cases, parts[a.Parts] = cases+a.Cases, true; a.Parts == 1 {
				same += a.SameCases - a.Cases
			}
		}
		if cases != r.Cases || !parts[1] || !parts[2] {
			t.Errorf("%s %s: algorithms of %d cases of %d, with these parts: %v", target.ID(), target.DType, cases, r.Cases, parts)
		}
		// A chain of fused multiply-adds from +0 has the bits of the definition.
		if target.DType == num.F32 && !target.Definition.Accumulates() && same != 0 {
			t.Errorf("%s %s: not all whole sums have the model's bits: %+v", target.ID(), target.DType, r.Algorithms)
		}
	}
}

// TestWrongLibrary: a library that computes wrongly is not admitted.
func TestWrongLibrary(t *testing.T) {
	for _, test := range []struct{ name, old, new string }{
		{"a lost product", "t < (int64_t)(k * (part + 1) / algorithm->parts)", "t < (int64_t)(k * (part + 1) / algorithm->parts) - (k > 40)"},
		{"sums in 16 bits", "s = fmaf(x, y, s);", "uint16_t h; store(2, &h, 0, fmaf(x, y, s)); s = load(2, &h, 0);"},
		{"strides confused", "int64_t at = z * d->stride + j * d->ld + i;", "int64_t at = z * d->stride + j * d->rows + i;"},
		{"the old result added", "if (*beta) sum +=", "sum +="},
	} {
		stub.Use(t, test.old, test.new)
		dev := openHost(t)
		a, b, c := filled(t, dev, num.F16, 5, 6), filled(t, dev, num.F16, 6, 7), filled(t, dev, num.F16, 5, 7)
		if err := gemm.Forward(queueOn(t, dev), c, a, b, engine.WithLowering("cublaslt")); !errors.Is(err, engine.ErrInadmissible) {
			t.Errorf("%s: got %v, want it inadmissible", test.name, err)
		}
	}
}

func queueOn(t *testing.T, dev *gpu.Device, opts ...engine.Option) *engine.Queue {
	t.Helper()
	q, err := engine.NewQueue(dev, append(opts, engine.WithLog(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// filled returns a tensor of small integers.
func filled(t *testing.T, dev *gpu.Device, dtype num.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(dev, dtype, shape...)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, x.Len())
	for i := range values {
		values[i] = float32(i%7) - 3
	}
	if err := x.SetFloat32s(values); err != nil {
		t.Fatal(err)
	}
	return x
}

// TestByNameOnly: a call gets the library only by its name, with the kind of device or
// without, and policy same refuses it.
func TestByNameOnly(t *testing.T) {
	stub.Use(t)
	dev := openHost(t)
	a, b, c := filled(t, dev, num.F16, 5, 6), filled(t, dev, num.F16, 6, 7), filled(t, dev, num.F16, 5, 7)
	for _, name := range []string{"cuda.cublaslt", "cublaslt", "gemm.forward/cuda.cublaslt"} {
		if err := gemm.Forward(queueOn(t, dev), c, a, b, engine.WithLowering(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := c.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	want := float32(0)
	for k := range 6 {
		want += float32(k%7-3) * float32(k*7%7-3)
	}
	if got[0] != want {
		t.Errorf("C[0,0] is %v, want %v", got[0], want)
	}
	err = gemm.Forward(queueOn(t, dev, engine.WithPolicy(engine.Same)), c, a, b, engine.WithLowering("cublaslt"))
	if err == nil || !strings.Contains(err.Error(), "cuda.cublaslt does not promise bits") {
		t.Errorf("policy same: %v", err)
	}
	for form, list := range preferred {
		if slices.Contains(list, cublasLt) {
			t.Errorf("a %s prefers the library", form)
		}
	}
}

// TestMissingLibrary: without the library a call that names it says how to get it.
func TestMissingLibrary(t *testing.T) {
	dev := openHost(t)
	t.Setenv("TOKITAI_CUBLASLT", "/does/not/exist.so")
	a, b, c := filled(t, dev, num.F32, 2, 2), filled(t, dev, num.F32, 2, 2), filled(t, dev, num.F32, 2, 2)
	err := gemm.Forward(queueOn(t, dev), c, a, b, engine.WithLowering("cublaslt"))
	if !errors.Is(err, engine.ErrInadmissible) || !errors.Is(err, dl.ErrNotFound) && !errors.Is(err, dl.ErrUnsupported) || !strings.Contains(err.Error(), "cuBLASLt") {
		t.Errorf("got %v, want the library not found", err)
	}
}

// TestRefused: what the library cannot compute is an error that says why, before anything
// is written.
func TestRefused(t *testing.T) {
	stub.Use(t, "MAX_BATCH 65535", "MAX_BATCH 3")
	dev := openHost(t)
	grouped := def.Must(def.Contraction("grouped", def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"G", "K", "N"}, Result: "c", ResultDims: []string{"M", "N"},
		Groups: def.Groups{Number: "G", Of: "M", Offsets: "offsets"},
	}))
	f16 := []num.DType{num.F16, num.F16, num.F16, num.I32}
	if _, err := cublasLt.Compile(dev, grouped, f16, 0); err == nil || !strings.Contains(err.Error(), "cuBLASLt takes no groups whose sizes are in the device's memory, as grouped has them in offsets") {
		t.Errorf("groups: %v", err)
	}
	if _, err := cublasLt.Compile(dev, gemm.ForwardDefinition, []num.DType{num.F16, num.F16, num.I32}, 0); err == nil || !strings.Contains(err.Error(), "cuBLASLt is not used for gemm.forward") {
		t.Errorf("an int32: %v", err)
	}
	scaled := []num.DType{num.E4M3, num.E4M3, num.F32, num.F32, num.F32}
	if _, err := cublasLt.Compile(dev, gemm.FP8ForwardDefinition, scaled, 0); err == nil || !strings.Contains(err.Error(), "cuBLASLt takes two factors and a result, got the 5 operands of gemm.fp8.forward") {
		t.Errorf("scales: %v", err)
	}
	a, b, c := filled(t, dev, num.F16, 4, 2, 3), filled(t, dev, num.F16, 4, 3, 5), filled(t, dev, num.F16, 4, 2, 5)
	before, err := c.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	err = gemm.BatchedForward(queueOn(t, dev, engine.WithAdmission(engine.Off)), c, a, b, engine.WithLowering("cublaslt"))
	unsuited, isUnsuited := errors.AsType[*engine.UnsuitedError](err)
	if e, ok := errors.AsType[*cublaslt.UnsupportedError](err); !ok || !isUnsuited || unsuited.Lowering != "gemm.batched.forward/cuda.cublaslt" || e.Problem.Batch != 4 {
		t.Errorf("more products than the library takes: %v", err)
	}
	if after, err := c.Float32s(); err != nil || !slices.Equal(before, after) {
		t.Errorf("the result changed: %v", err)
	}
}

// TestParts divides products into as few calls as their strides allow.
func TestParts(t *testing.T) {
	walk := func(axes ...lower.WalkAxis) (w lower.Walk) {
		w.Count = copy(w.Axes[:], axes)
		return w
	}
	axis := func(divisor, size, stride int) lower.WalkAxis {
		return lower.WalkAxis{Divisor: divisor, Size: size, Stride: stride}
	}
	for _, test := range []struct {
		name                string
		count               int
		left, right, result lower.Walk
		want                int
	}{
		{"one product", 1, walk(), walk(), walk(), 1},
		{"contiguous", 12, walk(axis(1, 12, 10)), walk(axis(1, 12, 20)), walk(axis(1, 12, 30)), 12},
		{"two axes that are one", 12, walk(axis(1, 3, 10), axis(3, 4, 30)), walk(axis(1, 12, 20)), walk(axis(1, 12, 30)), 12},
		{"a gap between batches", 12, walk(axis(1, 3, 10), axis(3, 4, 50)), walk(axis(1, 12, 20)), walk(axis(1, 12, 30)), 3},
		{"heads between rows", 12, walk(axis(1, 3, 8), axis(3, 4, 1000)), walk(axis(1, 3, 8), axis(3, 4, 1000)), walk(axis(1, 12, 30)), 3},
		{"one right factor for all", 12, walk(axis(1, 12, 10)), walk(), walk(axis(1, 12, 30)), 12},
		{"one right factor for three", 12, walk(axis(1, 12, 10)), walk(axis(3, 4, 20)), walk(axis(1, 12, 30)), 3},
		{"a right factor for each of three", 12, walk(axis(1, 12, 10)), walk(axis(1, 3, 20)), walk(axis(1, 12, 30)), 3},
		{"axes that do not fit each other", 12, walk(axis(1, 2, 10), axis(2, 6, 90)), walk(axis(1, 3, 10), axis(3, 4, 90)), walk(axis(1, 12, 30)), 1},
	} {
		z := &lower.Products{Count: test.count, Groups: 1, PerGroup: test.count, Left: test.left, Right: test.right, Result: test.result}
		got := linearRun(z)
		if got != test.want {
			t.Errorf("%s: runs of %d, want %d", test.name, got, test.want)
		}
		for _, w := range []*lower.Walk{&z.Left, &z.Right, &z.Result} {
			for i := range z.Count {
				first := i / got * got
				if got > 1 && w.Offset(i) != w.Offset(first)+(i-first)*(w.Offset(first+1)-w.Offset(first)) {
					t.Errorf("%s: product %d is not where its run says", test.name, i)
				}
			}
		}
	}
}

// TestModels are the arithmetic of the tensor cores, and of fused multiply-adds for f32.
func TestModels(t *testing.T) {
	for architecture, want := range map[string]string{"sm_80": "mma(8,24)", "sm_89": "mma(8,24)", "sm_90a": "mma(16,25)", "sm_999": "mma(4,23)"} {
		if got := cublasLtAccum(architecture, []num.DType{num.BF16}, 1, 1); got.String() != want {
			t.Errorf("%s: %s, want %s", architecture, got, want)
		}
	}
	if got := cublasLtAccum("sm_90a", []num.DType{num.F32}, 1, 1); got != def.FMAChain {
		t.Errorf("f32: %s", got)
	}
}
