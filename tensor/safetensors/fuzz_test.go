package safetensors

import (
	"bytes"
	"errors"
	"testing"
)

// Whatever is read is either refused as a FormatError or whole: the same by
// every way of reading, and the same again when written and read back.
func FuzzRead(f *testing.F) {
	f.Add(golden)
	f.Fuzz(func(t *testing.T, content []byte) {
		first, err := Read(bytes.NewReader(content))
		known, errAt := ReadAt(bytes.NewReader(content), int64(len(content)))
		if (err == nil) != (errAt == nil) {
			t.Fatalf("Read says %v, ReadAt %v", err, errAt)
		}
		if err != nil {
			if !errors.Is(err, ErrFormat) || !errors.Is(errAt, ErrFormat) {
				t.Fatalf("%v and %v, want FormatErrors", err, errAt)
			}
			return
		}
		diff(t, known, first)
		bytesHeld := 0
		for i, e := range first.Entries {
			if n, ok := byteCount(e.DType.Size(), e.Shape); !ok || n != int64(len(e.Data)) {
				t.Errorf("tensor %q: %d bytes for %v %v", e.Name, len(e.Data), e.DType, e.Shape)
			}
			if i > 0 && first.Entries[i-1].Name >= e.Name {
				t.Errorf("tensor %q is out of order", e.Name)
			}
			bytesHeld += len(e.Data)
		}
		if bytesHeld > len(content) {
			t.Errorf("%d bytes of data in a file of %d", bytesHeld, len(content))
		}
		var written bytes.Buffer
		if err := Write(&written, first); err != nil {
			t.Fatalf("cannot be written back: %v", err)
		}
		second, err := Read(bytes.NewReader(written.Bytes()))
		if err != nil {
			t.Fatalf("cannot be read back: %v", err)
		}
		diff(t, second, first)
	})
}
