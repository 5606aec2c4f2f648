package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// ReadFile reads a file.
func ReadFile(path string) (*File, error) {
	source, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return nil, err
	}
	var f *File
	if info.Mode().IsRegular() {
		f, err = ReadAt(source, info.Size())
	} else {
		f, err = Read(source)
	}
	if err != nil {
		return nil, inFile(path, err)
	}
	return f, nil
}

// ReadAt reads a file of that size. It takes memory once it knows that the file
// has as much.
func ReadAt(r io.ReaderAt, size int64) (*File, error) {
	return read(io.NewSectionReader(r, 0, max(size, 0)), max(size, 0))
}

// Read reads a file of unknown size, to the end of r. Memory grows with the
// bytes that come, never with the length that a header announces.
func Read(r io.Reader) (*File, error) { return read(r, -1) }

// read reads a file of size bytes, or of unknown size where that is negative.
func read(r io.Reader, size int64) (*File, error) {
	var prefix [8]byte
	if n, err := io.ReadFull(r, prefix[:]); err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, bad("the file ends after %d bytes, within the length of its header", n)
	} else if err != nil {
		return nil, fmt.Errorf("reading the header's length: %w", err)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	switch {
	case length > maxHeader:
		return nil, bad("the header's length is %d bytes, want at most %d", length, maxHeader)
	case size >= 0 && int64(length) > size-8:
		return nil, bad("the header's length is %d bytes, but only %d follow", length, size-8)
	}
	text, err := readExactly(r, int64(length), size >= 0)
	if err != nil {
		return nil, fmt.Errorf("reading the header: %w", err)
	}
	if int64(len(text)) < int64(length) {
		return nil, bad("the header's length is %d bytes, but only %d follow", length, len(text))
	}
	h, err := parseHeader(text)
	if err != nil {
		return nil, err
	}
	dataLength, err := h.checkLayout()
	if err != nil {
		return nil, err
	}
	if left := size - 8 - int64(length); size >= 0 && dataLength > left {
		return nil, h.cutShort(left)
	}
	data, err := readExactly(r, dataLength, size >= 0)
	if err != nil {
		return nil, fmt.Errorf("reading the data: %w", err)
	}
	if int64(len(data)) < dataLength {
		return nil, h.cutShort(int64(len(data)))
	}
	switch n, err := io.ReadFull(r, prefix[:1]); {
	case n > 0:
		return nil, bad("the file goes on after the last tensor's data, %d bytes", dataLength)
	case err != io.EOF:
		return nil, fmt.Errorf("reading the end of the file: %w", err)
	}
	return h.file(data), nil
}

// cutShort names the first tensor whose data is not all there.
func (h *header) cutShort(have int64) error {
	var first *located
	for i := range h.entries {
		if e := &h.entries[i]; e.end > have && (first == nil || e.begin < first.begin) {
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
