package gpu

import (
	"fmt"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// ends writes the expression in which products end, and passes what it reads and writes. The kernels of products
// are launched once for each product. All but the last launch leave their sums in scratch memory, where the last
// one, which ends the sums of its tiles, finds them.
type ends struct {
	*rowwise
	outer   *def.Definition
	f       *def.Fused
	formats []num.DType // of the outer definition
}

// endsWide is the number of neighbours that kernels end at a time.
const endsWide = 4

func newEnds(d *def.Definition, dtypes []num.DType) *ends {
	f := d.Fused()
	e := &ends{&rowwise{d: f.Body}, d, f, dtypes}
	var names []string
	for i, read := range f.Reads {
		name, format := "in_", num.F32
		if read >= 0 {
			format = dtypes[read]
		}
		if f.Body.Operands[i].IsOut {
			name = "out_"
		}
		e.dtypes = append(e.dtypes, format)
		names = append(names, name+f.Body.Operands[i].Name)
	}
	for i := range d.Params {
		names = append(names, "param_"+d.Params[i].Name)
	}
	ids := uniqueIdentifiers(names, "_stride", "_wide", "_four")
	e.operands, e.rowwise.params = ids[:len(f.Reads)], ids[len(f.Reads):]
	return e
}

// last returns the position of the last product.
func (e *ends) last() int { return len(e.f.Products) - 1 }

// hasRows reports whether an operand of the body has a row for each row of the result.
func (e *ends) hasRows(operand int) bool { return e.d.Operands[operand].Extent&def.PerRow != 0 }

// isAcross reports whether an operand of the body has a value for each column.
func (e *ends) isAcross(operand int) bool { return e.d.Operands[operand].Extent&def.PerColumn != 0 }

// source returns the struct of what the expression needs, and the function that ends sums.
func (e *ends) source() string {
	s := &text{}
	s.open("struct Ends {")
	if e.last() > 0 {
		s.line("float* sums; // of the product of this launch, if that is not the last, or null")
		s.line("i64 sums_stride;")
	}
	for i, id := range e.operands {
		constant := "const "
		if e.d.Operands[i].IsOut {
			constant = ""
		}
		if i != e.last() {
			s.line("%s%s* %s;", constant, e.dtypes[i], id)
			s.line("i64 %s_stride;", id)
		}
	}
	for i, id := range e.operands { // whether four neighbours lie in one piece
		if i != e.last() && e.isAcross(i) {
			s.line("i32 %s_four;", id)
		}
	}
	for i, id := range e.rowwise.params {
		kind := "float"
		if e.outer.Params[i].IsInt {
			kind = "i32"
		}
		s.line("%s %s;", kind, id)
	}
	if e.halves()%2 == 1 {
		s.line("u32 pad;")
	}
	s.close("};")
	s.line("")
	s.line("template <class T>")
	s.open("struct alignas(%d * sizeof(T)) Neighbours {", endsWide)
	s.line("T v[%d];", endsWide)
	s.close("} MAY_ALIAS;")
	s.line("")
	s.line("// Ends the sums of n neighbours at a row and a column.")
	s.open("DEVICE void end_sums(const Ends& p, const float* sums, i64 row, i64 col, int n) {")
	if e.last() > 0 {
		s.open("if (p.sums) {")
		s.line("UNROLL for (int j = 0; j < %d; j++)", endsWide)
		s.line("    if (j < n) p.sums[row * p.sums_stride + col + j] = sums[j];")
		s.line("return;")
		s.close("}")
	}
	for i, id := range e.operands {
		if i == e.last() || e.d.Operands[i].IsOut {
			continue
		}
		if !e.isAcross(i) {
			s.line("const %[1]s* %[2]s = p.%[2]s + row * p.%[2]s_stride;", e.dtypes[i], id)
			continue
		}
		at := "col"
		if e.hasRows(i) {
			at = fmt.Sprintf("row * p.%s_stride + col", id)
		}
		s.line("Neighbours<%s> %s;", e.dtypes[i], id)
		s.line("if (p.%[1]s_four && n == %[3]d) %[1]s = *reinterpret_cast<const Neighbours<%[2]s>*>(p.%[1]s + %[4]s);", id, e.dtypes[i], endsWide, at)
		s.line("else UNROLL for (int j = 0; j < %[3]d; j++) %[1]s.v[j] = j < n ? p.%[1]s[%[4]s + j] : (%[2]s)0;", id, e.dtypes[i], endsWide, at)
	}
	for i, id := range e.operands {
		if e.d.Operands[i].IsOut {
			s.line("Neighbours<%s> %s;", e.dtypes[i], id)
		}
	}
	s.open("UNROLL for (int j = 0; j < %d; j++) {", endsWide)
	for _, n := range e.d.Exec().Nodes {
		switch {
		case n.Op == def.OpInput || n.Op == def.OpStored:
			e.declare(s, n, e.leaf(n))
		case !isInline(n):
			e.declare(s, n, e.expression(n))
		}
	}
	for _, o := range e.d.Exec().Outputs {
		if id := e.operands[o.Operand]; e.dtypes[o.Operand] == num.I32 {
			s.line("%s.v[j] = %s;", id, e.value(o.Value))
		} else {
			s.line("store_%s(&%s.v[j], %s);", e.dtypes[o.Operand], id, e.value(o.Value))
		}
	}
	s.close("}")
	for i, id := range e.operands {
		if !e.d.Operands[i].IsOut {
			continue
		}
		at := fmt.Sprintf("p.%[1]s + row * p.%[1]s_stride + col", id)
		s.line("if (p.%[1]s_four && n == %[3]d) *reinterpret_cast<Neighbours<%[2]s>*>(%[4]s) = %[1]s;", id, e.dtypes[i], endsWide, at)
		s.line("else UNROLL for (int j = 0; j < %d; j++)", endsWide)
		s.line("    if (j < n) (%s)[j] = %s.v[j];", at, id)
	}
	s.close("}")
	s.line("")
	return s.String()
}

// leaf returns the expression of an operand's element: of those that are loaded, or the sum itself.
func (e *ends) leaf(n *def.Node) string {
	id, format := e.operands[n.Operand], e.dtypes[n.Operand]
	if n.Operand == e.last() {
		return "sums[j]"
	}
	at := id + ".v + j"
	if !e.isAcross(n.Operand) {
		at = id
	}
	switch {
	case n.Op == def.OpStored:
		return fmt.Sprintf("(i32)word_of(*(%s))", at)
	case format == num.I32:
		return fmt.Sprintf("*(%s)", at)
	}
	return fmt.Sprintf("load_%s(%s)", format, at)
}

// halves counts the members of the struct of 32 bits.
func (e *ends) halves() int {
	n := len(e.outer.Params)
	for i := range e.operands {
		if i != e.last() && e.isAcross(i) {
			n++
		}
	}
	return n
}

// endsCall is the call whose products are planned.
type endsCall struct {
	call *lower.Call
	sums []lower.Operand // of all products but the last, in scratch memory
	at   int             // the product of the launch
}

// params passes what the expression needs in the launch of a product.
func (e *ends) params(p *Plan) {
	k := &p.ends
	if e.last() > 0 {
		if k.at < e.last() {
			p.pointer(k.sums[k.at].Pointer)
		} else {
			p.word(0)
		}
		p.ints(k.sums[0].Stride)
	}
	operand := func(i int) *lower.Operand {
		if read := e.f.Reads[i]; read >= 0 {
			return &k.call.Operands[read]
		}
		return &k.sums[i]
	}
	for i := range e.operands {
		if i != e.last() {
			o := operand(i)
			p.pointer(o.Pointer)
			p.ints(o.Stride)
		}
	}
	for i := range e.operands {
		if i != e.last() && e.isAcross(i) {
			o := operand(i)
			piece := uint64(endsWide * o.DType.Size())
			p.bools(o.Pointer%piece == 0 && (o.Rows <= 1 || uint64(o.Stride*o.DType.Size())%piece == 0))
		}
	}
	for i, v := range k.call.Params {
		if e.outer.Params[i].IsInt {
			p.half(uint32(int32(v)))
		} else {
			p.half(math.Float32bits(float32(v)))
		}
	}
	p.align(8)
	p.ints(0)
}

// ending plans the launches of the products.
type ending struct {
	*ends
	each planner
}

// launches implements planner.
func (k *ending) launches(p *Plan, c *lower.Call, limits Limits) error {
	k.begin(p, c)
	for i := range k.f.Products {
		p.ends.at = i
		if err := k.each.launches(p, k.part(p, c, i), limits); err != nil {
			return err
		}
	}
	return nil
}

// begin reserves memory for sums.
func (k *ending) begin(p *Plan, c *lower.Call) {
	result := &c.Operands[k.f.Result()]
	sums := lower.Operand{Array: num.Array{DType: num.F32, Rows: result.Rows, Cols: result.Cols, Stride: (result.Cols + 3) / 4 * 4}}
	p.ends.call, p.ends.sums = c, slices.Grow(p.ends.sums[:0], k.last())
	for range k.last() {
		sums.Pointer = inScratch | uint64(p.reserve(sums.Rows*sums.Stride))
		p.ends.sums = append(p.ends.sums, sums)
	}
}

// part returns the call of a product.
func (k *ending) part(p *Plan, c *lower.Call, i int) *lower.Call {
	result := c.Operands[k.f.Result()]
	result.DType, result.Pointer = num.F32, 0 // which no kernel writes
	bindProduct(&p.part, k.f, i, c, result)
	return &p.part
}

// bindProduct sets the call of a product with a result, as part of a call of the products that end in an expression.
func bindProduct(part *lower.Call, f *def.Fused, i int, c *lower.Call, result lower.Operand) {
	part.Operands, part.Params, part.Rows, part.Cols = part.Operands[:0], nil, 0, 0
	for _, at := range f.Factors[i] {
		if at < 0 {
			part.Operands = append(part.Operands, result)
		} else {
			part.Operands = append(part.Operands, c.Operands[at])
		}
	}
}
