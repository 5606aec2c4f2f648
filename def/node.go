package def

import "tokitai/num"

// Op is what a node computes. Floating-point nodes compute in IEEE binary32,
// round to nearest even, with subnormals; a product is never contracted with the
// sum it feeds.
type Op uint8

const (
	_ Op = iota

	// Leaves.
	OpInput       // an operand's element, read exactly
	OpParam       // a number of the call, rounded once to binary32 (or an int32)
	OpConst       // a real constant: exact for truth, its binary32 rounding for execution
	OpInt         // an int32 constant
	OpColumns     // C, the number of columns
	OpRows        // R, the number of rows
	OpCol         // int32: the column of this element
	OpColFloat    // the column of this element, rounded to binary32
	OpStored      // int32: the pattern of an operand's element as it is stored, zero-extended
	OpRandom      // int32: Philox word of this element (seed low, seed high, tensor, step), elements counted from 0 or from a 64-bit number (low, high)
	OpRandomRow   // int32: Philox word of this column (seed low, seed high, a, b, use), all but use of the row
	OpElement     // int32: the low word of the number of this element, counted from a 64-bit number (low, high)
	OpElementHigh // int32: the high word
	OpArg         // the argument, in the printed expansion of a function

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

	// From floats to int32 and back. Allowed only in the expansion of a function: outside, the
	// result would depend on roundings. The pattern of a NaN differs between machines: a
	// result made from it must be NaN again, or not depend on it.
	OpBits  // the pattern of a binary32
	OpFloat // the binary32 of a pattern
	OpFToI  // toward zero, saturating, NaN gives 0

	// int32, wrapping.
	OpIToF // nearest even
	OpIAdd
	OpISub
	OpIMul
	OpUMulHigh // the high word of the product of unsigned numbers
	OpIAnd
	OpIOr
	OpIXor
	OpShl  // count modulo 32
	OpShr  // arithmetic, count modulo 32
	OpShrU // logical, count modulo 32

	// Reductions. Maximum and minimum are order-free, and so are their columns; the
	// shape of a sum of floats is fixed by sizes alone (num.RowLanes, num.ColLanes,
	// num.FlatRow). A sum of int32 wraps, and has no order.
	OpRowSum
	OpRowMax
	OpRowMin
	OpRowArgMax  // int32: the first column with the largest value, −0 = +0; the first NaN if there is one
	OpRowArgMin  // int32: the same with the smallest value
	OpRowKth     // int32: the column of the element of rank k, k clamped to [0, C−1]
	OpRowNucleus // int32: the column of the last element that a mass keeps (RowNucleus)
	OpColSum
	OpTotalSum
	OpAt // the row's element at an index, +0 outside

	// A table's element in the row that an index names, read exactly; +0 if there is no such row.
	OpLookup

	// int32 per element: how many elements of the row come before it, larger ones first. Of
	// equal ones the lower column comes first; −0 = +0; a NaN comes before every number.
	OpRank

	// Compaction. The slots of a row are the values of an operand [R,K].
	OpPacked   // per slot: the values of the elements that are kept, by column; −1 or +0 if there are fewer
	OpUnpacked // per element: the slot in which packed puts it; 0 or +0 if it has none

	OpPartner // what is read in the other column of a pair, 2i and 2i+1; 0 or +0 if there is none

	OpCall // a function: mathematics outside, expansion inside

	opCount
)

var opNames = [opCount]string{
	OpInput: "input", OpParam: "param", OpConst: "const", OpInt: "int", OpColumns: "columns", OpRows: "rows",
	OpCol: "col", OpColFloat: "colf", OpStored: "stored", OpRandom: "random", OpRandomRow: "randomrow",
	OpElement: "element", OpElementHigh: "elementhigh", OpArg: "arg",
	OpAdd: "add", OpSub: "sub", OpMul: "mul", OpDiv: "div", OpSqrt: "sqrt", OpFMA: "fma",
	OpNeg: "neg", OpAbs: "abs", OpMin: "min", OpMax: "max", OpRint: "rint",
	OpScale: "scale", OpRound: "round", OpSRound: "sround",
	OpLess: "less", OpLessEqual: "lesseq", OpEqual: "equal", OpNotEqual: "notequal", OpInside: "inside", OpSelect: "select",
	OpBits: "bits", OpFloat: "float", OpFToI: "ftoi", OpIToF: "itof",
	OpIAdd: "iadd", OpISub: "isub", OpIMul: "imul", OpUMulHigh: "umulhigh",
	OpIAnd: "iand", OpIOr: "ior", OpIXor: "ixor", OpShl: "shl", OpShr: "shr", OpShrU: "shru",
	OpRowSum: "rowsum", OpRowMax: "rowmax", OpRowMin: "rowmin", OpRowArgMax: "rowargmax", OpRowArgMin: "rowargmin",
	OpColSum: "colsum", OpTotalSum: "totalsum", OpAt: "at", OpLookup: "lookup",
	OpRowKth: "rowkth", OpRowNucleus: "rownucleus", OpRank: "rank",
	OpPacked: "packed", OpUnpacked: "unpacked", OpPartner: "partner",
	OpCall: "call",
}

func (o Op) String() string { return opNames[o] }

// isOfFunctions reports whether o may occur in the expansions of functions alone.
func (o Op) isOfFunctions() bool { return o == OpBits || o == OpFloat || o == OpFToI }

// IsRowReduction reports whether o computes one value per row from a row of elements.
func (o Op) IsRowReduction() bool {
	switch o {
	case OpRowSum, OpRowMax, OpRowMin, OpRowArgMax, OpRowArgMin, OpRowKth, OpRowNucleus, OpAt:
		return true
	}
	return false
}

// ReadsRow reports whether a value of o depends on a whole row of elements.
func (o Op) ReadsRow() bool { return o.IsRowReduction() || o.NeedsRow() }

// IsOrdering reports whether o depends on the order of a row's elements: on which are larger.
func (o Op) IsOrdering() bool { return o == OpRank || o == OpRowKth || o == OpRowNucleus }

// NeedsRow reports whether lowerings compute o from rows in memory ([Definition.Stages]).
func (o Op) NeedsRow() bool { return o.IsOrdering() || o == OpPacked || o == OpUnpacked }

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

	// Chosen is the axis of a table's rows. An index chooses one of them for each row of the
	// definition. Only operands have it, and the leaves that stand for them in a lookup.
	Chosen Extent = 4

	// PerSlot is K values per row, of an operand with its own number of columns.
	PerSlot Extent = PerRow | 8
)

func (e Extent) String() string {
	return [...]string{"one value", "one value per column", "one value per row", "one value per element", "a table", "a table", PerSlot: "one value per slot"}[e]
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
	Operand int       // OpInput, OpStored: index into Definition.Operands
	Param   int       // OpParam: index into Definition.Params
	Real    *Real     // OpConst
	Int     int32     // OpInt
	Storage Storage   // OpRound, OpSRound
	Func    *Function // OpCall
	Body    *Node     // OpCall: the expansion, in terms of Args[0]

	owner *Builder // of a leaf that belongs to one definition
	err   error    // why this node is invalid
}

// IsTable reports whether n stands for a table. It has no value of its own: a lookup reads it.
func (n *Node) IsTable() bool { return n.Extent&Chosen != 0 }

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

	// Need is nil, or an int32 per row of a part of a definition: where it is 0, no output is needed that depends
	// on the elements of the row.
	Need *Node
}

// Output is a value and the operand that it is stored to.
type Output struct {
	Operand int
	Value   *Node
}
