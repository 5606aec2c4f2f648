package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestPatterns compares the words of the scanners with those of tokenizers.
func TestPatterns(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/words.json")
	if err != nil {
		t.Fatal(err)
	}
	var answers map[string][][]string
	if err := json.Unmarshal(data, &answers); err != nil {
		t.Fatal(err)
	}
	for text, p := range patterns {
		texts, ok := answers[text]
		if !ok || len(texts) < 30 {
			t.Errorf("words.json has %d texts for %s", len(texts), text)
		}
		scan := p.scanner()
		for _, want := range texts {
			s := strings.Join(want, "")
			var got []string
			for i := 0; i < len(s); {
				end := scan(s, i)
				got = append(got, s[i:end])
				i = end
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s\n %q\n got  %q\n want %q", text, s, got, want)
			}
		}
	}
	if len(answers) != len(patterns) {
		t.Errorf("words.json has %d patterns, want %d", len(answers), len(patterns))
	}
}
