package wave

import (
	"fmt"
	"math/bits"
	"strings"

	"tokitai/amdgpu/isa"
)

// space is the memory that an instruction addresses.
type space uint8

const (
	globalSpace space = iota
	flatSpace         // global, LDS or private memory, as the address says
	privateSpace
)

// flatAddress is the address of a FLAT, GLOBAL or SCRATCH instruction.
type flatAddress struct {
	space  space
	site   int
	offset uint64
	base   int // the place of the base in S, or -1
	isLong bool
	vector int // the first register of the address, or -1
	isWide bool
}

// scalarPart returns the part of the address that all lanes share.
func (f *flatAddress) scalarPart(w *Wave) uint64 {
	if f.base < 0 {
		return f.offset
	}
	return f.offset + w.read(f.base, f.isLong)
}

// locate returns the bytes that a lane accesses.
func (f *flatAddress) locate(w *Wave, lane int, address uint64, n int, isWrite bool) ([]byte, error) {
	switch f.space {
	case privateSpace:
		return w.private(lane, uint64(uint32(address)), n, isWrite)
	case flatSpace:
		switch address >> 32 {
		case sharedAperture:
			return w.shared(uint64(uint32(address)), n, isWrite)
		case privateAperture:
			return w.private(lane, uint64(uint32(address)), n, isWrite)
		}
	}
	return w.global(f.site, address, n, isWrite)
}

// flat translates FLAT, GLOBAL and SCRATCH instructions.
func (t *translator) flat(in *isa.Instruction) (Step, error) {
	name := in.Name
	for _, prefix := range []string{"flat_", "global_", "scratch_"} {
		name = strings.TrimPrefix(name, prefix)
	}
	if operation, ok := parseAtomic(name); ok {
		return t.flatAtomic(in, operation)
	}
	a, isStore, ok := parseAccess(name)
	if !ok {
		return nil, errUnknown
	}
	registers := in.Results
	if isStore {
		if len(in.Operands) < 2 {
			return nil, fmt.Errorf("%d operands, want 2 or 3", len(in.Operands))
		}
		registers = in.Operands[1:2]
	}
	if len(registers) != 1 {
		return nil, fmt.Errorf("%d registers of data, want 1", len(registers))
	}
	data, err := t.vectorRegister(registers[0], a.words())
	if err != nil {
		return nil, err
	}
	if registers[0].Half == isa.High {
		a.half = upperHalf
	}
	f, err := t.flatAddress(in, isStore)
	if err != nil {
		return nil, err
	}
	return accessStep(f, a, data, isStore), nil
}

// flatAddress resolves the operands of an address: the vector part first and the base last,
// with the data between them.
func (t *translator) flatAddress(in *isa.Instruction, hasData bool) (*flatAddress, error) {
	f := &flatAddress{offset: uint64(in.Immediate), base: -1, vector: -1, site: t.site()}
	switch in.Encoding {
	case isa.FLAT:
		f.space = flatSpace
	case isa.SCRATCH:
		f.space = privateSpace
	}
	rest := in.Operands
	if len(rest) == 0 {
		return nil, fmt.Errorf("has no address")
	}
	vector := rest[0]
	rest = rest[1:]
	if hasData && len(rest) > 0 {
		rest = rest[1:]
	}
	if len(rest) > 0 && rest[0].Kind != isa.Off && rest[0].Kind != isa.Null {
		base, before, err := t.source(rest[0], 0)
		if err != nil {
			return nil, err
		}
		if before != nil {
			return nil, fmt.Errorf("the base address is no scalar register")
		}
		f.base, f.isLong = base, f.space != privateSpace
	}
	if vector.Kind == isa.Off {
		return f, nil
	}
	f.isWide = f.space == flatSpace || f.space == globalSpace && f.base < 0
	words := 1
	if f.isWide {
		words = 2
	}
	var err error
	f.vector, err = t.vectorRegister(vector, words)
	return f, err
}

// site returns the number of a memory instruction: it selects an entry of a wave's cache of
// blocks.
func (t *translator) site() int {
	t.sites++
	return t.sites % len(Wave{}.blocks)
}

// accessStep returns the step of a load or a store.
func accessStep(f *flatAddress, a access, data int, isStore bool) Step {
	if f.space == globalSpace && f.vector >= 0 {
		return blockStep(f, a, data, isStore)
	}
	return func(w *Wave) {
		base := f.scalarPart(w)
		for on := w.Exec; on != 0; on &= on - 1 {
			if !f.accessLane(w, a, data, bits.TrailingZeros64(on)&63, base, isStore) {
				return
			}
		}
	}
}

// accessLane executes a load or a store for one lane. It returns false after a fault.
func (f *flatAddress) accessLane(w *Wave, a access, data, lane int, base uint64, isStore bool) bool {
	address := base
	if f.vector >= 0 {
		address += w.lane(f.vector, lane, f.isWide)
	}
	p, err := f.locate(w, lane, address, a.bytes, isStore)
	if err != nil {
		w.fail(lane, err)
		return false
	}
	if isStore {
		w.store(a, data, lane, p)
	} else {
		w.load(a, data, lane, p)
	}
	return true
}

// blockStep returns the step of a load or a store of global memory: a loop over the lanes whose addresses are in the block of the wave's cache. It leaves the others to
// accessLane, which changes the cache.
func blockStep(f *flatAddress, a access, data int, isStore bool) Step {
	words := a.words()
	return func(w *Wave) {
		base := f.scalarPart(w)
		block := &w.blocks[f.site]
		low := &w.V[f.vector]
		high := &zeros
		if f.isWide {
			high = &w.V[f.vector+1]
		}
		v := w.V[data : data+words]
		for on := w.Exec; on != 0; {
			bytes, start := block.Bytes, base-block.Address
			if isStore && block.IsReadOnly {
				bytes = nil
			}
			switch {
			case isStore && a.bytes >= 4:
				on = storeWords(v, low, high, bytes, start, on)
			case isStore:
				on = storeSmall(a, &v[0], low, high, bytes, start, on)
			case a.bytes >= 4:
				on = loadWords(v, low, high, bytes, start, on)
			default:
				on = loadSmall(a, w.isGFX11(), &v[0], low, high, bytes, start, on)
			}
			if on == 0 {
				return
			}
			if !f.accessLane(w, a, data, bits.TrailingZeros64(on)&63, base, isStore) {
				return
			}
			on &= on - 1
		}
	}
}

// flatAtomic translates an atomic on memory, which returns what was there where it has a result.
func (t *translator) flatAtomic(in *isa.Instruction, operation atomicOperation) (Step, error) {
	if len(in.Operands) < 2 {
		return nil, fmt.Errorf("%d operands, want 2 or 3", len(in.Operands))
	}
	words := operation.bytes / 4
	dataWords := words
	if operation.isCompare {
		dataWords *= 2
	}
	data, err := t.vectorRegister(in.Operands[1], dataWords)
	if err != nil {
		return nil, err
	}
	result := -1
	if len(in.Results) > 0 {
		if result, err = t.vectorRegister(in.Results[0], words); err != nil {
			return nil, err
		}
	}
	f, err := t.flatAddress(in, true)
	if err != nil {
		return nil, err
	}
	isLong := words == 2
	return func(w *Wave) {
		l := w.Group.launch
		l.atomics.Lock()
		defer l.atomics.Unlock()
		base := f.scalarPart(w)
		for on := w.Exec; on != 0; on &= on - 1 {
			lane := bits.TrailingZeros64(on) & 63
			address := base
			if f.vector >= 0 {
				address += w.lane(f.vector, lane, f.isWide)
			}
			p, err := f.locate(w, lane, address, operation.bytes, true)
			if err == nil && address%uint64(operation.bytes) != 0 {
				err = &AccessError{Space: "global", IsWrite: true, Address: address, Bytes: operation.bytes, Reason: "the address of an atomic must be aligned"}
			}
			if err != nil {
				w.fail(lane, err)
				return
			}
			var compare uint64
			if operation.isCompare {
				compare = w.lane(data+words, lane, isLong)
			}
			old := operation.apply(p, w.lane(data, lane, isLong), compare)
			if result >= 0 {
				w.setLane(result, lane, isLong, old)
			}
		}
	}, nil
}

// lane returns a register of one lane, or two of them.
func (w *Wave) lane(register, lane int, isLong bool) uint64 {
	v := uint64(w.V[register][lane&63])
	if isLong {
		v |= uint64(w.V[register+1][lane&63]) << 32
	}
	return v
}

// setLane sets a register of one lane, or two of them.
func (w *Wave) setLane(register, lane int, isLong bool, v uint64) {
	w.V[register][lane&63] = uint32(v)
	if isLong {
		w.V[register+1][lane&63] = uint32(v >> 32)
	}
}
