package ball

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBits holds every operation to committed bits, so that a product fused with a
// sum on some machine (or with GOAMD64=v3) is seen: the enclosures would survive it,
// equal reports from all machines would not.
func TestBits(t *testing.T) {
	const want uint64 = 0xed24faa8199d68c2
	h := fnv.New64a()
	put := func(b Ball) {
		var buf [16]byte
		binary.LittleEndian.PutUint64(buf[:], math.Float64bits(b.Mid))
		binary.LittleEndian.PutUint64(buf[8:], math.Float64bits(b.Rad))
		if b.Known() {
			h.Write(buf[:])
		}
	}
	r := rand.New(rand.NewPCG(30, 31))
	one, two := unary[Ball](), pairs[Ball]()
	for range 500 {
		a, b := drawBall(r, false), drawBall(r, false)
		for _, name := range sortedKeys(one) {
			put(one[name](a))
		}
		for _, name := range sortedKeys(two) {
			put(two[name](a, b))
		}
		put(a.Hull(b))
		put(a.Widen(0x1p-24, 0x1p-150))
		put(gelu(a))
	}
	if got := h.Sum64(); got != want {
		t.Errorf("hash of all results is %#x, want %#x", got, want)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// The root of a ball ends where the root of its lower end is, however wide the ball is.
func TestSqrtIsTight(t *testing.T) {
	r := rand.New(rand.NewPCG(32, 33))
	for range 1000 {
		a := Ball{Mid: math.Ldexp(1+r.Float64(), r.IntN(200)-100)}
		a.Rad = a.Mid * math.Ldexp(r.Float64(), -r.IntN(30))
		lo, _ := a.Sqrt().Bounds()
		// Either end of the ball, and the radius, are rounded in a unit of the middle.
		if want := math.Sqrt(a.Mid - a.Rad); !(lo <= want && want-lo <= 0x1p-48*math.Sqrt(a.Mid)) {
			t.Errorf("the root of %v begins at %v, want %v", a, lo, want)
		}
	}
}
