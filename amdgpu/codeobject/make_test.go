package codeobject

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
)

// made describes a code object with one kernel, for tests to break. Its parts lie one after
// another: header, program headers, notes, symbols, strings, descriptor, code, section headers.
type made struct {
	flags, abiVersion uint32
	machine, kind     uint16
	metadata          map[string]any
	kernel            map[string]any
	descriptor        []byte
	code              []byte
	codeSize          uint64 // of the function's symbol
	symbols           [2]string
	programs          func([][7]uint64) [][7]uint64 // type, flags, offset, address, file bytes, memory bytes, alignment
	relocations       []byte
}

func newMade() *made {
	descriptor := make([]byte, DescriptorBytes)
	binary.LittleEndian.PutUint32(descriptor[8:], 328)
	binary.LittleEndian.PutUint32(descriptor[48:], 7|3<<18|3<<16|1<<21|1<<23)
	binary.LittleEndian.PutUint32(descriptor[52:], 15<<1|1<<7)
	binary.LittleEndian.PutUint16(descriptor[56:], 1<<3|1<<10)
	argument := func(kind string, offset, bytes int) any {
		return map[string]any{".value_kind": kind, ".offset": offset, ".size": bytes}
	}
	kernel := map[string]any{
		".name": "double", ".symbol": "double.kd", ".kernarg_segment_size": 328, ".group_segment_fixed_size": 0,
		".private_segment_fixed_size": 0, ".wavefront_size": 32, ".max_flat_workgroup_size": 256,
		".args": []any{argument("by_value", 0, 72), argument("hidden_block_count_x", 72, 4)},
	}
	return &made{
		flags: 0x41, abiVersion: 4, machine: machineAMDGPU, kind: 3, kernel: kernel, descriptor: descriptor,
		metadata: map[string]any{"amdhsa.target": "amdgcn-amd-amdhsa--gfx1100", "amdhsa.version": []any{1, 2}, "amdhsa.kernels": []any{kernel}},
		code:     []byte{0, 0, 0xb0, 0xbf}, codeSize: 4, symbols: [2]string{"double", "double.kd"},
	}
}

// pack encodes a value as MessagePack.
func pack(v any) []byte {
	switch v := v.(type) {
	case nil:
		return []byte{0xc0}
	case int:
		return binary.BigEndian.AppendUint32([]byte{0xce}, uint32(v))
	case string:
		return append([]byte{0xd9, byte(len(v))}, v...)
	case []any:
		b := []byte{0xdc, byte(len(v) >> 8), byte(len(v))}
		for _, e := range v {
			b = append(b, pack(e)...)
		}
		return b
	case map[string]any:
		b := []byte{0xde, byte(len(v) >> 8), byte(len(v))}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			b = append(append(b, pack(k)...), pack(v[k])...)
		}
		return b
	case []byte:
		return v // packed already
	}
	panic("cannot pack")
}

// build returns the file.
func (m *made) build() []byte {
	content := pack(m.metadata)
	note := binary.LittleEndian.AppendUint32(nil, 7)
	note = binary.LittleEndian.AppendUint32(note, uint32(len(content)))
	note = binary.LittleEndian.AppendUint32(note, noteMetadata)
	note = append(append(note, "AMDGPU\x00\x00"...), content...)
	note = append(note, make([]byte, -len(note)&3)...)
	strings := []byte("\x00" + m.symbols[0] + "\x00" + m.symbols[1] + "\x00")

	// The offsets of parts are their addresses.
	const headerBytes, programBytes, sectionBytes, symbolBytes = 64, 56, 64, 24
	const programs = 3
	align := func(n, to int) int { return (n + to - 1) / to * to }
	noteAt := headerBytes + programs*programBytes
	symbolsAt := align(noteAt+len(note), 8)
	stringsAt := symbolsAt + 3*symbolBytes
	descriptorAt := align(stringsAt+len(strings), 64)
	codeAt := align(descriptorAt+DescriptorBytes, 256)
	relocationsAt := align(codeAt+len(m.code), 8)
	sectionsAt := align(relocationsAt+len(m.relocations), 8)
	if binary.LittleEndian.Uint64(m.descriptor[16:]) == 0 {
		binary.LittleEndian.PutUint64(m.descriptor[16:], uint64(codeAt-descriptorAt))
	}

	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			binary.Write(&b, binary.LittleEndian, v)
		}
	}
	pad := func(to int) { b.Write(make([]byte, max(0, to-b.Len()))) }
	put([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1, osABIHSA, byte(m.abiVersion), 0, 0, 0, 0, 0, 0, 0}, m.kind, m.machine, uint32(1), uint64(0),
		uint64(headerBytes), uint64(sectionsAt), m.flags, uint16(headerBytes), uint16(programBytes), uint16(programs),
		uint16(sectionBytes), uint16(5), uint16(3))
	list := [][7]uint64{
		{1, 4, 0, 0, uint64(descriptorAt + DescriptorBytes), uint64(descriptorAt + DescriptorBytes), 4096},
		{1, 5, uint64(codeAt), uint64(codeAt), uint64(len(m.code)), uint64(len(m.code)), 4096},
		{4, 4, uint64(noteAt), uint64(noteAt), uint64(len(note)), uint64(len(note)), 4},
	}
	if m.programs != nil {
		list = m.programs(list)
	}
	for _, p := range list {
		put(uint32(p[0]), uint32(p[1]), p[2], p[3], p[3], p[4], p[5], p[6])
	}
	b.Write(note)
	pad(symbolsAt)
	put(make([]byte, symbolBytes))
	put(uint32(1), byte(1<<4|2), byte(3), uint16(4), uint64(codeAt), m.codeSize)
	put(uint32(2+len(m.symbols[0])), byte(1<<4|1), byte(3), uint16(3), uint64(descriptorAt), uint64(DescriptorBytes))
	b.Write(strings)
	pad(descriptorAt)
	b.Write(m.descriptor)
	pad(codeAt)
	b.Write(m.code)
	pad(relocationsAt)
	b.Write(m.relocations)
	pad(sectionsAt)
	section := func(kind uint32, flags, at, size uint64, link uint32, entry uint64) {
		put(uint32(0), kind, flags, at, at, size, link, uint32(1), uint64(1), entry)
	}
	section(0, 0, 0, 0, 0, 0)
	section(7, 2, uint64(noteAt), uint64(len(note)), 0, 0)
	section(11, 2, uint64(symbolsAt), 3*symbolBytes, 3, symbolBytes)
	section(3, 2, uint64(stringsAt), uint64(len(strings)), 0, 0)
	section(4, 2, uint64(relocationsAt), uint64(len(m.relocations)), 2, 24)
	return b.Bytes()
}
