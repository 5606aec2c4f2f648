package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"tokitai/internal/readfile"
)

// ReadFile reads a file.
func ReadFile(path string) (*File, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f, err := r.file()
	if err != nil {
		return nil, inFile(path, err)
	}
	return f, nil
}

// ReadAt reads a file of the given size. It allocates memory only for bytes that the
// file has.
func ReadAt(r io.ReaderAt, size int64) (*File, error) {
	opened, err := NewReader(r, size)
	if err != nil {
		return nil, err
	}
	return opened.file()
}

// Read reads a file of unknown size, to the end of r. It allocates memory as bytes
// arrive, whatever length the header announces.
func Read(r io.Reader) (*File, error) {
	opened, err := readStream(r)
	if err != nil {
		return nil, err
	}
	return opened.file()
}

// readStream reads all of a file of unknown size into memory.
func readStream(r io.Reader) (*Reader, error) {
	h, _, dataBytes, err := readHeader(r, -1)
	if err != nil {
		return nil, err
	}
	data, err := readfile.UpTo(r, dataBytes)
	if err != nil {
		return nil, fmt.Errorf("reading the data: %w", err)
	}
	if int64(len(data)) < dataBytes {
		return nil, h.cutShort(int64(len(data)))
	}
	if err := readfile.End(r); err == readfile.ErrGoesOn {
		return nil, goesOn(dataBytes)
	} else if err != nil {
		return nil, err
	}
	return newReader(h, bytes.NewReader(data), 0), nil
}

// readHeader reads the header of a file of size bytes; a negative size is unknown. It
// returns the offset and the length of the data.
func readHeader(r io.Reader, size int64) (h *header, dataAt, dataBytes int64, err error) {
	var prefix [8]byte
	if n, err := io.ReadFull(r, prefix[:]); err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, 0, 0, bad("the file ends after %d bytes, within the length of its header", n)
	} else if err != nil {
		return nil, 0, 0, fmt.Errorf("reading the header's length: %w", err)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	switch {
	case length > maxHeader:
		return nil, 0, 0, bad("the header's length is %d bytes, want at most %d", length, maxHeader)
	case size >= 0 && int64(length) > size-8:
		return nil, 0, 0, bad("the header's length is %d bytes, but only %d follow", length, size-8)
	}
	text, err := readExactly(r, int64(length), size >= 0)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("reading the header: %w", err)
	}
	if int64(len(text)) < int64(length) {
		return nil, 0, 0, bad("the header's length is %d bytes, but only %d follow", length, len(text))
	}
	if h, err = parseHeader(text); err != nil {
		return nil, 0, 0, err
	}
	dataBytes, err = h.checkLayout()
	return h, 8 + int64(length), dataBytes, err
}

func goesOn(dataBytes int64) error {
	return bad("the file has extra bytes after the %d bytes of data", dataBytes)
}

// cutShort returns an error for the first tensor whose data is incomplete.
func (h *header) cutShort(have int64) error {
	var first *located
	for i := range h.tensors {
		if e := &h.tensors[i]; e.end > have && (first == nil || e.begin < first.begin) {
			first = e
		}
	}
	return badTensor(first.Name, "data_offsets [%d, %d] go beyond the %d bytes of data", first.begin, first.end, have)
}

// readExactly reads n bytes, or fewer if r ends early. It allocates all of them at
// once only if isThere says that r has them.
func readExactly(r io.Reader, n int64, isThere bool) ([]byte, error) {
	if isThere {
		buffer := make([]byte, n)
		got, err := io.ReadFull(r, buffer)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = nil
		}
		return buffer[:got], err
	}
	return readfile.UpTo(r, n)
}
