package gpu

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// text builds the source, line by line.
type text struct {
	strings.Builder
	depth int
}

// line writes one line at the current depth.
func (s *text) line(format string, args ...any) {
	for range s.depth {
		if format != "" {
			s.WriteString("    ")
		}
	}
	fmt.Fprintf(s, format, args...)
	s.WriteByte('\n')
}

// open writes a line and goes one level deeper, until close.
func (s *text) open(format string, args ...any) {
	s.line(format, args...)
	s.depth++
}

// close ends what open began.
func (s *text) close(end string) {
	s.depth--
	s.line("%s", end)
}

// reserved are words that cannot name a parameter of a kernel: keywords of C++, macros of
// the prelude, and fields that kernels have themselves.
var reserved = strings.Fields(`
	alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const const_cast
	constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
	goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
	register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch template this
	thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
	KERNEL KERNEL_BLOCKS SHARED SHARED_DYN BARRIER WARP_BARRIER SHFL_DOWN SHFL_UP SHFL_XOR SHFL_IDX ATOMIC_ADD ATOMIC_MIN ATOMIC_MAX UNROLL UNROLL_TWICE ROLLED MAY_ALIAS DEVICE
	SIM_INTERNAL TOKITAI_SIM INFINITE RENEW START_NEXT AWAIT_PREVIOUS threadIdx blockIdx blockDim gridDim warpSize linux unix assert errno
	rows cols slots row_count column_count row_values column_lanes lanes lane_step padded totals_in totals_out total_count total_length refused pad`)

// identifier turns a name of a definition into a C++ identifier.
func identifier(name string) string {
	name = strings.ReplaceAll(name, ".", "_")
	if strings.HasPrefix(name, "_") || strings.Contains(name, "__") {
		name = "v" + strings.ReplaceAll(name, "__", "_0")
	}
	if slices.Contains(reserved, name) {
		name += "_"
	}
	return name
}

// uniqueIdentifiers returns distinct identifiers for names. An identifier also takes its
// combinations with the suffixes.
func uniqueIdentifiers(names []string, suffixes ...string) []string {
	taken := map[string]bool{}
	var unique []string
	for _, name := range names {
		id := identifier(name)
		isTaken := func() bool {
			return taken[id] || slices.ContainsFunc(suffixes, func(s string) bool {
				return taken[id+s] || taken[strings.TrimSuffix(id, s)] && strings.HasSuffix(id, s)
			})
		}
		for isTaken() {
			id += "_"
		}
		taken[id] = true
		unique = append(unique, id)
	}
	return unique
}

// typeName returns the C++ type of a node's value.
func typeName(t def.Type) string { return [...]string{"float", "i32", "bool"}[t] }

// floatText returns the exact C++ literal of a binary32 constant.
func floatText(v float32) string {
	abs := math.Abs(float64(v))
	if v != v || abs > math.MaxFloat32 || abs != 0 && abs < 0x1p-126 {
		return fmt.Sprintf("float_of(0x%08xu)", math.Float32bits(v))
	}
	s := strconv.FormatFloat(float64(v), 'g', -1, 32)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	if strings.HasPrefix(s, "-") {
		return "(" + s + "f)"
	}
	return s + "f"
}

// intText returns the C++ literal of an int32 constant.
func intText(v int32) string {
	switch {
	case v == math.MinInt32:
		return "(-2147483647 - 1)"
	case v < 0:
		return fmt.Sprintf("(%d)", v)
	}
	return fmt.Sprint(v)
}

// name returns the variable of a node's value. Inline values have none.
func name(n *def.Node) string {
	if n.Name != "" && n.Op != def.OpCol && n.Op != def.OpColFloat && n.Op != def.OpStored {
		return fmt.Sprintf("%s_%d", strings.Trim(strings.ReplaceAll(n.Name, "__", "_"), "_"), n.ID)
	}
	return fmt.Sprintf("t%d", n.ID)
}

// isInline reports whether a node is written where it is used.
func isInline(n *def.Node) bool {
	switch n.Op {
	case def.OpConst, def.OpInt, def.OpParam, def.OpColumns, def.OpRows:
		return true
	}
	return false
}

// value returns how an expression refers to a node.
func (k *rowwise) value(n *def.Node) string {
	switch n.Op {
	case def.OpConst:
		return floatText(n.Real.F32())
	case def.OpInt:
		return intText(n.Int)
	case def.OpParam:
		return "p." + k.params[n.Param]
	case def.OpColumns:
		return "p.column_count"
	case def.OpRows:
		return "p.row_count"
	}
	return name(n)
}

// expression returns the C++ expression of a node with arguments that is no reduction.
func (k *rowwise) expression(n *def.Node) string {
	a := make([]any, len(n.Args))
	for i, arg := range n.Args {
		a[i] = k.value(arg)
	}
	switch n.Op {
	case def.OpRound:
		return fmt.Sprintf("round_%s(%s)", lower.Format(k.d, k.dtypes, n.Storage), a[0])
	case def.OpSRound:
		return fmt.Sprintf("sround_%s(%s, %s)", lower.Format(k.d, k.dtypes, n.Storage), a[0], a[1])
	case def.OpSelect:
		if limit := clamp(n); limit != "" {
			return fmt.Sprintf("%s(%s, %s)", limit, a[2], a[1])
		}
	}
	form, ok := forms[n.Op]
	if !ok {
		panic("gpu: no expression for " + n.Op.String())
	}
	return fmt.Sprintf(form, a...)
}

// clamp returns the function that computes a selection which clamps a value to a constant,
// x < c ? c : x or c < x ? c : x, and "" for any other selection.
func clamp(n *def.Node) string {
	test, c, x := n.Args[0], n.Args[1], n.Args[2]
	if test.Op != def.OpLess || c.Op != def.OpConst || c.Real.F32() == 0 || x.Type != def.Float {
		return ""
	}
	switch {
	case test.Args[0] == x && test.Args[1] == c:
		return "at_least"
	case test.Args[0] == c && test.Args[1] == x:
		return "at_most"
	}
	return ""
}

var forms = map[def.Op]string{
	def.OpAdd: "%s + %s", def.OpSub: "%s - %s", def.OpMul: "%s * %s", def.OpDiv: "divide(%s, %s)",
	def.OpSqrt: "square_root(%s)", def.OpFMA: "fused(%s, %s, %s)",
	def.OpNeg: "-%s", def.OpAbs: "magnitude(%s)", def.OpMin: "smaller(%s, %s)", def.OpMax: "larger(%s, %s)",
	def.OpRint: "round_to_integral(%s)", def.OpScale: "scale(%s, %s)",
	def.OpLess: "%s < %s", def.OpLessEqual: "%s <= %s", def.OpEqual: "%s == %s", def.OpNotEqual: "%s != %s",
	def.OpInside: "%[1]s >= 0 && (u32)%[1]s < p.cols", def.OpSelect: "%s ? %s : %s",
	def.OpBits: "(i32)bits_of(%s)", def.OpFloat: "float_of((u32)%s)", def.OpIToF: "(float)%s", def.OpFToI: "int_of(%s)",
	def.OpIAdd: "int_add(%s, %s)", def.OpISub: "int_sub(%s, %s)", def.OpIMul: "int_mul(%s, %s)", def.OpUMulHigh: "mul_high(%s, %s)",
	def.OpIAnd: "%s & %s", def.OpIOr: "%s | %s", def.OpIXor: "%s ^ %s",
	def.OpShl: "shift_left(%s, %s)", def.OpShr: "shift_right(%s, %s)", def.OpShrU: "shift_right_unsigned(%s, %s)",
}

// declare declares a node's value in the current scope.
func (k *rowwise) declare(s *text, n *def.Node, expression string) {
	s.line("const %s %s = %s;", typeName(n.Type), name(n), expression)
}

// groupType returns the type of a group of eight stored elements.
func groupType(d num.DType) string { return fmt.Sprintf("Group%d", 8*d.Size()) }

// fetch returns the expression that loads a group of an operand.
func (k *rowwise) fetch(d num.DType, at, n string) string {
	return fmt.Sprintf("fetch%d%s(%s, %s)", 8*d.Size(), k.suffix(), at, n)
}

// put writes the rounding and store of a group of results.
func (k *rowwise) put(s *text, operand int, at, n string) {
	d := k.dtypes[operand]
	s.line("put%d%s(%s, %s, group_%s(%s_out));", 8*d.Size(), k.suffix(), at, n, d, k.operands[operand])
}

// suffix returns the suffix of functions with vector access.
func (k *rowwise) suffix() string {
	if k.variant == Vector {
		return "_vector"
	}
	return ""
}

// loadOf returns the expression that loads one element of a node's operand, or its pattern.
func (k *rowwise) loadOf(n *def.Node, at string) string {
	if n.Op == def.OpStored {
		return fmt.Sprintf("(i32)word_of(p.%s[%s])", k.operands[n.Operand], at)
	}
	return k.load(n.Operand, at)
}

// load returns the expression that loads one element of an operand.
func (k *rowwise) load(operand int, at string) string {
	if k.dtypes[operand] == num.I32 {
		return fmt.Sprintf("p.%s[%s]", k.operands[operand], at)
	}
	return fmt.Sprintf("load_%s(p.%s + %s)", k.dtypes[operand], k.operands[operand], at)
}

// store returns the statement that stores one element of an operand.
func (k *rowwise) store(operand int, at, value string) string {
	return fmt.Sprintf("store_%s(p.%s + %s, %s);", k.dtypes[operand], k.operands[operand], at, value)
}
