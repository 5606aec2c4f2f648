package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"tokitai/internal/jsontree"
)

// readModel reads the vocabulary and the merges.
func (f *fileReader) readModel(v *jsontree.Value, isByteLevel bool) *model {
	m := &model{isByteLevel: isByteLevel, unknown: -1}
	if f.err != nil {
		return m
	}
	p := f.part("model", v)
	if kind := p.text("type", "BPE"); kind != "BPE" {
		f.unsupported("model", kind)
		return m
	}
	p.name = "model BPE"
	if v := p.get("dropout"); !isNull(v) && (v.Kind != jsontree.Number || strings.Trim(v.Text, "0.") != "") {
		f.fail("model BPE with dropout is not supported")
	}
	for _, name := range []string{"continuing_subword_prefix", "end_of_word_suffix"} {
		if v := p.get(name); !isNull(v) && (v.Kind != jsontree.String || v.Text != "") {
			f.fail("model BPE with %s is not supported", name)
		}
	}
	m.fallsBack, m.fusesUnknown, m.wholeWords = p.flag("byte_fallback", "false"), p.flag("fuse_unk", "false"), p.flag("ignore_merges", "false")
	f.readVocabulary(p.get("vocab"))
	if f.err != nil {
		return m
	}
	if v := p.get("unk_token"); !isNull(v) {
		text := p.text("unk_token")
		id, ok := f.vocab[text]
		if !ok {
			f.fail("model BPE: the vocabulary lacks the unk_token %s", quote(text))
		}
		m.unknown = id
	}
	f.setSymbols(m)
	f.readMerges(m, p.get("merges"))
	p.done()
	f.t.model = m
	return m
}

func (f *fileReader) readVocabulary(v *jsontree.Value) {
	if v == nil || v.Kind != jsontree.Object {
		f.fail("model BPE: vocab is %s, want an object", kindOf(v))
		return
	}
	f.vocab = make(map[string]int32, len(v.Members))
	f.t.tokens = make(map[int32]token, len(v.Members))
	for _, e := range v.Members {
		id, ok := parseID(e.Value.Text)
		switch {
		case e.Value.Kind != jsontree.Number || !ok:
			f.fail("model BPE: the id of %s is not an integer from 0 to 2147483647", quote(e.Name))
			return
		case e.Name == "":
			f.fail("model BPE: token %d is empty", id)
			return
		}
		if other, ok := f.t.tokens[id]; ok {
			f.fail("model BPE: %s and %s both have the id %d", quote(other.text), quote(e.Name), id)
			return
		}
		f.vocab[e.Name] = id
		f.t.tokens[id] = token{text: e.Name}
	}
}

// setSymbols finds the tokens that merging begins with.
func (f *fileReader) setSymbols(m *model) {
	if m.isByteLevel {
		// A character that does not stand for a byte is never in a word.
		m.words = make(map[string]int32, len(f.vocab))
		for text, id := range f.vocab {
			if raw, ok := rawBytes(text); ok {
				m.words[raw] = id
			}
		}
		if m.fallsBack || m.unknown >= 0 && !m.hasAllBytes() {
			f.fail("model BPE with byte_fallback, or with unk_token and fewer than 256 bytes, is not supported behind pre_tokenizer ByteLevel")
		}
		for c := range m.bytes {
			m.bytes[c] = -1
			if id, ok := m.words[string([]byte{byte(c)})]; ok {
				m.bytes[c] = id
			}
		}
		return
	}
	m.words = f.vocab
	for c := range m.ascii {
		m.ascii[c] = -1
		if id, ok := f.vocab[string(rune(c))]; ok {
			m.ascii[c] = id
		}
	}
	if m.fallsBack {
		for c := range m.bytes {
			name := fmt.Sprintf("<0x%02X>", c)
			id, ok := f.vocab[name]
			if !ok {
				f.fail("model BPE with byte_fallback: the vocabulary lacks %s", name)
				return
			}
			m.bytes[c] = id
		}
	}
}

func (m *model) hasAllBytes() bool {
	for c := range 256 {
		if _, ok := m.words[string([]byte{byte(c)})]; !ok {
			return false
		}
	}
	return true
}

func (f *fileReader) readMerges(m *model, v *jsontree.Value) {
	if v == nil || v.Kind != jsontree.Array {
		f.fail("model BPE: merges is %s, want an array", kindOf(v))
		return
	}
	m.pairs = newPairTable(len(v.List))
	if !m.isByteLevel {
		m.borders = map[[2]rune]struct{}{}
	}
	single := map[int32]bool{} // symbols that are not the characters of their text
	if m.fallsBack {
		for _, id := range m.bytes {
			single[id] = true
		}
	}
	if m.unknown >= 0 {
		single[m.unknown] = true
	}
	for i := range v.List {
		left, right, ok := mergeOf(&v.List[i])
		if !ok {
			f.fail("model BPE: merge %d is not two tokens", i)
			return
		}
		var ids [3]int32
		for j, text := range [3]string{left, right, left + right} {
			if ids[j], ok = f.vocab[text]; !ok {
				f.fail("model BPE: merge %d is of %s and %s, but the vocabulary lacks %s", i, quote(left), quote(right), quote(text))
				return
			}
		}
		if earlier, isNew := m.pairs.add(ids[0], ids[1], ids[2]); !isNew {
			f.fail("model BPE: merges %d and %d are both of %s and %s", earlier, i, quote(left), quote(right))
			return
		}
		if m.borders == nil {
			continue
		}
		if single[ids[0]] || single[ids[1]] {
			m.borders = nil
			continue
		}
		last, _ := utf8.DecodeLastRuneInString(left)
		first, _ := utf8.DecodeRuneInString(right)
		m.borders[[2]rune{last, first}] = struct{}{}
	}
	if m.fusesUnknown && !m.fallsBack {
		m.borders = nil // unknown characters are joined wherever they are
	}
}

// mergeOf returns the tokens of a merge: "a b" in older files, ["a","b"] in newer ones.
func mergeOf(v *jsontree.Value) (left, right string, ok bool) {
	switch {
	case v.Kind == jsontree.String:
		left, right, ok = strings.Cut(v.Text, " ")
		return left, right, ok && left != "" && right != "" && !strings.Contains(right, " ")
	case v.Kind == jsontree.Array && len(v.List) == 2 && v.List[0].Kind == jsontree.String && v.List[1].Kind == jsontree.String:
		return v.List[0].Text, v.List[1].Text, true
	}
	return "", "", false
}
