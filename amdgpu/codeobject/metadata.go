package codeobject

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Argument is an argument of a kernel, in the memory that its arguments are passed in.
type Argument struct {
	Kind   string // the metadata's value_kind: "by_value", "global_buffer", "hidden_block_count_x"
	Offset int
	Bytes  int
}

// IsHidden reports whether the runtime provides the argument, not the caller.
func (a *Argument) IsHidden() bool { return strings.HasPrefix(a.Kind, "hidden_") }

// ExplicitBytes returns the size of what a caller passes.
func (k *Kernel) ExplicitBytes() int {
	end := 0
	for i := range k.Arguments {
		if a := &k.Arguments[i]; !a.IsHidden() {
			end = max(end, a.Offset+a.Bytes)
		}
	}
	return end
}

// metadata is what a code object says of a kernel besides its descriptor.
type metadata struct {
	name, symbol                                 string
	groupBytes, privateBytes, kernargBytes, wave int
	maxThreads                                   int
	arguments                                    []Argument
}

// noteMetadata is the type of the note that holds the metadata.
const noteMetadata = 32

// maxBytes limits sizes in metadata, far above any real one.
const maxBytes = 1 << 30

func (o *Object) readMetadata() ([]metadata, error) {
	var text []byte
	for _, p := range o.file.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		data, err := readAll(p.Open(), p.Filesz)
		if err != nil {
			return nil, err
		}
		found, err := findNote(data)
		switch {
		case err != nil:
			return nil, err
		case found != nil && text != nil:
			return nil, errors.New("there is more than one")
		case found != nil:
			text = found
		}
	}
	if text == nil {
		return nil, errors.New("no note AMDGPU of type NT_AMDGPU_METADATA")
	}
	value, err := decode(text)
	if err != nil {
		return nil, err
	}
	root, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("got a %T, want a map", value)
	}
	target, err := field[string](root, "amdhsa.target")
	if err != nil {
		return nil, err
	}
	if name, _, _ := strings.Cut(strings.TrimPrefix(target, "amdgcn-amd-amdhsa--"), ":"); name != o.Architecture {
		return nil, fmt.Errorf("amdhsa.target is %q, want the architecture of the file's header, %s", target, o.Architecture)
	}
	kernels, err := field[[]any](root, "amdhsa.kernels")
	if err != nil {
		return nil, err
	}
	var list []metadata
	for i, value := range kernels {
		k, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("kernel %d: got a %T, want a map", i, value)
		}
		m, err := parseKernel(k)
		if err != nil {
			return nil, fmt.Errorf("kernel %d: %w", i, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// findNote returns the content of the note with the metadata, or nil.
func findNote(data []byte) ([]byte, error) {
	for len(data) > 0 {
		if len(data) < 12 {
			return nil, errors.New("a note ends early")
		}
		name, size, kind := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:]), binary.LittleEndian.Uint32(data[8:])
		data = data[12:]
		nameEnd, contentEnd := (uint64(name)+3)&^3, (uint64(size)+3)&^3
		if nameEnd+contentEnd > uint64(len(data)) {
			return nil, errors.New("a note ends early")
		}
		if kind == noteMetadata && string(data[:name]) == "AMDGPU\x00" {
			return data[nameEnd : nameEnd+uint64(size)], nil
		}
		data = data[nameEnd+contentEnd:]
	}
	return nil, nil
}

func field[T any](m map[string]any, key string) (T, error) {
	v, ok := m[key].(T)
	if !ok {
		if m[key] == nil {
			return v, fmt.Errorf("no %s", key)
		}
		return v, fmt.Errorf("%s: got a %T, want a %T", key, m[key], v)
	}
	return v, nil
}

// size returns a field that is a number of bytes or of threads.
func size(m map[string]any, key string) (int, error) {
	v, err := field[int64](m, key)
	if err == nil && (v < 0 || v > maxBytes) {
		err = fmt.Errorf("%s: got %d, want a number from 0 to %d", key, v, maxBytes)
	}
	return int(v), err
}

func parseKernel(k map[string]any) (m metadata, err error) {
	if m.name, err = field[string](k, ".name"); err != nil {
		return m, err
	}
	if m.symbol, err = field[string](k, ".symbol"); err != nil {
		return m, err
	}
	for _, f := range []struct {
		key string
		to  *int
	}{
		{".group_segment_fixed_size", &m.groupBytes}, {".private_segment_fixed_size", &m.privateBytes},
		{".kernarg_segment_size", &m.kernargBytes}, {".wavefront_size", &m.wave},
	} {
		if *f.to, err = size(k, f.key); err != nil {
			return m, err
		}
	}
	if k[".max_flat_workgroup_size"] != nil {
		if m.maxThreads, err = size(k, ".max_flat_workgroup_size"); err != nil {
			return m, err
		}
	}
	if k[".args"] == nil {
		return m, nil
	}
	list, err := field[[]any](k, ".args")
	if err != nil {
		return m, err
	}
	for i, value := range list {
		fields, ok := value.(map[string]any)
		if !ok {
			return m, fmt.Errorf("argument %d: got a %T, want a map", i, value)
		}
		a, err := parseArgument(fields)
		if err != nil {
			return m, fmt.Errorf("argument %d: %w", i, err)
		}
		if a.Offset+a.Bytes > m.kernargBytes {
			return m, fmt.Errorf("argument %d: ends at byte %d of %d", i, a.Offset+a.Bytes, m.kernargBytes)
		}
		m.arguments = append(m.arguments, a)
	}
	return m, nil
}

func parseArgument(fields map[string]any) (a Argument, err error) {
	if a.Kind, err = field[string](fields, ".value_kind"); err != nil {
		return a, err
	}
	if a.Offset, err = size(fields, ".offset"); err != nil {
		return a, err
	}
	a.Bytes, err = size(fields, ".size")
	return a, err
}

// check compares the metadata with the descriptor.
func (m *metadata) check(d *Descriptor) error {
	wave := 64
	if d.IsWave32 {
		wave = 32
	}
	for _, f := range []struct {
		what               string
		metadata, hardware int
	}{
		{"bytes of LDS", m.groupBytes, int(d.GroupBytes)},
		{"bytes of private memory", m.privateBytes, int(d.PrivateBytes)},
		{"bytes of arguments", m.kernargBytes, int(d.KernargBytes)},
		{"lanes of a wave", m.wave, wave},
	} {
		if f.metadata != f.hardware {
			return fmt.Errorf("its metadata says %d %s, its descriptor %d", f.metadata, f.what, f.hardware)
		}
	}
	return nil
}
