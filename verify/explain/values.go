package explain

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/verify/cases"
)

// valueKinds records which kinds of values the inputs of a case have.
type valueKinds struct {
	nan, inf, zero, negativeZero, subnormal, negative bool

	beyond, twice  []bool    // by operand: an index outside of its table, and two that are equal
	excepted       []bool    // by operand: an index with the value of the parameter that it may equal instead
	largest, least []float64 // by operand: magnitudes of finite numbers other than 0
	top, bottom    []float64 // by operand: finite numbers; infinite if there are none
}

func (k *valueKinds) floats(operand int, a num.Array) {
	smallest := num.ULP(a.DType, 0) / num.ULP(a.DType, 1) // normal number
	row := make([]float32, a.Cols)
	for r := range a.Rows {
		a.Floats(r, row)
		for _, v := range row {
			x := float64(v)
			size := math.Abs(x)
			switch {
			case x != x:
				k.nan = true
				continue
			case size > math.MaxFloat32:
				k.inf = true
				continue
			}
			k.top[operand], k.bottom[operand] = max(k.top[operand], x), min(k.bottom[operand], x)
			if x == 0 {
				k.zero = true
				k.negativeZero = k.negativeZero || math.Signbit(x)
				continue
			}
			k.subnormal = k.subnormal || size < smallest
			k.negative = k.negative || x < 0
			k.largest[operand] = max(k.largest[operand], size)
			if k.least[operand] == 0 || size < k.least[operand] {
				k.least[operand] = size
			}
		}
	}
}

func (k *valueKinds) indices(c *cases.Case, operand int, d *def.Definition, params []float64, a num.Array) {
	o := &d.Operands[operand]
	n, _ := c.Size(o.Bound)
	seen := map[int32]bool{}
	for r := range a.Rows {
		for col := range a.Cols {
			x := a.Int(r, col)
			switch {
			case o.Except != "" && float64(x) == params[d.Param(o.Except)]:
				k.excepted[operand] = true
			case x < 0 || int(x) >= n:
				k.beyond[operand] = true
			}
			k.twice[operand] = k.twice[operand] || seen[x]
			seen[x] = true
		}
	}
}

// valueConditions returns properties of the inputs' values, for examples that have them.
func (f *Search) valueConditions(examples []*Example) []*condition {
	l := &conditions{examples: examples}
	d := f.Target.Definition
	l.both(3, func(e *Example) bool { return e.values.nan }, "a NaN is among the inputs", "no NaN is among the inputs")
	l.both(3, func(e *Example) bool { return e.values.inf }, "an infinity is among the inputs", "no infinity is among the inputs")
	l.both(3, func(e *Example) bool { return e.values.nan || e.values.inf }, "a NaN or an infinity is among the inputs", "all inputs are finite")
	l.both(3, func(e *Example) bool { return e.values.zero }, "a zero is among the inputs", "no zero is among the inputs")
	l.both(3, func(e *Example) bool { return e.values.negativeZero }, "a −0 is among the inputs", "no −0 is among the inputs")
	l.both(3, func(e *Example) bool { return e.values.subnormal }, "a subnormal is among the inputs", "no subnormal is among the inputs")
	l.both(3, func(e *Example) bool { return e.values.negative }, "a negative number is among the inputs", "no negative number is among the inputs")
	for i := range d.Operands {
		o, name := &d.Operands[i], d.Operands[i].Name
		switch {
		case !o.IsIn:
			continue
		case o.IsIndex:
			excepted := name + " equals " + o.Except
			l.both(3, func(e *Example) bool { return e.values.excepted[i] }, excepted+" somewhere", excepted+" nowhere")
			beyond := fmt.Sprintf("value of %s is outside of 0..%s-1", name, o.Bound)
			l.both(3, func(e *Example) bool { return e.values.beyond[i] }, "a "+beyond, "no "+beyond)
			l.both(3, func(e *Example) bool { return e.values.twice[i] }, "two values of "+name+" are equal", "no two values of "+name+" are equal")
			continue
		}
		l.threshold(5, func(e *Example) float64 { return e.values.largest[i] }, numberText("the largest |"+name+"|"))
		l.threshold(5, func(e *Example) float64 { return e.values.least[i] }, numberText("the smallest |"+name+"|"))
		l.threshold(6, func(e *Example) float64 { return e.values.top[i] }, numberText("the largest "+name))
		l.threshold(6, func(e *Example) float64 { return e.values.bottom[i] }, numberText("the least "+name))
	}
	return l.list
}

// kindsOf looks at the inputs of a case.
func (f *Search) kindsOf(c *cases.Case) *valueKinds {
	d, operands := f.Target.Definition, f.Inputs(c)
	n := len(d.Operands)
	k := &valueKinds{
		beyond: make([]bool, n), twice: make([]bool, n), excepted: make([]bool, n),
		largest: make([]float64, n), least: make([]float64, n), top: make([]float64, n), bottom: make([]float64, n),
	}
	for i := range d.Operands {
		k.top[i], k.bottom[i] = math.Inf(-1), math.Inf(1)
		o, a := &d.Operands[i], operands[i]
		switch {
		case !o.IsIn:
		case o.IsIndex:
			k.indices(c, i, d, f.Target.Params(c), a)
		default:
			k.floats(i, a)
		}
	}
	return k
}
