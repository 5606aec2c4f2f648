package docs_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	backends "tokitai/backend/all"
	"tokitai/kernelprocess/child"
	"tokitai/kernelprocess/protocol"
	"tokitai/op/all"
)

const protocolFile = "protocol.md"

// TestProtocolExamples holds the conversation of the page to the server: its requests are
// sent as they stand there, and what is answered has the bytes that stand there, but for
// what differs from process to process.
func TestProtocolExamples(t *testing.T) {
	frames := framesOf(t)
	if len(frames) != 8 {
		t.Fatalf("%s has %d frames in bytes, want 8", protocolFile, len(frames))
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		served <- child.FD(pair[0], child.Options{Operations: all.Operations, Open: backends.Open, Device: "cpu", MaxFrame: 1 << 20, MemoryLimit: 64 << 20})
	}()
	client := os.NewFile(uintptr(pair[1]), "client")
	for i := 0; i < len(frames); i += 2 {
		request, want := frames[i], frames[i+1]
		if _, err := client.Write(request); err != nil {
			t.Fatal(err)
		}
		got := asExample(t, protocol.ParseHeader(request).Kind, readFrame(t, client), want)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the answer to frame %d is\n%swant as on the page\n%s", protocolFile, i+1, hex.Dump(got), hex.Dump(want))
		}
	}
	client.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestProtocolTables compares the numbers of requests and errors on the page with those of
// package protocol.
func TestProtocolTables(t *testing.T) {
	text := readText(t, protocolFile)
	for k := protocol.KindHello; k <= protocol.KindDefine; k++ {
		if row := fmt.Sprintf("\n| %d | `%s` | ", k, k); !strings.Contains(text, row) {
			t.Errorf("%s has no row %q", protocolFile, row)
		}
	}
	errorRow := regexp.MustCompile(`(?m)^\| (\d+) \| [a-z ]+ \| `)
	_, table, _ := strings.Cut(text, "\n## Errors\n")
	if got, want := len(errorRow.FindAllString(table, -1)), int(protocol.CodeDefinition); got != want {
		t.Errorf("%s lists %d errors, want %d", protocolFile, got, want)
	}
}

// framesOf reads the blocks of bytes: up to 16 in a line, and after them what they mean.
func framesOf(t *testing.T) (frames [][]byte) {
	t.Helper()
	text, err := os.ReadFile(protocolFile)
	if err != nil {
		t.Fatal(err)
	}
	const wide = 16*3 - 1
	for _, block := range strings.Split(string(text), "```hex\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		var frame []byte
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			b, err := hex.DecodeString(strings.ReplaceAll(line[:min(len(line), wide)], " ", ""))
			if err != nil {
				t.Fatalf("%s: line %q: %v", protocolFile, line, err)
			}
			frame = append(frame, b...)
		}
		if len(frame) < protocol.HeaderBytes || protocol.ParseHeader(frame).Length != uint64(len(frame)-protocol.HeaderBytes) {
			t.Fatalf("%s: a frame of %d bytes does not have the length that it says", protocolFile, len(frame))
		}
		frames = append(frames, frame)
	}
	return frames
}

func readFrame(t *testing.T, r io.Reader) []byte {
	t.Helper()
	frame := make([]byte, protocol.HeaderBytes)
	if _, err := io.ReadFull(r, frame); err != nil {
		t.Fatal(err)
	}
	frame = append(frame, make([]byte, protocol.ParseHeader(frame).Length)...)
	if _, err := io.ReadFull(r, frame[protocol.HeaderBytes:]); err != nil {
		t.Fatal(err)
	}
	return frame
}

// asExample is a reply with the page's generation, build, description and time in place
// of its own.
func asExample(t *testing.T, request protocol.Kind, reply, page []byte) []byte {
	t.Helper()
	header, body, example := protocol.ParseHeader(reply), reply[protocol.HeaderBytes:], page[protocol.HeaderBytes:]
	if header.Kind != protocol.KindOK || protocol.ParseHeader(page).Kind != protocol.KindOK {
		return reply
	}
	var replaced func([]byte) []byte
	switch request {
	case protocol.KindHello:
		got, want := parsed(t, protocol.ParseWelcome, body), parsed(t, protocol.ParseWelcome, example)
		got.Generation, got.Build, got.Description = want.Generation, want.Build, want.Description
		replaced = got.Append
	case protocol.KindCall:
		got, want := parsed(t, protocol.ParseResults, body), parsed(t, protocol.ParseResults, example)
		got.KernelNanoseconds = want.KernelNanoseconds
		replaced = got.Append
	default:
		return reply
	}
	return protocol.AppendFrame(nil, header.Request, header.Kind, 0, replaced)
}

func parsed[M any](t *testing.T, parse func([]byte) (M, error), body []byte) M {
	t.Helper()
	m, err := parse(body)
	if err != nil {
		t.Fatalf("%x: %v", body, err)
	}
	return m
}
