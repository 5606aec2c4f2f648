package codeobject

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	o, err := Read(newMade().build(), "gfx1100")
	if err != nil {
		t.Fatal(err)
	}
	if o.Architecture != "gfx1100" || o.Version != 6 || len(o.Segments) != 2 || o.Segments[0].IsExecutable || !o.Segments[1].IsExecutable {
		t.Errorf("got %+v", o)
	}
	k, ok := o.Kernel("double")
	if !ok || len(o.Kernels) != 1 {
		t.Fatalf("got the kernels %+v", o.Kernels)
	}
	want := Descriptor{KernargBytes: 328, EntryOffset: k.EntryOffset, VectorRegisters: 64, Denorm32: 3, Denorm64: 3, IEEE: true, DX10Clamp: true,
		UserRegisters: 15, HasKernargPointer: true, HasGroupID: [3]bool{true}, ItemIDs: 1, IsWave32: true}
	if k.Descriptor != want {
		t.Errorf("got the descriptor\n%+v, want\n%+v", k.Descriptor, want)
	}
	if a := []Argument{{"by_value", 0, 72}, {"hidden_block_count_x", 72, 4}}; !slices.Equal(k.Arguments, a) || k.ExplicitBytes() != 72 || k.MaxThreads != 256 {
		t.Errorf("got the arguments %+v and %d threads", k.Arguments, k.MaxThreads)
	}
	if k.Entry%256 != 0 || len(k.Code) != 4 || k.Code[3] != 0xbf || o.End() != k.Entry+4 {
		t.Errorf("got the entry %#x, the code %x and the end %#x", k.Entry, k.Code, o.End())
	}
	if _, ok := o.Kernel("doubl"); ok {
		t.Error("found a kernel that is not there")
	}
}

func TestDescriptor(t *testing.T) {
	words := func(at map[int]uint32) []byte {
		b := make([]byte, DescriptorBytes)
		for i, v := range at {
			binary.LittleEndian.PutUint32(b[i:], v)
		}
		return b
	}
	got, err := parseDescriptor(words(map[int]uint32{0: 1024, 4: 64, 8: 16, 44: 4, 48: 9 | 2<<12 | 1<<14 | 1<<16 | 2<<18 | 1<<26,
		52: 1 | 17<<1 | 7<<7 | 2<<11 | 1<<24, 56: 0x7f | 1<<11 | (2|1<<7)<<16}), "gfx90a")
	want := Descriptor{GroupBytes: 1024, PrivateBytes: 64, KernargBytes: 16, VectorRegisters: 80, AccumOffset: 20, Round32: 2, Round64: 1, Denorm32: 1,
		Denorm64: 2, Overflow16: true, UserRegisters: 17, HasPrivateBuffer: true, HasDispatchPointer: true, HasQueuePointer: true, HasKernargPointer: true,
		HasDispatchID: true, HasFlatScratchInit: true, HasPrivateSize: true, PreloadWords: 2, PreloadOffset: 1,
		HasGroupID: [3]bool{true, true, true}, HasScratchOffset: true, UsesPrivate: true, ItemIDs: 3, UsesDynamicStack: true, Exceptions: 1 << 24}
	if err != nil || got != want {
		t.Errorf("got\n%+v, %v, want\n%+v", got, err, want)
	}
	for reason, at := range map[string]map[int]uint32{
		"bytes 28 to 31 are reserved, got 0x5":                  {28: 5},
		"reserved bits, 0x200":                                  {56: 1 << 9},
		"AGPRs begin after 16 VGPRs of 8":                       {44: 3},
		"2 SGPRs are to be set, and there are 1 for it":         {52: 1 << 1, 56: 1 << 3},
		"work items have 3 ids, got 4":                          {52: 3 << 11},
		"2 words of arguments from word 0 on are to be preload": {8: 4, 52: 2 << 1, 56: 2 << 16},
	} {
		if _, err := parseDescriptor(words(at), "gfx942"); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("got %v, want an error that says %q", err, reason)
		}
	}
}

func TestRefuses(t *testing.T) {
	truncated := newMade().build()
	for _, c := range []struct {
		reason string
		change func(m *made)
	}{
		{"for the machine EM_X86_64, want EM_AMDGPU", func(m *made) { m.machine = 62 }},
		{"of type ET_REL, want ET_DYN", func(m *made) { m.kind = 1 }},
		{"ABI version 1, want 2, 3 or 4", func(m *made) { m.abiVersion = 1 }},
		{"the code object is for gfx942, want gfx1100", func(m *made) { m.flags = 0x54c }},
		{"for an unknown architecture (e_flags 0xfe), want gfx1100", func(m *made) { m.flags = 0xfe }},
		{"no segment is to be loaded", func(m *made) {
			m.programs = func(p [][7]uint64) [][7]uint64 { p[0][0], p[1][0] = 6, 6; return p }
		}},
		{"want them ascending", func(m *made) { m.programs = func(p [][7]uint64) [][7]uint64 { p[1][3] = 0; return p } }},
		{"want them ascending", func(m *made) { m.programs = func(p [][7]uint64) [][7]uint64 { p[1][5] = 1 << 40; return p } }},
		{"not executable", func(m *made) { m.programs = func(p [][7]uint64) [][7]uint64 { p[1][1] = 4; return p } }},
		{"no segment has them", func(m *made) { m.programs = func(p [][7]uint64) [][7]uint64 { p[1][4] = 0; return p } }},
		{"no note AMDGPU", func(m *made) { m.programs = func(p [][7]uint64) [][7]uint64 { p[2][0] = 6; return p } }},
		{"a note ends early", func(m *made) { m.programs = func(p [][7]uint64) [][7]uint64 { p[2][4]--; return p } }},
		{"has relocations without addends or in part", func(m *made) { m.relocations = make([]byte, 23) }},
		{"relocation 0: type 0 is not emulated", func(m *made) { m.relocations = relocations([3]uint64{0, 0, 0}) }},
		{"relocation 1: 8 bytes at 0x100000: no segment has them", func(m *made) {
			m.relocations = relocations([3]uint64{0, relocationRELATIVE64, 0}, [3]uint64{1 << 20, relocationRELATIVE64, 0})
		}},
		{"relocation 0: its symbol is not defined", func(m *made) { m.relocations = relocations([3]uint64{0, relocationABS64, 0}) }},
		{"relocation 0: its symbol is not defined", func(m *made) { m.relocations = relocations([3]uint64{0, 3<<32 | relocationABS64, 0}) }},
		{"MessagePack at byte", func(m *made) { m.metadata["amdhsa.version"] = []byte{0xc1} }},
		{"no amdhsa.target", func(m *made) { delete(m.metadata, "amdhsa.target") }},
		{"want the architecture of the file's header, gfx1100", func(m *made) { m.metadata["amdhsa.target"] = "amdgcn-amd-amdhsa--gfx1101" }},
		{"no amdhsa.kernels", func(m *made) { delete(m.metadata, "amdhsa.kernels") }},
		{"amdhsa.kernels: got a string, want a []interface {}", func(m *made) { m.metadata["amdhsa.kernels"] = "" }},
		{"kernel 0: no .name", func(m *made) { delete(m.kernel, ".name") }},
		{"kernel 0: no .wavefront_size", func(m *made) { delete(m.kernel, ".wavefront_size") }},
		{`no symbol "other.kd" of type STT_OBJECT`, func(m *made) { m.kernel[".symbol"] = "other.kd" }},
		{`the descriptor's symbol is "double", want`, func(m *made) { m.kernel[".symbol"] = "double" }},
		{`no symbol "double" of type STT_FUNC`, func(m *made) { m.symbols[0] = "single" }},
		{"two kernels have the name", func(m *made) { m.metadata["amdhsa.kernels"] = []any{m.kernel, m.kernel} }},
		{"its metadata says 64 lanes of a wave, its descriptor 32", func(m *made) { m.kernel[".wavefront_size"] = 64 }},
		{"its metadata says 320 bytes of arguments, its descriptor 328", func(m *made) { m.kernel[".kernarg_segment_size"] = 320 }},
		{"argument 0: ends at byte 400 of 328", func(m *made) {
			m.kernel[".args"] = []any{map[string]any{".value_kind": "by_value", ".offset": 328, ".size": 72}}
		}},
		{"argument 0: no .offset", func(m *made) {
			m.kernel[".args"] = []any{map[string]any{".value_kind": "by_value", ".size": 72}}
		}},
		{".size: got 4294967295, want a number from 0 to", func(m *made) {
			m.kernel[".args"] = []any{map[string]any{".value_kind": "by_value", ".offset": 0, ".size": -1}}
		}},
		{"are reserved", func(m *made) { m.descriptor[12] = 1 }},
		{"want the function's address", func(m *made) { binary.LittleEndian.PutUint64(m.descriptor[16:], 1<<20) }},
		{"it has 6 bytes of code", func(m *made) { m.codeSize = 6 }},
		{"its code: 8 bytes at", func(m *made) { m.codeSize = 8 }},
	} {
		m := newMade()
		c.change(m)
		o, err := Read(m.build(), "gfx1100")
		if o != nil || err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("got %v, want an error that says %q", err, c.reason)
		}
	}
	for reason, data := range map[string][]byte{
		"code object: bad magic": []byte("no ELF file at all, as long as its header: 64 bytes, and 5 more..."),
		"got a bundle":           []byte("__CLANG_OFFLOAD_BUNDLE__ and more"),
		"code object: ":          truncated[:len(truncated)-1],
		"code object: EOF":       truncated[:100],
	} {
		if o, err := Read(data, "gfx1100"); o != nil || err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%d bytes: got %v, want an error that says %q", len(data), err, reason)
		}
	}
	_, err := Read(newMade().build(), "gfx90a")
	if e, ok := errors.AsType[*ArchitectureError](err); !ok || e.Got != "gfx1100" || e.Want != "gfx90a" {
		t.Errorf("got %v, want an ArchitectureError", err)
	}
}

func TestMessagePack(t *testing.T) {
	for _, c := range []struct {
		data string
		want any
	}{
		{"\x7f", int64(127)}, {"\xff", int64(-1)}, {"\xc0", nil}, {"\xc2", false}, {"\xc3", true},
		{"\xcc\xff", int64(255)}, {"\xcd\x01\x00", int64(256)}, {"\xce\x80\x00\x00\x00", int64(1 << 31)},
		{"\xcf\x80\x00\x00\x00\x00\x00\x00\x00", uint64(1 << 63)}, {"\xd0\x80", int64(-128)}, {"\xd1\xff\xfe", int64(-2)},
		{"\xd2\xff\xff\xff\xfd", int64(-3)}, {"\xd3\xff\xff\xff\xff\xff\xff\xff\xfc", int64(-4)},
		{"\xca\x3f\xc0\x00\x00", 1.5}, {"\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", 1.5},
		{"\xa2ab", "ab"}, {"\xd9\x01a", "a"}, {"\xda\x00\x01a", "a"}, {"\xdb\x00\x00\x00\x01a", "a"},
		{"\xc4\x01a", []byte("a")}, {"\xc5\x00\x01a", []byte("a")}, {"\xc6\x00\x00\x00\x01a", []byte("a")},
		{"\x92\x01\xa1b", []any{int64(1), "b"}}, {"\xdc\x00\x01\x01", []any{int64(1)}}, {"\xdd\x00\x00\x00\x01\x01", []any{int64(1)}},
		{"\x81\xa1a\x01", map[string]any{"a": int64(1)}}, {"\xde\x00\x01\xa1a\x01", map[string]any{"a": int64(1)}},
		{"\xdf\x00\x00\x00\x01\xa1a\x01", map[string]any{"a": int64(1)}},
	} {
		if got, err := decode([]byte(c.data)); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%x: got %#v, %v, want %#v", c.data, got, err, c.want)
		}
		for n := range len(c.data) {
			if got, err := decode([]byte(c.data[:n])); err == nil || !strings.Contains(err.Error(), "ends early") {
				t.Errorf("%x cut off after %d bytes: got %#v, %v", c.data, n, got, err)
			}
		}
	}
	for data, reason := range map[string]string{
		"\x01\x01":                          "1 bytes follow",
		"\xc1":                              "values of type 0xc1 are unknown",
		"\xd4\x00\x00":                      "values of type 0xd4 are unknown",
		"\x81\x01\x01":                      "a map has the key 1, want a string",
		"\x82\xa1a\x01\xa1a\x01":            `a map has the key "a" twice`,
		strings.Repeat("\x91", 33) + "\x01": "more than 32 arrays",
		"\xdd\xff\xff\xff\xff":              "ends early",
		"\xdf\xff\xff\xff\xff":              "ends early",
	} {
		if got, err := decode([]byte(data)); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%x: got %#v, %v, want an error that says %q", data, got, err, reason)
		}
	}
}

// FuzzRead reads arbitrary files. What is read without an error can be used.
func FuzzRead(f *testing.F) {
	f.Add(newMade().build())
	withPrivate := newMade()
	binary.LittleEndian.PutUint32(withPrivate.descriptor[4:], 16)
	withPrivate.kernel[".private_segment_fixed_size"] = 16
	f.Add(withPrivate.build())
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := Read(data, "gfx1100")
		if (o == nil) == (err == nil) {
			t.Fatalf("got %v and the error %v", o, err)
		}
		if err != nil {
			return
		}
		for _, k := range o.Kernels {
			if found, ok := o.Kernel(k.Name); !ok || found.Entry != k.Entry || len(k.Code) == 0 || k.Entry+uint64(len(k.Code)) > o.End() || k.ExplicitBytes() > int(k.KernargBytes) {
				t.Errorf("kernel %+v", k)
			}
			o.Line(k.Entry)
		}
		o.Lines()
	})
}

// relocations returns the bytes of relocations: address, symbol and type, addend.
func relocations(list ...[3]uint64) (b []byte) {
	for _, r := range list {
		for _, word := range r {
			b = binary.LittleEndian.AppendUint64(b, word)
		}
	}
	return b
}

func TestRelocations(t *testing.T) {
	m := newMade()
	m.relocations = relocations([3]uint64{8, relocationRELATIVE64, 5}, [3]uint64{16, 1<<32 | relocationABS64, 7})
	o, err := Read(m.build(), "gfx1100")
	if err != nil {
		t.Fatal(err)
	}
	if want := []Relocation{{8, 5}, {16, o.Kernels[0].Entry + 7}}; !slices.Equal(o.Relocations, want) {
		t.Errorf("got %v, want %v", o.Relocations, want)
	}
}
