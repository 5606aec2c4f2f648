package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Decode returns the text of ids, as a Stream does.
func (t *Tokenizer) Decode(ids []int32, o DecodeOptions) (string, error) {
	s := t.NewStream(o)
	var text strings.Builder
	for _, id := range ids {
		part, err := s.Next(id)
		if err != nil {
			return "", err
		}
		text.WriteString(part)
	}
	text.WriteString(s.End())
	return text.String(), nil
}

// DecodeOptions configures decoding.
type DecodeOptions struct {
	SkipSpecial bool // leave out special tokens
}

// Stream decodes ids one by one. The parts that it returns are valid UTF-8, and joined they are the
// text that Decode returns: a character whose bytes are in several tokens comes with the last of
// these. Bytes that are no UTF-8 become U+FFFD.
type Stream struct {
	tokenizer *Tokenizer
	options   DecodeOptions
	first     sink // the first stage
	stages    []stage
	out       strings.Builder
}

// NewStream returns a Stream at the beginning of a text.
func (t *Tokenizer) NewStream(o DecodeOptions) *Stream {
	s := &Stream{tokenizer: t, options: o}
	s.first = func(p piece) { s.out.WriteString(p.text) }
	for i := len(t.decoders) - 1; i >= 0; i-- {
		stage, next := t.decoders[i](), s.first
		s.stages = append(s.stages, stage)
		stage.to(next)
		s.first = stage.add
	}
	return s
}

// Bytes returns the bytes that an id stands for in a text, behind others. A character may have its bytes in several tokens.
func (t *Tokenizer) Bytes(id int32) ([]byte, bool) {
	token, ok := t.tokens[id]
	s := t.NewStream(DecodeOptions{})
	p := piece{text: token.text, isStart: true}
	for i := len(s.stages) - 1; i >= 0 && ok; i-- {
		stage := s.stages[i]
		switch stage := stage.(type) {
		case *fallbackStage:
			if b, isByte := fallbackByte(p.text); isByte {
				return []byte{b}, true
			}
			continue
		case *byteLevelStage:
			if raw, isRaw := rawBytes(p.text); isRaw {
				return []byte(raw), true
			}
			continue
		case *metaspaceStage:
			stage.begun = true
		case *fuseStage:
			stage.begun = true
		}
		stage.to(func(next piece) { p = next })
		stage.add(p)
	}
	return []byte(p.text), ok
}

// Next adds an id and returns the text that is certain now and was not before. It refuses ids
// that the tokenizer does not have.
func (s *Stream) Next(id int32) (string, error) {
	token, ok := s.tokenizer.tokens[id]
	if !ok {
		return "", fmt.Errorf("no token has the id %d", id)
	}
	if token.isSpecial && s.options.SkipSpecial {
		return "", nil
	}
	s.first(piece{token.text, true})
	return s.taken(), nil
}

// End returns the rest of the text. The stream is then at the beginning of another.
func (s *Stream) End() string {
	for i := len(s.stages) - 1; i >= 0; i-- {
		s.stages[i].end()
	}
	return s.taken()
}

func (s *Stream) taken() string {
	text := s.out.String()
	s.out.Reset()
	return text
}

// piece is a token between two decoders, or a part of one that goes on in the next piece.
type piece struct {
	text    string
	isStart bool // a token begins
}

type sink func(piece)

// stage is a decoder: it takes tokens and passes others on. end ends the text.
type stage interface {
	to(next sink)
	add(p piece)
	end()
}

// output is what stages share.
type output struct{ next sink }

func (o *output) to(next sink) { o.next = next }
func (o *output) end()         {}

// replaceStage replaces a text in each token.
type replaceStage struct {
	output
	old, new string
}

func (r *replaceStage) add(p piece) {
	p.text = strings.ReplaceAll(p.text, r.old, r.new)
	r.next(p)
}

// metaspaceStage writes spaces for the replacement; in the first token, nothing.
type metaspaceStage struct {
	output
	metaspace
	begun bool
}

func (m *metaspaceStage) add(p piece) {
	space := " "
	if !m.begun && m.scheme != "never" {
		space = ""
	}
	m.begun = true
	p.text = strings.ReplaceAll(p.text, m.replacement, space)
	m.next(p)
}

func (m *metaspaceStage) end() { m.begun = false }

// fuseStage joins all tokens to one.
type fuseStage struct {
	output
	begun bool
}

func (f *fuseStage) add(p piece) {
	f.next(piece{p.text, !f.begun})
	f.begun = true
}

func (f *fuseStage) end() { f.begun = false }

// stripStage takes characters from the beginning of each token, at most count.
type stripStage struct {
	output
	content string
	count   int
	left    int
}

func (s *stripStage) add(p piece) {
	if p.isStart {
		s.left = s.count
	}
	for s.left > 0 && p.text != "" {
		rest, ok := strings.CutPrefix(p.text, s.content)
		if !ok {
			s.left = 0
			break
		}
		p.text = rest
		s.left--
	}
	s.next(p)
}

// fallbackStage joins tokens of the form <0x41>, which are bytes. A run of them that is not UTF-8
// becomes as many U+FFFD, so a run is kept back until it ends.
type fallbackStage struct {
	output
	run []byte
}

func (f *fallbackStage) add(p piece) {
	if b, ok := fallbackByte(p.text); ok {
		f.run = append(f.run, b)
		return
	}
	f.end()
	f.next(p)
}

func (f *fallbackStage) end() {
	switch {
	case len(f.run) == 0:
		return
	case utf8.Valid(f.run):
		f.next(piece{string(f.run), true})
	default:
		for range f.run {
			f.next(piece{"\uFFFD", true})
		}
	}
	f.run = f.run[:0]
}

// fallbackByte returns the byte that a token such as <0x0A> stands for.
func fallbackByte(s string) (byte, bool) {
	if len(s) != 6 || s[:3] != "<0x" || s[5] != '>' {
		return 0, false
	}
	n := byte(0)
	for _, c := range []byte(s[3:5]) {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | (c - '0')
		case c|32 >= 'a' && c|32 <= 'f':
			n = n<<4 | ((c | 32) - 'a' + 10)
		default:
			return 0, false
		}
	}
	return n, true
}

// byteLevelStage writes the bytes that the characters of tokens stand for, as one token. It keeps
// the bytes of an unfinished character back.
type byteLevelStage struct {
	output
	begun bool
	rest  []byte
}

func (b *byteLevelStage) add(p piece) {
	raw, ok := rawBytes(p.text)
	if !ok {
		raw = p.text
	}
	b.rest = append(b.rest, raw...)
	b.pass(false)
}

func (b *byteLevelStage) end() {
	b.pass(true)
	b.begun = false
}

// pass passes on what is certain, or everything.
func (b *byteLevelStage) pass(all bool) {
	var text []byte
	for len(b.rest) > 0 {
		r, n := utf8.DecodeRune(b.rest)
		if r == utf8.RuneError && n == 1 {
			n = brokenBytes(b.rest)
			if n == len(b.rest) && !all && isUnfinished(b.rest) {
				break
			}
			text = append(text, "\uFFFD"...)
		} else {
			text = append(text, b.rest[:n]...)
		}
		b.rest = b.rest[n:]
	}
	if len(b.rest) == 0 {
		b.rest = b.rest[:0:0]
	}
	if len(text) > 0 {
		b.next(piece{string(text), !b.begun})
		b.begun = true
	}
}

// brokenBytes returns the length of the longest beginning of s that begins a character, at least 1:
// these bytes together become one U+FFFD.
func brokenBytes(s []byte) int {
	n := 1
	for n < len(s) && isUnfinished(s[:n+1]) {
		n++
	}
	return n
}

// isUnfinished reports whether bytes can follow s, which is not empty, to make it one character.
func isUnfinished(s []byte) bool { return len(s) < utf8.UTFMax && !utf8.FullRune(s) }
