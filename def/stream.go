package def

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"tokitai/num"
)

// Keys are read in blocks, and blocks belong to segments, both counted from the first key of a
// sequence. Bits depend on them.
const (
	StreamBlock   = 128
	StreamSegment = 1024
	StreamLanes   = 8 // in which the weights of a block are added
)

// StreamFunctions are the functions by which a stream weighs: Short gives the powers of two where
// values have 16 bits, Exp2 where they have 32, and Log2 the logarithm of their sum.
type StreamFunctions struct{ Short, Exp2, Log2 *Function }

// names of the functions, as the rule of a stream has them.
var streamFunctionNames = [...]string{"exp2_short3", "exp2", "log2"}

func (f *StreamFunctions) list() []*Function { return []*Function{f.Short, f.Exp2, f.Log2} }

// StreamForm names the operands that every stream has. Query, key and value are matrices of
// tokens and heads: Query and Out have the sizes [T,G,J,D], for T tokens, G heads of keys and J
// heads of queries that share one, and Key and Value the sizes [S,G,D]. QueryStarts and KeyStarts
// [B+1] divide tokens into sequences. LogSum is [T,G,J].
//
// With Lengths [B] and Pages [B,M] instead of KeyStarts, keys and values lie in pages: Key and Value
// have the sizes [P,N,G,D], for P pages of N keys. Sequence b has Lengths[b] keys, and its key j is row
// j mod N of page Pages[b,j/N]. Sequences may share pages.
type StreamForm struct {
	Query, Key, Value, QueryStarts, KeyStarts, Out, LogSum string
	Lengths, Pages                                         string

	Functions StreamFunctions
	Formula   []string
	Clauses   []string
}

// StreamBuilder collects the body of a stream: an expression over the elements of a matrix that has
// a row for each query and head, and a column for each key.
type StreamBuilder struct {
	body                  *Builder
	operands              []Operand // of the stream, that the body reads
	exponent, where, base *Node
	slope, scale          *Node // of gradients
}

// The operands of a body that are no operands of its stream.
var streamLeaves = []Operand{
	{Name: "score", Extent: PerElement, DTypes: Only(num.F32)},
	{Name: "query", Extent: PerRow, DTypes: Only(num.I32)},
	{Name: "key", Extent: PerColumn, DTypes: Only(num.I32)},
	{Name: "head", Extent: PerRow, DTypes: Only(num.I32)},
}

// The outputs of a body.
const (
	bodyExponent = "exponent_"
	bodyVisible  = "visible_"
	bodyBase     = "base_"
	bodySlope    = "slope_"
	bodyScale    = "scale_"
)

func newStreamBuilder(name string) *StreamBuilder {
	b := &StreamBuilder{body: &Builder{d: &Definition{Name: name, Form: new(Expression)}}}
	for _, o := range streamLeaves {
		b.body.input(o.Name, o.Extent, []Rule{o.DTypes})
	}
	return b
}

// Score returns the product of a query and a key.
func (b *StreamBuilder) Score() Value { return Value{b.body.inputs[0]} }

// Query returns the place of the query in its sequence, an int32: 0 for the first key of the
// sequence. The last query stands at the last key.
func (b *StreamBuilder) Query() Value { return Value{b.body.inputs[1]} }

// Key returns the place of the key in its sequence, an int32.
func (b *StreamBuilder) Key() Value { return Value{b.body.inputs[2]} }

// Head returns the number of the query's head, an int32 below G·J.
func (b *StreamBuilder) Head() Value { return Value{b.body.inputs[3]} }

// Param declares a parameter, as [Builder.Param] does.
func (b *StreamBuilder) Param(name string, opts ...ParamOption) Value {
	return b.body.Param(name, opts...)
}

// IntParam declares an int32 parameter.
func (b *StreamBuilder) IntParam(name string, opts ...ParamOption) Value {
	return b.body.IntParam(name, opts...)
}

// streamExtents are the sizes of the operands that a body can read, and how many values it sees.
var streamExtents = map[string]Extent{"G,J": PerRow, "T": PerRow, "T,G,J": PerRow, "S": PerColumn, "S,G": PerElement}

// In declares an input by its sizes: [G,J] has a value for each head of queries, [T] for each query,
// [T,G,J] for both, [S] for each key, and [S,G] for each key and head of keys. It holds floats, or
// int32 if the rule is Only(num.I32).
func (b *StreamBuilder) In(name string, dims []string, dtypes ...Rule) Value {
	extent, ok := streamExtents[strings.Join(dims, ",")]
	if !ok {
		b.body.fail("operand %s has the sizes %v, want [G,J], [T], [T,G,J], [S] or [S,G]", name, dims)
	}
	rule := b.body.rule(name, dtypes)
	b.operands = append(b.operands, Operand{Name: name, Dims: dims, DTypes: rule, IsIn: true})
	if rule.Like != "" { // an operand that the body does not have
		rule = AnyFloat
	}
	return Value{b.body.input(name, extent, []Rule{rule})}
}

// Weigh says what a query's result is: the mean of the values at the keys where visible holds,
// weighed by 2 to the power of exponent. With a base, its power of two counts as one more weight, of a
// value 0.
func (b *StreamBuilder) Weigh(exponent, visible Value, base ...Value) {
	switch {
	case b.exponent != nil:
		b.body.fail("it weighs twice")
	case len(base) > 1:
		b.body.fail("it has %d bases, want at most one", len(base))
	}
	b.exponent, b.where = exponent.node, visible.node
	if len(base) == 1 {
		b.base = base[0].node
	}
}

// StreamOf builds a stream.
func StreamOf(name string, f StreamForm, build func(b *StreamBuilder)) (*Definition, error) {
	if build == nil {
		return nil, fmt.Errorf("%s: nothing builds it", name)
	}
	b := newStreamBuilder(name)
	build(b)
	d, err := b.finish(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d.seal()
}

// finish returns the definition.
func (b *StreamBuilder) finish(f StreamForm) (*Definition, error) {
	d, s, err := b.begin(&f, f.Functions.list())
	if err != nil {
		return nil, err
	}
	d.Form = s
	s.Out = d.add(Operand{Name: f.Out, Dims: []string{"T", "G", "J", "D"}, DTypes: Like(f.Query), IsOut: true})
	s.LogSum = d.add(Operand{Name: f.LogSum, Dims: []string{"T", "G", "J"}, DTypes: Only(num.F32), IsOut: true})
	return d, d.checkLeafNames()
}

func (d *Definition) add(o Operand) int {
	d.Operands = append(d.Operands, o)
	return len(d.Operands) - 1
}

// begin returns a definition with the operands that a stream and its gradients read, and a form with
// their positions.
func (b *StreamBuilder) begin(f *StreamForm, functions []*Function) (*Definition, *Stream, error) {
	if err := b.check(f, functions); err != nil {
		return nil, nil, err
	}
	s := &Stream{Functions: f.Functions, hasBase: b.base != nil}
	var err error
	if s.Math, s.Body, err = b.bodyOf(); err != nil {
		return nil, nil, err
	}
	d := &Definition{Name: b.body.d.Name, Params: b.body.d.Params, formula: f.Formula, clauses: f.Clauses}
	starts := func(name, bound string) Operand {
		return Operand{Name: name, Dims: []string{"B+1"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, IsOffsets: true, Bound: bound}
	}
	keys := []string{"S", "G", "D"}
	if f.Pages != "" {
		keys = []string{"P", "N", "G", "D"}
	}
	s.Query = d.add(Operand{Name: f.Query, Dims: []string{"T", "G", "J", "D"}, DTypes: AnyFloat, IsIn: true})
	s.Key = d.add(Operand{Name: f.Key, Dims: keys, DTypes: Like(f.Query), IsIn: true})
	s.Value = d.add(Operand{Name: f.Value, Dims: keys, DTypes: Like(f.Query), IsIn: true})
	for range streamLeaves {
		s.Reads = append(s.Reads, -1)
	}
	for _, o := range b.operands {
		s.Reads = append(s.Reads, d.add(o))
	}
	s.QueryStarts, s.KeyStarts, s.Lengths, s.Pages = d.add(starts(f.QueryStarts, "T")), -1, -1, -1
	if f.Pages == "" {
		s.KeyStarts = d.add(starts(f.KeyStarts, "S"))
	} else {
		s.Lengths = d.add(Operand{Name: f.Lengths, Dims: []string{"B"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, IsLengths: true, Bound: "M*N"})
		s.Pages = d.add(Operand{Name: f.Pages, Dims: []string{"B", "M"}, DTypes: Only(indexDType), IsIn: true, IsIndex: true, Bound: "P", Lengths: f.Lengths, Each: "N"})
	}
	return d, s, nil
}

// checkLeafNames returns an error for an operand that has the name of a value of the body.
func (d *Definition) checkLeafNames() error {
	for _, o := range streamLeaves {
		if d.Operand(o.Name) >= 0 {
			return fmt.Errorf("operand %s: the name has a meaning of its own in a stream", o.Name)
		}
	}
	return nil
}

func (b *StreamBuilder) check(f *StreamForm, functions []*Function) error {
	for i, function := range functions {
		if function == nil || function.Name != streamFunctionNames[i] {
			return fmt.Errorf("a stream weighs by the functions %s", strings.Join(streamFunctionNames[:len(functions)], ", "))
		}
		if err := function.check(); err != nil {
			return err
		}
	}
	if f.Pages != "" {
		for i := range b.operands {
			if o := &b.operands[i]; o.Dims[0] == "S" {
				return fmt.Errorf("operand %s has a value for each key, which a stream whose keys lie in pages cannot read", o.Name)
			}
		}
	}
	switch {
	case b.body.err != nil:
		return b.body.err
	case (f.Pages == "") != (f.Lengths == "") || (f.Pages == "") == (f.KeyStarts == ""):
		return errors.New("it has starts of keys, or lengths and pages")
	case b.exponent == nil || b.where == nil:
		return errors.New("it weighs nothing")
	}
	for _, v := range []struct {
		what  string
		n     *Node
		t     Type
		fails bool
		want  string
	}{
		{"exponent", b.exponent, Float, b.exponent.Extent != PerElement, "a float that depends on the score"},
		{"condition", b.where, Bool, b.where.Extent == Scalar, "a bool that depends on the query or the key"},
		{"base", b.base, Float, b.base != nil && b.base.Extent != PerRow, "a float per query and head"},
		{"slope", b.slope, Float, false, "a float"},
		{"scale", b.scale, Float, b.scale != nil && b.scale.Extent != Scalar, "a float that parameters and constants determine"},
	} {
		switch {
		case v.n == nil:
		case v.n.err != nil:
			return v.n.err
		case v.n.Type != v.t || v.fails:
			return fmt.Errorf("the %s %s is %s, %s, want %s", v.what, v.n.label(), article(v.n.Type), v.n.Extent, v.want)
		}
	}
	return nil
}

// bodyOf returns the body, as it is written and as a rowwise definition.
func (b *StreamBuilder) bodyOf() (Graph, *Definition, error) {
	body := b.body
	for _, n := range []*Node{b.exponent, b.where, b.base, b.slope, b.scale} {
		if n != nil {
			body.outputs = append(body.outputs, Output{Value: n})
		}
	}
	written := body.graph(false)
	for _, n := range written.Nodes {
		if !n.isElementwise() {
			return Graph{}, nil, fmt.Errorf("%s: a stream's expression computes each element from its own query and key", n.brief())
		}
	}
	body.outputs = nil
	seen := Select(Value{b.where}, IntConst(1), IntConst(0))
	body.output(bodyExponent, PerElement, b.exponent, []Rule{Only(num.F32)})
	body.output(bodyVisible, seen.node.Extent, seen.node, nil)
	if b.base != nil {
		body.output(bodyBase, PerRow, b.base, []Rule{Only(num.F32)})
	}
	if b.slope != nil {
		slope := Select(Value{b.where}, Value{b.slope}, Zero) // with a value for each query or key, at least
		body.output(bodySlope, slope.node.Extent, slope.node, []Rule{Only(num.F32)})
		body.output(bodyScale, Scalar, b.scale, []Rule{Only(num.F32)})
	}
	if err := body.finish(); err != nil {
		return Graph{}, nil, err
	}
	d, err := body.d.seal()
	return written, d, err
}

// Stream is the form of attention: a loop over the keys of a sequence, in blocks, that carries for
// each query and head the largest exponent, the sum of the weights and the weighed sum of values.
// Bodies compute exponents and say which keys a query sees.
type Stream struct {
	Query, Key, Value, QueryStarts, Out, LogSum int // positions of operands

	KeyStarts, Lengths, Pages int // the same, -1 for those that it does not have: starts, or lengths and pages

	Functions StreamFunctions

	// Body is the expression as a rowwise definition, with a row for each query and head and a column for
	// each key. Its operands are score, query, key and head, then those of the stream that it reads, and
	// its outputs: the exponent, 1 where a key is visible and else 0, and the base, if there is one.
	Body *Definition

	// Reads has the operand of the stream that each of the body's inputs is, or -1.
	Reads []int

	// Math is the body as it is written: its outputs are the exponent, the condition and the base.
	Math Graph

	hasBase bool
}

// HasBase reports whether a weight without a value is counted.
func (f *Stream) HasBase() bool { return f.hasBase }

// IsPaged reports whether keys and values lie in pages.
func (f *Stream) IsPaged() bool { return f.Pages >= 0 }

// Weights returns the function that gives the weights of values in a format.
func (f *Stream) Weights(d num.DType) *Function {
	if d == num.F32 {
		return f.Functions.Exp2
	}
	return f.Functions.Short
}

// Apply returns what the body gives as values of a definition that is being built: the exponent, the
// condition, and the slope of gradients. of holds a value for each input and parameter of the body.
func (f *Stream) Apply(b *Builder, of map[string]Value) (exponent, visible, slope Value) {
	results := b.Apply(f.Body, of)
	if b.err != nil {
		return exponent, visible, slope
	}
	exponent, visible = results[bodyExponent], Value{results[bodyVisible].node.Args[0]}
	if s, ok := results[bodySlope]; ok {
		slope = Value{s.node.Args[1]}
	}
	return exponent, visible, slope
}

func (f *Stream) String() string { return "stream" }

func (f *Stream) axes(*Definition) []Axis {
	if f.IsPaged() {
		return []Axis{{"T", Row}, {"N", Summed}, {"D", Column}, {"G", Batch}, {"J", Batch}, {"B", Group}, {"M", Slot}, {"P", Pool}}
	}
	return []Axis{{"T", Row}, {"S", Summed}, {"D", Column}, {"G", Batch}, {"J", Batch}, {"B", Group}}
}

func (f *Stream) sums(*Definition) []Sum {
	keys := []string{"S"}
	if f.IsPaged() {
		keys = []string{"N", "M"}
	}
	return []Sum{{Over: keys, Order: Ascending, OfProducts: true}, {Over: []string{"D"}, Order: Ascending, OfProducts: true}}
}

func (f *Stream) batchAxis(*Definition) string { return "T" }

func (f *Stream) batchUse(*Definition, int) (BatchUse, string) {
	return WholeBatch, "reads its sequence"
}

// multiplyAdds counts the two products of every query with every key of its sequence, visible or not,
// in sequences of equal length.
func (f *Stream) multiplyAdds(sizes map[string]int) float64 { return 2 * f.perProduct(sizes) }

func (f *Stream) perProduct(sizes map[string]int) float64 {
	keys := float64(sizes["M"] * sizes["N"])
	if !f.IsPaged() {
		keys = float64(sizes["S"]) / float64(sizes["B"])
	}
	n := keys
	for _, letter := range []string{"T", "G", "J", "D"} {
		n *= float64(sizes[letter])
	}
	return n
}

func (f *Stream) independent(*Definition) []string { return []string{"G", "J"} }

func (f *Stream) divisible(*Definition) string { return "" }

func (f *Stream) mayBeFP8(*Definition, Operand) bool { return false }

func (f *Stream) print(d *Definition, s *strings.Builder, docs bool) {
	args := append([]string{d.Operands[f.Value].Name}, f.printBody(d, s)...)
	fmt.Fprintf(s, "  %s, %s <- weigh(%s)\n", d.Operands[f.Out].Name, d.Operands[f.LogSum].Name, strings.Join(args, ", "))
	f.printFunctions(s, f.Functions.list(), docs)
	s.WriteString(strings.Join(streamRule.lines, "\n") + "\n")
	if f.IsPaged() {
		s.WriteString(strings.Join(pagesRule.lines, "\n") + "\n")
	}
}

// printBody writes the values of the body, and returns the names of its outputs.
func (f *Stream) printBody(d *Definition, s *strings.Builder) (outputs []string) {
	names := nodeNames(f.Math.Nodes, d)
	for _, n := range f.Math.Nodes {
		if len(n.Args) > 0 {
			fmt.Fprintf(s, "  %s = %s\n", names[n], formatNode(n, names))
		}
	}
	for _, o := range f.Math.Outputs {
		outputs = append(outputs, names[o.Value])
	}
	return outputs
}

// printFunctions writes the functions that the body calls, and those of the rule.
func (f *Stream) printFunctions(s *strings.Builder, ofRule []*Function, docs bool) {
	functions := append(functionsIn(f.Math.Nodes), ofRule...)
	slices.SortFunc(functions, func(a, b *Function) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range slices.CompactFunc(functions, func(a, b *Function) bool { return a.Name == b.Name }) {
		s.WriteString(f.text(docs))
	}
}

// streamRule says how a stream weighs.
var streamRule = sumRule{lines: []string{
	"rule weigh(v, t, visible, base): the mean of the visible rows of v, weighed by 2^t, for a query and head",
	"  score = +0 + sum over d ascending of q[d] * k[d]",
	"  keys are numbered from the first of their sequence, the last query has the number of the last key",
	fmt.Sprintf("  blocks of %d keys, segments of %d keys, ascending; E is exp2_short3, or exp2 where v is stored in f32", StreamBlock, StreamSegment),
	"  a segment begins with m = -Inf, l = +0, O = +0, the first with m = base, l = 1 if there is a base",
	"  a block with visible keys: n = max(m, t of visible keys), z = +0 if n = -Inf, else n",
	"    a = E(m - z), p = E(t - z), m = n",
	fmt.Sprintf("    l = fma(l, a, w), w = the sum of p: s[i] = +0 + p of the visible keys = i mod %d, ascending; s[i] = s[2i] + s[2i+1], until one is left", StreamLanes),
	"    O[d] = O[d] * a + sum over visible keys ascending of p * v[d], O[d] * a rounded to f32, p rounded as v is stored",
	"  a segment without visible keys and base is left out; the others are joined, ascending:",
	"    n = max(m, m2), z as above, a = E(m - z), b = E(m2 - z), l = fma(l, a, l2 * b), O = fma(O, a, O2 * b), m = n",
	"  the mean is fma(O, 1/l, +0), and the second result m + log2(l); if l = 0 they are +0 and -Inf; if m = +Inf or NaN, NaN",
}}

func (f *Stream) digest(w io.Writer) {
	fmt.Fprintln(w, f.Query, f.Key, f.Value, f.QueryStarts, f.KeyStarts, f.Lengths, f.Pages, f.Out, f.LogSum, f.Reads, f.Body.Hash())
	f.Math.digest(w)
	f.Body.Form.digest(w)
}
