package verify_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/adamw"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/verify"
)

// TestSpecialValuesInOtherForms runs kernels on inputs with infinities and NaN: honest ones in
// other forms than the definition's, and ones that lose or make a special value.
func TestSpecialValuesInOtherForms(t *testing.T) {
	t.Parallel()
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	exp := func(x float32) float32 { return float32(math.Exp(float64(x))) }
	forward := func(edit func(x, y []float32)) engine.KernelFunc {
		return byRow(func(l *engine.Launch, r int) {
			x, y := rowOf(l, 0, r), make([]float32, l.Operands[0].Array.Cols)
			largest, sum := x[0], float32(0)
			for _, v := range x {
				if largest = max(largest, v); v != v {
					largest = v
				}
			}
			for c, v := range x {
				y[c] = exp(v - largest)
				sum += y[c]
			}
			for c := range y {
				y[c] /= sum
			}
			edit(x, y)
			keep(l, 1, r, y)
		})
	}
	backward := func(f func(y, dy, dot float32) float32) engine.KernelFunc {
		return byRow(func(l *engine.Launch, r int) {
			dy, y, dx := rowOf(l, 0, r), rowOf(l, 1, r), make([]float32, l.Operands[0].Array.Cols)
			dot := float32(0)
			for c := range dy {
				dot += dy[c] * y[c]
			}
			for c := range dx {
				dx[c] = f(y[c], dy[c], dot)
			}
			keep(l, 2, r, dx)
		})
	}
	normal := func(f func(t, a, xhat, c, rstd float32) float32) engine.KernelFunc {
		return func(l *engine.Launch) error {
			C := l.Operands[0].Array.Cols
			gamma, dgamma, dbeta := rowOf(l, 2, 0), make([]float32, C), make([]float32, C)
			for r := range l.Operands[0].Array.Rows {
				dy, x, dx := rowOf(l, 0, r), rowOf(l, 1, r), make([]float32, C)
				mean, rstd := rowOf(l, 3, r)[0], rowOf(l, 4, r)[0]
				var a, b float32
				for c := range dy {
					xhat := (x[c] - mean) * rstd
					a += dy[c] * gamma[c]
					b += dy[c] * gamma[c] * xhat
					dgamma[c] += dy[c] * xhat
					dbeta[c] += dy[c]
				}
				for c := range dy {
					dx[c] = f(dy[c]*gamma[c], a/float32(C), (x[c]-mean)*rstd, b/float32(C), rstd)
				}
				keep(l, 5, r, dx)
			}
			keep(l, 6, 0, dgamma)
			keep(l, 7, 0, dbeta)
			return nil
		}
	}
	step := func(f func(w, decay, update float32) float32) engine.KernelFunc {
		return byRow(func(l *engine.Launch, r int) {
			w, m, v, g := rowOf(l, 0, r), rowOf(l, 1, r), rowOf(l, 2, r), rowOf(l, 3, r)
			p := make([]float32, len(l.Params))
			for i := range p {
				p[i] = float32(l.Params[i])
			}
			for c := range w {
				m[c] = p[0]*m[c] + p[1]*g[c]
				v[c] = p[2]*v[c] + p[3]*g[c]*g[c]
				w[c] = f(w[c], p[7], p[4]*(m[c]/(float32(math.Sqrt(float64(v[c])))*p[5]+p[6])))
			}
			keep(l, 0, r, w)
			keep(l, 1, r, m)
			keep(l, 2, r, v)
		})
	}
	unit := func(f func(x, t float32) float32) engine.KernelFunc {
		return byRow(func(l *engine.Launch, r int) {
			x := rowOf(l, 0, r)
			for c, v := range x {
				x[c] = f(v, 1.5957691216*v*(1+0.044715*v*v))
			}
			keep(l, 1, r, x)
		})
	}
	product := func(term func(a, b float32) float32, result func(float32) float32) engine.KernelFunc {
		return func(l *engine.Launch) error {
			a, b, z := l.Operands[0].Array, l.Operands[1].Array, l.Operands[2].Array
			for r := range z.Rows {
				for c := range z.Cols {
					s := float32(0)
					for k := a.Cols - 1; k >= 0; k-- {
						s += term(a.At(r, k), b.At(k, c))
					}
					z.Set(r, c, result(s))
				}
			}
			return nil
		}
	}
	times := func(a, b float32) float32 { return a * b }
	same := func(x float32) float32 { return x }
	squares := func(result func(float32) float32) engine.KernelFunc {
		return func(l *engine.Launch) error {
			s, x := float32(0), l.Operands[0].Array
			for r := range x.Rows {
				for c := range x.Cols {
					s += x.At(r, c) * x.At(r, c)
				}
			}
			l.Operands[1].Array.Set(0, 0, result(s))
			return nil
		}
	}
	clip := func(factor func(norm, limit float32) float32) engine.KernelFunc {
		return byRow(func(l *engine.Launch, r int) {
			total := rowOf(l, 0, r)
			root, factors := make([]float32, len(total)), make([]float32, len(total))
			for c, v := range total {
				root[c] = float32(math.Sqrt(float64(v)))
				if factors[c] = factor(root[c], float32(l.Params[0])); root[c] <= float32(l.Params[0]) {
					factors[c] = 1
				}
			}
			keep(l, 1, r, root)
			keep(l, 2, r, factors)
		})
	}
	clear := func(x float32) float32 {
		if math.IsInf(float64(x), 0) {
			return nan
		}
		return x
	}

	general := []string{"special", "rarely-special", "one-special", "special-ends", "special-pairs"}
	masks := []string{"causal-mask", "masked-rows", "left-padded"}
	for _, test := range []struct {
		name      string
		operation *op.Operation
		kernel    engine.KernelFunc
		patterns  []string
		isHonest  bool
	}{
		{"plain", softmax.Operations[0], forward(func(x, y []float32) {}), append(masks, general...), true},
		{"masked is NaN", softmax.Operations[0], forward(func(x, y []float32) {
			for c := range x {
				if x[c] == -inf {
					y[c] = nan
				}
			}
		}), masks, false},
		{"masked rows are off by a little", softmax.Operations[0], forward(func(x, y []float32) {
			for c := range x {
				if x[0] == -inf {
					y[c] *= 1.0001
				}
			}
		}), masks, false},
		{"masked rows are zeros", softmax.Operations[0], forward(func(x, y []float32) {
			for c := range y {
				if y[c] != y[c] {
					y[c] = 0
				}
			}
		}), masks, false},
		{"multiplied out", softmax.Operations[1], backward(func(y, dy, dot float32) float32 { return y*dy - y*dot }), general, true},
		{"factored", softmax.Operations[1], backward(func(y, dy, dot float32) float32 { return y * (dy - dot) }), general, true},
		{"finite", softmax.Operations[1], backward(func(y, dy, dot float32) float32 {
			if z := y * (dy - dot); z-z == 0 {
				return z
			}
			return 0
		}), general, false},
		// All forms give these infinities; the clause also admits NaN.
		{"infinite is NaN", softmax.Operations[1], backward(func(y, dy, dot float32) float32 {
			if math.IsInf(float64(dot), 0) {
				return nan
			}
			return y * (dy - dot)
		}), []string{"one-special", "special-ends"}, true},
		{"factored", layernorm.Operations[1], normal(func(t, a, xhat, c, rstd float32) float32 { return (t - a - xhat*c) * rstd }), general, true},
		{"rstd multiplied into the sum", layernorm.Operations[1], normal(func(t, a, xhat, c, rstd float32) float32 { return t*rstd - a*rstd - xhat*rstd*c }), general, true},
		{"weight taken out", adamw.Operations[0], step(func(w, decay, update float32) float32 { return w*(1-decay) - update }), general, true},
		{"weight as defined", adamw.Operations[0], step(func(w, decay, update float32) float32 { return w - (update + decay*w) }), general, true},
		{"infinite weights stay", adamw.Operations[0], step(func(w, decay, update float32) float32 {
			if math.IsInf(float64(w), 0) {
				return 1
			}
			return w - (update + decay*w)
		}), general, false},
		{"quotient", gelu.Operations[0], unit(func(x, t float32) float32 { return x / (1 + exp(-t)) }), general, true},
		{"NaN is zero", gelu.Operations[0], unit(func(x, t float32) float32 {
			if x != x {
				return 0
			}
			return x / (1 + exp(-t))
		}), general, false},
		{"infinite is NaN", gelu.Operations[0], unit(func(x, t float32) float32 {
			if x == inf {
				return nan
			}
			return x / (1 + exp(-t))
		}), general, false},
		{"from the end", gemm.Operations[0], product(times, same), append([]string{"zeros-against-infinities", "zero-lines"}, general...), true},
		{"an infinite result is NaN", gemm.Operations[0], product(times, clear), general, false},
		{"zeros are skipped", gemm.Operations[0], product(func(a, b float32) float32 {
			if a == 0 || b == 0 {
				return 0
			}
			return a * b
		}, same), []string{"zeros-against-infinities"}, false},
		{"one by one", norm.Operations[0], squares(same), general, true},
		{"an infinite sum is NaN", norm.Operations[0], squares(clear), []string{"special-ends/R=1@8,C=9"}, false},
		{"NaN is lost, and squares overflow", norm.Operations[0], squares(func(s float32) float32 {
			if s != s {
				return inf
			}
			return s
		}), []string{"one-special/R=1100,C=40"}, false},
		{"an infinite norm divides", norm.Operations[1], clip(func(n, limit float32) float32 { return limit * (1 / n) }), []string{"special", "any-bits"}, true},
		{"an infinite norm clips nothing", norm.Operations[1], clip(func(n, limit float32) float32 {
			if n == inf {
				return 1
			}
			return limit / n
		}), []string{"special"}, false},
	} {
		d := test.operation.Definitions[0]
		l := &engine.Lowering{Name: "mine", Device: "cpu", Promise: engine.Promise{Name: promise.Stable, FunctionULP: 2},
			Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) { return test.kernel, nil }}
		target := &verify.Target{Operation: test.operation, Definition: d, Lowering: l, DType: num.F32}
		isRejected := false
		for _, pattern := range test.patterns {
			for _, sizes := range testlevel.Pick([][]int{{61, 7, 9}}, [][]int{{61, 7, 9}, {130, 33, 5}}) {
				name := pattern
				if !strings.Contains(pattern, "/") {
					for i, letter := range d.Sizes() {
						name += fmt.Sprintf("%c%s=%d", "/,,"[i], letter, sizes[i])
					}
				}
				result, err := verify.Run(context.Background(), target, verify.Options{Level: verify.Smoke, Seed: 1, Case: name, Tool: "test", Version: "1"})
				if err != nil {
					t.Fatal(err)
				}
				if r := result.Report; r.Verdict == evidence.Rejected {
					if isRejected = true; test.isHonest {
						t.Errorf("%s %s, %s: %s %s: got %s, want %s, of %v", d.Name, test.name, name, r.Verdict, r.Reason, r.Failure.Got, r.Failure.Want, r.Failure.Inputs)
					}
				}
			}
		}
		if !test.isHonest && !isRejected {
			t.Errorf("%s %s: accepted", d.Name, test.name)
		}
	}
}

// TestMomentFromTheNearerEnd runs AdamW with an m that moves from the nearer of m and grad. That
// is NaN for an infinite gradient where beta1 is at most 1/2, and only there.
func TestMomentFromTheNearerEnd(t *testing.T) {
	t.Parallel()
	o := adamw.Operations[0]
	step := func(isFar func(rest float32) bool) engine.KernelFunc {
		return byRow(func(l *engine.Launch, r int) {
			w, m, v, g := rowOf(l, 0, r), rowOf(l, 1, r), rowOf(l, 2, r), rowOf(l, 3, r)
			p := make([]float32, len(l.Params))
			for i := range p {
				p[i] = float32(l.Params[i])
			}
			for c := range w {
				if isFar(p[1]) {
					m[c] = g[c] - (g[c]-m[c])*(1-p[1])
				} else {
					m[c] += p[1] * (g[c] - m[c])
				}
				v[c] = p[2]*v[c] + p[3]*g[c]*g[c]
				w[c] -= p[4]*(m[c]/(float32(math.Sqrt(float64(v[c])))*p[5]+p[6])) + p[7]*w[c]
			}
			keep(l, 0, r, w)
			keep(l, 1, r, m)
			keep(l, 2, r, v)
		})
	}
	for _, test := range []struct {
		name     string
		kernel   engine.KernelFunc
		isHonest bool
	}{
		{"nearer", step(func(rest float32) bool { return rest >= 0.5 }), true},
		{"always from grad", step(func(float32) bool { return true }), false},
	} {
		l := &engine.Lowering{Name: "mine", Device: "cpu", Promise: engine.Promise{Name: promise.Stable},
			Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) { return test.kernel, nil }}
		target := &verify.Target{Operation: o, Definition: o.Definitions[0], Lowering: l, DType: num.F32}
		isRejected := false
		for params := range 12 {
			name := fmt.Sprintf("rarely-special/R=61,C=7/params=%d", params+1)
			result, err := verify.Run(context.Background(), target, verify.Options{Level: verify.Smoke, Seed: 1, Case: name, Tool: "test", Version: "1"})
			if err != nil {
				t.Fatal(err)
			}
			if r := result.Report; r.Verdict == evidence.Rejected {
				if isRejected = true; test.isHonest {
					t.Errorf("%s, %s: %s: got %s, want %s, of %v", test.name, name, r.Reason, r.Failure.Got, r.Failure.Want, r.Failure.Inputs)
				}
			}
		}
		if !test.isHonest && !isRejected {
			t.Errorf("%s: accepted", test.name)
		}
	}
}

// byRow calls f for every row of the first operand.
func byRow(f func(l *engine.Launch, r int)) engine.KernelFunc {
	return func(l *engine.Launch) error {
		for r := range l.Operands[0].Array.Rows {
			f(l, r)
		}
		return nil
	}
}

func rowOf(l *engine.Launch, operand, r int) []float32 {
	a := l.Operands[operand].Array
	x := make([]float32, a.Cols)
	for c := range x {
		x[c] = a.At(r, c)
	}
	return x
}

func keep(l *engine.Launch, operand, r int, x []float32) {
	for c, v := range x {
		l.Operands[operand].Array.Set(r, c, v)
	}
}
