package protocol

import (
	"bytes"
	"errors"
	"testing"
)

// fuzz holds parsers to two things: what is refused is malformed, and what is accepted
// is written again as the same bytes.
func fuzz(f *testing.F, names ...string) {
	var targets []message
	for _, m := range messages {
		for _, name := range names {
			if m.name == name {
				targets = append(targets, m)
			}
		}
	}
	if len(targets) != len(names) {
		f.Fatalf("messages %q: %d of them exist", names, len(targets))
	}
	for _, m := range targets {
		for seed := range uint64(8) {
			_, body := m.random(newRandom(seed))
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, m := range targets {
			value, err := m.parse(body)
			if err != nil {
				if failure, ok := errors.AsType[*Failure](err); !ok || failure.Code != CodeMalformed {
					t.Errorf("%s: got error %v, want a malformed one", m.name, err)
				}
				continue
			}
			if again := m.again(value); !bytes.Equal(again, body) {
				t.Errorf("%s: written again %x, want %x", m.name, again, body)
			}
		}
	})
}

func FuzzHello(f *testing.F)    { fuzz(f, "hello", "welcome") }
func FuzzCalls(f *testing.F)    { fuzz(f, "calls") }
func FuzzJudge(f *testing.F)    { fuzz(f, "judge", "truth") }
func FuzzResults(f *testing.F)  { fuzz(f, "results") }
func FuzzTransfer(f *testing.F) { fuzz(f, "write", "read", "number", "arena", "drop") }
func FuzzList(f *testing.F)     { fuzz(f, "list", "stats", "nothing", "defined") }
func FuzzFailure(f *testing.F)  { fuzz(f, "failure") }

func FuzzHeader(f *testing.F) {
	f.Add(Header{Length: 1, Request: 2, Kind: KindCall, Descriptors: 3}.Append(nil))
	f.Add(bytes.Repeat([]byte{255}, HeaderBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < HeaderBytes {
			return
		}
		h := ParseHeader(b)
		if again := h.Append(nil); !bytes.Equal(again, b[:HeaderBytes]) {
			t.Errorf("written again %x, want %x", again, b[:HeaderBytes])
		}
		_ = h.Kind.String()
	})
}
