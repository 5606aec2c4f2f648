// Package codeobject reads AMD's code objects: the ELF files that compilers make for one
// architecture, with kernels, their descriptors and their metadata.
//
// The format is documented in LLVM's "User Guide for AMDGPU Backend" (code objects of the
// versions 4, 5 and 6). Nothing in a file is trusted: whatever is malformed is an error.
//
// Start with Read.
package codeobject

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Object is a code object. Its addresses begin at 0; a loader adds the address that it
// loads the object at.
type Object struct {
	Architecture string // "gfx1100"
	Version      int    // of the format: 4, 5 or 6
	Segments     []Segment
	Relocations  []Relocation // in the segments' data
	Kernels      []Kernel     // ascending by name

	file *elf.File
}

// Segment is a part of the object that a loader places in memory.
type Segment struct {
	Address      uint64
	Bytes        uint64 // its size in memory: what Data lacks is zero
	Data         []byte
	IsWritable   bool
	IsExecutable bool
}

// Kernel is a kernel of an object.
type Kernel struct {
	Name string
	Descriptor
	Arguments []Argument

	// MaxThreads is the most work items of a work group that the kernel was compiled for, 0
	// where the metadata does not say.
	MaxThreads int

	Entry uint64 // address of its first instruction
	Code  []byte // its instructions
}

// ArchitectureError reports a code object for another architecture than the device's.
type ArchitectureError struct{ Got, Want string }

func (e *ArchitectureError) Error() string {
	return fmt.Sprintf("the code object is for %s, want %s", e.Got, e.Want)
}

// Constants of the ELF header.
const (
	machineAMDGPU = 224
	osABIHSA      = 64
	typeMask      = 0xff // of e_flags: the architecture
)

// versions has the version of the format by the header's ABI version.
var versions = map[uint8]int{2: 4, 3: 5, 4: 6}

// architectures has the names of architectures by their number in e_flags.
var architectures = map[uint32]string{
	0x2c: "gfx900", 0x2d: "gfx902", 0x2e: "gfx904", 0x2f: "gfx906", 0x30: "gfx908", 0x31: "gfx909", 0x32: "gfx90c",
	0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032", 0x39: "gfx1033",
	0x3d: "gfx1035", 0x3e: "gfx1034", 0x3f: "gfx90a", 0x40: "gfx940", 0x41: "gfx1100", 0x42: "gfx1013", 0x43: "gfx1150",
	0x44: "gfx1103", 0x45: "gfx1036", 0x46: "gfx1101", 0x47: "gfx1102", 0x48: "gfx1200", 0x49: "gfx1250", 0x4a: "gfx1151",
	0x4b: "gfx941", 0x4c: "gfx942", 0x4e: "gfx1201", 0x4f: "gfx950", 0x51: "gfx9-generic", 0x52: "gfx10-1-generic",
	0x53: "gfx10-3-generic", 0x54: "gfx11-generic", 0x55: "gfx1152", 0x58: "gfx1153", 0x59: "gfx12-generic", 0x5f: "gfx9-4-generic",
}

// Read reads a code object for an architecture. An object for another one is an
// *ArchitectureError. The object refers to data.
func Read(data []byte, architecture string) (*Object, error) {
	o, err := read(data, architecture)
	if err != nil {
		return nil, fmt.Errorf("code object: %w", err)
	}
	return o, nil
}

func read(data []byte, architecture string) (*Object, error) {
	for _, magic := range []string{"__CLANG_OFFLOAD_BUNDLE__", "CCOB"} {
		if bytes.HasPrefix(data, []byte(magic)) {
			return nil, errors.New("got a bundle of code objects, want one of them")
		}
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	switch {
	case f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB:
		return nil, fmt.Errorf("got %v and %v, want %v and %v", f.Class, f.Data, elf.ELFCLASS64, elf.ELFDATA2LSB)
	case f.Machine != machineAMDGPU:
		return nil, fmt.Errorf("got a file for the machine %v, want %v", f.Machine, elf.Machine(machineAMDGPU))
	case f.Type != elf.ET_DYN:
		return nil, fmt.Errorf("got a file of type %v, want %v: it has not been linked", f.Type, elf.ET_DYN)
	case f.OSABI != osABIHSA:
		return nil, fmt.Errorf("got the ABI %v, want %v (AMDGPU - HSA)", f.OSABI, elf.OSABI(osABIHSA))
	case versions[f.ABIVersion] == 0:
		return nil, fmt.Errorf("got the ABI version %d, want 2, 3 or 4 (version 4, 5 or 6 of code objects)", f.ABIVersion)
	}
	flags := binary.LittleEndian.Uint32(data[48:]) // debug/elf keeps no flags
	o := &Object{Version: versions[f.ABIVersion], file: f}
	var ok bool
	if o.Architecture, ok = architectures[flags&typeMask]; !ok {
		o.Architecture = fmt.Sprintf("an unknown architecture (e_flags %#x)", flags)
	}
	if o.Architecture != architecture {
		return nil, &ArchitectureError{Got: o.Architecture, Want: architecture}
	}
	if o.Segments, err = readSegments(f); err != nil {
		return nil, err
	}
	if o.Relocations, err = o.readRelocations(); err != nil {
		return nil, err
	}
	if o.Kernels, err = o.readKernels(); err != nil {
		return nil, err
	}
	return o, nil
}

// maxAddress limits the addresses in an object, far above any real one.
const maxAddress = 1 << 32

func readSegments(f *elf.File) ([]Segment, error) {
	var list []Segment
	end := uint64(0)
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		if p.Memsz > maxAddress || p.Vaddr > maxAddress || p.Filesz > p.Memsz || p.Vaddr < end {
			return nil, fmt.Errorf("a segment of %d bytes, %d of them in the file, at %#x: want them ascending and below %#x", p.Memsz, p.Filesz, p.Vaddr, uint64(maxAddress))
		}
		end = p.Vaddr + p.Memsz
		s := Segment{Address: p.Vaddr, Bytes: p.Memsz, IsWritable: p.Flags&elf.PF_W != 0, IsExecutable: p.Flags&elf.PF_X != 0}
		var err error
		if s.Data, err = readAll(p.Open(), p.Filesz); err != nil {
			return nil, fmt.Errorf("the segment at %#x: %w", p.Vaddr, err)
		}
		list = append(list, s)
	}
	if list == nil {
		return nil, errors.New("no segment is to be loaded")
	}
	return list, nil
}

// readAll reads n bytes from a reader of at most n.
func readAll(r io.Reader, n uint64) ([]byte, error) {
	data, err := io.ReadAll(r)
	if err == nil && uint64(len(data)) != n {
		err = fmt.Errorf("the file has %d bytes of it, want %d", len(data), n)
	}
	return data, err
}

// memory returns the bytes of a range of addresses, all of them in the file.
func (o *Object) memory(address, size uint64, isCode bool) ([]byte, error) {
	for _, s := range o.Segments {
		if at := address - s.Address; address >= s.Address && at <= uint64(len(s.Data)) && size <= uint64(len(s.Data))-at {
			if isCode && !s.IsExecutable {
				return nil, fmt.Errorf("%d bytes at %#x: not executable", size, address)
			}
			return s.Data[at : at+size : at+size], nil
		}
	}
	return nil, fmt.Errorf("%d bytes at %#x: no segment has them", size, address)
}

const descriptorSuffix = ".kd"

// readKernels returns the kernels that the metadata lists.
func (o *Object) readKernels() ([]Kernel, error) {
	list, err := o.readMetadata()
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	symbols, err := o.file.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	find := func(name string, kind elf.SymType) (elf.Symbol, error) {
		i := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == name && elf.ST_TYPE(s.Info) == kind })
		if i < 0 {
			return elf.Symbol{}, fmt.Errorf("no symbol %q of type %v", name, kind)
		}
		return symbols[i], nil
	}
	var kernels []Kernel
	for _, m := range list {
		k := Kernel{Name: m.name, Arguments: m.arguments, MaxThreads: m.maxThreads}
		refuse := func(err error) ([]Kernel, error) { return nil, fmt.Errorf("kernel %q: %w", m.name, err) }
		name, ok := strings.CutSuffix(m.symbol, descriptorSuffix)
		if !ok {
			return refuse(fmt.Errorf("the descriptor's symbol is %q, want one that ends in %s", m.symbol, descriptorSuffix))
		}
		at, err := find(m.symbol, elf.STT_OBJECT)
		if err != nil {
			return refuse(err)
		}
		data, err := o.memory(at.Value, DescriptorBytes, false)
		if err != nil {
			return refuse(fmt.Errorf("its descriptor: %w", err))
		}
		if k.Descriptor, err = parseDescriptor(data, o.Architecture); err != nil {
			return refuse(fmt.Errorf("its descriptor: %w", err))
		}
		if err := m.check(&k.Descriptor); err != nil {
			return refuse(err)
		}
		k.Entry = at.Value + uint64(k.EntryOffset)
		function, err := find(name, elf.STT_FUNC)
		if err != nil {
			return refuse(err)
		}
		if function.Value != k.Entry || k.Entry%256 != 0 {
			return refuse(fmt.Errorf("its descriptor's entry is %#x, want the function's address %#x and a multiple of 256", k.Entry, function.Value))
		}
		if function.Size == 0 || function.Size%4 != 0 {
			return refuse(fmt.Errorf("it has %d bytes of code, want a positive multiple of 4", function.Size))
		}
		if k.Code, err = o.memory(k.Entry, function.Size, true); err != nil {
			return refuse(fmt.Errorf("its code: %w", err))
		}
		kernels = append(kernels, k)
	}
	slices.SortFunc(kernels, func(a, b Kernel) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(kernels); i++ {
		if kernels[i].Name == kernels[i-1].Name {
			return nil, fmt.Errorf("two kernels have the name %q", kernels[i].Name)
		}
	}
	return kernels, nil
}

// Kernel returns the kernel of a name.
func (o *Object) Kernel(name string) (*Kernel, bool) {
	i, found := slices.BinarySearchFunc(o.Kernels, name, func(k Kernel, name string) int { return strings.Compare(k.Name, name) })
	if !found {
		return nil, false
	}
	return &o.Kernels[i], true
}

// End returns the address after the last segment.
func (o *Object) End() uint64 {
	last := o.Segments[len(o.Segments)-1]
	return last.Address + last.Bytes
}
