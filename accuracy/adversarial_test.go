package accuracy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/truth"
)

func operationOf(t *testing.T, name string) *op.Operation {
	t.Helper()
	for _, o := range all.Operations {
		if o.Name == name {
			return o
		}
	}
	t.Fatalf("no operation %s", name)
	return nil
}

// tally is what hold found of one run.
type tally struct {
	judged, none int
	worst        float64 // distance over what is allowed
}

// hold holds every element of a run to its closed form, also those of which the
// rounded enclosure knows nothing, if nothing can overflow.
func hold(run *Run, overflows bool) (n tally, err error) {
	exact, err := run.Enclose(truth.Exact)
	if err != nil {
		return n, err
	}
	rounded, err := run.Enclose(truth.Rounded)
	if err != nil {
		return n, err
	}
	answer, err := run.Answer()
	if err != nil {
		return n, err
	}
	for i, o := range run.Data.Definition.Operands {
		form := run.boundFor(o.Name)
		if !o.IsOut || form == nil {
			continue
		}
		limit := form.At(run.call())
		for r := range answer[i].Rows {
			for c := range answer[i].Cols {
				x, w, y := exact.At(i, r, c), rounded.At(i, r, c), float64(answer[i].At(r, c))
				if !x.Known() || y-y != 0 || overflows && !w.Known() {
					continue
				}
				b := limit(r, c)
				if math.IsInf(b, 1) {
					if n.none++; form.None == "" {
						return n, fmt.Errorf("%s[%d,%d]: there is no bound, and the form does not say when", o.Name, r, c)
					}
					continue
				}
				n.judged++
				radius := 0.0
				if w.Known() {
					radius = truth.Radius(w, x)
				}
				if !(b >= 0) {
					return n, fmt.Errorf("%s[%d,%d]: the bound is %v", o.Name, r, c, b)
				}
				if err := check(form, b, y, answer[i].DType, x, radius); err != nil {
					return n, fmt.Errorf("%s[%d,%d]: %w", o.Name, r, c, err)
				}
				if answer[i].DType != num.F32 {
					b += num.ULP(answer[i].DType, y) / 2
				}
				if lo, hi := x.Bounds(); b > 0 {
					n.worst = max(n.worst, max(lo-y, y-hi)/b)
				}
			}
		}
	}
	return n, nil
}

// Results far from the truth, each because a step underflows and the rest of the
// computation makes much of it: absolute terms stand for that, or a condition.
func TestClosedFormsCountUnderflow(t *testing.T) {
	const subnormal = 0x1p-149
	adamw := func(eps float64) []float64 {
		return []float64{0.9, 1 - 0.9, 0.999, 1 - 0.999, 1e-3 / (1 - 0.9), 1 / math.Sqrt(1-0.999), eps, 0}
	}
	for _, test := range []struct {
		name      string
		operation string
		output    string
		params    []float64
		inputs    map[string][]float32 // one row
		none      bool                 // there is no bound
	}{
		{"difference over C", "layernorm.forward", "y", []float64{1e-5}, map[string][]float32{"x": {0, subnormal}, "gamma": {1, 1}, "beta": {0, 0}}, false},
		{"the same, scaled up", "layernorm.forward", "y", []float64{1e-30}, map[string][]float32{"x": {0, 3 * subnormal}, "gamma": {0x1p60, -0x1p60}, "beta": {0, 0}}, false},
		{"variance near the least number", "layernorm.forward", "y", []float64{0}, map[string][]float32{"x": {0, 0x1p-74}, "gamma": {1, 1}, "beta": {0, 0}}, true},
		{"variance near the least number", "layernorm.forward", "rstd", []float64{0}, map[string][]float32{"x": {0, 0x1p-74}, "gamma": {1, 1}, "beta": {0, 0}}, true},
		{"no variance, gamma 0", "layernorm.forward", "y", []float64{0}, map[string][]float32{"x": {1, 1}, "gamma": {0, 0}, "beta": {0, 0}}, true},
		{"last product", "layernorm.backward", "dx", nil, map[string][]float32{
			"dy": {0x1p-120, 0}, "x": {1, 1}, "gamma": {1, 1}, "mean": {1}, "rstd": {1.5 * 0x1p-29}}, false},
		{"dy*gamma", "layernorm.backward", "dx", nil, map[string][]float32{
			"dy": {0x1p-100, 0x1p-100}, "x": {0x1p60, 0x1p60}, "gamma": {0x1p-60, 0x1p-60}, "mean": {0}, "rstd": {1}}, false},
		{"xhat", "layernorm.backward", "dgamma", nil, map[string][]float32{
			"dy": {1e30}, "x": {1.37e-40}, "gamma": {1}, "mean": {0}, "rstd": {1e-4}}, false},
		{"squares near the least number", "rmsnorm.forward", "rstd", []float64{0}, map[string][]float32{"x": {0x1p-74, 0}, "gamma": {1, 1}}, true},
		{"mean square of a few units", "rmsnorm.forward", "y", []float64{0}, map[string][]float32{"x": {1.3 * 0x1p-73, 1.7 * 0x1p-73, 0x1p-75}, "gamma": {1, 1, 0x1p100}}, false},
		{"subnormal rows, eps 0", "rmsnorm.forward", "y", []float64{0}, map[string][]float32{"x": {subnormal, 3 * subnormal}, "gamma": {1, 1}}, true},
		{"subnormal rows", "rmsnorm.forward", "y", []float64{1e-30}, map[string][]float32{"x": {subnormal, 3 * subnormal}, "gamma": {0x1p60, -0x1p60}}, false},
		{"x*rstd", "rmsnorm.forward", "y", []float64{1e30}, map[string][]float32{"x": {0x1.7p-110, 3 * subnormal}, "gamma": {0x1p90, 1}}, false},
		{"a sum that is subnormal", "rmsnorm.residual.forward", "y", []float64{1e-30}, map[string][]float32{
			"x": {0x1p-100, 3 * subnormal}, "residual": {-0x1p-100 * (1 - 0x1p-20), subnormal}, "gamma": {0x1p60, 1}}, false},
		{"dy*gamma", "rmsnorm.backward", "dx", nil, map[string][]float32{
			"dy": {0x1p-100, 0x1p-100}, "x": {0x1p60, 0x1p60}, "gamma": {0x1.8p-50, 0x1.3p-50}, "rstd": {1}}, false},
		{"xhat", "rmsnorm.residual.backward", "dgamma", nil, map[string][]float32{
			"dy": {1e30}, "dsum": {1}, "sum": {1.37e-40}, "gamma": {1}, "rstd": {1e-4}}, false},
		{"x*r", "gelu.forward", "y", nil, map[string][]float32{"x": {subnormal, 3 * subnormal}}, false},
		{"new v is 0, eps 1e-30", "adamw.step", "weight", adamw(1e-30), map[string][]float32{"weight": {1}, "m": {0}, "v": {0}, "grad": {8.3e-22}}, true},
		{"new v is 0, eps 1e-25", "adamw.step", "weight", adamw(1e-25), map[string][]float32{"weight": {1}, "m": {0}, "v": {0}, "grad": {8.3e-22}}, true},
		{"new v is 0, eps 1e-22", "adamw.step", "weight", adamw(1e-22), map[string][]float32{"weight": {1}, "m": {0}, "v": {0}, "grad": {8.3e-22}}, true},
		{"new v is 0, eps 4e-21", "adamw.step", "weight", adamw(4e-21), map[string][]float32{"weight": {1}, "m": {0}, "v": {0}, "grad": {8.3e-22}}, false},
		{"(1-beta2)*grad", "adamw.step", "v", []float64{0, 1, 0, 0x1p-149, 1, 1, 1, 0}, map[string][]float32{"weight": {1}, "m": {0}, "v": {0}, "grad": {1025.5}}, false},
		// Not underflow, but the same rule: a form must hold on any finite data.
		{"terms of v cancel", "adamw.step", "v", []float64{0, 1, 1, 1, 1, 1, 1, 0}, map[string][]float32{"weight": {1}, "m": {0}, "v": {-1.0000002}, "grad": {1.0000001}}, false},
	} {
		o := operationOf(t, test.operation)
		data := op.Data{Name: test.name, Definition: o.Definitions[0], Sizes: map[string]int{"R": 1, "C": 1}, Params: test.params}
		for _, values := range test.inputs {
			data.Sizes["C"] = max(data.Sizes["C"], len(values))
		}
		run, ok := NewRun(o, data, num.F32)
		if !ok {
			t.Fatal("no run")
		}
		for name, values := range test.inputs {
			for c, v := range values {
				run.Operands[data.Definition.Operand(name)].Set(0, c, v)
			}
		}
		if got := run.boundFor(test.output).At(run.call())(0, 0); math.IsInf(got, 1) != test.none {
			t.Errorf("%s, %s: the bound of %s is %v", test.operation, test.name, test.output, got)
		}
		if _, err := hold(run, false); err != nil {
			t.Errorf("%s, %s: %v", test.operation, test.name, err)
		}
	}
}

// Where there may be no bound, the text says so; hold finds one that is missing elsewhere.
func TestConditionsAreStated(t *testing.T) {
	for _, o := range all.Operations {
		for _, b := range o.Bounds {
			text := strings.Join(b.Text, "\n")
			if (b.None != "") != strings.Contains(text, "no bound") || !strings.Contains(text, "no bound where "+b.None) && b.None != "" {
				t.Errorf("%s %s: the condition is %q, the text\n%s", o.Name, b.Output, b.None, text)
			}
		}
	}
}

// hostile makes values that are hard on closed forms: subnormals, exponents far apart
// or around any center, equal values and neighbours, zeros, powers of two.
func hostile(g *gen.Generator, high int) op.Element {
	center, width := -150+g.Below(150+high), []int{1, 3, 12, 60, 300}[g.Below(5)]
	switch g.Below(6) {
	case 0, 1:
		center = -4 + g.Below(8)
	case 2:
		center = -77 + g.Below(8) // squares underflow
	}
	base, kind := g.Exponents(-3, 3), g.Below(5)
	return func(g *gen.Generator, _, _ int) float32 {
		e := min(center-width/2+g.Below(width), high-1)
		m := g.Exponents(0, 1)
		switch r := g.Below(12); {
		case r == 0:
			return 0
		case r == 1:
			return math.Float32frombits(uint32(1 + g.Below(4))) // the least numbers
		case kind == 0:
			m = base * (1 + float32(g.Below(9)-4)*0x1p-23)
		case kind == 1:
			m = base
		case kind == 2 || r == 2:
			m = float32(math.Copysign(1, float64(m)))
		}
		return float32(math.Ldexp(float64(m), e))
	}
}

// hostileParams are parameters of an operation within its contract, and somewhat
// beyond.
func hostileParams(g *gen.Generator, name string, high int) float64 {
	power := func(low, high int) float64 { return math.Abs(float64(g.Exponents(low, high))) }
	if g.Below(3) == 0 {
		if v, ok := map[string]float64{
			"eps": 1e-8, "beta1": 0.9, "one_minus_beta1": 0.1, "beta2": 0.999, "one_minus_beta2": 0.001,
			"inverse_sqrt_bc2": 31.6, "step_size": 1e-3, "decay": 0, "scale": 1, "max_norm": 1,
		}[name]; ok {
			return v
		}
	}
	switch name {
	case "ignore":
		return -100
	case "k":
		return float64(1 + g.Below(4))
	case "normalise":
		return float64(g.Below(2))
	case "beta1", "beta2":
		return 1 - power(-30, 0)/2
	case "one_minus_beta1", "one_minus_beta2":
		return power(-53, 0)
	case "choices":
		return float64(1 + g.Below(math.MaxInt32))
	case "inverse_sqrt_bc2":
		return power(0, 12)
	case "eps":
		if g.Below(4) == 0 {
			return 0
		}
		return power(-120, high)
	}
	return power(-120, high)
}

// hostileCases is how many are tried for each operation and format.
var hostileCases = testlevel.Pick(100, 400)

// eachHostile calls f with hostile data of a definition, so many cases of each format, until it
// returns false.
// overflows says whether the computation may overflow.
func eachHostile(g *gen.Generator, cases int, o *op.Operation, d *def.Definition, f func(run *Run, overflows bool) bool) {
	formats := slices.DeleteFunc(slices.Clone(num.RealDTypes), func(f num.DType) bool { return d.DTypes(f) == nil })
	for i := range cases * len(num.FloatDTypes) {
		dtype := formats[i%len(formats)]
		high := 14 // then products of a few overflow nothing
		overflows := i%4 == 0 && dtype != num.F16 && !dtype.IsFP8()
		switch {
		case overflows:
			high = 60
		case dtype.IsFP8():
			high = 8
		}
		data := op.Data{Name: fmt.Sprint("hostile ", i), Definition: d, Sizes: map[string]int{}, Values: map[string]op.Element{}}
		isLong := g.Below(8) == 0
		for _, size := range d.Sizes() {
			if data.Sizes[size] = 1 + g.Below(4); isLong && slices.Contains([]string{"C", "K", "Q"}, size) {
				data.Sizes[size] = 1 + g.Below(40)
			}
			data.Sizes[size] = d.FitSize(size, data.Sizes[size])
		}
		for _, operand := range d.Operands {
			element := hostile(g, high)
			if operand.Name == "v" && g.Below(8) > 0 || operand.Name == "total" {
				signed := element
				element = func(g *gen.Generator, r, c int) float32 { return float32(math.Abs(float64(signed(g, r, c)))) }
			}
			data.Values[operand.Name] = element
		}
		for _, p := range d.Params {
			data.Params = append(data.Params, hostileParams(g, p.Name, high))
		}
		if run, ok := NewRun(o, data, dtype); ok && !f(run, overflows) {
			return
		}
	}
}

// Every closed form on hostile data, held to the truth and to the radius.
func TestHostileData(t *testing.T) {
	for _, o := range all.Operations {
		if len(o.Data) == 0 || o.Definitions[0].IsExact() { // integers have no error
			continue
		}
		var sum tally
		eachHostile(gen.New(t.Name()+o.Name), hostileCases, o, o.Definitions[0], func(run *Run, overflows bool) bool {
			n, err := hold(run, overflows)
			if err != nil {
				t.Errorf("%s, %s, %v: %v", o.Name, run.Data.Name, run.DType, err)
				describeInputs(t, run)
				return false
			}
			sum.judged, sum.none, sum.worst = sum.judged+n.judged, sum.none+n.none, max(sum.worst, n.worst)
			return true
		})
		t.Logf("%s: %d judged, %d without bound, worst %.3f", o.Name, sum.judged, sum.none, sum.worst)
		if sum.judged < hostileCases*5/4 || sum.none > sum.judged {
			t.Errorf("%s: %d judged, %d without bound: too little was seen", o.Name, sum.judged, sum.none)
		}
	}
}

// describeInputs logs the inputs of a run, if they are few.
func describeInputs(t *testing.T, run *Run) {
	if !testing.Verbose() {
		return
	}
	for k, operand := range run.Data.Definition.Operands {
		if operand.IsIn && len(run.Operands[k].Data) < 100 {
			t.Logf("%s %v", operand.Name, run.call().Matrix(operand.Name).Values)
		}
	}
	t.Log(run.Data.Params)
}
