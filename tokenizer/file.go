package tokenizer

import (
	"cmp"
	"fmt"
	"slices"

	"tokitai/internal/jsontree"
	"tokitai/internal/readfile"
)

// maxFileBytes is the size of the largest file that is read.
const maxFileBytes = 1 << 28

// Open reads a tokenizer.json.
func Open(path string) (*Tokenizer, error) {
	data, err := readfile.Linked(path, maxFileBytes)
	if err != nil {
		return nil, err
	}
	t, err := Parse(data)
	if err != nil {
		return nil, &FormatError{path, err}
	}
	return t, nil
}

// FormatError is a tokenizer.json that is malformed or not supported.
type FormatError struct {
	Path string
	Err  error
}

func (e *FormatError) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *FormatError) Unwrap() error { return e.Err }

// Parse reads the content of a tokenizer.json.
func Parse(data []byte) (*Tokenizer, error) {
	root, err := jsontree.Parse(data)
	if err != nil {
		return nil, err
	}
	if root.Kind != jsontree.Object {
		return nil, fmt.Errorf("got %v, want an object", root.Kind)
	}
	f := &fileReader{t: &Tokenizer{}}
	p := f.part("the file", root)
	if v := p.text("version", "1.0"); v != "1.0" {
		f.fail("version %s is not supported, want \"1.0\"", quote(v))
	}
	for _, name := range []string{"truncation", "padding"} {
		if v := p.get(name); v != nil && v.Kind != jsontree.Null {
			f.fail("%s is not supported: it must be null", name)
		}
	}
	f.readNormalizer(p.get("normalizer"))
	isByteLevel := f.readPreTokenizer(p.get("pre_tokenizer"))
	m := f.readModel(p.get("model"), isByteLevel)
	f.readAdded(p.get("added_tokens"), m)
	f.readPostProcessor(p.get("post_processor"))
	f.readDecoder(p.get("decoder"))
	p.done()
	return f.t, f.err
}

// fileReader builds a tokenizer. It keeps the first error; after one, what it returns means nothing.
type fileReader struct {
	t     *Tokenizer
	vocab map[string]int32 // tokens of the model by their text
	added map[string]int32 // added tokens
	err   error
}

func (f *fileReader) fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// part is an object of the file. done refuses the members that nobody asked for.
type part struct {
	file  *fileReader
	name  string
	value *jsontree.Value
	asked map[string]bool
}

func (f *fileReader) part(name string, v *jsontree.Value) *part {
	p := &part{f, name, v, map[string]bool{}}
	if v == nil || v.Kind != jsontree.Object {
		f.fail("%s is %s, want an object", name, kindOf(v))
		p.value = &jsontree.Value{}
	}
	return p
}

// typed returns a component such as a normalizer, and its type.
func (f *fileReader) typed(role string, v *jsontree.Value) (*part, string) {
	p := f.part(role, v)
	kind := p.text("type")
	p.name = role + " " + kind
	return p, kind
}

func (p *part) done() {
	for _, m := range p.value.Members {
		if !p.asked[m.Name] {
			p.file.fail("%s: the member %s is not supported", p.name, quote(m.Name))
		}
	}
}

// get returns a member, or nil.
func (p *part) get(name string) *jsontree.Value {
	p.asked[name] = true
	return p.value.Get(name)
}

// want returns a member of a kind. A missing one is an error unless otherwise is given.
func (p *part) want(name string, kind jsontree.Kind, otherwise []string) string {
	v := p.get(name)
	switch {
	case v == nil && len(otherwise) == 1:
		return otherwise[0]
	case v == nil:
		p.file.fail("%s has no member %s", p.name, quote(name))
		return ""
	case v.Kind != kind:
		p.file.fail("%s: %s is %v, want %v", p.name, name, v.Kind, kind)
		return ""
	}
	return v.Text
}

func (p *part) text(name string, otherwise ...string) string {
	return p.want(name, jsontree.String, otherwise)
}

func (p *part) flag(name string, otherwise ...string) bool {
	return p.want(name, jsontree.Bool, otherwise) == "true"
}

// count returns a member that is a number of at least 0 and fits int32.
func (p *part) count(name string) int32 {
	s := p.want(name, jsontree.Number, nil)
	if p.file.err != nil {
		return 0
	}
	n, ok := parseID(s)
	if !ok {
		p.file.fail("%s: %s is %s, want an integer from 0 to 2147483647", p.name, name, s)
	}
	return n
}

func (p *part) list(name string) []jsontree.Value {
	p.want(name, jsontree.Array, nil)
	if v := p.get(name); v != nil {
		return v.List
	}
	return nil
}

// parseID reads an id as JSON writes it.
func parseID(s string) (int32, bool) {
	n := int64(0)
	for _, c := range []byte(s) {
		if n = n*10 + int64(c-'0'); c < '0' || c > '9' || n > 1<<31-1 {
			return 0, false
		}
	}
	return int32(n), s != ""
}

func isNull(v *jsontree.Value) bool { return v == nil || v.Kind == jsontree.Null }

func kindOf(v *jsontree.Value) string {
	if v == nil {
		return "missing"
	}
	return v.Kind.String()
}

func quote(s string) string { return jsontree.Quote(s) }

// unsupported refuses a component by its type.
func (f *fileReader) unsupported(role, kind string) {
	f.fail("%s %s is not supported", role, cmp.Or(kind, "without a type"))
}

func (f *fileReader) readNormalizer(v *jsontree.Value) {
	if isNull(v) || f.err != nil {
		return
	}
	p, kind := f.typed("normalizer", v)
	switch kind {
	case "Sequence":
		for i := range p.list("normalizers") {
			f.readNormalizer(&p.list("normalizers")[i])
		}
	case "NFC":
		f.t.normalizer = append(f.t.normalizer, nfc)
	case "Prepend":
		f.t.normalizer = append(f.t.normalizer, prepend(p.text("prepend")))
	case "Replace":
		f.t.normalizer = append(f.t.normalizer, replace(f.readString(p, "pattern"), p.text("content")))
	default:
		f.unsupported("normalizer", kind)
	}
	p.done()
}

// readString reads a pattern that is a plain string.
func (f *fileReader) readString(p *part, name string) string {
	pattern := f.part(p.name+"'s "+name, p.get(name))
	text := pattern.text("String")
	if pattern.get("Regex") != nil {
		f.err = nil // it says less
		f.fail("%s: a regular expression is not supported", p.name)
	}
	if text == "" {
		f.fail("%s: the %s is empty", p.name, name)
	}
	pattern.done()
	return text
}

// readPreTokenizer reports whether words are mapped to the characters that stand for bytes.
func (f *fileReader) readPreTokenizer(v *jsontree.Value) (isByteLevel bool) {
	if isNull(v) || f.err != nil {
		return false
	}
	p, kind := f.typed("pre_tokenizer", v)
	add := func(s splitter) { f.t.splits = append(f.t.splits, s) }
	switch kind {
	case "Sequence":
		list := p.list("pretokenizers")
		for i := range list {
			if isByteLevel {
				f.fail("pre_tokenizer ByteLevel is not supported before another one")
			}
			isByteLevel = f.readPreTokenizer(&list[i])
		}
	case "ByteLevel":
		isByteLevel = true
		p.flag("trim_offsets", "true") // offsets are not computed
		if p.flag("add_prefix_space") {
			add(spaced)
		}
		if p.flag("use_regex", "true") {
			add(byPattern(gpt2.scanner()))
		}
	case "Split":
		f.readSplit(p, add)
	case "Metaspace":
		add(f.readMetaspace(p).splitter())
	default:
		f.unsupported("pre_tokenizer", kind)
	}
	p.done()
	return isByteLevel
}

func (f *fileReader) readSplit(p *part, add func(splitter)) {
	pattern := f.part("pre_tokenizer Split's pattern", p.get("pattern"))
	behavior, isInverted := p.text("behavior"), p.flag("invert")
	if pattern.get("Regex") != nil {
		text := pattern.text("Regex")
		known, ok := patterns[text]
		switch {
		case !ok:
			f.fail("pre_tokenizer Split: the pattern %s is not supported", quote(text))
		// The patterns match everything, so these two are the same.
		case behavior == "Isolated" && !isInverted, behavior == "Removed" && isInverted:
			add(byPattern(known.scanner()))
		default:
			f.fail("pre_tokenizer Split with behavior %s and invert %v is not supported for a regular expression", quote(behavior), isInverted)
		}
	} else {
		delimiter := pattern.text("String")
		switch {
		case delimiter == "":
			f.fail("pre_tokenizer Split: the pattern is empty")
		case behavior == "MergedWithPrevious" && !isInverted:
			add(afterEach(delimiter))
		case behavior == "MergedWithNext" && !isInverted:
			add(beforeEach(delimiter))
		default:
			f.fail("pre_tokenizer Split with behavior %s and invert %v is not supported for a string", quote(behavior), isInverted)
		}
	}
	pattern.done()
}

func (f *fileReader) readMetaspace(p *part) metaspace {
	m := metaspace{replacement: p.text("replacement"), scheme: p.text("prepend_scheme", "always"), isSplit: p.flag("split", "true")}
	if len([]rune(m.replacement)) != 1 {
		f.fail("%s: the replacement is %s, want one character", p.name, quote(m.replacement))
	}
	if m.scheme != "always" && m.scheme != "first" && m.scheme != "never" {
		f.fail("%s: prepend_scheme %s is not supported", p.name, quote(m.scheme))
	}
	if p.get("add_prefix_space") != nil && p.flag("add_prefix_space") == (m.scheme == "never") {
		f.fail("%s: add_prefix_space contradicts prepend_scheme %s", p.name, m.scheme)
	}
	return m
}

func (f *fileReader) readAdded(v *jsontree.Value, m *model) {
	f.added = map[string]int32{}
	if isNull(v) || f.err != nil {
		return
	}
	if v.Kind != jsontree.Array {
		f.fail("added_tokens is %v, want an array", v.Kind)
	}
	var plain, normalized []addedToken
	special := map[string]bool{}
	free := int32(len(f.vocab)) // the next id for a token that the model does not have
	type entry struct {
		id   int32
		text string // as decoding sees it
	}
	var entries []entry
	for i := range v.List {
		p := f.part(fmt.Sprintf("added token %d", i), &v.List[i])
		content := p.text("content")
		t := addedToken{text: content, id: p.count("id"), singleWord: p.flag("single_word"), lstrip: p.flag("lstrip"), rstrip: p.flag("rstrip"), isNormalized: p.flag("normalized"), isSpecial: p.flag("special")}
		p.done()
		if f.err != nil {
			return
		}
		want, isKnown := f.vocab[content]
		if !isKnown {
			want = free
			free++
		}
		if _, ok := f.added[content]; ok {
			f.fail("added token %d is a second %s", i, quote(content))
		}
		if t.id != want {
			f.fail("added token %s has the id %d, but the vocabulary and the added tokens before it make that %d", quote(content), t.id, want)
		}
		if other, ok := f.t.tokens[t.id]; ok && !isKnown {
			f.fail("added token %s has the id %d, which is that of %s", quote(content), t.id, quote(other.text))
		}
		f.added[content] = t.id
		if t.isSpecial {
			special[content] = true
		}
		if !t.isNormalized {
			plain = append(plain, t)
		} else {
			t.text = f.t.normalize(content)
			normalized = append(normalized, t)
		}
		entries = append(entries, entry{t.id, t.text})
	}
	for _, e := range entries {
		f.t.tokens[e.id] = token{e.text, special[e.text]}
	}
	var err error
	if f.t.added.plain, err = newFinder(plain); err == nil {
		f.t.added.normalized, err = newFinder(normalized)
	}
	if err != nil {
		f.fail("%v", err)
	}
}

func (f *fileReader) readPostProcessor(v *jsontree.Value) {
	if isNull(v) || f.err != nil {
		return
	}
	p, kind := f.typed("post_processor", v)
	switch kind {
	case "Sequence":
		list := p.list("processors")
		for i := range list {
			f.readPostProcessor(&list[i])
		}
	case "ByteLevel": // it changes offsets, which are not computed
		p.flag("add_prefix_space")
		p.flag("trim_offsets")
		p.flag("use_regex", "true")
	case "TemplateProcessing":
		f.readTemplate(p)
	default:
		f.unsupported("post_processor", kind)
	}
	p.done()
}

// readTemplate reads the template for one text. That for two is not used.
func (f *fileReader) readTemplate(p *part) {
	if len(f.t.template.before)+len(f.t.template.after) > 0 {
		f.fail("more than one post_processor TemplateProcessing is not supported")
	}
	special := f.part("special_tokens", p.get("special_tokens"))
	ids := map[string][]int32{}
	for _, m := range special.value.Members {
		s := f.part("special token "+quote(m.Name), special.get(m.Name))
		if id := s.text("id"); id != m.Name {
			f.fail("%s has the id %s", s.name, quote(id))
		}
		tokens := s.list("tokens")
		for i, v := range s.list("ids") {
			id, isID := parseID(v.Text)
			switch {
			case v.Kind != jsontree.Number || !isID:
				f.fail("%s: id %d is not one", s.name, i)
			case i >= len(tokens):
				f.fail("%s has more ids than tokens", s.name)
			case tokens[i].Kind != jsontree.String || f.idOf(tokens[i].Text) != id:
				f.fail("%s: the id of %s is %d, which is not that of the vocabulary", s.name, quote(tokens[i].Text), id)
			}
			ids[m.Name] = append(ids[m.Name], id)
		}
		s.done()
	}
	hasText := false
	for _, v := range p.list("single") {
		piece := f.part("post_processor TemplateProcessing's piece", &v)
		switch {
		case piece.get("Sequence") != nil:
			s := f.part("Sequence", piece.get("Sequence"))
			if id := s.text("id"); id != "A" || hasText {
				f.fail("post_processor TemplateProcessing: the template for one text must have the sequence A once")
			}
			s.count("type_id")
			s.done()
			hasText = true
		default:
			s := f.part("SpecialToken", piece.get("SpecialToken"))
			name := s.text("id")
			s.count("type_id")
			s.done()
			list, ok := ids[name]
			if !ok {
				f.fail("post_processor TemplateProcessing: special_tokens lacks %s", quote(name))
			}
			to := &f.t.template.before
			if hasText {
				to = &f.t.template.after
			}
			*to = append(*to, list...)
		}
		piece.done()
	}
	if !hasText {
		f.fail("post_processor TemplateProcessing: the template for one text must have the sequence A once")
	}
	p.list("pair")
}

// idOf returns the id of a token of the file, or -1.
func (f *fileReader) idOf(text string) int32 {
	if id, ok := f.added[text]; ok {
		return id
	}
	if id, ok := f.vocab[text]; ok {
		return id
	}
	return -1
}

func (f *fileReader) readDecoder(v *jsontree.Value) {
	if f.err != nil {
		return
	}
	if isNull(v) {
		f.fail("a file without a decoder is not supported")
		return
	}
	var names []string
	f.readDecoders(v, &names)
	// What comes after a decoder that makes one token of all sees that token in parts.
	for i, name := range names {
		isOne := slices.ContainsFunc(names[:i], func(n string) bool { return n == "Fuse" || n == "ByteLevel" })
		if isOne && name != "Strip" && name != "Fuse" {
			f.fail("decoder %s is not supported after Fuse or ByteLevel", name)
		}
	}
}

func (f *fileReader) readDecoders(v *jsontree.Value, names *[]string) {
	p, kind := f.typed("decoder", v)
	add := func(s func() stage) {
		f.t.decoders = append(f.t.decoders, s)
		*names = append(*names, kind)
	}
	switch kind {
	case "Sequence":
		list := p.list("decoders")
		for i := range list {
			f.readDecoders(&list[i], names)
		}
	case "ByteLevel":
		p.flag("add_prefix_space")
		p.flag("trim_offsets")
		p.flag("use_regex", "true")
		add(func() stage { return &byteLevelStage{} })
	case "ByteFallback":
		add(func() stage { return &fallbackStage{} })
	case "Fuse":
		add(func() stage { return &fuseStage{} })
	case "Metaspace":
		m := f.readMetaspace(p)
		add(func() stage { return &metaspaceStage{metaspace: m} })
	case "Replace":
		old, new := f.readString(p, "pattern"), p.text("content")
		add(func() stage { return &replaceStage{old: old, new: new} })
	case "Strip":
		content, count := p.text("content"), int(p.count("start"))
		if p.count("stop") != 0 {
			f.fail("decoder Strip with a stop other than 0 is not supported")
		}
		if len([]rune(content)) != 1 {
			f.fail("decoder Strip: the content is %s, want one character", quote(content))
		}
		add(func() stage { return &stripStage{content: content, count: count} })
	default:
		f.unsupported("decoder", kind)
	}
	p.done()
}
