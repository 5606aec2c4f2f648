package huggingface

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"tokitai/device"
	"tokitai/model"
	"tokitai/num"
	"tokitai/tensor"
)

// Weights are the weights of a program on a device, by their names.
type Weights struct {
	Tensors map[string]*tensor.Tensor
	Mapped  int64 // bytes that are the files' own
	Copied  int64 // bytes that were put together, converted or brought to the device

	buffers  []device.Buffer
	mappings map[*os.File]*mapping
}

// mapping is a file in memory. Pages that are written to become the process's own.
type mapping struct {
	memory []byte
	buffer device.Buffer // nil where the device cannot use the memory
	info   os.FileInfo   // of the file when it was mapped
}

// ErrChanged is the error of weights whose files are no longer what they were.
var ErrChanged = errors.New("the file has changed since it was loaded")

// adopter is a device that can use memory of the host.
type adopter interface {
	Adopt(memory []byte) (device.Buffer, error)
}

// Load brings the weights to a device, in the format that Config.Storage of the folder names: tensors of another one
// are converted, rounded once. On the CPU, a tensor that a file has as the program wants it stays in the
// file: it is mapped into memory, and read when it is needed, so that files must not be changed or cut while the weights
// are in use. The caller closes the result, before the folder.
func (f *Folder) Load(dev device.Device) (*Weights, error) {
	w := &Weights{Tensors: map[string]*tensor.Tensor{}, mappings: map[*os.File]*mapping{}}
	for _, v := range f.Weights {
		t, err := w.load(f, dev, v)
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("%s: %w", v.Name, err)
		}
		w.Tensors[v.Name] = t
	}
	return w, nil
}

// Close frees the memory.
func (w *Weights) Close() error {
	if w == nil {
		return nil
	}
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	for _, t := range w.Tensors {
		note(t.Close())
	}
	for _, b := range w.buffers {
		note(b.Close())
	}
	for _, m := range w.mappings {
		note(unmapFile(m.memory))
	}
	w.Tensors, w.buffers, w.mappings = nil, nil, nil
	return first
}

// Unchanged returns an error if a mapped file has been written to or truncated since it was read: the weights in memory may
// have changed with it. Removing a file, or putting another one in its place, changes nothing in memory.
func (w *Weights) Unchanged() error {
	for f, m := range w.mappings {
		now, err := f.Stat()
		if err != nil {
			return err
		}
		if now.Size() != m.info.Size() || !now.ModTime().Equal(m.info.ModTime()) {
			return fmt.Errorf("%s: %w", f.Name(), ErrChanged)
		}
	}
	return nil
}

func (w *Weights) load(f *Folder, dev device.Device, v *model.Value) (*tensor.Tensor, error) {
	if parts := f.scalesOf(v); parts != nil {
		raw, err := f.joinedScales(v, parts)
		if err != nil {
			return nil, err
		}
		w.Copied += int64(len(raw))
		return tensor.FromBytes(dev, v.DType, raw, v.Shape...)
	}
	pieces := f.layout.pieces(v)
	if len(pieces) == 1 && pieces[0].isWhole() {
		if t, err := w.mapped(f, dev, v, pieces[0].tensor); t != nil || err != nil {
			return t, err
		}
	}
	raw, err := f.assemble(v, pieces)
	if err != nil {
		return nil, err
	}
	w.Copied += int64(len(raw))
	return tensor.FromBytes(dev, v.DType, raw, v.Shape...)
}

// mapped returns a tensor in the memory of a file; nil if the device cannot use it, or the file has another format or
// alignment.
func (w *Weights) mapped(f *Folder, dev device.Device, v *model.Value, name string) (*tensor.Tensor, error) {
	info, err := f.info(name)
	if err != nil {
		return nil, err
	}
	host, ok := dev.(adopter)
	if !ok || info.Storage() != v.DType || v.Len() == 0 {
		return nil, nil
	}
	data, err := f.set.Data(name)
	if err != nil {
		return nil, err
	}
	source, at, n := data.Outer()
	from, isFile := source.(*os.File)
	if !isFile || at%int64(v.DType.Size()) != 0 || n != v.Bytes() {
		return nil, nil
	}
	m := w.mappings[from]
	if m == nil {
		m = &mapping{}
		if m.info, err = from.Stat(); err != nil {
			return nil, err
		}
		if m.memory, err = mapFile(from); err != nil || m.memory == nil {
			return nil, err
		}
		w.mappings[from] = m
		if m.buffer, err = host.Adopt(m.memory); err != nil {
			return nil, err
		}
		w.buffers = append(w.buffers, m.buffer)
	}
	if at+n > int64(len(m.memory)) {
		return nil, fmt.Errorf("%s became shorter while it was read", from.Name())
	}
	t, err := tensor.At(m.buffer, at, v.DType, v.Shape[len(v.Shape)-1], v.Shape...)
	if err == nil {
		w.Mapped += n
	}
	return t, err
}

// Bytes returns a weight in the format of the folder's configuration, as memory of its own.
func (f *Folder) Bytes(w *model.Value) ([]byte, error) { return f.assemble(w, f.layout.pieces(w)) }

// assemble puts a weight together.
func (f *Folder) assemble(w *model.Value, pieces []piece) ([]byte, error) {
	size := w.DType.Size()
	result := make([]byte, 0, w.Bytes())
	var last string
	var data []byte
	for _, p := range pieces {
		if p.tensor != last {
			info, err := f.info(p.tensor)
			if err != nil {
				return nil, err
			}
			if data, err = f.read(p.tensor); err != nil {
				return nil, err
			}
			if data, err = convert(w.DType, info.Storage(), data); err != nil {
				return nil, fmt.Errorf("tensor %q: %w", p.tensor, err)
			}
			last = p.tensor
		}
		if p.isTransposed {
			for c := p.cols[0]; c < p.cols[1]; c++ {
				for r := p.rows[0]; r < p.rows[1]; r++ {
					at := (r*p.width + c) * size
					result = append(result, data[at:at+size]...)
				}
			}
			continue
		}
		for r := p.rows[0]; r < p.rows[1]; r++ {
			result = append(result, data[(r*p.width+p.cols[0])*size:(r*p.width+p.cols[1])*size]...)
		}
	}
	if int64(len(result)) != w.Bytes() {
		return nil, fmt.Errorf("%d bytes in the files, want %d", len(result), w.Bytes())
	}
	return result, nil
}

// read reads the data of a tensor.
func (f *Folder) read(name string) ([]byte, error) {
	data, err := f.set.Data(name)
	if err != nil {
		return nil, err
	}
	raw := make([]byte, data.Size())
	if _, err := io.ReadFull(data, raw); err != nil {
		return nil, fmt.Errorf("%s: tensor %q: %w", f.set.Path(), name, err)
	}
	return raw, nil
}

// same reports whether two tensors have the same bytes.
func (f *Folder) same(a, b string) (bool, error) {
	x, err := f.read(a)
	if err != nil || !f.set.Has(b) {
		return true, err // what is missing is named elsewhere
	}
	y, err := f.read(b)
	return bytes.Equal(x, y), err
}

// convert returns data in another format, each element rounded once. It refuses numbers that are too large for it.
func convert(to, from num.DType, data []byte) ([]byte, error) {
	if to == from {
		return data, nil
	}
	n := len(data) / from.Size()
	a, b := num.Array{DType: from, Rows: 1, Cols: n, Stride: n, Data: data}, num.NewArray(to, 1, n)
	for i := range n {
		x := a.At(0, i)
		if b.Set(0, i, x); math.IsInf(float64(b.At(0, i)), 0) && !math.IsInf(float64(x), 0) {
			return nil, fmt.Errorf("element %d is %v, which is too large for %v, the dtype of config.json", i, x, to)
		}
	}
	return b.Data, nil
}
