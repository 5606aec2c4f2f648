package checksum

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/tensor"
	"tokitai/trial"
)

const someFirst = 3<<32 - 40

func subject(name string) optest.Subject {
	d, data := ForwardDefinition, Operations[0].Data[:1]
	if name == Int32Definition.Name {
		d, data = Int32Definition, Operations[0].Data[1:]
	}
	return optest.Subject{
		Definition: d, Data: data, Params: numbers(someFirst),
		Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
			return engine.Call(q, d, x, numbers(someFirst), opts...)
		},
	}
}

func size(r, c int) map[string]int { return map[string]int{"R": r, "C": c} }

func TestDoc(t *testing.T) { optest.Doc(t, "doc.go", ForwardDefinition, Int32Definition) }

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, subject("checksum.forward"), size(5, 77), size(2, 1025), size(3, 40001))
	optest.MatchReference(t, subject("checksum.int32"), size(5, 77), size(2, 1025))
}

func TestErrors(t *testing.T) { optest.Errors(t, subject("checksum.forward"), size(3, 5)) }

// mix returns what an element adds to the digest, written in Go.
func mix(pattern uint32, number uint64) Digest {
	key := uint32(number)*0x9e3779b1 + 0x27d4eb2f
	m := key + uint32(number>>32)*0xc2b2ae35 | 1
	a := pattern ^ key
	b := (a ^ a>>16) * 0x85ebca6b
	high, low := bits.Mul32(b^b>>15, m)
	return Digest{low, high}
}

func digestOf(patterns []uint32, first uint64) (d Digest) {
	for i, p := range patterns {
		d = d.Plus(mix(p, first+uint64(i)))
	}
	return d
}

// of returns the digest of patterns as a tensor of one row.
func of(t *testing.T, d num.DType, first uint64, patterns ...uint32) Digest {
	t.Helper()
	a := num.NewArray(d, 1, len(patterns))
	trial.FillBits(a, func(_, c int) uint32 { return patterns[c] })
	x, err := tensor.FromBytes(cpu.Queue().Device(), d, a.Data, len(patterns))
	optest.OK(t, err)
	digest, err := Of(cpu.Queue(), x, first)
	optest.OK(t, err)
	return digest
}

// random returns patterns of any bits.
func random(name string, n int) []uint32 {
	g := gen.New(name)
	list := make([]uint32, n)
	for i := range list {
		list[i] = uint32(g.Next())
	}
	return list
}

var formats = []num.DType{num.F16, num.BF16, num.F32, num.I32}

func TestDigest(t *testing.T) {
	for _, d := range formats {
		for _, first := range []uint64{0, 1, someFirst, 1<<64 - 100} {
			patterns := random(d.String(), 300)
			if d.Size() == 2 {
				for i := range patterns {
					patterns[i] &= 0xffff
				}
			}
			if got, want := of(t, d, first, patterns...), digestOf(patterns, first); got != want {
				t.Errorf("%s from %d: got %v, want %v", d, first, got, want)
			}
		}
	}
	if got := fmt.Sprint(Digest{0x89abcdef, 0x01234567}); got != "0123456789abcdef" {
		t.Errorf("a digest is printed as %s", got)
	}
}

// TestChanges: among the digests of a tensor, of all tensors with one bit changed, of all with two
// elements exchanged, and of others with changes that sums miss easily, no two are equal. Each word
// alone is as good as a random number of 32 bits: of n digests, n²/2^33 pairs have the same word on
// average, which is below 1 here, and more than 16 do once in 10^14 times.
func TestChanges(t *testing.T) {
	const n = 64
	base := random("changes", n)
	seen := map[Digest]string{digestOf(base, 0): "the tensor"}
	var words [2]map[uint32]bool
	var equal [2]int
	for i := range words {
		words[i] = map[uint32]bool{}
	}
	tensors := map[string]bool{fmt.Sprint(base): true}
	try := func(what string, change func(x []uint32)) {
		x := slices.Clone(base)
		change(x)
		text := fmt.Sprint(x)
		if tensors[text] { // as an increment may be a change of bit 0
			return
		}
		tensors[text] = true
		d := digestOf(x, 0)
		if other, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", what, other)
		}
		seen[d] = what
		for i, w := range []uint32{d.Word0, d.Word1} {
			if words[i][w] {
				equal[i]++
			}
			words[i][w] = true
		}
	}
	whole := digestOf(base, 0)
	for i := range n {
		for b := range 32 {
			try(fmt.Sprintf("bit %d of element %d", b, i), func(x []uint32) { x[i] ^= 1 << b })
			if d := whole.Plus(mix(base[i]^1<<b, uint64(i))); d.Word0-mix(base[i], uint64(i)).Word0 == whole.Word0 {
				t.Errorf("bit %d of element %d does not change word0", b, i)
			}
		}
		for j := range i {
			try(fmt.Sprintf("%d and %d exchanged", i, j), func(x []uint32) { x[i], x[j] = x[j], x[i] })
			for _, b := range []int{0, 15, 16, 23, 30, 31} {
				try(fmt.Sprintf("bit %d of %d and %d", b, i, j), func(x []uint32) { x[i] ^= 1 << b; x[j] ^= 1 << b })
			}
			try(fmt.Sprintf("one from %d to %d", i, j), func(x []uint32) { x[i]++; x[j]-- })
		}
	}
	for k := 1; k < n; k++ {
		try(fmt.Sprintf("shifted by %d", k), func(x []uint32) { copy(x, append(slices.Clone(x[k:]), x[:k]...)) })
		try(fmt.Sprintf("%d zeros", k), func(x []uint32) { clear(x[:k]) })
		try(fmt.Sprintf("%d zeros at the end", k), func(x []uint32) { clear(x[n-k:]) })
		try(fmt.Sprintf("%d signs", k), func(x []uint32) {
			for i := range k {
				x[i] ^= 1 << 31
			}
		})
	}
	if n := float64(len(seen)); n*n/0x1p33 > 1 || equal[0] > 16 || equal[1] > 16 {
		t.Errorf("of %v digests, %v have a word that another one has", n, equal)
	}
}

// TestEqualElements: exchanging parts of a tensor of zeros changes nothing, and must not; adding a zero
// at the end does change it.
func TestEqualElements(t *testing.T) {
	seen := map[Digest]int{}
	for n := 1; n < 3000; n++ {
		d := digestOf(make([]uint32, n), 0)
		if other, ok := seen[d]; ok {
			t.Fatalf("%d zeros have the digest of %d", n, other)
		}
		seen[d] = n
	}
}

func TestForward(t *testing.T) {
	optest.Clauses(t, ForwardDefinition, clauses("checksum.forward", num.F16))
}
func TestInt32(t *testing.T) { optest.Clauses(t, Int32Definition, clauses("checksum.int32", num.I32)) }

func clauses(name string, d num.DType) map[string]func(t *testing.T) {
	return map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, subject(name), size(6, 5)) },
		"C2_patterns": func(t *testing.T) {
			seen := map[Digest]uint32{}
			for p := range uint32(1 << 16) {
				digest := mix(p, 5)
				if other, ok := seen[digest]; ok {
					t.Fatalf("patterns %#x and %#x have the same digest", p, other)
				}
				seen[digest] = p
			}
			if of(t, d, 0, 0x8000) == of(t, d, 0, 0) || of(t, d, 0, 0x7e00) == of(t, d, 0, 0x7e01) || of(t, d, 0, 0x7c01) != digestOf([]uint32{0x7c01}, 0) {
				t.Error("zeros or NaNs of other patterns have the same digest")
			}
		},
		"C3_one_element": func(t *testing.T) {
			x := []uint32{1, 2, 3, 4}
			whole := of(t, d, 9, x...)
			for b := range 8 * d.Size() {
				x[2] ^= 1 << b
				if of(t, d, 9, x...).Word0 == whole.Word0 {
					t.Errorf("bit %d does not change word0", b)
				}
				x[2] ^= 1 << b
			}
		},
		"C4_parts": func(t *testing.T) {
			x := random("parts", 2000)
			for i := range x {
				x[i] &= 0xffff
			}
			const first = 1<<32 - 700
			sum := Digest{}
			for at := 0; at < len(x); at += 333 {
				sum = sum.Plus(of(t, d, first+uint64(at), x[at:min(at+333, len(x))]...))
			}
			if whole := of(t, d, first, x...); sum != whole {
				t.Errorf("parts add up to %v, the whole has %v", sum, whole)
			}
			if of(t, d, 0, x...) == of(t, d, 1<<32, x...) {
				t.Error("the high word of the first number does not matter")
			}
		},
		// Two tensors of the same digest: the second element of the other one is solved for.
		"C5_not_cryptographic": func(t *testing.T) {
			x := []uint32{1, 2}
			want := of(t, d, 0, x...)
			seen := map[Digest]uint32{}
			for p := range uint32(1 << 16) {
				seen[mix(p, 1)] = p
			}
			for p := range uint32(1 << 16) {
				part := mix(p, 0)
				if other, ok := seen[Digest{want.Word0 - part.Word0, want.Word1 - part.Word1}]; ok && (p != x[0] || other != x[1]) {
					t.Fatalf("%v and %v have the same digest, which is chance", x, []uint32{p, other})
				}
			}
		},
		"C6_overlap": func(t *testing.T) {
			x := optest.Ints(t, 1)
			w := optest.Ints(t, 0)
			if err := Forward(cpu.Queue(), x, w, x, 0); err == nil {
				t.Error("a word may be x itself")
			}
		},
	}
}
