package docs_test

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/num"
)

// TestProveModels lets Coq compute with the models in the proofs, and compares them with the code:
// a theorem is about what runs only if its model is.
func TestProveModels(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "Coq computes for many seconds")
	tool.Need(t, "coqc")
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	cases := map[string][]string{"MMA": tinySteps()}
	for len(cases["MMA"]) < 60 {
		if c := randomStep(random); c != "" {
			cases["MMA"] = append(cases["MMA"], c)
		}
	}
	for n := 1; n <= 40; n++ {
		cases["Tree"] = append(cases["Tree"], treeCase(n))
	}
	for pattern := uint32(0); pattern < 1<<16; pattern += 1 + random.Uint32N(1<<11) {
		if v := float64(num.Widen(num.F16, pattern)); v-v == 0 {
			cases["Exact"] = append(cases["Exact"], fmt.Sprintf("units {| negative := %t; exponent := %d; fraction := %d |} = %d",
				pattern>>15 != 0, pattern>>10&31, pattern&0x3ff, int64(v*0x1p24)))
		}
	}
	folder := copyOfProofs(t)
	for _, name := range testlevel.Pick([]string{"Tree"}, []string{"Tree", "Exact", "MMA"}) {
		list := cases[name]
		write(t, filepath.Join(folder, "proofs", name+".v"), readText(t, "../proofs/"+name+".v"))
		var text strings.Builder
		fmt.Fprintf(&text, "From Coq Require Import List ZArith.\nFrom Tokitai Require Import %s.\nImport ListNotations.\nOpen Scope Z_scope.\n", name)
		for i, c := range list {
			fmt.Fprintf(&text, "Lemma case%d : %s.\nProof. vm_compute. reflexivity. Qed.\n", i, c)
		}
		write(t, filepath.Join(folder, "proofs", name+"Cases.v"), text.String())
	}
	if output, status := prove(t, folder); status != 0 {
		t.Errorf("a model does not compute what the code computes: status %d\n%s", status, output)
	}
}

// randomStep returns a random step of a tensor core as stepCase writes it.
func randomStep(random *rand.Rand) string {
	models := []struct {
		num.MMA
		dtypes []num.DType
	}{
		{num.MMA{L: 16, F: 25}, []num.DType{num.F16, num.BF16}},
		{num.MMA{L: 8, F: 24}, []num.DType{num.F16, num.BF16}},
		{num.MMA{L: 4, F: 23}, []num.DType{num.F16}},
		{num.MMA{L: 32, F: 13, R: 13}, []num.DType{num.E4M3, num.E5M2}},
	}
	m := models[random.IntN(len(models))]
	d := m.dtypes[random.IntN(len(m.dtypes))]
	_, _, width := formatOf(d)
	n := random.IntN(m.L + 1)
	a, b := make([]uint32, n), make([]uint32, n)
	for i := range a {
		a[i], b[i] = finite(random, d, width), finite(random, d, width)
		if random.IntN(4) == 0 {
			b[i] &= 1 << (width - 1) // a zero
		}
	}
	acc := float32(0)
	if random.IntN(4) > 0 {
		acc = math.Float32frombits(finite(random, num.F32, 32))
	}
	if random.IntN(2) == 0 && d != num.BF16 { // near the products
		acc = float32(math.Ldexp(float64(random.Int32N(1<<24))-1<<23, random.IntN(12)-28))
	}
	return stepCase(m.MMA, d, a, b, acc)
}

// tinySteps returns steps of products around the least alignment, at which it shows: the sum of 15
// products of 39·2^-158 is a binary32 number if it is -133, and zero if it is greater.
func tinySteps() []string {
	tiny := func(n int, x, y uint32) string {
		return stepCase(num.MMA{L: 16, F: 25}, num.BF16, slices.Repeat([]uint32{x}, n), slices.Repeat([]uint32{y}, n), 0)
	}
	return []string{tiny(15, 51<<7|28, 50<<7), tiny(16, 49<<7|127, 48<<7|127), tiny(1, 52<<7|1, 52<<7|1)}
}

// stepCase returns a step of a tensor core as MMA.v writes it, and its result in units of 2^-149,
// or "" if that is infinite.
func stepCase(m num.MMA, d num.DType, a, b []uint32, acc float32) string {
	r := m.Step(d, a, b, acc)
	if math.IsInf(float64(r), 0) {
		return ""
	}
	fraction, least, _ := formatOf(d)
	var products []string
	for i := range a {
		sa, ea := split(float64(num.Widen(d, a[i])), fraction, least)
		sb, eb := split(float64(num.Widen(d, b[i])), fraction, least)
		products = append(products, fmt.Sprintf("{| significand := %d; exponent := %d |}", sa*sb, ea+eb))
	}
	s, e := split(float64(acc), 23, -126)
	result, _ := new(big.Float).SetMantExp(big.NewFloat(float64(r)), 149).Int(nil)
	return fmt.Sprintf("(let (kept, last) := step %d %d %d {| significand := %d; exponent := %d |} [%s] in kept * 2 ^ (last + 149)) = %v",
		m.F, cmp.Or(m.R, 23), 2*fraction, s, e, strings.Join(products, "; "), result)
}

func formatOf(d num.DType) (fraction, least, width int) {
	switch d {
	case num.F16:
		return 10, -14, 16
	case num.BF16:
		return 7, -126, 16
	case num.E4M3:
		return 3, -6, 8
	}
	return 2, -14, 8 // E5M2
}

// finite returns a random finite pattern of so many bits.
func finite(random *rand.Rand, d num.DType, width int) uint32 {
	for {
		pattern := uint32(random.Uint64() >> (64 - width))
		if v := num.Widen(d, pattern); v-v == 0 {
			return pattern
		}
	}
}

// split writes x as s·2^(e-fraction), e its exponent or the least one.
func split(x float64, fraction, least int) (s int64, e int) {
	if x == 0 {
		return 0, least
	}
	_, e = math.Frexp(x)
	e = max(e-1, least)
	return int64(math.Ldexp(x, fraction-e)), e
}

// treeCase returns how def.Fold adds n lanes, each sum in brackets, which are the numbers -1 and -2.
func treeCase(n int) string {
	lanes := make([][]int, n)
	var terms []string
	for i := range lanes {
		lanes[i] = []int{i}
		terms = append(terms, fmt.Sprintf("[%d]", i))
	}
	sum := def.Fold(def.Order{Kind: def.Lanes, Width: n}, lanes, func(a, b []int) []int {
		return append(append(append([]int{-1}, a...), b...), -2)
	})
	return fmt.Sprintf("tree _ [] (fun a b => -1 :: a ++ b ++ [-2]) [%s] = [%s]", strings.Join(terms, "; "), strings.Join(strings.Fields(fmt.Sprint(sum)[1:len(fmt.Sprint(sum))-1]), "; "))
}
