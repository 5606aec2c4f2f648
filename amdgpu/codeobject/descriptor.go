package codeobject

import (
	"encoding/binary"
	"fmt"
)

// DescriptorBytes is the size of a kernel descriptor.
const DescriptorBytes = 64

// Descriptor is a kernel descriptor: what hardware needs to start the kernel's waves.
type Descriptor struct {
	GroupBytes   uint32 // of LDS, without what a launch adds
	PrivateBytes uint32 // of a work item
	KernargBytes uint32
	EntryOffset  int64 // from the descriptor to the first instruction

	VectorRegisters int // VGPRs of a wave; of gfx90a and gfx942, with AGPRs
	AccumOffset     int // gfx90a and gfx942: the number of VGPRs that AGPRs follow

	Round32, Round64   uint8 // rounding mode; 64 is also of binary16
	Denorm32, Denorm64 uint8 // denormal mode: bit 0 keeps operands, bit 1 results
	IEEE, DX10Clamp    bool
	Overflow16         bool // an overflow in binary16 gives the largest finite number

	// UserRegisters is the number of SGPRs before those of the work group's ids.
	UserRegisters int

	// What the first SGPRs hold, in this order.
	HasPrivateBuffer   bool // 4 registers
	HasDispatchPointer bool // 2
	HasQueuePointer    bool // 2
	HasKernargPointer  bool // 2
	HasDispatchID      bool // 2
	HasFlatScratchInit bool // 2
	HasPrivateSize     bool // 1
	PreloadWords       int  // of the kernel's arguments
	PreloadOffset      int  // in words

	// What the SGPRs after UserRegisters hold, in this order, one each.
	HasGroupID       [3]bool
	HasGroupInfo     bool
	HasScratchOffset bool // architectures without architected flat scratch

	UsesPrivate      bool
	ItemIDs          int // the number of work-item ids in v0: 1, 2 or 3
	IsWave32         bool
	UsesDynamicStack bool
	Exceptions       uint32 // those that would be trapped
}

// bits returns a field of a register.
func bits(register uint32, shift, width uint) uint32 { return register >> shift & (1<<width - 1) }

func parseDescriptor(b []byte, architecture string) (d Descriptor, err error) {
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	for _, at := range []int{12, 24, 28, 32, 36, 40, 60} {
		if word(at) != 0 {
			return d, fmt.Errorf("its bytes %d to %d are reserved, got %#x", at, at+3, word(at))
		}
	}
	d.GroupBytes, d.PrivateBytes, d.KernargBytes = word(0), word(4), word(8)
	d.EntryOffset = int64(binary.LittleEndian.Uint64(b[16:]))
	rsrc3, rsrc1, rsrc2 := word(44), word(48), word(52)
	properties, preload := uint32(binary.LittleEndian.Uint16(b[56:])), uint32(binary.LittleEndian.Uint16(b[58:]))

	isGFX9 := architecture == "gfx90a" || architecture == "gfx942"
	d.VectorRegisters = 8 * int(bits(rsrc1, 0, 6)+1)
	d.Round32, d.Round64 = uint8(bits(rsrc1, 12, 2)), uint8(bits(rsrc1, 14, 2))
	d.Denorm32, d.Denorm64 = uint8(bits(rsrc1, 16, 2)), uint8(bits(rsrc1, 18, 2))
	d.DX10Clamp, d.IEEE, d.Overflow16 = bits(rsrc1, 21, 1) != 0, bits(rsrc1, 23, 1) != 0, bits(rsrc1, 26, 1) != 0
	if isGFX9 {
		d.AccumOffset = 4 * int(bits(rsrc3, 0, 6)+1)
		if d.AccumOffset > d.VectorRegisters {
			return d, fmt.Errorf("AGPRs begin after %d VGPRs of %d", d.AccumOffset, d.VectorRegisters)
		}
	}

	d.UsesPrivate = bits(rsrc2, 0, 1) != 0
	d.UserRegisters = int(bits(rsrc2, 1, 5))
	d.HasGroupID = [3]bool{bits(rsrc2, 7, 1) != 0, bits(rsrc2, 8, 1) != 0, bits(rsrc2, 9, 1) != 0}
	d.HasGroupInfo = bits(rsrc2, 10, 1) != 0
	d.HasScratchOffset = d.UsesPrivate && architecture == "gfx90a"
	d.ItemIDs = int(bits(rsrc2, 11, 2)) + 1
	if d.ItemIDs > 3 {
		return d, fmt.Errorf("work items have 3 ids, got %d", d.ItemIDs)
	}
	d.Exceptions = rsrc2 & (3<<13 | 0x7f<<24)

	used := 0
	for i, p := range []struct {
		has  *bool
		size int
	}{
		{&d.HasPrivateBuffer, 4}, {&d.HasDispatchPointer, 2}, {&d.HasQueuePointer, 2}, {&d.HasKernargPointer, 2},
		{&d.HasDispatchID, 2}, {&d.HasFlatScratchInit, 2}, {&d.HasPrivateSize, 1},
	} {
		if *p.has = bits(properties, uint(i), 1) != 0; *p.has {
			used += p.size
		}
	}
	d.PreloadWords, d.PreloadOffset = int(bits(preload, 0, 7)), int(bits(preload, 7, 9))
	used += d.PreloadWords
	if used > d.UserRegisters {
		return d, fmt.Errorf("%d SGPRs are to be set, and there are %d for it", used, d.UserRegisters)
	}
	if 4*(d.PreloadOffset+d.PreloadWords) > int(d.KernargBytes) && d.PreloadWords > 0 {
		return d, fmt.Errorf("%d words of arguments from word %d on are to be preloaded, and there are %d bytes of arguments", d.PreloadWords, d.PreloadOffset, d.KernargBytes)
	}
	d.IsWave32, d.UsesDynamicStack = bits(properties, 10, 1) != 0, bits(properties, 11, 1) != 0
	if reserved := properties & 0xf380; reserved != 0 {
		return d, fmt.Errorf("its code properties have reserved bits, %#x", reserved)
	}
	return d, nil
}
