package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tokitai/internal/tool"
)

// TestTrain: merges worked out by hand.
func TestTrain(t *testing.T) {
	t.Parallel()
	merges := func(size int, texts ...string) (list []string) {
		t.Helper()
		file, err := Train(slices.Values(texts), size)
		if err != nil {
			t.Fatal(err)
		}
		var f struct{ Model struct{ Merges [][2]string } }
		if err := json.Unmarshal(file, &f); err != nil {
			t.Fatal(err)
		}
		for _, m := range f.Model.Merges {
			list = append(list, m[0]+"+"+m[1])
		}
		return list
	}
	if got := strings.Join(merges(300, "ab ab ab ab"), " "); got != "a+b Ġ+ab" {
		t.Errorf("merges %s", got)
	}
	if got := strings.Join(merges(300, "zyzy\nxwxw"), " "); got != "x+w z+y" {
		t.Errorf("merges %s: of two pairs that occur twice, that of lower tokens is first", got)
	}
	if got := strings.Join(merges(300, "aaaa"), " "); got != "a+a" {
		t.Errorf("merges %s", got)
	}
	if got := merges(258, "ab ab ab ab"); len(got) != 1 {
		t.Errorf("258 tokens have %d merges, want 1", len(got))
	}
	if got := merges(300, "a b c", "d"); len(got) != 0 {
		t.Errorf("merges %v of pairs that occur once", got)
	}
	for _, size := range []int{0, 256, 1<<24 + 1} {
		if _, err := Train(slices.Values([]string{"a"}), size); err == nil {
			t.Errorf("%d tokens: no error", size)
		}
	}
	if _, err := Train(slices.Values([]string{"\xff"}), 300); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("text that is not UTF-8: %v", err)
	}
}

// english is some text: this package's own source.
func english(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// TestTrainedFile: what Train writes is read, gives each text back, and has fewer tokens than bytes.
func TestTrainedFile(t *testing.T) {
	t.Parallel()
	texts := english(t)
	file, err := Train(slices.Values(texts), 1000)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(texts)
	again, err := Train(slices.Values(texts), 1000)
	if err != nil || !bytes.Equal(file, again) {
		t.Errorf("another order of texts gives another file; %v", err)
	}
	x, err := Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	if x.Size() != 1000 {
		t.Errorf("%d tokens, want 1000", x.Size())
	}
	for _, text := range append(texts, "", "naïve 漢字 😀\r\n\t x", "<|begin|>") {
		ids, err := x.Encode(text, EncodeOptions{SpecialAsText: true})
		if err != nil {
			t.Fatal(err)
		}
		got, err := x.Decode(ids, DecodeOptions{SkipSpecial: true})
		if err != nil || got != text || ids[0] != 999 {
			t.Fatalf("%.20q: got %.20q, first token %d, %v", text, got, ids[0], err)
		}
		if len(text) > 1000 && len(ids) > len(text)/2 {
			t.Errorf("%d tokens for %d bytes", len(ids), len(text))
		}
	}
}

const trainScript = `
import json, sys
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
t = Tokenizer(models.BPE())
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
trainer = trainers.BpeTrainer(vocab_size=999, min_frequency=2, special_tokens=[], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
t.train_from_iterator(json.load(sys.stdin), trainer)
json.dump(json.loads(t.to_str())["model"]["merges"], sys.stdout)
`

// TestTrainPeer compares merges with those of Hugging Face's trainer.
func TestTrainPeer(t *testing.T) {
	t.Parallel()
	python := tool.Need(t, "python3")
	if err := exec.Command(python, "-c", "import tokenizers").Run(); err != nil {
		tool.Missing(t, "tokenizers", "python3 cannot import it")
	}
	texts := english(t)
	input, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(python, "-c", trainScript)
	c.Stdin = bytes.NewReader(input)
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want [][2]string
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	file, err := Train(slices.Values(texts), 1000)
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Model struct{ Merges [][2]string } }
	if err := json.Unmarshal(file, &f); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Model.Merges, want) {
		for i, m := range f.Model.Merges {
			if i >= len(want) || m != want[i] {
				t.Fatalf("merge %d is %q, of %d; want that of the library, of %d", i, m, len(f.Model.Merges), len(want))
			}
		}
		t.Fatalf("%d merges, want %d", len(f.Model.Merges), len(want))
	}
}
