package def

import (
	"fmt"
	"math"
	"strings"
)

// Value is a handle to a value of a definition; its methods build expressions. It is
// immutable: a method that computes returns a new Value. A mistake, such as a missing
// argument, is kept in the result and reported when the definition is built.
type Value struct{ node *Node }

// Type returns the type of the value.
func (x Value) Type() Type { return typeOf(x.node) }

// Extent returns the extent of x: one value, or one per row, per column or per element.
func (x Value) Extent() Extent {
	if x.node == nil {
		return Scalar
	}
	return x.node.Extent
}

// IsLate reports whether x is known only after the last row: a column or total sum, or
// computed from one.
func (x Value) IsLate() bool { return x.node != nil && x.node.Late }

// Common constants.
var (
	Zero = Const(0)
	One  = Const(1)
	Half = Const(0.5)
	Two  = Const(2)
)

// Const returns the real number v, exactly.
func Const(v float64) Value { return RealConst(RealOf(v)) }

// Number returns the real number of a text such as "0.044715" or "2*sqrt(2/pi)";
// [ParseReal] describes the syntax.
func Number(text string) Value {
	r, err := ParseReal(text)
	if err != nil {
		return Value{&Node{Op: OpConst, err: err}}
	}
	return RealConst(r)
}

// RealConst returns a real constant. It must be within the range of binary32.
func RealConst(r *Real) Value {
	n := &Node{Op: OpConst, Real: r}
	if r.value != nil && math.IsInf(float64(r.f32), 0) {
		n.err = fmt.Errorf("constant %s is beyond the range of binary32", r)
	}
	return Value{n}
}

// IntConst returns an int32 constant.
func IntConst(v int32) Value { return Value{&Node{Op: OpInt, Type: Int, Int: v}} }

// As names a computed value, for the text, error messages and generated source. Leaves
// keep their own names.
func (x Value) As(name string) Value {
	if x.node == nil || len(x.node.Args) == 0 {
		return x
	}
	y := *x.node
	y.Name = name
	return Value{&y}
}

func (x Value) Add(y Value) Value { return apply(OpAdd, Float, x, y) }
func (x Value) Sub(y Value) Value { return apply(OpSub, Float, x, y) }
func (x Value) Mul(y Value) Value { return apply(OpMul, Float, x, y) }
func (x Value) Div(y Value) Value { return apply(OpDiv, Float, x, y) }
func (x Value) Min(y Value) Value { return apply(OpMin, Float, x, y) }
func (x Value) Max(y Value) Value { return apply(OpMax, Float, x, y) }
func (x Value) Sqrt() Value       { return apply(OpSqrt, Float, x) }
func (x Value) Neg() Value        { return apply(OpNeg, Float, x) }
func (x Value) Abs() Value        { return apply(OpAbs, Float, x) }
func (x Value) Rint() Value       { return apply(OpRint, Float, x) }

// FMA returns a·b + c with one rounding.
func FMA(a, b, c Value) Value { return apply(OpFMA, Float, a, b, c) }

// Scale returns x·2^n, in two roundings when the result is subnormal; n is integral.
func (x Value) Scale(n Value) Value { return apply(OpScale, Float, x, n) }

// Round rounds to a storage format, for values that are stored and used again.
func (x Value) Round(s Storage) Value {
	v := apply(OpRound, Float, x)
	v.node.Storage = s
	return v
}

// StochasticRound rounds to one of the two neighbours in a storage format, chosen by a
// random word with probabilities that make x the mean; see num.StochasticRound.
func (x Value) StochasticRound(s Storage, word Value) Value {
	v := newNode(OpSRound, x, word)
	v.Storage = s
	return v.check(Float, Float, Int)
}

// Comparisons of two floats or of two int32.
func (x Value) Less(y Value) Value      { return compare(OpLess, x, y) }
func (x Value) LessEqual(y Value) Value { return compare(OpLessEqual, x, y) }
func (x Value) Equal(y Value) Value     { return compare(OpEqual, x, y) }
func (x Value) NotEqual(y Value) Value  { return compare(OpNotEqual, x, y) }

// Inside returns 0 ≤ i < C: whether i is the index of a column.
func (x Value) Inside() Value {
	return newNode(OpInside, x).check(Bool, Int)
}

// Select returns cond ? a : b.
func Select(cond, a, b Value) Value {
	return newNode(OpSelect, cond, a, b).check(a.Type(), Bool, a.Type(), a.Type())
}

// From floats to int32 and back, for the expansions of functions.
func (x Value) Bits() Value  { return intOp(OpBits, Int, Float, x) }
func (x Value) Float() Value { return intOp(OpFloat, Float, Int, x) }
func (x Value) FToI() Value  { return intOp(OpFToI, Int, Float, x) }

// int32 arithmetic wraps. Shifts take their count modulo 32.
func (x Value) IToF() Value            { return intOp(OpIToF, Float, Int, x) }
func (x Value) IAdd(y Value) Value     { return intOp(OpIAdd, Int, Int, x, y) }
func (x Value) ISub(y Value) Value     { return intOp(OpISub, Int, Int, x, y) }
func (x Value) IMul(y Value) Value     { return intOp(OpIMul, Int, Int, x, y) }
func (x Value) UMulHigh(y Value) Value { return intOp(OpUMulHigh, Int, Int, x, y) }
func (x Value) IAnd(y Value) Value     { return intOp(OpIAnd, Int, Int, x, y) }
func (x Value) IOr(y Value) Value      { return intOp(OpIOr, Int, Int, x, y) }
func (x Value) IXor(y Value) Value     { return intOp(OpIXor, Int, Int, x, y) }
func (x Value) Shl(count int32) Value  { return x.ShlBy(IntConst(count)) }
func (x Value) Shr(count int32) Value  { return x.ShrBy(IntConst(count)) }
func (x Value) ShrU(count int32) Value { return x.ShrUBy(IntConst(count)) }
func (x Value) ShlBy(n Value) Value    { return intOp(OpShl, Int, Int, x, n) }
func (x Value) ShrBy(n Value) Value    { return intOp(OpShr, Int, Int, x, n) }
func (x Value) ShrUBy(n Value) Value   { return intOp(OpShrU, Int, Int, x, n) }

// Stored returns the pattern of an input's element as it is stored, an int32; that of 16 bits
// is zero-extended. A NaN keeps its sign and payload.
func (x Value) Stored() Value {
	if x.node == nil || x.node.err != nil || x.node.Op != OpInput {
		v := newNode(OpStored, x)
		if v.check(Int, x.Type()); v.err == nil {
			v.err = fmt.Errorf("%s: %s is computed, want an operand", v.brief(), x.node.label())
		}
		return Value{v}
	}
	n := *x.node
	n.Op, n.Type, n.Name = OpStored, Int, "stored("+n.Name+")"
	return Value{&n}
}

// RowSum returns the sum of a row: of floats in the fixed shape of its length, of int32
// modulo 2^32.
func RowSum(x Value) Value { return reduce(OpRowSum, x.Type(), PerRow, x) }

// RowMax and RowMin return the maximum and the minimum of a row, or NaN if it has one.
func RowMax(x Value) Value { return reduce(OpRowMax, Float, PerRow, x) }
func RowMin(x Value) Value { return reduce(OpRowMin, Float, PerRow, x) }

// RowArgMax and RowArgMin return the column of a row's maximum and minimum, an int32: the
// first such column, where −0 and +0 are equal. In a row with a NaN it is the column of
// the first NaN.
func RowArgMax(x Value) Value { return reduce(OpRowArgMax, Int, PerRow, x) }
func RowArgMin(x Value) Value { return reduce(OpRowArgMin, Int, PerRow, x) }

// ColSum returns the sum of a column, known after the last row.
func ColSum(x Value) Value { return reduce(OpColSum, x.Type(), PerColumn, x) }

// TotalSum returns the sum of all elements, known after the last row.
func TotalSum(x Value) Value { return reduce(OpTotalSum, x.Type(), Scalar, x) }

// At returns the row's element in column i, and +0 if there is no such column. Of a table it
// returns the row that the index i names, and +0 if there is no such row: one value per
// element, or of a table with one value in each of its rows one value per row.
func (x Value) At(i Value) Value {
	if x.node != nil && x.node.IsTable() {
		return lookup(x, i)
	}
	v := newNode(OpAt, x, i)
	v.check(Float, Float, Int)
	switch {
	case v.err != nil:
	case x.Extent() != PerElement:
		v.err = fmt.Errorf("%s: %s is %s, want one per element", v.brief(), x.node.label(), x.Extent())
	case i.Extent()&PerColumn != 0:
		v.err = fmt.Errorf("%s: index %s is %s, want one per row", v.brief(), i.node.label(), i.Extent())
	}
	v.Extent = PerRow
	return Value{v}
}

func newNode(op Op, args ...Value) *Node {
	n := &Node{Op: op, Args: make([]*Node, len(args))}
	for i, a := range args {
		n.Args[i] = a.node
	}
	return n
}

func apply(op Op, t Type, args ...Value) Value {
	return newNode(op, args...).check(t, Float, Float, Float)
}

func intOp(op Op, result, arg Type, args ...Value) Value {
	return newNode(op, args...).check(result, arg, arg)
}

func compare(op Op, x, y Value) Value {
	v := newNode(op, x, y)
	t := x.Type()
	if t == Bool {
		v.err = fmt.Errorf("%s: %s is a bool, want a float or an int32", v.brief(), x.node.label())
		return Value{v}
	}
	return v.check(Bool, t, t)
}

// typeOf returns the type of a value that may be missing.
func typeOf(x *Node) Type {
	if x == nil {
		return Float
	}
	return x.Type
}

func reduce(op Op, result Type, extent Extent, x Value) Value {
	v := newNode(op, x)
	isSum := op == OpRowSum || op == OpColSum || op == OpTotalSum
	switch {
	case isSum && x.Type() == Bool:
		v.err = fmt.Errorf("%s: %s is a bool, want a float or an int32", v.brief(), x.node.label())
	case isSum:
		v.check(result, result)
	default:
		v.check(result, Float)
	}
	if v.err == nil && x.Extent() != PerElement {
		v.err = fmt.Errorf("%s: %s is %s, want one per element", v.brief(), x.node.label(), x.Extent())
	}
	v.Extent = extent
	v.Late = op == OpColSum || op == OpTotalSum
	return Value{v}
}

// check derives a node's type and extent from its arguments and records an error if they
// are invalid. The first error of an expression is the one reported.
func (x *Node) check(result Type, want ...Type) Value {
	x.Type = result
	for _, a := range x.Args {
		switch {
		case x.err != nil:
		case a == nil:
			x.err = fmt.Errorf("%s: an argument is missing", x.brief())
		default:
			x.err = a.err
		}
	}
	if x.err != nil {
		return Value{x}
	}
	for i, a := range x.Args {
		if a.Extent == PerSlot && x.Op != OpUnpacked {
			x.err = fmt.Errorf("%s: %s is %s, which is only stored or unpacked", x.brief(), a.label(), a.Extent)
			return Value{x}
		}
		if a.Type != want[i] {
			x.err = fmt.Errorf("%s: %s is %s, want %s", x.brief(), a.label(), article(a.Type), article(want[i]))
			return Value{x}
		}
		if a.IsTable() && x.Op != OpLookup {
			x.err = fmt.Errorf("%s: %s is a table, want the row of it that an index names", x.brief(), a.label())
			return Value{x}
		}
		x.Extent |= a.Extent
		x.Late = x.Late || a.Late
	}
	if x.Late {
		for _, a := range x.Args {
			if !a.Late && a.Extent&PerRow != 0 {
				x.err = fmt.Errorf("%s: %s is %s, but the sum it meets is known only after the last row", x.brief(), a.label(), a.Extent)
				return Value{x}
			}
		}
	}
	return Value{x}
}

func article(t Type) string {
	if t == Int {
		return "an " + t.String()
	}
	return "a " + t.String()
}

// brief describes a node by its expression, two levels deep: sub(x, rowmax(x)).
func (x *Node) brief() string { return x.describe(2) }

// label describes a node in a message, by its name if it has one.
func (x *Node) label() string { return x.describe(1) }

func (x *Node) describe(depth int) string {
	switch {
	case x == nil:
		return "nil"
	case x.Op == OpConst && x.Real != nil:
		return x.Real.String()
	case x.Op == OpInt:
		return fmt.Sprint(x.Int)
	case x.Name != "":
		return x.Name
	case len(x.Args) == 0:
		return x.Op.String()
	case depth == 0:
		return "…"
	}
	name := x.Op.String()
	if x.Op == OpCall {
		name = x.Func.Name
	}
	args := make([]string, len(x.Args))
	for i, a := range x.Args {
		args[i] = a.describe(depth - 1)
	}
	if x.Op == OpLookup {
		return args[0] + "[" + args[1] + "]"
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}
