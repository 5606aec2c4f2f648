package trial

import (
	"fmt"
	"slices"
	"unsafe"

	"tokitai/device"
	"tokitai/internal/gen"
	"tokitai/num"
)

// Guards is what the memory around an operand holds, before it, after it and between its
// rows, until a kernel writes there. A kernel that reads there shows in its results only
// if what it reads makes a difference: a finite number times zero does not.
type Guards uint8

const (
	// GuardsOfBytes hold GuardByte: small numbers, and int32 that are no index.
	GuardsOfBytes Guards = iota
	// GuardsOfNaN hold NaNs of the operand's format, of many payloads and both signs.
	// Formats of integers have none: there int32 hold 0, an index that every table has, so that one
	// index too many is not skipped, and others hold random bits.
	GuardsOfNaN
	// GuardsOfNumbers hold ordinary numbers, as the rest of a larger tensor would.
	GuardsOfNumbers
	// HiddenGuards hold GuardByte outside of the buffer that the kernel is given, where the
	// device can use the caller's memory as a buffer: it begins with the first element, or
	// Layout.Offset before it, and ends with the last, as most tensors do.
	HiddenGuards
)

var guardNames = [...]string{"byte", "nan", "number", "hidden"}

func (g Guards) String() string { return guardNames[g] }

// ParseGuards parses what String returns.
func ParseGuards(s string) (Guards, error) {
	if i := slices.Index(guardNames[:], s); i >= 0 {
		return Guards(i), nil
	}
	return 0, fmt.Errorf("guards are %q, want %s, %s, %s or %s", s, guardNames[0], guardNames[1], guardNames[2], guardNames[3])
}

// guardElements is after how many elements guards repeat.
const guardElements = 64

// fill fills memory with what guards of a format hold. The memory begins at an element.
func (g Guards) fill(memory []byte, d num.DType, key uint64) {
	if g == GuardsOfBytes || g == HiddenGuards {
		repeat(memory, []byte{GuardByte})
		return
	}
	a := num.NewArray(d, 1, guardElements)
	random := gen.Seeded(key)
	FillBits(a, func(int, int) uint64 {
		switch {
		case d == num.I32 && g == GuardsOfNaN:
			return 0
		case d == num.I32:
			return uint64(random.Below(7) - 2)
		case d.IsInteger():
			return random.Next()
		case g == GuardsOfNaN:
			return uint64(drawNaN(d, random.Next()))
		}
		return num.Stored(d, random.Ordinary())
	})
	repeat(memory, a.Data)
}

// repeat fills memory with copies of a pattern.
func repeat(memory, pattern []byte) {
	for n := copy(memory, pattern); n > 0 && n < len(memory); n *= 2 {
		copy(memory[n:], memory[:n])
	}
}

// drawNaN returns a NaN of a format with a sign and a payload from random bits, quiet
// where the format knows such a thing.
func drawNaN(d num.DType, random uint64) uint32 {
	bits := 8 * d.Size()
	sign := uint32(random>>63) << (bits - 1)
	quiet := num.Narrow(d, nan)
	if with := quiet | uint32(random)&(quiet&-quiet-1); num.IsNaN(d, with) {
		quiet = with
	}
	return quiet | sign
}

// Adopter is a device that can use the caller's memory, aligned to 64 bytes, as a buffer.
type Adopter interface {
	Adopt(memory []byte) (device.Buffer, error)
}

// adopt returns a buffer in new memory with room around it, and all of that memory.
func adopt(dev Adopter, before, bytes, after int) (device.Buffer, []byte, error) {
	const alignment = 64 // of what Adopter takes; GuardBytes is a multiple of it
	raw := make([]byte, alignment+before+bytes+after)
	start := int(-uintptr(unsafe.Pointer(&raw[0])) % alignment)
	memory := raw[start:][:before+bytes+after]
	b, err := dev.Adopt(memory[before : before+bytes : before+bytes])
	return b, memory, err
}

// PoisonDrawn is Poison with patterns drawn from a key, so that no kernel can know them:
// mostly NaNs, and else ordinary numbers, as outputs have that were written before. The
// patterns of 0 and of 1 differ.
func (x *Operands) PoisonDrawn(key uint64, which int) {
	for i, b := range x.blocks {
		if x.isPure(i) {
			bits := DrawPoisons(b.array.DType, key)[which]
			FillBits(b.array, func(int, int) uint64 { return bits })
		}
	}
}

// DrawPoisons returns the two patterns of a format with which PoisonDrawn fills outputs
// under a key.
func DrawPoisons(d num.DType, key uint64) [2]uint64 {
	random := gen.Seeded(key ^ uint64(d)<<56)
	var p [2]uint64
	for i := range p {
		switch r := random.Next(); {
		case d.IsInteger():
			p[i] = r >> (64 - 8*d.Size())
		case r>>62 == 0:
			p[i] = num.Stored(d, random.Ordinary())
		default:
			p[i] = uint64(drawNaN(d, r))
		}
	}
	if p[0] == p[1] {
		p[1] ^= 1 << (8*d.Size() - 1) // the other sign
	}
	return p
}
