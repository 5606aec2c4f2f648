package verify_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/num/zpk"
	"tokitai/op/gemm"
	"tokitai/tensor"
	"tokitai/verify"
)

// int32Sums is a product of i8 whose int32 sums are the result.
var int32Sums = def.Must(def.Contraction("sums", def.ContractionForm{
	Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"N", "K"}, TransposeRight: true,
	Result: "C", ResultDims: []string{"M", "N"}, Factors: def.Only(num.I8), Ring: def.Ring{P: 2, K: 32},
}))

func zpkOf(t *testing.T, r def.Ring) *def.Definition {
	t.Helper()
	d, err := gemm.ZPKDefinitionOf(r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// multiplied returns random factors and their product, by a kernel of the CPU.
func multiplied(t *testing.T, d *def.Definition, m, n, k int) []num.Array {
	t.Helper()
	factors, result := num.I8, num.I32
	if d.Operands[0].DTypes.Allowed[0] == num.I64 {
		factors, result = num.I64, num.I64
	}
	right := num.NewArray(factors, k, n)
	if d.Product().TransposeRight {
		right = num.NewArray(factors, n, k)
	}
	list := []num.Array{num.NewArray(factors, m, k), right, num.NewArray(result, m, n)}
	random := rand.New(rand.NewPCG(1, 2))
	for _, a := range list[:2] {
		for i := range a.Data {
			a.Data[i] = byte(random.Uint32())
		}
	}
	tensors := make([]*tensor.Tensor, len(list))
	for i, a := range list {
		var err error
		if tensors[i], err = tensor.FromBytes(cpu.Queue().Device(), a.DType, a.Data, a.Rows, a.Cols); err != nil {
			t.Fatal(err)
		}
	}
	if err := engine.Call(cpu.Queue(), d, tensors, nil); err != nil {
		t.Fatal(err)
	}
	raw, err := tensors[2].Bytes()
	if err != nil {
		t.Fatal(err)
	}
	copy(list[2].Data, raw)
	return list
}

// TestFreivaldsFindsOneElement checks that one element of a product of 1024×1024 that is off by a
// multiple of p^(k-1), the error that is missed most easily, is found, and only its row; and so is
// an element that is not a least residue.
func TestFreivaldsFindsOneElement(t *testing.T) {
	t.Parallel()
	for _, d := range []*def.Definition{int32Sums, zpkOf(t, def.Ring{P: 3, K: 39}), zpkOf(t, def.Ring{P: 9223372036854775783, K: 1})} {
		const n, k = 512, 128
		list := multiplied(t, d, n, n, k)
		q, err := zpk.Power(d.Ring().P, d.Ring().K)
		if err != nil {
			t.Fatal(err)
		}
		c := &list[2]
		random := rand.New(rand.NewPCG(3, 4))
		changes := map[string]func(v uint64) uint64{
			"nothing": func(v uint64) uint64 { return v },
			"p^(k-1)": func(v uint64) uint64 { return (v + q/d.Ring().P) % q },
			"p^k, which changes the residue only in its form": func(v uint64) uint64 { return v + q },
		}
		for name, change := range changes {
			if c.DType == num.I32 && strings.HasPrefix(name, "p^k,") {
				continue // an int32 has one form
			}
			row, col := random.IntN(n), random.IntN(n)
			old := c.Bits64(row, col)
			c.SetBits64(row, col, change(old))
			wrong, ok, err := verify.WrongRows(d, list, random.Uint64(), 0)
			c.SetBits64(row, col, old)
			if err != nil || !ok {
				t.Fatalf("%s: %v, %v", d.Ring(), ok, err)
			}
			for r, isWrong := range wrong {
				if want := r == row && name != "nothing"; isWrong != want {
					t.Errorf("%s: C[%d,%d] changed by %s: row %d is said to be wrong: %v, want %v", d.Ring(), row, col, name, r, isWrong, want)
				}
			}
		}
	}
}

// TestFreivaldsMisses checks that one vector misses an error of valuation v with probability
// p^(v-k).
func TestFreivaldsMisses(t *testing.T) {
	t.Parallel()
	for p, want := range map[uint64]int{2: 40, 3: 26, 65537: 3, 1<<40 + 15: 1} {
		if got := verify.VectorsFor(p); got != want || math.Pow(float64(p), -float64(got)) > 0x1p-40 {
			t.Errorf("%d vectors for p = %d, want %d", got, p, want)
		}
	}
	for _, c := range []struct {
		r def.Ring
		v int
	}{{def.Ring{P: 2, K: 63}, 62}, {def.Ring{P: 2, K: 63}, 60}, {def.Ring{P: 3, K: 39}, 38}, {def.Ring{P: 3, K: 4}, 2}, {def.Ring{P: 7, K: 1}, 0}, {def.Ring{P: 65537, K: 2}, 1}} {
		d := zpkOf(t, c.r)
		list := multiplied(t, d, 1, 9, 5)
		q, _ := zpk.Power(c.r.P, c.r.K)
		for i, col := range []int{1, 4, 8} {
			change := uint64(i%2 + 1) // times p^v
			for range c.v {
				change *= c.r.P
			}
			list[2].SetBits64(0, col, (list[2].Bits64(0, col)+change)%q)
		}
		const keys = 5000
		missed := 0
		for key := range uint64(keys) {
			wrong, _, err := verify.WrongRows(d, list, key, 1)
			if err != nil {
				t.Fatal(err)
			}
			if !wrong[0] {
				missed++
			}
		}
		p := math.Pow(float64(c.r.P), float64(c.v-c.r.K))
		if mean, deviation := keys*p, math.Sqrt(keys*p*(1-p)); math.Abs(float64(missed)-mean) > 5*deviation+2 {
			t.Errorf("%s, errors of valuation %d: %d of %d vectors miss them, want about %.0f", c.r, c.v, missed, keys, mean)
		}
	}
}

// TestFreivaldsInVerification checks that a large product is judged by Freivalds' check, that reports
// say so, and that a wrong element gives the same verdict as with the interpreter.
func TestFreivaldsInVerification(t *testing.T) {
	defer verify.SetLeastProduct(1)()
	defer verify.SetTileElements(1 << 12)()
	d := gemm.ZPKDefinition
	verdict := func(kernel kernelFunc, interpretAll bool) *evidence.Report {
		t.Helper()
		return run(t, target(d, num.I64, bitwise(kernel)), verify.Options{Case: "any-bits/M=170,K=200,N=190", Seed: 7, InterpretAll: interpretAll}).Report
	}
	right := verdict(honest, false)
	if c := right.Coverage; right.Verdict != evidence.Accepted || c.Freivalds != 170*190 || c.Judged != c.Freivalds || c.Tiles < 2 {
		t.Errorf("%s %s: %+v, want every output judged by Freivalds' check", right.Verdict, right.Reason, c)
	}
	if want := "a wrong row of a product is missed with a probability of at most 2^-40"; !strings.Contains(strings.Join(right.NonClaims, "\n"), want) {
		t.Errorf("the report does not say that %s: %q", want, right.NonClaims)
	}
	if all := verdict(honest, true); all.Verdict != evidence.Accepted || all.Coverage.Freivalds != 0 {
		t.Errorf("with everything interpreted: %s, %+v", all.Verdict, all.Coverage)
	}
	wrong := damaged(func(_ *engine.Launch, out []num.Array) {
		c := &out[2]
		c.SetBits64(c.Rows-3, 5, (c.Bits64(c.Rows-3, 5)+1350851717672992089)%4052555153018976267) // 3^38 mod 3^39
	})
	found, all := verdict(wrong, false), verdict(wrong, true)
	if found.Verdict != evidence.Rejected || found.Mismatches != 1 || found.Reason != all.Reason || found.Coverage.Freivalds == 0 || found.Coverage.Freivalds == found.Coverage.Judged {
		t.Errorf("%s with %d mismatches, %q, %+v; want what the interpreter says: %q", found.Verdict, found.Mismatches, found.Reason, found.Coverage, all.Reason)
	}
}

// TestFreivaldsInCheckedCall checks that Freivalds' check judges a caller's own product.
func TestFreivaldsInCheckedCall(t *testing.T) {
	defer verify.SetLeastProduct(1)()
	list := multiplied(t, int32Sums, 260, 270, 280)
	var tensors []*tensor.Tensor
	for _, a := range list {
		x, err := tensor.FromBytes(cpu.Queue().Device(), a.DType, a.Data, a.Rows, a.Cols)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, x)
	}
	report := &verify.CallReport{Tool: "test", Version: "1"}
	if err := engine.Call(cpu.Queue().With(verify.Checked(report)), int32Sums, tensors, nil); err != nil {
		t.Fatal(err)
	}
	r := report.Reports()[0]
	if r.Verdict != evidence.Accepted || r.Coverage.Freivalds != 260*270 || !strings.Contains(fmt.Sprint(r.NonClaims), "Freivalds") {
		t.Errorf("%s %s: %+v %q", r.Verdict, r.Reason, r.Coverage, r.NonClaims)
	}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
}
