package wave

import (
	"fmt"
	"slices"
)

// Block is a piece of allocated memory.
type Block struct {
	Address    uint64 // of its first byte
	Bytes      []byte
	IsReadOnly bool
}

// Memory finds the block that holds an address. Groups of a launch use it at the same time.
type Memory interface {
	// Find returns the block that holds the address, or false.
	Find(address uint64) (Block, bool)
}

// Blocks is a Memory of blocks in ascending order of their addresses.
type Blocks []Block

// Find returns the block that holds the address.
func (b Blocks) Find(address uint64) (Block, bool) {
	i, isFirst := slices.BinarySearchFunc(b, address, func(x Block, a uint64) int {
		switch {
		case x.Address < a:
			return -1
		case x.Address > a:
			return 1
		}
		return 0
	})
	if !isFirst {
		i--
	}
	if i < 0 || address-b[i].Address >= uint64(len(b[i].Bytes)) {
		return Block{}, false
	}
	return b[i], true
}

// Insert adds a block. It returns an error for one that overlaps another.
func (b *Blocks) Insert(x Block) error {
	i := 0
	for i < len(*b) && (*b)[i].Address < x.Address {
		i++
	}
	end := func(y Block) uint64 { return y.Address + uint64(len(y.Bytes)) }
	if i > 0 && end((*b)[i-1]) > x.Address || i < len(*b) && end(x) > (*b)[i].Address {
		return fmt.Errorf("block of %d bytes at %#x: overlaps another", len(x.Bytes), x.Address)
	}
	*b = slices.Insert(*b, i, x)
	return nil
}

// The upper halves of the flat addresses of LDS and of private memory.
const (
	sharedAperture  = 0x0001_0000
	privateAperture = 0x0002_0000
)

// global returns n bytes of global memory. The site, a number of the instruction, selects the
// entry of the wave's cache of blocks.
func (w *Wave) global(site int, address uint64, n int, isWrite bool) ([]byte, error) {
	b := &w.blocks[site%len(w.blocks)]
	at := address - b.Address
	if length := uint64(len(b.Bytes)); at < length && uint64(n) <= length-at && !(isWrite && b.IsReadOnly) {
		return b.Bytes[at : at+uint64(n) : at+uint64(n)], nil
	}
	found, ok := w.Group.launch.Memory.Find(address)
	fail := func(reason string) ([]byte, error) {
		return nil, &AccessError{Space: "global", IsWrite: isWrite, Address: address, Bytes: n, Reason: reason}
	}
	if !ok {
		return fail("no memory is allocated there")
	}
	at = address - found.Address
	if length := uint64(len(found.Bytes)); uint64(n) > length-at {
		return fail(fmt.Sprintf("the block of %d bytes at %#x ends there", length, found.Address))
	}
	if isWrite && found.IsReadOnly {
		return fail("the memory is read only")
	}
	*b = found
	return b.Bytes[at : at+uint64(n) : at+uint64(n)], nil
}

// shared returns n bytes of the group's LDS. Hardware reads 0 beyond the allocation and drops
// what is written there; here it is an error.
func (w *Wave) shared(address uint64, n int, isWrite bool) ([]byte, error) {
	lds := w.Group.LDS
	if length := uint64(len(lds)); address >= length || uint64(n) > length-address {
		return nil, &AccessError{Space: "LDS", IsWrite: isWrite, Address: address, Bytes: n,
			Reason: fmt.Sprintf("the group has %d bytes", length)}
	}
	return lds[address : address+uint64(n) : address+uint64(n)], nil
}

// private returns n bytes of a lane's private memory.
func (w *Wave) private(lane int, address uint64, n int, isWrite bool) ([]byte, error) {
	size := uint64(len(w.Private) / w.Lanes)
	if address >= size || uint64(n) > size-address {
		return nil, &AccessError{Space: "private", IsWrite: isWrite, Address: address, Bytes: n,
			Reason: fmt.Sprintf("a lane has %d bytes", size)}
	}
	at := uint64(lane)*size + address
	return w.Private[at : at+uint64(n) : at+uint64(n)], nil
}
