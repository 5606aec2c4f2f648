package stdio

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The binary format of adamw. A request is
//
//	u32 magic, u32 n, f32 lr, beta1, beta2, eps, weight_decay, i32 t, u32 ignored
//
// and then n·2 bytes theta, n·4 m, n·4 v, n·2 grad; a response
//
//	u32 0, u32 n, f32 kernel_time_ms, u32 0
//
// and then theta, m and v. All is little-endian.
const (
	binaryMagic       = 0x57414441 // "ADAW"
	binaryHeader      = 36
	binaryReplyHeader = 16
	maxBinaryN        = 1 << 28
)

// isBinary looks at the first byte: that of a text is white space or begins a number.
func isBinary(s *scanner) bool {
	if s.pos == s.end && !s.fill() {
		return false
	}
	c := s.buf[s.pos]
	return !isSpace(c) && (c < '0' || c > '9') && c != '+' && c != '-' && c != '.'
}

func (k *kernel) parseBinary(s *scanner, q *Request, memoryLimit int64) (*form, *Error) {
	h := s.raw(binaryHeader)
	if len(h) < binaryHeader {
		return nil, binaryError("binary request too short")
	}
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(h[at:]) }
	n, t := u32(4), int32(u32(28))
	switch {
	case u32(0) != binaryMagic:
		return nil, binaryError("bad binary magic")
	case n == 0 || n > maxBinaryN || k.bytesOf(n) > memoryLimit:
		return nil, binaryError("n out of range")
	case t <= 0:
		return nil, binaryError("t must be positive")
	}
	for i, field := range hyperFields {
		v := float64(math.Float32frombits(u32(8 + 4*i)))
		if !(v >= 0 && v < field.limit) {
			return nil, refuse(CodeHeader, "%s %v", field.name, badHyper(v, field.limit))
		}
		*field.of(&q.Hyper) = v
	}
	q.Integers = []int64{int64(n), int64(t)}
	f, refused := k.check(q, memoryLimit)
	if refused != nil {
		return nil, refused
	}
	for i := range f.lists {
		want := f.lists[i].elems() * f.lists[i].dtype.Size()
		values := s.raw(want)
		if len(values) < want {
			return nil, binaryError("payload body truncated")
		}
		q.Lists = append(q.Lists, values)
	}
	if len(s.raw(1)) > 0 {
		return nil, binaryError("payload body too long")
	}
	return f, nil
}

// bytesOf is how many bytes the operands of n elements take.
func (k *kernel) bytesOf(n uint32) int64 {
	q := &Request{Kernel: k.name, Integers: []int64{int64(n), 1}}
	f := k.form(q.integers(k), q.Hyper)
	return f.bytes()
}

func (q *Request) appendBinary(b []byte) ([]byte, error) {
	n := q.Integers[0]
	if q.Kernel != "adamw" || n > maxBinaryN {
		return b, refuse(codeBinaryN, "a binary request is of adamw, and of at most %d elements", maxBinaryN)
	}
	b = binary.LittleEndian.AppendUint32(b, binaryMagic)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	for _, field := range hyperFields {
		v := *field.of(&q.Hyper)
		if float64(float32(v)) != v {
			return b, refuse(CodeHeader, "%s is %v, which the f32 of a binary request cannot hold", field.name, v)
		}
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(int32(q.Integers[1])))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, values := range q.Lists {
		b = append(b, values...)
	}
	return b, nil
}

func (r *Response) appendBinary(b []byte, f *form) []byte {
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(f.results[0].elems()))
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(r.KernelTimeMS)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, values := range r.Results {
		b = append(b, values...)
	}
	return b
}

// parseBinaryResponse reads what appendBinary writes.
func parseBinaryResponse(payload []byte, f *form) (*Response, string) {
	n, want := uint32(f.results[0].elems()), binaryReplyHeader
	for i := range f.results {
		want += f.results[i].elems() * f.results[i].dtype.Size()
	}
	if len(payload) != want {
		return nil, fmt.Sprintf("has %d bytes, want %d", len(payload), want)
	}
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(payload[at:]) }
	ms := float64(math.Float32frombits(u32(8)))
	switch {
	case u32(0) != 0:
		return nil, fmt.Sprintf("has status %d, want 0", u32(0))
	case u32(4) != n:
		return nil, fmt.Sprintf("has n %d, want %d", u32(4), n)
	case !(ms >= 0 && ms <= math.MaxFloat32):
		return nil, fmt.Sprintf("has a kernel time of %v ms, want a finite one", ms)
	}
	r := &Response{KernelTimeMS: ms}
	payload = payload[binaryReplyHeader:]
	for i := range f.results {
		bytes := f.results[i].elems() * f.results[i].dtype.Size()
		r.Results = append(r.Results, payload[:bytes:bytes])
		payload = payload[bytes:]
	}
	return r, ""
}
