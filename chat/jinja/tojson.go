package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// jsonStyle is how Python's json.dumps writes.
type jsonStyle struct {
	indent       string // of a level, if isIndented
	isIndented   bool
	comma, colon string
	isASCII      bool
	sortsKeys    bool
}

// write writes a value as JSON. newline is what begins a line at the level of the value.
func (s *jsonStyle) write(b *strings.Builder, v Value, newline string) error {
	if b.Len() > maxBytes {
		return errTooMuch
	}
	list := func(open, end string, n int, item func(i int, newline string) error) error {
		b.WriteString(open)
		if n == 0 {
			b.WriteString(end)
			return nil
		}
		inner := newline + s.indent
		for i := range n {
			if i > 0 {
				b.WriteString(s.comma)
			}
			if s.isIndented {
				b.WriteString(inner)
			}
			if err := item(i, inner); err != nil {
				return err
			}
		}
		if s.isIndented {
			b.WriteString(newline)
		}
		b.WriteString(end)
		return nil
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		if v {
			b.WriteString("true")
		} else {
			b.WriteString("false")
		}
	case int64:
		fmt.Fprint(b, v)
	case float64:
		b.WriteString(floatText(v, "Infinity", "NaN"))
	case string:
		s.text(b, v)
	case markup:
		s.text(b, string(v))
	case List:
		return list("[", "]", len(v), func(i int, newline string) error { return s.write(b, v[i], newline) })
	case tuple:
		return list("[", "]", len(v), func(i int, newline string) error { return s.write(b, v[i], newline) })
	case *Dict:
		keys := v.Keys
		if s.sortsKeys {
			keys = slices.Sorted(slices.Values(keys))
		}
		return list("{", "}", len(keys), func(i int, newline string) error {
			s.text(b, keys[i])
			b.WriteString(s.colon)
			return s.write(b, v.Values[keys[i]], newline)
		})
	case undefined:
		return fmt.Errorf("tojson of %s", v.what)
	default:
		return fmt.Errorf("tojson of a %s is not supported", typeOf(v))
	}
	return nil
}

func (s *jsonStyle) text(b *strings.Builder, text string) {
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\b':
			b.WriteString(`\b`)
		case r == '\f':
			b.WriteString(`\f`)
		case r < ' ' || s.isASCII && r > '~' && r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		case s.isASCII && r > '~':
			r -= 0x10000
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
