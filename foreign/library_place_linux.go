package foreign

import (
	"bytes"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"tokitai/num"
	"tokitai/trial"
)

// place is where a function finds an operand: in a copy of its memory, guards included, or in rows that lie far apart
// in a range of addresses with hardly any memory behind them.
type place struct {
	operands *trial.Operands
	operand  int
	near     *fenced
	far      *farRows
}

func newPlace(x *trial.Operands, operand int, isFar bool) (*place, error) {
	p := &place{operands: x, operand: operand}
	memory, _ := x.Memory(operand)
	var err error
	if a := x.Array(operand); isFar && a.Rows > 1 && a.Rows <= mostFarRows && a.Batch.Count == 0 {
		p.far, err = newFarRows(a)
	} else {
		p.near, err = newFenced(memory)
	}
	return p, err
}

// first returns the first element.
func (p *place) first() unsafe.Pointer {
	if p.far != nil {
		return unsafe.Pointer(&p.far.mapping[p.far.begin])
	}
	_, offset := p.operands.Memory(p.operand)
	return unsafe.Pointer(&p.near.memory[offset])
}

// strideAlong returns the elements from one index of an axis to the next.
func (p *place) strideAlong(rank, axis int) int {
	a := p.operands.Array(p.operand)
	switch {
	case axis == rank-1:
		return 1
	case axis == rank-2 && p.far != nil:
		return p.far.stride
	case axis == rank-2:
		return a.Stride
	}
	return a.Batch.Axes[axis].Stride
}

// takeBack copies what the place holds to the operand's own memory.
func (p *place) takeBack() {
	if p.far == nil {
		memory, _ := p.operands.Memory(p.operand)
		copy(memory, p.near.memory)
		return
	}
	for r, a := 0, p.operands.Array(p.operand); r < a.Rows; r++ {
		copy(a.Row(r), p.far.row(r))
	}
}

// isChanged reports whether the place holds something else than the operand's own memory.
func (p *place) isChanged() bool {
	if p.far == nil {
		memory, _ := p.operands.Memory(p.operand)
		return !bytes.Equal(memory, p.near.memory)
	}
	for r, a := 0, p.operands.Array(p.operand); r < a.Rows; r++ {
		if !bytes.Equal(a.Row(r), p.far.row(r)) {
			return true
		}
	}
	return false
}

// free gives the memory back.
func (p *place) free() {
	if p.far != nil {
		unix.Munmap(p.far.mapping)
		return
	}
	unix.Munmap(p.near.mapping)
}

// fence is wide enough for most wild pointers.
const fence = 64 << 20

// fenced is memory between fences without access, wide enough for most wild pointers.
type fenced struct {
	mapping []byte
	memory  []byte
}

// newFenced returns a copy of memory. Its beginning is aligned to 256 bytes.
func newFenced(memory []byte) (*fenced, error) {
	const alignment = 256
	page := os.Getpagesize()
	inside := (len(memory) + alignment - 1) / alignment * alignment
	pages := (inside + page - 1) / page * page
	mapping, err := unix.Mmap(-1, 0, pages+2*fence, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("the system has no addresses for %d bytes: %w", pages, err)
	}
	if err := unix.Mprotect(mapping[fence:fence+pages], unix.PROT_READ|unix.PROT_WRITE); err != nil {
		unix.Munmap(mapping)
		return nil, fmt.Errorf("the system has no memory for %d bytes: %w", pages, err)
	}
	begin := fence + pages - inside
	f := &fenced{mapping: mapping, memory: mapping[begin : begin+len(memory) : begin+len(memory)]}
	copy(f.memory, memory)
	return f, nil
}

// The last of the rows that lie far apart begins at least 2^farBits elements behind the first: an int
// does not hold its offset.
const (
	farBits     = 31
	mostFarRows = 16
)

// farRows are rows between addresses without access.
type farRows struct {
	mapping       []byte
	begin, length int // of the first row, in bytes
	stride, size  int // elements between rows, bytes of one
}

func newFarRows(a num.Array) (*farRows, error) {
	page := os.Getpagesize()
	f := &farRows{begin: fence, size: a.DType.Size(), length: a.Cols * a.DType.Size()}
	f.stride = (1<<farBits/(a.Rows-1)/page + 1) * page
	var err error
	total := 2*fence + (a.Rows-1)*f.stride*f.size + f.length
	if f.mapping, err = unix.Mmap(-1, 0, total, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE); err != nil {
		return nil, fmt.Errorf("the system has no addresses for rows that lie far apart: %w", err)
	}
	for r := range a.Rows {
		begin := f.begin + r*f.stride*f.size // of a page
		if err := unix.Mprotect(f.mapping[begin:begin+(f.length+page-1)/page*page], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			unix.Munmap(f.mapping)
			return nil, fmt.Errorf("the system has no memory for rows that lie far apart: %w", err)
		}
		copy(f.row(r), a.Row(r))
	}
	return f, nil
}

func (f *farRows) row(r int) []byte {
	begin := f.begin + r*f.stride*f.size
	return f.mapping[begin : begin+f.length : begin+f.length]
}
