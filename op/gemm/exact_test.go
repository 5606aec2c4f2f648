package gemm_test

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var int8Subject = optest.Subject{
	Definition: gemm.Int8Definition, Data: optest.Operation(gemm.Operations, gemm.Int8Definition.Name).Data,
	Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return gemm.Int8(q, x[2], x[0], x[1], x[3], x[4], opts...)
	},
}

var zpkSubject = optest.Subject{
	Definition: gemm.ZPKDefinition, Data: optest.Operation(gemm.Operations, gemm.ZPKDefinition.Name).Data,
	Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return gemm.ZPK(q, gemm.ZPKDefinition.Ring(), x[2], x[0], x[1], opts...)
	},
}

func ints[T int8 | int64](t testing.TB, rows int, values ...T) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromInts(cpu.Queue().Device(), values, rows, len(values)/rows)
	optest.OK(t, err)
	return x
}

func TestExactMatchesReference(t *testing.T) {
	optest.MatchReference(t, int8Subject, size(5, 9, 7), size(66, 3, 5), size(3, 131, 2), size(2, 3, 1061), size(1, 1, 1))
	optest.MatchReference(t, zpkSubject, size(5, 9, 7), size(66, 3, 5), size(3, 131, 2), size(2, 3, 1061), size(1, 1, 1))
}

func TestInt8Clauses(t *testing.T) {
	dot := func(t *testing.T, out num.DType, x, y []int8, row, col float32) *tensor.Tensor {
		t.Helper()
		c := optest.Garbage(t, out, 1, 1)
		optest.OK(t, gemm.Int8(cpu.Queue(), c, ints(t, 1, x...), ints(t, 1, y...), vector(t, row), vector(t, col)))
		return c
	}
	list := func(x ...int8) []int8 { return x }
	optest.Clauses(t, gemm.Int8Definition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, int8Subject, size(6, 4, 8)) },
		"C2_wraps": func(t *testing.T) {
			many := make([]int8, 1<<17)
			for i := range many {
				many[i] = -128
			}
			optest.Want(t, "2^17 times (-128)²", dot(t, num.F32, many, many, 1, 1), -0x1p31)
			optest.Want(t, "one product less", dot(t, num.F32, many[1:], many[1:], 1, 1), 0x1p31-0x1p14)
			optest.Want(t, "bytes have signs", dot(t, num.F32, list(-1, 127, -128), list(1, -128, 127), 1, 1), -1-127*128-128*127)
		},
		"C3_roundings": func(t *testing.T) {
			const u = 0x1p-23
			row, col := float32(1+u), float32(1+3*u)
			want := float32(float32(3*row) * col)
			if other := float32(3 * float32(row*col)); other == want {
				t.Fatal("the scales do not tell the order of the products")
			}
			optest.Want(t, "the row first", dot(t, num.F32, list(3), list(1), row, col), want)
			// 2^24 + 1 is rounded to 2^24 before it is scaled.
			long := make([]int8, 1025)
			for i := range long {
				long[i] = -128
			}
			other := append([]int8(nil), long...)
			long[1024], other[1024] = 1, 1
			optest.Want(t, "the accumulator is rounded", dot(t, num.F32, long, other, 3, 1), 3*0x1p24)
			optest.Want(t, "overflow in between", dot(t, num.F32, list(8), list(1), 0x1p127, 0x1p-100), inf)
			optest.Want(t, "one rounding to f16", dot(t, num.F16, list(64, 1), list(32, 1), 1, 2), 4098)
		},
		"C4_scales": func(t *testing.T) {
			optest.Want(t, "a NaN scale", dot(t, num.F32, list(2), list(1), 1, nan), nan)
			optest.Want(t, "0 times an infinite scale", dot(t, num.F32, list(0), list(1), inf, 1), nan)
			optest.Want(t, "an infinite scale", dot(t, num.BF16, list(2), list(-1), 1, inf), -inf)
		},
		"C5_zeros": func(t *testing.T) {
			optest.Want(t, "1 − 1", dot(t, num.F32, list(1, -1), list(1, 1), 1, 1), 0)
			optest.Want(t, "1 − 1, negated", dot(t, num.F32, list(1, -1), list(1, 1), -1, 1), zero)
		},
		"C6_overlap": func(t *testing.T) {
			optest.Errors(t, int8Subject, size(3, 4, 5))
			square := ints[int8](t, 2, 1, 2, 3, 4)
			scales, c := vector(t, 1, 2), optest.Garbage(t, num.F32, 2, 2)
			optest.OK(t, gemm.Int8(cpu.Queue(), c, square, square, scales, scales))
			optest.Want(t, "a matrix and itself", c, 5, 22, 22, 100)
		},
		"C7_range": func(t *testing.T) {
			optest.Want(t, "a subnormal", dot(t, num.F32, list(3), list(1), 0x1p-149, 1), 3*0x1p-149)
			optest.Want(t, "too large for f16", dot(t, num.F16, list(127), list(127), 5, 1), inf)
		},
	})
}

func TestZPKClauses(t *testing.T) {
	product := func(t *testing.T, r def.Ring, x, y []int64) int64 {
		t.Helper()
		c := ints[int64](t, 1, 77)
		optest.OK(t, gemm.ZPK(cpu.Queue(), r, c, ints(t, 1, x...), ints(t, len(y), y...)))
		values, err := c.Ints()
		optest.OK(t, err)
		return values[0]
	}
	list := func(x ...int64) []int64 { return x }
	q := int64(4052555153018976267) // 3^39
	optest.Clauses(t, gemm.ZPKDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, zpkSubject, size(6, 4, 8)) },
		"C2_exact": func(t *testing.T) {
			for _, r := range []def.Ring{{P: 3, K: 39}, {P: 2, K: 63}, {P: 2, K: 1}, {P: 9223372036854775783, K: 1}} {
				if got := product(t, r, list(-1), list(-1)); got != 1 {
					t.Errorf("(-1)² is %d in %s, want 1", got, r)
				}
			}
			if got := product(t, gemm.ZPKDefinition.Ring(), list(q-1, -1<<63), list(q-1, 0)); got != 1 {
				t.Errorf("(p^k - 1)² is %d, want 1", got)
			}
		},
		"C3_residues": func(t *testing.T) {
			for want, x := range map[int64]int64{0: q, q - 1: -1, 1: 1 - q, q - 5: 2*q - 5} {
				if got := product(t, gemm.ZPKDefinition.Ring(), list(x), list(1)); got != want {
					t.Errorf("%d is %d, want %d", x, got, want)
				}
			}
		},
		"C4_overlap": func(t *testing.T) { optest.Errors(t, zpkSubject, size(3, 4, 5)) },
	})
}

// TestZPKAgainstBig compares products in rings of every size with math/big, by the dense
// lowering and by the one that skips products by their valuations.
func TestZPKAgainstBig(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for _, r := range []def.Ring{{P: 2, K: 1}, {P: 2, K: 10}, {P: 2, K: 63}, {P: 3, K: 4}, {P: 3, K: 39}, {P: 5, K: 27}, {P: 65537, K: 3}, {P: 9223372036854775783, K: 1}} {
		const m, n, k = 5, 4, 530
		d, err := gemm.ZPKDefinitionOf(r)
		optest.OK(t, err)
		q := new(big.Int).Exp(new(big.Int).SetUint64(r.P), big.NewInt(int64(r.K)), nil)
		draw := func(n int) []int64 {
			list := make([]int64, n)
			for i := range list {
				list[i] = int64(random.Uint64()) >> (random.Uint64() % 64)
				for range random.IntN(r.K + 1) {
					list[i] *= int64(r.P) // a multiple of p^v, or what is left of it
				}
			}
			return list
		}
		x, y := draw(m*k), draw(k*n)
		a, b := ints(t, m, x...), ints(t, k, y...)
		for _, name := range []string{"cpu.packed", "cpu.valuation", "cpu.reference"} {
			c := ints(t, m, make([]int64, m*n)...)
			optest.OK(t, engine.Call(cpu.Queue(), d, []*tensor.Tensor{a, b, c}, nil, engine.WithLowering(name)))
			got, err := c.Ints()
			optest.OK(t, err)
			for i := range got {
				want := new(big.Int)
				for j := range k {
					want.Add(want, new(big.Int).Mul(big.NewInt(x[i/n*k+j]), big.NewInt(y[j*n+i%n])))
				}
				if want.Mod(want, q); want.Int64() != got[i] {
					t.Fatalf("%s in %s: element %d is %d, want %v", name, r, i, got[i], want)
				}
			}
		}
	}
}

// TestRingsRefused: what is no ring, or none that fits, is refused in words.
func TestRingsRefused(t *testing.T) {
	for r, want := range map[def.Ring]string{
		{P: 4, K: 2}:                    "p = 4 is not a prime",
		{P: 0, K: 1}:                    "p = 0 is not a prime",
		{P: 1, K: 1}:                    "p = 1 is not a prime",
		{P: 3, K: 60}:                   "3^60 is too large: it is beyond 2^63",
		{P: 2, K: 64}:                   "2^64 is too large",
		{P: 18446744073709551557, K: 1}: "is too large",
		{P: 3, K: -1}:                   "k = -1, want at least 1",
	} {
		if _, err := gemm.ZPKDefinitionOf(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", r, err, want)
		}
	}
}

// TestZPKExponent: without an exponent a prime has the shipped one, or the largest that it may have.
func TestZPKExponent(t *testing.T) {
	o := optest.Operation(gemm.Operations, "gemm.zpk")
	for p, want := range map[string]int{"2": 39, "3": 39, "5": 27, "65537": 3, "3037000493": 2, "3037000507": 1, "9223372036854775783": 1} {
		v, err := o.NewValues(map[string]string{"p": p})
		optest.OK(t, err)
		if d := o.Variant(v); v.Err() != nil || d.Ring().K != want {
			t.Errorf("p = %s: k is %d, want %d (%v)", p, d.Ring().K, want, v.Err())
		}
	}
	for _, given := range []map[string]string{{"p": "5", "k": "28"}, {"p": "1"}, {"p": "0"}, {"p": "18446744073709551615"}} {
		v, err := o.NewValues(given)
		optest.OK(t, err)
		if o.Variant(v); v.Err() == nil {
			t.Errorf("%v is not refused", given)
		}
	}
}
