package all_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/op/gemm"
	"tokitai/op/norm"
	"tokitai/truth"
)

func TestGridsHaveOneAnswer(t *testing.T) {
	grids := 0
	for _, o := range all.Operations {
		for _, p := range o.Patterns {
			if !p.IsGrid || p.Definition.HasAxes() { // each matrix of a stack is filled like one alone
				continue
			}
			grids++
			sizes := sizesOf(p.Definition)
			if p.Definition.Product() != nil && testlevel.Current() > testlevel.Smoke { // the most products that the grids are made for
				long := map[string]int{"M": 2, "N": 2, "K": 2}
				long[p.Definition.SummedOver()] = 4096
				sizes = append(sizes, long)
			}
			for _, s := range sizes {
				for _, formats := range formatsOf(p.Definition, grids) {
					if err := checkGrid(p.Definition, fill(p, s, formats), paramsOf(o, p), s); err != nil {
						t.Errorf("%s, %s: %v", p.Name, describe(p.Definition, s, formats), err)
					}
				}
			}
		}
	}
	t.Logf("%d grids", grids)
}

// TestGridsCanFail gives normal data out for grids, to every check on its own.
func TestGridsCanFail(t *testing.T) {
	f32 := func(d *def.Definition) []num.DType {
		formats := make([]num.DType, len(d.Operands))
		for i := range formats {
			formats[i] = num.F32
		}
		return formats
	}
	product := op.Pattern{Name: "normal", Definition: gemm.ForwardDefinition}
	sizes := map[string]int{"M": 2, "N": 2, "K": 300}
	inputs := fill(product, sizes, f32(product.Definition))
	if err := checkTerms(product.Definition, inputs); err == nil {
		t.Error("the terms of normal data fit 24 bits")
	}
	answer, err := run(product.Definition, inputs, nil, def.FMAChain)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkRounded(product.Definition, inputs, answer, nil); err == nil {
		t.Error("a product of normal data is the rounded truth")
	}
	if err := checkOrder(product.Definition, inputs, answer, nil, "K", orders(300)[0]); err == nil {
		t.Error("a product of normal data does not depend on the order")
	}

	total := op.Pattern{Name: "normal", Definition: norm.TotalDefinition}
	sizes = map[string]int{"R": 50, "C": 700}
	inputs = fill(total, sizes, f32(total.Definition))
	if answer, err = run(total.Definition, inputs, nil, def.FMAChain); err != nil {
		t.Fatal(err)
	}
	if err := checkOrder(total.Definition, inputs, answer, nil, "C", orders(700)[1]); err == nil {
		t.Error("sums of normal data do not depend on the order")
	}

	// The most that fits, and one more.
	for second, isGrid := range map[float32]bool{0x1p23 - 2: true, 0x1p23 - 1: false} {
		a, b := num.ArrayOf(num.F32, 1, 3, 1, 1, 1), num.ArrayOf(num.F32, 3, 1, 0x1p23, second, 1)
		if err := checkTerms(product.Definition, []num.Array{a, b, num.NewArray(num.F32, 1, 1)}); (err == nil) != isGrid {
			t.Errorf("terms 2^23, %v and 1: got %v", second, err)
		}
	}
}

// checkGrid shows that an answer does not depend on the order of any sum: terms that
// can be listed are held against 24 bits, the answer is the correctly rounded truth,
// it stays when what is summed is put in other orders, and tensor cores give it.
func checkGrid(d *def.Definition, inputs []num.Array, params []float64, sizes map[string]int) error {
	if err := checkTerms(d, inputs); err != nil {
		return err
	}
	answer, err := run(d, inputs, params, def.FMAChain)
	if err != nil {
		return err
	}
	if err := checkRounded(d, inputs, answer, params); err != nil {
		return err
	}
	if d.Product() != nil && inputs[0].DType != num.F32 {
		core, err := run(d, inputs, params, def.Accum{L: 16, F: 25})
		if err != nil {
			return err
		}
		if err := sameBits(&d.Operands[2], core[2], answer[2]); err != nil {
			return fmt.Errorf("on a tensor core: %w", err)
		}
	}
	if dependsOnPlace(d) {
		return nil // an element's place decides its bits
	}
	letters := []string{"R", "C"}
	switch d.Form.(type) {
	case *def.Product:
		letters = []string{d.SummedOver()}
	case *def.Scatter:
		letters = []string{"Q"}
	}
	for _, letter := range letters {
		for _, order := range orders(sizes[letter]) {
			if err := checkOrder(d, inputs, answer, params, letter, order); err != nil {
				return fmt.Errorf("%s in another order: %w", letter, err)
			}
		}
	}
	return nil
}

func dependsOnPlace(d *def.Definition) bool {
	return slices.ContainsFunc(d.Exec().Nodes, func(n *def.Node) bool {
		return n.Op == def.OpRandom || n.Op == def.OpElement || n.Op == def.OpElementHigh || n.Op == def.OpPartner
	})
}

// orders of n things: backward, and mixed.
func orders(n int) [][]int {
	backward, mixed := make([]int, n), make([]int, n)
	g := gen.New("order")
	for i := range n {
		backward[i], mixed[i] = n-1-i, i
		j := g.Below(i + 1)
		mixed[i], mixed[j] = mixed[j], mixed[i]
	}
	return [][]int{backward, mixed}
}

// checkTerms adds up the absolute values of the terms of products and of scattered
// sums, in units of the smallest bit that any of them has.
func checkTerms(d *def.Definition, x []num.Array) error {
	if a := d.Access(); a != def.OfProducts && a != def.ToIndex {
		return nil
	}
	for r := range x[2].Rows {
		for c := range x[2].Cols {
			var terms []float64
			if d.Accumulates() {
				terms = append(terms, float64(x[2].At(r, c)))
			}
			switch d.Form.(type) {
			case *def.Product:
				left, right := x[0], x[1]
				n := left.Cols
				if d.Product().TransposeLeft {
					n = left.Rows
				}
				for k := range n {
					a, b := [2]int{r, k}, [2]int{k, c}
					if d.Product().TransposeLeft {
						a = [2]int{k, r}
					}
					if d.Product().TransposeRight {
						b = [2]int{c, k}
					}
					terms = append(terms, float64(left.At(a[0], a[1]))*float64(right.At(b[0], b[1])))
				}
			case *def.Scatter:
				for q := range x[1].Rows {
					if x[0].Int(q, 0) == int32(r) {
						terms = append(terms, float64(x[1].At(q, c)))
					}
				}
			}
			sum, unit := 0.0, math.Inf(1)
			for _, t := range terms {
				if t != 0 {
					sum, unit = sum+math.Abs(t), min(unit, lowestBit(t))
				}
			}
			if sum >= unit*(1<<24) {
				return fmt.Errorf("%s[%d,%d]: the terms add up to %g units of %g, want less than 2^24", d.Operands[2].Name, r, c, sum/unit, unit)
			}
		}
	}
	return nil
}

func lowestBit(x float64) float64 {
	fraction, exponent := math.Frexp(x)
	n := int64(math.Abs(fraction) * (1 << 53))
	return math.Ldexp(float64(n&-n), exponent-53)
}

// checkRounded holds an answer against the correctly rounded truth, which knows no
// order. Zeros have no sign there, and random bits no truth.
func checkRounded(d *def.Definition, inputs, answer []num.Array, params []float64) error {
	exact, err := truth.Enclose(d, inputs, truth.Options{Params: params, Mode: truth.Exact})
	if err != nil {
		return err
	}
	for i := range d.Operands {
		if !d.Operands[i].IsOut || dependsOnPlace(d) && d.Operands[i].Name == "weight" {
			continue
		}
		rounding, err := exact.Round(i)
		if err != nil {
			return err
		}
		for j, want := range rounding.Bits {
			r, c := j/answer[i].Cols, j%answer[i].Cols
			got := answer[i].Bits(r, c)
			if s := rounding.State[j]; s != truth.ByFloat64 && s != truth.ByBig {
				return fmt.Errorf("%s[%d,%d]: the truth is %s", d.Operands[i].Name, r, c, s)
			}
			if got != want && (answer[i].At(r, c) != 0 || num.Widen(answer[i].DType, want) != 0) {
				return fmt.Errorf("%s[%d,%d]: got %v, want %v, which is the rounded truth", d.Operands[i].Name, r, c, answer[i].At(r, c), num.Widen(answer[i].DType, want))
			}
		}
	}
	return nil
}

// checkOrder puts the places along a size in another order, and wants the same
// answer, in that order.
func checkOrder(d *def.Definition, inputs, answer []num.Array, params []float64, letter string, order []int) error {
	moved := make([]num.Array, len(inputs))
	for i := range inputs {
		moved[i] = reorder(&d.Operands[i], inputs[i], letter, order)
		if d.Operands[i].Bound == letter { // the row that an index names has moved too
			for r := range moved[i].Rows {
				if at := slices.Index(order, int(moved[i].Int(r, 0))); at >= 0 {
					moved[i].SetBits(r, 0, uint32(at))
				}
			}
		}
	}
	got, err := run(d, moved, params, def.FMAChain)
	if err != nil {
		return err
	}
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsOut {
			if err := sameBits(o, got[i], reorder(o, answer[i], letter, order)); err != nil {
				return err
			}
		}
	}
	return nil
}

// reorder takes row or column i of the result from order[i], where the operand has
// that size.
func reorder(o *def.Operand, a num.Array, letter string, order []int) num.Array {
	b := a.Clone()
	for dim, l := range o.Dims {
		if l != letter {
			continue
		}
		from := b.Clone()
		isColumn := dim == 1 || len(o.Dims) == 1 && o.Extent == def.PerColumn
		for r := range b.Rows {
			for c := range b.Cols {
				if isColumn {
					b.SetBits(r, c, from.Bits(r, order[c]))
				} else {
					b.SetBits(r, c, from.Bits(order[r], c))
				}
			}
		}
	}
	return b
}
