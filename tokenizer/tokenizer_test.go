package tokenizer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tokitai/tokenizer"
)

// families are the tokenizers of testdata, which testdata/families.py trains.
var families = []string{"gpt2", "llama3", "llama4", "qwen3", "qwen35", "tekken", "llama2", "mistral", "gemma", "odd"}

func open(t testing.TB, family string) *tokenizer.Tokenizer {
	t.Helper()
	k, err := tokenizer.Open(filepath.Join("testdata", family+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// answer is what tokenizers makes of a text. What is missing is as what is before it.
type answer struct {
	Text          string   `json:"text"`
	IDs           []int32  `json:"ids"`
	NoSpecial     *[]int32 `json:"no_special"`
	SpecialAsText *[]int32 `json:"special_as_text"`
	Decoded       *string  `json:"decoded"`
	Skipped       *string  `json:"skipped"`
}

func or[T any](p *T, otherwise T) T {
	if p != nil {
		return *p
	}
	return otherwise
}

// compare compares everything that a tokenizer does to a text with an answer.
func compare(t *testing.T, k *tokenizer.Tokenizer, a answer) {
	t.Helper()
	noSpecial := or(a.NoSpecial, a.IDs)
	for _, c := range []struct {
		options tokenizer.EncodeOptions
		want    []int32
	}{
		{tokenizer.EncodeOptions{}, a.IDs},
		{tokenizer.EncodeOptions{NoSpecial: true}, noSpecial},
		{tokenizer.EncodeOptions{NoSpecial: true, SpecialAsText: true}, or(a.SpecialAsText, noSpecial)},
	} {
		if got, err := k.Encode(a.Text, c.options); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("Encode(%q, %+v)\n got  %v, %v\n want %v", a.Text, c.options, got, err, c.want)
		}
	}
	decoded := or(a.Decoded, a.Text)
	for _, c := range []struct {
		options tokenizer.DecodeOptions
		want    string
	}{{tokenizer.DecodeOptions{}, decoded}, {tokenizer.DecodeOptions{SkipSpecial: true}, or(a.Skipped, decoded)}} {
		if got, err := k.Decode(a.IDs, c.options); err != nil || got != c.want {
			t.Errorf("Decode(Encode(%q), %+v)\n got  %q, %v\n want %q", a.Text, c.options, got, err, c.want)
		}
	}
}

// TestAnswers compares with the answers of tokenizers.
func TestAnswers(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/answers.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		var answers []answer
		if err := json.Unmarshal(all[family], &answers); err != nil || len(answers) < 30 {
			t.Fatalf("%s: %d answers, %v", family, len(answers), err)
		}
		k := open(t, family)
		for _, a := range answers {
			compare(t, k, a)
		}
	}
	if len(all) != len(families)+1 {
		t.Errorf("answers.json has %d members, want %d families and the version", len(all), len(families))
	}
}

// TestStream: the parts of a stream are whole characters, and together the text of Decode, for any
// ids.
func TestStream(t *testing.T) {
	t.Parallel()
	for _, family := range families {
		k := open(t, family)
		s := k.NewStream(tokenizer.DecodeOptions{})
		state := uint32(1)
		for range 300 {
			var ids []int32
			var parts strings.Builder
			for range 1 + state>>8%12 {
				state = state*1664525 + 1013904223
				id := int32(state >> 10 % 280)
				ids = append(ids, id)
				part, err := s.Next(id)
				if err != nil {
					t.Fatal(err)
				}
				if !utf8.ValidString(part) {
					t.Errorf("%s: %v: the part %q is not UTF-8", family, ids, part)
				}
				parts.WriteString(part)
			}
			parts.WriteString(s.End())
			want, err := k.Decode(ids, tokenizer.DecodeOptions{})
			if got := parts.String(); err != nil || got != want {
				t.Errorf("%s: %v: the stream gives %q, Decode gives %q, %v", family, ids, got, want, err)
			}
		}
	}
}

// TestBytes: the bytes of the tokens of a text are those of the text behind another one.
func TestBytes(t *testing.T) {
	t.Parallel()
	for _, family := range families {
		k := open(t, family)
		const text = "a b, größer 日本 😀\n"
		ids, err := k.Encode(text, tokenizer.EncodeOptions{NoSpecial: true})
		if err != nil {
			t.Fatal(err)
		}
		var all []byte
		for _, id := range ids {
			b, ok := k.Bytes(id)
			if !ok {
				t.Errorf("%s: %d has no bytes", family, id)
			}
			all = append(all, b...)
		}
		first, err := k.Decode(ids, tokenizer.DecodeOptions{})
		both, err2 := k.Decode(slices.Concat(ids, ids), tokenizer.DecodeOptions{})
		if want := strings.TrimPrefix(both, first); err != nil || err2 != nil || string(all) != want {
			t.Errorf("%s: the bytes are %q, want %q, %v, %v", family, all, want, err, err2)
		}
		if _, ok := k.Bytes(1 << 30); ok {
			t.Errorf("%s: an id without a token has bytes", family)
		}
	}
}

// TestSplitCharacter: a character comes with the last of its bytes; from bytes of byte fallback,
// when their run ends.
func TestSplitCharacter(t *testing.T) {
	t.Parallel()
	for family, end := range map[string]int{"gpt2": 4, "llama2": 5} { // how many tokens it takes until 😀 is there
		k := open(t, family)
		ids, err := k.Encode("😀a", tokenizer.EncodeOptions{NoSpecial: true})
		if err != nil {
			t.Fatal(err)
		}
		if family == "llama2" {
			ids = ids[1:] // the space that it puts in front
		}
		s := k.NewStream(tokenizer.DecodeOptions{})
		all := ""
		for i, id := range ids {
			part, err := s.Next(id)
			if all += part; err != nil || (all == "") != (i+1 < end) {
				t.Errorf("%s: after %d of %v the text is %q, %v", family, i+1, ids, all, err)
			}
		}
		if all += s.End(); all != "😀a" {
			t.Errorf("%s: %q", family, all)
		}
	}
}

func TestBadText(t *testing.T) {
	t.Parallel()
	k := open(t, "gpt2")
	for text, want := range map[string]string{"ab\xffc": "byte 2", "\xed\xa0\x80": "byte 0", "é\xe2\x82": "byte 2", "\xc0\x80": "byte 0"} {
		if _, err := k.Encode(text, tokenizer.EncodeOptions{}); err == nil || !strings.Contains(err.Error(), "not UTF-8 at "+want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for _, id := range []int32{-1, 5000, 1<<31 - 1} {
		if _, err := k.Decode([]int32{id}, tokenizer.DecodeOptions{}); err == nil || !strings.Contains(err.Error(), "no token has the id") {
			t.Errorf("id %d: %v", id, err)
		}
	}
}

// TestLong: words of 262,144 characters take n log n steps. Quadratic ones would take minutes.
func TestLong(t *testing.T) {
	t.Parallel()
	const n = 1 << 18
	for _, text := range []string{strings.Repeat("e", n), strings.Repeat("th", n/2), strings.Repeat("\u0301", n/2), strings.Repeat(" ", n), strings.Repeat("1", n), strings.Repeat("\r", n)} {
		for _, family := range []string{"gpt2", "llama2", "odd"} {
			k := open(t, family)
			start := time.Now()
			ids, err := k.Encode(text, tokenizer.EncodeOptions{NoSpecial: true})
			if err != nil || len(ids) == 0 {
				t.Fatal(err)
			}
			t.Logf("%s: %.2q…: %d ids, %v", family, text, len(ids), time.Since(start))
			back, err := k.Decode(ids, tokenizer.DecodeOptions{})
			if err != nil || strings.Trim(back, " ") != strings.Trim(text, " ") {
				t.Errorf("%s: %.8q… does not come back: %.20q…, %v", family, text, back, err)
			}
		}
	}
}

// TestConcurrent: a Tokenizer may be used by many goroutines.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	k := open(t, "qwen3")
	text := strings.Repeat("it's é e\u0301 12345 the reader\n", 20)
	want, err := k.Encode(text, tokenizer.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	for range 4 {
		go func() {
			for range 20 {
				if got, err := k.Encode(text, tokenizer.EncodeOptions{}); err != nil || !slices.Equal(got, want) {
					t.Error("other ids, or", err)
				}
			}
			done <- true
		}()
	}
	for range 4 {
		<-done
	}
}
