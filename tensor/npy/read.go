package npy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"tokitai/internal/readfile"
)

const magic = "\x93NUMPY"

// maxHeader is the maximum length of a header, far more than any array needs.
const maxHeader = 1 << 20

// Reader reads an array whose header has been read.
type Reader struct {
	path    string // empty if there is none
	info    Info
	data    *io.SectionReader
	closing io.Closer // nil if there is nothing to close
}

// ReadFile reads a file of any supported dtype but '<i8', for which there is Open.
func ReadFile(path string) (Array, error) {
	r, err := Open(path)
	if err != nil {
		return Array{}, err
	}
	defer r.Close()
	return r.array()
}

// Read reads a file of unknown size, to the end of r. It allocates memory as bytes
// arrive, whatever size the header announces.
func Read(r io.Reader) (Array, error) {
	opened, err := readStream(r)
	if err != nil {
		return Array{}, err
	}
	return opened.array()
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
	h, length, err := readHeader(io.NewSectionReader(source, 0, size))
	if err != nil {
		return nil, err
	}
	want, _ := h.byteCount()
	switch have := size - length; {
	case have < want:
		return nil, h.cutShort(have)
	case have > want:
		return nil, h.goesOn()
	}
	return &Reader{info: h.Info, data: io.NewSectionReader(source, length, want)}, nil
}

// readStream reads all of a file of unknown size into memory.
func readStream(source io.Reader) (*Reader, error) {
	h, _, err := readHeader(source)
	if err != nil {
		return nil, err
	}
	want, _ := h.byteCount()
	data, err := readfile.UpTo(source, want)
	if err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	if have := int64(len(data)); have < want {
		return nil, h.cutShort(have)
	}
	if err := readfile.End(source); err == readfile.ErrGoesOn {
		return nil, h.goesOn()
	} else if err != nil {
		return nil, err
	}
	return &Reader{info: h.Info, data: io.NewSectionReader(bytes.NewReader(data), 0, want)}, nil
}

// readHeader reads the header and returns it with the offset of the data.
func readHeader(source io.Reader) (*header, int64, error) {
	start := make([]byte, len(magic)+2)
	n, err := io.ReadFull(source, start)
	switch {
	case !bytes.HasPrefix([]byte(magic), start[:min(n, len(magic))]):
		return nil, 0, bad("not a .npy file: it does not begin with \\x93NUMPY")
	case err != nil:
		return nil, 0, cutHeader(err)
	}
	lengthBytes := 4
	switch major, minor := start[6], start[7]; {
	case major == 1 && minor == 0:
		lengthBytes = 2
	case major != 2 && major != 3 || minor != 0:
		return nil, 0, bad("unknown format version %d.%d, want 1.0, 2.0 or 3.0", major, minor)
	}
	var word [4]byte
	if _, err := io.ReadFull(source, word[:lengthBytes]); err != nil {
		return nil, 0, cutHeader(err)
	}
	length := int64(binary.LittleEndian.Uint32(word[:]))
	if length > maxHeader {
		return nil, 0, bad("the header's length is %d bytes, want at most %d", length, maxHeader)
	}
	text, err := readfile.UpTo(source, length)
	if err != nil {
		return nil, 0, fmt.Errorf("reading: %w", err)
	}
	if int64(len(text)) < length {
		return nil, 0, bad("the header's length is %d bytes, but only %d follow", length, len(text))
	}
	h, err := parseHeader(text)
	return h, int64(len(start)+lengthBytes) + length, err
}

func cutHeader(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return bad("the file ends within its header")
	}
	return fmt.Errorf("reading the header: %w", err)
}

func (i Info) cutShort(have int64) error {
	want, _ := i.byteCount()
	return bad("shape %v of '%s' needs %d bytes of data, but the file has %d", i.Shape, i.Descr, want, have)
}

func (i Info) goesOn() error {
	want, _ := i.byteCount()
	return bad("the file has extra bytes after the %d bytes of shape %v of '%s'", want, i.Shape, i.Descr)
}

// Info describes the array.
func (r *Reader) Info() Info { return r.info }

// Close closes the file.
func (r *Reader) Close() error {
	if r.closing == nil {
		return nil
	}
	return r.closing.Close()
}

// Data returns a reader of the data.
func (r *Reader) Data() *io.SectionReader {
	return io.NewSectionReader(r.data, 0, r.data.Size())
}

// Bytes reads the data.
func (r *Reader) Bytes() ([]byte, error) {
	data := make([]byte, r.data.Size())
	n, err := io.ReadFull(r.Data(), data)
	switch {
	case err == nil || len(data) == 0:
		return data, nil
	case err == io.EOF || err == io.ErrUnexpectedEOF: // the file was truncated after it was opened
		err = r.info.cutShort(int64(n))
	default:
		err = fmt.Errorf("reading the data: %w", err)
	}
	if r.path != "" {
		err = inFile(r.path, err)
	}
	return nil, err
}

func (r *Reader) array() (Array, error) {
	data, err := r.Bytes()
	if err != nil {
		return Array{}, err
	}
	return Array{DType: r.info.Storage(), Shape: r.info.Shape, Data: data}, nil
}
