package def

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
)

var declared = []Order{
	Sequential, {Lanes, 2}, {Lanes, 3}, {Lanes, 4}, {Lanes, 7}, {Lanes, 8}, {Lanes, 256},
	{Chunks, 1}, {Chunks, 2}, {Chunks, 5}, {Chunks, 64}, {Chunks, 1000},
	{Kind: Pairwise},
}

// depths is a partial sum that knows its terms, and how many additions each has
// passed through.
type depths map[int]int

func leaves(n int) []depths {
	x := make([]depths, n)
	for k := range x {
		x[k] = depths{k: 0}
	}
	return x
}

// deeper fails if the two have a term in common.
func deeper(t *testing.T) func(a, b depths) depths {
	return func(a, b depths) depths {
		sum := depths{}
		for _, part := range []depths{a, b} {
			for k, d := range part {
				if _, ok := sum[k]; ok {
					t.Fatalf("term %d is added twice", k)
				}
				sum[k] = d + 1
			}
		}
		return sum
	}
}

// Every order takes every term once, and the deepest is at the order's height.
func TestHeightIsThatOfTheDeepestTerm(t *testing.T) {
	for _, o := range declared {
		for n := range 70 {
			sum := Fold(o, leaves(n), deeper(t))
			deepest := 0
			for _, d := range sum {
				deepest = max(deepest, d)
			}
			if len(sum) != n || o.Height(n) != deepest {
				t.Errorf("%s of %d: %d terms, height %d, want %d", o, n, len(sum), o.Height(n), deepest)
			}
			if any := (Order{}).Height(n); any < deepest {
				t.Errorf("%s of %d: height %d is above that of any order, %d", o, n, deepest, any)
			}
		}
	}
}

func TestHeightByHand(t *testing.T) {
	for _, test := range []struct {
		o    Order
		n    int
		want int
	}{
		{Order{}, 0, 0}, {Order{}, 1, 0}, {Order{}, 2, 1}, {Order{}, 4096, 4095},
		{Sequential, 4096, 4095},
		{Order{Lanes, 16}, 4096, 255 + 4}, {Order{Lanes, 16}, 4097, 256 + 4}, {Order{Lanes, 16}, 9, 4},
		{Order{Chunks, 64}, 4096, 63 + 63}, {Order{Chunks, 64}, 65, 63 + 1}, {Order{Chunks, 64}, 3, 2},
		{Order{Kind: Pairwise}, 4096, 12}, {Order{Kind: Pairwise}, 4097, 13},
		{Order{Height, 20}, 4096, 20}, {Order{Height, 20}, 5, 4}, {Order{Height, 20}, 1, 0},
	} {
		if got := test.o.Height(test.n); got != test.want {
			t.Errorf("%s of %d: height %d, want %d", test.o, test.n, got, test.want)
		}
	}
}

// Powers of two tell which terms a partial sum has; every addition is shown once.
func TestWalkByHand(t *testing.T) {
	for _, test := range []struct {
		o     Order
		terms int
		want  []uint64 // sets of terms
	}{
		{Sequential, 4, []uint64{0b11, 0b111, 0b1111}},
		{Order{Lanes, 2}, 5, []uint64{0b101, 0b1010, 0b10101, 0b11111}},
		{Order{Lanes, 3}, 4, []uint64{0b1001, 0b1011, 0b1111}},
		{Order{Lanes, 8}, 3, []uint64{0b11, 0b111}},
		{Order{Chunks, 2}, 5, []uint64{0b11, 0b1100, 0b1111, 0b11111}},
		{Order{Kind: Pairwise}, 5, []uint64{0b11, 0b111, 0b11000, 0b11111}},
		{Sequential, 1, nil},
		{Order{Kind: Pairwise}, 0, nil},
	} {
		terms := make([]float64, test.terms)
		for k := range terms {
			terms[k] = float64(uint64(1) << k)
		}
		var got []uint64
		sum := test.o.Walk(terms, func(partial float64) { got = append(got, uint64(partial)) })
		if want := float64(uint64(1)<<test.terms - 1); sum != want {
			t.Errorf("%s of %d: sum %v, want %v", test.o, test.terms, sum, want)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s of %d: partial sums %b, want %b", test.o, test.terms, got, test.want)
		}
	}
}

func TestWalk(t *testing.T) {
	for _, o := range declared {
		for n := range 50 {
			terms := make([]float64, n)
			for k := range terms {
				terms[k] = float64(uint64(1) << k) // every sum is exact
			}
			before := slices.Clone(terms)
			seen := map[uint64]bool{}
			sum := o.Walk(terms, func(partial float64) {
				if bits.OnesCount64(uint64(partial)) < 2 || seen[uint64(partial)] {
					t.Errorf("%s of %d: partial sum %b is no sum of two or is shown twice", o, n, uint64(partial))
				}
				seen[uint64(partial)] = true
			})
			if want := float64(uint64(1)<<n - 1); sum != want || len(seen) != max(n-1, 0) {
				t.Errorf("%s of %d: sum %v after %d additions, want %v after %d", o, n, sum, len(seen), want, max(n-1, 0))
			}
			if !slices.Equal(terms, before) {
				t.Errorf("%s of %d: the terms have changed", o, n)
			}
		}
	}
}

func TestOrdersWithoutPartialSums(t *testing.T) {
	for _, o := range []Order{{}, {Height, 3}} {
		if o.IsDeclared() {
			t.Errorf("%s is declared", o)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s has partial sums", o)
				}
			}()
			o.Walk([]float64{1, 2}, func(float64) {})
		}()
	}
	for _, o := range declared {
		if !o.IsDeclared() {
			t.Errorf("%s is not declared", o)
		}
	}
}

func TestOrderText(t *testing.T) {
	for _, test := range []struct {
		o    Order
		want string
	}{
		{Order{}, "any order"}, {Sequential, "sequential"}, {Order{Lanes, 1}, "sequential"}, {Order{Lanes, 16}, "lanes(16)"},
		{Order{Chunks, 64}, "chunks(64)"}, {Order{Kind: Pairwise}, "pairwise"}, {Order{Height, 20}, "height(20)"},
	} {
		if got := fmt.Sprint(test.o); got != test.want {
			t.Errorf("%#v: got %q, want %q", test.o, got, test.want)
		}
	}
}

func TestOrderCheck(t *testing.T) {
	for _, test := range []struct {
		o    Order
		want string // "" if it is right
	}{
		{Order{}, ""}, {Sequential, ""}, {Order{Chunks, 1}, ""}, {Order{Kind: Pairwise}, ""}, {Order{Height, 1}, ""},
		{Order{Kind: Lanes}, "lanes(0) needs a width of at least 1, got 0"},
		{Order{Chunks, -1}, "chunks(-1) needs a width of at least 1, got -1"},
		{Order{Kind: Height}, "height(0) needs a width of at least 1, got 0"},
		{Order{Kind: Height + 1}, "order kind 5 is unknown"},
	} {
		switch err := test.o.Check(); {
		case err == nil && test.want != "":
			t.Errorf("%#v: no error, want %q", test.o, test.want)
		case err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%#v: got error %q, want %q", test.o, err, test.want)
		}
	}
}
