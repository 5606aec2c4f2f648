package gpu

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/num"
)

// text is source in the making.
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

func (s *text) close(end string) {
	s.depth--
	s.line("%s", end)
}

// reserved are words that a parameter of a kernel cannot be called by: C++'s, the
// dialect's, and the fields that kernels add of their own.
var reserved = strings.Fields(`
	alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const const_cast
	constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
	goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
	register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch template this
	thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
	KERNEL KERNEL_BLOCKS SHARED SHARED_DYN BARRIER WARP_BARRIER SHFL_DOWN SHFL_UP SHFL_XOR SHFL_IDX ATOMIC_ADD ATOMIC_MIN UNROLL UNROLL_TWICE ROLLED MAY_ALIAS DEVICE
	SIM_INTERNAL TOKITAI_SIM INFINITE RENEW threadIdx blockIdx blockDim gridDim warpSize linux unix assert errno
	rows cols row_count column_count row_values column_lanes lanes lane_step padded totals_in totals_out total_count total_length refused pad`)

// identifier makes a name of C++ from one of a definition.
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

// uniqueIdentifiers are identifiers for names, no two alike. A name with a suffix
// that the generator adds is taken when the name is.
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

// typeName is the type of a node's value in C++.
func typeName(t def.Type) string { return [...]string{"float", "i32", "bool"}[t] }

// floatText is a binary32 constant, exactly.
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

func intText(v int32) string {
	switch {
	case v == math.MinInt32:
		return "(-2147483647 - 1)"
	case v < 0:
		return fmt.Sprintf("(%d)", v)
	}
	return fmt.Sprint(v)
}

// name is the variable of a node's value; values with an expression of their own
// have none.
func name(n *def.Node) string {
	if n.Name != "" && n.Op != def.OpCol && n.Op != def.OpColFloat {
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

// value is how an expression refers to a node.
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

func (k *rowwise) storage(s def.Storage) num.DType {
	if s.Of != "" {
		return k.dtypes[k.d.Operand(s.Of)]
	}
	return s.Fixed
}

// expression is what a node with arguments computes, reductions excepted.
func (k *rowwise) expression(n *def.Node) string {
	a := make([]any, len(n.Args))
	for i, arg := range n.Args {
		a[i] = k.value(arg)
	}
	switch n.Op {
	case def.OpRound:
		return fmt.Sprintf("round_%s(%s)", k.storage(n.Storage), a[0])
	case def.OpSRound:
		return fmt.Sprintf("sround_%s(%s, %s)", k.storage(n.Storage), a[0], a[1])
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

// clamp names the function that holds a value at a constant, if that is what a selection
// does: x < c ? c : x, or c < x ? c : x.
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
	def.OpIAdd: "int_add(%s, %s)", def.OpISub: "int_sub(%s, %s)", def.OpIAnd: "%s & %s", def.OpIOr: "%s | %s",
	def.OpShl: "shift_left(%s, %s)", def.OpShr: "shift_right(%s, %s)",
}

// declare writes a node's value as a constant of the current scope.
func (k *rowwise) declare(s *text, n *def.Node, expression string) {
	s.line("const %s %s = %s;", typeName(n.Type), name(n), expression)
}

// groupType is the type of eight elements in storage.
func groupType(d num.DType) string { return fmt.Sprintf("Group%d", 8*d.Size()) }

// fetch reads a group of an operand.
func (k *rowwise) fetch(d num.DType, at, n string) string {
	return fmt.Sprintf("fetch%d%s(%s, %s)", 8*d.Size(), k.suffix(), at, n)
}

// put narrows and stores a group of results of an operand.
func (k *rowwise) put(s *text, operand int, at, n string) {
	d := k.dtypes[operand]
	s.line("put%d%s(%s, %s, group_%s(%s_out));", 8*d.Size(), k.suffix(), at, n, d, k.operands[operand])
}

func (k *rowwise) suffix() string {
	if k.variant == Vector {
		return "_vector"
	}
	return ""
}

// load reads one element of an operand.
func (k *rowwise) load(operand int, at string) string {
	if k.dtypes[operand] == num.I32 {
		return fmt.Sprintf("p.%s[%s]", k.operands[operand], at)
	}
	return fmt.Sprintf("load_%s(p.%s + %s)", k.dtypes[operand], k.operands[operand], at)
}

// store writes one element of an operand.
func (k *rowwise) store(operand int, at, value string) string {
	return fmt.Sprintf("store_%s(p.%s + %s, %s);", k.dtypes[operand], k.operands[operand], at, value)
}
