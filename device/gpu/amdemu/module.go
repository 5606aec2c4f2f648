package amdemu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"tokitai/amdgpu/codeobject"
	"tokitai/amdgpu/isa"
	"tokitai/amdgpu/wave"
	"tokitai/device/gpu/driver"
)

// module is a loaded code object.
type module struct {
	object  *codeobject.Object
	address uint64 // of the object's address 0
	first   uint64 // address of the first segment
	blocks  int
}

// kernel is a kernel of a module.
type kernel struct {
	*codeobject.Kernel
	handle driver.Module
	module *module
	code   *wave.Code
}

// load places the segments of a code object in memory.
func (e *emulator) load(image []byte) (driver.Module, error) {
	o, err := codeobject.Read(image, e.set.Name)
	if err != nil {
		return 0, fmt.Errorf("load: %w", err)
	}
	var blocks []wave.Block
	for _, s := range o.Segments {
		if s.Bytes > 0 {
			data := make([]byte, s.Bytes)
			copy(data, s.Data)
			blocks = append(blocks, wave.Block{Address: s.Address, Bytes: data, IsReadOnly: !s.IsWritable})
		}
	}
	if blocks == nil {
		return 0, errors.New("load: code object: all segments are empty")
	}
	address, err := e.memory.place(blocks, int64(o.End()))
	if err != nil {
		return 0, fmt.Errorf("load: %w", err)
	}
	for _, r := range o.Relocations {
		i := slices.IndexFunc(blocks, func(b wave.Block) bool { return r.Address-b.Address < uint64(len(b.Bytes)) })
		binary.LittleEndian.PutUint64(blocks[i].Bytes[r.Address-blocks[i].Address:], address+r.Value)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m := driver.Module(e.handle())
	e.modules[m] = &module{object: o, address: address, first: address + blocks[0].Address, blocks: len(blocks)}
	return m, nil
}

func (e *emulator) unload(handle driver.Module) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, ok := e.modules[handle]
	if !ok {
		return &driver.Error{Call: "unload", Text: fmt.Sprintf("module %d is not loaded", handle)}
	}
	delete(e.modules, handle)
	for f, k := range e.functions {
		if k.module == m {
			delete(e.functions, f)
		}
	}
	return e.memory.remove(m.first, m.blocks)
}

// lookup translates a kernel.
func (e *emulator) lookup(handle driver.Module, entry string) (driver.Function, error) {
	e.mu.Lock()
	m, ok := e.modules[handle]
	e.mu.Unlock()
	if !ok {
		return 0, &driver.Error{Call: "lookup", Text: fmt.Sprintf("module %d is not loaded", handle)}
	}
	found, ok := m.object.Kernel(entry)
	if !ok {
		return 0, &driver.Error{Call: "lookup", Text: fmt.Sprintf("the program has no kernel %q", entry)}
	}
	k := &kernel{Kernel: found, handle: handle, module: m}
	if err := e.translate(k); err != nil {
		return 0, fmt.Errorf("kernel %s: %w", entry, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	f := driver.Function(e.handle())
	e.functions[f] = k
	return f, nil
}

// translate decodes and translates a kernel's instructions, and checks that what its descriptor
// asks for is emulated.
func (e *emulator) translate(k *kernel) error {
	d := &k.Descriptor
	lanes := e.set.Family.Lanes()
	switch {
	case d.IsWave32 != (lanes == 32):
		return fmt.Errorf("it was not compiled for waves of %d lanes, want that", lanes)
	case d.Overflow16:
		return errors.New("it clamps overflows in binary16 (FP16_OVFL), which is not emulated")
	case d.Exceptions != 0:
		return fmt.Errorf("it traps exceptions (compute_pgm_rsrc2 %#x), which is not emulated", d.Exceptions)
	case d.HasGroupInfo:
		return errors.New("it asks for work-group information in an SGPR, which is not emulated")
	case d.UsesDynamicStack:
		return errors.New("it uses a stack of dynamic size, which is not emulated")
	}
	for i := range k.Arguments {
		if a := &k.Arguments[i]; a.IsHidden() && !slices.Contains(hidden, a.Kind) {
			return fmt.Errorf("argument %s is not emulated", a.Kind)
		}
	}
	var err error
	k.code, err = recent.get(e.set.Name, k.Entry, k.Code, func() (*wave.Code, error) {
		instructions, err := isa.Decode(e.set, k.Code, k.Entry)
		if err != nil {
			return nil, err
		}
		return wave.Translate(e.set.Family, instructions)
	})
	if err != nil {
		return err
	}
	return k.checkRegisters()
}

// checkRegisters returns an error if the code names more registers than the descriptor
// allocates.
func (k *kernel) checkRegisters() error {
	vector, accumulators := k.code.Registers()
	hasVector := k.vectorRegisters()
	if hasAccumulators := k.VectorRegisters - hasVector; vector > hasVector || accumulators > hasAccumulators {
		return fmt.Errorf("its instructions name %d VGPRs and %d AGPRs, its descriptor allocates %d and %d", vector, accumulators, hasVector, hasAccumulators)
	}
	return nil
}

// vectorRegisters returns the number of VGPRs, without AGPRs.
func (k *kernel) vectorRegisters() int {
	if k.AccumOffset > 0 {
		return k.AccumOffset
	}
	return k.VectorRegisters
}
