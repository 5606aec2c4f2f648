package gpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"tokitai/lower"
	"tokitai/num"
)

// manyPlan is memory for planning many calls.
type manyPlan struct {
	blocks []uint32  // of every call, or of every row of sums
	sums   []sumsOf  // of every call
	rows   []rowsOut // of sums that are added up next
}

// sumsOf says where a call's sums of flat rows are, in scratch memory.
type sumsOf struct {
	first, last           int64 // where those of the first and of the last level are
	firstCount, lastCount int   // of each sum; the last are at most lastSums
}

// rowsOut is a sum of sums.
type rowsOut struct {
	in, out       int64
	length, count int
}

// Plan replaces p by the launches that compute calls, which must not depend on each other.
// Each of them joins (see [Many.Joins]).
func (m *Many) Plan(p *Plan, calls []*lower.Call) error {
	p.reset()
	k, a := m.k, &p.many
	if len(calls) == 0 {
		return nil
	}
	if len(k.totalSums) > 0 {
		m.planSums(p, calls)
	}
	a.blocks = resized(a.blocks, len(calls))
	for i, c := range calls {
		if err := k.bind(&p.binding, c); err != nil {
			return err
		}
		if p.binding.hasRows {
			return fmt.Errorf("%s: got strided rows, want contiguous operands for many calls", k.d.Name)
		}
		if len(k.totalSums) > 0 {
			s := &a.sums[i]
			p.binding.totalsOut, p.binding.totalCount, p.binding.totalsIn = s.first, s.firstCount, s.last
			p.binding.totalLength = s.lastCount
		}
		k.packTable(p)
	}
	p.binding = binding{}
	if m.totalFlat >= 0 {
		for i := range a.blocks {
			a.blocks[i] = uint32(a.sums[i].firstCount)
		}
		if err := m.launch(p, m.totalFlat, 0, 1, 1024); err != nil {
			return err
		}
		if err := m.addUp(p, len(calls)); err != nil {
			return err
		}
	}
	if m.flat >= 0 {
		a.blocks = resized(a.blocks, len(calls))
		for i, c := range calls {
			a.blocks[i] = uint32(min(blocksOf(c.Rows*c.Cols, manyElements), math.MaxUint32))
		}
		if err := m.launch(p, m.flat, 0, 1, 256); err != nil {
			return err
		}
	}
	if m.scalars >= 0 {
		blocks := uint64(blocksOf(len(calls), 8))
		p.launchMany(m.scalars, blocks, 1, 256, tableIndex{}, len(calls)) // which needs no index
	}
	return nil
}

// planSums reserves the scratch memory of all levels of sums.
func (m *Many) planSums(p *Plan, calls []*lower.Call) {
	a, n := &p.many, len(m.k.totalSums)
	a.sums = resized(a.sums, len(calls))
	words := 0
	place := func(count int) int64 {
		words += n * count
		return p.ScratchBytes + 4*int64(words-n*count)
	}
	for i, c := range calls {
		s := &a.sums[i]
		s.firstCount = blocksOf(c.Rows*c.Cols, num.FlatRow)
		s.first = place(s.firstCount)
		s.last, s.lastCount = s.first, s.firstCount
		for s.lastCount > lastSums {
			s.lastCount = blocksOf(s.lastCount, num.FlatRow)
			s.last = place(s.lastCount)
		}
	}
	p.reserve(words)
}

// addUp launches the sums of sums, level by level: those of all calls that have more than
// lastSums.
func (m *Many) addUp(p *Plan, calls int) error {
	a, n := &p.many, len(m.k.totalSums)
	for level := 0; ; level++ {
		a.rows = a.rows[:0]
		for i := range calls {
			s := &a.sums[i]
			in, length := s.first, s.firstCount
			for range level {
				if length <= lastSums {
					break
				}
				in, length = in+4*int64(n*length), blocksOf(length, num.FlatRow)
			}
			if length > lastSums {
				a.rows = append(a.rows, rowsOut{in: in, out: in + 4*int64(n*length), length: length, count: blocksOf(length, num.FlatRow)})
			}
		}
		if len(a.rows) == 0 {
			return nil
		}
		at := len(p.Table)
		a.blocks = resized(a.blocks, len(a.rows))
		for i := range a.rows {
			r := &a.rows[i]
			p.tableScratch(r.in)
			p.tableScratch(r.out)
			p.Table = binary.LittleEndian.AppendUint64(p.Table, uint64(r.length))
			p.Table = binary.LittleEndian.AppendUint64(p.Table, uint64(r.count))
			a.blocks[i] = uint32(r.count)
		}
		if err := m.launch(p, m.totalNext, at, n, 1024); err != nil {
			return err
		}
	}
}

// packTable adds a call's parameters to the table, in the layout of the kernels' struct.
func (k *rowwise) packTable(p *Plan) {
	b, begin := &p.binding, len(p.Table)
	p.Table = slices.Grow(p.Table, k.paramBytes)[:begin+k.paramBytes]
	to := p.Table[begin:]
	at := 0
	for i := range k.fields {
		f := &k.fields[i]
		if f.bytes == 8 {
			if f.kind == scratchField {
				p.places = append(p.places, place{launch: ofTable, at: begin + at, offset: int64(f.value(b))})
			}
			binary.LittleEndian.PutUint64(to[at:], f.of(b))
		} else {
			binary.LittleEndian.PutUint32(to[at:], uint32(f.of(b)))
		}
		at += f.bytes
	}
}

// tableScratch adds the address of reserved memory to the table.
func (p *Plan) tableScratch(offset int64) {
	p.places = append(p.places, place{launch: ofTable, at: len(p.Table), offset: offset})
	p.Table = binary.LittleEndian.AppendUint64(p.Table, 0)
}

// maxHints is how many entries the hints of an index have, at most. With more, a block
// searches among fewer calls; with fewer, the table is smaller.
const maxHints = 2048

// launch launches a kernel of calls, or of rows of sums, that have so many blocks each, and
// are at an offset in the table. It adds their index to the table.
func (m *Many) launch(p *Plan, entry, at, y, threads int) error {
	blocks := p.many.blocks
	first := len(p.Table)
	total := uint64(0)
	for _, n := range blocks {
		p.Table = binary.LittleEndian.AppendUint32(p.Table, uint32(total))
		total += uint64(n)
	}
	if total > math.MaxInt32 {
		return fmt.Errorf("%s: got calls of %d blocks together, want at most %d", m.k.d.Name, total, math.MaxInt32)
	}
	shift := 0
	for total>>shift >= m.maxHints {
		shift++
	}
	hints := len(p.Table)
	call, begins := 0, uint64(0) // the first block of that call
	for block := uint64(0); block < total; block += 1 << shift {
		for block >= begins+uint64(blocks[call]) {
			begins += uint64(blocks[call])
			call++
		}
		p.Table = binary.LittleEndian.AppendUint32(p.Table, uint32(call))
	}
	p.Table = binary.LittleEndian.AppendUint32(p.Table, uint32(len(blocks)-1))
	for len(p.Table)%8 != 0 {
		p.Table = append(p.Table, 0)
	}
	p.launchMany(entry, total, y, threads, tableIndex{at, first, hints, shift}, len(blocks))
	return nil
}

// tableIndex says where in the table calls and their index are.
type tableIndex struct{ calls, first, hints, shift int }

// launchMany launches a kernel of many calls.
func (p *Plan) launchMany(entry int, blocks uint64, y, threads int, t tableIndex, calls int) {
	p.launch(entry, [3]uint32{uint32(min(blocks, maxGrid)), uint32(y), 1}, [3]uint32{uint32(threads), 1, 1}, 0)
	for _, offset := range [...]int{t.calls, t.first, t.hints} {
		p.inTable = append(p.inTable, place{launch: len(p.Launches) - 1, at: len(p.last().Params), offset: int64(offset)})
		p.word(0)
	}
	p.half(uint32(calls))
	p.half(uint32(blocks))
	p.half(uint32(t.shift))
	p.half(0)
}

// resized returns a list of n elements with anything in them, in the memory of s if that
// is enough.
func resized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
