package wave

import (
	"fmt"
	"math/bits"
	"strings"

	"tokitai/amdgpu/isa"
)

// localData translates DS instructions: on LDS, and between lanes.
func (t *translator) localData(in *isa.Instruction) (Step, error) {
	name := strings.TrimPrefix(in.Name, "ds_")
	switch name {
	case "nop":
		return func(w *Wave) {}, nil
	case "bpermute_b32", "permute_b32":
		return t.permute(in)
	case "swizzle_b32":
		return t.swizzle(in)
	case "append", "consume":
		return t.append(in)
	}
	if a, isStore, ok := parseAccess(name); ok {
		return t.localAccess(in, a, isStore)
	}
	if step, err := t.localTwo(in, name); step != nil || err != nil {
		return step, err
	}
	return t.localAtomic(in, name)
}

// localAccess translates a load or a store of LDS. Addresses have 32 bits: sums wrap around.
func (t *translator) localAccess(in *isa.Instruction, a access, isStore bool) (Step, error) {
	registers := in.Results
	if isStore {
		if len(in.Operands) != 2 {
			return nil, fmt.Errorf("%d operands, want 2", len(in.Operands))
		}
		registers = in.Operands[1:]
	}
	if len(registers) != 1 || len(in.Operands) < 1 {
		return nil, fmt.Errorf("%d registers of data and %d operands, want 1 and at least 1", len(registers), len(in.Operands))
	}
	address, err := t.vectorRegister(in.Operands[0], 1)
	if err != nil {
		return nil, err
	}
	data, err := t.vectorRegister(registers[0], a.words())
	if err != nil {
		return nil, err
	}
	if registers[0].Half == isa.High {
		a.half = upperHalf
	}
	offset := uint32(in.Immediate)
	isWords := a.bytes >= 4
	return func(w *Wave) {
		on := w.Exec
		if isWords {
			v := w.V[data : data+a.words()]
			if isStore {
				on = storeWords(v, &w.V[address], &zeros, w.Group.LDS, uint64(offset), on)
			} else {
				on = loadWords(v, &w.V[address], &zeros, w.Group.LDS, uint64(offset), on)
			}
		}
		for ; on != 0; on &= on - 1 {
			lane := bits.TrailingZeros64(on) & 63
			p, err := w.shared(uint64(w.V[address][lane]+offset), a.bytes, isStore)
			if err != nil {
				w.fail(lane, err)
				return
			}
			if isStore {
				w.store(a, data, lane, p)
			} else {
				w.load(a, data, lane, p)
			}
		}
	}, nil
}

// localTwo translates loads, stores and exchanges at two addresses. It returns neither a step
// nor an error for others.
func (t *translator) localTwo(in *isa.Instruction, name string) (Step, error) {
	name, isLong := strings.CutSuffix(name, "_b64")
	name = strings.TrimSuffix(name, "_b32")
	var isStore, isLoad bool
	var stride uint32 = 1
	switch name {
	case "load_2addr", "read2":
		isLoad = true
	case "store_2addr", "write2":
		isStore = true
	case "load_2addr_stride64", "read2st64":
		isLoad, stride = true, 64
	case "store_2addr_stride64", "write2st64":
		isStore, stride = true, 64
	case "storexchg_2addr_rtn", "wrxchg2_rtn":
		isLoad, isStore = true, true
	case "storexchg_2addr_stride64_rtn", "wrxchg2st64_rtn":
		isLoad, isStore, stride = true, true, 64
	default:
		return nil, nil
	}
	a := access{bytes: 4}
	if isLong {
		a.bytes = 8
	}
	operands, results := 1, 0
	if isStore {
		operands = 3
	}
	if isLoad {
		results = 1
	}
	if err := want(in, results, operands); err != nil {
		return nil, err
	}
	address, err := t.vectorRegister(in.Operands[0], 1)
	if err != nil {
		return nil, err
	}
	var data [2]int
	for i := range data {
		if isStore {
			if data[i], err = t.vectorRegister(in.Operands[1+i], a.words()); err != nil {
				return nil, err
			}
		}
	}
	result := 0
	if isLoad {
		if result, err = t.vectorRegister(in.Results[0], 2*a.words()); err != nil {
			return nil, err
		}
	}
	offset := [2]uint32{uint32(in.Immediate) * stride * uint32(a.bytes), uint32(in.Immediate2) * stride * uint32(a.bytes)}
	slow := func(w *Wave, on uint64) {
		for ; on != 0; on &= on - 1 {
			lane := bits.TrailingZeros64(on) & 63
			at := w.V[address][lane]
			var old [2]uint64
			for i := range offset {
				p, err := w.shared(uint64(at+offset[i]), a.bytes, isStore)
				if err != nil {
					w.fail(lane, err)
					return
				}
				if isLoad {
					old[i] = readBytes(p)
				}
				if isStore {
					w.store(a, data[i], lane, p)
				}
			}
			if isLoad {
				w.setLane(result, lane, isLong, old[0])
				w.setLane(result+a.words(), lane, isLong, old[1])
			}
		}
	}
	if isLoad && (isStore || address >= result && address < result+2*a.words()) {
		return func(w *Wave) { slow(w, w.Exec) }, nil
	}
	// One address after the other, which is the same where nothing that is read is stored
	// before. The lanes from the first fault on are left to slow, which reports it.
	return func(w *Wave) {
		left := uint64(0)
		for i := range offset {
			if isStore {
				left |= storeWords(w.V[data[i]:data[i]+a.words()], &w.V[address], &zeros, w.Group.LDS, uint64(offset[i]), w.Exec)
			} else {
				at := result + i*a.words()
				left |= loadWords(w.V[at:at+a.words()], &w.V[address], &zeros, w.Group.LDS, uint64(offset[i]), w.Exec)
			}
		}
		slow(w, left)
	}, nil
}

// readBytes returns 4 or 8 bytes as a number.
func readBytes(p []byte) uint64 {
	var v uint64
	for i := len(p) - 1; i >= 0; i-- {
		v = v<<8 | uint64(p[i])
	}
	return v
}

// localAtomic translates an atomic on LDS.
func (t *translator) localAtomic(in *isa.Instruction, name string) (Step, error) {
	name = strings.Replace(name, "_rtn_", "_", 1)
	// gfx9 compares with its first operand and stores the second; gfx11 has them the other way
	// around, under another name.
	operands := 2
	isReversed := false
	switch verb, typ, _ := strings.Cut(name, "_"); verb {
	case "cmpst":
		name, operands, isReversed = "cmpswap_"+typ, 3, true
	case "cmpstore":
		name, operands = "cmpswap_"+typ, 3
	case "wrxchg", "storexchg":
		name = "swap_" + typ
	}
	operation, ok := atomics[name]
	if masked := strings.HasPrefix(name, "mskor_b"); masked {
		operands, ok = 3, true
		operation = atomicOperation{bytes: 4, isCompare: true, f: func(old, mask, data uint64) uint64 { return old&^mask | data }}
		if name == "mskor_b64" {
			operation.bytes = 8
		}
	}
	if !ok {
		return nil, errUnknown
	}
	if len(in.Operands) != operands || len(in.Results) > 1 {
		return nil, fmt.Errorf("%d results and %d operands, want at most 1 and %d", len(in.Results), len(in.Operands), operands)
	}
	var at [3]int
	var err error
	words := operation.bytes / 4
	isLong := words == 2
	for i := range operands {
		n := words
		if i == 0 {
			n = 1
		}
		if at[i], err = t.vectorRegister(in.Operands[i], n); err != nil {
			return nil, err
		}
	}
	result := -1
	if len(in.Results) > 0 {
		if result, err = t.vectorRegister(in.Results[0], words); err != nil {
			return nil, err
		}
	}
	offset := uint32(in.Immediate)
	return func(w *Wave) {
		for on := w.Exec; on != 0; on &= on - 1 {
			lane := bits.TrailingZeros64(on) & 63
			address := uint64(w.V[at[0]][lane] + offset)
			p, err := w.shared(address, operation.bytes, true)
			if err == nil && address%uint64(operation.bytes) != 0 {
				err = &AccessError{Space: "LDS", IsWrite: true, Address: address, Bytes: operation.bytes, Reason: "the address of an atomic must be aligned"}
			}
			if err != nil {
				w.fail(lane, err)
				return
			}
			data := w.lane(at[1], lane, isLong)
			var other uint64
			if operands == 3 {
				other = w.lane(at[2], lane, isLong)
			}
			if isReversed {
				data, other = other, data
			}
			if old := operation.apply(p, data, other); result >= 0 {
				w.setLane(result, lane, isLong, old)
			}
		}
	}, nil
}

// permute translates ds_bpermute_b32, where each lane names the one that it reads, and
// ds_permute_b32, where it names the one that it sends to. A lane that is off sends 0, and so
// does nobody; where several send to one lane, the highest of them counts.
func (t *translator) permute(in *isa.Instruction) (Step, error) {
	if err := want(in, 1, 2); err != nil {
		return nil, err
	}
	address, err := t.vectorRegister(in.Operands[0], 1)
	if err != nil {
		return nil, err
	}
	data, err := t.vectorRegister(in.Operands[1], 1)
	if err != nil {
		return nil, err
	}
	d, err := t.vectorRegister(in.Results[0], 1)
	offset := uint32(in.Immediate)
	isForward := in.Name == "ds_permute_b32"
	return func(w *Wave) {
		r := &w.temporary[0]
		*r = Register{}
		mask := uint32(w.Lanes - 1)
		for on := w.Exec; on != 0; on &= on - 1 {
			lane := bits.TrailingZeros64(on) & 63
			other := (w.V[address][lane] + offset) / 4 & mask & 63
			if isForward {
				r[other] = w.V[data][lane]
			} else if w.Exec>>other&1 != 0 {
				r[lane] = w.V[data][other]
			}
		}
		merge(&w.V[d], r, w.Exec)
	}, err
}

// swizzle translates ds_swizzle_b32, which permutes within groups of 32 lanes by a pattern in
// its offset.
func (t *translator) swizzle(in *isa.Instruction) (Step, error) {
	if err := want(in, 1, 1); err != nil {
		return nil, err
	}
	data, err := t.vectorRegister(in.Operands[0], 1)
	if err != nil {
		return nil, err
	}
	d, err := t.vectorRegister(in.Results[0], 1)
	if err != nil {
		return nil, err
	}
	var from [64]int
	pattern := int(in.Immediate)
	for i := range from {
		lane := i & 31
		switch {
		case pattern >= 0xe000:
			return nil, fmt.Errorf("offset %#x: the swizzle for FFT is not known", pattern)
		case pattern >= 0xc000: // rotation of the bits that the mask leaves
			keep, by := pattern&31, pattern>>5&31
			if pattern>>10&1 != 0 {
				by = -by
			}
			lane = lane&keep | (lane+by)&^keep&31
		case pattern >= 0x8000: // permutation of quads
			lane = lane&^3 | pattern>>(2*(lane&3))&3
		default:
			lane = (lane&(pattern&31) | pattern>>5&31) ^ pattern>>10&31
		}
		from[i] = i&32 | lane
	}
	return func(w *Wave) {
		s := w.V[data]
		for on := w.Exec; on != 0; on &= on - 1 {
			lane := bits.TrailingZeros64(on) & 63
			w.V[d][lane] = 0
			if j := from[lane] & 63; w.Exec>>j&1 != 0 {
				w.V[d][lane] = s[j]
			}
		}
	}, nil
}

// append translates ds_append and ds_consume, which add the number of lanes that are on to a
// counter, or subtract it, and return the old value to all of them.
func (t *translator) append(in *isa.Instruction) (Step, error) {
	if len(in.Results) != 1 {
		return nil, fmt.Errorf("%d results, want 1", len(in.Results))
	}
	d, err := t.vectorRegister(in.Results[0], 1)
	operation := atomics["add_u32"]
	if in.Name == "ds_consume" {
		operation = atomics["sub_u32"]
	}
	offset := uint64(in.Immediate)
	return func(w *Wave) {
		p, err := w.shared(uint64(w.S[m0At]&0xffff)+offset, 4, true)
		if err != nil {
			w.fail(-1, err)
			return
		}
		old := uint32(operation.apply(p, uint64(bits.OnesCount64(w.Exec)), 0))
		for on := w.Exec; on != 0; on &= on - 1 {
			w.V[d][bits.TrailingZeros64(on)&63] = old
		}
	}, err
}
