package stdio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
)

// FuzzRequest: whatever is read is refused by a code of the kernel, or is a request that
// reads back as itself.
func FuzzRequest(f *testing.F) {
	s := newSampler(1)
	for i, kernel := range Kernels() {
		f.Add(byte(i), []byte(s.sample(f, kernel).text))
	}
	f.Add(byte(4), s.sample(f, "adamw").binary)
	f.Fuzz(func(t *testing.T, which byte, payload []byte) {
		kernel := Kernels()[int(which)%len(kernels)]
		holdsRequest(t, kernel, payload)
	})
}

// FuzzBinary is FuzzRequest with a header of binary adamw before the body.
func FuzzBinary(f *testing.F) {
	f.Add(uint32(binaryMagic), uint32(1), int32(1), float32(0.5), make([]byte, 12))
	f.Add(uint32(binaryMagic), uint32(1<<28), int32(-1), float32(-1), []byte("x"))
	f.Fuzz(func(t *testing.T, magic, n uint32, step int32, hyper float32, body []byte) {
		b := binary.LittleEndian.AppendUint32(nil, magic)
		b = binary.LittleEndian.AppendUint32(b, n)
		for range 5 {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(hyper))
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(step))
		b = append(append(b, 0, 0, 0, 0), body...)
		holdsRequest(t, "adamw", b)
	})
}

func holdsRequest(t *testing.T, kernel string, payload []byte) {
	t.Helper()
	q, err := ParseRequest(kernel, bytes.NewReader(payload), 1<<20)
	if err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok || !isRequestCode(kernel, e.Code) || strings.ContainsAny(e.Error(), "\n\r") {
			t.Fatalf("%s %q: %v", kernel, payload, err)
		}
		return
	}
	text, err := q.AppendTo(nil)
	if err != nil {
		t.Fatalf("%s %q: %v", kernel, payload, err)
	}
	again, err := ParseRequest(kernel, bytes.NewReader(text), 1<<20)
	if err != nil || !reflect.DeepEqual(again, q) {
		t.Fatalf("%s %q: %q is read as %+v, %v, want %+v", kernel, payload, text, again, err, q)
	}
}

// isRequestCode says whether a request of a kernel can be refused with a code.
func isRequestCode(kernel string, code int) bool {
	return 2 <= code && code <= 9 || kernel == "adamw" && 30 <= code && code <= 34 || kernel == "layernorm" && 11 <= code && code <= 16
}

// FuzzFrames: whatever the stream, every answer is a frame, complete requests are answered
// one by one, and the end has one of four codes.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x04\x00\x00\x001\n0\n\x00\x00\x00\x00"))
	f.Add([]byte("\xff\xff\xff\xff1 2 3"))
	f.Add([]byte("\x01\x00"))
	f.Add(append(frame("1\n0\n"), frame("2 1 2 x")...))
	const most = 1 << 10
	p := newProcess(f, "gelu", Options{MemoryLimit: most, MaxFrame: most})
	f.Fuzz(func(t *testing.T, stream []byte) {
		want, end := 0, 0
		for rest := stream; len(rest) > 0; want++ {
			if len(rest) < 4 {
				end = CodeLength
				break
			}
			n := int64(binary.LittleEndian.Uint32(rest))
			if rest = rest[4:]; int64(len(rest)) < n {
				end = CodePayload
				break
			}
			rest = rest[n:]
		}
		var out bytes.Buffer
		if got := codeOf(p.Serve(bytes.NewReader(stream), &out)); got != end {
			t.Fatalf("code %d, want %d", got, end)
		}
		answers := frames(t, out.Bytes())
		if len(answers) != want {
			t.Fatalf("%d answers, want %d", len(answers), want)
		}
		for _, a := range answers {
			if !strings.HasPrefix(a, "ERR ") && !strings.HasPrefix(a, "DEVICE_NAME=") {
				t.Fatalf("answer %q", a)
			}
		}
	})
}

// FuzzResponse: whatever a server answers is a response of the asked size, or an error that
// says so.
func FuzzResponse(f *testing.F) {
	f.Add([]byte(goodReply), false)
	f.Add([]byte("ERR 3 N is 0\n"), false)
	f.Add(append(make([]byte, 4), 1, 0, 0, 0, 0, 0, 0, 63, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), true)
	f.Fuzz(func(t *testing.T, payload []byte, isBinary bool) {
		q := gelu1()
		if isBinary {
			var err error
			if q, err = ParseRequest("adamw", strings.NewReader(binaryRequest(func(b []byte) []byte { return b })), 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		c := NewClient(bytes.NewReader(frame(string(payload))), io.Discard, func() error { return nil })
		r, err := c.Do(t.Context(), q)
		_, isAnswer := errors.AsType[*Error](err)
		_, isReply := errors.AsType[*ReplyError](err)
		switch {
		case err == nil && (len(r.Results) == 0 || len(r.Results[0]) != 4 || !(r.KernelTimeMS >= 0)):
			t.Fatalf("%q is taken for %+v", payload, r)
		case err != nil && !isAnswer && !isReply:
			t.Fatalf("%q: %v", payload, err)
		}
	})
}
