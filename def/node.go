package def

import "tokitai/num"

// Op is what a node computes. Floating-point nodes compute in IEEE binary32,
// round to nearest even, with subnormals; a product is never contracted with the
// sum it feeds.
type Op uint8

const (
	_ Op = iota

	// Leaves.
	OpInput    // an operand's element, read exactly
	OpParam    // a number of the call, rounded once to binary32 (or an int32)
	OpConst    // a real constant: exact for truth, its binary32 rounding for execution
	OpInt      // an int32 constant
	OpColumns  // C, the number of columns
	OpRows     // R, the number of rows
	OpCol      // int32: the column of this element
	OpColFloat // the column of this element, rounded to binary32
	OpRandom   // int32: Philox word of this element (seed low, seed high, tensor, step)
	OpArg      // the argument, in the printed expansion of a function

	// Arithmetic, each correctly rounded.
	OpAdd
	OpSub
	OpMul
	OpDiv
	OpSqrt
	OpFMA // a·b + c, one rounding

	// Exact.
	OpNeg
	OpAbs
	OpMin  // NaN if either is NaN; −0 < +0
	OpMax  // NaN if either is NaN; −0 < +0
	OpRint // to integral, ties to even

	OpScale  // (x·2^a)·2^(n−a), a = ⌊n/2⌋, n = rint(n) clamped to [−252, 254]
	OpRound  // to a storage format and back
	OpSRound // stochastic rounding to a storage format by a random word

	// Comparisons give a bool; with NaN they are false (OpNotEqual: true).
	OpLess
	OpLessEqual
	OpEqual
	OpNotEqual
	OpInside // 0 ≤ i < C
	OpSelect // cond ? a : b

	// int32, wrapping. Allowed only in the expansion of a function. The pattern of a NaN
	// differs between machines: a result made from it must be NaN again, or not depend
	// on it.
	OpBits  // the pattern of a binary32
	OpFloat // the binary32 of a pattern
	OpIToF  // nearest even
	OpFToI  // toward zero, saturating, NaN gives 0
	OpIAdd
	OpISub
	OpIAnd
	OpIOr
	OpShl // count modulo 32
	OpShr // arithmetic, count modulo 32

	// Reductions. Maximum and minimum are order-free, and so are their columns; the
	// shape of a sum is fixed by sizes alone (num.RowLanes, num.ColLanes, num.FlatRow).
	OpRowSum
	OpRowMax
	OpRowMin
	OpRowArgMax // int32: the first column with the largest value, −0 = +0; the first NaN if there is one
	OpRowArgMin // int32: the same with the smallest value
	OpColSum
	OpTotalSum
	OpAt // the row's element at an index, +0 outside

	OpCall // a function: mathematics outside, expansion inside

	opCount
)

var opNames = [opCount]string{
	OpInput: "input", OpParam: "param", OpConst: "const", OpInt: "int", OpColumns: "columns", OpRows: "rows",
	OpCol: "col", OpColFloat: "colf", OpRandom: "random", OpArg: "arg",
	OpAdd: "add", OpSub: "sub", OpMul: "mul", OpDiv: "div", OpSqrt: "sqrt", OpFMA: "fma",
	OpNeg: "neg", OpAbs: "abs", OpMin: "min", OpMax: "max", OpRint: "rint",
	OpScale: "scale", OpRound: "round", OpSRound: "sround",
	OpLess: "less", OpLessEqual: "lesseq", OpEqual: "equal", OpNotEqual: "notequal", OpInside: "inside", OpSelect: "select",
	OpBits: "bits", OpFloat: "float", OpIToF: "itof", OpFToI: "ftoi",
	OpIAdd: "iadd", OpISub: "isub", OpIAnd: "iand", OpIOr: "ior", OpShl: "shl", OpShr: "shr",
	OpRowSum: "rowsum", OpRowMax: "rowmax", OpRowMin: "rowmin", OpRowArgMax: "rowargmax", OpRowArgMin: "rowargmin",
	OpColSum: "colsum", OpTotalSum: "totalsum", OpAt: "at",
	OpCall: "call",
}

func (o Op) String() string { return opNames[o] }

// IsRowReduction reports whether o computes one value per row from a row of elements.
func (o Op) IsRowReduction() bool {
	switch o {
	case OpRowSum, OpRowMax, OpRowMin, OpRowArgMax, OpRowArgMin, OpAt:
		return true
	}
	return false
}

// Type is the type of a node's values.
type Type uint8

const (
	Float Type = iota // binary32
	Int               // int32
	Bool
)

func (t Type) String() string { return [...]string{"float", "int32", "bool"}[t] }

// Extent says how many values a node has. It is a set of axes, so that the
// extent of an expression is the union of its operands'.
type Extent uint8

const (
	Scalar     Extent = 0
	PerColumn  Extent = 1
	PerRow     Extent = 2
	PerElement Extent = PerRow | PerColumn
)

func (e Extent) String() string {
	return [...]string{"one value", "one value per column", "one value per row", "one value per element"}[e]
}

// Node is one value of a definition's [Graph]. Interpreters read its fields; they must not
// change them, since others read the same node.
type Node struct {
	Op     Op
	Args   []*Node
	Type   Type
	Extent Extent

	// Late marks values known only after the last row: column and total sums, and
	// everything computed from them.
	Late bool

	ID      int       // position in its Graph
	Name    string    // of a leaf, or given with As; repeats in Exec where a function is called twice
	Operand int       // OpInput: index into Definition.Operands
	Param   int       // OpParam: index into Definition.Params
	Real    *Real     // OpConst
	Int     int32     // OpInt
	Storage Storage   // OpRound, OpSRound
	Func    *Function // OpCall
	Body    *Node     // OpCall: the expansion, in terms of Args[0]

	owner *Builder // of a leaf that belongs to one definition
	err   error    // why this node is invalid
}

// Storage is the storage format of a rounding: a fixed one, or that of an operand.
type Storage struct {
	Fixed num.DType
	Of    string
}

// FixedStorage returns the storage format d.
func FixedStorage(d num.DType) Storage { return Storage{Fixed: d} }

// StorageOf returns the format in which the named operand is stored.
func StorageOf(operand string) Storage { return Storage{Of: operand} }

func (s Storage) String() string {
	if s.Of != "" {
		return "storage(" + s.Of + ")"
	}
	return s.Fixed.String()
}

// Graph holds a definition's nodes, arguments before their users; Node.ID is the
// position. Output i of the definition stores the value Outputs[i].
type Graph struct {
	Nodes   []*Node
	Outputs []Output
}

// Output is a value and the operand that it is stored to.
type Output struct {
	Operand int
	Value   *Node
}
