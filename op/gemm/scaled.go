package gemm

import (
	"fmt"
	"maps"
	"slices"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
)

// Clauses that products share.
const (
	sizesClause = "M >= 0, N, K >= 1; leading dimensions count as rows, and the rows of every operand may be strided"
	apartClause = "the result may not overlap the operands; the operands may be the same tensor"
)

// scaledForm completes the form of a product with scales of rows and columns,
// C = (A·Bᵀ) ∘ (scale_a·scale_bᵀ), with the clauses that all have around the form's own.
func scaledForm(f def.ContractionForm) def.ContractionForm {
	f.Left, f.LeftDims = "A", []string{"M", "K"}
	f.Right, f.RightDims, f.TransposeRight = "B", []string{"N", "K"}, true
	f.Result, f.ResultDims = "C", []string{"M", "N"}
	f.Scales = def.Scales{Row: "scale_a", Col: "scale_b"}
	f.Clauses = slices.Concat([]string{sizesClause}, f.Clauses, []string{apartClause,
		"subnormals are kept; a product with a scale that overflows binary32 is infinite, and so is a result too large for its format"})
	return f
}

// scaledData returns data of a distribution, with sums of three lengths.
func scaledData(d *def.Definition, distribution string, values map[string]op.Element) []op.Data {
	var list []op.Data
	for _, k := range []int{64, 1024, 4096} {
		list = append(list, op.Data{
			Name: fmt.Sprintf("%s, %d summed", distribution, k), Definition: d, Sizes: map[string]int{"M": 48, "N": 48, "K": k}, Values: values,
		})
	}
	return list
}

// withScales adds to an operation what a product with scales of rows and columns has: the
// format of its result, and what happens when scales change.
func withScales(o *op.Operation) {
	d := o.Definitions[0]
	o.Params = []op.Param{{Name: "out", Default: "f32", Help: "dtype of the result: f32, f16 or bf16"}}
	o.Run = func(q *engine.Queue, in engine.Args, v *op.Values, opts ...engine.CallOption) (engine.Args, error) {
		return runScaled(d, q, in, v, opts)
	}
	o.Scalings = append(o.Scalings,
		op.Scaling{Name: "scaled-rows", Definition: d, Inputs: map[string]int{d.Scales().Row: 1}, Outputs: map[string]int{"C": 1}},
		op.Scaling{Name: "scaled-columns", Definition: d, Inputs: map[string]int{d.Scales().Col: 1}, Outputs: map[string]int{"C": 1}},
		op.Scaling{Name: "negated-scales", Definition: d, Negated: []string{d.Scales().Row, "C"}})
}

// runScaled computes a product with scales, stored in the format that the parameter out names.
func runScaled(d *def.Definition, q *engine.Queue, in engine.Args, v *op.Values, opts []engine.CallOption) (engine.Args, error) {
	out, err := num.ParseDType(v.Text("out"))
	if err != nil || !slices.Contains(d.Operands[2].DTypes.Allowed, out) {
		v.Refuse("out", "f32, f16 or bf16")
		return nil, v.Err()
	}
	return op.Eval(q, d, in, nil, append(opts[:len(opts):len(opts)], engine.WithStorage(map[string]num.DType{"C": out}))...)
}

// scaleFillings are patterns of the scales.
var scaleFillings = []struct {
	name     string
	row, col op.Element
}{
	{"scales-wide", exponents(-40, 40), exponents(-40, 40)},
	{"scales-near-one", op.Element(nearOne(1)), op.Element(nearOne(1))},
	{"scales-special", func(g *gen.Generator, _, _ int) float32 { return g.Special() }, func(g *gen.Generator, _, _ int) float32 { return g.Special() }},
	// In the other order nothing overflows, or underflows.
	{"scales-overflow", exponents(120, 127), exponents(-100, -90)},
	{"scales-underflow", exponents(-149, -140), exponents(100, 120)},
	{"scales-to-subnormals", exponents(-70, -60), exponents(-80, -70)},
}

// scalePatterns are patterns of the scales, with these factors.
func scalePatterns(d *def.Definition, factors map[string]op.Element) []op.Pattern {
	var list []op.Pattern
	for _, f := range scaleFillings {
		values := map[string]op.Element{d.Scales().Row: f.row, d.Scales().Col: f.col}
		maps.Copy(values, factors)
		list = append(list, op.Pattern{Name: f.name, Definition: d, Values: values})
	}
	return list
}
