package amdemu

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"tokitai/amdgpu/wave"
	"tokitai/device/gpu/driver"
)

// Addresses of memory. Below the first are those of a launch's own blocks.
const (
	kernargAddress = 0x0100_0000_0000
	packetAddress  = 0x0200_0000_0000
	firstAddress   = 0x1000_0000_0000
	lastAddress    = 0x7fff_0000_0000

	alignment = 256
	gap       = 1 << 20 // unused addresses after each block, at least
)

// memory is a device's memory. A block's address is not used again for as long as there are
// others, so that an access to memory that was freed is found.
type memory struct {
	limit int64

	mu     sync.Mutex
	used   int64
	next   uint64                      // where to look for addresses first
	blocks atomic.Pointer[wave.Blocks] // never changed: replaced under mu
}

// Find returns the block that holds an address.
func (m *memory) Find(address uint64) (wave.Block, bool) { return m.all().Find(address) }

func (m *memory) all() wave.Blocks {
	if b := m.blocks.Load(); b != nil {
		return *b
	}
	return nil
}

// alloc returns the address of new memory.
func (m *memory) alloc(bytes int64) (driver.Pointer, error) {
	if bytes < 1 {
		return 0, &driver.Error{Call: "alloc", Text: fmt.Sprintf("got %d bytes, want at least 1", bytes)}
	}
	address, err := m.place([]wave.Block{{Bytes: nil}}, bytes)
	return driver.Pointer(address), err
}

// place adds blocks at addresses relative to a new one, which it returns; bytes is the size of
// the whole. A block without memory gets that of the whole.
func (m *memory) place(list []wave.Block, bytes int64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes > m.limit-m.used {
		return 0, &driver.Error{Call: "alloc", Text: fmt.Sprintf("out of memory: %d of %d bytes are free", m.limit-m.used, m.limit), Class: driver.OutOfMemory}
	}
	blocks := slices.Clone(m.all())
	base, err := m.reserve(blocks, uint64(bytes))
	if err != nil {
		return 0, err
	}
	for _, b := range list {
		b.Address += base
		if b.Bytes == nil {
			b.Bytes = make([]byte, bytes)
		}
		if err := blocks.Insert(b); err != nil {
			return 0, err
		}
		m.used += int64(len(b.Bytes))
	}
	m.blocks.Store(&blocks)
	return base, nil
}

// reserve returns an address with so many unused ones from it on, and a gap.
func (m *memory) reserve(blocks wave.Blocks, bytes uint64) (uint64, error) {
	size := (bytes + alignment - 1) / alignment * alignment
	for range 2 {
		at := max(m.next, firstAddress)
		i, _ := slices.BinarySearchFunc(blocks, at, func(b wave.Block, at uint64) int {
			if b.Address+uint64(len(b.Bytes)) <= at {
				return -1
			}
			return 1
		})
		for ; i < len(blocks) && blocks[i].Address < at+size+gap; i++ {
			end := blocks[i].Address + uint64(len(blocks[i].Bytes))
			at = (end+alignment-1)/alignment*alignment + gap
		}
		if at+size < lastAddress {
			m.next = at + size + gap
			return at, nil
		}
		m.next = firstAddress
	}
	return 0, &driver.Error{Call: "alloc", Text: fmt.Sprintf("no %d addresses in a row are left", bytes), Class: driver.OutOfMemory}
}

// release frees the block at an address.
func (m *memory) release(p driver.Pointer) error { return m.remove(uint64(p), 1) }

// remove frees a number of blocks that follow one another.
func (m *memory) remove(address uint64, count int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	blocks := slices.Clone(m.all())
	i := slices.IndexFunc(blocks, func(b wave.Block) bool { return b.Address == address })
	if i < 0 || i+count > len(blocks) {
		return &driver.Error{Call: "free", Text: fmt.Sprintf("%#x was not allocated", address)}
	}
	for _, b := range blocks[i : i+count] {
		m.used -= int64(len(b.Bytes))
	}
	blocks = slices.Delete(blocks, i, i+count)
	m.blocks.Store(&blocks)
	return nil
}

func (m *memory) info() (free, total int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limit - m.used, m.limit, nil
}

// view returns memory of one block.
func (m *memory) view(call string, p driver.Pointer, bytes int64) ([]byte, error) {
	b, ok := m.Find(uint64(p))
	at := uint64(p) - b.Address
	if !ok || bytes < 0 || uint64(bytes) > uint64(len(b.Bytes))-at {
		return nil, &driver.Error{Call: call, Text: fmt.Sprintf("%d bytes at %#x: %s", bytes, uint64(p), m.describe(uint64(p)))}
	}
	return b.Bytes[at : at+uint64(bytes)], nil
}

func (m *memory) copyIn(dst driver.Pointer, src []byte) error {
	to, err := m.view("copy", dst, int64(len(src)))
	copy(to, src)
	return err
}

func (m *memory) copyOut(dst []byte, src driver.Pointer) error {
	from, err := m.view("copy", src, int64(len(dst)))
	copy(dst, from)
	return err
}

func (m *memory) copy(dst, src driver.Pointer, bytes int64) error {
	to, err := m.view("copy", dst, bytes)
	if err != nil {
		return err
	}
	return m.copyOut(to, src)
}

func (m *memory) fill(dst driver.Pointer, value byte, bytes int64) error {
	to, err := m.view("fill", dst, bytes)
	if value == 0 {
		clear(to)
		return err
	}
	for i := range to {
		to[i] = value
	}
	return err
}

// describe says where an address lies, by the nearest block.
func (m *memory) describe(address uint64) string {
	text, nearest := "no memory is allocated near it", uint64(gap)
	for _, b := range m.all() {
		block := fmt.Sprintf("the block of %d bytes at %#x", len(b.Bytes), b.Address)
		end := b.Address + uint64(len(b.Bytes))
		switch {
		case address >= b.Address && address < end:
			return fmt.Sprintf("byte %d of %s", address-b.Address, block)
		case address < b.Address && b.Address-address < nearest:
			text, nearest = fmt.Sprintf("%d bytes before %s", b.Address-address, block), b.Address-address
		case address >= end && address-end < nearest:
			text, nearest = fmt.Sprintf("%d bytes after the end of %s", address-end, block), address-end
		}
	}
	return text
}
