package prove

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"tokitai/def"
)

// Hash returns the SHA-256 of a function's text, which is its identity.
func Hash(f *def.Function) string {
	sum := sha256.Sum256([]byte(f.Text()))
	return hex.EncodeToString(sum[:])
}

// expansion is the graph of a function, with a name for every computed node.
type expansion struct {
	nodes []*def.Node
	names map[*def.Node]string
	out   *def.Node
}

func expand(f *def.Function) *expansion {
	g := f.Expansion()
	e := &expansion{nodes: g.Nodes, names: map[*def.Node]string{}, out: g.Outputs[0].Value}
	unnamed := 0
	for _, n := range g.Nodes {
		switch {
		case n.Op == def.OpArg:
			e.names[n] = "x"
		case len(n.Args) > 0 && n.Name != "":
			e.names[n] = n.Name
		case len(n.Args) > 0:
			unnamed++
			e.names[n] = fmt.Sprintf("t%d", unnamed)
		}
	}
	return e
}

// coq returns the Coq term of a node's value as an argument: a name applied to x, or a constant.
func (e *expansion) coq(n *def.Node) string {
	switch n.Op {
	case def.OpArg:
		return "x"
	case def.OpConst:
		if isSpecial(n) {
			return "special"
		}
		return realText(n.Real.F32())
	case def.OpInt:
		return fmt.Sprintf("(%d)%%Z", n.Int)
	}
	return e.names[n]
}

// realText returns a binary32 as a quotient of integers.
func realText(c float32) string {
	r, _ := new(big.Float).SetFloat64(float64(c)).Rat(nil)
	text := r.Num().String()
	if !r.IsInt() {
		text += " / " + r.Denom().String()
	}
	if r.IsInt() && r.Sign() >= 0 {
		return text
	}
	return "(" + text + ")"
}

// isSpecial reports whether n is a constant that is no number.
func isSpecial(n *def.Node) bool {
	if n.Op != def.OpConst {
		return false
	}
	c := n.Real.F32()
	return c-c != 0
}

// body returns the Coq term that computes a node from its arguments.
func (e *expansion) body(n *def.Node) (string, error) {
	var a [3]string
	for i, arg := range n.Args {
		a[i] = e.coq(arg)
		switch {
		case !isSpecial(arg) || n.Op == def.OpSelect && i > 0:
		case n.Op == def.OpLess && i == 1 && math.IsInf(float64(arg.Real.F32()), 1):
			return "true", nil // the theorems are about numbers
		default:
			return "", fmt.Errorf("%s has a constant that is no number", e.names[n])
		}
	}
	switch n.Op {
	case def.OpAdd:
		return fmt.Sprintf("rnd (%s + %s)", a[0], a[1]), nil
	case def.OpSub:
		return fmt.Sprintf("rnd (%s - %s)", a[0], a[1]), nil
	case def.OpMul:
		return fmt.Sprintf("rnd (%s * %s)", a[0], a[1]), nil
	case def.OpDiv:
		return fmt.Sprintf("rnd (%s / %s)", a[0], a[1]), nil
	case def.OpSqrt:
		return fmt.Sprintf("rnd (sqrt %s)", a[0]), nil
	case def.OpFMA:
		return fmt.Sprintf("rnd (%s * %s + %s)", a[0], a[1], a[2]), nil
	case def.OpNeg:
		return "- " + a[0], nil
	case def.OpAbs:
		return "Rabs " + a[0], nil
	case def.OpMax:
		return fmt.Sprintf("Rmax %s %s", a[0], a[1]), nil
	case def.OpLess:
		return fmt.Sprintf("Rlt_bool %s %s", a[0], a[1]), nil
	case def.OpEqual:
		if n.Args[0].Op == def.OpInt || n.Args[1].Op == def.OpInt {
			return fmt.Sprintf("Z.eqb %s %s", a[0], a[1]), nil
		}
		return fmt.Sprintf("Req_bool %s %s", a[0], a[1]), nil
	case def.OpLessEqual:
		return fmt.Sprintf("Rle_bool %s %s", a[0], a[1]), nil
	case def.OpSelect:
		return fmt.Sprintf("if %s then %s else %s", a[0], a[1], a[2]), nil
	case def.OpBits:
		return "bits " + a[0], nil
	case def.OpFloat:
		return "float " + a[0], nil
	case def.OpIToF:
		return fmt.Sprintf("rnd (IZR %s)", a[0]), nil
	case def.OpIAdd:
		return fmt.Sprintf("iadd %s %s", a[0], a[1]), nil
	case def.OpISub:
		return fmt.Sprintf("isub %s %s", a[0], a[1]), nil
	case def.OpShl:
		return fmt.Sprintf("shl %s %s", a[0], a[1]), nil
	case def.OpShr:
		return fmt.Sprintf("shr %s %s", a[0], a[1]), nil
	}
	return "", fmt.Errorf("%s is %s, which the scripts do not know", e.names[n], n.Op)
}

// definitions returns a Coq definition per node, as functions of x, and the function itself.
func (e *expansion) definitions(name string) (string, error) {
	var s strings.Builder
	s.WriteString("Section Nodes.\nVariable x : R.\n")
	if slices.ContainsFunc(e.nodes, isSpecial) {
		s.WriteString("Variable special : R. (* the results that are no numbers: the theorem does not reach them *)\n")
	}
	for _, n := range e.nodes {
		if len(n.Args) == 0 {
			continue
		}
		body, err := e.body(n)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&s, "Definition %s := %s.\n", e.names[n], body)
	}
	fmt.Fprintf(&s, "Definition %s := %s.\nEnd Nodes.\n", name, e.names[e.out])
	return s.String(), nil
}
