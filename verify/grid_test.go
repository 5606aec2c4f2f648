package verify_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/adamw"
	"tokitai/op/all"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/promise"
	"tokitai/reference"
	"tokitai/truth"
	"tokitai/verify"
)

// TestGridsInEveryOrder computes elements on a grid in other orders, with products fused and not,
// for every case of a level in which only the answer is accepted.
func TestGridsInEveryOrder(t *testing.T) {
	t.Parallel()
	level, formats := testlevel.Pick(verify.Smoke, verify.Smoke, verify.Quick), testlevel.Pick([]num.DType{num.F32}, []num.DType{num.F32}, []num.DType{num.F32, num.F16})
	cases, onGrid, outputs := 0, 0, 0
	for _, x := range gridTargets(formats) {
		d := x.Definition
		verify.GridCalls(x, level, func(name string, operands []num.Array, params []float64) {
			answer := slices.Clone(operands)
			for i := range d.Operands {
				if d.Operands[i].IsOut {
					answer[i] = operands[i].Clone()
				}
			}
			if err := reference.Run(d, answer, reference.Options{Params: params}); err != nil {
				t.Fatal(err)
			}
			grid, err := truth.FindGrid(d, operands, truth.GridOptions{Params: params})
			if err != nil {
				t.Fatal(err)
			}
			cases++
			for i := range d.Operands {
				if !d.Operands[i].IsOut {
					continue
				}
				for r := range answer[i].Rows {
					for c := range answer[i].Cols {
						if outputs++; grid.Has(i, r, c) {
							onGrid++
						}
					}
				}
			}
			for order, got := range inOrders(t, d, operands, answer, params) {
				for i := range d.Operands {
					if !d.Operands[i].IsOut {
						continue
					}
					if at, ok := firstDifference(grid, i, got[i], answer[i]); ok {
						t.Errorf("%s %s: %s[%d,%d] is %v %s, and %v by definition", x.ID(), name, d.Operands[i].Name, at[0], at[1],
							got[i].At(at[0], at[1]), order, answer[i].At(at[0], at[1]))
					}
				}
			}
		})
	}
	t.Logf("%d cases, %d of %d outputs on a grid", cases, onGrid, outputs)
	if onGrid < outputs/2 {
		t.Errorf("%d of %d outputs are on a grid: the grids have lost what they are for", onGrid, outputs)
	}
}

// gridTargets returns targets of the CPU with patterns that are grids, one per definition and format.
func gridTargets(formats []num.DType) []*verify.Target {
	seen := map[string]bool{}
	var list []*verify.Target
	for _, x := range verify.Targets(all.Operations, cpu.Backend) {
		_, grids := verify.PatternNames(x)
		key := x.Definition.Name + x.DType.String()
		if len(grids) > 0 && !seen[key] && !x.Definition.HasAxes() && slices.Contains(formats, x.DType) {
			seen[key] = true
			list = append(list, x)
		}
	}
	return list
}

// firstDifference returns the first place on the grid at which two outputs differ; zeros are
// equal.
func firstDifference(grid *truth.Grid, operand int, got, want num.Array) (at [2]int, ok bool) {
	for r := range got.Rows {
		for c := range got.Cols {
			if grid.Has(operand, r, c) && num.Index(got.DType, got.Bits(r, c)) != num.Index(want.DType, want.Bits(r, c)) {
				return [2]int{r, c}, true
			}
		}
	}
	return at, false
}

// inOrders returns the outputs of a call with sums in other orders: for a rowwise definition the
// results of correctly rounded steps, where these are unique; for others the results of the plain
// loops below, for some of the outputs.
func inOrders(t *testing.T, d *def.Definition, operands, answer []num.Array, params []float64) map[string][]num.Array {
	t.Helper()
	all := map[string][]num.Array{}
	if d.Expression() == nil {
		result := slices.IndexFunc(d.Operands, func(o def.Operand) bool { return o.IsOut })
		for name, sum := range sums {
			got := slices.Clone(operands)
			got[result] = answer[result].Clone()
			out := &got[result]
			for i := 0; i < out.Rows*out.Cols; i += 1 + out.Rows*out.Cols/64 {
				r, c := i/out.Cols, i%out.Cols
				a, b := termsOf(d, operands, r, c)
				out.Set(r, c, sum(a, b))
			}
			all[name] = got
		}
		return all
	}
	if slices.ContainsFunc(d.Math().Nodes, func(n *def.Node) bool { return n.Op == def.OpCall || n.Op == def.OpSRound }) {
		return nil // op/all puts their columns in other orders
	}
	orders := map[string]def.Order{"added one by one": def.Sequential}
	if operands[0].Rows*operands[0].Cols < 1<<14 { // of long sums one other order is enough
		orders["added in pairs"], orders["added in lanes"], orders["added in chunks"] = def.Order{Kind: def.Pairwise}, def.Order{Kind: def.Lanes, Width: 3}, def.Order{Kind: def.Chunks, Width: 5}
	}
	for name, order := range orders {
		rounded, err := truth.Enclose(d, operands, truth.Options{Params: params, Mode: truth.Rounded, Order: &order, IsIEEE: true})
		if err != nil {
			t.Fatal(err)
		}
		got := slices.Clone(operands)
		for i := range d.Operands {
			if !d.Operands[i].IsOut {
				continue
			}
			got[i] = operands[i].Clone()
			for r := range got[i].Rows {
				for c := range got[i].Cols {
					lo, hi := rounded.Between(i, r, c)
					if got[i].SetBits(r, c, lo); lo != hi && num.Widen(got[i].DType, hi) != 0 {
						got[i].Set(r, c, float32(math.NaN()))
					}
				}
			}
		}
		all[name] = got
	}
	return all
}

// termsOf returns the factors of an element of a product or a scattered sum, including the old
// value and the scales.
func termsOf(d *def.Definition, x []num.Array, r, c int) (a, b []float32) {
	if d.Accumulates() {
		a, b = append(a, x[2].At(r, c)), append(b, 1)
	}
	if d.Access() == def.ToIndex {
		for q := range x[1].Rows {
			if x[0].Int(q, 0) == int32(r) {
				a, b = append(a, x[1].At(q, c)), append(b, 1)
			}
		}
		return a, b
	}
	if d.Access() == def.FromIndex { // an index, a table, and weights if there are any
		for s := range x[0].Cols {
			weight := float32(1)
			if len(x) > 3 {
				weight = x[2].At(r, s)
			}
			if i := int(x[0].Int(r, s)); i >= 0 && i < x[1].Rows {
				a, b = append(a, x[1].At(i, c)), append(b, weight)
			}
		}
		return a, b
	}
	n := x[0].Cols
	if d.Product().TransposeLeft {
		n = x[0].Rows
	}
	scale := float32(1)
	if d.HasScales() {
		scale = x[3].At(r, 0) * x[4].At(c, 0)
	}
	for k := range n {
		left, right := [2]int{r, k}, [2]int{k, c}
		if d.Product().TransposeLeft {
			left = [2]int{k, r}
		}
		if d.Product().TransposeRight {
			right = [2]int{c, k}
		}
		a, b = append(a, x[0].At(left[0], left[1])), append(b, x[1].At(right[0], right[1])*scale)
	}
	return a, b
}

// sums has ways to compute a sum of products.
var sums = map[string]func(a, b []float32) float32{
	"multiplied, then added": func(a, b []float32) (s float32) {
		for i := range a {
			p := a[i] * b[i]
			s += p
		}
		return s
	},
	"fused, from the end": func(a, b []float32) (s float32) {
		for i := len(a) - 1; i >= 0; i-- {
			s = num.FMA(a[i], b[i], s)
		}
		return s
	},
	"in pairs": pairs,
	"in disorder": func(a, b []float32) (s float32) {
		g := gen.New("order")
		a, b = slices.Clone(a), slices.Clone(b)
		for i := range a {
			j := g.Below(i + 1)
			a[i], a[j], b[i], b[j] = a[j], a[i], b[j], b[i]
		}
		for i := range a {
			s = num.FMA(a[i], b[i], s)
		}
		return s
	},
}

func pairs(a, b []float32) float32 {
	switch len(a) {
	case 0:
		return 0
	case 1:
		return a[0] * b[0]
	}
	half := len(a) / 2
	return pairs(a[:half], b[:half]) + pairs(a[half:], b[half:])
}

// TestGridsKnowTheirLimits runs honest kernels on cases that have left the grid: sums past
// 2^24, and parameters that were varied.
func TestGridsKnowTheirLimits(t *testing.T) {
	t.Parallel()
	squares := engine.KernelFunc(func(l *engine.Launch) error {
		x, s := l.Operands[0].Array, float32(0)
		for r := range x.Rows {
			row := float32(0)
			for c := range x.Cols {
				row += x.At(r, c) * x.At(r, c)
			}
			s += row
		}
		l.Operands[1].Array.Set(0, 0, s)
		return nil
	})
	step := engine.KernelFunc(func(l *engine.Launch) error {
		w, m, v, g := l.Operands[0].Array, l.Operands[1].Array, l.Operands[2].Array, l.Operands[3].Array
		p := make([]float32, len(l.Params))
		for i := range p {
			p[i] = float32(l.Params[i])
		}
		for r := range w.Rows {
			for c := range w.Cols {
				grad := g.At(r, c)
				newM := num.FMA(p[0], m.At(r, c), p[1]*grad)
				newV := num.FMA(p[3]*grad, grad, p[2]*v.At(r, c))
				d := num.FMA(float32(math.Sqrt(float64(newV))), p[5], p[6])
				m.Set(r, c, newM)
				v.Set(r, c, newV)
				w.Set(r, c, num.FMA(-p[4], newM/d, num.FMA(-p[7], w.At(r, c), w.At(r, c))))
			}
		}
		return nil
	})
	const some = -1
	for _, test := range []struct {
		operation *op.Operation
		d         *def.Definition
		kernel    engine.Kernel
		name      string
		outputs   int64 // on the grid
	}{
		{norm.Operations[0], norm.SquareSumDefinition, squares, "larger-integers/R=549,C=693", 0},
		{norm.Operations[0], norm.SquareSumDefinition, squares, "larger-integers/R=9,C=693", 1},
		{norm.Operations[0], norm.SquareSumDefinition, squares, "plus-minus-one/R=549,C=693", 1},
		{adamw.Operations[0], adamw.InPlaceDefinition, step, "ties-of-f16/R=5,C=33/params=1", some},
		{adamw.Operations[0], adamw.InPlaceDefinition, step, "ties-of-f16/R=5,C=33/params=2", some},
		{adamw.Operations[0], adamw.InPlaceDefinition, step, "limit-of-f16/R=5,C=33/params=3", some},
		{adamw.Operations[0], adamw.InPlaceDefinition, step, "limit-of-f16/R=5,C=33", 495},
	} {
		l := &engine.Lowering{Name: "honest", Device: "cpu", Promise: engine.Promise{Name: promise.Ordered, FunctionULP: 1},
			Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) { return test.kernel, nil }}
		target := &verify.Target{Operation: test.operation, Definition: test.d, Lowering: l, DType: num.F32}
		result, err := verify.Run(context.Background(), target, verify.Options{Level: verify.Smoke, Seed: 1, Case: test.name, Tool: "test", Version: "1"})
		if err != nil {
			t.Fatal(err)
		}
		if result.Report.Verdict != evidence.Accepted {
			t.Errorf("%s %s: %s, %s", test.d.Name, test.name, result.Report.Verdict, result.Report.Reason)
		}
		for _, tier := range result.Report.Tiers {
			if tier.Name == evidence.Grid && tier.Checks != test.outputs && test.outputs != some {
				t.Errorf("%s %s: %d outputs on a grid, want %d", test.d.Name, test.name, tier.Checks, test.outputs)
			}
		}
	}
}

// TestGridsInOtherForms checks that elements that are on a grid in every form do not change when
// factors are multiplied out or taken out of sums.
func TestGridsInOtherForms(t *testing.T) {
	t.Parallel()
	d := layernorm.BackwardDefinition
	for _, x := range gridTargets([]num.DType{num.F32}) {
		if x.Definition != d {
			continue
		}
		verify.GridCalls(x, verify.Smoke, func(name string, a []num.Array, params []float64) {
			grid, err := truth.FindGrid(d, a, truth.GridOptions{Params: params, InAnyForm: true})
			if err != nil {
				t.Fatal(err)
			}
			answer := slices.Clone(a)
			for i := 5; i < 8; i++ {
				answer[i] = a[i].Clone()
			}
			if err := reference.Run(d, answer, reference.Options{Params: params}); err != nil {
				t.Fatal(err)
			}
			dy, xs, mean, rstd := a[0], a[1], a[3], a[4]
			for c := range dy.Cols {
				var sum, ofMean, ofGradients float32
				for r := range dy.Rows {
					sum = num.FMA(dy.At(r, c)*xs.At(r, c), rstd.At(r, 0), sum)
					ofMean += dy.At(r, c) * mean.At(r, 0) * rstd.At(r, 0)
					ofGradients += dy.At(r, c)
				}
				if !grid.Has(6, 0, c) || !grid.Has(7, 0, c) {
					t.Fatalf("%s: column %d of dgamma and dbeta is not on a grid", name, c)
				}
				if got, want := sum-ofMean, answer[6].At(0, c); got != want {
					t.Errorf("%s: dgamma[%d] is %v multiplied out, and %v by definition", name, c, got, want)
				}
				if want := answer[7].At(0, c); ofGradients != want {
					t.Errorf("%s: dbeta[%d] is %v, and %v by definition", name, c, ofGradients, want)
				}
			}
		})
	}
}
