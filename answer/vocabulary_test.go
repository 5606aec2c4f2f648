package answer_test

import (
	"runtime"
	"testing"

	"tokitai/answer"
)

// TestTextOf: the text of many tokens takes memory in proportion to them.
func TestTextOf(t *testing.T) {
	tokens := make([]int32, 50000)
	for i := range tokens {
		tokens[i] = 'a'
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := answer.TextOf(answer.Bytes{}, tokens)
	runtime.ReadMemStats(&after)
	if err != nil || len(text) != len(tokens) {
		t.Fatal(len(text), err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(tokens))*100 {
		t.Errorf("%d bytes for %d tokens", n, len(tokens))
	}
	if text, err := answer.TextOf(answer.Bytes{}, []int32{'a', 0xc3}); err != nil || text != "a\ufffd" {
		t.Errorf("half a character is %q, %v", text, err)
	}
	if _, err := answer.TextOf(answer.Bytes{}, []int32{999}); err == nil {
		t.Error("a token that is none has a text")
	}
}
