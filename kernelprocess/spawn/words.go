package spawn

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// lastWordsBytes is the number of bytes of a child's standard error that are kept.
const lastWordsBytes = 4 << 10

// lastWords keeps the end of a child's standard error.
type lastWords struct {
	mu    sync.Mutex
	text  []byte // the last lastWordsBytes, or up to twice as many
	isCut bool   // the beginning is lost
}

// copy reads to the end or an error, keeps the last bytes and forwards all of them. It
// goes on reading if forwarding fails, since the child would block otherwise.
func (l *lastWords) copy(from io.Reader, to io.Writer) {
	buffer := make([]byte, lastWordsBytes)
	for {
		n, err := from.Read(buffer)
		l.add(buffer[:n])
		if to != nil && n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				to = nil
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *lastWords) add(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if surplus := len(l.text) - lastWordsBytes; surplus > lastWordsBytes {
		l.text = append(l.text[:0], l.text[surplus:]...)
		l.isCut = true
	}
}

// lines returns the lines kept. It leaves out an incomplete first line, unless that is
// the only one.
func (l *lastWords) lines() []string {
	l.mu.Lock()
	text, isCut := bytes.Clone(l.text), l.isCut
	l.mu.Unlock()
	if surplus := len(text) - lastWordsBytes; surplus > 0 {
		text, isCut = text[surplus:], true
	}
	text = bytes.TrimRight(text, "\r\n")
	if isCut {
		if _, rest, ok := bytes.Cut(text, []byte("\n")); ok {
			text = rest
		} else {
			text = append([]byte("…"), text...)
		}
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			lines = append(lines, printable(line))
		}
	}
	return lines
}

// printable returns the text with control characters, invisible ones and bytes that are
// not UTF-8 escaped.
func printable(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[n:]
	}
	return b.String()
}
