package verify_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/gemm"
	"tokitai/tensor"
	"tokitai/verify"
)

// splitProduct multiplies matrices with the sum divided among goroutines, one for each
// panel. join adds up the panels' sums of one element.
func splitProduct(d *def.Definition, model func(dtypes []num.DType, columns, length int) def.Accum, join func(sums []float32) float32) engine.KernelFunc {
	return func(l *engine.Launch) error {
		a, b, c := l.Operands[0].Array, l.Operands[1].Array, l.Operands[2].Array
		m := model([]num.DType{a.DType, b.DType, c.DType}, c.Cols, a.Cols)
		depth := m.PanelDepth(a.Cols)
		panels := make([][]float32, (a.Cols+depth-1)/depth)
		var group sync.WaitGroup
		for i := range panels {
			group.Go(func() {
				for r := range c.Rows {
					for col := range c.Cols {
						acc := float32(0)
						if m.P == 0 && d.Accumulates() {
							acc = c.At(r, col)
						}
						for k := i * depth; k < min((i+1)*depth, a.Cols); k++ {
							acc = num.FMA(a.At(r, k), b.At(k, col), acc)
						}
						panels[i] = append(panels[i], acc)
					}
				}
			})
		}
		group.Wait()
		for i := range c.Rows * c.Cols {
			sums := make([]float32, len(panels))
			for p := range panels {
				sums[p] = panels[p][i]
			}
			v := join(sums)
			if m.P > 0 && d.Accumulates() {
				v += c.At(i/c.Cols, i%c.Cols)
			}
			c.Set(i/c.Cols, i%c.Cols, v)
		}
		return nil
	}
}

func tree(sums []float32) float32 {
	for len(sums) > 1 {
		var next []float32
		for i := 0; i < len(sums); i += 2 {
			if i+1 < len(sums) {
				next = append(next, sums[i]+sums[i+1])
			} else {
				next = append(next, sums[i])
			}
		}
		sums = next
	}
	return sums[0]
}

func oneByOne(sums []float32) float32 {
	s := sums[0]
	for _, v := range sums[1:] {
		s += v
	}
	return s
}

// splitLowering has four panels where sums are long.
func splitLowering(join func([]float32) float32) *engine.Lowering {
	model := func(_ []num.DType, _, length int) def.Accum {
		if length < 100 {
			return def.FMAChain
		}
		return def.Panels(def.FMAChain, 4)
	}
	return &engine.Lowering{
		Name: "test.split", Device: "cpu",
		Promise: engine.Promise{AccumFor: func(architecture string, dtypes []num.DType, columns, length int) def.Accum {
			if architecture != runtime.GOARCH {
				panic("the architecture is " + architecture)
			}
			return model(dtypes, columns, length)
		}},
		Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
			return splitProduct(d, model, join), nil
		},
	}
}

// TestPanelsOnManyCores checks that a lowering that divides sums among cores and declares its model
// is admitted, and must have the reference's bits in that model.
func TestPanelsOnManyCores(t *testing.T) {
	t.Parallel()
	for i, d := range []*def.Definition{gemm.ForwardDefinition, gemm.ForwardAccumulateDefinition} {
		if !isTried(i, 2) {
			continue
		}
		for _, dtype := range []num.DType{num.F16, num.F32} {
			target := &verify.Target{Operation: operationOf(d), Definition: d, DType: dtype, Lowering: splitLowering(tree)}
			r := run(t, target, verify.Options{Seed: 1, Level: verify.Smoke}).Report
			if r.Verdict != evidence.Accepted || r.Model != "fma or panels(fma,4)" || r.Mismatches != 0 {
				t.Errorf("%s %s: %s under %q, %s %+v", d.Name, dtype, r.Verdict, r.Model, r.Reason, r.Failure)
			}
			if dtype != num.F32 { // rounding to 16 bits hides most of the difference
				continue
			}
			target = &verify.Target{Operation: operationOf(d), Definition: d, DType: dtype, Lowering: splitLowering(oneByOne)}
			if r := run(t, target, verify.Options{Seed: 1, Level: verify.Smoke}).Report; r.Verdict != evidence.Rejected {
				t.Errorf("%s %s, panels added one by one: %s", d.Name, dtype, r.Verdict)
			}
		}
	}
}

func operationOf(d *def.Definition) *op.Operation {
	for _, o := range gemm.Operations {
		for _, e := range o.Definitions {
			if e == d {
				return o
			}
		}
	}
	panic("no operation has " + d.Name)
}

// TestPolicySameAsksForTheModel checks that policy same takes such a lowering where its model is
// fma, and refuses it elsewhere.
func TestPolicySameAsksForTheModel(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	for length, want := range map[int]string{64: "", 300: "test.split adds by the rule panels(fma,4), want the rule fma"} {
		a, err := tensor.New(q.Device(), num.F32, 3, length)
		if err != nil {
			t.Fatal(err)
		}
		b, err := tensor.New(q.Device(), num.F32, length, 2)
		if err != nil {
			t.Fatal(err)
		}
		c, err := tensor.New(q.Device(), num.F32, 3, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, policy := range []engine.Policy{engine.Fast, engine.Same} {
			err := gemm.Forward(q, c, a, b, engine.Using(splitLowering(tree)), engine.WithPolicy(policy))
			isRefused := want != "" && policy == engine.Same
			if isRefused != errors.Is(err, tensor.ErrBadArgument) || isRefused && !strings.Contains(err.Error(), want) || !isRefused && err != nil {
				t.Errorf("K=%d, policy %s: %v", length, policy, err)
			}
		}
	}
	var report verify.CallReport
	a, _ := tensor.FromFloat32(q.Device(), num.F32, make([]float32, 300), 1, 300)
	b, _ := tensor.FromFloat32(q.Device(), num.F32, make([]float32, 300), 300, 1)
	c, _ := tensor.New(q.Device(), num.F32, 1, 1)
	if err := gemm.Forward(q, c, a, b, engine.Using(splitLowering(tree)), verify.Checked(&report)); err != nil {
		t.Fatal(err)
	}
	if r := report.Reports(); len(r) != 1 || r[0].Model != "panels(fma,4)" || r[0].Verdict != evidence.Accepted {
		t.Errorf("a checked call: %+v", r)
	}
}
