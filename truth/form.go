package truth

import (
	"fmt"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// mathematics is what this package knows of one form of definition.
type mathematics interface {
	// enclose evaluates the call: Enclose.
	enclose(k *call, r *Result) error
	// round evaluates open elements again with more precision: Result.Round.
	round(k *call, z *Rounding, open *places) error
	// findGrid finds outputs with one right value: FindGrid.
	findGrid(g *Grid, o GridOptions) error
	// findForms finds where other forms of the computation agree: FindForms.
	findForms(f *Forms) error
	// encloseStable evaluates the call under the promise stable: EncloseStable.
	encloseStable(s *Stable) error
}

// mathematicsOf returns the mathematics of a form.
func mathematicsOf(d *def.Definition) (mathematics, error) {
	switch f := d.Form.(type) {
	case *def.Expression:
		return expression{f}, nil
	case *def.Product:
		return sums{productTerms{f}}, nil
	case *def.Fused:
		return fusing{f}, nil
	case *def.Lookup:
		return sums{lookupTerms{f}}, nil
	case *def.Scatter:
		return sums{scatterTerms{f}}, nil
	case *def.LookupSum:
		return sums{lookupSumTerms{f}}, nil
	case *def.Sort:
		return sorting{f}, nil
	case *def.RowWrite:
		return sums{writeTerms{f}}, nil
	case *def.Stream:
		return weighing{f}, nil
	case *def.StreamBackward:
		return weighingBackward{f}, nil
	}
	return nil, fmt.Errorf("%s: no mathematics for a %s", d.Name, d.Form)
}

// newCall checks the number of operands and parameters.
func newCall(d *def.Definition, operands []num.Array, o Options) (*call, error) {
	if len(operands) != len(d.Operands) {
		return nil, fmt.Errorf("%s: got %d operands, want %d", d.Name, len(operands), len(d.Operands))
	}
	if len(o.Params) != len(d.Params) {
		return nil, fmt.Errorf("%s: got %d parameters, want %d", d.Name, len(o.Params), len(d.Params))
	}
	m, err := mathematicsOf(d)
	if err != nil {
		return nil, err
	}
	return &call{d: d, operands: operands, form: m, Options: o}, nil
}

// expression evaluates rowwise definitions, node by node.
type expression struct{ *def.Expression }

func (expression) enclose(k *call, r *Result) error {
	if k.Mode == Rounded && k.IsIEEE {
		r.intervals = room[ball.Interval](k)
		return sweep(k, ball.Interval{}, nil, put(k, r.intervals), put(k, r.sets))
	}
	r.enclosures = room[ball.Ball](k)
	return sweep(k, ball.Ball{}, nil, put(k, r.enclosures), put(k, r.sets))
}

func (expression) round(k *call, z *Rounding, open *places) error {
	cols, dtype := k.operands[open.operand].Cols, k.operands[open.operand].DType
	return sweep(k, ball.NewBig(0, bigPrec), open, func(_, row, col int, v ball.Big) {
		i := row*cols + col
		if z.State[i] != Undecided {
			return
		}
		lo, hi := between(dtype, v)
		var isDecided bool
		if z.Bits[i], isDecided = decide(dtype, lo, hi); isDecided {
			z.State[i] = ByBig
		}
	}, func(_, row, col int, v set) {
		if i := row*cols + col; z.State[i] == Undecided && v.isOne() {
			z.Bits[i], z.State[i] = uint32(v.one), ByBig
		}
	})
}

func (expression) findGrid(g *Grid, o GridOptions) error {
	k := g.call
	mark := put(k, g.at)
	markInt := func(operand, row, col int, v set) { mark(operand, row, col, v.isOne()) }
	if o.InAnyForm {
		isSum := sumsOf(k.d)
		return sweep(k, polynomial{}.FromFloat64(0), nil, func(operand, row, col int, v polynomial) {
			mark(operand, row, col, isSum[operand] && v.fits(significand))
		}, markInt)
	}
	k.Mode = Rounded // constants as they are executed, in binary32
	return sweep(k, settle(0), nil, func(operand, row, col int, v settled) { mark(operand, row, col, v.isSettled) }, markInt)
}

func (expression) findForms(f *Forms) error {
	k := f.call
	mark := put(k, f.at)
	_, hasInfinity := Tame(k.d, k.operands)
	zero := nature{hasInfinity: hasInfinity}.FromFloat64(0)
	return sweep(k, zero, nil, func(operand, row, col int, v nature) {
		mark(operand, row, col, form{v.isOne(), v.kinds == isZero, v.kinds&isNaN != 0, v.mayOverflow(), v.isEither()})
	}, func(int, int, int, set) {})
}

func (f expression) encloseStable(s *Stable) error {
	if err := f.encloseInts(s); err != nil {
		return err
	}
	return s.encloseRows()
}

// encloseInts encloses outputs that hold int32, which have the sets of mode Rounded.
func (expression) encloseInts(s *Stable) (err error) {
	d := s.call.d
	for i := range d.Operands {
		if d.Operands[i].IsOut && d.Operands[i].IsInt() {
			rounded := s.call.Options
			rounded.Mode = Rounded
			s.ints, err = Enclose(d, s.call.operands, rounded)
			break
		}
	}
	return err
}
