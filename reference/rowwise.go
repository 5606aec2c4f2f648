package reference

import (
	"fmt"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/num"
)

// vector holds the values of a node: one per column, or a single one. Bools are 0 and 1
// in i.
type vector struct {
	f []float32
	i []int32

	// A single value that nodes with one value per column read is repeated here, once for
	// each column.
	repeatedF []float32
	repeatedI []int32
}

// interpreter holds the values of all nodes for the current row.
type interpreter struct {
	d        *def.Definition
	operands []num.Array
	params   []float64
	rounded  map[string]num.DType
	rows     int
	cols     int
	slots    int // K
	row      int
	values   []vector      // by Node.ID
	lanes    [][][]float32 // by Node.ID, of column sums: lanes of one value per column
	elements [][]float32   // by Node.ID, of total sums of floats: all elements so far
}

func runRowwise(d *def.Definition, f *def.Expression, operands []num.Array, o *Options) error {
	in := &interpreter{d: d, operands: operands, params: o.Params, rounded: o.Rounded}
	if err := in.size(); err != nil {
		return err
	}
	in.allocate()
	g := f.Exec
	perRow := func(n *def.Node) bool { return n.Extent&def.PerRow != 0 }
	for _, n := range g.Nodes {
		if !n.Late && !perRow(n) && !n.IsTable() {
			in.evaluate(n)
		}
	}
	for in.row = range in.rows {
		if err := o.err(); err != nil {
			return err
		}
		for _, n := range g.Nodes {
			switch {
			case lateSumOfInts(n):
				in.addInts(n)
			case n.Op == def.OpColSum:
				in.addToColumns(n)
			case n.Op == def.OpTotalSum:
				in.elements[n.ID] = append(in.elements[n.ID], in.values[n.Args[0].ID].f...)
			case !n.Late && perRow(n):
				in.evaluate(n)
			}
		}
		in.store(func(o def.Output) bool { return perRow(o.Value) }, in.row)
	}
	for _, n := range g.Nodes {
		switch {
		case lateSumOfInts(n):
			in.repeat(n)
		case n.Op == def.OpColSum:
			in.sumColumns(n)
		case n.Op == def.OpTotalSum:
			in.values[n.ID].f[0] = totalSum(in.elements[n.ID])
			in.repeat(n)
		case n.Late:
			in.evaluate(n)
		}
	}
	in.store(func(o def.Output) bool { return !perRow(o.Value) }, 0)
	return nil
}

// allocate makes room for the values of all nodes.
func (in *interpreter) allocate() {
	nodes := in.d.Exec().Nodes
	in.values, in.lanes, in.elements = make([]vector, len(nodes)), make([][][]float32, len(nodes)), make([][]float32, len(nodes))
	isRepeated := make([]bool, len(nodes))
	for _, n := range nodes {
		for _, a := range n.Args {
			if n.Extent&def.PerColumn != 0 && a.Extent&def.PerColumn == 0 && a.Extent != def.PerSlot {
				isRepeated[a.ID] = true
			}
		}
	}
	for _, n := range nodes {
		v, length, copies := &in.values[n.ID], 1, 0
		if n.Extent&def.PerColumn != 0 {
			length = in.cols
		}
		if n.Extent == def.PerSlot {
			length = in.slots
		}
		if isRepeated[n.ID] {
			copies = in.cols
		}
		if n.Type == def.Float {
			v.f, v.repeatedF = make([]float32, length), make([]float32, copies)
		} else {
			v.i, v.repeatedI = make([]int32, length), make([]int32, copies)
		}
	}
}

// repeat repeats the value of a node for those that read it once per column.
func (in *interpreter) repeat(n *def.Node) {
	v := &in.values[n.ID]
	for c := range v.repeatedF {
		v.repeatedF[c] = v.f[0]
	}
	for c := range v.repeatedI {
		v.repeatedI[c] = v.i[0]
	}
}

// floats returns the values of argument k of a node, as many as the node has itself.
func (in *interpreter) floats(n *def.Node, k int) []float32 {
	v := &in.values[n.Args[k].ID]
	if n.Extent&def.PerColumn != 0 && len(v.repeatedF) > 0 {
		return v.repeatedF
	}
	return v.f
}

// ints returns the values of argument k of a node, as many as the node has itself.
func (in *interpreter) ints(n *def.Node, k int) []int32 {
	v := &in.values[n.Args[k].ID]
	if n.Extent&def.PerColumn != 0 && len(v.repeatedI) > 0 {
		return v.repeatedI
	}
	return v.i
}

// size sets R and C, and returns an error if the operands disagree.
func (in *interpreter) size() error {
	for i, o := range in.d.Operands {
		if o.Extent == def.PerElement && in.rows == 0 {
			in.rows, in.cols = in.operands[i].Rows, in.operands[i].Cols
		}
	}
	for i, o := range in.d.Operands {
		rows, cols := 1, 1
		if o.Extent&def.PerRow != 0 {
			rows = in.rows
		}
		if o.Extent&def.PerColumn != 0 {
			cols = in.cols
		}
		switch {
		case o.IsTable():
			rows = in.operands[in.tableLike(i)].Rows
		case o.Extent == def.PerSlot:
			if in.slots == 0 {
				in.slots = in.operands[i].Cols
			}
			cols = in.slots
		}
		if a := in.operands[i]; a.Rows != rows || a.Cols != cols {
			return fmt.Errorf("%s: %s is %d×%d, want %d×%d", in.d.Name, o.Name, a.Rows, a.Cols, rows, cols)
		}
	}
	return nil
}

func (in *interpreter) store(which func(def.Output) bool, row int) {
	for _, o := range in.d.Exec().Outputs {
		if !which(o) {
			continue
		}
		v := &in.values[o.Value.ID]
		if v.f != nil {
			in.operands[o.Operand].SetFloats(row, v.f)
		}
		for c, i := range v.i {
			in.operands[o.Operand].SetBits(row, c, uint32(i))
		}
	}
}

// storage returns the format that a rounding node names.
func (in *interpreter) storage(s def.Storage) num.DType {
	if s.Of != "" {
		return in.operands[in.d.Operand(s.Of)].DType
	}
	return s.Fixed
}

// evaluate computes the node for the current row.
func (in *interpreter) evaluate(n *def.Node) {
	out := &in.values[n.ID]
	f := func(k int) []float32 { return in.floats(n, k) }
	i := func(k int) []int32 { return in.ints(n, k) }
	switch n.Op {
	case def.OpInput:
		in.read(n)
	case def.OpParam:
		if n.Type == def.Int {
			out.i[0] = int32(in.params[n.Param])
		} else {
			out.f[0] = float32(in.params[n.Param])
		}
	case def.OpConst:
		out.f[0] = n.Real.F32()
	case def.OpInt:
		out.i[0] = n.Int
	case def.OpColumns:
		out.f[0] = float32(in.cols)
	case def.OpRows:
		out.f[0] = float32(in.rows)
	case def.OpCol:
		for c := range out.i {
			out.i[c] = int32(c)
		}
	case def.OpColFloat:
		for c := range out.f {
			out.f[c] = float32(c)
		}
	case def.OpStored:
		for c := range out.i {
			out.i[c] = int32(in.operands[n.Operand].Bits(in.rowOf(n), c))
		}
	case def.OpRandom:
		seed, first := wide(i(0)[0], i(1)[0]), uint64(0)
		if len(n.Args) > 4 {
			first = wide(i(4)[0], i(5)[0])
		}
		for c := range out.i {
			out.i[c] = int32(num.RandomWord(seed, uint32(i(2)[0]), uint32(i(3)[0]), first+in.element(c)))
		}
	case def.OpRandomRow:
		seed := wide(i(0)[0], i(1)[0])
		for c := range out.i {
			counter := [4]uint32{uint32(c) / 4, uint32(i(2)[0]), uint32(i(3)[0]), uint32(i(4)[0])}
			out.i[c] = int32(num.Philox(seed, counter)[c%4])
		}
	case def.OpElement:
		for c := range out.i {
			out.i[c] = int32(uint32(wide(i(0)[0], i(1)[0]) + in.element(c)))
		}
	case def.OpElementHigh:
		for c := range out.i {
			out.i[c] = int32(uint32((wide(i(0)[0], i(1)[0]) + in.element(c)) >> 32))
		}

	case def.OpAdd:
		each2(out.f, f(0), f(1), func(x, y float32) float32 { return x + y })
	case def.OpSub:
		each2(out.f, f(0), f(1), func(x, y float32) float32 { return x - y })
	case def.OpMul:
		each2(out.f, f(0), f(1), func(x, y float32) float32 { return x * y })
	case def.OpDiv:
		each2(out.f, f(0), f(1), func(x, y float32) float32 { return x / y })
	case def.OpSqrt:
		each(out.f, f(0), num.Sqrt)
	case def.OpFMA:
		num.FMAs(out.f, f(0), f(1), f(2))
	case def.OpNeg:
		each(out.f, f(0), func(x float32) float32 { return -x })
	case def.OpAbs:
		each(out.f, f(0), func(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) })
	case def.OpMin:
		each2(out.f, f(0), f(1), num.Min)
	case def.OpMax:
		each2(out.f, f(0), f(1), num.Max)
	case def.OpRint:
		each(out.f, f(0), num.Rint)
	case def.OpScale:
		each2(out.f, f(0), f(1), num.Scale)
	case def.OpRound:
		d := in.storage(n.Storage)
		each(out.f, f(0), func(x float32) float32 { return num.Round(d, x) })
	case def.OpSRound:
		d := in.storage(n.Storage)
		each2(out.f, f(0), i(1), func(x float32, word int32) float32 { return num.StochasticRound(d, x, uint32(word)) })

	case def.OpLess, def.OpLessEqual, def.OpEqual, def.OpNotEqual:
		if n.Args[0].Type == def.Int {
			each2(out.i, i(0), i(1), func(x, y int32) int32 { return claim(compare(n.Op, x, y)) })
		} else {
			each2(out.i, f(0), f(1), func(x, y float32) int32 { return claim(compare(n.Op, x, y)) })
		}
	case def.OpInside:
		each(out.i, i(0), func(x int32) int32 { return claim(x >= 0 && int(x) < in.cols) })
	case def.OpSelect:
		if n.Type == def.Float {
			choose(out.f, i(0), f(1), f(2))
		} else {
			choose(out.i, i(0), i(1), i(2))
		}

	case def.OpBits:
		each(out.i, f(0), func(x float32) int32 { return int32(math.Float32bits(x)) })
	case def.OpFloat:
		each(out.f, i(0), func(x int32) float32 { return math.Float32frombits(uint32(x)) })
	case def.OpIToF:
		each(out.f, i(0), func(x int32) float32 { return float32(x) })
	case def.OpFToI:
		each(out.i, f(0), num.FToI)
	case def.OpIAdd:
		each2(out.i, i(0), i(1), func(x, y int32) int32 { return x + y })
	case def.OpISub:
		each2(out.i, i(0), i(1), func(x, y int32) int32 { return x - y })
	case def.OpIMul:
		each2(out.i, i(0), i(1), func(x, y int32) int32 { return x * y })
	case def.OpUMulHigh:
		each2(out.i, i(0), i(1), func(x, y int32) int32 { return int32(uint32(uint64(uint32(x)) * uint64(uint32(y)) >> 32)) })
	case def.OpIAnd:
		each2(out.i, i(0), i(1), func(x, y int32) int32 { return x & y })
	case def.OpIOr:
		each2(out.i, i(0), i(1), func(x, y int32) int32 { return x | y })
	case def.OpIXor:
		each2(out.i, i(0), i(1), func(x, y int32) int32 { return x ^ y })
	case def.OpShl:
		each2(out.i, i(0), i(1), func(x, y int32) int32 { return x << (uint32(y) & 31) })
	case def.OpShr:
		each2(out.i, i(0), i(1), func(x, y int32) int32 { return x >> (uint32(y) & 31) })
	case def.OpShrU:
		each2(out.i, i(0), i(1), func(x, y int32) int32 { return int32(uint32(x) >> (uint32(y) & 31)) })

	case def.OpRowSum:
		if n.Type == def.Int {
			out.i[0] = 0
			for _, x := range i(0) {
				out.i[0] += x
			}
		} else {
			out.f[0] = num.LaneSum(f(0), num.RowLanes(in.cols))
		}
	case def.OpRowMax:
		out.f[0] = fold(f(0), num.Max)
	case def.OpRowMin:
		out.f[0] = fold(f(0), num.Min)
	case def.OpRowArgMax:
		out.i[0] = firstColumn(f(0), func(a, b float32) bool { return a > b })
	case def.OpRowArgMin:
		out.i[0] = firstColumn(f(0), func(a, b float32) bool { return a < b })
	case def.OpRank:
		for rank, c := range ordered(f(0)) {
			out.i[c] = int32(rank)
		}
	case def.OpRowKth:
		out.i[0] = int32(ordered(f(0))[clamp(int(i(1)[0]), in.cols)])
	case def.OpRowNucleus:
		out.i[0] = lastOfNucleus(f(0), f(1), f(2)[0])
	case def.OpPacked:
		if n.Type == def.Float {
			packed(out.f, i(0), f(1), 0)
		} else {
			packed(out.i, i(0), i(1), -1)
		}
	case def.OpUnpacked:
		if slots := &in.values[n.Args[1].ID]; n.Type == def.Float {
			unpacked(out.f, i(0), slots.f)
		} else {
			unpacked(out.i, i(0), slots.i)
		}
	case def.OpAt:
		out.f[0] = 0
		if c := int(i(1)[0]); c >= 0 && c < in.cols {
			out.f[0] = at(f(0), c)
		}
	case def.OpLookup:
		in.lookup(n)
	case def.OpPartner:
		if n.Type == def.Float {
			partner(out.f, f(0))
		} else {
			partner(out.i, i(0))
		}
	default:
		panic("reference: no meaning for node " + n.Op.String())
	}
	if len(in.rounded) > 0 {
		in.round(n)
	}
	in.repeat(n)
}

// round rounds the values of a node that is rounded besides.
func (in *interpreter) round(n *def.Node) {
	if d, ok := in.rounded[n.Name]; ok && len(n.Args) > 0 {
		out := in.values[n.ID].f
		each(out, out, func(x float32) float32 { return num.Round(d, x) })
	}
}

// read reads the current row of an input, or the only one.
func (in *interpreter) read(n *def.Node) {
	a, row, out := &in.operands[n.Operand], in.rowOf(n), &in.values[n.ID]
	if n.Type == def.Float {
		a.Floats(row, out.f)
	}
	for c := range out.i {
		out.i[c] = a.Int(row, c)
	}
}

// rowOf returns the row of a leaf's operand that is current, or the only one.
func (in *interpreter) rowOf(n *def.Node) int {
	if n.Extent&def.PerRow == 0 {
		return 0
	}
	return in.row
}

// element returns the number of the current row's element in column c.
func (in *interpreter) element(c int) uint64 { return uint64(in.row)*uint64(in.cols) + uint64(c) }

// wide returns the 64-bit number of a low and a high word.
func wide(low, high int32) uint64 { return uint64(uint32(low)) | uint64(uint32(high))<<32 }

// lookup reads the row of a table that the current row's index names, or +0 if there is none.
func (in *interpreter) lookup(n *def.Node) {
	a, out := &in.operands[n.Args[0].Operand], in.values[n.ID].f
	if row := int(in.values[n.Args[1].ID].i[0]); row >= 0 && row < a.Rows {
		a.Floats(row, out)
	} else {
		clear(out)
	}
}

// tableLike returns the position of the first table with the rows of operand i.
func (in *interpreter) tableLike(i int) int {
	return slices.IndexFunc(in.d.Operands, func(o def.Operand) bool { return o.IsTable() && o.Dims[0] == in.d.Operands[i].Dims[0] })
}

// each applies a function to every value.
func each[Y, X any](out []Y, x []X, value func(X) Y) {
	x = x[:len(out)]
	for c := range out {
		out[c] = value(x[c])
	}
}

// each2 applies a function to every pair of values.
func each2[Z, X, Y any](out []Z, x []X, y []Y, value func(X, Y) Z) {
	x, y = x[:len(out)], y[:len(out)]
	for c := range out {
		out[c] = value(x[c], y[c])
	}
}

// choose takes every value from x if the claim holds, else from y.
func choose[T any](out []T, claims []int32, x, y []T) {
	for c := range out {
		if claims[c] != 0 {
			out[c] = x[c]
		} else {
			out[c] = y[c]
		}
	}
}

// partner takes the other value of every pair, or zero if there is none.
func partner[T float32 | int32](out, x []T) {
	for c := range out {
		if out[c] = 0; c^1 < len(x) {
			out[c] = x[c^1]
		}
	}
}

// claim returns a bool as nodes hold it.
func claim(holds bool) int32 {
	if holds {
		return 1
	}
	return 0
}

// at returns the value for column c, of a vector or of a single value.
func at[T any](v []T, c int) T {
	if len(v) == 1 {
		return v[0]
	}
	return v[c]
}

func compare[T int32 | float32](op def.Op, x, y T) bool {
	switch op {
	case def.OpLess:
		return x < y
	case def.OpLessEqual:
		return x <= y
	case def.OpEqual:
		return x == y
	}
	return x != y
}

func fold(x []float32, op func(a, b float32) float32) float32 {
	m := x[0]
	for _, v := range x[1:] {
		m = op(m, v)
	}
	return m
}

// firstColumn returns the column of the first NaN, or else the first column whose value
// no other beats.
func firstColumn(x []float32, beats func(a, b float32) bool) int32 {
	best := 0
	for c, v := range x {
		if v != v {
			return int32(c)
		}
		if beats(v, x[best]) {
			best = c
		}
	}
	return int32(best)
}

// lateSumOfInts reports whether n is a column or total sum of int32.
func lateSumOfInts(n *def.Node) bool {
	return n.Type == def.Int && (n.Op == def.OpColSum || n.Op == def.OpTotalSum)
}

// addInts adds the current row to a column or total sum of int32. Values are zero before the
// first row.
func (in *interpreter) addInts(n *def.Node) {
	sums := in.values[n.ID].i
	for c, x := range in.values[n.Args[0].ID].i {
		if n.Op == def.OpColSum {
			sums[c] += x
		} else {
			sums[0] += x
		}
	}
}

// addToColumns adds the current row to its lane: row r is in lane r mod P.
func (in *interpreter) addToColumns(n *def.Node) {
	lanes := in.lanes[n.ID]
	if lanes == nil {
		lanes = make([][]float32, num.ColLanes(in.cols))
		in.lanes[n.ID] = lanes
	}
	k := in.row % len(lanes)
	if lanes[k] == nil {
		lanes[k] = make([]float32, in.cols) // every lane starts at +0
	}
	for c, v := range in.values[n.Args[0].ID].f {
		lanes[k][c] += v
	}
}

// sumColumns adds the lanes of every column as neighbours in a binary tree.
func (in *interpreter) sumColumns(n *def.Node) {
	lanes := slices.DeleteFunc(in.lanes[n.ID], func(lane []float32) bool { return lane == nil })
	if len(lanes) == 0 { // no row was added
		clear(in.values[n.ID].f)
		return
	}
	num.TreeRows(lanes)
	copy(in.values[n.ID].f, lanes[0])
}

// totalSum returns the sum of all elements: a row sum of row sums, see num.FlatRow.
func totalSum(x []float32) float32 {
	if len(x) == 0 {
		return 0
	}
	for {
		var sums []float32
		for len(x) > 0 {
			row := x[:min(len(x), num.FlatRow)]
			sums = append(sums, num.LaneSum(row, num.RowLanes(len(row))))
			x = x[len(row):]
		}
		if len(sums) == 1 {
			return sums[0]
		}
		x = sums
	}
}
