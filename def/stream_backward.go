package def

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"tokitai/num"
)

// StreamBackwardForm names the operands of a stream's gradients. Out and LogSum are results of the
// stream, which the gradients read. BaseGradient [T,G,J] belongs to streams that have a base.
type StreamBackwardForm struct {
	StreamForm
	OutGradient                                             string // given
	QueryGradient, KeyGradient, ValueGradient, BaseGradient string
}

// WeighBackward says what the gradients of a stream are: exponent, visible and base are those of
// [StreamBuilder.Weigh], and the derivative of the exponent by the score, times ln 2, is slope times
// scale. Parameters and constants determine scale.
func (b *StreamBuilder) WeighBackward(exponent, visible, slope, scale Value, base ...Value) {
	b.Weigh(exponent, visible, base...)
	b.slope, b.scale = slope.node, scale.node
	if b.slope == nil || b.scale == nil {
		b.body.fail("it has no slope or no scale")
	}
}

// StreamBackwardOf builds the gradients of a stream.
func StreamBackwardOf(name string, f StreamBackwardForm, build func(b *StreamBuilder)) (*Definition, error) {
	if build == nil {
		return nil, fmt.Errorf("%s: nothing builds it", name)
	}
	b := newStreamBuilder(name)
	build(b)
	d, err := b.finishBackward(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d.seal()
}

// finishBackward returns the definition.
func (b *StreamBuilder) finishBackward(f StreamBackwardForm) (*Definition, error) {
	if b.body.err == nil && b.exponent != nil && b.slope == nil {
		return nil, errors.New("it weighs, and has no gradients")
	}
	if f.Pages != "" {
		return nil, errors.New("keys that lie in pages have no gradients")
	}
	d, stream, err := b.begin(&f.StreamForm, f.Functions.powers())
	if err != nil {
		return nil, err
	}
	s := &StreamBackward{Stream: *stream, BaseGradient: -1}
	d.Form = s
	queries, keys, rows := []string{"T", "G", "J", "D"}, []string{"S", "G", "D"}, []string{"T", "G", "J"}
	s.OutGradient = d.add(Operand{Name: f.OutGradient, Dims: queries, DTypes: Like(f.Query), IsIn: true})
	s.Out = d.add(Operand{Name: f.Out, Dims: queries, DTypes: Like(f.Query), IsIn: true})
	s.LogSum = d.add(Operand{Name: f.LogSum, Dims: rows, DTypes: Only(num.F32), IsIn: true})
	s.QueryGradient = d.add(Operand{Name: f.QueryGradient, Dims: queries, DTypes: Like(f.Query), IsOut: true})
	s.KeyGradient = d.add(Operand{Name: f.KeyGradient, Dims: keys, DTypes: Like(f.Query), IsOut: true})
	s.ValueGradient = d.add(Operand{Name: f.ValueGradient, Dims: keys, DTypes: Like(f.Query), IsOut: true})
	switch {
	case s.HasBase():
		s.BaseGradient = d.add(Operand{Name: f.BaseGradient, Dims: rows, DTypes: Only(num.F32), IsOut: true})
	case f.BaseGradient != "":
		return nil, fmt.Errorf("%s is the gradient of a base, and there is none", f.BaseGradient)
	}
	return d, d.checkLeafNames()
}

// powers are the functions that gradients need.
func (f *StreamFunctions) powers() []*Function { return f.list()[:2] }

// StreamBackward is the form of the gradients of a stream. It computes the weights again, from the
// logarithms of their sums.
type StreamBackward struct {
	// Stream has the operands and the body of the stream; Out and LogSum are inputs. After the outputs
	// that its body has there are two more: the slope, 0 at keys that are not visible, and the scale.
	Stream

	OutGradient, QueryGradient, KeyGradient, ValueGradient, BaseGradient int // BaseGradient is -1 without a base
}

func (f *StreamBackward) String() string { return "stream-backward" }

// Slope and Scale return which outputs of the body they are.
func (f *StreamBackward) Slope() int { return len(f.Math.Outputs) - 2 }
func (f *StreamBackward) Scale() int { return len(f.Math.Outputs) - 1 }

// axes has the heads that share keys among those that are summed over.
func (f *StreamBackward) axes(*Definition) []Axis {
	return []Axis{{"T", Row}, {"S", Summed}, {"D", Column}, {"J", Summed}, {"G", Batch}, {"B", Group}}
}

func (f *StreamBackward) sums(d *Definition) []Sum {
	return append(f.Stream.sums(d),
		Sum{Over: []string{"T", "J"}, Order: Ascending, OfProducts: true}, Sum{Over: []string{"D"}, Order: InLanes})
}

// multiplyAdds counts five products: two make the weights and their gradients, three the results.
func (f *StreamBackward) multiplyAdds(sizes map[string]int) float64 { return 5 * f.perProduct(sizes) }

func (f *StreamBackward) independent(*Definition) []string { return []string{"G"} }

func (f *StreamBackward) print(d *Definition, s *strings.Builder, docs bool) {
	name := func(operand int) string { return d.Operands[operand].Name }
	outputs := f.printBody(d, s)
	args := append([]string{name(f.Value)}, outputs[:2]...)
	args = append(args, outputs[f.Slope()], outputs[f.Scale()], name(f.OutGradient), name(f.Out), name(f.LogSum))
	results := []string{name(f.QueryGradient), name(f.KeyGradient), name(f.ValueGradient)}
	if f.HasBase() {
		args, results = append(args, outputs[2]), append(results, name(f.BaseGradient))
	}
	fmt.Fprintf(s, "  %s <- weigh_backward(%s)\n", strings.Join(results, ", "), strings.Join(args, ", "))
	f.printFunctions(s, f.Functions.powers(), docs)
	for _, r := range []*sumRule{rules[0], &streamBackwardRule} {
		s.WriteString(strings.Join(r.lines, "\n") + "\n")
	}
}

// streamBackwardRule says how a stream's gradients are computed.
var streamBackwardRule = sumRule{lines: []string{
	"rule weigh_backward(v, t, visible, h, scale, do, o, lse, base): the gradients of q, k, v and base, from do, that of the mean o",
	streamRule.lines[1],
	streamRule.lines[2],
	"  E is exp2_short3, or exp2 where v is stored in f32; z = +0 if lse = -Inf, else lse; p = E(t - z)",
	"  delta = rowsum(do * o), over d; dp = +0 + sum over d ascending of do[d] * v[d]",
	"  ds = (p * (dp - delta)) * h, rounded as v is stored; +0 where the key is not visible",
	fmt.Sprintf("  of q[d]: fma(x, scale, +0), x = +0 + the sums of blocks of %d keys, descending;", StreamBlock),
	"    that of a block is +0 + sum over visible keys ascending of ds * k[d]",
	fmt.Sprintf("  of k[d]: fma(x, scale, +0), x = +0 + the sums of heads, ascending, and for each of segments of %d queries, ascending;", StreamSegment),
	"    that of a segment is +0 + sum over the queries that see the key, ascending, of ds * q[d]; it begins at a multiple of its length",
	"  of v[d]: x, likewise of p * do[d], p rounded as v is stored",
	"  of base: -(E(base - z) * delta) * f32(log(2))",
}}

func (f *StreamBackward) digest(w io.Writer) {
	f.Stream.digest(w)
	fmt.Fprintln(w, f.OutGradient, f.QueryGradient, f.KeyGradient, f.ValueGradient, f.BaseGradient)
}

func (f *StreamBackward) derivative(*Definition, wanted, []*Function) (*Definition, error) {
	return nil, errors.New("it has the gradients of a stream, whose own gradients no form of definition has")
}

// derivative returns the gradients of the query, the key, the value and the base.
func (f *Stream) derivative(d *Definition, w wanted, known []*Function) (*Definition, error) {
	if f.IsPaged() {
		return nil, errors.New("its keys lie in pages, which have no gradients; those of the same stream without pages are its own")
	}
	name := func(operand int) string { return d.Operands[operand].Name }
	all := []string{name(f.Query), name(f.Key), name(f.Value)}
	if w.isNamed {
		for _, of := range slices.Concat(w.inputs, w.params) {
			switch {
			case slices.Contains(all, of):
			case f.hasBase:
				return nil, fmt.Errorf("the gradient of %s is a sum over all keys or queries that read it, which no form of definition has; that of the base has a value for each query and head", of)
			default:
				return nil, fmt.Errorf("the gradient of %s is a sum over all keys or queries that read it, which no form of definition has", of)
			}
		}
		if len(w.inputs) < len(all) {
			return nil, fmt.Errorf("one definition has the gradients of %s: name all of them, or none", list(all))
		}
	}
	if w.isOutputNamed && slices.Contains(w.outputs, name(f.LogSum)) {
		return nil, fmt.Errorf("%s has no gradient: the gradients of a stream are those of %s", name(f.LogSum), name(f.Out))
	}
	prefix := "d"
	named := append(all, name(f.Out))
	if f.hasBase {
		named = append(named, "base")
	}
	taken := map[string]bool{}
	for _, n := range f.Math.Nodes {
		taken[n.Name] = true
	}
	for slices.ContainsFunc(named, func(n string) bool { return taken[prefix+n] || d.Operand(prefix+n) >= 0 || d.Param(prefix+n) >= 0 }) {
		prefix += "_"
	}
	form := StreamBackwardForm{
		StreamForm: StreamForm{
			Query: all[0], Key: all[1], Value: all[2], QueryStarts: name(f.QueryStarts), KeyStarts: name(f.KeyStarts),
			Out: name(f.Out), LogSum: name(f.LogSum), Functions: f.Functions,
		},
		OutGradient: prefix + name(f.Out), QueryGradient: prefix + all[0], KeyGradient: prefix + all[1], ValueGradient: prefix + all[2],
	}
	for i, of := range named {
		if i == 3 {
			continue
		}
		form.Formula = append(form.Formula, fmt.Sprintf("%s%s = the derivative of sum(%s * %s) by %s, of %s", prefix, of, form.OutGradient, form.Out, of, d.Name))
	}
	if f.hasBase {
		form.BaseGradient = prefix + "base"
	}
	b := newStreamBuilder(w.name)
	if err := f.differentiate(d, b, prefix, known); err != nil {
		return nil, err
	}
	gradients, err := b.finishBackward(form)
	if err != nil {
		return nil, err
	}
	return gradients.seal()
}

// differentiate builds the body of the gradients: that of the stream, and the derivative of the
// exponent by the score.
func (f *Stream) differentiate(d *Definition, b *StreamBuilder, prefix string, known []*Function) error {
	body := f.Body
	x := newDifferentiator(body, wanted{inputs: []string{streamLeaves[0].Name}, prefix: prefix}, known)
	leaves := map[string]Value{}
	for i, read := range f.Reads {
		if read < 0 {
			leaves[streamLeaves[i].Name] = Value{b.body.inputs[i]}
			continue
		}
		o := &d.Operands[read]
		leaves[o.Name] = b.In(o.Name, o.Dims, o.DTypes)
	}
	for i, p := range body.Params {
		t := Float
		if p.IsInt {
			t = Int
		}
		leaves[p.Name] = b.body.param(p.Name, t, nil)
		b.body.d.Params[i] = p
	}
	for _, n := range body.Math().Nodes {
		if n.Op == OpInput || n.Op == OpParam {
			x.copies[n] = x.share(leaves[n.Name])
		}
	}
	outputs := body.Math().Outputs
	x.mark()
	x.put(outputs[0].Value, PerElement, x.share(One))
	slope := x.sweep()[streamLeaves[0].Name]
	switch {
	case x.err != nil:
		return x.err
	case isZero(slope):
		return errors.New("the exponent does not depend on the score in a differentiable way")
	}
	scale, slope := x.factors(slope)
	exponent, visible := x.value(outputs[0].Value), x.value(outputs[1].Value.Args[0])
	var base []Value
	if f.hasBase {
		base = append(base, x.value(outputs[2].Value))
	}
	b.WeighBackward(exponent, visible, x.number(slope), x.mul(x.share(naturalLogOf2), scale), base...)
	return nil
}

// factors divides a product into the factors that parameters and constants determine, and the others.
func (s *algebra) factors(v Value) (scalars, others Value) {
	n := v.node
	switch {
	case v.Extent() == Scalar:
		return v, One
	case n.Op == OpNeg:
		scalars, others = s.factors(Value{n.Args[0]})
		return s.neg(scalars), others
	case n.Op == OpDiv && n.Args[1].Extent == Scalar:
		scalars, others = s.factors(Value{n.Args[0]})
		return s.div(scalars, Value{n.Args[1]}), others
	case n.Op == OpMul:
		a, b := Value{n.Args[0]}, Value{n.Args[1]}
		left, x := s.factors(a)
		right, y := s.factors(b)
		return s.mul(left, right), s.mul(x, y)
	}
	return One, v
}
