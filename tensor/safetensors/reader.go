package safetensors

import (
	"io"
	"slices"
	"strings"
	"tokitai/internal/readfile"
)

// Reader reads the tensors of a file one by one. The file may also have tensors of
// unsupported dtypes.
type Reader struct {
	path    string // empty if there is none
	header  *header
	source  io.ReaderAt
	dataAt  int64
	closing io.Closer // nil if there is nothing to close
}

// Open opens a file and reads its header. If it is not a regular file, such as a pipe,
// Open reads all of it.
func Open(path string) (*Reader, error) {
	r, file, err := readfile.Format[*Reader]{At: NewReader, Stream: readStream, InFile: inFile}.Open(path)
	if err != nil {
		return nil, err
	}
	r.path, r.closing = path, file
	return r, nil
}

// NewReader reads the header of a file of the given size.
func NewReader(source io.ReaderAt, size int64) (*Reader, error) {
	size = max(size, 0)
	h, dataAt, dataBytes, err := readHeader(io.NewSectionReader(source, 0, size), size)
	if err != nil {
		return nil, err
	}
	switch have := size - dataAt; {
	case have < dataBytes:
		return nil, h.cutShort(have)
	case have > dataBytes:
		return nil, goesOn(dataBytes)
	}
	return newReader(h, source, dataAt), nil
}

func newReader(h *header, source io.ReaderAt, dataAt int64) *Reader {
	slices.SortFunc(h.tensors, func(a, b located) int { return strings.Compare(a.Name, b.Name) })
	return &Reader{header: h, source: source, dataAt: dataAt}
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.closing == nil {
		return nil
	}
	return r.closing.Close()
}

// Names returns the sorted names of all tensors.
func (r *Reader) Names() []string {
	names := make([]string, len(r.header.tensors))
	for i := range names {
		names[i] = r.header.tensors[i].Name
	}
	return names
}

// Info describes a tensor.
func (r *Reader) Info(name string) (Info, error) {
	e, err := r.find(name)
	if err != nil {
		return Info{}, err
	}
	return e.Info, nil
}

// Bytes reads the data of a tensor, and nothing else of the file.
func (r *Reader) Bytes(name string) ([]byte, error) {
	e, err := r.find(name)
	if err != nil {
		return nil, err
	}
	data, err := r.bytes(e)
	if err != nil {
		return nil, inFile(r.path, err)
	}
	return data, nil
}

// Data returns a reader of a tensor's data, for one too large to read at once.
func (r *Reader) Data(name string) (*io.SectionReader, error) {
	e, err := r.find(name)
	if err != nil {
		return nil, err
	}
	return r.data(e), nil
}

func (r *Reader) data(e *located) *io.SectionReader {
	return io.NewSectionReader(r.source, r.dataAt+e.begin, e.end-e.begin)
}

func (r *Reader) find(name string) (*located, error) {
	i, ok := slices.BinarySearchFunc(r.header.tensors, name, func(e located, name string) int { return strings.Compare(e.Name, name) })
	if !ok {
		return nil, inFile(r.path, badTensor(name, "not found"))
	}
	return &r.header.tensors[i], nil
}

func (r *Reader) bytes(e *located) ([]byte, error) {
	data, err := readExactly(r.data(e), e.end-e.begin, true)
	if err == nil && int64(len(data)) < e.end-e.begin { // the file was truncated after it was opened
		err = badTensor(e.Name, "data_offsets [%d, %d] go beyond the data", e.begin, e.end)
	}
	return data, err
}

// file reads all tensors.
func (r *Reader) file() (*File, error) {
	f := &File{Metadata: r.header.metadata}
	for i := range r.header.tensors {
		e, err := r.header.tensors[i].entry()
		if err != nil {
			return nil, err
		}
		f.Entries = append(f.Entries, e)
	}
	for i := range f.Entries {
		data, err := r.bytes(&r.header.tensors[i])
		if err != nil {
			return nil, err
		}
		f.Entries[i].Data = data
	}
	return f, nil
}
