package tkp1

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// Magic begins every file.
const Magic = "TKP1"

const version = 1

// File is the content of a file.
type File struct {
	Step       uint32
	Config     []byte // JSON
	Parameters []Parameter
}

// Parameter is a weight with its moments.
type Parameter struct {
	Name         string
	Weight, M, V []float32 // equally long
	Step         uint32
	Grad         []float32 // nil for none
}

// FormatError reports a file that is no TKP1 file, or not a whole one.
type FormatError struct {
	Offset  int // of the first byte of what is wrong
	Problem string
}

func (e *FormatError) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Problem) }

// decoder reads a file from the front. After the first error it reads nothing more.
type decoder struct {
	from io.Reader
	size int // of the file, in bytes
	at   int
	err  error // of the file's content, or of reading it
}

func (d *decoder) fail(at int, format string, args ...any) {
	if d.err == nil {
		d.err = &FormatError{at, fmt.Sprintf(format, args...)}
	}
}

// has reports whether there are n more bytes, for what is named.
func (d *decoder) has(n int, what string) bool {
	if d.err == nil && n > d.size-d.at {
		d.fail(d.at, "%s needs %d bytes, and the file has %d more", what, n, d.size-d.at)
	}
	return d.err == nil
}

// fill reads as many bytes as b has, which there are.
func (d *decoder) fill(b []byte) bool {
	if _, err := io.ReadFull(d.from, b); err != nil {
		d.err = fmt.Errorf("byte %d: %w", d.at, err)
		return false
	}
	d.at += len(b)
	return true
}

// bytes returns the next n bytes of what is named.
func (d *decoder) bytes(n int, what string) []byte {
	if !d.has(n, what) {
		return nil
	}
	b := make([]byte, n)
	if !d.fill(b) {
		return nil
	}
	return b
}

func (d *decoder) number(what string) uint32 {
	if b := d.bytes(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) sized(what string) []byte {
	return d.bytes(int(d.number("the length of "+what)), what)
}

// floats returns n numbers of what is named.
func (d *decoder) floats(n int, what string) []float32 {
	if !d.has(4*n, what) {
		return nil
	}
	list, some := make([]float32, n), make([]byte, min(4*n, 1<<16))
	for rest := list; len(rest) > 0; {
		b := some[:min(len(some), 4*len(rest))]
		if !d.fill(b) {
			return nil
		}
		for i := range len(b) / 4 {
			rest[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		rest = rest[len(b)/4:]
	}
	return list
}

// tensor returns a tensor of want elements; any number if that is negative.
func (d *decoder) tensor(what string, want int) []float32 {
	at := d.at
	n := int(d.number("the length of " + what))
	if want >= 0 && n != want {
		d.fail(at, "%s has %d elements, want %d as the weight", what, n, want)
	}
	return d.floats(n, what)
}

// Parse reads the content of a file. The error is a *FormatError.
func Parse(text []byte) (*File, error) { return Read(bytes.NewReader(text), len(text)) }

// Read reads a file of so many bytes. The error is a *FormatError, or one of r.
func Read(r io.Reader, size int) (*File, error) {
	d := &decoder{from: r, size: size}
	if magic := d.bytes(len(Magic), "the beginning"); d.err == nil && string(magic) != Magic {
		d.fail(0, "it begins with %q, want %q", magic, Magic)
	}
	if v := d.number("the version"); d.err == nil && v != version {
		d.fail(4, "the version is %d, want %d", v, version)
	}
	f := &File{Step: d.number("the step")}
	n := d.number("the number of parameters")
	at := d.at
	if f.Config = d.sized("the configuration"); d.err == nil && !json.Valid(f.Config) {
		d.fail(at+4, "the configuration is no JSON")
	}
	for i := uint32(0); i < n && d.err == nil; i++ {
		f.Parameters = append(f.Parameters, d.parameter(i))
	}
	if d.err == nil && d.at < size {
		d.fail(d.at, "%d bytes behind the last parameter", size-d.at)
	}
	if d.err != nil {
		return nil, d.err
	}
	return f, nil
}

func (d *decoder) parameter(i uint32) Parameter {
	p := Parameter{Name: string(d.sized(fmt.Sprintf("the name of parameter %d", i)))}
	p.Weight = d.tensor(p.Name, -1)
	p.M, p.V = d.tensor("m of "+p.Name, len(p.Weight)), d.tensor("v of "+p.Name, len(p.Weight))
	p.Step = d.number("the step of " + p.Name)
	at := d.at
	switch flag := d.bytes(1, "has_grad of "+p.Name); {
	case d.err != nil:
	case flag[0] == 1:
		p.Grad = d.floats(len(p.Weight), "the gradient of "+p.Name)
	case flag[0] != 0:
		d.fail(at, "has_grad of %s is %d, want 0 or 1", p.Name, flag[0])
	}
	return p
}

// Write writes the content of a file.
func (f *File) Write(w io.Writer) error {
	var b bytes.Buffer
	numbers := func(list ...uint32) { binary.Write(&b, binary.LittleEndian, list) }
	sized := func(text string) {
		numbers(uint32(len(text)))
		b.WriteString(text)
	}
	b.WriteString(Magic)
	numbers(version, f.Step, uint32(len(f.Parameters)))
	sized(string(f.Config))
	for i := range f.Parameters {
		p := &f.Parameters[i]
		sized(p.Name)
		for _, list := range [][]float32{p.Weight, p.M, p.V} {
			numbers(uint32(len(list)))
			binary.Write(&b, binary.LittleEndian, list)
		}
		numbers(p.Step)
		b.WriteByte(byte(min(1, len(p.Grad))))
		binary.Write(&b, binary.LittleEndian, p.Grad)
		if _, err := b.WriteTo(w); err != nil {
			return err
		}
	}
	_, err := b.WriteTo(w)
	return err
}
