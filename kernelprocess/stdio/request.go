package stdio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"

	"tokitai/device"
	"tokitai/num"
	"tokitai/op/adamw"
)

// Request is a request of one of the kernels.
type Request struct {
	Kernel   string
	Integers []int64     // those of the header, in order: MODE, R and C of softmax
	Hyper    adamw.Hyper // adamw; Eps alone for layernorm
	Lists    [][]byte    // in order; fp16 as two bytes an element, f32 and int32 as four, little-endian

	// IsBinary is set for a request of adamw in its binary format.
	IsBinary bool
}

// ParseRequest reads a request of a kernel to the end of r. It refuses with an *Error, also
// what takes more memory than the limit.
func ParseRequest(kernel string, r io.Reader, memoryLimit int64) (*Request, error) {
	k, err := find(kernel)
	if err != nil {
		return nil, err
	}
	q, _, refused := k.parse(newScanner(r), memoryLimit)
	if refused != nil {
		return q, refused
	}
	return q, nil
}

// parse reads a request, and works out what its header says. Of a request that is refused it
// returns the kernel and whether it is binary.
func (k *kernel) parse(s *scanner, memoryLimit int64) (*Request, *form, *Error) {
	q := &Request{Kernel: k.name}
	var f *form
	var refused *Error
	if q.IsBinary = k.name == "adamw" && isBinary(s); q.IsBinary {
		f, refused = k.parseBinary(s, q, memoryLimit)
	} else {
		f, refused = k.parseText(s, q, memoryLimit)
	}
	if err := s.failure(); err != nil {
		return q, nil, &Error{Code: CodeInternal, Reason: oneLine("reading the request: " + err.Error()), Cause: err}
	}
	return q, f, refused
}

func (k *kernel) parseText(s *scanner, q *Request, memoryLimit int64) (*form, *Error) {
	for name := range q.fields(k) {
		var err error
		if value, limit := hyperField(&q.Hyper, name); value != nil {
			if *value, err = s.real(64); err == nil && !(*value >= 0 && *value < limit) {
				err = badHyper(*value, limit)
			}
		} else {
			var v int64
			v, err = s.integer()
			q.Integers = append(q.Integers, v)
		}
		if err != nil {
			return nil, refuse(CodeHeader, "%s %v", name, err)
		}
	}
	f, refused := k.check(q, memoryLimit)
	if refused != nil {
		return nil, refused
	}
	for i := range f.lists {
		l := &f.lists[i]
		values, err := s.list(l.dtype, l.elems(), l.limit)
		if err != nil {
			return nil, refuse(l.code, "%s%v", l.name, err)
		}
		q.Lists = append(q.Lists, values)
	}
	last := &f.lists[len(f.lists)-1]
	if s.more() {
		t, _ := s.token()
		return nil, refuse(last.code, "%s is followed by %s, want %d elements and nothing after them", last.name, quoted(t), last.elems())
	}
	return f, nil
}

// check holds a header against what the kernel takes, in the order of the codes.
func (k *kernel) check(q *Request, memoryLimit int64) (*form, *Error) {
	formed := func() form { return k.form(q.integers(k), q.Hyper) }
	for _, c := range k.checks {
		for name := range strings.FieldsSeq(c.names) {
			if v, ok := q.integer(k, name); ok && !c.holds(v) {
				return nil, refuse(c.code, "%s is %d, want %v", name, v, &c)
			}
		}
		if c.code != k.sizeCode {
			continue
		}
		// What is still unchecked changes what the operands are, not how much they take.
		if f := formed(); f.bytes() > memoryLimit {
			took := fmt.Sprint(f.bytes())
			if f.bytes() == math.MaxInt64 {
				took = "2^63 or more"
			}
			return nil, refuse(c.code, "the operands take %s bytes, want at most %d", took, memoryLimit)
		}
	}
	if reason := k.hyperReason(q); reason != "" {
		return nil, refuse(CodeHeader, "%s", reason)
	}
	f := formed()
	return &f, nil
}

// hyperReason returns what the operation itself has against hyper-parameters, such as one
// that no binary32 can hold. It looks at them before it looks for tensors.
func (k *kernel) hyperReason(q *Request) string {
	if k.refuse == nil {
		return ""
	}
	if bad, ok := errors.AsType[*device.ArgumentError](k.refuse(q)); ok && bad.Clause != "" {
		return fmt.Sprintf("%s %s, want %s", strings.ToUpper(bad.Operand), bad.Got, bad.Want)
	}
	return ""
}

// fields yields the names of the header's tokens. Those that depend on the first integer
// come when that has been read.
func (q *Request) fields(k *kernel) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range strings.FieldsSeq(k.header) {
			if !yield(name) {
				return
			}
		}
		if len(q.Integers) == 0 {
			return
		}
		for name := range strings.FieldsSeq(k.further[q.Integers[0]]) {
			if !yield(name) {
				return
			}
		}
	}
}

// integer returns one of the header's integers by name; false where it has none of that
// name.
func (q *Request) integer(k *kernel, name string) (int64, bool) {
	i := 0
	for field := range q.fields(k) {
		if field == name {
			return q.Integers[i], true
		}
		if value, _ := hyperField(&q.Hyper, field); value == nil {
			i++
		}
	}
	return 0, false
}

// integers returns the header's integers as a form asks for them.
func (q *Request) integers(k *kernel) func(name string) int {
	return func(name string) int {
		v, _ := q.integer(k, name)
		return int(v)
	}
}

// countIntegers returns how many integers the header has.
func (q *Request) countIntegers(k *kernel) int {
	n := 0
	for field := range q.fields(k) {
		if value, _ := hyperField(&q.Hyper, field); value == nil {
			n++
		}
	}
	return n
}

func badHyper(value, limit float64) error {
	return fmt.Errorf("is %v, want a finite number from 0 on, below %v", value, limit)
}

// hyperField is the hyper-parameter of that name and what it stays below, or nil.
func hyperField(h *adamw.Hyper, name string) (value *float64, limit float64) {
	for _, f := range hyperFields {
		if f.name == name {
			return f.of(h), f.limit
		}
	}
	return nil, 0
}

// form checks a request that is to be sent.
func (q *Request) form(memoryLimit int64) (*kernel, *form, error) {
	k, err := find(q.Kernel)
	if err != nil {
		return nil, nil, err
	}
	if want := q.countIntegers(k); len(q.Integers) != want {
		return nil, nil, refuse(CodeHeader, "the header has %d integers, want %d", len(q.Integers), want)
	}
	for name := range q.fields(k) {
		if value, limit := hyperField(&q.Hyper, name); value != nil && !(*value >= 0 && *value < limit) {
			return nil, nil, refuse(CodeHeader, "%s %v", name, badHyper(*value, limit))
		}
	}
	f, refused := k.check(q, memoryLimit)
	if refused != nil {
		return nil, nil, refused
	}
	if len(q.Lists) != len(f.lists) {
		return nil, nil, refuse(f.lists[0].code, "got %d lists, want %d", len(q.Lists), len(f.lists))
	}
	for i := range f.lists {
		l := &f.lists[i]
		if want := l.elems() * l.dtype.Size(); len(q.Lists[i]) != want {
			return nil, nil, refuse(l.code, "%s has %d bytes, want %d", l.name, len(q.Lists[i]), want)
		}
	}
	return k, f, nil
}

// AppendTo appends the request as it stands on the wire, without the length of a frame.
func (q *Request) AppendTo(b []byte) ([]byte, error) {
	k, f, err := q.form(math.MaxInt64)
	if err != nil {
		return b, err
	}
	if q.IsBinary {
		return q.appendBinary(b)
	}
	integers := q.Integers
	for name := range q.fields(k) {
		if value, _ := hyperField(&q.Hyper, name); value != nil {
			b = strconv.AppendFloat(b, *value, 'g', -1, 64)
		} else {
			b = strconv.AppendInt(b, integers[0], 10)
			integers = integers[1:]
		}
		b = append(b, ' ')
	}
	b[len(b)-1] = '\n'
	for i := range f.lists {
		b = append(appendValues(b, f.lists[i].dtype, q.Lists[i], ' '), '\n')
	}
	return b, nil
}

// appendValues writes the elements of a list, which are little-endian.
func appendValues(b []byte, d num.DType, values []byte, separator byte) []byte {
	switch d {
	case num.F16:
		for i := 0; i+2 <= len(values); i += 2 {
			b = append(appendU16(b, binary.LittleEndian.Uint16(values[i:])), separator)
		}
	case num.I32:
		for i := 0; i+4 <= len(values); i += 4 {
			b = append(strconv.AppendInt(b, int64(int32(binary.LittleEndian.Uint32(values[i:]))), 10), separator)
		}
	case num.F32:
		for i := 0; i+4 <= len(values); i += 4 {
			b = append(appendF32(b, binary.LittleEndian.Uint32(values[i:])), separator)
		}
	}
	if len(values) > 0 {
		b = b[:len(b)-1]
	}
	return b
}

// appendU16 is strconv.AppendUint for five digits at most.
func appendU16(b []byte, v uint16) []byte {
	top, rest := v/10000, v%10000
	digits := [5]byte{byte(top) + '0', byte(rest/1000) + '0', byte(rest/100%10) + '0', byte(rest/10%10) + '0', byte(rest%10) + '0'}
	switch {
	case v >= 10000:
		return append(b, digits[:]...)
	case v >= 1000:
		return append(b, digits[1:]...)
	case v >= 100:
		return append(b, digits[2:]...)
	case v >= 10:
		return append(b, digits[3:]...)
	}
	return append(b, digits[4])
}

// appendF32 writes what C writes for %.9g: enough digits to give the number again.
func appendF32(b []byte, bits uint32) []byte {
	x := math.Float32frombits(bits)
	isNegative := bits>>31 != 0
	switch {
	case x != x && isNegative:
		return append(b, "-nan"...)
	case x != x:
		return append(b, "nan"...)
	case math.IsInf(float64(x), 0) && isNegative:
		return append(b, "-inf"...)
	case math.IsInf(float64(x), 0):
		return append(b, "inf"...)
	}
	return strconv.AppendFloat(b, float64(x), 'g', 9, 32)
}
