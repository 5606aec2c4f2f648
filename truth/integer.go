package truth

import (
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// set holds the int32 values that a node may have: one, unless it depends on a
// comparison of real numbers that is too close to decide.
type set struct {
	one   int32
	all   []int32 // ascending, if there are several
	isAny bool    // all int32: more than are worth listing
}

// mostInts is the largest number of values that a set lists.
const mostInts = 1 << 12

var anyInt = set{isAny: true}

func only(v int32) set { return set{one: v} }

// setOf returns the set of the given values, which are ascending and not empty.
func setOf(values []int32) set {
	switch {
	case len(values) == 1:
		return only(values[0])
	case len(values) > mostInts:
		return anyInt
	}
	return set{all: values}
}

// values lists a set; that of all int32 by its ends.
func (s set) values() []int32 {
	switch {
	case s.isAny:
		return []int32{math.MinInt32, math.MaxInt32}
	case s.all == nil:
		return []int32{s.one}
	}
	return s.all
}

func (s set) isOne() bool { return s.all == nil && !s.isAny }

// count returns the number of values.
func (s set) count() int64 {
	if s.isAny {
		return 1 << 32
	}
	return int64(len(s.values()))
}

func (s set) bounds() (lo, hi int32) {
	if s.isAny {
		return math.MinInt32, math.MaxInt32
	}
	if s.all == nil {
		return s.one, s.one
	}
	return s.all[0], s.all[len(s.all)-1]
}

func (s set) contains(v int32) bool {
	if s.isAny || s.all == nil {
		return s.isAny || s.one == v
	}
	_, found := slices.BinarySearch(s.all, v)
	return found
}

func (s set) union(t set) set {
	switch {
	case s.isAny || t.isAny:
		return anyInt
	case s.isOne() && t.contains(s.one):
		return t
	}
	all := slices.Concat(s.values(), t.values())
	slices.Sort(all)
	return setOf(slices.Compact(all))
}

// meets reports whether two sets have a value in common.
func (s set) meets(t set) bool {
	if s.isAny || t.isAny {
		return true
	}
	if len(s.all) > len(t.all) {
		s, t = t, s
	}
	return slices.ContainsFunc(s.values(), t.contains)
}

func compareInt(op def.Op, a, b set) ball.Truth {
	alo, ahi := a.bounds()
	blo, bhi := b.bounds()
	var isAlways, isNever bool
	switch op {
	case def.OpLess:
		isAlways, isNever = ahi < blo, alo >= bhi
	case def.OpLessEqual:
		isAlways, isNever = ahi <= blo, alo > bhi
	default:
		isAlways, isNever = a.isOne() && b.isOne() && a.one == b.one, !a.meets(b)
	}
	if op == def.OpNotEqual {
		isAlways, isNever = isNever, isAlways
	}
	switch {
	case isAlways:
		return ball.Yes
	case isNever:
		return ball.No
	}
	return ball.Maybe
}

func isInside(s set, cols int) ball.Truth {
	lo, hi := s.bounds()
	switch {
	case lo >= 0 && int(hi) < cols:
		return ball.Yes
	case s.isAny, slices.ContainsFunc(s.values(), func(v int32) bool { return v >= 0 && int(v) < cols }):
		return ball.Maybe
	}
	return ball.No
}

// words computes the words of the row's elements: random ones, or their numbers. They are unknown
// where the arguments are.
func (e *evaluator[T]) words(n *def.Node, out []set) {
	var args []uint32
	for _, a := range n.Args {
		s := e.values[a.ID].i[0]
		if !s.isOne() {
			for j := range out {
				out[j] = anyInt
			}
			return
		}
		args = append(args, uint32(s.one))
	}
	wide := func(k int) uint64 { return uint64(args[k]) | uint64(args[k+1])<<32 }
	for j, c := range e.columns {
		number := uint64(e.row)*uint64(e.cols) + uint64(c)
		var word uint32
		switch {
		case n.Op == def.OpElement:
			word = uint32(wide(0) + number)
		case n.Op == def.OpElementHigh:
			word = uint32((wide(0) + number) >> 32)
		case n.Op == def.OpRandomRow:
			word = num.Philox(wide(0), [4]uint32{uint32(c) / 4, args[2], args[3], args[4]})[c%4]
		case len(args) > 4:
			word = num.RandomWord(wide(0), args[2], args[3], wide(4)+number)
		default:
			word = num.RandomWord(wide(0), args[2], args[3], number)
		}
		out[j] = only(int32(word))
	}
}

// isLateSum reports whether n is a column or total sum.
func isLateSum(n *def.Node) bool { return n.Op == def.OpColSum || n.Op == def.OpTotalSum }

// addSums adds the terms of the current row to the sums over rows.
func (e *evaluator[T]) addSums() {
	for n, s := range e.sums {
		s.add(e.values[n.Args[0].ID].x)
	}
	for n, sums := range e.intSums {
		m := mask(sums)
		for j, s := range e.values[n.Args[0].ID].i {
			sums[j&m] = addSets(sums[j&m], s)
		}
	}
}

// combine returns what f gives for the values of two sets.
func combine(a, b set, f func(x, y int32) int32) set {
	switch {
	case a.isOne() && b.isOne():
		return only(f(a.one, b.one))
	case a.count()*b.count() > mostInts*mostInts/16: // as an any set has
		return anyInt
	}
	var all []int32
	for _, x := range a.values() {
		for _, y := range b.values() {
			all = append(all, f(x, y))
		}
	}
	slices.Sort(all)
	return setOf(slices.Compact(all))
}

func addSets(a, b set) set { return combine(a, b, func(x, y int32) int32 { return x + y }) }

// combineInts computes arithmetic of int32. A value combined with itself is one value.
func combineInts(out []set, n *def.Node, a, b []set) {
	f := intArithmetic(n.Op)
	if n.Args[0] != n.Args[1] {
		zip(out, a, b, func(x, y set) set { return combine(x, y, f) })
		return
	}
	apply(out, a, func(x set) set { return combine(x, only(0), func(v, _ int32) int32 { return f(v, v) }) })
}

func intArithmetic(op def.Op) func(x, y int32) int32 {
	switch op {
	case def.OpIAdd:
		return func(x, y int32) int32 { return x + y }
	case def.OpISub:
		return func(x, y int32) int32 { return x - y }
	case def.OpIMul:
		return func(x, y int32) int32 { return x * y }
	case def.OpUMulHigh:
		return func(x, y int32) int32 { return int32(uint32(uint64(uint32(x)) * uint64(uint32(y)) >> 32)) }
	case def.OpIAnd:
		return func(x, y int32) int32 { return x & y }
	case def.OpIOr:
		return func(x, y int32) int32 { return x | y }
	case def.OpIXor:
		return func(x, y int32) int32 { return x ^ y }
	case def.OpShl:
		return func(x, y int32) int32 { return x << (y & 31) }
	case def.OpShr:
		return func(x, y int32) int32 { return x >> (y & 31) }
	}
	return func(x, y int32) int32 { return int32(uint32(x) >> (y & 31)) } // OpShrU
}

// toFloats converts int32, which rounds if they have more than 24 bits.
func (e *evaluator[T]) toFloats(out []T, a []set) {
	for j := range out {
		lo, hi := at(a, j).bounds()
		out[j] = e.zero.FromFloat64(float64(lo))
		if lo != hi {
			out[j] = out[j].Hull(e.zero.FromFloat64(float64(hi)))
		}
		if !fitsBinary32(at(a, j)) {
			e.rounding.step(out[j:j+1], unit, 0)
		}
	}
}

// fitsBinary32 reports whether all values of a set are binary32 numbers.
func fitsBinary32(s set) bool {
	return !s.isAny && !slices.ContainsFunc(s.values(), func(v int32) bool { return float64(float32(v)) != float64(v) })
}

// element encloses a row's element at each index of a set, +0 outside.
func (e *evaluator[T]) element(x []T, index set) T {
	get := func(i int32) T {
		if i < 0 || int(i) >= e.cols {
			return e.zero
		}
		return x[i]
	}
	values := index.values()
	if index.isAny {
		values = []int32{-1}
		for i := range x {
			values = append(values, int32(i))
		}
	}
	v := get(values[0])
	for _, i := range values[1:] {
		v = v.Hull(get(i))
	}
	return v
}

// storeRandomly rounds to a storage format by random words; a value with several
// possible words may be rounded by any of them.
func (e *evaluator[T]) storeRandomly(xs []T, d num.DType, words []set) {
	unrounded := slices.Clone(xs)
	first := make([]int32, len(words))
	for j, s := range words {
		if first[j], _ = s.bounds(); s.isAny {
			first[j] = 0
		}
	}
	e.rounding.storeRandomly(xs, d, first)
	for j, x := range unrounded {
		s := at(words, j)
		if s.isOne() {
			continue
		}
		others := []int32{-1} // of all words, 0 rounds up and the largest down
		if !s.isAny {
			others = s.all[1:]
		}
		for _, word := range others {
			v := []T{x}
			e.rounding.storeRandomly(v, d, []int32{word})
			xs[j] = xs[j].Hull(v[0])
		}
	}
}

// best returns the columns in which the maximum (or minimum) of a row may be: all those
// whose enclosures overlap the best one's. A column is excluded if an earlier one
// certainly holds at least as much, or a later one more. An unknown value may be NaN, which
// counts as the best, unless it is certainly something else.
func (e *evaluator[T]) best(n *def.Node) set {
	x, sign := e.values[n.Args[0].ID].x, 1
	if n.Op == def.OpRowArgMin {
		sign = -1
		x = slices.Clone(x)
		apply(x, x, T.Neg)
	}
	var open, known []int32
	infinite := [2]int32{-1, -1} // the first column that certainly holds the lowest, and the highest
	c := certainty[T]{e: e, seen: map[certainKey]float64{}}
	for j := range x {
		v := 0.0
		if !x[j].Known() {
			v = c.of(n.Args[0], j)
		}
		switch side := sign; {
		case x[j].Known():
			known = append(known, int32(j))
		case v == 0:
			open = append(open, int32(j))
		case v != v: // the first NaN, unless one of those before it is one too
			return setOf(append(open, int32(j)))
		default:
			if v < 0 {
				side = -side
			}
			if k := (side + 1) / 2; infinite[k] < 0 {
				infinite[k] = int32(j)
			}
		}
	}
	switch {
	case infinite[1] >= 0:
		known = []int32{infinite[1]}
	case len(known) > 0:
		known = mayBeLargest(x, known)
	case infinite[0] >= 0:
		known = []int32{infinite[0]}
	}
	all := append(open, known...)
	slices.Sort(all)
	return setOf(all)
}

// mayBeLargest returns the columns, ascending, that may hold the first maximum.
func mayBeLargest[T ball.Number[T]](x []T, columns []int32) []int32 {
	last := len(columns) - 1
	later := make([]T, len(columns)) // the largest of those after each
	for k := last - 1; k >= 0; k-- {
		later[k] = x[columns[k+1]]
		if k+1 < last {
			later[k] = later[k].Max(later[k+1])
		}
	}
	var may []int32
	var earlier T
	for k, c := range columns {
		if !(k > 0 && x[c].LessEq(earlier) == ball.Yes || k < last && x[c].Less(later[k]) == ball.Yes) {
			may = append(may, c)
		}
		if k == 0 {
			earlier = x[c]
		} else {
			earlier = earlier.Max(x[c])
		}
	}
	return may
}

// certainty finds the values of a row that are certainly NaN or infinite, however execution
// rounds. Enclosures do not show this.
type certainty[T ball.Number[T]] struct {
	e    *evaluator[T]
	seen map[certainKey]float64
}

type certainKey struct{ node, column int }

// of returns NaN or an infinity if a value certainly is that, else 0.
func (c certainty[T]) of(n *def.Node, j int) float64 {
	if n.Extent&def.PerColumn == 0 {
		j = 0
	}
	if v := c.e.values[n.ID]; n.Type != def.Float || v.x[j].Known() {
		return 0
	}
	key := certainKey{n.ID, j}
	v, ok := c.seen[key]
	if !ok {
		if v = c.find(n, j); v-v == 0 {
			v = 0
		}
		c.seen[key] = v
	}
	return v
}

func (c certainty[T]) find(n *def.Node, j int) float64 {
	arg := func(k int) float64 { return c.of(n.Args[k], j) }
	switch n.Op {
	case def.OpInput, def.OpLookup:
		operand, row := c.e.place(n)
		if row < 0 {
			return 0
		}
		col := 0
		if n.Extent&def.PerColumn != 0 {
			col = c.e.columns[j]
		}
		return float64(c.e.operands[operand].At(row, col))
	case def.OpPartner:
		operand, row := c.e.place(n.Args[0])
		col := c.e.columns[j] ^ 1
		if row < 0 || col >= c.e.operands[operand].Cols {
			return 0
		}
		return float64(c.e.operands[operand].At(row, col))
	case def.OpConst:
		return float64(n.Real.F32())
	case def.OpParam:
		return c.e.Params[n.Param]
	case def.OpNeg:
		return -arg(0)
	case def.OpAbs:
		return math.Abs(arg(0))
	case def.OpRint, def.OpRound, def.OpSRound:
		return arg(0)
	case def.OpAdd, def.OpSub, def.OpMul, def.OpDiv, def.OpSqrt, def.OpFMA, def.OpMin, def.OpMax, def.OpScale:
		for k := range n.Args {
			if v := arg(k); v != v {
				return v
			}
		}
	case def.OpSelect:
		switch at(c.e.values[n.Args[0].ID].claim, j) {
		case ball.Yes:
			return arg(1)
		case ball.No:
			return arg(2)
		}
	case def.OpRowSum, def.OpRowMax, def.OpRowMin:
		for k := range c.e.values[n.Args[0].ID].x {
			if v := c.of(n.Args[0], k); v != v {
				return v
			}
		}
	}
	return 0
}
