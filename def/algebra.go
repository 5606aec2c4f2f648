package def

// algebra builds expressions over real values. An expression that exists already is
// shared, and what the rules of real numbers make shorter is not built: factors of one,
// terms of zero, two signs in a row. A Value without a node stands for zero.
type algebra struct {
	nodes map[nodeKey]*Node
	order map[*Node]int // in which nodes were built
}

// nodeKey identifies a node by what it computes.
type nodeKey struct {
	op      Op
	args    [6]*Node
	leaf    string
	of      *Function
	storage Storage
}

func newAlgebra() algebra {
	return algebra{nodes: map[nodeKey]*Node{}, order: map[*Node]int{}}
}

// share returns a node that computes the same as v: an earlier one, or v itself. The arguments
// of v must have been returned by share.
func (s *algebra) share(v Value) Value {
	n := v.node
	key := nodeKey{op: n.Op, of: n.Func, storage: n.Storage}
	if len(n.Args) == 0 {
		key.leaf = leafText(n)
	}
	copy(key.args[:], n.Args)
	if (n.Op == OpAdd || n.Op == OpMul) && s.order[n.Args[0]] > s.order[n.Args[1]] {
		key.args[0], key.args[1] = n.Args[1], n.Args[0]
	}
	if other := s.nodes[key]; other != nil {
		return Value{other}
	}
	s.nodes[key] = n
	s.order[n] = len(s.order)
	return v
}

func isConst(v Value, want float64) bool {
	n := v.node
	return n != nil && n.Op == OpConst && n.Real != nil && n.Real.IsExact() && float64(n.Real.F32()) == want
}

func isZero(v Value) bool { return v.node == nil || isConst(v, 0) }

// number returns v, or the constant zero if v has no node.
func (s *algebra) number(v Value) Value {
	if v.node == nil {
		v = Zero
	}
	if len(v.node.Args) == 0 {
		return s.share(v)
	}
	return v
}

// asNeg returns the argument of a negation.
func asNeg(v Value) (Value, bool) {
	if v.node == nil || v.node.Op != OpNeg {
		return Value{}, false
	}
	return Value{v.node.Args[0]}, true
}

// asSelect returns the parts of a selection.
func asSelect(v Value) (cond, a, b Value, ok bool) {
	if v.node == nil || v.node.Op != OpSelect {
		return Value{}, Value{}, Value{}, false
	}
	args := v.node.Args
	return Value{args[0]}, Value{args[1]}, Value{args[2]}, true
}

// asPart returns the parts of a selection between a value and zero.
func asPart(v Value) (cond, a, b Value, ok bool) {
	cond, a, b, ok = asSelect(v)
	return cond, a, b, ok && (isZero(a) || isZero(b))
}

func (s *algebra) neg(a Value) Value {
	if isZero(a) {
		return Value{}
	}
	if x, ok := asNeg(a); ok {
		return x
	}
	if c, x, y, ok := asPart(a); ok {
		return s.choose(c, s.neg(x), s.neg(y))
	}
	if n := a.node; n.Op == OpConst && n.Real.IsExact() {
		return s.share(Const(-float64(n.Real.F32())))
	}
	return s.share(s.number(a).Neg())
}

func (s *algebra) add(a, b Value) Value {
	switch {
	case isZero(a):
		return b
	case isZero(b):
		return a
	case a == b:
		return s.mul(Two, a)
	}
	if x, ok := asNeg(b); ok {
		return s.sub(a, x)
	}
	if x, ok := asNeg(a); ok {
		return s.sub(b, x)
	}
	if c, x, y, ok := s.alike(a, b); ok {
		return s.choose(c, s.add(x[0], x[1]), s.add(y[0], y[1]))
	}
	return s.share(s.number(a).Add(s.number(b)))
}

func (s *algebra) sub(a, b Value) Value {
	switch {
	case isZero(b):
		return a
	case isZero(a):
		return s.neg(b)
	case a == b:
		return Value{}
	}
	if x, ok := asNeg(b); ok {
		return s.add(a, x)
	}
	if x, ok := asNeg(a); ok {
		return s.neg(s.add(x, b))
	}
	if c, x, y, ok := s.alike(a, b); ok {
		return s.choose(c, s.sub(x[0], x[1]), s.sub(y[0], y[1]))
	}
	return s.share(s.number(a).Sub(s.number(b)))
}

// alike returns the parts of two selections by the same condition.
func (s *algebra) alike(a, b Value) (cond Value, x, y [2]Value, ok bool) {
	c, x0, y0, isSelect := asSelect(a)
	d, x1, y1, areSelects := asSelect(b)
	return c, [2]Value{x0, x1}, [2]Value{y0, y1}, isSelect && areSelects && c == d
}

// mul multiplies. A factor that is chosen or zero stays outside, so that what is not chosen
// is not multiplied by: the other factor may be infinite there.
func (s *algebra) mul(a, b Value) Value {
	switch {
	case isZero(a) || isZero(b):
		return Value{}
	case isConst(a, 1):
		return b
	case isConst(b, 1):
		return a
	case isConst(a, -1):
		return s.neg(b)
	case isConst(b, -1):
		return s.neg(a)
	}
	if x, ok := asNeg(a); ok {
		return s.neg(s.mul(x, b))
	}
	if x, ok := asNeg(b); ok {
		return s.neg(s.mul(a, x))
	}
	if c, x, y, ok := asPart(a); ok {
		return s.choose(c, s.mul(x, b), s.mul(y, b))
	}
	if c, x, y, ok := asPart(b); ok {
		return s.choose(c, s.mul(a, x), s.mul(a, y))
	}
	return s.share(s.number(a).Mul(s.number(b)))
}

func (s *algebra) div(a, b Value) Value {
	if isZero(a) || isConst(b, 1) {
		return a
	}
	if x, ok := asNeg(a); ok {
		return s.neg(s.div(x, b))
	}
	if c, x, y, ok := asPart(a); ok {
		return s.choose(c, s.div(x, b), s.div(y, b))
	}
	return s.share(s.number(a).Div(s.number(b)))
}

// choose returns cond ? a : b.
func (s *algebra) choose(cond, a, b Value) Value {
	if c, x, _, ok := asSelect(a); ok && c == cond {
		a = x
	}
	if c, _, y, ok := asSelect(b); ok && c == cond {
		b = y
	}
	if isZero(a) && isZero(b) {
		return Value{}
	}
	return s.share(Select(cond, s.number(a), s.number(b)))
}

// where returns v in one column and zero in the others.
func (s *algebra) where(column, v Value) Value {
	if isZero(v) {
		return Value{}
	}
	return s.choose(s.share(s.column().Equal(s.number(column))), v, Value{})
}

// column returns the column of an element.
func (s *algebra) column() Value { return s.share(new(Builder).Col()) }

// rowSum sums over the columns of a row. What does not depend on the column stays outside.
func (s *algebra) rowSum(v Value) Value {
	if x, ok := asNeg(v); ok {
		return s.neg(s.rowSum(x))
	}
	if c, x, y, ok := asPart(v); ok && c.Extent()&PerColumn == 0 {
		return s.choose(c, s.sumColumns(x), s.sumColumns(y))
	}
	return s.share(RowSum(v))
}

// sumColumns returns the sum over the columns of a value per element, which may be the same
// in all of them.
func (s *algebra) sumColumns(v Value) Value {
	switch {
	case isZero(v):
		return Value{}
	case v.Extent()&PerColumn == 0:
		return s.mul(s.share(new(Builder).Columns()), v)
	}
	return s.rowSum(s.spread(v))
}

// colSum and totalSum sum over the rows of a column, and over everything.
func (s *algebra) colSum(v Value) Value {
	if x, ok := asNeg(v); ok {
		return s.neg(s.colSum(x))
	}
	return s.share(ColSum(v))
}

func (s *algebra) totalSum(v Value) Value {
	if x, ok := asNeg(v); ok {
		return s.neg(s.totalSum(x))
	}
	return s.share(TotalSum(v))
}

// spread returns v with one value per element.
func (s *algebra) spread(v Value) Value {
	if v.Extent() == PerElement {
		return v
	}
	return s.share(Select(s.share(s.column().Inside()), s.number(v), s.number(Zero)))
}
