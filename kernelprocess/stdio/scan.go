package stdio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

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

// real reads a real number in decimal; of width 32 or 64.
func (s *scanner) real(width int) (float64, error) {
	t, err := s.token()
	if err != nil {
		return 0, err
	}
	return parseReal(t, width)
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
func parseReal(t []byte, width int) (float64, error) {
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
	v, err := strconv.ParseFloat(shortened(t), width)
	if err != nil {
		return 0, fmt.Errorf("is %s, too large for a float of %d bits", quoted(t), width)
	}
	return v, nil
}

// shortened is a number that rounds as t does, written as strconv reads it right: that
// loses count of more than 800 digits before the point, and of exponents of more than four
// digits.
func shortened(t []byte) string {
	const short = 300 // bytes, with which neither can happen
	mantissa, exponentText, hasExponent := strings.Cut(strings.ToLower(string(t)), "e")
	if len(mantissa) <= short && len(exponentText) <= 4 {
		return string(t)
	}
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	all := whole + fraction
	digits := strings.TrimLeft(all, "0")
	// The value is 0.DIGITS times ten to the power of exponent.
	exponent := int64(len(whole) - (len(all) - len(digits)))
	if hasExponent {
		power, err := strconv.ParseInt(exponentText, 10, 64)
		const most = 1 << 40 // more than digits can make up for
		if err != nil && strings.HasPrefix(exponentText, "-") || power < -most {
			power = -most
		} else if err != nil || power > most {
			power = most
		}
		exponent += power
	}
	const kept = 780 // digits, more than any halfway case has
	if len(digits) > kept {
		rest := digits[kept:]
		digits = digits[:kept]
		if strings.Trim(rest, "0") != "" {
			digits += "1" // above what was kept, by whatever it is
		}
	}
	return sign + "0." + digits + "e" + strconv.FormatInt(min(max(exponent, -5000), 5000), 10)
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
		v, err := f32Bits(t)
		if err != nil {
			return nil, &elementError{i, err}
		}
		list = binary.LittleEndian.AppendUint32(room(list, 4*n), v)
	}
	return list, nil
}

// integers reads decimal integers from 0 to the limit, of size 2 or 4.
func (s *scanner) integers(n, size int, limit uint32) ([]byte, error) {
	var list []byte
	for len(list) < size*n {
		list = room(list, size*n)
		if list = s.quick(list, min(cap(list), size*n), size, limit); len(list) == min(cap(list), size*n) {
			continue
		}
		v, err := s.unsigned(limit)
		if err != nil {
			return nil, &elementError{len(list) / size, err}
		}
		list = appendInteger(list, size, v)
	}
	return list, nil
}

func appendInteger(list []byte, size int, v uint32) []byte {
	if size == 2 {
		return binary.LittleEndian.AppendUint16(list, uint16(v))
	}
	return binary.LittleEndian.AppendUint32(list, v)
}

// quick reads integers until the list has most bytes, or the next one needs a closer look:
// it is wrong, or has more than seven digits, or does not lie in the buffer with what
// follows it. Eight bytes are taken at a time, as one word.
func (s *scanner) quick(list []byte, most, size int, limit uint32) []byte {
	const (
		zeros = 0x3030303030303030 // "00000000"
		tops  = 0x8080808080808080 // the top bit of every byte
		nines = 0x7676767676767676 // what carries 10 and more, not 9, into the top bit
	)
	buf, p := s.buf[:s.end], s.pos
	for len(list) < most && p+8 <= len(buf) {
		word := binary.LittleEndian.Uint64(buf[p:]) ^ zeros // digits are 0 to 9 now
		n := bits.TrailingZeros64((word+nines|word)&tops) / 8
		if n == 0 && isSpace(buf[p]) {
			p++
			continue
		}
		if n == 0 || n == 8 || !isSpace(buf[p+n]) {
			break
		}
		// The digits, the last in the highest byte; then pairs, fours, and all eight.
		v := word << (64 - 8*n)
		v = (v*10 + v>>8) & 0x00ff00ff00ff00ff
		v = (v*100 + v>>16) & 0x0000ffff0000ffff
		v = (v*10000 + v>>32) & 0xffffffff
		if v > uint64(limit) {
			break
		}
		p += n + 1
		list = appendInteger(list, size, uint32(v))
	}
	s.pos = p
	return list
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
