package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"tokitai/internal/readfile"
)

// Reports come from strangers, so their files are read within limits and strictly: what this
// package would not have written is an error that names the file and the key.

// The limits of files that are read.
const (
	MaxIndexBytes   = 16 << 20
	MaxReportBytes  = 64 << 20
	MaxArchiveBytes = 64 << 20
	MaxRunBytes     = 1 << 30 // all reports of an index
	MaxCases        = 1 << 20 // of a report
	MaxRunCases     = 1 << 22 // of all reports of an index
	maxEntries      = 1 << 14 // of any other list or map
)

// decode decodes the JSON in a file into a struct. It refuses duplicate, unknown and missing keys,
// keys in another case, nulls where there must be a value, texts that are not printable, data after
// the end, and lists of too many entries.
func decode(path string, data []byte, into any) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("evidence: %s is not UTF-8", path)
	}
	if !json.Valid(data) {
		err := json.Unmarshal(data, new(json.RawMessage))
		return fmt.Errorf("evidence: %s is not JSON: %w", path, err)
	}
	if err := checkVersion(path, data); err != nil {
		return err
	}
	s := &scanner{rest: data}
	err := s.value(reflect.TypeOf(into).Elem(), "")
	if err == nil {
		err = json.Unmarshal(data, into) // numbers out of range
	}
	if err != nil {
		return fmt.Errorf("evidence: %s: %s", path, Printable(readfile.Clip(err.Error())))
	}
	return nil
}

// NewerError says that a file is of a newer version of the schema than this program knows.
type NewerError struct{ Path, Schema string }

func (e *NewerError) Error() string {
	return fmt.Sprintf("evidence: %s is of schema %s, newer than %s, which this program knows: read it with a newer version", e.Path, e.Schema, SchemaID)
}

var schemaForm = regexp.MustCompile(`^(urn:tokitai:evidence:)([1-9][0-9]{0,8})(#.*)?$`)

// checkVersion returns a *NewerError if a file says that it is newer than this program.
func checkVersion(path string, data []byte) error {
	var head struct {
		Schema string `json:"schema"`
	}
	json.Unmarshal(data, &head) // an error is found again, with its place
	if m := schemaForm.FindStringSubmatch(head.Schema); m != nil && m[1]+m[2] != SchemaID {
		return &NewerError{path, m[1] + m[2]}
	}
	return nil
}

// scanner compares valid JSON with a type.
type scanner struct{ rest []byte }

// next removes white space and returns the next byte.
func (s *scanner) next() byte {
	s.rest = bytes.TrimLeft(s.rest, " \t\r\n")
	return s.rest[0]
}

// skip removes n bytes.
func (s *scanner) skip(n int) { s.rest = s.rest[n:] }

var caseType = reflect.TypeFor[Case]()

// value scans a value of a type. The path names it.
func (s *scanner) value(t reflect.Type, path string) error {
	first := s.next()
	isText := t.Kind() == reflect.String || t == timeType || t == caseType
	switch {
	case first == 'n':
		if s.skip(len("null")); t.Kind() != reflect.Pointer {
			return fmt.Errorf("%s is null, want %s", named(path), wanted(t))
		}
		return nil
	case t.Kind() == reflect.Pointer:
		return s.value(t.Elem(), path)
	case first == '"' && isText:
		_, err := s.text(path)
		return err
	case first == '{' && t.Kind() == reflect.Struct && t != timeType:
		return s.object(t, path)
	case first == '{' && t.Kind() == reflect.Map:
		return s.entries(t.Elem(), path)
	case first == '[' && t.Kind() == reflect.Slice:
		return s.list(t.Elem(), path)
	case (first == 't' || first == 'f') && t.Kind() == reflect.Bool:
		s.skip(map[byte]int{'t': len("true"), 'f': len("false")}[first])
		return nil
	case (first == '-' || '0' <= first && first <= '9') && isNumber(t.Kind()):
		s.skip(len(s.rest) - len(bytes.TrimLeft(s.rest, "+-.0123456789eE")))
		return nil
	}
	return fmt.Errorf("%s is %s, want %s", named(path), kindOf(first), wanted(t))
}

func isNumber(k reflect.Kind) bool { return reflect.Int <= k && k <= reflect.Float64 }

// text scans a text and returns it.
func (s *scanner) text(path string) (string, error) {
	s.next()
	end, isEscaped := 1, false
	for ; s.rest[end] != '"'; end++ {
		if s.rest[end] == '\\' {
			isEscaped = true
			end++
		}
	}
	text := string(s.rest[1:end])
	if isEscaped {
		if err := json.Unmarshal(s.rest[:end+1], &text); err != nil {
			return "", err
		}
	}
	s.skip(end + 1)
	if !isPrintable(text) {
		return "", fmt.Errorf("%s has a control or formatting character: %q", named(path), readfile.Clip(text))
	}
	return text, nil
}

// members scans the members of an object.
func (s *scanner) members(path string, member func(key string) error) error {
	seen := map[string]bool{}
	s.next()
	for s.skip(1); s.next() != '}'; {
		if s.rest[0] == ',' {
			s.skip(1)
		}
		key, err := s.text("a key of " + named(path))
		switch {
		case err != nil:
			return err
		case seen[key]:
			return fmt.Errorf("the key %s is there twice", named(join(path, key)))
		case len(seen) == maxEntries:
			return fmt.Errorf("%s has more than %d entries", named(path), maxEntries)
		}
		seen[key] = true
		s.next()
		s.skip(len(":"))
		if err := member(key); err != nil {
			return err
		}
	}
	s.skip(1)
	return nil
}

// object scans an object that has the fields of a struct.
func (s *scanner) object(t reflect.Type, path string) error {
	fields := jsonFields(t)
	missing := map[string]bool{}
	for name, f := range fields {
		if !strings.Contains(f.Tag.Get("json"), ",omitempty") {
			missing[name] = true
		}
	}
	err := s.members(path, func(key string) error {
		f, ok := fields[key]
		if !ok {
			return fmt.Errorf("unknown key %s", named(join(path, key)))
		}
		delete(missing, key)
		return s.value(f.Type, join(path, key))
	})
	if names := slices.Sorted(maps.Keys(missing)); err == nil && len(names) > 0 {
		return fmt.Errorf("the key %s is missing", named(join(path, names[0])))
	}
	return err
}

// jsonFields returns the fields of a struct, and of those embedded in it, by their names in JSON.
func jsonFields(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for f := range t.Fields() {
		switch name := jsonName(f); {
		case f.Anonymous:
			for name, inner := range jsonFields(f.Type) {
				fields[name] = inner
			}
		case name != "-":
			fields[name] = f
		}
	}
	return fields
}

// entries scans an object whose keys are not fixed.
func (s *scanner) entries(t reflect.Type, path string) error {
	return s.members(path, func(key string) error { return s.value(t, join(path, key)) })
}

// list scans a list.
func (s *scanner) list(t reflect.Type, path string) error {
	most := maxEntries
	if t == caseType {
		most = MaxCases
	}
	i := 0
	for s.skip(1); s.next() != ']'; i++ {
		if s.rest[0] == ',' {
			s.skip(1)
		}
		if i == most {
			return fmt.Errorf("%s has more than %d entries", named(path), most)
		}
		if err := s.value(t, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	s.skip(1)
	return nil
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// named returns a path for a message.
func named(path string) string {
	if path == "" {
		return "the file"
	}
	return readfile.Clip(path)
}

func kindOf(first byte) string {
	switch first {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "a bool"
	}
	return "a number"
}

func wanted(t reflect.Type) string {
	switch k := t.Kind(); {
	case k == reflect.Pointer:
		return wanted(t.Elem())
	case t == timeType:
		return "a time"
	case k == reflect.String:
		return "a text"
	case k == reflect.Bool:
		return "a bool"
	case k == reflect.Slice:
		return "a list"
	case isNumber(k):
		return "a number"
	}
	return "an object"
}
