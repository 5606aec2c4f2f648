package reference

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/num"
)

// vector holds the values of a node: one per column, or a single one. Bools are 0 and 1
// in i.
type vector struct {
	f []float32
	i []int32
}

// interpreter holds the values of all nodes for the current row.
type interpreter struct {
	d        *def.Definition
	operands []num.Array
	params   []float64
	rows     int
	cols     int
	row      int
	values   []vector            // by Node.ID
	lanes    map[int][][]float32 // column sums: lanes of one value per column
	elements map[int][]float32   // total sums: all elements so far
}

func runRowwise(d *def.Definition, operands []num.Array, o *Options) error {
	in := &interpreter{d: d, operands: operands, params: o.Params, lanes: map[int][][]float32{}, elements: map[int][]float32{}}
	if err := in.size(); err != nil {
		return err
	}
	g := d.Exec
	in.values = make([]vector, len(g.Nodes))
	for _, n := range g.Nodes {
		length := 1
		if n.Extent&def.PerColumn != 0 {
			length = in.cols
		}
		if n.Type == def.Float {
			in.values[n.ID].f = make([]float32, length)
		} else {
			in.values[n.ID].i = make([]int32, length)
		}
	}

	perRow := func(n *def.Node) bool { return n.Extent&def.PerRow != 0 }
	for _, n := range g.Nodes {
		if !n.Late && !perRow(n) {
			in.evaluate(n)
		}
	}
	for in.row = range in.rows {
		if err := o.err(); err != nil {
			return err
		}
		for _, n := range g.Nodes {
			switch {
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
		case n.Op == def.OpColSum:
			in.sumColumns(n)
		case n.Op == def.OpTotalSum:
			in.values[n.ID].f[0] = totalSum(in.elements[n.ID])
		case n.Late:
			in.evaluate(n)
		}
	}
	in.store(func(o def.Output) bool { return !perRow(o.Value) }, 0)
	return nil
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
		if a := in.operands[i]; a.Rows != rows || a.Cols != cols {
			return fmt.Errorf("%s: %s is %d×%d, want %d×%d", in.d.Name, o.Name, a.Rows, a.Cols, rows, cols)
		}
	}
	return nil
}

func (in *interpreter) store(which func(def.Output) bool, row int) {
	for _, o := range in.d.Exec.Outputs {
		if !which(o) {
			continue
		}
		for c, v := range in.values[o.Value.ID].f {
			in.operands[o.Operand].Set(row, c, v)
		}
		for c, v := range in.values[o.Value.ID].i {
			in.operands[o.Operand].SetBits(row, c, uint32(v))
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
	out := in.values[n.ID]
	f := func(k, c int) float32 { return at(in.values[n.Args[k].ID].f, c) }
	i := func(k, c int) int32 { return at(in.values[n.Args[k].ID].i, c) }
	eachF := func(value func(c int) float32) {
		for c := range out.f {
			out.f[c] = value(c)
		}
	}
	eachI := func(value func(c int) int32) {
		for c := range out.i {
			out.i[c] = value(c)
		}
	}
	eachB := func(claim func(c int) bool) {
		eachI(func(c int) int32 {
			if claim(c) {
				return 1
			}
			return 0
		})
	}
	switch n.Op {
	case def.OpInput:
		a, row := in.operands[n.Operand], 0
		if n.Extent&def.PerRow != 0 {
			row = in.row
		}
		if n.Type == def.Int {
			eachI(func(c int) int32 { return a.Int(row, c) })
		} else {
			eachF(func(c int) float32 { return a.At(row, c) })
		}
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
		eachI(func(c int) int32 { return int32(c) })
	case def.OpColFloat:
		eachF(func(c int) float32 { return float32(c) })
	case def.OpRandom:
		seed := uint64(uint32(i(0, 0))) | uint64(uint32(i(1, 0)))<<32
		eachI(func(c int) int32 {
			e := uint64(in.row)*uint64(in.cols) + uint64(c)
			return int32(num.RandomWord(seed, uint32(i(2, 0)), uint32(i(3, 0)), e))
		})

	case def.OpAdd:
		eachF(func(c int) float32 { return f(0, c) + f(1, c) })
	case def.OpSub:
		eachF(func(c int) float32 { return f(0, c) - f(1, c) })
	case def.OpMul:
		eachF(func(c int) float32 { return f(0, c) * f(1, c) })
	case def.OpDiv:
		eachF(func(c int) float32 { return f(0, c) / f(1, c) })
	case def.OpSqrt:
		eachF(func(c int) float32 { return num.Sqrt(f(0, c)) })
	case def.OpFMA:
		eachF(func(c int) float32 { return num.FMA(f(0, c), f(1, c), f(2, c)) })
	case def.OpNeg:
		eachF(func(c int) float32 { return -f(0, c) })
	case def.OpAbs:
		eachF(func(c int) float32 { return math.Float32frombits(math.Float32bits(f(0, c)) &^ (1 << 31)) })
	case def.OpMin:
		eachF(func(c int) float32 { return num.Min(f(0, c), f(1, c)) })
	case def.OpMax:
		eachF(func(c int) float32 { return num.Max(f(0, c), f(1, c)) })
	case def.OpRint:
		eachF(func(c int) float32 { return num.Rint(f(0, c)) })
	case def.OpScale:
		eachF(func(c int) float32 { return num.Scale(f(0, c), f(1, c)) })
	case def.OpRound:
		d := in.storage(n.Storage)
		eachF(func(c int) float32 { return num.Round(d, f(0, c)) })
	case def.OpSRound:
		d := in.storage(n.Storage)
		eachF(func(c int) float32 { return num.StochasticRound(d, f(0, c), uint32(i(1, c))) })

	case def.OpLess, def.OpLessEqual, def.OpEqual, def.OpNotEqual:
		if n.Args[0].Type == def.Int {
			eachB(func(c int) bool { return compare(n.Op, i(0, c), i(1, c)) })
		} else {
			eachB(func(c int) bool { return compare(n.Op, f(0, c), f(1, c)) })
		}
	case def.OpInside:
		eachB(func(c int) bool { return i(0, c) >= 0 && int(i(0, c)) < in.cols })
	case def.OpSelect:
		if n.Type == def.Float {
			eachF(func(c int) float32 {
				if i(0, c) != 0 {
					return f(1, c)
				}
				return f(2, c)
			})
		} else {
			eachI(func(c int) int32 {
				if i(0, c) != 0 {
					return i(1, c)
				}
				return i(2, c)
			})
		}

	case def.OpBits:
		eachI(func(c int) int32 { return int32(math.Float32bits(f(0, c))) })
	case def.OpFloat:
		eachF(func(c int) float32 { return math.Float32frombits(uint32(i(0, c))) })
	case def.OpIToF:
		eachF(func(c int) float32 { return float32(i(0, c)) })
	case def.OpFToI:
		eachI(func(c int) int32 { return num.FToI(f(0, c)) })
	case def.OpIAdd:
		eachI(func(c int) int32 { return i(0, c) + i(1, c) })
	case def.OpISub:
		eachI(func(c int) int32 { return i(0, c) - i(1, c) })
	case def.OpIAnd:
		eachI(func(c int) int32 { return i(0, c) & i(1, c) })
	case def.OpIOr:
		eachI(func(c int) int32 { return i(0, c) | i(1, c) })
	case def.OpShl:
		eachI(func(c int) int32 { return i(0, c) << (uint32(i(1, c)) & 31) })
	case def.OpShr:
		eachI(func(c int) int32 { return i(0, c) >> (uint32(i(1, c)) & 31) })

	case def.OpRowSum:
		out.f[0] = num.LaneSum(in.values[n.Args[0].ID].f, num.RowLanes(in.cols))
	case def.OpRowMax:
		out.f[0] = fold(in.values[n.Args[0].ID].f, num.Max)
	case def.OpRowMin:
		out.f[0] = fold(in.values[n.Args[0].ID].f, num.Min)
	case def.OpRowArgMax:
		out.i[0] = firstColumn(in.values[n.Args[0].ID].f, func(a, b float32) bool { return a > b })
	case def.OpRowArgMin:
		out.i[0] = firstColumn(in.values[n.Args[0].ID].f, func(a, b float32) bool { return a < b })
	case def.OpAt:
		out.f[0] = 0
		if k := int(i(1, 0)); k >= 0 && k < in.cols {
			out.f[0] = f(0, k)
		}
	default:
		panic("reference: no meaning for node " + n.Op.String())
	}
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
	lanes := in.lanes[n.ID]
	column := make([]float32, 0, len(lanes))
	for c := range in.values[n.ID].f {
		column = column[:0]
		for _, lane := range lanes {
			if lane != nil {
				column = append(column, lane[c])
			}
		}
		in.values[n.ID].f[c] = num.Tree(column)
	}
}

// totalSum returns the sum of all elements: a row sum of row sums, see num.FlatRow.
func totalSum(x []float32) float32 {
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
