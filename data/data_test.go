package data

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"b.txt": "xy", "a/z.txt": "é", "a/z.bin": "no"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path, suffix string) (*Corpus, error) {
		d, err := ReadDocuments(path, suffix)
		if err != nil {
			return nil, err
		}
		return d.Corpus(Bytes)
	}
	c, err := read(dir, ".txt")
	if err != nil {
		t.Fatal(err)
	}
	want := []int32{Beginning, 0xc3, 0xa9, Beginning, 'x', 'y'}
	if !slices.Equal(c.Tokens, want) || c.Documents != 2 || c.Digest != New([]byte("é"), []byte("xy")).Digest {
		t.Errorf("got %v in %d documents, want %v in 2, those of a/z.txt and b.txt", c.Tokens, c.Documents, want)
	}
	if c.Digest == New([]byte("éx"), []byte("y")).Digest || c.Digest == New([]byte("xy"), []byte("é")).Digest {
		t.Error("documents that are divided otherwise, or in another order, have the same digest")
	}
	for path, want := range map[string]string{filepath.Join(dir, "none"): "no such file", filepath.Join(dir, "a", "z.bin"): ""} {
		if _, err := read(path, ".txt"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
	if _, err := read(dir, ".go"); err == nil || !strings.Contains(err.Error(), "no files") {
		t.Errorf("a folder without such files: error %v", err)
	}
}

// TestLines reads documents that are lines of JSON.
func TestLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lines.jsonl")
	for text, want := range map[string]string{
		"{\"text\": \"a\\nb\", \"id\": 7}\n\n{\"text\": \"\"}": "", "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n": "lines.jsonl:2: the object has no member",
		"{\"text\": 1}": "lines.jsonl:1: ", "": "is empty", "[]": "lines.jsonl:1: ",
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		d, err := ReadDocuments(path, "")
		if want == "" && (err != nil || len(d) != 2 || string(d[0]) != "a\nb" || len(d[1]) != 0) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, error %v, want %q", text, d, err, want)
		}
	}
}

// TestTokenizer: a corpus as tokens of a tokenizer that is trained on it.
func TestTokenizer(t *testing.T) {
	t.Parallel()
	d := Documents{[]byte("the cat and the dog"), []byte("the dog <|begin|> é")}
	x, err := d.TrainTokenizer(262)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Corpus(x)
	if err != nil {
		t.Fatal(err)
	}
	begins := 0
	for _, id := range c.Tokens {
		if int(id) == x.Size-1 {
			begins++
		}
	}
	if begins != 2 || int(c.Tokens[0]) != x.Size-1 || x.Size > 262 || len(c.Tokens) >= 42 {
		t.Errorf("%d tokens of %d, %d of them at the beginning of a document: %v", len(c.Tokens), x.Size, begins, c.Tokens)
	}
	if text, err := x.Decode(c.Tokens); err != nil || text != string(d[0])+string(d[1]) {
		t.Errorf("decoded: %q, %v", text, err)
	}
	if bytes := New(d...); c.Digest == bytes.Digest || c.Tokenizer.Identity == bytes.Tokenizer.Identity {
		t.Error("other tokens have the digest of bytes")
	}
	if _, err := (Documents{[]byte("a"), {0xff}}).Corpus(x); err == nil || !strings.Contains(err.Error(), "document 2: ") {
		t.Errorf("bytes that are no text: error %v", err)
	}
	if _, err := ParseTokenizer([]byte("{}")); err == nil {
		t.Error("a tokenizer.json without a model is used")
	}
	if text, err := Bytes.Decode([]int32{Beginning, 'a', 0xff}); err != nil || text != "a\ufffd" {
		t.Errorf("bytes decoded: %q, %v", text, err)
	}
	if _, err := Bytes.Decode([]int32{Vocabulary}); err == nil {
		t.Error("a token that there is not is decoded")
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	text := Grammar(1, 83)
	b, err := New(text).Split(4) // 84 tokens: 20 blocks and 3 tokens behind the label of the last
	if err != nil {
		t.Fatal(err)
	}
	if b.Train != 18 || b.Validation != 2 {
		t.Errorf("%d and %d blocks, want 18 and 2", b.Train, b.Validation)
	}
	tokens, labels := make([]int32, 4), make([]int32, 4)
	b.Put(tokens, labels, b.Begin(19))
	for i := range tokens {
		if tokens[i] != int32(text[75+i]) || labels[i] != int32(text[76+i]) {
			t.Errorf("token %d of the last block is %d with label %d, want %d and %d", i, tokens[i], labels[i], text[75+i], text[76+i])
		}
	}
	if _, err := New(text[:39]).Split(4); err == nil || !strings.Contains(err.Error(), "has 40 tokens, want at least 41") {
		t.Errorf("a corpus of 40 tokens: error %v", err)
	}
	if _, err := (&Corpus{}).Split(4); err == nil {
		t.Error("an empty corpus is split")
	}
	if _, err := New(text[:3]).Whole(4); err == nil {
		t.Error("a corpus without a label for its last token is used")
	}
}

// TestOrder: each epoch has every block once, in an order of its own.
func TestOrder(t *testing.T) {
	t.Parallel()
	orders := map[string]bool{}
	for _, n := range []int{1, 2, 3, 17, 64, 1000} {
		for epoch := range uint64(3) {
			var list []int
			for i := range n {
				list = append(list, Order(7, epoch, n, i))
			}
			if n > 3 {
				orders[strings.Trim(string(runes(list)), "")] = true
			}
			slices.Sort(list)
			for i, v := range list {
				if v != i {
					t.Fatalf("%d blocks, epoch %d: place %d of the sorted order is block %d", n, epoch, i, v)
				}
			}
		}
	}
	if len(orders) != 9 {
		t.Errorf("%d orders, want 9", len(orders))
	}
	if got := [...]int{Order(1, 2, 100, 3), Order(1, 2, 100, 4), Order(1, 1<<40, 1<<20, 5)}; got != orderAnswers {
		t.Errorf("order %v, want %v: runs that were begun would go on with other data", got, orderAnswers)
	}
}

// TestDraw: without a shift an epoch has every block once; with one it has as many blocks but one, side by side, which begin
// elsewhere in the next epoch and end where training's tokens end, at the latest.
func TestDraw(t *testing.T) {
	t.Parallel()
	b, err := New(Grammar(1, 83)).Split(4) // 18 blocks for training
	if err != nil {
		t.Fatal(err)
	}
	epoch := func(number, n int, isShifted bool) []int {
		var list []int
		for i := range n {
			list = append(list, b.Draw(7, number*n+i, isShifted))
		}
		slices.Sort(list)
		return list
	}
	shifts := map[int]bool{}
	for e := range 50 {
		for i, at := range epoch(e, 18, false) {
			if at != b.Begin(i) {
				t.Fatalf("epoch %d: place %d of the sorted order begins at token %d, want %d", e, i, at, b.Begin(i))
			}
		}
		list := epoch(e, 17, true)
		shifts[list[0]] = true
		for i, at := range list {
			if at != list[0]+4*i || at+4 > 18*4 {
				t.Fatalf("epoch %d: shifted blocks begin at %v", e, list)
			}
		}
	}
	if len(shifts) != 4 || !shifts[0] || !shifts[3] {
		t.Errorf("shifts %v, want 0 to 3", shifts)
	}
	if got := b.Draw(7, 1000, true); got != 5 {
		t.Errorf("example 1000 begins at token %d, want 5: runs that were begun would go on with other data", got)
	}
	one := &Blocks{Size: 4, Train: 1, Validation: 1}
	if got := one.Draw(7, 5, true); got != 0 {
		t.Errorf("the only block begins at token %d, want 0", got)
	}
}

func runes(list []int) []rune {
	var r []rune
	for _, v := range list {
		r = append(r, rune(v))
	}
	return r
}

// TestGrammar counts how often each step follows each letter: the frequencies are within five
// standard deviations of the probabilities that the entropy follows from.
func TestGrammar(t *testing.T) {
	t.Parallel()
	const n = 1 << 16
	text := Grammar(3, n)
	var steps [4]float64
	var pairs [letters][letters]float64
	for i := 2; i < n; i++ {
		step := (int(text[i]-'a') - 5*int(text[i-2]-'a') - 1) & (letters - 1)
		if step > 3 {
			t.Fatalf("place %d: letter %c after %c", i, text[i], text[i-2])
		}
		steps[step]++
		pairs[text[i-1]-'a'][text[i]-'a']++
	}
	near := func(what string, got, p float64) {
		if limit := 5 * math.Sqrt(n*p*(1-p)); math.Abs(got-n*p) > limit {
			t.Errorf("%s: %v of %d, want %v within %v", what, got, n, n*p, limit)
		}
	}
	for i, p := range []float64{1. / 2, 1. / 4, 1. / 8, 1. / 8} {
		near("step", steps[i], p)
	}
	for i := range pairs {
		for k := range pairs {
			near("pair", pairs[i][k], 1./letters/letters)
		}
	}
	if got, want := GrammarLoss(1), math.Log(16); math.Abs(got-want) > 1e-15 {
		t.Errorf("loss of blocks of 1: %v, want %v", got, want)
	}
}

// orderAnswers were computed when the order was fixed.
var orderAnswers = [3]int{31, 77, 897396}
