// Package tensorboard writes scalars as event files, which TensorBoard shows.
//
// A file is a row of records: the length of the data (uint64), its checksum, the data, and their checksum, all
// little-endian. A checksum is CRC-32C, rotated right by 15 bits, plus 0xa282ead8. The data are an Event of
// protocol buffers:
//
//	Event    1 wall_time double, 2 step int64, 3 file_version string, 5 summary Summary
//	Summary  1 value Value, repeated
//	Value    1 tag string, 2 simple_value float
//
// The first event has the version alone. The package does not know what the scalars are. Start with Create.
package tensorboard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Scalar is a number with the tag under which it is shown.
type Scalar struct {
	Tag   string
	Value float32
}

// Writer writes one event file. After the first error it writes nothing more, and Close returns that error.
type Writer struct {
	file *os.File
	err  error
}

// Create begins a file in a folder, which it makes. Files that are there stay: TensorBoard shows all of a folder as one run.
func Create(folder string, now time.Time) (*Writer, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("events.out.tfevents.%010d.%09d.tokitai", now.Unix(), now.Nanosecond())
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: file}
	w.record(appendText(wallTime(now), 3, "brain.Event:2"))
	return w, w.err
}

// Write writes the scalars of a step as one event.
func (w *Writer) Write(step int, now time.Time, scalars ...Scalar) {
	var summary []byte
	for _, s := range scalars {
		value := appendText(nil, 1, s.Tag)
		value = binary.LittleEndian.AppendUint32(append(value, key(2, fixed32)), math.Float32bits(s.Value))
		summary = appendText(summary, 1, string(value))
	}
	event := binary.AppendUvarint(append(wallTime(now), key(2, varint)), uint64(step))
	w.record(appendText(event, 5, string(summary)))
}

// Close closes the file, and returns the first error.
func (w *Writer) Close() error {
	if err := w.file.Close(); w.err == nil {
		w.err = err
	}
	return w.err
}

// How the values of protocol buffers are stored.
const (
	varint  = 0
	fixed64 = 1
	sized   = 2
	fixed32 = 5
)

// key returns what stands in front of a field. Fields up to 15 have one byte.
func key(field, kind byte) byte { return field<<3 | kind }

// appendText appends a field of text, or of a message.
func appendText(to []byte, field byte, text string) []byte {
	return append(binary.AppendUvarint(append(to, key(field, sized)), uint64(len(text))), text...)
}

// wallTime returns the beginning of an event.
func wallTime(now time.Time) []byte {
	seconds := float64(now.UnixMicro()) / 1e6
	return binary.LittleEndian.AppendUint64([]byte{key(1, fixed64)}, math.Float64bits(seconds))
}

// record writes an event with its frame.
func (w *Writer) record(event []byte) {
	if w.err != nil {
		return
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(event)))
	b = binary.LittleEndian.AppendUint32(b, checksum(b))
	b = append(b, event...)
	b = binary.LittleEndian.AppendUint32(b, checksum(event))
	_, w.err = w.file.Write(b)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
