package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
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

// ReadAt reads a file of that size. It takes memory once it knows that the file
// has as much.
func ReadAt(r io.ReaderAt, size int64) (*File, error) {
	opened, err := NewReader(r, size)
	if err != nil {
		return nil, err
	}
	return opened.file()
}

// Read reads a file of unknown size, to the end of r. Memory grows with the
// bytes that come, never with the length that a header announces.
func Read(r io.Reader) (*File, error) {
	opened, err := readStream(r)
	if err != nil {
		return nil, err
	}
	return opened.file()
}

// readStream reads all of a file whose size is not known into memory.
func readStream(r io.Reader) (*Reader, error) {
	h, _, dataBytes, err := readHeader(r, -1)
	if err != nil {
		return nil, err
	}
	data, err := readExactly(r, dataBytes, false)
	if err != nil {
		return nil, fmt.Errorf("reading the data: %w", err)
	}
	if int64(len(data)) < dataBytes {
		return nil, h.cutShort(int64(len(data)))
	}
	var next [1]byte
	switch n, err := io.ReadFull(r, next[:]); {
	case n > 0:
		return nil, goesOn(dataBytes)
	case err != io.EOF:
		return nil, fmt.Errorf("reading the end of the file: %w", err)
	}
	return newReader(h, bytes.NewReader(data), 0), nil
}

// readHeader reads the header of a file of size bytes, or of unknown size where that is
// negative. It returns where the data begins and how long it has to be.
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
	return bad("the file goes on after the last tensor's data, %d bytes", dataBytes)
}

// cutShort names the first tensor whose data is not all there.
func (h *header) cutShort(have int64) error {
	var first *located
	for i := range h.tensors {
		if e := &h.tensors[i]; e.end > have && (first == nil || e.begin < first.begin) {
			first = e
		}
	}
	return badTensor(first.Name, "data_offsets [%d, %d] go beyond the %d bytes of data", first.begin, first.end, have)
}

// readExactly returns n bytes, or fewer where r ends early. All n are allocated
// at once only where they are known to be there.
func readExactly(r io.Reader, n int64, isThere bool) ([]byte, error) {
	if isThere {
		buffer := make([]byte, n)
		got, err := io.ReadFull(r, buffer)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = nil
		}
		return buffer[:got], err
	}
	var buffer bytes.Buffer
	_, err := io.CopyN(&buffer, r, n)
	if err == io.EOF {
		err = nil
	}
	return buffer.Bytes(), err
}
