package evidence

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns a text in which control characters, formatting characters such as those that
// change the direction of writing, and bytes that are not UTF-8 are replaced by escapes: a terminal
// shows it as it is. Line feeds and tabs stay.
func Printable(text string) string {
	if isPrintable(text) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case isPlain(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func isPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !isPlain(r) })
}

func isPlain(r rune) bool {
	if r < 0x80 {
		return r >= ' ' && r != 0x7f || r == '\n' || r == '\t'
	}
	return !unicode.In(r, unicode.C, unicode.Zl, unicode.Zp)
}

// Printable returns a copy of the report with all texts printable.
func (r *Report) Printable() *Report { return complete(reflect.ValueOf(r)).Interface().(*Report) }
