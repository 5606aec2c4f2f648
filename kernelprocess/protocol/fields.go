package protocol

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"tokitai/num"
)

// maxString is the longest string.
const maxString = 4096

// dtypes lists the formats by their numbers.
var dtypes = [...]num.DType{1: num.F16, 2: num.BF16, 3: num.F32, 4: num.I32, 5: num.E4M3, 6: num.E5M2, 7: num.I8, 8: num.I64}

// dtypeNumber returns the number of a format, or 0, which no reader accepts.
func dtypeNumber(d num.DType) uint8 { return uint8(1 + slices.Index(dtypes[1:], d)) }

func (r *reader) dtype() num.DType {
	d := r.u8("dtype")
	if r.err == nil && (d == 0 || int(d) >= len(dtypes)) {
		r.fail("dtype is %d, want 1 to %d", d, len(dtypes)-1)
	}
	if r.err != nil {
		return num.NoDType
	}
	return dtypes[d]
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

func appendU32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }
func appendU64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// clipped returns s as valid UTF-8 of at most maxString bytes.
func clipped(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxString {
		return s
	}
	end := maxString
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// reader reads the fields of a body. It keeps the first error; after it, every field reads as
// zero.
type reader struct {
	rest []byte
	at   int
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = &Failure{Code: CodeMalformed, Message: fmt.Sprintf("byte %d: ", r.at) + fmt.Sprintf(format, args...)}
	}
	r.rest = nil
}

func (r *reader) take(n int, what string) []byte {
	if r.err == nil && n > len(r.rest) {
		r.fail("%s takes %d bytes, %d are left", what, n, len(r.rest))
	}
	if r.err != nil {
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	r.at += n
	return b
}

func (r *reader) u8(what string) uint8 {
	if b := r.take(1, what); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u32(what string) uint32 {
	if b := r.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64(what string) uint64 {
	if b := r.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) f64(what string) float64 { return math.Float64frombits(r.u64(what)) }

// size reads a u64 that fits an int.
func (r *reader) size(what string) int64 {
	v := r.u64(what)
	if v > math.MaxInt {
		r.fail("%s is %d, want at most %d", what, v, math.MaxInt)
		return 0
	}
	return int64(v)
}

func (r *reader) string(what string) string {
	n := r.u32(what)
	if n > maxString {
		r.fail("%s has %d bytes, want at most %d", what, n, maxString)
		return ""
	}
	b := r.take(int(n), what)
	if !utf8.Valid(b) {
		r.fail("%s is no UTF-8", what)
		return ""
	}
	return string(b)
}

// count reads the length of a list whose elements take at least the given number of bytes.
func (r *reader) count(what string, least int) int {
	n := r.u32(what)
	if r.err == nil && uint64(n)*uint64(least) > uint64(len(r.rest)) {
		r.fail("%d %s take at least %d bytes, %d are left", n, what, uint64(n)*uint64(least), len(r.rest))
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// countUpTo is count for a list of limited length.
func (r *reader) countUpTo(most int, what string, least int) int {
	n := r.count(what, least)
	if n > most {
		r.fail("%d %s, want at most %d", n, what, most)
		return 0
	}
	return n
}

// remaining returns the rest of the body.
func (r *reader) remaining() []byte { return r.take(len(r.rest), "data") }

// end returns the first error, or an error if bytes are left over.
func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes too many", len(r.rest))
	}
	return r.err
}
