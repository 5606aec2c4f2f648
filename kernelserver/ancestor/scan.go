package ancestor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"tokitai/num"
)

const (
	scanBytes = 64 << 10 // read at once
	maxToken  = 1 << 20  // bytes of one number
	firstRoom = 64 << 10 // bytes of a list before the first of its numbers is there
)

// scanner reads white space and tokens from a stream.
type scanner struct {
	r        io.Reader
	buf      []byte
	pos, end int   // what is read but not yet scanned
	err      error // of r; io.EOF at the end
}

func newScanner(r io.Reader) *scanner { return &scanner{r: r, buf: make([]byte, scanBytes)} }

// reset begins anew with another stream, in the same memory.
func (s *scanner) reset(r io.Reader) { s.r, s.pos, s.end, s.err = r, 0, 0, nil }

// failure is what went wrong with the stream itself.
func (s *scanner) failure() error {
	if s.err == io.EOF {
		return nil
	}
	return s.err
}

// fill reads more behind what is there, and reports whether something came.
func (s *scanner) fill() bool {
	if s.err != nil {
		return false
	}
	if s.pos > 0 {
		s.end = copy(s.buf, s.buf[s.pos:s.end])
		s.pos = 0
	}
	if s.end == len(s.buf) {
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	for range 100 {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		s.err = err
		if n > 0 || err != nil {
			return n > 0
		}
	}
	s.err = io.ErrNoProgress
	return false
}

// isSpace are the six white spaces of ASCII.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// more skips white space, and reports whether anything follows.
func (s *scanner) more() bool {
	for {
		for s.pos < s.end {
			if !isSpace(s.buf[s.pos]) {
				return true
			}
			s.pos++
		}
		if !s.fill() {
			return false
		}
	}
}

var (
	errMissing = errors.New("is missing")
	errLong    = fmt.Errorf("is longer than %d bytes", maxToken)
)

// token is the next token, valid until the next call.
func (s *scanner) token() ([]byte, error) {
	if !s.more() {
		return nil, errMissing
	}
	for n := 0; ; n++ {
		if n == s.end-s.pos && !s.fill() {
			s.pos += n
			return s.buf[s.pos-n : s.pos], nil
		}
		if isSpace(s.buf[s.pos+n]) {
			s.pos += n
			return s.buf[s.pos-n : s.pos], nil
		}
		if n == maxToken {
			return nil, errLong
		}
	}
}

// integer reads a decimal int64 with an optional minus sign.
func (s *scanner) integer() (int64, error) {
	t, err := s.token()
	if err != nil {
		return 0, err
	}
	if !isDecimal(t) {
		return 0, fmt.Errorf("is %s, want an integer", quoted(t))
	}
	v, err := strconv.ParseInt(string(t), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("is %s, want an integer of 64 bits", quoted(t))
	}
	return v, nil
}

// real reads a real number in decimal; bits is 32 or 64.
func (s *scanner) real(bits int) (float64, error) {
	t, err := s.token()
	if err != nil {
		return 0, err
	}
	return parseReal(t, bits)
}

// isDecimal says whether t is digits, perhaps after a minus sign.
func isDecimal(t []byte) bool {
	if len(t) > 0 && t[0] == '-' {
		t = t[1:]
	}
	return len(t) > 0 && digits(t) == len(t)
}

// digits counts those at the beginning.
func digits(t []byte) int {
	n := 0
	for n < len(t) && t[n]-'0' <= 9 {
		n++
	}
	return n
}

// isReal says whether t is a decimal number with an optional fraction and exponent. What
// strconv takes besides, hexadecimal numbers and names of infinities, is none.
func isReal(t []byte) bool {
	if len(t) > 0 && t[0] == '-' {
		t = t[1:]
	}
	n := digits(t)
	t = t[n:]
	if len(t) > 0 && t[0] == '.' {
		fraction := digits(t[1:])
		t = t[1+fraction:]
		n += fraction
	}
	if n == 0 || len(t) == 0 {
		return n > 0
	}
	if t[0] != 'e' && t[0] != 'E' {
		return false
	}
	if t = t[1:]; len(t) > 0 && (t[0] == '+' || t[0] == '-') {
		t = t[1:]
	}
	return len(t) > 0 && digits(t) == len(t)
}

// parseReal rounds a number correctly; what is too small becomes subnormal or zero, what
// is too large is refused.
func parseReal(t []byte, bits int) (float64, error) {
	if !isReal(t) {
		switch string(t) {
		case "nan", "-nan":
			return math.NaN(), nil
		case "inf":
			return math.Inf(1), nil
		case "-inf":
			return math.Inf(-1), nil
		}
		return 0, fmt.Errorf("is %s, want a number", quoted(t))
	}
	v, err := strconv.ParseFloat(string(t), bits)
	if err != nil {
		return 0, fmt.Errorf("is %s, too large for a float of %d bits", quoted(t), bits)
	}
	return v, nil
}

const (
	positiveNaN = 0x7fc00000
	negativeNaN = 0xffc00000
)

// f32Bits is parseReal for lists: the sign of a NaN is kept.
func f32Bits(t []byte) (uint32, error) {
	switch string(t) {
	case "nan":
		return positiveNaN, nil
	case "-nan":
		return negativeNaN, nil
	}
	v, err := parseReal(t, 32)
	return math.Float32bits(float32(v)), err
}

func quoted(t []byte) string {
	const most = 32
	if len(t) > most {
		return fmt.Sprintf("%q...", t[:most])
	}
	return fmt.Sprintf("%q", t)
}

// room makes room for at least one more element in a list that will have want bytes in
// all. The list doubles as its numbers arrive.
func room(list []byte, want int) []byte {
	if len(list) < cap(list) {
		return list
	}
	return slices.Grow(list, min(max(firstRoom, len(list)), want-len(list)))
}

// list reads n elements, little-endian. Integers are at most the limit.
func (s *scanner) list(d num.DType, n int, limit uint32) ([]byte, error) {
	if d == num.F32 {
		return s.f32s(n)
	}
	return s.integers(n, d.Size(), limit)
}

// elementError says which element of a list is wrong.
type elementError struct {
	position int
	cause    error
}

func (e *elementError) Error() string { return fmt.Sprintf("[%d] %v", e.position, e.cause) }
func (e *elementError) Unwrap() error { return e.cause }

func (s *scanner) f32s(n int) ([]byte, error) {
	var list []byte
	for i := range n {
		t, err := s.token()
		if err != nil {
			return nil, &elementError{i, err}
		}
		bits, err := f32Bits(t)
		if err != nil {
			return nil, &elementError{i, err}
		}
		list = binary.LittleEndian.AppendUint32(room(list, 4*n), bits)
	}
	return list, nil
}

// integers reads decimal integers from 0 to the limit, of size 2 or 4.
func (s *scanner) integers(n, size int, limit uint32) ([]byte, error) {
	var list []byte
	for i := 0; i < n; i++ {
		v, ok := s.quick(limit)
		if !ok {
			var err error
			if v, err = s.unsigned(limit); err != nil {
				return nil, &elementError{i, err}
			}
		}
		if list = room(list, size*n); size == 2 {
			list = binary.LittleEndian.AppendUint16(list, uint16(v))
		} else {
			list = binary.LittleEndian.AppendUint32(list, v)
		}
	}
	return list, nil
}

// quick reads an integer of at most nine digits that lies in the buffer with the white
// space after it. It reads nothing where it is not sure.
func (s *scanner) quick(limit uint32) (uint32, bool) {
	rest := s.buf[s.pos:s.end]
	p := 0
	for p < len(rest) && isSpace(rest[p]) {
		p++
	}
	v, begin := uint32(0), p
	for p < len(rest) && rest[p]-'0' <= 9 {
		v = v*10 + uint32(rest[p]-'0')
		p++
	}
	if p == len(rest) || p == begin || p-begin > 9 || v > limit || !isSpace(rest[p]) {
		return 0, false
	}
	s.pos += p + 1
	return v, true
}

// unsigned reads an integer wherever it lies, or says what is wrong with it.
func (s *scanner) unsigned(limit uint32) (uint32, error) {
	t, err := s.token()
	if err != nil {
		return 0, err
	}
	if len(t) == 0 || digits(t) != len(t) {
		return 0, fmt.Errorf("is %s, want an integer from 0 to %d", quoted(t), limit)
	}
	v := uint64(0)
	for _, c := range t {
		if v = v*10 + uint64(c-'0'); v > uint64(limit) {
			return 0, fmt.Errorf("is %s, want an integer from 0 to %d", quoted(t), limit)
		}
	}
	return uint32(v), nil
}

// raw reads n bytes, fewer if the stream ends.
func (s *scanner) raw(n int) []byte {
	var list []byte
	for len(list) < n && (s.pos < s.end || s.fill()) {
		list = room(list, n)
		k := min(n-len(list), s.end-s.pos, cap(list)-len(list))
		list = append(list, s.buf[s.pos:s.pos+k]...)
		s.pos += k
	}
	return list
}
