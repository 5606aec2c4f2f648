package truth

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// vector holds the values of a node: one per evaluated column, or a single one.
type vector[T any] struct {
	x     []T          // floats
	i     []set        // int32
	claim []ball.Truth // bools
}

// evaluator holds the values of all nodes for the current row.
type evaluator[T ball.Number[T]] struct {
	*call
	zero       T // carries the precision
	rounding   rounding[T]
	rows, cols int
	slots      int     // K
	slack      float64 // relative error of a value that is ordered, besides those that its enclosure has
	row        int
	columns    []int  // those evaluated, ascending
	isNeeded   []bool // by Node.ID
	values     []vector[T]
	sums       map[*def.Node]adder[T] // column and total sums of floats
	intSums    map[*def.Node][]set    // of int32, so far
	perRow     []*def.Node            // the needed nodes of a row
	late       []*def.Node            // the needed nodes after the last row
	floats     []float32              // a row of an operand
	instead    func(*def.Node)        // evaluates a node, in the place of evaluate; may be nil
	isComputed func(*def.Node) bool   // whether an input is none that is stored; may be nil
	room       func(n int) []T        // allocates, in the place of make; may be nil
	err        error
}

// places lists elements of one output, as columns by row. Nil means all elements of all
// outputs.
type places struct {
	operand int
	columns map[int][]int
}

// sweep evaluates a rowwise definition row by row and calls yield or yieldInt for each
// wanted element. zero determines the kind of number.
func sweep[T ball.Number[T]](k *call, zero T, at *places, yield func(operand, row, col int, v T), yieldInt func(operand, row, col int, v set)) error {
	return sweepInstead(k, zero, at, 0, nil, yield, yieldInt)
}

// sweepInstead is sweep with another way to evaluate nodes, unless that is nil, among them inputs of the first
// operands, as many as are computed.
func sweepInstead[T ball.Number[T]](k *call, zero T, at *places, computed int, instead func(e *evaluator[T], n *def.Node), yield func(operand, row, col int, v T), yieldInt func(operand, row, col int, v set)) error {
	e := &evaluator[T]{call: k, zero: zero, rounding: roundingOf(k.Options, zero)}
	if instead != nil {
		e.instead = func(n *def.Node) { instead(e, n) }
		e.isComputed = func(n *def.Node) bool { return n.Op == def.OpInput && n.Operand < computed }
	}
	if err := e.size(); err != nil {
		return err
	}
	outputs := k.d.Math().Outputs
	if at != nil {
		outputs = slices.DeleteFunc(slices.Clone(outputs), func(o def.Output) bool { return o.Operand != at.operand })
	}
	e.mark(outputs)
	emit := func(o def.Output, row int) {
		col := func(j int) int {
			switch {
			case o.Value.Extent == def.PerSlot:
				return j
			case o.Value.Extent&def.PerColumn == 0:
				return 0
			}
			return e.columns[j]
		}
		for j, v := range e.values[o.Value.ID].x {
			yield(o.Operand, row, col(j), v)
		}
		for j, v := range e.values[o.Value.ID].i {
			yieldInt(o.Operand, row, col(j), v)
		}
	}

	rows := e.rowsFor(outputs, at)
	e.begin(e.columnsFor(outputs, at, 0))
	for _, e.row = range rows {
		if err := k.ended(); err != nil {
			return err
		}
		if at != nil && isPerRow(outputs[0].Value) {
			e.begin(e.columnsFor(outputs, at, e.row))
		}
		e.each(e.perRow)
		e.addSums()
		for _, o := range outputs {
			if isPerRow(o.Value) {
				emit(o, e.row)
			}
		}
	}
	e.each(e.late)
	for _, o := range outputs {
		if !isPerRow(o.Value) {
			emit(o, 0)
		}
	}
	return e.err
}

func isPerRow(n *def.Node) bool { return n.Extent&def.PerRow != 0 }

// size sets R and C, and returns an error if the operands disagree.
func (e *evaluator[T]) size() error {
	for i, o := range e.d.Operands {
		if o.Extent == def.PerElement {
			e.rows, e.cols = e.operands[i].Rows, e.operands[i].Cols
			break
		}
	}
	for i, o := range e.d.Operands {
		rows, cols := 1, 1
		if o.Extent&def.PerRow != 0 {
			rows = e.rows
		}
		if o.Extent == def.PerSlot {
			if e.slots == 0 {
				e.slots = e.operands[i].Cols
			}
			cols = e.slots
		}
		if o.Extent&def.PerColumn != 0 {
			cols = e.cols
		}
		if o.IsTable() {
			rows = e.operands[slices.IndexFunc(e.d.Operands, func(t def.Operand) bool { return t.IsTable() && t.Dims[0] == o.Dims[0] })].Rows
		}
		if a := e.operands[i]; a.Rows != rows || a.Cols != cols {
			return fmt.Errorf("%s: %s is %d×%d, want %d×%d", e.d.Name, o.Name, a.Rows, a.Cols, rows, cols)
		}
	}
	return nil
}

// mark marks the nodes that the outputs need.
func (e *evaluator[T]) mark(outputs []def.Output) {
	nodes := e.d.Math().Nodes
	e.isNeeded = make([]bool, len(nodes))
	for _, o := range outputs {
		e.isNeeded[o.Value.ID] = true
	}
	for _, n := range slices.Backward(nodes) {
		for _, a := range n.Args {
			e.isNeeded[a.ID] = e.isNeeded[a.ID] || e.isNeeded[n.ID]
		}
	}
}

// needsRows reports whether a needed node depends on whole rows.
func (e *evaluator[T]) needsRows() bool {
	return slices.ContainsFunc(e.d.Math().Nodes, func(n *def.Node) bool {
		return e.isNeeded[n.ID] && (n.Op.ReadsRow() || n.Op == def.OpTotalSum)
	})
}

func (e *evaluator[T]) rowsFor(outputs []def.Output, at *places) []int {
	if at != nil && isPerRow(outputs[0].Value) {
		return slices.Sorted(maps.Keys(at.columns))
	}
	return upTo(e.rows)
}

// columnsFor returns the columns that the places in a row need: all of them if there is a
// row reduction.
func (e *evaluator[T]) columnsFor(outputs []def.Output, at *places, row int) []int {
	isWhole := at == nil || outputs[0].Value.Extent&def.PerColumn == 0
	if isWhole || e.needsRows() {
		return upTo(e.cols)
	}
	return at.columns[row]
}

func upTo(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// begin allocates values for the columns and evaluates the nodes that are the same in all
// rows.
func (e *evaluator[T]) begin(columns []int) {
	e.columns = columns
	e.values = make([]vector[T], len(e.d.Math().Nodes))
	e.sums, e.intSums = map[*def.Node]adder[T]{}, map[*def.Node][]set{}
	e.perRow, e.late = e.perRow[:0], e.late[:0]
	var once []*def.Node
	for _, n := range e.d.Math().Nodes {
		if !e.isNeeded[n.ID] || n.IsTable() {
			continue
		}
		length := 1
		if n.Extent&def.PerColumn != 0 {
			length = len(columns)
		}
		if n.Extent == def.PerSlot {
			length = e.slots
		}
		switch {
		case n.Late:
			e.late = append(e.late, n)
		case isPerRow(n):
			e.perRow = append(e.perRow, n)
		default:
			once = append(once, n)
		}
		v := &e.values[n.ID]
		switch n.Type {
		case def.Float:
			if e.room != nil {
				v.x = e.room(length)
			} else {
				v.x = make([]T, length)
			}
		case def.Int:
			v.i = make([]set, length)
		case def.Bool:
			v.claim = make([]ball.Truth, length)
		}
		switch {
		case n.Type == def.Int && isLateSum(n):
			e.intSums[n] = make([]set, length)
		case n.Op == def.OpColSum:
			e.sums[n] = e.rounding.adder(len(columns), 1, e.shape(e.rows, num.ColLanes(e.cols)))
		case n.Op == def.OpTotalSum:
			e.sums[n] = e.rounding.adder(1, len(columns), e.shape(e.rows*e.cols, flat))
		}
	}
	e.each(once)
}

func (e *evaluator[T]) each(nodes []*def.Node) {
	for _, n := range nodes {
		if e.instead != nil {
			e.instead(n)
		} else {
			e.evaluate(n)
		}
	}
}

// evaluate computes a node for the current row: the real operation and, in mode Rounded,
// the error of its rounding.
func (e *evaluator[T]) evaluate(n *def.Node) {
	out := e.values[n.ID]
	x := func(k int) []T { return e.values[n.Args[k].ID].x }
	i := func(k int) []set { return e.values[n.Args[k].ID].i }
	switch n.Op {
	case def.OpInput, def.OpLookup:
		e.read(n, out)
	case def.OpPartner:
		e.readPartner(n, out)
	case def.OpParam:
		if n.Type == def.Int {
			out.i[0] = only(int32(e.Params[n.Param]))
		} else {
			out.x[0] = e.zero.FromFloat64(float64(float32(e.Params[n.Param])))
		}
	case def.OpConst:
		out.x[0] = e.constant(n.Real)
	case def.OpInt:
		out.i[0] = only(n.Int)
	case def.OpColumns:
		out.x[0] = e.size32(e.cols)
	case def.OpRows:
		out.x[0] = e.size32(e.rows)
	case def.OpCol:
		for j, c := range e.columns {
			out.i[j] = only(int32(c))
		}
	case def.OpColFloat:
		for j, c := range e.columns {
			out.x[j] = e.zero.FromFloat64(float64(float32(c)))
		}
	case def.OpStored:
		for j, c := range e.columnsOf(n) {
			out.i[j] = only(int32(e.operands[n.Operand].Bits(e.rowOf(n), c)))
		}
	case def.OpRandom, def.OpRandomRow, def.OpElement, def.OpElementHigh:
		e.words(n, out.i)

	case def.OpIToF:
		e.toFloats(out.x, i(0))
	case def.OpIAdd, def.OpISub, def.OpIMul, def.OpUMulHigh, def.OpIAnd, def.OpIOr, def.OpIXor, def.OpShl, def.OpShr, def.OpShrU:
		combineInts(out.i, n, i(0), i(1))

	case def.OpAdd:
		add(out.x, x(0), x(1))
		e.rounding.step(out.x, unit, 0)
	case def.OpSub:
		sub(out.x, x(0), x(1))
		e.rounding.step(out.x, unit, 0)
	case def.OpMul:
		e.multiply(out.x, n)
		e.rounding.step(out.x, unit, tiny)
	case def.OpFMA:
		e.multiply(out.x, n)
		add(out.x, out.x, x(2))
		e.rounding.step(out.x, unit, tiny)
	case def.OpDiv:
		zip(out.x, x(0), x(1), T.Div)
		e.rounding.step(out.x, unit, tiny)
	case def.OpSqrt:
		apply(out.x, x(0), T.Sqrt)
		e.rounding.step(out.x, unit, 0)
		e.restrict(out.x, x(0), def.Domain{Low: 0, High: math.Inf(1)})
	case def.OpNeg:
		apply(out.x, x(0), T.Neg)
	case def.OpAbs:
		apply(out.x, x(0), T.Abs)
	case def.OpMin:
		zip(out.x, x(0), x(1), T.Min)
	case def.OpMax:
		zip(out.x, x(0), x(1), T.Max)
	case def.OpRint:
		apply(out.x, x(0), rint)
	case def.OpScale:
		zip(out.x, x(0), x(1), scale)
		e.rounding.scale(out.x)
	case def.OpRound:
		if e.isStored(n) {
			e.keep(out.x, n)
			break
		}
		copy(out.x, x(0))
		e.rounding.store(out.x, e.storage(n.Storage))
	case def.OpSRound:
		zip(out.x, x(0), i(1), func(v T, _ set) T { return v })
		e.storeRandomly(out.x, e.storage(n.Storage), i(1))
	case def.OpCall:
		e.call1(out.x, x(0), n.Func)

	case def.OpLess, def.OpLessEqual, def.OpEqual, def.OpNotEqual:
		if n.Args[0].Type == def.Int {
			zip(out.claim, i(0), i(1), func(a, b set) ball.Truth { return compareInt(n.Op, a, b) })
		} else {
			zip(out.claim, x(0), x(1), comparison[T](n.Op))
		}
		switch {
		case n.Args[0] != n.Args[1]:
		case n.Args[0].Type == def.Int:
			apply(out.claim, i(0), func(set) ball.Truth { return compareSelf(n.Op, true) })
		default:
			apply(out.claim, x(0), func(a T) ball.Truth { return compareSelf(n.Op, a.Known()) })
		}
	case def.OpInside:
		apply(out.claim, i(0), func(a set) ball.Truth { return isInside(a, e.cols) })
	case def.OpSelect:
		e.choose(out, e.values[n.Args[0].ID].claim, e.values[n.Args[1].ID], e.values[n.Args[2].ID], n)

	case def.OpRowSum:
		if n.Type == def.Int {
			out.i[0] = reduce(i(0), addSets)
			break
		}
		out.x[0] = e.rounding.sum(x(0), e.shape(e.cols, num.RowLanes(e.cols)))
	case def.OpColSum, def.OpTotalSum:
		if n.Type == def.Int {
			copy(out.i, e.intSums[n])
			break
		}
		e.sums[n].total(out.x)
	case def.OpRowMax:
		out.x[0] = reduce(x(0), T.Max)
	case def.OpRowMin:
		out.x[0] = reduce(x(0), T.Min)
	case def.OpRowArgMax, def.OpRowArgMin:
		out.i[0] = e.best(n)
	case def.OpRank:
		copy(out.i, e.ranks(n))
	case def.OpPacked:
		e.pack(n)
	case def.OpUnpacked:
		e.unpack(n)
	case def.OpRowKth:
		out.i[0] = e.kth(n)
	case def.OpRowNucleus:
		out.i[0] = e.nucleus(n)
	case def.OpAt:
		out.x[0] = e.element(x(0), i(1)[0])
	default:
		e.fail("no mathematics for node %s", n.Op)
	}
}

func (e *evaluator[T]) fail(format string, args ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(e.d.Name+": "+format, args...)
	}
}

// place returns the operand and the row that an input or a lookup reads, or a row below 0
// where an index names none: then it is +0.
func (e *evaluator[T]) place(n *def.Node) (operand, row int) {
	if n.Op != def.OpLookup {
		return n.Operand, e.rowOf(n)
	}
	operand, row = n.Args[0].Operand, int(e.operands[n.Args[1].Operand].Int(e.row, 0))
	if row >= e.operands[operand].Rows {
		row = -1
	}
	return operand, row
}

func (e *evaluator[T]) read(n *def.Node, out vector[T]) {
	operand, row := e.place(n)
	a, columns := e.operands[operand], e.columnsOf(n)
	if row < 0 {
		for j := range out.x {
			out.x[j] = e.zero.FromFloat64(0)
		}
		return
	}
	if n.Type == def.Int {
		for j, c := range columns {
			out.i[j] = only(a.Int(row, c))
		}
		return
	}
	if len(columns) < a.Cols {
		for j, c := range columns {
			out.x[j] = e.zero.FromFloat64(float64(a.At(row, c)))
		}
		return
	}
	if cap(e.floats) < a.Cols {
		e.floats = make([]float32, a.Cols)
	}
	floats := e.floats[:a.Cols]
	a.Floats(row, floats)
	for j, v := range floats {
		out.x[j] = e.zero.FromFloat64(float64(v))
	}
}

// readPartner reads what n's argument reads, each in the other column of the pair.
func (e *evaluator[T]) readPartner(n *def.Node, out vector[T]) {
	from := n.Args[0]
	operand, row := e.place(from)
	a := e.operands[operand]
	for j, c := range e.columnsOf(n) {
		c ^= 1
		hasPartner := row >= 0 && c < a.Cols
		switch {
		case n.Type == def.Float && hasPartner:
			out.x[j] = e.zero.FromFloat64(float64(a.At(row, c)))
		case n.Type == def.Float:
			out.x[j] = e.zero.FromFloat64(0)
		case !hasPartner:
			out.i[j] = only(0)
		case from.Op == def.OpStored:
			out.i[j] = only(int32(a.Bits(row, c)))
		default:
			out.i[j] = only(a.Int(row, c))
		}
	}
}

// rowOf returns the row of a leaf's operand that is current, or the only one.
func (e *evaluator[T]) rowOf(n *def.Node) int {
	if isPerRow(n) {
		return e.row
	}
	return 0
}

// columnsOf returns the columns of a leaf's operand that are evaluated, or the only one.
func (e *evaluator[T]) columnsOf(n *def.Node) []int {
	switch {
	case n.Extent == def.PerSlot:
		return upTo(e.slots)
	case n.Extent&def.PerColumn == 0:
		return []int{0}
	}
	return e.columns
}

// constant returns the real number, or in mode Rounded the binary32 that is executed.
// def.Real.Big is off by at most one unit in the last of its bits.
func (e *evaluator[T]) constant(r *def.Real) T {
	const prec = 800
	if e.Mode == Rounded || r.IsExact() {
		return e.zero.FromFloat64(float64(r.F32()))
	}
	rat, _ := r.Big(prec).Rat(nil)
	return e.zero.FromRat(rat).Widen(math.Ldexp(1, 1-prec), 0)
}

// size32 returns a number of rows or columns, rounded to binary32 in mode Rounded.
func (e *evaluator[T]) size32(n int) T {
	if e.Mode == Rounded {
		return e.zero.FromFloat64(float64(float32(n)))
	}
	return e.zero.FromFloat64(float64(n))
}

// restrict makes results unknown in mode Rounded if their arguments may be outside the
// domain.
func (e *evaluator[T]) restrict(out, x []T, d def.Domain) {
	if e.Mode == Exact {
		return
	}
	for j := range out {
		if !d.Contains(at(x, j).Bounds()) {
			out[j] = e.unknown()
		}
	}
}

func (e *evaluator[T]) unknown() T { return e.zero.FromFloat64(math.NaN()) }

// multiply computes products; a value times itself is a square, which is at least zero.
func (e *evaluator[T]) multiply(out []T, n *def.Node) {
	a, b := e.values[n.Args[0].ID].x, e.values[n.Args[1].ID].x
	switch {
	case n.Args[0] != n.Args[1]:
		mul(out, a, b)
	case e.Mode == Exact:
		sqr(out, a)
	default:
		apply(out, a, func(x T) T { return x.Sqr().Max(e.zero) })
	}
}

// call1 evaluates a function by its mathematics. Its error, that of the definition or
// Options.FunctionULP if larger, is in units in the last place of the true value: at most
// 2·unit of it, or 2^-149 for subnormals, and the definition's absolute error. It holds for arguments in the domain. The result
// may cross zero.
func (e *evaluator[T]) call1(out, x []T, f *def.Function) {
	mathematics := functionOf[T](f.Math)
	if mathematics == nil {
		e.fail("no mathematics for function %s", f.Name)
		return
	}
	apply(out, x, mathematics)
	if e.Mode == Exact {
		return
	}
	ulps := max(f.ULPs, e.FunctionULP)
	e.rounding.function(out, 2*ulps*unit, 2*ulps*tiny+f.Absolute)
	e.restrict(out, out, def.Domain{Low: -math.MaxFloat32, High: math.MaxFloat32})
	e.restrict(out, x, f.Domain)
}

func functionOf[T ball.Number[T]](m def.Math) func(T) T {
	switch m {
	case def.MathExp:
		return T.Exp
	case def.MathExpm1:
		return T.Expm1
	case def.MathLog:
		return T.Log
	case def.MathTanh:
		return T.Tanh
	case def.MathRecip:
		return T.Recip
	case def.MathSqrt:
		return T.Sqrt
	case def.MathRsqrt:
		return T.Rsqrt
	case def.MathSigmoid:
		return T.Sigmoid
	case def.MathExp2:
		return T.Exp2
	case def.MathLog2:
		return T.Log2
	case def.MathLog1p:
		return T.Log1p
	case def.MathSin:
		return T.Sin
	case def.MathCos:
		return T.Cos
	case def.MathErf:
		return T.Erf
	case def.MathErfcx:
		return T.Erfcx
	}
	return nil
}

// choose selects a branch, or the hull of both if the comparison is undecided.
func (e *evaluator[T]) choose(out vector[T], cond []ball.Truth, a, b vector[T], n *def.Node) {
	for j := range max(len(out.x), len(out.i)) {
		c := at(cond, j)
		switch {
		case n.Type == def.Float && c == ball.Maybe:
			out.x[j] = at(a.x, j).Hull(at(b.x, j))
		case n.Type == def.Float && c == ball.Yes:
			out.x[j] = at(a.x, j)
		case n.Type == def.Float:
			out.x[j] = at(b.x, j)
		case c == ball.Maybe:
			out.i[j] = at(a.i, j).union(at(b.i, j))
		case c == ball.Yes:
			out.i[j] = at(a.i, j)
		default:
			out.i[j] = at(b.i, j)
		}
	}
	for j := range out.claim {
		switch yes, no := at(a.claim, j), at(b.claim, j); {
		case at(cond, j) == ball.Yes || yes == no:
			out.claim[j] = yes
		case at(cond, j) == ball.No:
			out.claim[j] = no
		default:
			out.claim[j] = ball.Maybe
		}
	}
}

func comparison[T ball.Number[T]](op def.Op) func(a, b T) ball.Truth {
	switch op {
	case def.OpLess:
		return T.Less
	case def.OpLessEqual:
		return T.LessEq
	case def.OpEqual:
		return T.Equal
	}
	return func(a, b T) ball.Truth {
		return [...]ball.Truth{ball.Maybe: ball.Maybe, ball.Yes: ball.No, ball.No: ball.Yes}[a.Equal(b)]
	}
}

// compareSelf compares a value with itself, which distinguishes numbers from NaN.
func compareSelf(op def.Op, isNumber bool) ball.Truth {
	if !isNumber {
		return ball.Maybe
	}
	return truth(op == def.OpLessEqual || op == def.OpEqual)
}

func truth(claim bool) ball.Truth {
	if claim {
		return ball.Yes
	}
	return ball.No
}

// rint rounds to integers; it is monotonic, so the ends of the ball suffice.
func rint[T ball.Number[T]](x T) T {
	lo, hi := x.Bounds()
	return x.FromFloat64(math.RoundToEven(lo)).Hull(x.FromFloat64(math.RoundToEven(hi)))
}

// scale returns x·2^n for n rounded and clamped as the node says; for fixed x it is
// monotonic in n.
func scale[T ball.Number[T]](x, n T) T {
	if !n.Known() {
		return n
	}
	clamp := func(v float64) int { return int(max(-252, min(math.RoundToEven(v), 254))) }
	lo, hi := n.Bounds()
	a, b := clamp(lo), clamp(hi)
	if a == b {
		return x.Scale2(a)
	}
	return x.Scale2(a).Hull(x.Scale2(b))
}

// at returns the value for place j, of a vector or of a single value.
func at[T any](v []T, j int) T { return v[j&mask(v)] }

func mask[T any](v []T) int {
	if len(v) == 1 {
		return 0
	}
	return -1
}

// add, sub, mul and sqr compute vectors of balls in loops without calls.

func add[T ball.Number[T]](out, a, b []T) {
	if z, ok := any(out).([]ball.Ball); ok {
		ball.AddAll(z, any(a).([]ball.Ball), any(b).([]ball.Ball))
		return
	}
	zip(out, a, b, T.Add)
}

func sub[T ball.Number[T]](out, a, b []T) {
	if z, ok := any(out).([]ball.Ball); ok {
		ball.SubAll(z, any(a).([]ball.Ball), any(b).([]ball.Ball))
		return
	}
	zip(out, a, b, T.Sub)
}

func mul[T ball.Number[T]](out, a, b []T) {
	if z, ok := any(out).([]ball.Ball); ok {
		ball.MulAll(z, any(a).([]ball.Ball), any(b).([]ball.Ball))
		return
	}
	zip(out, a, b, T.Mul)
}

func sqr[T ball.Number[T]](out, a []T) {
	if z, ok := any(out).([]ball.Ball); ok {
		ball.SqrAll(z, any(a).([]ball.Ball))
		return
	}
	apply(out, a, T.Sqr)
}

func apply[A, B any](out []B, a []A, f func(A) B) {
	m := mask(a)
	for j := range out {
		out[j] = f(a[j&m])
	}
}

func zip[A, B, C any](out []C, a []A, b []B, f func(A, B) C) {
	ma, mb := mask(a), mask(b)
	for j := range out {
		out[j] = f(a[j&ma], b[j&mb])
	}
}

func reduce[T any](xs []T, f func(a, b T) T) T {
	m := xs[0]
	for _, x := range xs[1:] {
		m = f(m, x)
	}
	return m
}
