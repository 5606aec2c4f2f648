package def

import (
	"fmt"
	"regexp"
	"strconv"

	"tokitai/num"
)

// Accum is the accumulation rule of a contraction: how the products of one element are
// added up, to the bit. A lowering declares it; the reference computes it.
//
//	fma             acc = fma(a_k, b_k, acc), k ascending, from the old result or +0
//	mma(L,F)        steps of L products on a tensor core, as num.MMA describes them
//	mma(L,F,R)      the same, with results of R fractional bits
//	panels(m,P)     the sum is cut into P panels, each a sum of rule m (below)
//
// A sum of K products in P panels, P a power of two, has panels of
//
//	S = K/P, rounded up, and then up to a multiple of 64
//
// products: panel i covers k from i·S up to (i+1)·S, so that the last ones may be short
// or empty. Each panel is a sum of the inner rule from +0, in binary32. The panels' sums
// are added as neighbours in a binary tree, s[i] = s[2i] + s[2i+1], where an empty panel
// adds nothing; an old result is added last. The panels can be computed by different
// cores, blocks or machines, and the bits stay the same.
//
// The zero Accum is fma. Rules are comparable; each has one value.
type Accum struct {
	L, F int // of a tensor core's steps; 0 for fma
	R    int // fractional bits of a step's result; 0 for those of binary32
	P    int // the number of panels; 0 without
}

// FMAChain is the rule that every device offers.
var FMAChain = Accum{}

// MMA returns the rule of a tensor core that adds l products at a time and keeps f
// fractional bits.
func MMA(l, f int) Accum { return Accum{L: l, F: f} }

// Panels returns the rule that divides the sum into p panels of the inner rule.
func Panels(inner Accum, p int) Accum {
	inner.P = p
	return inner
}

// PanelUnit divides the number of products in every panel but the last.
const PanelUnit = 64

// maxPanels keeps a tree of panel sums small.
const maxPanels = 1 << 16

// Narrow returns m with r fractional bits in the result of each step.
func (m Accum) Narrow(r int) Accum {
	m.R = r
	return m
}

// String returns the rule's name: fma, mma(16,25), mma(32,13,13), panels(fma,8).
func (m Accum) String() string {
	if m.P != 0 {
		return fmt.Sprintf("panels(%s,%d)", m.Inner(), m.P)
	}
	if m == FMAChain {
		return "fma"
	}
	return m.MMA().String()
}

// MMA returns the steps of a tensor core's rule.
func (m Accum) MMA() num.MMA { return num.MMA{L: m.L, F: m.F, R: m.R} }

var (
	panelsForm = regexp.MustCompile(`^panels\((.+),([0-9]+)\)$`)
	mmaForm    = regexp.MustCompile(`^mma\(([0-9]+),([0-9]+)(?:,([0-9]+))?\)$`)
)

// ParseAccum parses the name of a rule. It is the inverse of [Accum.String].
func ParseAccum(s string) (Accum, error) {
	var m Accum
	inner := s
	if part := panelsForm.FindStringSubmatch(s); part != nil {
		inner = part[1]
		m.P, _ = strconv.Atoi(part[2])
	}
	if part := mmaForm.FindStringSubmatch(inner); part != nil {
		m.L, _ = strconv.Atoi(part[1])
		m.F, _ = strconv.Atoi(part[2])
		m.R, _ = strconv.Atoi(part[3])
	}
	if m.String() != s { // also where a number is out of range or written in another way
		return Accum{}, fmt.Errorf("accumulation rule %q, want fma, mma(L,F), mma(L,F,R) or panels(RULE,P), such as panels(mma(16,25),8)", s)
	}
	return m, m.Check()
}

// Check returns an error if the rule is invalid.
func (m Accum) Check() error {
	switch {
	case m.P < 0 || m.P > maxPanels || m.P&(m.P-1) != 0:
		return fmt.Errorf("rule %s has %d panels, want a power of two up to %d", m, m.P, maxPanels)
	case m.R < 0 || m.R > 23 || m.R != 0 && m.L == 0:
		return fmt.Errorf("rule %s has results of %d fractional bits, want a tensor core's and 1 to 23, or none for 23", m, m.R)
	case m.Inner() != FMAChain && (m.L < 1 || m.L > 32 || m.F < 1 || m.F > 32):
		return fmt.Errorf("rule %s has steps of %d products and %d fractional bits, want 1 to 32 of each", m, m.L, m.F)
	}
	return nil
}

// Takes returns an error if the rule is invalid or cannot multiply factors stored in d:
// those of tensor cores multiply f16, bf16 and FP8.
func (m Accum) Takes(d num.DType) error {
	if err := m.Check(); err != nil {
		return err
	}
	if m.Inner() != FMAChain && (!d.IsFloat() || d == num.F32) {
		return fmt.Errorf("rule %s takes f16, bf16, e4m3 or e5m2, got %s", m, d)
	}
	return nil
}

// Inner returns the rule of a panel, or m itself where there are no panels.
func (m Accum) Inner() Accum { return Accum{L: m.L, F: m.F, R: m.R} }

// PanelDepth returns how many products a panel of a sum of k has; the last ones may have
// fewer. Without panels it returns k.
func (m Accum) PanelDepth(k int) int {
	if m.P == 0 {
		return k
	}
	s := (k + m.P - 1) / m.P
	return (s + PanelUnit - 1) / PanelUnit * PanelUnit
}
