package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"tokitai/internal/newfile"
)

// Write writes a file. The bytes do not depend on the order of the entries. It
// checks everything before it writes the first byte.
func Write(w io.Writer, f *File) error {
	head, entries, err := layOut(f, maxHeader)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, e := range entries {
		if _, err := w.Write(e.Data); err != nil {
			return fmt.Errorf("tensor %q: %w", e.Name, err)
		}
	}
	return nil
}

// WriteFile writes a file atomically: an existing file is replaced once the new one
// is complete and on disk, and kept if there is an error.
func WriteFile(path string, f *File) error {
	var b newfile.Batch
	defer b.Discard()
	if err := Stage(&b, path, f); err != nil {
		return err
	}
	return b.Commit()
}

// Stage adds a file to a batch of files that appear together.
func Stage(b *newfile.Batch, path string, f *File) error {
	return inFile(path, b.Write(path, func(w io.Writer) error { return Write(w, f) }))
}

// layOut checks f. It returns the bytes before the data, and the entries in the
// order of their data. The header may have at most limit bytes.
func layOut(f *File, limit int) ([]byte, []Entry, error) {
	if f == nil {
		return nil, nil, bad("nothing to write: the file is nil")
	}
	entries := slices.Clone(f.Entries)
	sortByName(entries)
	for i, e := range entries {
		if err := checkEntry(e); err != nil {
			return nil, nil, err
		}
		if i > 0 && entries[i-1].Name == e.Name {
			return nil, nil, bad("the name %q occurs twice", e.Name)
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Compare(layoutRank(a.DType), layoutRank(b.DType))
	})

	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteByte('{')
	if err := writeMetadata(&b, f.Metadata); err != nil {
		return nil, nil, err
	}
	at := 0
	for i, e := range entries {
		if i > 0 || f.Metadata != nil {
			b.WriteByte(',')
		}
		shape := strings.ReplaceAll(strings.Trim(fmt.Sprint(e.Shape), "[]"), " ", ",")
		fmt.Fprintf(&b, `%s:{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}`, quote(e.Name), formatName(e.DType), shape, at, at+len(e.Data))
		at += len(e.Data)
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if n := b.Len() - 8; n > limit {
		return nil, nil, bad("the header would take %d bytes, want at most %d", n, limit)
	}
	head := b.Bytes()
	binary.LittleEndian.PutUint64(head, uint64(len(head)-8))
	return head, entries, nil
}

func checkEntry(e Entry) error {
	switch {
	case e.Name == metadataName:
		return bad("a tensor cannot have the name %q", e.Name)
	case !utf8.ValidString(e.Name):
		return badTensor(e.Name, "the name is not UTF-8")
	case layoutRank(e.DType) < 0:
		return badTensor(e.Name, "dtype %v is not supported; %s", e.DType, supported)
	}
	if len(e.Shape) > maxRank {
		return badTensor(e.Name, "shape has %d sizes, want at most %d", len(e.Shape), maxRank)
	}
	for _, n := range e.Shape {
		if n < 0 {
			return badTensor(e.Name, "shape %v has a negative size", e.Shape)
		}
	}
	want, ok := byteCount(e.DType.Size(), e.Shape)
	if !ok {
		return badTensor(e.Name, "shape %v of %v overflows 64 bits", e.Shape, e.DType)
	}
	if int64(len(e.Data)) != want {
		return badTensor(e.Name, "shape %v of %v needs %d bytes, but the data has %d", e.Shape, e.DType, want, len(e.Data))
	}
	return nil
}

func writeMetadata(b *bytes.Buffer, metadata map[string]string) error {
	if metadata == nil {
		return nil
	}
	fmt.Fprintf(b, `"%s":{`, metadataName)
	for i, key := range slices.Sorted(maps.Keys(metadata)) {
		if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
			return bad("%s: %q: %q is not UTF-8", metadataName, key, metadata[key])
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "%s:%s", quote(key), quote(metadata[key]))
	}
	b.WriteByte('}')
	return nil
}

// quote returns s as a JSON string, without escaping HTML.
func quote(s string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.Encode(s) // a string can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
