package glue_test

import (
	"crypto/sha256"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"testing"

	"tokitai/verify/glue"
)

// saw returns a section that saw pieces with values, and found no mismatch.
func saw[K comparable](pieces map[K]string) glue.Section[K] {
	s := glue.Section[K]{Pieces: map[K]glue.Hash{}}
	for k, v := range pieces {
		s.Pieces[k] = sha256.Sum256([]byte(v))
	}
	return s
}

func TestJoin(t *testing.T) {
	whole := map[string]int64{"a": 1, "b": 20, "c": 300}
	ab, bc := saw(map[string]string{"a": "1", "b": "2"}), saw(map[string]string{"b": "2", "c": "3"})
	wrong := saw(map[string]string{"c": "3"})
	wrong.Mismatches = 4
	for _, test := range []struct {
		what     string
		sections []glue.Section[string]
		want     glue.Glued
		reason   string
	}{
		{"a cover", []glue.Section[string]{ab, bc}, glue.Glued{Elements: 321, Covered: 321}, ""},
		{"in the other order", []glue.Section[string]{bc, ab}, glue.Glued{Elements: 321, Covered: 321}, ""},
		{"a mismatch", []glue.Section[string]{ab, wrong}, glue.Glued{Elements: 321, Covered: 321, Mismatches: 4}, ""},
		{"a mismatch seen twice", []glue.Section[string]{ab, wrong, wrong}, glue.Glued{Elements: 321, Covered: 321, Mismatches: 8}, ""},
		{"a part is missing", []glue.Section[string]{ab}, glue.Glued{Elements: 321, Covered: 21}, "the shards cover 21 of 321 elements"},
		{"the same twice", []glue.Section[string]{ab, ab}, glue.Glued{Elements: 321, Covered: 21}, "the shards cover 21 of 321 elements"},
		{"nothing", nil, glue.Glued{Elements: 321}, "the shards cover 0 of 321 elements"},
		{"a disagreement", []glue.Section[string]{ab, bc, saw(map[string]string{"b": "x", "c": "x"})}, glue.Glued{Elements: 321, Covered: 321, Conflicts: 2},
			"shards that overlap saw different values in 2 cases"},
		{"a stranger", []glue.Section[string]{ab, bc, saw(map[string]string{"z": ""})}, glue.Glued{Elements: 321, Covered: 321, Strangers: 1},
			"the shards have 1 cases that are not part of the whole"},
		{"a stranger instead", []glue.Section[string]{ab, saw(map[string]string{"z": "3"})}, glue.Glued{Elements: 321, Covered: 21, Strangers: 1},
			"the shards have 1 cases that are not part of the whole"},
	} {
		got := glue.Join(maps.All(whole), test.sections)
		if got != test.want || got.Reason("shards", "cases") != test.reason || got.IsWhole() != (test.reason == "") {
			t.Errorf("%s: got %+v %q, whole %t; want %+v %q", test.what, got, got.Reason("shards", "cases"), got.IsWhole(), test.want, test.reason)
		}
	}
}

// TestJoinIsTheTheorem compares Join with what Glue.whole_is_seen says, written down plainly: it is
// whole if and only if every piece was seen, all who saw it saw the same, and nobody saw
// anything else.
func TestJoinIsTheTheorem(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	count := map[bool]int{}
	for range 5000 {
		whole := map[int]int64{}
		for k := range 1 + random.IntN(4) {
			whole[k] = 1 + random.Int64N(3)
		}
		sections := make([]glue.Section[int], random.IntN(4))
		for i := range sections {
			values := map[int]string{}
			for range random.IntN(4) {
				values[random.IntN(len(whole)*20/19+1)] = string(rune('a' + random.IntN(8)/7))
			}
			sections[i] = saw(values)
		}
		want := true
		for k := range whole {
			want = want && anySaw(sections, k)
		}
		for _, s := range sections {
			for k, hash := range s.Pieces {
				for _, other := range sections {
					if h, ok := other.Pieces[k]; ok && h != hash {
						want = false
					}
				}
				want = want && whole[k] > 0
			}
		}
		if got := glue.Join(maps.All(whole), sections); got.IsWhole() != want || (got.Reason("", "") == "") != want {
			t.Fatalf("%v in sections %v: %+v, want whole %t", whole, sections, got, want)
		}
		count[want]++
	}
	if count[true] < 300 || count[false] < 300 {
		t.Errorf("%d whole and %d not: the test sees only one kind", count[true], count[false])
	}
}

func anySaw(sections []glue.Section[int], k int) bool {
	for _, s := range sections {
		if _, ok := s.Pieces[k]; ok {
			return true
		}
	}
	return false
}

// The ranks of a training run hold copies of some tensors and shards of others. After a step
// the model is determined if each tensor is somewhere, and copies are the same.
func ExampleJoin() {
	model := map[string]int64{"embedding[0:4]": 4096, "embedding[4:8]": 4096, "norm": 1024}
	ranks := []glue.Section[string]{
		saw(map[string]string{"embedding[0:4]": "…", "norm": "1.5"}),
		saw(map[string]string{"embedding[4:8]": "…", "norm": "1.25"}), // it has drifted
	}
	fmt.Println(glue.Join(maps.All(model), ranks).Reason("ranks", "tensors"))
	// Output: ranks that overlap saw different values in 1 tensors
}

// Requests that share a prefix share the pages of a cache. Two requests that wrote different
// values to a page are found; so is a page that nobody wrote.
func ExampleGlued_Reason() {
	pages := func(yield func(int, int64) bool) {
		for page := 0; page < 3 && yield(page, 16); page++ { // 16 positions each
		}
	}
	var _ iter.Seq2[int, int64] = pages
	first, second := saw(map[int]string{0: "prefix", 1: "a"}), saw(map[int]string{0: "prefix"})
	g := glue.Join(pages, []glue.Section[int]{first, second})
	fmt.Println(g.IsWhole(), g.Reason("requests", "pages"))
	// Output: false the requests cover 32 of 48 elements
}
