package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"tokitai/num"
)

// header is a parsed header: the tensors in its order, with the offsets of their data.
type header struct {
	tensors  []located
	metadata map[string]string
}

// located is a tensor with the offsets of its data.
type located struct {
	Info
	begin, end int64
}

// parseHeader parses the JSON token by token: json.Unmarshal would silently keep
// the last of two equal names and replace invalid text.
func parseHeader(text []byte) (*header, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, bad("the header does not begin with {")
	}
	if err := checkText("the header", text); err != nil {
		return nil, err
	}
	p := newParser("the header", text)
	h := &header{}
	seen := map[string]bool{}
	err := p.object(func(name string) error {
		if seen[name] {
			return bad("the name %q occurs twice", name)
		}
		seen[name] = true
		if name == metadataName {
			return p.metadata(h)
		}
		return p.tensor(h, name)
	})
	if err != nil {
		return nil, err
	}
	return h, p.end()
}

// parser reads JSON tokens. Its errors call the text by name.
type parser struct {
	name string
	json *json.Decoder
}

func newParser(name string, text []byte) *parser {
	p := &parser{name, json.NewDecoder(bytes.NewReader(text))}
	p.json.UseNumber()
	return p
}

// checkText returns an error for invalid text, which encoding/json would replace.
func checkText(name string, text []byte) error {
	switch {
	case !utf8.Valid(text):
		return bad("%s is not UTF-8", name)
	case hasLoneSurrogate(text):
		return bad("%s has an unpaired surrogate", name)
	}
	return nil
}

// token returns the next token: a json.Delim, string, json.Number, bool or nil.
func (p *parser) token() (json.Token, error) {
	t, err := p.json.Token()
	if err != nil {
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, bad("%s is not JSON: it ends early", p.name)
		}
		return nil, bad("%s is not JSON: %v", p.name, err)
	}
	return t, nil
}

// end returns an error if anything follows the closing brace.
func (p *parser) end() error {
	if _, err := p.json.Token(); err != io.EOF {
		return bad("%s continues after its closing }", p.name)
	}
	return nil
}

// object reads { "name": ..., }; value reads what follows each name.
func (p *parser) object(value func(name string) error) error {
	t, err := p.token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return bad("got %v, want an object", describe(t))
	}
	for {
		t, err := p.token()
		if err != nil {
			return err
		}
		if t == json.Delim('}') {
			return nil
		}
		if err := value(t.(string)); err != nil { // the decoder makes sure that names are strings
			return err
		}
	}
}

func (p *parser) metadata(h *header) error {
	h.metadata = map[string]string{}
	err := p.object(func(key string) error {
		if _, ok := h.metadata[key]; ok {
			return bad("the key %q occurs twice", key)
		}
		t, err := p.token()
		if err != nil {
			return err
		}
		text, ok := t.(string)
		if !ok {
			return bad("%q is %v, want a string", key, describe(t))
		}
		h.metadata[key] = text
		return nil
	})
	return under(metadataName, err)
}

// under adds a key to the problem of an error.
func under(key string, err error) error {
	if f, ok := err.(*FormatError); ok && f.Tensor == "" {
		f.Problem = key + ": " + f.Problem
	}
	return err
}

func (p *parser) tensor(h *header, name string) error {
	e := located{Info: Info{Name: name}}
	var hasDType, hasShape, hasOffsets bool
	err := p.object(func(key string) error {
		switch {
		case key == "dtype" && !hasDType:
			hasDType = true
			return p.dtype(&e)
		case key == "shape" && !hasShape:
			hasShape = true
			return p.shape(&e)
		case key == "data_offsets" && !hasOffsets:
			hasOffsets = true
			return p.offsets(&e)
		case key == "dtype" || key == "shape" || key == "data_offsets":
			return bad("the key %q occurs twice", key)
		}
		return bad("the key %q is unknown, want dtype, shape and data_offsets", key)
	})
	switch {
	case err != nil:
	case !hasDType:
		err = bad("dtype is missing")
	case !hasShape:
		err = bad("shape is missing")
	case !hasOffsets:
		err = bad("data_offsets is missing")
	}
	if err != nil {
		return inTensor(name, err)
	}
	if err := e.checkSize(); err != nil {
		return inTensor(name, err)
	}
	h.tensors = append(h.tensors, e)
	return nil
}

func (p *parser) dtype(e *located) error {
	t, err := p.token()
	if err != nil {
		return err
	}
	name, ok := t.(string)
	if !ok {
		return bad("dtype is %v, want a string", describe(t))
	}
	e.DType = name
	return nil
}

// checkSize compares the shape with the offsets. It skips unsupported dtypes, whose size
// is unknown.
func (e *located) checkSize() error {
	elemBytes := e.elemBytes()
	if elemBytes == 0 {
		return nil
	}
	want, ok := byteCount(elemBytes, e.Shape)
	if !ok {
		return bad("shape %v of %s overflows 64 bits", e.Shape, e.DType)
	}
	if got := e.end - e.begin; got != want {
		return bad("shape %v of %s needs %d bytes, but data_offsets [%d, %d] hold %d", e.Shape, e.DType, want, e.begin, e.end, got)
	}
	return nil
}

func (p *parser) shape(e *located) error {
	sizes, err := p.integers("shape")
	if err != nil {
		return err
	}
	e.Shape = make([]int, len(sizes))
	for i, n := range sizes {
		e.Shape[i] = int(n)
		if int64(e.Shape[i]) != n {
			return bad("shape has the size %d, too large for this machine", n)
		}
	}
	return nil
}

func (p *parser) offsets(e *located) error {
	ends, err := p.integers("data_offsets")
	if err != nil {
		return err
	}
	if len(ends) != 2 {
		return bad("data_offsets has %d numbers, want 2", len(ends))
	}
	e.begin, e.end = ends[0], ends[1]
	if e.begin > e.end {
		return bad("data_offsets [%d, %d] are reversed", e.begin, e.end)
	}
	return nil
}

// integers reads an array of integers from 0 to 2^63-1, written as digits alone.
func (p *parser) integers(what string) ([]int64, error) {
	t, err := p.token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('[') {
		return nil, bad("%s is %v, want an array", what, describe(t))
	}
	var list []int64
	for {
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		if t == json.Delim(']') {
			return list, nil
		}
		digits, ok := t.(json.Number)
		if !ok {
			return nil, bad("%s has %v, want integers", what, describe(t))
		}
		n, err := strconv.ParseInt(digits.String(), 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return nil, bad("%s has %s, which overflows 64 bits", what, digits)
		case err != nil:
			return nil, bad("%s has %s, which is not an integer", what, digits)
		case n < 0 || digits[0] == '-':
			return nil, bad("%s has %s, which is negative", what, digits)
		}
		if len(list) == maxRank {
			return nil, bad("%s has more than %d numbers", what, maxRank)
		}
		list = append(list, n)
	}
}

// describe names a token in an error.
func describe(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "an array"
	case string:
		return "a string"
	case json.Number:
		return "the number " + t.String()
	case bool:
		return "a boolean"
	}
	return "null"
}

func inTensor(name string, err error) error {
	if f, ok := err.(*FormatError); ok && f.Tensor == "" {
		f.Tensor = name
	}
	return err
}

// hasLoneSurrogate reports whether the text has a \u escape of an unpaired
// surrogate, which encoding/json would replace. Backslashes are in strings only, or
// the text is not JSON.
func hasLoneSurrogate(text []byte) bool {
	escape := func(i int) (rune, bool) { // of the four hexadecimal digits after \u at i
		if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(text[i+2:i+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		r, ok := escape(i)
		switch {
		case !ok:
			i++ // skip the escaped character, which may be a backslash
		case r >= 0xd800 && r < 0xdc00:
			if low, ok := escape(i + 6); !ok || low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 11
		case r >= 0xdc00 && r <= 0xdfff:
			return true
		default:
			i += 5
		}
	}
	return false
}

// checkLayout returns the length of the data, or an error if the tensors overlap or
// leave gaps.
func (h *header) checkLayout() (int64, error) {
	order := slices.Clone(h.tensors)
	slices.SortFunc(order, func(a, b located) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	at := int64(0)
	for i, e := range order {
		switch {
		case e.begin < at:
			return 0, badTensor(e.Name, "data_offsets [%d, %d] overlap those of %q", e.begin, e.end, order[i-1].Name)
		case e.begin > at:
			return 0, badTensor(e.Name, "data_offsets [%d, %d] leave a gap: the data before ends at %d", e.begin, e.end, at)
		}
		at = e.end
	}
	return at, nil
}

// entry returns the tensor without its data, or an error if its dtype is not supported.
func (e *located) entry() (Entry, error) {
	dtype := e.Storage()
	if dtype == num.NoDType {
		return Entry{}, badTensor(e.Name, "dtype %q is not supported; %s", e.DType, supported)
	}
	return Entry{Name: e.Name, DType: dtype, Shape: e.Shape}, nil
}

// formatName returns the format's name of a dtype that has a layoutRank.
func formatName(d num.DType) string { return formatNames[layoutRank(d)].name }
