package gpu

import (
	"fmt"
	"strings"

	"tokitai/def"
)

// isLoad reports whether a node is an input's element, or its pattern.
func isLoad(n *def.Node) bool { return n.Op == def.OpInput || n.Op == def.OpStored }

// isWord reports whether a node is computed for a group of eight neighbours at once: random
// words, or the numbers of elements.
func isWord(n *def.Node) bool {
	switch n.Op {
	case def.OpRandom, def.OpRandomRow, def.OpElement, def.OpElementHigh:
		return true
	}
	return false
}

// elementNumber returns the expression of an element's number, given its flat index, counted from the
// arguments of a node from the given one on, if it has them.
func (k *rowwise) elementNumber(n *def.Node, from int, flat string) string {
	if len(n.Args) <= from {
		return fmt.Sprintf("(u64)(%s)", flat)
	}
	return fmt.Sprintf("number_from(%s, %s, (u64)(%s))", k.value(n.Args[from]), k.value(n.Args[from+1]), flat)
}

// words declares the words of a group whose first element has that flat index and is in column c.
func (k *rowwise) words(s *text, n *def.Node, flat string) {
	switch n.Op {
	case def.OpRandom:
		s.line("i32 %s_group[8];", name(n))
		s.line("random_words(%s_group, %s, %s);", name(n), k.arguments(n.Args[:4]), k.elementNumber(n, 4, flat))
	case def.OpRandomRow:
		s.line("i32 %s_group[8];", name(n))
		s.line("random_row_words(%s_group, %s, (u32)c);", name(n), k.arguments(n.Args))
	default:
		s.line("const u64 %s_first = %s;", name(n), k.elementNumber(n, 0, flat))
	}
}

// wordOf returns the word of element j of a group.
func (k *rowwise) wordOf(n *def.Node) string {
	switch n.Op {
	case def.OpElement:
		return fmt.Sprintf("(i32)(u32)(%s_first + j)", name(n))
	case def.OpElementHigh:
		return fmt.Sprintf("(i32)(u32)((%s_first + j) >> 32)", name(n))
	}
	return name(n) + "_group[j]"
}

// singleWord returns the word of the element in column c that has the flat index e.
func (k *rowwise) singleWord(n *def.Node) string {
	switch n.Op {
	case def.OpRandom:
		return fmt.Sprintf("random_word(%s, %s)", k.arguments(n.Args[:4]), k.elementNumber(n, 4, "e"))
	case def.OpRandomRow:
		return fmt.Sprintf("random_row_word(%s, c)", k.arguments(n.Args))
	case def.OpElement:
		return fmt.Sprintf("(i32)(u32)%s", k.elementNumber(n, 0, "e"))
	}
	return fmt.Sprintf("(i32)(u32)(%s >> 32)", k.elementNumber(n, 0, "e"))
}

func (k *rowwise) arguments(nodes []*def.Node) string {
	var args []string
	for _, a := range nodes {
		args = append(args, k.value(a))
	}
	return strings.Join(args, ", ")
}

// zero returns the literal of a type's zero.
func zero(t def.Type) string {
	if t == def.Int {
		return "0"
	}
	return "0.0f"
}

// plus returns a sum of a type; int32 wrap.
func plus(t def.Type, a, b string) string {
	if t == def.Int {
		return fmt.Sprintf("int_add(%s, %s)", a, b)
	}
	return a + " + " + b
}

// toScratch and fromScratch return a value as scratch memory holds it, and the reverse: an int32 is
// there as the pattern of a float.
func toScratch(t def.Type, v string) string {
	if t == def.Int {
		return "float_of((u32)" + v + ")"
	}
	return v
}

func fromScratch(t def.Type, v string) string {
	if t == def.Int {
		return "(i32)bits_of(" + v + ")"
	}
	return v
}

// sumsOf writes code for the sum with the number of an expression: once for sums of floats and once
// for those of int32, if there are both.
func (k *rowwise) sumsOf(s *text, number string, code func(t def.Type)) {
	var isInt []string
	for i, n := range k.totalSums {
		if n.Type == def.Int {
			isInt = append(isInt, fmt.Sprintf("%s == %d", number, i))
		}
	}
	switch len(isInt) {
	case 0:
		code(def.Float)
	case len(k.totalSums):
		code(def.Int)
	default:
		s.open("if (%s) {", strings.Join(isInt, " || "))
		code(def.Int)
		s.close("} else {")
		s.depth++
		code(def.Float)
		s.close("}")
	}
}
