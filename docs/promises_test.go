package docs_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/all"
	"tokitai/op/crossentropy"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/truth"
)

const promisesFile = "promises.md"

// TestPromiseExample: what the document quotes is what is compiled and run.
func TestPromiseExample(t *testing.T) {
	hold(t, promisesFile, "example", goBlock(declarations(t, "../verify/promise_example_test.go", "exp2Softmax", "Example_promises")))
}

// TestAllowances: the document lists the allowances of all operations.
func TestAllowances(t *testing.T) {
	var b strings.Builder
	b.WriteString("| profile | definition | output | allowance |\n|---|---|---|---|\n")
	for _, o := range all.Operations {
		for _, a := range o.Allowances {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", a.Profile, strings.ReplaceAll(a.Definition.Name, "_", `\_`), a.Output, escapeBars(a.Text))
		}
	}
	hold(t, promisesFile, "allowances", b.String())
}

// worked is one output whose set of promise stable is worked out by hand.
type worked struct {
	title    string
	d        *def.Definition
	operands func(dtype num.DType) []num.Array
	params   []float64
	operand  string
	row, col int
	y        float64
	parts    []part
}

// part is one part of the inequality: factor times size.
type part struct {
	text         string
	factor, size float64
}

// TestWorkedExamples works the inequality of promise stable out by hand, with derivatives from
// a textbook, and compares the sets of package truth with it.
func TestWorkedExamples(t *testing.T) {
	for name, w := range map[string]worked{
		"softmax by hand": softmaxByHand(), "layernorm by hand": layerNormByHand(), "loss by hand": lossByHand(), "adamw by hand": adamWByHand(),
	} {
		hold(t, promisesFile, name, "```text\n"+w.text(t)+"```")
	}
}

func (w *worked) text(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	place := w.operand
	if o := w.d.Operands[w.d.Operand(w.operand)]; len(o.Dims) > 1 {
		place = fmt.Sprintf("%s[%d]", w.operand, w.col)
	}
	fmt.Fprintf(&b, "%s: %s = %.7g\n\n", w.title, place, w.y)
	sum := 0.0
	for _, p := range w.parts {
		fmt.Fprintf(&b, "  %-38s %3g · %-11.5g = %.5g\n", p.text, p.factor, p.size, p.factor*p.size)
		sum += p.factor * p.size
	}
	radius := sum * 0x1p-24
	fmt.Fprintf(&b, "  %-38s %19s %.5g, so that B = %.3g\n\n", "together", "", sum, radius)
	for _, dtype := range num.FloatDTypes {
		operands := w.operands(dtype)
		i := w.d.Operand(w.operand)
		if operands[i].DType != dtype {
			continue
		}
		s, err := truth.EncloseStable(w.d, operands, truth.StableOptions{Params: w.params})
		if err != nil {
			t.Fatal(err)
		}
		lo, hi := s.Between(i, w.row, w.col, s.MostHeight())
		least, most := num.NarrowF64(dtype, w.y-radius), num.NarrowF64(dtype, w.y+radius)
		// The sets also have what is of second order: less than a part in a thousand here, and
		// at most one value more at each end.
		if wide := radius * 1.001; num.Distance(dtype, lo, least) > 1 || num.Distance(dtype, hi, most) > 1 ||
			float64(num.Widen(dtype, lo)) < w.y-wide-num.ULP(dtype, w.y) || float64(num.Widen(dtype, hi)) > w.y+wide+num.ULP(dtype, w.y) {
			t.Errorf("%s, %s: the set is %v to %v, by hand %v to %v", w.title, dtype, num.Widen(dtype, lo), num.Widen(dtype, hi), num.Widen(dtype, least), num.Widen(dtype, most))
		}
		n := s.Count(i, w.row, w.col, s.MostHeight())
		values := "values"
		if n == 1 {
			values = "value"
		}
		fmt.Fprintf(&b, "  in %-4s  %.9g to %.9g: %d %s\n", dtype, num.Widen(dtype, lo), num.Widen(dtype, hi), n, values)
	}
	return b.String()
}

// row returns values as one row of an array.
func row(dtype num.DType, values ...float32) num.Array {
	a := num.NewArray(dtype, 1, len(values))
	for c, v := range values {
		a.Set(0, c, v)
	}
	return a
}

func softmaxByHand() worked {
	x, at := []float64{0, 1, 2, 3}, 2
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v)
	}
	y := math.Exp(x[at]) / sum
	inputs, functions := 0.0, 0.0 // dy/dx_j is y·((j == at) − y_j), and so is e_j·dy/de_j
	for j, v := range x {
		slope := -y * math.Exp(v) / sum
		if j == at {
			slope += y
		}
		inputs += math.Abs(slope) * math.Abs(v)
		functions += math.Abs(slope)
	}
	return worked{
		title: "softmax of 0, 1, 2, 3", d: softmax.ForwardDefinition, operand: "y", col: at, y: y,
		operands: func(d num.DType) []num.Array { return []num.Array{row(d, 0, 1, 2, 3), row(d, 0, 0, 0, 0)} },
		parts: []part{
			{"k·|y|", 4, y},
			{"k·Σ |dy/dx_j|·|x_j|", 4, inputs},
			{"exp, 2 ulp: Σ |dy/de_j|·|e_j|", 4, functions},
			{"1/sum, correctly rounded: |y|", 1, y},
			{"the sum of 4 terms: |dy/ds|·Σ|terms|", 3, y},
		},
	}
}

func layerNormByHand() worked {
	const n, x, beta = 4, 10, 0.5
	eps := float64(float32(layernorm.DefaultEps))
	rstd := 1 / math.Sqrt(eps)
	inputs := rstd * x * ((1 - 1.0/n) + (n-1)*1.0/n) // dy/dx_j is rstd·gamma·((j == c) − 1/n)
	return worked{
		title: "LayerNorm of 10, 10, 10, 10 with gamma 1 and beta 0.5", d: layernorm.ForwardDefinition, operand: "y", col: 1, y: beta, params: []float64{layernorm.DefaultEps},
		operands: func(d num.DType) []num.Array {
			return []num.Array{row(d, x, x, x, x), row(d, 1, 1, 1, 1), row(d, beta, beta, beta, beta), row(d, 0, 0, 0, 0), row(num.F32, 0), row(num.F32, 0)}
		},
		parts: []part{
			{"k·|y|", 4, beta},
			{"k·Σ |dy/dx_j|·|x_j|", 4, inputs},
			{"k·|dy/dbeta|·|beta|", 4, beta},
			{"k·|dy/dgamma|·|gamma|", 4, 0},
			{"the mean's sum: |dy/dmean|·Σ|x_j|/4", 4, rstd * x}, // of 4 terms, which count as 4 additions
			{"the variance's sum: all terms are 0", 3, 0},
			{"1/sqrt: |dy/drstd|·rstd", 1, 0},
		},
	}
}

func lossByHand() worked {
	y := math.Log(4)
	return worked{
		title: "cross-entropy of the logits 0, 0, 0, 0", d: crossentropy.Definition, operand: "loss", y: y, params: []float64{crossentropy.DefaultIgnore, 1},
		operands: func(d num.DType) []num.Array {
			label := num.IndexArray(2)
			return []num.Array{row(d, 0, 0, 0, 0), label, row(num.F32, 0), row(d, 0, 0, 0, 0)}
		},
		parts: []part{
			{"k·|y|", 4, y},
			{"k·Σ |dy/dx_j|·|x_j|", 4, 0},
			{"exp, 2 ulp: Σ |dy/de_j|·|e_j|", 4, 1},
			{"log, 2 ulp: |log 4|", 4, y},
			{"the sum of 4 terms: |dy/ds|·Σ|terms|", 3, 1},
		},
	}
}

func adamWByHand() worked {
	single := func(x float64) float64 { return float64(float32(x)) }
	const w, m, v, g = 1, 0.5, 0.25, 0.5
	params := []float64{0.9, 0.1, 0.999, 0.001, 0.001, 1, 1e-8, 1e-5}
	beta1, rest1, beta2, rest2, step, inverse, eps, decay := single(params[0]), single(params[1]), single(params[2]), single(params[3]), single(params[4]), params[5], single(params[6]), single(params[7])
	newM, newV := beta1*m+rest1*g, beta2*v+rest2*g*g
	root := math.Sqrt(newV)
	d := root*inverse + eps
	y := w - (step*newM/d + decay*w)
	byM, byRoot := step/d, step*newM/(d*d)*inverse // magnitudes of dy/dm' and dy/droot
	byV := byRoot / (2 * root)
	return worked{
		title: "AdamW of weight 1, m 0.5, v 0.25, gradient 0.5, step size 0.001", d: adamw.InPlaceDefinition, operand: "weight", y: y, params: params,
		operands: func(dtype num.DType) []num.Array {
			return inOrder(adamw.InPlaceDefinition, map[string]num.Array{"weight": row(dtype, w), "m": row(num.F32, m), "v": row(num.F32, v), "grad": row(dtype, g)})
		},
		parts: []part{
			{"k·|y|", 4, y},
			{"k·|dy/dweight|·|weight|", 4, (1 - decay) * w},
			{"k·|dy/dm|·|m|", 4, byM * beta1 * m},
			{"k·|dy/dv|·|v|", 4, byV * beta2 * v},
			{"k·|dy/dgrad|·|grad|", 4, math.Abs(byM*rest1-byV*2*rest2*g) * g},
			{"sqrt, correctly rounded", 1, byRoot * root},
			{"the quotient, correctly rounded", 1, step * newM / d},
		},
	}
}

// inOrder returns arrays in the order of a definition's operands.
func inOrder(d *def.Definition, arrays map[string]num.Array) []num.Array {
	var list []num.Array
	for _, o := range d.Operands {
		list = append(list, arrays[o.Name])
	}
	return list
}
