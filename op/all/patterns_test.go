package all_test

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/all"
	"tokitai/op/gemm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/reference"
	"tokitai/truth"
)

var nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// checkNames holds the patterns and relations of operations against their definitions.
func checkNames(operations []*op.Operation) (errs []error) {
	type key struct {
		d    *def.Definition
		name string
	}
	patterns, scalings, count := map[key]bool{}, map[key]bool{}, map[*def.Definition]int{}
	refuse := func(o *op.Operation, d *def.Definition, name, format string, args ...any) {
		definition := "no definition"
		if d != nil {
			definition = d.Name
		}
		errs = append(errs, fmt.Errorf("%s: %s: %q: %s", o.Name, definition, name, fmt.Sprintf(format, args...)))
	}
	for _, o := range operations {
		for _, p := range o.Patterns {
			d := p.Definition
			k := key{d, p.Name}
			switch {
			case !nameForm.MatchString(p.Name):
				refuse(o, d, p.Name, "want a name in lower case with hyphens")
			case patterns[k]:
				refuse(o, d, p.Name, "two patterns have this name")
			case !slices.Contains(o.Definitions, d):
				refuse(o, d, p.Name, "the definition is not one of the operation's")
				continue
			}
			patterns[k] = true
			count[d]++
			if n := len(paramsOf(o, p)); n != len(d.Params) {
				refuse(o, d, p.Name, "got %d parameters, want %d", n, len(d.Params))
			}
			for i, x := range paramsOf(o, p) {
				if isInt := x == float64(int32(x)); i < len(d.Params) && d.Params[i].IsInt && !isInt || x-x != 0 {
					refuse(o, d, p.Name, "parameter %d is %v", i, x)
				}
			}
			for name, e := range p.Values {
				if i := d.Operand(name); i < 0 || !d.Operands[i].IsIn || d.Operands[i].IsIndex || e == nil {
					refuse(o, d, p.Name, "%s is no input of real values, or has none here", name)
				}
			}
			for name, e := range p.Index {
				if i := d.Operand(name); i < 0 || !d.Operands[i].IsIndex || e == nil {
					refuse(o, d, p.Name, "%s is no index, or has no values here", name)
				}
			}
		}
		for _, s := range o.Scalings {
			d := s.Definition
			k := key{d, s.Name}
			switch {
			case !nameForm.MatchString(s.Name):
				refuse(o, d, s.Name, "want a name in lower case with hyphens")
			case scalings[k]:
				refuse(o, d, s.Name, "two relations have this name")
			case !slices.Contains(o.Definitions, d):
				refuse(o, d, s.Name, "the definition is not one of the operation's")
				continue
			}
			scalings[k] = true
			for name := range s.Inputs {
				if i := d.Operand(name); i < 0 || !d.Operands[i].IsIn || d.Operands[i].IsIndex {
					refuse(o, d, s.Name, "%s is no input", name)
				}
			}
			for name := range s.Outputs {
				if i := d.Operand(name); i < 0 || !d.Operands[i].IsOut {
					refuse(o, d, s.Name, "%s is no output", name)
				}
			}
			for name := range s.Params {
				if i := d.Param(name); i < 0 || d.Params[i].IsInt {
					refuse(o, d, s.Name, "%s is no real parameter", name)
				}
			}
			for _, name := range s.Negated {
				if d.Operand(name) < 0 {
					refuse(o, d, s.Name, "%s is no operand", name)
				}
			}
		}
	}
	for _, o := range operations {
		for _, d := range o.Definitions {
			if count[d] < 3 {
				refuse(o, d, "", "got %d patterns, want at least 3", count[d])
			}
		}
	}
	return errs
}

// paramsOf are a pattern's own parameters, or those of its definition's first data.
func paramsOf(o *op.Operation, p op.Pattern) []float64 {
	if p.Params != nil {
		return p.Params
	}
	for _, data := range o.Data {
		if data.Definition == p.Definition {
			return data.Params
		}
	}
	return nil
}

// fill makes the operands of a pattern; outputs are zero.
func fill(p op.Pattern, sizes map[string]int, formats []num.DType) []num.Array {
	operands := make([]num.Array, len(p.Definition.Operands))
	for i := range operands {
		o := &p.Definition.Operands[i]
		rows, cols := o.Matrix(sizes)
		operands[i] = num.NewArray(formats[i], rows, cols)
		if !o.IsIn {
			continue
		}
		seed := gen.New(p.Definition.Name + "/" + p.Name + "/" + o.Name).Next()
		for r := range rows {
			for c := range cols {
				g := gen.Seeded(seed + uint64(r)<<32 + uint64(c))
				switch {
				case o.IsIndex && p.Index[o.Name] != nil:
					operands[i].SetBits(r, c, uint32(int32(p.Index[o.Name](g, r, sizes[o.Bound]))))
				case o.IsIndex:
					operands[i].SetBits(r, c, uint32(int32(g.Below(sizes[o.Bound]))))
				case p.Values[o.Name] != nil:
					operands[i].Set(r, c, p.Values[o.Name](g, r, c))
				default:
					operands[i].Set(r, c, g.Normal())
				}
			}
		}
	}
	return operands
}

// run is the reference's answer; the inputs stay as they are.
func run(d *def.Definition, inputs []num.Array, params []float64, model def.Model) ([]num.Array, error) {
	operands := make([]num.Array, len(inputs))
	for i := range inputs {
		operands[i] = inputs[i].Clone()
	}
	return operands, reference.Run(d, operands, reference.Options{Params: params, Model: model})
}

// sizesOf are a few sizes of a definition, beyond the tails of lanes and chunks.
func sizesOf(d *def.Definition) []map[string]int {
	switch d.Kind {
	case def.KindContraction:
		var list []map[string]int
		for _, k := range []int{1, 2, 45, 521} {
			sizes := map[string]int{"M": 3, "N": 5, "K": 4}
			sizes[d.SummedOver()] = k
			list = append(list, sizes)
		}
		return list
	case def.KindGather, def.KindScatterAdd:
		return []map[string]int{{"Q": 1, "V": 1, "D": 1}, {"Q": 9, "V": 4, "D": 3}, {"Q": 330, "V": 5, "D": 2}}
	}
	return []map[string]int{{"R": 1, "C": 1}, {"R": 7, "C": 5}, {"R": 2, "C": 530}, {"R": 261, "C": 3}}
}

// sameBits compares one output; NaN are one.
func sameBits(o *def.Operand, got, want num.Array) error {
	for r := range got.Rows {
		for c := range got.Cols {
			g, w := num.Canonical(got.DType, got.Bits(r, c)), num.Canonical(got.DType, want.Bits(r, c))
			if g != w {
				return fmt.Errorf("%s[%d,%d]: got %v (%#x), want %v (%#x)", o.Name, r, c, got.At(r, c), g, want.At(r, c), w)
			}
		}
	}
	return nil
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
	if d.Kind == def.KindContraction && inputs[0].DType != num.F32 {
		core, err := run(d, inputs, params, def.Model{L: 16, F: 25})
		if err != nil {
			return err
		}
		if err := sameBits(&d.Operands[2], core[2], answer[2]); err != nil {
			return fmt.Errorf("on a tensor core: %w", err)
		}
	}
	if isRandom(d) {
		return nil // an element's place decides its bits
	}
	letters := []string{"R", "C"}
	switch d.Kind {
	case def.KindContraction:
		letters = []string{d.SummedOver()}
	case def.KindScatterAdd:
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

func isRandom(d *def.Definition) bool {
	return slices.ContainsFunc(d.Exec.Nodes, func(n *def.Node) bool { return n.Op == def.OpRandom })
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
	if d.Kind != def.KindContraction && d.Kind != def.KindScatterAdd {
		return nil
	}
	for r := range x[2].Rows {
		for c := range x[2].Cols {
			var terms []float64
			if d.Accumulate {
				terms = append(terms, float64(x[2].At(r, c)))
			}
			switch d.Kind {
			case def.KindContraction:
				left, right := x[0], x[1]
				n := left.Cols
				if d.TransposeLeft {
					n = left.Rows
				}
				for k := range n {
					a, b := [2]int{r, k}, [2]int{k, c}
					if d.TransposeLeft {
						a = [2]int{k, r}
					}
					if d.TransposeRight {
						b = [2]int{c, k}
					}
					terms = append(terms, float64(left.At(a[0], a[1]))*float64(right.At(b[0], b[1])))
				}
			case def.KindScatterAdd:
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
		if !d.Operands[i].IsOut || isRandom(d) && d.Operands[i].Name == "weight" {
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

// checkScaling holds a relation for one k, and returns how many elements of each
// output it compared.
func checkScaling(s op.Scaling, inputs []num.Array, params []float64, k int) (map[string]int, error) {
	d := s.Definition
	isNegated := func(name string) bool { return slices.Contains(s.Negated, name) }
	plain, scaled := slices.Clone(inputs), slices.Clone(inputs)
	for i := range d.Operands {
		o := &d.Operands[i]
		if !o.IsIn || o.IsIndex {
			continue
		}
		plain[i], scaled[i] = inputs[i].Clone(), inputs[i].Clone()
		for r := range plain[i].Rows {
			for c := range plain[i].Cols {
				x, exponent := plain[i].At(r, c), k*s.Inputs[o.Name]
				if want := math.Ldexp(float64(x), exponent); float64(num.Round(plain[i].DType, float32(want))) != want {
					x = 1 // whose multiples are exact
					plain[i].Set(r, c, x)
				}
				scaled[i].Set(r, c, times(x, exponent, isNegated(o.Name)))
			}
		}
	}
	scaledParams := slices.Clone(params)
	for name, factor := range s.Params {
		i := d.Param(name)
		scaledParams[i] = math.Ldexp(params[i], k*factor)
	}
	answer, err := run(d, plain, params, def.FMAChain)
	if err != nil {
		return nil, err
	}
	got, err := run(d, scaled, scaledParams, def.FMAChain)
	if err != nil {
		return nil, err
	}
	compared := map[string]int{}
	for i := range d.Operands {
		o := &d.Operands[i]
		if !o.IsOut {
			continue
		}
		for r := range got[i].Rows {
			for c := range got[i].Cols {
				if !isNormal(answer[i], r, c) || !isNormal(got[i], r, c) {
					continue
				}
				compared[o.Name]++
				if want := times(answer[i].At(r, c), k*s.Outputs[o.Name], isNegated(o.Name)); got[i].At(r, c) != want {
					return nil, fmt.Errorf("k = %d: %s[%d,%d]: got %v, want %v", k, o.Name, r, c, got[i].At(r, c), want)
				}
			}
		}
	}
	return compared, nil
}

func times(x float32, exponent int, isNegated bool) float32 {
	if isNegated {
		x = -x
	}
	return float32(math.Ldexp(float64(x), exponent))
}

var leastNormal = map[num.DType]float64{num.F16: 0x1p-14, num.BF16: 0x1p-126, num.F32: 0x1p-126}

func isNormal(a num.Array, r, c int) bool {
	x := math.Abs(float64(a.At(r, c)))
	return x >= leastNormal[a.DType] && x <= num.MaxFinite(a.DType)
}

// ordinary is a pattern of a relation's definition without extremes: the first kind
// of data of the operation, with parameters of the definition.
func ordinary(o *op.Operation, d *def.Definition) op.Pattern {
	p := op.Pattern{Name: "ordinary", Definition: d}
	if len(o.Data) > 0 {
		p.Values = o.Data[0].Values
	}
	if p.Params = paramsOf(o, p); p.Params == nil {
		for _, q := range o.Patterns {
			if q.Definition == d && q.Params != nil {
				p.Params = q.Params
				break
			}
		}
	}
	return p
}

func describe(d *def.Definition, sizes map[string]int, formats []num.DType) string {
	return fmt.Sprintf("%s %v %v", d.Name, sizes, formats)
}

// formatsOf are the choices of formats: all, or at level smoke one, in turn.
func formatsOf(d *def.Definition, turn int) [][]num.DType {
	list := d.Formats()
	return testlevel.Pick(list[turn%len(list):][:1], list)
}

func TestPatternNames(t *testing.T) {
	for _, err := range checkNames(all.Operations) {
		t.Error(err)
	}
}

// TestPatternsRun fills every pattern in several sizes and all formats: the same
// values come twice, and the reference accepts them.
func TestPatternsRun(t *testing.T) {
	patterns, cases := 0, 0
	for _, o := range all.Operations {
		for _, p := range o.Patterns {
			patterns++
			for _, sizes := range sizesOf(p.Definition) {
				for n, formats := range formatsOf(p.Definition, patterns) {
					cases++
					inputs := fill(p, sizes, formats)
					if n == 0 {
						for i, again := range fill(p, sizes, formats) {
							if err := sameBits(&p.Definition.Operands[i], again, inputs[i]); err != nil {
								t.Fatalf("%s, %s: filled twice: %v", p.Name, describe(p.Definition, sizes, formats), err)
							}
						}
					}
					if _, err := run(p.Definition, inputs, paramsOf(o, p), def.FMAChain); err != nil {
						t.Errorf("%s: %v", p.Name, err)
					}
				}
			}
		}
	}
	t.Logf("%d patterns, %d cases", patterns, cases)
}

func TestGridsHaveOneAnswer(t *testing.T) {
	grids := 0
	for _, o := range all.Operations {
		for _, p := range o.Patterns {
			if !p.IsGrid {
				continue
			}
			grids++
			sizes := sizesOf(p.Definition)
			if p.Definition.Kind == def.KindContraction && testlevel.Current() > testlevel.Smoke { // the most products that the grids are made for
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

func TestScalings(t *testing.T) {
	relations, total := 0, 0
	for _, o := range all.Operations {
		for _, s := range o.Scalings {
			relations++
			p := ordinary(o, s.Definition)
			for _, formats := range formatsOf(s.Definition, relations) {
				compared := map[string]int{}
				for _, sizes := range sizesOf(s.Definition)[1:] {
					inputs := fill(p, sizes, formats)
					for _, k := range []int{-3, 1, 4} {
						n, err := checkScaling(s, inputs, p.Params, k)
						if err != nil {
							t.Errorf("%s, %s: %v", s.Name, describe(s.Definition, sizes, formats), err)
						}
						for name, count := range n {
							compared[name] += count
							total += count
						}
					}
				}
				for _, operand := range s.Definition.Operands {
					if operand.IsOut && compared[operand.Name] == 0 {
						t.Errorf("%s, %s %v: no element of %s was compared", s.Name, s.Definition.Name, formats, operand.Name)
					}
				}
			}
		}
	}
	t.Logf("%d relations, %d elements compared", relations, total)
}

// TestNamesCanFail breaks one thing at a time.
func TestNamesCanFail(t *testing.T) {
	forward := softmax.ForwardDefinition
	x := map[string]op.Element{"x": op.Normal}
	good := []op.Pattern{{Name: "a", Definition: forward, Values: x}, {Name: "b-2", Definition: forward}, {Name: "c", Definition: forward}}
	withParams := op.Pattern{Name: "d", Definition: forward, Params: []float64{1}}
	scaling := func(s op.Scaling) *op.Operation {
		s.Name, s.Definition = "s", forward
		return &op.Operation{Name: "o", Definitions: []*def.Definition{forward}, Patterns: good, Scalings: []op.Scaling{s}}
	}
	pattern := func(p op.Pattern) *op.Operation {
		return &op.Operation{Name: "o", Definitions: []*def.Definition{forward}, Patterns: append(slices.Clone(good), p)}
	}
	for want, o := range map[string]*op.Operation{
		"":                        pattern(op.Pattern{Name: "d", Definition: forward}),
		"want a name in lower":    pattern(op.Pattern{Name: "One huge", Definition: forward}),
		"two patterns have":       pattern(good[0]),
		"not one of":              pattern(op.Pattern{Name: "d", Definition: softmax.BackwardDefinition}),
		"got 1 parameters":        pattern(withParams),
		"no input of real":        pattern(op.Pattern{Name: "d", Definition: forward, Values: map[string]op.Element{"y": op.Normal}}),
		"is no index":             pattern(op.Pattern{Name: "d", Definition: forward, Index: map[string]op.Index{"x": func(*gen.Generator, int, int) int { return 0 }}}),
		"got 2 patterns, want at": {Name: "o", Definitions: []*def.Definition{forward}, Patterns: good[1:]},
		"y is no input":           scaling(op.Scaling{Inputs: map[string]int{"y": 1}}),
		"x is no output":          scaling(op.Scaling{Outputs: map[string]int{"x": 1}}),
		"eps is no real":          scaling(op.Scaling{Params: map[string]int{"eps": 1}}),
		"z is no operand":         scaling(op.Scaling{Negated: []string{"z"}}),
	} {
		errs := checkNames([]*op.Operation{o})
		switch {
		case want == "" && len(errs) > 0:
			t.Errorf("good patterns: got %v", errs)
		case want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), want)):
			t.Errorf("got %v, want one error with %q", errs, want)
		}
	}
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

// TestScalingsCanFail changes one factor, parameter or sign of relations that hold.
func TestScalingsCanFail(t *testing.T) {
	change := func(m map[string]int, name string, by int) map[string]int {
		m = maps.Clone(m)
		if m == nil {
			m = map[string]int{}
		}
		m[name] += by
		return m
	}
	broken := 0
	for _, o := range all.Operations {
		for _, s := range o.Scalings {
			var mutants []op.Scaling
			for i := range s.Definition.Operands {
				operand := &s.Definition.Operands[i]
				if !operand.IsOut {
					continue
				}
				m := s
				m.Outputs = change(s.Outputs, operand.Name, 1)
				mutants = append(mutants, m)
				if len(s.Negated) > 0 && !operand.IsIn {
					m := s
					if slices.Contains(s.Negated, operand.Name) {
						m.Negated = slices.DeleteFunc(slices.Clone(s.Negated), func(name string) bool { return name == operand.Name })
					} else {
						m.Negated = append(slices.Clone(s.Negated), operand.Name)
					}
					mutants = append(mutants, m)
				}
			}
			for name := range s.Inputs {
				m := s
				m.Inputs = change(s.Inputs, name, 1)
				mutants = append(mutants, m)
			}
			p := ordinary(o, s.Definition)
			sizes := sizesOf(s.Definition)[2]
			inputs := fill(p, sizes, s.Definition.Formats()[0])
			for i, m := range mutants {
				broken++
				if _, err := checkScaling(m, inputs, p.Params, 4); err == nil {
					t.Errorf("%s, %s: change %d (%v, %v, %v) was not found", s.Name, s.Definition.Name, i, m.Inputs, m.Outputs, m.Negated)
				}
			}
		}
	}
	t.Logf("%d broken relations found", broken)

	// A relation without its parameter, in the format that shows most.
	for _, o := range all.Operations {
		for _, s := range o.Scalings {
			formats := s.Definition.Formats()
			widest := formats[len(formats)-1]
			if s.Definition.Format(widest) != num.F32 {
				continue // in 16 bits a change of eps is lost
			}
			p := ordinary(o, s.Definition)
			inputs := fill(p, sizesOf(s.Definition)[2], widest)
			for name := range s.Params {
				m := s
				m.Params = maps.Clone(s.Params)
				delete(m.Params, name)
				if _, err := checkScaling(m, inputs, p.Params, 4); err == nil {
					t.Errorf("%s, %s: it holds without %s", s.Name, s.Definition.Name, name)
				}
			}
		}
	}
}

// TestPatternsFindMistakes computes products with the mistakes that kernels make: the
// pattern that is there for one finds it.
func TestPatternsFindMistakes(t *testing.T) {
	d := gemm.ForwardDefinition
	toF16, toF32 := []num.DType{num.F16, num.F16, num.F16}, []num.DType{num.F16, num.F16, num.F32}
	chain := func(a, b []float32, step func(a, b, acc float32) float32) float32 {
		acc := float32(0)
		for k := range a {
			acc = step(a[k], b[k], acc)
		}
		return acc
	}
	rightChain := func(a, b []float32) float32 { return chain(a, b, num.FMA) }
	store := func(x float32) float32 { return num.Round(num.F16, x) }
	for _, m := range []struct {
		mistake, pattern string
		formats          []num.DType
		dot              func(a, b []float32) float32
	}{
		{"none", "offset", toF16, rightChain},
		{"an accumulator in f16", "offset", toF16, func(a, b []float32) float32 {
			return chain(a, b, func(a, b, acc float32) float32 { return store(num.FMA(a, b, acc)) })
		}},
		{"an accumulator of 23 bits", "large-integers", toF32, func(a, b []float32) float32 {
			return chain(a, b, func(a, b, acc float32) float32 {
				return math.Float32frombits(math.Float32bits(num.FMA(a, b, acc)) &^ 1)
			})
		}},
		{"factors of 11 bits", "long-integers-left", []num.DType{num.F32, num.F32, num.F32}, func(a, b []float32) float32 {
			return chain(a, b, func(a, b, acc float32) float32 { return num.FMA(store(a), store(b), acc) })
		}},
		{"two parts in f16", "offset", toF16, func(a, b []float32) float32 {
			half := len(a) / 2
			return store(rightChain(a[:half], b[:half])) + store(rightChain(a[half:], b[half:]))
		}},
		{"the last product is missing", "plus-minus-one", toF16, func(a, b []float32) float32 { return rightChain(a[:len(a)-1], b) }},
		{"zeros are skipped", "zeros-against-infinities", toF16, func(a, b []float32) float32 {
			return chain(a, b, func(a, b, acc float32) float32 {
				if a == 0 {
					return acc
				}
				return num.FMA(a, b, acc)
			})
		}},
		{"the store saturates", "f16-limit", toF16, func(a, b []float32) float32 { return min(rightChain(a, b), 65504) }},
		{"the store truncates", "ties", toF16, func(a, b []float32) float32 {
			return math.Float32frombits(math.Float32bits(rightChain(a, b)) &^ 0x1fff)
		}},
		{"the store rounds ties up", "ties", toF16, func(a, b []float32) float32 {
			return math.Float32frombits((math.Float32bits(rightChain(a, b)) + 0x1000) &^ 0x1fff)
		}},
		{"subnormals are flushed", "f16-underflow", toF16, func(a, b []float32) float32 {
			if x := rightChain(a, b); math.Abs(float64(store(x))) >= 0x1p-14 {
				return x
			}
			return 0
		}},
		{"B is read transposed", "identity-left", toF16, nil},
	} {
		patterns := all.Find(d.Name).Patterns
		p := patterns[slices.IndexFunc(patterns, func(p op.Pattern) bool { return p.Definition == d && p.Name == m.pattern })]
		inputs := fill(p, map[string]int{"M": 8, "N": 45, "K": 45}, m.formats)
		answer, err := run(d, inputs, nil, def.FMAChain)
		if err != nil {
			t.Fatal(err)
		}
		isTransposed := m.dot == nil
		if isTransposed {
			m.dot = rightChain
		}
		got := answer[2].Clone()
		a, b := make([]float32, 45), make([]float32, 45)
		for r := range got.Rows {
			for c := range got.Cols {
				for k := range a {
					if a[k], b[k] = inputs[0].At(r, k), inputs[1].At(k, c); isTransposed {
						b[k] = inputs[1].At(c, k)
					}
				}
				got.Set(r, c, m.dot(a, b))
			}
		}
		err = sameBits(&d.Operands[2], got, answer[2])
		if isFound, isRight := err != nil, m.mistake == "none"; isFound == isRight {
			t.Errorf("%s, pattern %s: got %v", m.mistake, m.pattern, err)
		}
	}
}
