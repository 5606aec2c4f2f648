package fn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"tokitai/def"
)

// tolerated are the constants that may move without harm, with the reason.
var tolerated = map[string]string{
	"exp 0":  "near zero either bias will do",
	"exp2 0": "near zero either bias will do",

	"log1p 1.8446744e+19": "any number from 2^56 to 2^126 will do",

	"erf 1.9046542e-09": "the exponential need not be good to the last bit",

	"recip 0.5": "the residual is below 4e-5, infinite or NaN",
}

// TestMutants multiplies and divides each constant of each expansion by 3, and demands
// that the tests of values and of a thin sample notice one of the two.
func TestMutants(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.f.Name, func(t *testing.T) {
			t.Parallel()
			if found := s.check(newProgram(s.f)); found != "" {
				t.Fatalf("the function itself: %s", found)
			}
			for i, n := range newProgram(s.f).nodes {
				name, up, down := mutants(n)
				if name == "" {
					continue
				}
				p := newProgram(s.f)
				fill(p.blocks[i], up)
				found := s.check(p)
				if found == "" {
					fill(p.blocks[i], down)
					found = s.check(p)
				}
				reason := tolerated[s.f.Name+" "+name]
				t.Logf("%-16s %s%s", name, found, reason)
				if (found == "") != (reason != "") {
					t.Errorf("constant %s moved: found %q, tolerated %q", name, found, reason)
				}
			}
		})
	}
}

// mutants gives the name of a constant and two patterns to put in its place.
func mutants(n *def.Node) (name string, up, down uint32) {
	switch n.Op {
	case def.OpInt:
		step := max(n.Int/2, 1) // of 0, too
		return fmt.Sprintf("%#08x", uint32(n.Int)), uint32(n.Int + 2*step), uint32(n.Int - step)
	case def.OpConst:
		c := n.Real.F32()
		a, b := c*3, c/3
		if c == 0 || c-c != 0 {
			a, b = 0.5, -0.5
		}
		return fmt.Sprint(c), math.Float32bits(a), math.Float32bits(b)
	}
	return "", 0, 0
}

// check runs a program against the stated values and a thin sample of the patterns,
// and says what it found wrong.
func (s *subject) check(p *program) string {
	for _, v := range s.values {
		p.argument()[0] = math.Float32bits(v.x)
		got, want := canonical(p.run()[0]), canonical(math.Float32bits(v.y))
		if got != want {
			return fmt.Sprintf("at %v got %v, want %v", v.x, math.Float32frombits(got), v.y)
		}
	}
	const stride = 1<<16 + 1
	r := s.measure(p, 0, stride, 1<<32/stride)
	switch {
	case r.wrong != "":
		return r.wrong
	case !(r.worst <= s.f.ULPs):
		return fmt.Sprintf("at %v error up to %.3g ulp, want at most %v", r.worstAt, r.worst, s.f.ULPs)
	}
	return ""
}

// TestExponentFieldMutant: putting the exponent into p's pattern instead of
// multiplying is tempting, right for every number, and wrong for some NaN.
func TestExponentFieldMutant(t *testing.T) {
	s := subjects[slices.Index(All, ExpBoundedFunction)]
	s.f = &def.Function{
		Name: "exp_exponent_field", Math: def.MathExp, ULPs: ExpBoundedFunction.ULPs,
		Expand: func(x def.Value) def.Value {
			magic := def.Const(roundMagic + 64)
			n := def.FMA(x, constant(log2e), magic)
			p, _ := expReduced(x, magic, 0)
			return p.Bits().IAdd(n.Bits().Shl(23)).Float().Mul(def.Const(0x1p-64))
		},
	}
	p := newProgram(s.f)
	for _, pattern := range []uint32{0x7fc00000, 0x7fffffff} {
		p.nan = pattern
		found := s.check(p)
		t.Logf("NaN %#08x: %s", pattern, found)
		if (found == "") != (pattern == 0x7fc00000) {
			t.Errorf("where NaN is %#08x: found %q", pattern, found)
		}
	}
}
