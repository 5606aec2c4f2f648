package prove

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"tokitai/def"
)

// horner is a polynomial that a chain of FMAs evaluates: each node is the one before times
// the argument, plus a coefficient.
type horner struct {
	of           *def.Node   // the argument
	nodes        []*def.Node // in the order of evaluation
	coefficients []float32   // of ascending powers
}

// hornerAt returns the polynomial that ends in n.
func hornerAt(n *def.Node) (*horner, error) {
	h := &horner{}
	for n.Op == def.OpFMA && n.Args[2].Op == def.OpConst {
		if h.of == nil {
			h.of = n.Args[1]
		}
		if n.Args[1] != h.of {
			break
		}
		h.nodes = append([]*def.Node{n}, h.nodes...)
		h.coefficients = append(h.coefficients, n.Args[2].Real.F32())
		n = n.Args[0]
	}
	if n.Op != def.OpConst || len(h.nodes) == 0 {
		return nil, fmt.Errorf("want a polynomial, a chain of FMAs with constants")
	}
	h.coefficients = append(h.coefficients, n.Real.F32())
	return h, nil
}

// exact returns the polynomial of r as a Coq term, without roundings.
func (h *horner) exact() string {
	s := realText(h.coefficients[len(h.coefficients)-1])
	for k := len(h.coefficients) - 2; k >= 0; k-- {
		s = fmt.Sprintf("(%s * r + %s)", s, realText(h.coefficients[k]))
	}
	return s
}

// unfold returns the names of the nodes, for Coq's unfold.
func (h *horner) unfold(e *expansion) string {
	var names []string
	for i := len(h.nodes) - 1; i >= 0; i-- {
		names = append(names, e.names[h.nodes[i]])
	}
	return strings.Join(names, ", ")
}

// exponents returns, for each node and lo <= r <= hi, the least k with |value| <= 2^k, which
// Coq proves again.
func (h *horner) exponents(lo, hi float64) (list []int) {
	last := float64(h.coefficients[len(h.coefficients)-1])
	low, high := last, last
	for k := len(h.coefficients) - 2; k >= 0; k-- {
		products := []float64{low * lo, low * hi, high * lo, high * hi}
		low, high = products[0], products[0]
		for _, p := range products[1:] {
			low, high = min(low, p), max(high, p)
		}
		c := float64(h.coefficients[k])
		low, high = low+c, high+c
		list = append(list, exponentOf(max(-low, high)))
	}
	return list
}

// exponentOf returns the least k with v <= 2^k.
func exponentOf(v float64) int {
	fraction, exponent := math.Frexp(v)
	if fraction == 0.5 {
		exponent--
	}
	return exponent
}

// roundings returns the tactics that replace the roundings of all nodes, or of all but the
// last, by errors.
func roundings(exponents []int) string {
	var s strings.Builder
	for _, k := range exponents {
		fmt.Fprintf(&s, "rounding (%d)%%Z. ", k)
	}
	return strings.TrimSpace(s.String())
}

// errors returns the sum of the errors that n roundings leave, by Horner's rule.
func errorsOf(n int) string {
	s := "e"
	for i := range n - 1 {
		s = fmt.Sprintf("(%s * r + e%d)", s, i)
	}
	return s
}

// power returns 2^k as a Coq term.
func power(k int) string {
	if k < 0 {
		return "/ " + power(-k)
	}
	return new(big.Int).Lsh(big.NewInt(1), uint(k)).String()
}
