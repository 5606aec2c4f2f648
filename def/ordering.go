package def

import "fmt"

// The order of a row's elements: larger ones come first, of equal ones the lower column. −0 and
// +0 are equal, and a NaN comes before every number, so that the first element is that of
// [RowArgMax].

// Rank returns, for each element, how many elements of its row come before it, an int32.
func Rank(x Value) Value { return reduce(OpRank, Int, PerElement, x) }

// RowKth returns the column of the element of rank k, an int32. k is an int32, one or one per
// row, and is clamped to [0, C−1].
func RowKth(x, k Value) Value {
	v := newNode(OpRowKth, x, k)
	v.check(Int, Float, Int)
	v.checkRow(1)
	return Value{v}
}

// RowNucleus returns the column of the last element that top-p sampling keeps, an int32. The
// elements come in the order of x. Each has the mass rint(2^30·e), where e is clamped to [0, 1] and
// NaN counts as 0. With the total mass of the row and P = rint(2^31·p), p clamped likewise, the
// limit is floor(total·P/2^31), at least 1. An element is kept if those before it have less mass
// than the limit. Masses are integers of 64 bits, so no order of summation matters.
func RowNucleus(x, e, p Value) Value {
	v := newNode(OpRowNucleus, x, e, p)
	v.check(Int, Float, Float, Float)
	v.checkRow(2)
	return Value{v}
}

// checkRow checks a node whose first arguments are elements of a row, n of them, and the others
// row values or single ones.
func (x *Node) checkRow(n int) {
	for i, a := range x.Args {
		switch {
		case x.err != nil:
		case i < n && a.Extent != PerElement:
			x.err = fmt.Errorf("%s: %s is %s, want one per element", x.brief(), a.label(), a.Extent)
		case i >= n && a.Extent&PerColumn != 0:
			x.err = fmt.Errorf("%s: %s is %s, want one per row", x.brief(), a.label(), a.Extent)
		}
	}
	x.Extent = PerRow
}

// Packed returns, for the slots of a row, the values of those elements for which keep holds, in the
// order of columns. It is stored to an output with a number of columns of its own, K
// ([Builder.OutSlots]): the first K are stored. Slots without an element are −1 (int32) or +0 (float).
func Packed(keep, x Value) Value {
	v := newNode(OpPacked, keep, x)
	v.check(x.Type(), Bool, x.Type())
	v.checkRow(2)
	if v.err == nil && x.Type() == Bool {
		v.err = fmt.Errorf("%s: %s is a bool, want a float or an int32", v.brief(), x.node.label())
	}
	v.Extent = PerSlot
	return Value{v}
}

// Unpacked returns, for each element, the value of the slot in which [Packed] would put it: that of
// number n if keep holds for it and for n elements before it. Elements without a slot are 0. slots is an
// input of [Builder.InSlots].
func Unpacked(keep, slots Value) Value {
	v := newNode(OpUnpacked, keep, slots)
	v.check(slots.Type(), Bool, slots.Type())
	switch {
	case v.err != nil:
	case keep.Extent() != PerElement:
		v.err = fmt.Errorf("%s: %s is %s, want one per element", v.brief(), keep.node.label(), keep.Extent())
	case slots.node.Op != OpInput || slots.Extent() != PerSlot:
		v.err = fmt.Errorf("%s: %s is no input with one value per slot", v.brief(), slots.node.label())
	}
	v.Extent = PerElement
	return Value{v}
}

// InSlots declares an input with K values per row, of any K.
func (b *Builder) InSlots(name string, dtypes ...Rule) Value {
	return Value{b.input(name, PerSlot, dtypes)}
}

// OutSlots declares an output with K values per row, of any K: a packed value.
func (b *Builder) OutSlots(name string, v Value, dtypes ...Rule) {
	b.output(name, PerSlot, v.node, dtypes)
}
