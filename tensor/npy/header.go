package npy

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxRank is the limit of NumPy.
const maxRank = 64

// header is a parsed header.
type header struct {
	Info
	isFortran bool
}

// parseHeader parses the dictionary. It returns an error for arrays that cannot be read.
func parseHeader(text []byte) (*header, error) {
	if !utf8.Valid(text) {
		return nil, bad("the header is not UTF-8")
	}
	p := &parser{text: string(text)}
	h := &header{}
	seen := map[string]bool{}
	err := p.dictionary(func(key string) (err error) {
		if seen[key] {
			return bad("the header has %q twice", key)
		}
		seen[key] = true
		switch key {
		case "descr":
			h.Descr, err = p.descr()
		case "fortran_order":
			h.isFortran, err = p.boolean()
		case "shape":
			h.Shape, err = p.shape()
		default:
			err = bad("the header has the key %q, want 'descr', 'fortran_order' and 'shape'", key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return nil, bad("the header has no %q", key)
		}
	}
	if p.skipSpace(); p.text != "" {
		return nil, bad("the header continues after its closing }: %q", p.text)
	}
	return h, h.check()
}

// check returns an error if the array cannot be read, which says how to convert it.
func (h *header) check() error {
	if err := checkDescr(h.Descr); err != nil {
		return err
	}
	if h.isFortran {
		return bad("the array is in Fortran order, want C order: save numpy.ascontiguousarray(a)")
	}
	if _, ok := h.byteCount(); !ok {
		return bad("shape %v of '%s' overflows 64 bits", h.Shape, h.Descr)
	}
	return nil
}

func checkDescr(descr string) error {
	const readable = "'<f2', '<f4', '|i1', '<i4' or '<i8'"
	convert := func(to string) string { return fmt.Sprintf("save a.astype('%s')", to) }
	order, kind := "", descr
	if descr != "" && strings.ContainsRune("<>=|", rune(descr[0])) {
		order, kind = descr[:1], descr[1:]
	}
	if descr == "|i1" || order == "<" && (kind == "f2" || kind == "f4" || kind == "i4" || kind == "i8") {
		return nil
	}
	switch kind {
	case "f2", "f4", "i4", "i8":
		if order == ">" {
			return bad("the array is big-endian, dtype '%s', want little-endian: %s", descr, convert("<"+kind))
		}
	case "f8":
		return bad("dtype '%s' (float64) is not supported, since values would be rounded: %s", descr, convert("<f4"))
	case "b1":
		return bad("dtype '%s' (bool) is not supported, want %s: %s", descr, readable, convert("<i4"))
	case "i1", "u1", "i2", "u2", "u4", "u8":
		return bad("dtype '%s' is not supported, want %s: %s", descr, readable, convert("<i8"))
	case "O":
		return bad("dtype '%s' is pickled Python objects, which may run code and are never read, want %s", descr, readable)
	case "V2":
		return bad("dtype '%s' is raw bytes, want %s; if it is bf16, use a .safetensors file", descr, readable)
	}
	return bad("dtype %q is not supported, want %s", descr, readable)
}

// byteCount returns the size of the data. It returns false if the product overflows at
// any step, even if a later size is 0.
func (i Info) byteCount() (int64, bool) {
	n := uint64(i.elemBytes())
	for _, size := range i.Shape {
		high, low := bits.Mul64(n, uint64(size))
		if size < 0 || high != 0 || low > math.MaxInt64 {
			return 0, false
		}
		n = low
	}
	return int64(n), true
}

// parser reads the Python literals that headers use.
type parser struct {
	text string // the rest
}

func (p *parser) skipSpace() { p.text = strings.TrimLeft(p.text, " \t\r\n\f") }

// take reads word if it comes next, and reports whether it did.
func (p *parser) take(word string) bool {
	p.skipSpace()
	rest, ok := strings.CutPrefix(p.text, word)
	if ok {
		p.text = rest
	}
	return ok
}

// fail returns an error that quotes the rest of the text.
func (p *parser) fail(want string) error {
	const most = 20
	p.skipSpace()
	if p.text == "" {
		return bad("the header ends early, want %s", want)
	}
	return bad("the header has %q, want %s", strings.ToValidUTF8(p.text[:min(len(p.text), most)], ""), want)
}

// dictionary reads { 'key': value, ... }; value reads what follows each key.
func (p *parser) dictionary(value func(key string) error) error {
	if !p.take("{") {
		return p.fail("a dictionary {'descr': ..., 'fortran_order': ..., 'shape': ...}")
	}
	for !p.take("}") {
		key, err := p.quoted("a key in quotes")
		if err != nil {
			return err
		}
		if !p.take(":") {
			return p.fail("a colon")
		}
		if err := value(key); err != nil {
			return err
		}
		if p.take(",") {
			continue
		}
		if !p.take("}") {
			return p.fail("a comma or }")
		}
		break
	}
	return nil
}

// quoted reads a string without backslashes, which no valid name needs.
func (p *parser) quoted(want string) (string, error) {
	p.skipSpace()
	if p.text == "" || p.text[0] != '\'' && p.text[0] != '"' {
		return "", p.fail(want)
	}
	quote := p.text[:1]
	s, rest, ok := strings.Cut(p.text[1:], quote)
	if !ok || strings.ContainsAny(s, "\\\n") {
		return "", p.fail(want)
	}
	p.text = rest
	return s, nil
}

func (p *parser) descr() (string, error) {
	if p.skipSpace(); strings.HasPrefix(p.text, "[") || strings.HasPrefix(p.text, "(") {
		return "", bad("the array is structured: its elements have fields; save one field")
	}
	return p.quoted("a dtype in quotes")
}

func (p *parser) boolean() (bool, error) {
	switch {
	case p.take("True"):
		return true, nil
	case p.take("False"):
		return false, nil
	}
	return false, p.fail("True or False for 'fortran_order'")
}

// shape reads (), (3,) or (2, 3). A single size needs its comma, as in Python.
func (p *parser) shape() ([]int, error) {
	if !p.take("(") {
		return nil, p.fail("a shape such as (2, 3)")
	}
	shape := []int{}
	for hasComma := true; !p.take(")"); {
		if !hasComma {
			return nil, p.fail("a comma or )")
		}
		size, err := p.size()
		if err != nil {
			return nil, err
		}
		if len(shape) == maxRank {
			return nil, bad("the shape has more than %d sizes", maxRank)
		}
		shape = append(shape, size)
		if hasComma = p.take(","); !hasComma && len(shape) == 1 {
			return nil, p.fail("a comma: the shape of one dimension is (3,)")
		}
	}
	return shape, nil
}

func (p *parser) size() (int, error) {
	p.skipSpace()
	digits := len(p.text) - len(strings.TrimLeft(p.text, "0123456789"))
	if digits == 0 {
		return 0, p.fail("a size in 'shape'")
	}
	n, err := strconv.Atoi(p.text[:digits])
	if err != nil {
		return 0, bad("the shape has the size %s, too large for this machine", p.text[:digits])
	}
	p.text = p.text[digits:]
	p.take("L") // the suffix of a long integer in Python 2
	return n, nil
}
