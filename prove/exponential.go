package prove

import (
	"fmt"
	"math"
	"strings"

	_ "embed"

	"tokitai/def"
)

// exponential is what the scripts of exponentials know about one: the values of its template.
type exponential struct {
	Name, Hash, Text, Nodes string

	Argument                             string // x, or x between the bounds
	T, N, First, R, P, S, Magic, Product string // names of nodes

	ScaleText, HiText, LoText string // log2 e; ln 2 in two parts
	HiUnits                   int64  // the first part in units of 2^-25

	Near                                     string // bound of |R|
	Within                                   string // bound of |r|
	Parts                                    string // bound of what the two parts of ln 2 leave
	Method                                   string // bound of the polynomial's relative error
	Ulps, Subnormal                          string
	Bias                                     int // p is near 2^-Bias times the exponential
	BiasPower                                string
	Exact, Unfold                            string
	Below, Above                             string // tactics
	AboveButLast                             string
	Errors                                   string
	Cases                                    []exponentialCase
	Low, High                                string // of the domain
	IsClamped, IsEvery                       bool
	Unbias, Negative, Last, Shifted, Pattern string // names of nodes
	IsTwo                                    bool   // 2^x, not e^x
	Of, OfX, OfLow                           string // the exponential of the argument, of x and of the lower bound
	ArgumentNodes, Symbol                    string
	domain                                   def.Domain
}

// exponentialCase is one of the ranges of arguments that have a magic number of their own.
type exponentialCase struct {
	Suffix, Low, High string
	Magic             int64
	KMin, KMax        int64
	Field             int64  // k + Field is the exponent field of s
	Unbias            string // the last factor, empty if there is none
	UnbiasPower       int
}

//go:embed exponential.v.tmpl
var exponentialText string

var exponentialTemplate = lazily("exponential", exponentialText)

// claims are the bounds that a script of an exponential claims, as decimals. They are as tight
// as the proofs allow: one bit more in a constant breaks one of them.
type claims struct {
	near, within, method string
	parts                string // |ln 2 less its two parts|
	ulps, subnormal      string
	symbol               string
}

func exponentialScript(f *def.Function, c claims) (string, error) {
	e := expand(f)
	v := &exponential{Name: f.Name, Hash: Hash(f), Text: f.Text(),
		Near: c.near, Parts: c.parts, Within: c.within, Method: c.method, Ulps: c.ulps, Subnormal: c.subnormal, domain: f.Domain, Symbol: c.symbol}
	if err := v.match(e); err != nil {
		return "", fmt.Errorf("function %s: its expansion is not that of the exponentials: %w", f.Name, err)
	}
	var err error
	if v.Nodes, err = e.definitions(f.Name + "_f32"); err != nil {
		return "", fmt.Errorf("function %s: %w", f.Name, err)
	}
	var s strings.Builder
	err = exponentialTemplate().Execute(&s, v)
	return s.String(), err
}

// isOp reports whether n computes op, and from the given arguments where they are not nil.
func isOp(n *def.Node, op def.Op, args ...*def.Node) bool {
	if n == nil || n.Op != op {
		return false
	}
	for i, a := range args {
		if a != nil && n.Args[i] != a {
			return false
		}
	}
	return true
}

func isInt(n *def.Node, v int32) bool { return n.Op == def.OpInt && n.Int == v }

// match finds the parts of the expansion.
func (v *exponential) match(e *expansion) error {
	product, unbias := e.out, (*def.Node)(nil)
	if isOp(product, def.OpMul) && isOp(product.Args[1], def.OpSelect) {
		product, unbias = product.Args[0], product.Args[1]
	}
	if !isOp(product, def.OpMul) || !isOp(product.Args[1], def.OpFloat) {
		return fmt.Errorf("%s is no product with a power of two", e.names[product])
	}
	p, s := product.Args[0], product.Args[1]
	shifted := s.Args[0]
	if !isOp(shifted, def.OpShl) || !isInt(shifted.Args[1], 23) || !isOp(shifted.Args[0], def.OpBits) {
		return fmt.Errorf("%s is not made from an exponent field", e.names[s])
	}
	t := shifted.Args[0].Args[0]
	h, err := hornerAt(p)
	if err != nil {
		return fmt.Errorf("%s: %w", e.names[p], err)
	}
	r := h.of
	v.T, v.R, v.P, v.S = e.names[t], e.names[r], e.names[p], e.names[s]
	v.Product, v.Last, v.Shifted, v.Pattern = e.names[product], e.names[e.out], e.names[shifted], e.names[shifted.Args[0]]
	if err := v.polynomial(e, h); err != nil {
		return err
	}
	if isOp(t, def.OpAdd) && isOp(r, def.OpSub, t.Args[0]) && isOp(r.Args[1], def.OpSub, t, t.Args[1]) {
		v.IsTwo, v.N = true, e.names[r.Args[1]]
		v.argument(e, t.Args[0])
		return v.cases(e, t.Args[0], t.Args[1], unbias, 1)
	}
	if !isOp(t, def.OpFMA) || t.Args[1].Op != def.OpConst {
		return fmt.Errorf("%s is no product with log2 e, rounded to an integer", e.names[t])
	}
	x, magic := t.Args[0], t.Args[2]
	if !isOp(r, def.OpFMA) || !isOp(r.Args[0], def.OpSub, t, magic) || r.Args[1].Op != def.OpConst ||
		!isOp(r.Args[2], def.OpFMA, r.Args[0], nil, x) || r.Args[2].Args[1].Op != def.OpConst {
		return fmt.Errorf("%s is not the argument less a multiple of ln 2 in two parts", e.names[r])
	}
	first := r.Args[2]
	scale, hi, lo := t.Args[1].Real.F32(), first.Args[1].Real.F32(), r.Args[1].Real.F32()
	v.N, v.First = e.names[r.Args[0]], e.names[first]
	v.argument(e, x)
	v.ScaleText, v.HiText, v.LoText = realText(scale), realText(hi), realText(lo)
	v.HiUnits = -int64(math.Ldexp(float64(hi), 25))
	if math.Ldexp(float64(-v.HiUnits), -25) != float64(hi) {
		return fmt.Errorf("%v has more than 25 bits after the point", hi)
	}
	return v.cases(e, x, magic, unbias, float64(scale))
}

// argument sets the names of the argument between its bounds.
func (v *exponential) argument(e *expansion, x *def.Node) {
	v.Argument = "x"
	if x.Op != def.OpArg {
		v.Argument = "(" + e.names[x] + " x)"
	}
}

// polynomial sets what depends on the polynomial.
func (v *exponential) polynomial(e *expansion, h *horner) error {
	_, exponent := math.Frexp(float64(h.coefficients[0]))
	v.Bias = 1 - exponent
	v.BiasPower = power(v.Bias)
	v.Exact, v.Unfold, v.Errors = h.exact(), h.unfold(e), errorsOf(len(h.nodes))
	var within float64
	if _, err := fmt.Sscan(v.Within, &within); err != nil {
		return err
	}
	below, above := h.exponents(-within, 0), h.exponents(0, within)
	v.Below, v.Above, v.AboveButLast = roundings(below), roundings(above), roundings(above[:len(above)-1])
	return nil
}

// cases finds the bounds of the argument, and the magic number and the last factor of each.
func (v *exponential) cases(e *expansion, x, magic, unbias *def.Node, scale float64) error {
	lo, hi := math.Inf(-1), math.Inf(1)
	for n := x; n.Op == def.OpSelect; {
		v.ArgumentNodes = strings.TrimPrefix(v.ArgumentNodes+", "+e.names[n]+", "+e.names[n.Args[0]], ", ")
		less := n.Args[0]
		if !isOp(less, def.OpLess) {
			return fmt.Errorf("%s is no bound", e.names[n])
		}
		switch {
		case isOp(less, def.OpLess, n.Args[2], n.Args[1]) && n.Args[1].Op == def.OpConst:
			lo = float64(n.Args[1].Real.F32())
		case isOp(less, def.OpLess, n.Args[1], n.Args[2]) && n.Args[1].Op == def.OpConst:
			hi = float64(n.Args[1].Real.F32())
		default:
			return fmt.Errorf("%s is no bound", e.names[n])
		}
		n = n.Args[2]
	}
	v.IsClamped, v.IsEvery = !math.IsInf(lo, 0), !math.IsInf(hi, 0)
	if d := v.domain; d != def.EveryX {
		lo, hi = max(lo, d.Low), min(hi, d.High)
	}
	if math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		return fmt.Errorf("%s has no bounds", e.names[x])
	}
	v.Low, v.High = realText(float32(lo)), realText(float32(hi))
	v.Of, v.OfX, v.OfLow = "exp "+v.Argument, "exp x", "exp "+v.Low
	if v.IsTwo {
		v.Of, v.OfX, v.OfLow = "exp ("+v.Argument+" * ln 2)", "exp (x * ln 2)", "exp ("+v.Low+" * ln 2)"
	}
	isNegative := (*def.Node)(nil)
	if magic.Op == def.OpSelect {
		isNegative = magic.Args[0]
	}
	switch {
	case magic.Op == def.OpConst && unbias == nil:
		return v.addCase("", lo, hi, magic, nil, scale)
	case isOp(isNegative, def.OpLess) && isNegative.Args[0].Op == def.OpArg && isConst(isNegative.Args[1], 0) &&
		unbias != nil && unbias.Args[0] == isNegative:
		v.Magic, v.Unbias, v.Negative = e.names[magic], e.names[unbias], e.names[isNegative]
		if err := v.addCase("_negative", lo, 0, magic.Args[1], unbias.Args[1], scale); err != nil {
			return err
		}
		return v.addCase("_positive", 0, hi, magic.Args[2], unbias.Args[2], scale)
	}
	return fmt.Errorf("its magic number is neither a constant nor chosen by the sign of the argument")
}

func isConst(n *def.Node, c float32) bool { return n.Op == def.OpConst && n.Real.F32() == c }

// addCase adds a range of arguments with its magic number and last factor.
func (v *exponential) addCase(suffix string, lo, hi float64, magic, unbias *def.Node, scale float64) error {
	if magic.Op != def.OpConst || unbias != nil && unbias.Op != def.OpConst {
		return fmt.Errorf("its magic number is not a constant")
	}
	m := int64(magic.Real.F32())
	c := exponentialCase{Suffix: suffix, Low: realText(float32(lo)), High: realText(float32(hi)), Magic: m, Field: m & 511,
		KMin: int64(math.Ceil(lo*scale - 0.5)), KMax: int64(math.Floor(hi*scale + 0.5))}
	if unbias != nil {
		c.Unbias = realText(unbias.Real.F32())
		_, exponent := math.Frexp(float64(unbias.Real.F32()))
		c.UnbiasPower = exponent - 1
	}
	v.Cases = append(v.Cases, c)
	return nil
}
