//go:build unix

package kernelprocess

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"tokitai/def"
	"tokitai/kernelprocess/failure"
	"tokitai/kernelprocess/protocol"
	"tokitai/kernelprocess/shm"
)

// fakeVariable makes the test binary, started as `tokitai process`, a kernel process that
// misbehaves in the way of that name.
const fakeVariable = "TOKITAI_TEST_FAKE"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "process" {
		conn, err := shm.FromFD(3)
		if err != nil {
			panic(err)
		}
		(&fake{conn: conn, role: os.Getenv(fakeVariable)}).serve()
	}
	if len(os.Args) > 2 && os.Args[1] == "kernel" {
		serveStdio(os.Args[2])
	}
	Main()
	if role := os.Getenv(hostVariable); role != "" {
		os.Unsetenv(hostVariable)
		hostRole(role)
		return
	}
	os.Exit(m.Run())
}

// fake speaks the protocol for calls of one input and one output, which it answers with
// the input.
type fake struct {
	conn        *shm.Conn
	role        string
	calls       int
	definitions int
}

func (f *fake) serve() {
	var head [protocol.HeaderBytes]byte
	for {
		if _, err := io.ReadFull(f.conn, head[:]); err != nil {
			os.Exit(0)
		}
		h := protocol.ParseHeader(head[:])
		body := make([]byte, h.Length)
		if _, err := io.ReadFull(f.conn, body); err != nil {
			os.Exit(21)
		}
		switch h.Kind {
		case protocol.KindHello:
			f.hello(h.Request)
		case protocol.KindNew:
			f.reply(h.Request, protocol.KindOK, protocol.Numbers(nil, 1))
		case protocol.KindCall:
			f.calls++
			f.call(h.Request, body)
		case protocol.KindDefine:
			f.define(h.Request, body)
		case protocol.KindCancel:
		default:
			f.reply(h.Request, protocol.KindOK, nil)
		}
	}
}

func (f *fake) reply(request uint64, kind protocol.Kind, body []byte) {
	frame := protocol.Header{Length: uint64(len(body)), Request: request, Kind: kind}.Append(nil)
	f.conn.Write(append(frame, body...))
}

func (f *fake) hello(request uint64) {
	switch f.role {
	case "silent":
		return
	case "exit":
		fmt.Fprintln(os.Stderr, "no luck today")
		os.Exit(3)
	case "old":
		f.reply(request, protocol.KindError, (&protocol.Failure{Code: protocol.CodeVersion, Message: "the client speaks versions 1 to 1, want 7"}).Append(nil))
		os.Exit(2)
	case "chatter":
		f.conn.Write([]byte("usage: chatter [-x] file, and that is all there is to say about it\n"))
		return
	}
	welcome := protocol.Welcome{Version: 1, Generation: uint64(time.Now().UnixNano()), Build: "fake", Device: "cpu", MaxFrame: 1 << 30, MemoryLimit: 1 << 40, HasArenas: f.role != "bare"}
	if f.role == "future" {
		welcome.Version = 9
	}
	f.reply(request, protocol.KindOK, welcome.Append(nil))
	if f.role == "idle-exit" {
		os.Exit(4)
	}
}

func (f *fake) define(request uint64, text []byte) {
	f.definitions++
	identity := fmt.Sprintf("%s%x", protocol.IdentityPrefix, sha256.Sum256(text))
	switch {
	case f.role == "define-hang":
		fmt.Fprintln(os.Stderr, "I shall think about it")
		return
	case f.role == "define-once" && f.definitions > 1:
		fmt.Fprintln(os.Stderr, "sent twice")
		os.Exit(7)
	case f.role == "define-other":
		identity = protocol.IdentityPrefix + "0"
	case f.role == "define-later" && f.definitions == 1:
		f.reply(request, protocol.KindError, failure.Of(&def.SyntaxError{Line: 2, Column: 7, Message: "unexpected"}).Append(nil))
		return
	}
	f.reply(request, protocol.KindOK, (&protocol.Defined{Identity: identity}).Append(nil))
}

// hang waits for a byte that nobody writes.
func hang() {
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	r.Read(make([]byte, 1))
	w.Close()
}

func (f *fake) call(request uint64, body []byte) {
	_, data, err := protocol.ParseCalls(body)
	if err != nil {
		panic(err)
	}
	good := (&protocol.Results{KernelNanoseconds: 1, Lowerings: []string{"fake"}, Data: data}).Append(nil)
	switch role, rest, _ := strings.Cut(f.role, "="); role {
	case "hang":
		fmt.Fprintln(os.Stderr, "I shall think about it")
		return
	case "deaf": // for CANCEL too
		hang()
	case "behind": // a gate, which ends the connection of those that may pass
		conn, err := net.Dial("unix", rest)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, conn)
		conn.Close()
	case "die":
		fmt.Fprintln(os.Stderr, "goodbye")
		os.Exit(7)
	case "die-once":
		if name := rest; os.Remove(name) == nil {
			os.Exit(7)
		}
	case "garbage":
		f.conn.Write([]byte(strings.Repeat("garbage ", 20)))
		return
	case "short":
		f.conn.Write(protocol.Header{Length: uint64(len(good)), Request: request, Kind: protocol.KindOK}.Append(nil)[:20])
		os.Exit(0)
	case "short-body":
		f.conn.Write(append(protocol.Header{Length: uint64(len(good)), Request: request, Kind: protocol.KindOK}.Append(nil), good[:8]...))
		os.Exit(0)
	case "enormous":
		f.conn.Write(protocol.Header{Length: 1 << 62, Request: request, Kind: protocol.KindOK}.Append(nil))
		return
	case "unknown":
		request += 1000
	case "answered": // a number that was in use
		f.reply(request, protocol.KindOK, good)
	case "too-short":
		good = good[:len(good)-1]
	case "too-long":
		good = append(good, 0)
	case "empty":
		good = nil
	case "lowerings":
		good = (&protocol.Results{Lowerings: []string{"a", "b"}, Data: data}).Append(nil)
	case "kind":
		f.reply(request, protocol.KindCall, good)
		return
	case "descriptors":
		f.conn.Write(append(protocol.Header{Length: uint64(len(good)), Request: request, Kind: protocol.KindOK, Descriptors: 1}.Append(nil), good...))
		return
	case "bad-error":
		f.reply(request, protocol.KindError, []byte{1, 2, 3})
		return
	case "long-error":
		f.conn.Write(protocol.Header{Length: 1 << 30, Request: request, Kind: protocol.KindError}.Append(nil))
		return
	case "close":
		f.conn.Close()
		hang()
	}
	f.reply(request, protocol.KindOK, good)
}
