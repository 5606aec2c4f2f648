package stdio

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"tokitai/num"
)

// Response is the answer to a request.
type Response struct {
	DeviceName   string            // not in a binary one
	GFX          string            // the architecture, cpu for a processor; not in a binary one
	Lines        map[string]string // the other lines by key: sizes, grid and block
	KernelTimeMS float64           // of the kernel alone
	Results      [][]byte          // in order, little-endian, fp16 as two bytes and f32 as four
}

// appendText writes a response to a request whose header said f.
func (r *Response) appendText(b []byte, k *kernel, f *form) []byte {
	const head = 4 << 10 // a guess: it grows if need be
	total := head
	for i := range f.results {
		total += f.results[i].elems() * longest(f.results[i].dtype)
	}
	b = slices.Grow(b, total) // once: a copy would double what a large response takes
	add := func(key, value string) {
		b = append(append(append(append(b, key...), '='), value...), '\n')
	}
	if f.first.key != "" {
		add(f.first.key, f.first.value)
	}
	add("DEVICE_NAME", r.DeviceName)
	add("GFX", r.GFX)
	for _, l := range f.lines {
		add(l.key, l.value)
	}
	add("KERNEL_TIME_MS", strconv.FormatFloat(r.KernelTimeMS, 'f', 6, 64))
	for i := range f.results {
		b = append(append(b, f.results[i].name...), '=')
		b = append(appendValues(b, f.results[i].dtype, r.Results[i], k.separator), '\n')
	}
	return b
}

// ParseResponse reads the payload of a response to q, which has to be one: lines with other
// keys are skipped, those of the format must be there, once, and agree with the request. An
// error that the other side answers is an *Error, anything else a *ReplyError.
func ParseResponse(q *Request, payload []byte) (*Response, error) {
	k, f, err := q.form(math.MaxInt64)
	if err != nil {
		return nil, err
	}
	return parseResponse(k, f, q.IsBinary, payload)
}

func parseResponse(k *kernel, f *form, isBinary bool, payload []byte) (*Response, error) {
	if bytes.HasPrefix(payload, []byte("ERR ")) {
		return nil, parseError(k, payload)
	}
	parse := func() (*Response, string) { return parseText(k, f, payload) }
	if isBinary {
		parse = func() (*Response, string) { return parseBinaryResponse(payload, f) }
	}
	r, reason := parse()
	if reason != "" {
		return nil, &ReplyError{Kernel: k.name, Reason: reason}
	}
	return r, nil
}

// parseError reads ERR <code> <reason>, or one of binary adamw's.
func parseError(k *kernel, payload []byte) error {
	line, rest, hasEnd := strings.Cut(string(payload), "\n")
	if !hasEnd || rest != "" {
		return &ReplyError{Kernel: k.name, Reason: "is an error of more than one line, or without an end"}
	}
	reason := strings.TrimPrefix(line, "ERR ")
	if code, ok := binaryReasons[reason]; ok {
		return &Error{Code: code, Reason: reason}
	}
	number, reason, _ := strings.Cut(reason, " ")
	code, err := strconv.ParseUint(number, 10, 8)
	if err != nil || code == 0 {
		return &ReplyError{Kernel: k.name, Reason: "is an error without a code: " + quoted([]byte(line))}
	}
	return &Error{Code: int(code), Reason: oneLine(reason)}
}

// parseText returns what is wrong instead, if anything is.
func parseText(k *kernel, f *form, payload []byte) (*Response, string) {
	values := map[string][]byte{"DEVICE_NAME": nil, "GFX": nil, "KERNEL_TIME_MS": nil}
	if f.first.key != "" {
		values[f.first.key] = nil
	}
	for _, l := range f.lines {
		values[l.key] = nil
	}
	for i := range f.results {
		values[f.results[i].name] = nil
	}
	for len(payload) > 0 {
		line, rest, hasEnd := bytes.Cut(payload, []byte("\n"))
		key, value, isPair := bytes.Cut(line, []byte("="))
		switch had, isKnown := values[string(key)]; {
		case !hasEnd:
			return nil, fmt.Sprintf("ends in the line %s", quoted(line))
		case !isPair:
			return nil, fmt.Sprintf("has the line %s, want KEY=value", quoted(line))
		case isKnown && had != nil:
			return nil, fmt.Sprintf("has two lines %s", key)
		case isKnown:
			values[string(key)] = value[:len(value):len(value)]
		}
		payload = rest
	}
	for key, value := range values {
		if value == nil {
			return nil, fmt.Sprintf("has no line %s", key)
		}
	}
	r := &Response{DeviceName: string(values["DEVICE_NAME"]), GFX: string(values["GFX"]), Lines: map[string]string{}}
	if got := values[f.first.key]; string(got) != f.first.value {
		return nil, fmt.Sprintf("has %s=%s, want %s", f.first.key, quoted(got), f.first.value)
	}
	for _, l := range f.lines {
		got := values[l.key]
		if n, err := strconv.ParseInt(string(got), 10, 64); l.isLayout && (err != nil || n < 1) || !l.isLayout && string(got) != l.value {
			return nil, fmt.Sprintf("has %s=%s, want one like %s", l.key, quoted(got), l.value)
		}
		r.Lines[l.key] = string(got)
	}
	ms, err := parseReal(values["KERNEL_TIME_MS"], 64)
	if err != nil || !(ms >= 0 && ms <= math.MaxFloat64) {
		return nil, fmt.Sprintf("has KERNEL_TIME_MS=%s, want a finite time", quoted(values["KERNEL_TIME_MS"]))
	}
	r.KernelTimeMS = ms
	for i := range f.results {
		list, err := parseList(values[f.results[i].name], k.separator, &f.results[i])
		if err != nil {
			return nil, fmt.Sprintf("has %s%v", f.results[i].name, err)
		}
		r.Results = append(r.Results, list)
	}
	return r, ""
}

// parseList reads the numbers of a result, exactly as many as expected.
func parseList(text []byte, separator byte, l *list) ([]byte, error) {
	if separator != ' ' { // a copy, in which white space separates: whatever else is there is no number
		if bytes.ContainsAny(text, " \t\r\v\f") {
			return nil, fmt.Errorf(" with white space, want %q between the numbers", separator)
		}
		text = bytes.ReplaceAll(text, []byte{separator}, []byte{' '})
	}
	if n := l.elems(); len(text) < 2*n-1 {
		return nil, fmt.Errorf(" of %d bytes, want %d elements", len(text), n)
	}
	s := &scanner{buf: text, end: len(text), err: io.EOF} // all of it is there
	values, err := s.list(l.dtype, l.elems(), l.limit)
	if err == nil && s.more() {
		err = fmt.Errorf(" with more than %d elements", l.elems())
	}
	return values, err
}

// longest is how many bytes an element and what separates it can take, as it is written here.
func longest(d num.DType) int {
	if d == num.F32 {
		return len("-1.17549435e-38,")
	}
	return len("65535,")
}

// mostBytes is the longest a response can be, with room for lines that are not of the
// format and for programs that write more digits.
func (f *form) mostBytes(isBinary bool) int64 {
	const others = 64 << 10
	total := int64(others)
	for i := range f.results {
		perElement := f.results[i].dtype.Size()
		if !isBinary {
			perElement = 2 * longest(f.results[i].dtype)
		}
		total += int64(perElement) * int64(f.results[i].elems())
	}
	return total
}
