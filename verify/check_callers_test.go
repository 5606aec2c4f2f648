package verify_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/trial"
	"tokitai/verify"
)

// spoil changes the first element of the first output.
func spoil(d *def.Definition, out []num.Array) {
	i := slices.IndexFunc(d.Operands, func(o def.Operand) bool { return o.IsOut })
	out[i].SetBits(0, 0, out[i].Bits(0, 0)^1)
}

// wrongIf returns a lowering that computes the reference, and is wrong for launches for which is
// returns true.
func wrongIf(is func(l *engine.Launch) bool) *engine.Lowering {
	return bitwise(func(d *def.Definition, l *engine.Launch) error {
		out := answer(d, l)
		if is(l) {
			spoil(d, out)
		}
		store(d, l, out, nil)
		return nil
	})
}

// expectOnly expects that only the named checks reject a target.
func expectOnly(t *testing.T, x *verify.Target, shape string, tier evidence.TierName, want ...string) {
	t.Helper()
	if got := rejecting(t, x, shape, tier); !slices.Equal(got, want) {
		t.Errorf("rejected by %v, want %v", got, want)
	}
}

// TestSharedInputs checks kernels that assume that inputs do not share memory.
func TestSharedInputs(t *testing.T) {
	t.Parallel()
	first := func(l *engine.Launch, i int) uint64 { return l.Operands[i].Address() }
	isOne := func(l *engine.Launch) bool { return first(l, 0) == first(l, 1) }
	overlap := func(l *engine.Launch) bool {
		return first(l, 0) < first(l, 1) && first(l, 1) < first(l, 0)+uint64(len(l.Operands[0].Data))
	}
	inPlaceOfBoth := func(l *engine.Launch) bool { return isOne(l) && first(l, 2) == first(l, 0) }
	x := func(is func(l *engine.Launch) bool) *verify.Target {
		return target(softmax.BackwardDefinition, num.F16, wrongIf(is))
	}
	expectOnly(t, x(isOne), "R=5,C=33", evidence.Relations, "share-dy-y")
	expectOnly(t, x(overlap), "R=5,C=33", evidence.Relations, "share-dy-y")
	expectOnly(t, x(inPlaceOfBoth), "R=5,C=33", evidence.Relations, "share-dy-y")
	product := target(gemm.ForwardDefinition, num.F32, wrongIf(isOne))
	expectOnly(t, product, "M=5,K=5,N=5", evidence.Relations, "share-A-B")
	if r := run(t, product, verify.Options{Seed: 1}).Report; r.Verdict != evidence.Rejected || !strings.HasPrefix(r.Failure.Case, "share-A-B:") {
		t.Errorf("%s %+v: want a case of share-A-B", r.Verdict, r.Failure)
	}
	same := target(softmax.BackwardDefinition, num.F16, wrongIf(func(l *engine.Launch) bool { // the same values, wherever they are
		return l.Operands[0].Rows > 1 && l.Operands[0].Bits(1, 0) == l.Operands[1].Bits(1, 0)
	}))
	expectRejected(t, same, "share-dy-y:normal/R=5,C=33", "with the same values in dy and y", evidence.Relations)
}

// TestCacheByAddress checks a kernel that returns an earlier result if the addresses, sizes and
// first elements of its inputs are the same, for several numbers of elements.
func TestCacheByAddress(t *testing.T) {
	t.Parallel()
	for _, known := range []int{1, 16} {
		l := bitwise(nil)
		l.Compile = func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
			var mu sync.Mutex
			type key struct {
				address uint64
				sizes   [2]int
				start   [16]uint32
			}
			cache := map[key][]num.Array{}
			return engine.KernelFunc(func(l *engine.Launch) error {
				x := &l.Operands[0]
				k := key{address: x.Address(), sizes: [2]int{x.Rows, x.Cols}}
				for c := range min(known, x.Cols) {
					k.start[c] = x.Bits(0, c)
				}
				mu.Lock()
				defer mu.Unlock()
				if cache[k] == nil {
					cache[k] = answer(d, l)
				}
				store(d, l, cache[k], nil)
				return nil
			}), nil
		}
		x := target(softmax.ForwardDefinition, num.F16, l)
		expectAccepted(t, x, "repeat:normal/R=5,C=33")
		expectRejected(t, x, "late-change:normal/R=5,C=33", "in the same memory, with another value in x[4,32]", evidence.Invariance)
	}
}

// TestCacheWithoutParameters checks a kernel that returns an earlier result if all inputs are the
// same, whatever the parameters are.
func TestCacheWithoutParameters(t *testing.T) {
	t.Parallel()
	l := bitwise(nil)
	l.Compile = func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
		var mu sync.Mutex
		cache := map[string][]num.Array{}
		return engine.KernelFunc(func(l *engine.Launch) error {
			mu.Lock()
			defer mu.Unlock()
			key := ""
			for i := range d.Operands {
				if a := l.Operands[i].Array; d.Operands[i].IsIn {
					for r := range a.Rows {
						key += string(a.Row(r))
					}
				}
			}
			if cache[key] == nil {
				cache[key] = answer(d, l)
			}
			store(d, l, cache[key], nil)
			return nil
		}), nil
	}
	x := target(layernorm.ForwardDefinition, num.F16, l)
	expectAccepted(t, x, "repeat:normal/R=5,C=33")
	expectRejected(t, x, "late-change:normal/R=5,C=33", "in the same memory, with another eps", evidence.Invariance)
}

// TestInputAsScratch checks a kernel that scales its input in place, computes, and scales it back.
func TestInputAsScratch(t *testing.T) {
	t.Parallel()
	k := bitwise(func(d *def.Definition, l *engine.Launch) error {
		x := l.Operands[0].Array
		was := slices.Clone(x.Data)
		out := answer(d, l)
		for i := range x.Data {
			x.Data[i] = 0
		}
		time.Sleep(time.Microsecond)
		copy(x.Data, was)
		store(d, l, out, nil)
		return nil
	})
	x := target(softmax.ForwardDefinition, num.F16, k)
	if r := run(t, x, verify.Options{Case: "normal/R=5,C=33"}).Report; r.Verdict != evidence.Accepted {
		t.Errorf("%s: %s: one caller cannot tell", r.Verdict, r.Reason)
	}
	if err := trial.CanWatch(cpuDevice(t)); err != nil {
		t.Skip(err)
	}
	expectRejected(t, x, "scratch:normal/R=5,C=33", "it writes to its input x: what it holds now is what it held before", evidence.Structure)
}

// TestScratchAmongCallers checks the same kernel where memory cannot be watched: one caller reads
// what another one writes to an input. Every launch waits for a concurrent one.
func TestScratchAmongCallers(t *testing.T) {
	if isRace {
		t.Skip("the kernel of this test has a race")
	}
	defer verify.SetCanWatch(false)()
	var mu sync.Mutex
	begun := 0
	k := bitwise(func(d *def.Definition, l *engine.Launch) error {
		x := l.Operands[0].Array
		scribble := func() int {
			mu.Lock()
			defer mu.Unlock()
			x.SetBits(0, 0, x.Bits(0, 0)^1)
			return begun
		}
		mu.Lock()
		begun++
		out := answer(d, l)
		mu.Unlock()
		own := scribble()
		for range 20 {
			mu.Lock()
			isAlone := begun == own
			mu.Unlock()
			if !isAlone {
				break
			}
			time.Sleep(time.Millisecond)
		}
		scribble()
		store(d, l, out, nil)
		return nil
	})
	x := target(softmax.ForwardDefinition, num.F16, k)
	expectAccepted(t, x, "concurrent:normal/R=5,C=33")
	if r := run(t, x, verify.Options{Case: "scratch:normal/R=5,C=33"}).Report; r.Verdict != evidence.Rejected || !strings.Contains(r.Reason, "launched 4 at once on the same inputs") {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
}

// TestCancelledLaunch checks kernels that misbehave when the context ends.
func TestCancelledLaunch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, text string
		tier       evidence.TierName
		launch     func() kernelFunc
	}{
		{"half of the result, and no error", "has ended, without an error", evidence.Invariance, func() kernelFunc {
			return func(d *def.Definition, l *engine.Launch) error {
				out := answer(d, l)
				store(d, l, out, func(_, r, _ int) bool { return r > 2 && l.Context.Err() != nil })
				return nil
			}
		}},
		{"an input left behind changed", "it writes to its input x", evidence.Structure, func() kernelFunc {
			return func(d *def.Definition, l *engine.Launch) error {
				if l.Context.Err() != nil {
					poke(l, 0, 0)
					return l.Context.Err()
				}
				return honest(d, l)
			}
		}},
		{"state that the next launch finds", "after a launch under a context that has ended", evidence.Invariance, func() kernelFunc {
			isSpoiled := false
			return func(d *def.Definition, l *engine.Launch) error {
				if err := l.Context.Err(); err != nil {
					isSpoiled = true
					return err
				}
				out := answer(d, l)
				if isSpoiled {
					spoil(d, out)
				}
				store(d, l, out, nil)
				return nil
			}
		}},
		{"half of the result when it ends on the way", "asked 3 times, without an error", evidence.Invariance, func() kernelFunc {
			return func(d *def.Definition, l *engine.Launch) error {
				for range 2 {
					if err := l.Context.Err(); err != nil {
						return err
					}
				}
				store(d, l, answer(d, l), func(_, r, _ int) bool { return r == 4 && isOver(l.Context) })
				return nil
			}
		}},
		{"work that goes on", "after a launch", evidence.Invariance, func() kernelFunc {
			var late []num.Array
			return func(d *def.Definition, l *engine.Launch) error {
				if err := l.Context.Err(); err != nil {
					late = answer(d, l)
					return err
				}
				out := answer(d, l)
				if late != nil {
					out, late = late, nil
				}
				store(d, l, out, nil)
				return nil
			}
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			x := target(softmax.ForwardDefinition, num.F16, bitwise(test.launch()))
			expectAccepted(t, x, "repeat:normal/R=5,C=33")
			x = target(softmax.ForwardDefinition, num.F16, bitwise(test.launch()))
			expectRejected(t, x, "cancel:normal/R=5,C=33", test.text, test.tier)
		})
	}
	stops := bitwise(func(d *def.Definition, l *engine.Launch) error {
		for range 3 {
			if err := l.Context.Err(); err != nil {
				poke(l, 1, 0) // an output may hold anything then
				return err
			}
		}
		return honest(d, l)
	})
	expectAccepted(t, target(softmax.ForwardDefinition, num.F16, stops), "cancel:normal/R=5,C=33")
}

func isOver(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func cpuDevice(t *testing.T) device.Device {
	t.Helper()
	d, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
