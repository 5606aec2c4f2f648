package truth

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// fusing evaluates products that end in an expression: the sums of the products as contractions have them,
// and the expression as a rowwise definition whose first inputs they are.
type fusing struct{ *def.Fused }

func (f fusing) enclose(k *call, r *Result) error {
	r.enclosures = room[ball.Ball](k)
	return fuseAll(k, f.Fused, ball.Ball{}, nil, put(k, r.enclosures), put(k, r.sets), nil)
}

func (f fusing) round(k *call, z *Rounding, open *places) error {
	cols := k.operands[open.operand].Cols
	return fuseAll(k, f.Fused, ball.NewBig(0, bigPrec), open, roundOpen(k, z, open), func(_, row, col int, v set) {
		if i := row*cols + col; z.State[i] == Undecided && v.isOne() {
			z.Bits[i], z.State[i] = uint32(v.one), ByBig
		}
	}, nil)
}

func (fusing) findGrid(*Grid, GridOptions) error { return nil }

func (fusing) findForms(*Forms) error { return nil }

// loosely says what honest kernels in any form may do besides the definition's own steps.
type loosely struct {
	sum   func(p products, abs float64) float64 // bounds the error of a sum
	input float64                               // relative, of what the expression reads
}

// fuseAll evaluates all elements, or the open places.
func fuseAll[T ball.Number[T]](k *call, f *def.Fused, zero T, open *places, yield func(operand, row, col int, v T), yieldInt func(operand, row, col int, v set), loose *loosely) error {
	inner := &call{d: f.Body, operands: make([]num.Array, len(f.Reads)), Options: k.Options}
	outer := map[int]int{} // the definition's operand of an output of the body
	for i, read := range f.Reads {
		if read >= 0 {
			inner.operands[i] = k.operands[read]
			outer[i] = read
		}
	}
	result := &k.operands[f.Result()]
	var sums []func(row, col int) T
	for i, p := range f.Products {
		inner.operands[i] = num.Array{DType: num.F32, Rows: result.Rows, Cols: result.Cols, Stride: result.Cols}
		sum, err := sumsOfProduct(k, f, i, p, inner.operands[i], zero, loose)
		if err != nil {
			return err
		}
		sums = append(sums, sum)
	}
	var at *places
	if open != nil {
		for i, read := range outer {
			if read == open.operand {
				at = &places{i, open.columns}
			}
		}
	}
	instead := func(e *evaluator[T], n *def.Node) {
		if n.Op == def.OpInput && n.Operand < len(sums) {
			for j, c := range e.columns {
				e.values[n.ID].x[j] = sums[n.Operand](e.row, c)
			}
			return
		}
		e.evaluate(n)
		if n.Op == def.OpInput && n.Type == def.Float && loose != nil {
			for j, x := range e.values[n.ID].x {
				e.values[n.ID].x[j] = x.Widen(loose.input, 0)
			}
		}
	}
	return sweepInstead(inner, zero, at, len(sums), instead,
		func(operand, row, col int, v T) { yield(outer[operand], row, col, v) },
		func(operand, row, col int, v set) { yieldInt(outer[operand], row, col, v) })
}

// sumsOfProduct returns a function that encloses a sum of a product.
func sumsOfProduct[T ball.Number[T]](k *call, f *def.Fused, i int, p *def.Definition, result num.Array, zero T, loose *loosely) (func(row, col int) T, error) {
	form := sums{productTerms{p.Product()}}
	own := &call{d: p, operands: make([]num.Array, len(p.Operands)), form: form, Options: k.Options}
	own.Params = nil
	for n, at := range f.Factors[i] {
		if own.operands[n] = result; at >= 0 {
			own.operands[n] = k.operands[at]
		}
	}
	if err := form.check(own); err != nil {
		return nil, err
	}
	if _, isBall := any(zero).(ball.Ball); isBall && loose == nil {
		all := make([]ball.Ball, result.Rows*result.Cols)
		if err := form.encloseAll(own, all); err != nil {
			return nil, err
		}
		return func(row, col int) T { return any(all[row*result.Cols+col]).(T) }, nil
	}
	terms, err := form.terms.terms(own)
	if err != nil {
		return nil, err
	}
	var list []T
	return func(row, col int) T {
		p, abs := terms(row, col), 0.0
		list = list[:0]
		for n, a := range p.a {
			product := float64(a * p.b[n]) // of two binary32: exact, but for the smallest
			list = append(list, zero.FromFloat64(a).Mul(zero.FromFloat64(p.b[n])))
			abs += max(product, -product)
		}
		sum, size := zero.FromFloat64(0).Sum(list), abs*(1+float64(len(p.a)+4)*0x1p-52)
		switch {
		case !sum.Known():
			return sum
		case loose != nil:
			return sum.Widen(0, loose.sum(p, size))
		case own.Mode == Rounded:
			return sum.Widen(0, form.sumError(own, p, size))
		}
		return sum
	}, nil
}

// Under the promise stable, the sums of the products have the errors of sums in the declared order and of k = 4
// units of each factor, other inputs of the expression k units, and what it computes its own roundings, and the
// errors of functions. The result has k units more, as every result has.
func (f fusing) encloseStable(s *Stable) error {
	k := s.call
	if s.o.Accum.P > 0 {
		return fmt.Errorf("%s: products that end in an expression have no panels under the promise stable", k.d.Name)
	}
	if len(s.o.Declares.Roundings) > 0 {
		return fmt.Errorf("%s: roundings of the values of an expression in which products end cannot be declared", k.d.Name)
	}
	if err := (expression{}).encloseInts(s); err != nil {
		return err
	}
	exact, box := room[ball.Ball](k), room[ball.Ball](k)
	ignore := func(int, int, int, set) {}
	if err := fuseAll(k, f.Fused, ball.Ball{}, nil, put(k, exact), ignore, nil); err != nil {
		return err
	}
	wide := *k
	wide.Options.Mode, wide.Options.Order = Rounded, nil
	for _, n := range f.Body.Math().Nodes {
		if n.Op == def.OpCall {
			e := s.errorOf(functionNames[n.Func.Math], max(n.Func.ULPs, s.o.FunctionULP))
			wide.FunctionULP = max(wide.FunctionULP, e.ULPs+e.Relative/(2*unit))
		}
	}
	z := &looseRows{s: s, height: s.o.Order.Height, loose: &weigher[ball.Ball]{dtype: k.operands[f.Factors[0][0]].DType}}
	loose := &loosely{sum: z.scoreError, input: stableFactor * unit}
	if err := fuseAll(&wide, f.Fused, ball.Ball{}, nil, put(k, box), ignore, loose); err != nil {
		return err
	}
	s.outputs = map[int]*stableOutput{}
	for i, list := range exact {
		if list == nil {
			continue
		}
		out := &stableOutput{exact: list, box: box[i], fixed: make([]float64, len(list))}
		for n := range list {
			if out.fixed[n] = Radius(box[i][n], list[n]); out.fixed[n] > math.MaxFloat32/nearOverflow {
				out.box[n] = ball.Ball{}.FromFloat64(math.NaN())
			}
		}
		s.outputs[i] = out
	}
	return nil
}
