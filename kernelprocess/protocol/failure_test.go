package protocol

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestClipped: whatever an error says can be sent, and what can be sent is not changed.
func TestClipped(t *testing.T) {
	for _, c := range []struct{ name, s, want string }{
		{"empty", "", ""},
		{"short", "é€𝄞\x00", "é€𝄞\x00"},
		{"longest", strings.Repeat("x", maxString), strings.Repeat("x", maxString)},
		{"one more", strings.Repeat("x", maxString+1), strings.Repeat("x", maxString)},
		{"cut in two bytes", strings.Repeat("x", maxString-1) + "é", strings.Repeat("x", maxString-1)},
		{"cut in three bytes", strings.Repeat("x", maxString-2) + "€", strings.Repeat("x", maxString-2)},
		{"cut in four bytes", strings.Repeat("x", maxString-3) + "𝄞", strings.Repeat("x", maxString-3)},
		{"invalid", "a\xffb", "a\uFFFDb"},
		{"invalid at the end", "a\xc3", "a\uFFFD"},
		{"surrogate", "a\xed\xa0\x80b", "a\uFFFDb"},
		{"invalid before the cut", "\xff" + strings.Repeat("x", maxString), "\uFFFD" + strings.Repeat("x", maxString-3)},
		{"invalid at the cut", strings.Repeat("x", maxString-1) + "\xff\xff", strings.Repeat("x", maxString-1)},
		{"invalid after the cut", strings.Repeat("x", maxString) + "\xff", strings.Repeat("x", maxString)},
	} {
		if got := clipped(c.s); got != c.want {
			t.Errorf("%s: got %d bytes %.20q…, want %d bytes %.20q…", c.name, len(got), got, len(c.want), c.want)
		}
	}
	r := newRandom(1)
	for range 2000 {
		b := make([]byte, r.IntN(3*maxString))
		for i := range b {
			b[i] = "x\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e\xff"[r.IntN(11)]
		}
		if got := clipped(string(b)); len(got) > maxString || !utf8.ValidString(got) {
			t.Fatalf("%x: got %d bytes, valid UTF-8 is %v", b, len(got), utf8.ValidString(got))
		}
	}
}

// TestAnyStringCanBeSent: a message may hold anything, of any length.
func TestAnyStringCanBeSent(t *testing.T) {
	long := strings.Repeat("goroutine \xff€ ", 2000)
	f := Failure{Code: CodeInternal, Message: long, Details: []Detail{{long, long}}}
	if got, err := ParseFailure(f.Append(nil)); err != nil || len(got.Message) > maxString || got.Detail(clipped(long)) == "" {
		t.Errorf("a failure: got %v, %v", got, err)
	}
	m := Welcome{Build: long, Device: long, Description: long}
	if _, err := ParseWelcome(m.Append(nil)); err != nil {
		t.Error(err)
	}
}
