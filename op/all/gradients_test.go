package all_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/relu2"
	"tokitai/op/rmsnorm"
	"tokitai/op/router"
	"tokitai/op/silu"
	"tokitai/op/softmax"
	"tokitai/op/swiglu"
	"tokitai/truth"
)

// gradient is a shipped definition of gradients: it must be the derivative of the forward
// definition.
type gradient struct {
	forward, backward *def.Definition
	of                []string // outputs and inputs of forward that it belongs to; nil for all
	saved             []string // inputs of backward that are outputs of forward
	faults            []fault  // planted in the text of backward
}

type fault struct{ name, old, new string }

var gradients = []gradient{
	{
		forward: softmax.ForwardDefinition, backward: softmax.BackwardDefinition, saved: []string{"y"},
		faults: []fault{{"wrong sign", "sub(dy, dot)", "add(dy, dot)"}, {"dot of another row sum", "mul(dy, y)", "mul(dy, dy)"}, {"missing factor", "mul(y, t2)", "mul(dy, t2)"}},
	},
	{
		forward: gelu.ForwardDefinition, backward: gelu.BackwardDefinition,
		faults: []fault{{"missing factor of the cube", "{6*sqrt(2/pi)*0.044715}", "{2*sqrt(2/pi)*0.044715}"}, {"missing term", "fma(t6, h, t9)", "mul(1, t9)"}, {"wrong sign", "neg(e)", "abs(e)"}},
	},
	{
		forward: gelu.ErfForwardDefinition, backward: gelu.ErfBackwardDefinition,
		faults: []fault{{"missing term", "fma(e, m, 1)", "fma(e, 0, 1)"}, {"another density", "{1/sqrt(2*pi)}", "{2/sqrt(pi)}"}, {"wrong sign", "neg(w)", "abs(w)"}, {"missing dy", "mul(dy, ", "mul(1, "}},
	},
	{
		forward: relu2.ForwardDefinition, backward: relu2.BackwardDefinition,
		faults: []fault{{"missing term", "add(t1, t1)", "abs(t1)"}, {"missing mask", "max(x, 0)", "max(x, x)"}, {"missing factor", "mul(dy, t2)", "mul(1, t2)"}},
	},
	{
		forward: silu.ForwardDefinition, backward: silu.BackwardDefinition,
		faults: []fault{{"missing term", "fma(t5, h, t6)", "mul(1, t6)"}, {"wrong sign", "neg(e)", "abs(e)"}, {"missing factor", "mul(dy, slope)", "mul(1, slope)"}},
	},
	{
		forward: swiglu.ForwardDefinition, backward: swiglu.BackwardDefinition,
		faults: []fault{{"missing term", "fma(t5, h, t6)", "mul(1, t6)"}, {"wrong sign", "neg(e)", "abs(e)"}, {"missing factor", "mul(up, slope)", "mul(1, slope)"}, {"dup of up", "mul(dy, silu)", "mul(up, silu)"}},
	},
	{
		forward: router.SoftmaxForwardDefinition, backward: router.SoftmaxBackwardDefinition, of: []string{"weight", "logits"},
		faults: []fault{{"wrong sign", "sub(g, mean)", "add(g, mean)"}, {"missing factor", "mul(scale, share)", "mul(1, share)"}, {"mean of squares", "mul(g, share)", "mul(g, g)"}},
	},
	{
		forward: router.SigmoidForwardDefinition, backward: router.SigmoidBackwardDefinition, of: []string{"weight", "logits"},
		faults: []fault{{"missing slope", "mul(factor, slope)", "mul(factor, s)"}, {"wrong sign", "sub(g, ", "add(g, "}},
	},
	{
		forward: router.BalanceForwardDefinition, backward: router.BalanceBackwardDefinition, of: []string{"balance", "z", "logits"},
		faults: []fault{{"wrong sign", "sub(f, mean)", "add(f, mean)"}, {"missing factor", "mul(dbalance, C)", "mul(dbalance, 1)"}, {"slope of z", "add(dz, dz)", "abs(dz)"}},
	},
	{
		forward: layernorm.ForwardDefinition, backward: layernorm.BackwardDefinition, of: []string{"y"}, saved: []string{"mean", "rstd"},
		faults: []fault{{"missing mean", "sub(t, a)", "abs(t)"}, {"missing factor", "mul(xhat, c)", "mul(2, c)"}, {"dgamma of x", "mul(dy, xhat)", "mul(dy, x)"}, {"dbeta of t", "colsum(dy)", "colsum(t)"}},
	},
	{
		forward: rmsnorm.ForwardDefinition, backward: rmsnorm.BackwardDefinition, of: []string{"y"}, saved: []string{"rstd"},
		faults: []fault{{"wrong sign", "sub(t, ", "add(t, "}, {"missing factor", "mul(xhat, c)", "mul(2, c)"}, {"dgamma of x", "mul(dy, xhat)", "mul(dy, x)"}},
	},
	{
		forward: rmsnorm.ResidualForwardDefinition, backward: rmsnorm.ResidualBackwardDefinition, of: []string{"y", "sum", "x", "gamma"}, saved: []string{"rstd", "sum"},
		faults: []fault{
			{"wrong sign", "sub(t, ", "add(t, "}, {"missing factor", "mul(xhat, c)", "mul(2, c)"}, {"dgamma of sum", "mul(dy, xhat)", "mul(dy, sum)"},
			{"missing gradient of sum", "rstd, dsum)", "rstd, 0)"},
		},
	},
	{
		forward: crossentropy.Definition, backward: crossentropy.Definition, of: []string{"loss"},
		faults: []fault{{"wrong sign", "sub(p, onehot)", "add(p, onehot)"}, {"missing label", "sub(p, onehot)", "mul(p, 1)"}, {"missing scale", "mul(scale, ", "mul(1, "}},
	},
}

// TestGradients holds every shipped gradient to the derivative of its forward definition: the
// two real numbers are equal as far as enclosures tell, or round to the same binary32. A
// gradient that takes results of the forward definition is given their real values.
func TestGradients(t *testing.T) {
	for _, g := range gradients {
		if count, err := g.check(g.backward); err != nil || count == 0 {
			t.Errorf("%s: %d elements compared: %v", g.backward.Name, count, err)
		} else {
			t.Logf("%s: %d elements", g.backward.Name, count)
		}
	}
}

// TestGradientsCanFail plants a fault in every gradient.
func TestGradientsCanFail(t *testing.T) {
	for _, g := range gradients {
		for _, f := range g.faults {
			text := strings.Replace(g.backward.Text(), f.old, f.new, 1)
			wrong, err := def.Parse(text)
			if err != nil || text == g.backward.Text() {
				t.Fatalf("%s, %s: %v in\n%s", g.backward.Name, f.name, err, text)
			}
			if _, err := g.check(wrong); err == nil {
				t.Errorf("%s passes with a %s", g.backward.Name, f.name)
			} else {
				t.Logf("%s: %v", f.name, err)
			}
		}
	}
}

// TestTableGradients holds the gradients of products, gathers and sums by index to the text
// of the derivatives: they differ in their names alone.
func TestTableGradients(t *testing.T) {
	for _, g := range []struct {
		of       *def.Definition
		by       string
		backward *def.Definition
	}{
		{gemm.ForwardDefinition, "A", gemm.GradADefinition},
		{gemm.ForwardDefinition, "B", gemm.GradBDefinition},
		{gemm.ForwardAccumulateDefinition, "A", gemm.GradADefinition},
		{gemm.BatchedForwardDefinition, "A", gemm.BatchedGradADefinition},
		{gemm.BatchedForwardDefinition, "B", gemm.BatchedGradBDefinition},
		{embedding.ForwardDefinition, "weight", embedding.BackwardDefinition},
	} {
		d, err := def.Derivative(g.of, []string{g.by})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := strings.Replace(d.Text(), d.Name, g.backward.Name, 1); got != g.backward.Text() {
			t.Errorf("%s is\n%s\nwant\n%s", d.Name, got, g.backward.Text())
		}
	}
}

// check compares a gradient with the derivative on all patterns of the forward definition.
func (g *gradient) check(backward *def.Definition) (count int, err error) {
	derivative, err := def.Derivative(g.forward, g.of, fn.All...)
	if err != nil {
		return 0, err
	}
	shipped, err := g.compose(backward)
	if err != nil {
		return 0, err
	}
	for _, o := range all.Operations {
		patterns := []op.Pattern{}
		for _, d := range o.Definitions {
			if d == g.forward {
				patterns = append(patterns, ordinary(o, d))
			}
		}
		for _, p := range append(patterns, o.Patterns...) {
			if p.Definition != g.forward {
				continue
			}
			for _, sizes := range sizesOf(g.forward) {
				n, err := compareGradients(p, paramsOf(o, p), sizes, derivative, shipped)
				if err != nil {
					return count, fmt.Errorf("%s %v: %w", p.Name, sizes, err)
				}
				count += n
			}
		}
	}
	return count, nil
}

// compose returns backward with the results of forward that it takes computed inside.
func (g *gradient) compose(backward *def.Definition) (*def.Definition, error) {
	return def.Rowwise("composed", func(b *def.Builder) {
		values := map[string]def.Value{}
		declare := func(d *def.Definition) {
			for _, p := range d.Params {
				if _, isDeclared := values[p.Name]; !isDeclared {
					values[p.Name] = b.Param(p.Name)
					if p.IsInt {
						values[p.Name] = b.IntParam(p.Name + "_")
					}
				}
			}
			for _, o := range d.Operands {
				_, isDeclared := values[o.Name]
				switch {
				case !o.IsIn || isDeclared:
				case o.IsIndex:
					values[o.Name] = b.InIndex(o.Name)
				default:
					in := map[def.Extent]func(string, ...def.Rule) def.Value{def.PerElement: b.In, def.PerColumn: b.InCol, def.PerRow: b.InRow, def.PerSlot: b.InSlots}
					var rule []def.Rule
					if o.IsInt() {
						rule = append(rule, o.DTypes)
					}
					values[o.Name] = in[o.Extent](o.Name, rule...)
				}
			}
		}
		declare(g.forward)
		if len(g.saved) > 0 {
			results := b.Apply(g.forward, pick(values, g.forward))
			for _, name := range g.saved {
				values[name] = results[name]
			}
		}
		declare(backward)
		results := b.Apply(backward, pick(values, backward))
		for _, o := range backward.Operands {
			if o.IsOut {
				out := map[def.Extent]func(string, def.Value, ...def.Rule){def.PerElement: b.Out, def.PerColumn: b.OutCol, def.PerRow: b.OutRow}
				out[o.Extent](o.Name, results[o.Name])
			}
		}
	})
}

// pick returns the values of a definition's inputs and parameters.
func pick(values map[string]def.Value, d *def.Definition) map[string]def.Value {
	values = maps.Clone(values)
	maps.DeleteFunc(values, func(name string, _ def.Value) bool { return d.Operand(name) < 0 && d.Param(name) < 0 })
	return values
}

// compareGradients evaluates two definitions on the same data and compares the outputs that
// both have. It returns how many elements are known.
func compareGradients(p op.Pattern, params []float64, sizes map[string]int, a, b *def.Definition) (count int, err error) {
	formats := make([]num.DType, len(p.Definition.Operands))
	for i, o := range p.Definition.Operands {
		if formats[i] = num.F32; o.IsInt() {
			formats[i] = num.I32
		}
	}
	named := map[string]num.Array{}
	isFinite := true
	for i, in := range fill(p, sizes, formats) {
		named[p.Definition.Operands[i].Name] = in
		for r := range in.Rows {
			for c := range in.Cols {
				isFinite = isFinite && (in.DType == num.I32 || in.At(r, c)-in.At(r, c) == 0)
			}
		}
	}
	enclose := func(d *def.Definition) (*truth.Result, error) {
		var operands []num.Array
		for i := range d.Operands {
			o := &d.Operands[i]
			x, isGiven := named[o.Name]
			if !isGiven || !o.IsIn {
				format := num.F32
				if o.IsInt() {
					format = num.I32
				}
				x = o.NewArray(format, sizes)
				if o.IsIn { // a gradient; that of a loss is the scale by which it counts
					x = fill(op.Pattern{Name: p.Name, Definition: d}, sizes, slices.Repeat([]num.DType{format}, len(d.Operands)))[i]
					for r := range x.Rows {
						if k := p.Definition.Param("scale"); k >= 0 {
							x.Set(r, 0, float32(params[k]))
						}
					}
					named[o.Name] = x
				}
			}
			operands = append(operands, x)
		}
		var given []float64
		for _, q := range d.Params {
			given = append(given, params[p.Definition.Param(strings.TrimSuffix(q.Name, "_"))])
		}
		return truth.Enclose(d, operands, truth.Options{Params: given})
	}
	x, err := enclose(a)
	if err != nil {
		return 0, err
	}
	y, err := enclose(b)
	if err != nil {
		return 0, err
	}
	for i, o := range a.Operands {
		j := b.Operand(o.Name)
		if !o.IsOut || j < 0 {
			continue
		}
		size := a.Operands[i].NewArray(num.F32, sizes)
		for r := range size.Rows {
			for c := range size.Cols {
				u, v := x.At(i, r, c), y.At(j, r, c)
				if !u.Known() || !v.Known() {
					// A choice that is left open leaves other values unknown in other expressions.
					if u.Known() != v.Known() && isFinite && a.AxisOf(def.Slot) == "" {
						return count, fmt.Errorf("%s[%d,%d] is %v, its derivative %v", o.Name, r, c, v, u)
					}
					continue
				}
				count++
				ulo, uhi := x.Between(i, r, c)
				vlo, vhi := y.Between(j, r, c)
				lo, hi := u.Bounds()
				least, most := v.Bounds()
				rounds := num.Index(num.F32, ulo) <= num.Index(num.F32, vhi) && num.Index(num.F32, vlo) <= num.Index(num.F32, uhi)
				if (hi < least || most < lo) && !rounds {
					return count, fmt.Errorf("%s[%d,%d] is %v, its derivative %v", o.Name, r, c, v, u)
				}
			}
		}
	}
	return count, nil
}
