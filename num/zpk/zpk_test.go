package zpk_test

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"tokitai/num/zpk"
)

// rings are Z/p^k of every size of p and k, up to the largest p^k.
var rings = []struct {
	p uint64
	k int
}{
	{2, 1}, {2, 8}, {2, 32}, {2, 62}, {2, 63}, {3, 1}, {3, 2}, {3, 39}, {5, 27}, {7, 22}, {11, 18}, {251, 7}, {65537, 3},
	{4294967291, 1}, {3037000493, 2}, {9223372036854775783, 1},
}

func word(t testing.TB, p uint64, k int) *zpk.Word {
	t.Helper()
	w, err := zpk.NewWord(p, k)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func bigRing(t testing.TB, p uint64, k int) *zpk.Big {
	t.Helper()
	b, err := zpk.NewBig(new(big.Int).SetUint64(p), k)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// elements returns elements of every valuation, the ends among them.
func elements(w *zpk.Word, random *rand.Rand, n int) []uint64 {
	list := []uint64{0, 1 % w.Q(), w.Q() - 1, w.Q() / 2, w.P() % w.Q(), (w.Q() - w.P()) % w.Q()}
	for i := 0; len(list) < n; i++ {
		x := random.Uint64() % w.Q()
		for range i % (w.Exponent() + 1) {
			x = w.Mul(x, w.P()%w.Q())
		}
		list = append(list, x)
	}
	return list
}

// TestWordAgainstBig compares every operation with math/big, and inverses with 1.
func TestWordAgainstBig(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, r := range rings {
		w, b := word(t, r.p, r.k), bigRing(t, r.p, r.k)
		if b.Q().Cmp(new(big.Int).SetUint64(w.Q())) != 0 {
			t.Fatalf("%v has %d elements, want %v", w, w.Q(), b.Q())
		}
		list := elements(w, random, 60)
		wide := func(x uint64) *big.Int { return new(big.Int).SetUint64(x) }
		for _, x := range list {
			if got, want := w.Valuation(x), b.Valuation(wide(x)); got != want {
				t.Fatalf("%v: the valuation of %d is %d, want %d", w, x, got, want)
			}
			inverse, err := w.Inverse(x)
			other, errBig := b.Inverse(wide(x))
			switch {
			case x%r.p == 0:
				if !errors.Is(err, zpk.ErrNotUnit) || !errors.Is(errBig, zpk.ErrNotUnit) {
					t.Fatalf("%v: 1/%d: got %v and %v, want a refusal", w, x, err, errBig)
				}
			case err != nil || errBig != nil || w.Mul(x, inverse) != 1%w.Q() || other.Cmp(wide(inverse)) != 0:
				t.Fatalf("%v: 1/%d is %d, %v and %v, %v", w, x, inverse, err, other, errBig)
			}
			for _, y := range list {
				for name, pair := range map[string][2]*big.Int{
					"sum":        {wide(w.Add(x, y)), b.Add(wide(x), wide(y))},
					"difference": {wide(w.Sub(x, y)), b.Sub(wide(x), wide(y))},
					"product":    {wide(w.Mul(x, y)), b.Mul(wide(x), wide(y))},
				} {
					if pair[0].Cmp(pair[1]) != 0 {
						t.Fatalf("%v: the %s of %d and %d is %v, want %v", w, name, x, y, pair[0], pair[1])
					}
				}
			}
		}
		for _, v := range []int64{0, 1, -1, 7, -7, math.MaxInt64, math.MinInt64, math.MinInt64 + 1} {
			if got, want := wide(w.Int(v)), b.Int(v); got.Cmp(want) != 0 {
				t.Errorf("%v: %d is %v, want %v", w, v, got, want)
			}
		}
	}
}

// TestMinusOneSquaredModulo3To60: (-1)² is 1 in Z/3^60, a product that overflows 64 bits, and
// 3^60 is refused where an element must fit into a word.
func TestMinusOneSquaredModulo3To60(t *testing.T) {
	b := bigRing(t, 3, 60)
	minusOne := b.Int(-1)
	if got := b.Mul(minusOne, minusOne); got.Cmp(big.NewInt(1)) != 0 {
		t.Errorf("(-1)² = %v mod 3^60, want 1", got)
	}
	if got, err := b.Inverse(minusOne); err != nil || got.Cmp(minusOne) != 0 {
		t.Errorf("1/-1 = %v, %v mod 3^60, want -1", got, err)
	}
	if _, err := zpk.NewWord(3, 60); !errors.Is(err, zpk.ErrTooLarge) {
		t.Errorf("Z/3^60 in words: got %v, want a refusal", err)
	}
	for _, r := range rings {
		w := word(t, r.p, r.k)
		if x := w.Int(-1); w.Mul(x, x) != 1%w.Q() {
			t.Errorf("%v: (-1)² = %d, want 1", w, w.Mul(x, x))
		}
	}
}

// TestRefused: what is no Z/p^k, or none that fits.
func TestRefused(t *testing.T) {
	for _, r := range []struct {
		p    uint64
		k    int
		want error
	}{
		{0, 1, zpk.ErrNotPrime}, {1, 5, zpk.ErrNotPrime}, {4, 3, zpk.ErrNotPrime}, {561, 2, zpk.ErrNotPrime}, {3215031751, 1, zpk.ErrNotPrime},
		{math.MaxUint64, 1, zpk.ErrNotPrime}, {3, 40, zpk.ErrTooLarge}, {2, 64, zpk.ErrTooLarge}, {18446744073709551557, 1, zpk.ErrTooLarge},
		{3, 0, nil}, {3, -1, nil},
	} {
		if _, err := zpk.NewWord(r.p, r.k); err == nil || r.want != nil && !errors.Is(err, r.want) {
			t.Errorf("Z/%d^%d: got %v, want %v", r.p, r.k, err, r.want)
		}
		if _, err := zpk.NewBig(new(big.Int).SetUint64(r.p), r.k); (err == nil) != errors.Is(r.want, zpk.ErrTooLarge) {
			t.Errorf("Z/%d^%d: got %v", r.p, r.k, err)
		}
	}
	for _, p := range []*big.Int{nil, big.NewInt(-3), big.NewInt(0)} {
		if _, err := zpk.NewBig(p, 2); !errors.Is(err, zpk.ErrNotPrime) {
			t.Errorf("p = %v: got %v", p, err)
		}
	}
	if _, err := zpk.NewBig(big.NewInt(3), 1<<30); !errors.Is(err, zpk.ErrTooLarge) {
		t.Errorf("3^2^30: got %v", err)
	}
	if _, err := zpk.NewBig(big.NewInt(2), 1<<20-1); err != nil { // the largest power of 2
		t.Errorf("2^(2^20-1): got %v", err)
	}
	if _, err := zpk.NewBig(big.NewInt(2), 1<<20); !errors.Is(err, zpk.ErrTooLarge) {
		t.Errorf("2^2^20: got %v", err)
	}
	if _, err := zpk.NewBig(new(big.Int).Lsh(big.NewInt(1), 1<<20), 1); !errors.Is(err, zpk.ErrTooLarge) {
		t.Errorf("p = 2^2^20: got %v", err)
	}
	if _, err := word(t, 3, 2).Div(1, 6); !errors.Is(err, zpk.ErrNotUnit) {
		t.Errorf("1/6 mod 9: got %v", err)
	}
}

// TestLift finds square roots of squares of units, and refuses what Hensel's lemma does not
// cover.
func TestLift(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, r := range rings {
		if r.p == 2 {
			continue // the roots are double
		}
		w := word(t, r.p, r.k)
		for range 20 {
			x := random.Uint64() % w.Q()
			if x%r.p == 0 {
				continue
			}
			f := []uint64{w.Sub(0, w.Mul(x, x)), 0, 1 % w.Q()} // X² - x²
			got, err := zpk.Lift(w, f, x%r.p)
			if err != nil || got != x {
				t.Fatalf("%v: the root of X² - %d that is %d mod %d: got %d, %v, want %d", w, w.Mul(x, x), x%r.p, r.p, got, err, x)
			}
		}
	}
	b := bigRing(t, 7, 200)
	root, err := zpk.Lift(b, []*big.Int{b.Int(-2), b.Int(0), b.Int(1)}, b.Int(3))
	if err != nil || b.Mul(root, root).Cmp(b.Int(2)) != 0 {
		t.Errorf("√2 mod 7^200: got %v, %v", root, err)
	}
	w := word(t, 7, 5)
	if _, err := zpk.Lift(w, []uint64{w.Int(-3), 0, 1}, 1); err == nil {
		t.Error("1 is no root of X² - 3 mod 7")
	}
	if _, err := zpk.Lift(w, []uint64{0, 0, 1}, 0); !errors.Is(err, zpk.ErrNotUnit) {
		t.Errorf("a double root: got %v", err)
	}
}

// TestMatrices: products are those of math/big, inverses give the identity on both sides, and
// a matrix whose determinant p divides has none.
func TestMatrices(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, r := range rings {
		w, b := word(t, r.p, r.k), bigRing(t, r.p, r.k)
		for n := 1; n < 6; n++ {
			x, y := square(w, random, n), square(w, random, n)
			product, err := zpk.Product(w, x, y)
			if err != nil {
				t.Fatal(err)
			}
			want, err := zpk.Product(b, widened(x), widened(y))
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				for j := range n {
					if want[i][j].Cmp(new(big.Int).SetUint64(product[i][j])) != 0 {
						t.Fatalf("%v: element %d,%d of a product is %d, want %v", w, i, j, product[i][j], want[i][j])
					}
				}
			}
			inverse, err := zpk.InverseMatrix(w, x)
			if errors.Is(err, zpk.ErrNotUnit) {
				continue
			}
			for _, pair := range [][2][][]uint64{{x, inverse}, {inverse, x}} {
				one, err := zpk.Product(w, pair[0], pair[1])
				if err != nil {
					t.Fatal(err)
				}
				for i := range n {
					for j := range n {
						if want := w.Int(int64(1 - min(1, max(i-j, j-i)))); one[i][j] != want {
							t.Fatalf("%v: element %d,%d of a matrix times its inverse is %d, want %d", w, i, j, one[i][j], want)
						}
					}
				}
			}
		}
	}
	w := word(t, 3, 4)
	if _, err := zpk.InverseMatrix(w, [][]uint64{{1, 2}, {2, 1}}); !errors.Is(err, zpk.ErrNotUnit) { // determinant -3
		t.Errorf("a determinant of -3 mod 81: got %v", err)
	}
	if _, err := zpk.InverseMatrix(w, [][]uint64{{3, 1}, {1, 3}}); err != nil { // determinant 8, pivots beyond the diagonal
		t.Errorf("a determinant of 8 mod 81: got %v", err)
	}
	if _, err := zpk.Product(w, [][]uint64{{1, 2}}, [][]uint64{{1}}); err == nil {
		t.Error("a product of 1×2 and 1×1 was not refused")
	}
}

func square(w *zpk.Word, random *rand.Rand, n int) [][]uint64 {
	a := make([][]uint64, n)
	for i := range a {
		a[i] = elements(w, random, 6+n)[6:]
	}
	return a
}

func widened(a [][]uint64) [][]*big.Int {
	b := make([][]*big.Int, len(a))
	for i := range a {
		for _, x := range a[i] {
			b[i] = append(b[i], new(big.Int).SetUint64(x))
		}
	}
	return b
}
