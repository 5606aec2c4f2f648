package valu

import (
	"math"
	"math/rand/v2"
	"testing"

	"tokitai/amdgpu/isa"
)

// divide divides as LLVM does for AMD's GPUs: by a reciprocal and Newton steps, between
// v_div_scale_f32 and v_div_fixup_f32.
func divide(t *testing.T, family isa.Family, seed uint64, n, d uint32) uint32 {
	t.Helper()
	op := func(name string, carry bool, operands ...uint32) (uint32, bool) {
		o, _ := Lookup(family, name)
		f, err := o.Bind(&isa.Instruction{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		var v [3]Register
		var r Register
		c := Call{Lanes: 32, Mode: plainMode, Seed: seed, Result: [2]*Register{&r}}
		if carry {
			c.In = 1
		}
		for k, x := range operands {
			v[k][0] = x
			c.Source[k][0] = &v[k]
		}
		f(&c)
		return r[0], c.Out&1 != 0
	}
	const one, sign = 0x3f800000, 1 << 31
	ds, _ := op("v_div_scale_f32", false, d, d, n)
	ns, scaled := op("v_div_scale_f32", false, n, d, n)
	rcp, _ := op("v_rcp_f32", false, ds)
	e, _ := op("v_fma_f32", false, ds^sign, rcp, one)
	rcp, _ = op("v_fma_f32", false, e, rcp, rcp)
	q, _ := op("v_mul_f32", false, ns, rcp)
	e, _ = op("v_fma_f32", false, ds^sign, q, ns)
	q, _ = op("v_fma_f32", false, e, rcp, q)
	e, _ = op("v_fma_f32", false, ds^sign, q, ns)
	q, _ = op("v_div_fmas_f32", scaled, e, rcp, q)
	q, _ = op("v_div_fixup_f32", false, q, d, n)
	return q
}

// isQuotient reports whether q is n/d, correctly rounded.
func isQuotient(q, n, d uint32) bool {
	want := math.Float32frombits(n) / math.Float32frombits(d)
	if want != want {
		return single.isNaN(uint64(q))
	}
	return q == math.Float32bits(want)
}

// TestDivision checks that LLVM's division is correctly rounded, whichever reciprocal within
// AMD's error a seed chooses, but for a denominator whose significand is all ones
// (TestDivisionDependsOnReciprocal).
func TestDivision(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	special := specials(F32)
	for label, family := range families {
		for i := range 4000 {
			n, d := uint32(randomOf(r, F32)), uint32(randomOf(r, F32))
			if i < len(special)*len(special) {
				n, d = uint32(special[i%len(special)]), uint32(special[i/len(special)])
			}
			if d&0x7fffff == 0x7fffff {
				continue
			}
			seed := uint64(i % 3)
			if q := divide(t, family, seed, n, d); !isQuotient(q, n, d) {
				t.Fatalf("%s: %#x / %#x with seed %d: got %#x", label, n, d, seed, q)
			}
		}
	}
}

// TestDivisionDependsOnReciprocal checks that a seed finds a result that rests on more than AMD
// documents: LLVM's reciprocal of a number whose significand is all ones is right with the
// nearest v_rcp_f32, and wrong with its neighbour.
func TestDivisionDependsOnReciprocal(t *testing.T) {
	const n, d = 0x3f800000, 0x3fffffff
	if q := divide(t, isa.GFX11, 0, n, d); !isQuotient(q, n, d) {
		t.Fatalf("%#x / %#x with the nearest reciprocal: got %#x", n, d, q)
	}
	for seed := range uint64(64) {
		if q := divide(t, isa.GFX11, seed, n, d); !isQuotient(q, n, d) {
			return
		}
	}
	t.Error("no seed gave a wrong quotient")
}
