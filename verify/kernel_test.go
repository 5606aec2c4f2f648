package verify_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/promise"
	"tokitai/reference"
	"tokitai/verify"
)

// The kernels of these tests are the reference with one change, or small products and rows in an
// order of their own.

// kernelFunc computes a definition on a launch.
type kernelFunc func(d *def.Definition, l *engine.Launch) error

// bitwise makes a lowering that promises bits.
func bitwise(run kernelFunc) *engine.Lowering {
	return &engine.Lowering{Name: "test.kernel", Device: "cpu", Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
		return engine.KernelFunc(func(l *engine.Launch) error { return run(d, l) }), nil
	}}
}

// bounded declares an order instead of bits.
func bounded(o def.Order, run kernelFunc) *engine.Lowering {
	l := bitwise(run)
	l.Promise.Name, l.Promise.Order = promise.Ordered, o
	return l
}

// answer computes a launch's outputs in memory of its own.
func answer(d *def.Definition, l *engine.Launch) []num.Array {
	var copies []num.Array
	for _, a := range l.Arrays() {
		copies = append(copies, a.Clone())
	}
	if err := reference.Run(d, copies, reference.Options{Params: l.Params}); err != nil {
		panic(err)
	}
	return copies
}

// store writes outputs, except elements that are to be skipped.
func store(d *def.Definition, l *engine.Launch, from []num.Array, skip func(operand, r, c int) bool) {
	for i, a := range l.Arrays() {
		if !d.Operands[i].IsOut {
			continue
		}
		for r := range a.Rows {
			for c := range a.Cols {
				if skip == nil || !skip(i, r, c) {
					a.SetBits64(r, c, from[i].Bits64(r, c))
				}
			}
		}
	}
}

// damaged is the reference with its outputs changed by a function.
func damaged(change func(l *engine.Launch, out []num.Array)) kernelFunc {
	return func(d *def.Definition, l *engine.Launch) error {
		out := answer(d, l)
		change(l, out)
		store(d, l, out, nil)
		return nil
	}
}

func honest(d *def.Definition, l *engine.Launch) error {
	store(d, l, answer(d, l), nil)
	return nil
}

// target makes a target of a definition of op/all, with its operation's patterns.
func target(d *def.Definition, dtype num.DType, l *engine.Lowering) *verify.Target {
	t := &verify.Target{Definition: d, Lowering: l, DType: dtype}
	for _, o := range all.Operations {
		if t.Operation == nil && slices.Contains(o.Definitions, d) {
			t.Operation = o
		}
	}
	return t
}

// run verifies a target and checks that the report is valid.
func run(t testing.TB, x *verify.Target, o verify.Options) *verify.Result {
	t.Helper()
	return runUnder(t, context.Background(), x, o)
}

func runUnder(t testing.TB, ctx context.Context, x *verify.Target, o verify.Options) *verify.Result {
	t.Helper()
	o.Tool, o.Version = "test", "0"
	r, err := verify.Run(ctx, x, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Report.Check(); err != nil {
		t.Errorf("%s: %v", o.Case, err)
	}
	return r
}

// expectAccepted runs one case that must pass.
func expectAccepted(t *testing.T, x *verify.Target, name string) *evidence.Report {
	t.Helper()
	r := run(t, x, verify.Options{Case: name, Seed: 1}).Report
	if r.Verdict != evidence.Accepted {
		t.Errorf("%s: got %s (%s), want accepted", name, r.Verdict, r.Reason)
	}
	return r
}

// expectRejected runs one case that must fail in the given tiers and no other, and
// whose message contains a text.
func expectRejected(t *testing.T, x *verify.Target, name, text string, tiers ...evidence.TierName) *evidence.Report {
	t.Helper()
	r := run(t, x, verify.Options{Case: name, Seed: 1})
	if got := r.RejectedBy(); !slices.Equal(got, tiers) {
		t.Errorf("%s: rejected by %v (%s %s), want %v", name, got, r.Report.Verdict, r.Report.Reason, tiers)
	}
	if !strings.Contains(r.Report.Reason, text) {
		t.Errorf("%s: reason %q, want one with %q", name, r.Report.Reason, text)
	}
	return r.Report
}

// Orders in which the small kernels add up.

func lanes(width int) func([]float32) float32 {
	return func(x []float32) float32 { return num.LaneSum(x, width) }
}

func sequential(x []float32) float32 { return num.LaneSum(x, 1) }

func pairwise(x []float32) float32 {
	return def.Fold(def.Order{Kind: def.Pairwise}, x, func(a, b float32) float32 { return a + b })
}

// towardZero truncates a sum instead of rounding it.
func towardZero(sum float64) float32 {
	y := float32(sum)
	if math.Abs(float64(y)) > math.Abs(sum) {
		y = math.Nextafter32(y, 0)
	}
	return y
}

// product computes A·B (+ C) with the given functions for sums and stores.
func product(sum func(row int, terms []float32) float32, narrow func(d num.DType, v float32) uint32) kernelFunc {
	return func(d *def.Definition, l *engine.Launch) error {
		x := l.Arrays()
		a, b, c := x[0], x[1], x[2]
		length := a.Cols
		if d.Product().TransposeLeft {
			length = a.Rows
		}
		terms := make([]float32, length, length+1)
		for row := range c.Rows {
			for col := range c.Cols {
				for k := range length {
					i, j, m, n := row, k, k, col
					if d.Product().TransposeLeft {
						i, j = j, i
					}
					if d.Product().TransposeRight {
						m, n = n, m
					}
					terms[k] = a.At(i, j) * b.At(m, n)
				}
				s := sum(row, terms)
				if d.Accumulates() {
					s += c.At(row, col)
				}
				c.SetBits(row, col, narrow(c.DType, s))
			}
		}
		return nil
	}
}

// plainProduct rounds to nearest when it stores.
func plainProduct(sum func([]float32) float32) kernelFunc {
	return product(func(_ int, terms []float32) float32 { return sum(terms) }, num.Narrow)
}

// softmaxOf has sums in an order, and the exponentials of package math, rounded.
func softmaxOf(sum func([]float32) float32) kernelFunc {
	return func(_ *def.Definition, l *engine.Launch) error {
		arrays := l.Arrays()
		x, y := arrays[0], arrays[1]
		e := make([]float32, x.Cols)
		for r := range x.Rows {
			top := float32(math.Inf(-1))
			for c := range x.Cols {
				top = max(top, x.At(r, c))
			}
			for c := range x.Cols {
				e[c] = float32(math.Exp(float64(x.At(r, c) - top)))
			}
			s := sum(e)
			for c := range x.Cols {
				y.Set(r, c, e[c]/s)
			}
		}
		return nil
	}
}

// medianOf returns the upper median.
func medianOf(sizes []int64) float64 {
	sorted := slices.Sorted(slices.Values(sizes))
	return float64(sorted[len(sorted)/2])
}
