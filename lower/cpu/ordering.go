package cpu

import (
	"math"
	"math/bits"
	"slices"
	"unsafe"
)

// OrderCode is machine code for orderings of rows of words of 32 bits.
type OrderCode interface {
	NewOrderer() Orderer // for one worker
	String() string      // lists the code

	// MostRanked returns up to how many columns it ranks rows faster than orderMemory: rows of which only a few of
	// the first elements matter, or others.
	MostRanked(fewMatter bool) int
}

// Orderer orders rows as orderMemory does, many in a call.
type Orderer interface {
	// Rank sets the ranks of rows of cols elements.
	Rank(rank []int32, x []float32, cols int)

	// Pack packs rows.
	Pack(p Packing)
}

// Packing describes rows that are packed: of each the values that are kept, by column, and then Fill.
type Packing struct {
	Keep      []int32   // rows of Cols elements, 0 or 1
	X         []float32 // as many rows of values, or one for all
	Cols      int
	Out       unsafe.Pointer // rows of Slots words
	OutStride int            // in bytes
	Slots     int            // at least 1
	Fill      uint32
}

// orderMemory is the memory with which a worker orders rows.
type orderMemory struct {
	entries, other []uint64 // a key in the upper half, a column in the lower
	counts         [4][256]uint32
	masses         [1 << digitBits]uint64
	slots, row     []float32
	code           Orderer // nil for none
}

// digitBits is the width of the digits by which a selection descends: 11, 11 and 10 bits.
const digitBits = 11

// orderKey returns a key that is smaller for elements that come first: 0 for NaN, then larger
// numbers before smaller ones, and one key for both zeros.
func orderKey(x float32) uint32 {
	b := math.Float32bits(x)
	switch {
	case x != x:
		return 0
	case x == 0:
		return 1 << 31
	}
	return b ^ math.MaxInt32&^uint32(int32(b)>>31) // no branch: signs are hard to predict
}

// load sets the entries of a row, in the order of columns.
func (m *orderMemory) load(x []float32) {
	m.entries = slices.Grow(m.entries[:0], len(x))[:len(x)]
	m.other = slices.Grow(m.other[:0], len(x))[:len(x)]
	for c, v := range x {
		m.entries[c] = uint64(orderKey(v))<<32 | uint64(uint32(c))
	}
}

// fewEntries is up to how many entries an insertion sort is faster.
const fewEntries = 24

// rank sets the rank of every element: its place among the sorted entries.
func (m *orderMemory) rank(rank []int32, x []float32) {
	m.load(x)
	if len(x) <= fewEntries {
		for i := 1; i < len(m.entries); i++ {
			v, k := m.entries[i], i
			for ; k > 0 && m.entries[k-1] > v; k-- {
				m.entries[k] = m.entries[k-1]
			}
			m.entries[k] = v
		}
	} else {
		m.sort()
	}
	for r, v := range m.entries {
		rank[uint32(v)] = int32(r)
	}
}

// isFew reports whether so few first elements of a row matter that it is not sorted.
func isFew(limit, cols int) bool { return limit <= min(cols/4, fewEntries) }

// rankBelow sets the ranks below a limit, and those of other elements to the largest number. It keeps the
// first entries that it has seen in order: a later one seldom comes before the last of them.
func (m *orderMemory) rankBelow(limit int, rank []int32, x []float32) {
	if !isFew(limit, len(x)) {
		m.rank(rank, x)
		return
	}
	for c := range rank {
		rank[c] = math.MaxInt32
	}
	if limit <= fewFirst && len(x) <= shortRow {
		rankFirst(limit, rank, x)
		return
	}
	first := slices.Grow(m.entries[:0], limit+1)
	for c, v := range x {
		e := uint64(orderKey(v))<<32 | uint64(uint32(c))
		if len(first) == limit {
			if limit == 0 || e > first[limit-1] {
				continue
			}
			first = first[:limit-1]
		}
		k := len(first)
		for first = first[:k+1]; k > 0 && first[k-1] > e; k-- {
			first[k] = first[k-1]
		}
		first[k] = e
	}
	for r, e := range first {
		rank[uint32(e)] = int32(r)
	}
	m.entries = first
}

// Up to how many first elements of how short a row rankFirst finds faster: a longer row has few elements
// that come before the last of those seen, which a branch skips.
const (
	fewFirst = 4
	shortRow = 64
)

// rankFirst sets the ranks below a limit of at most fewFirst. Every element passes by those that came
// first so far, in order, without a branch: which of two comes first is hard to predict.
func rankFirst(limit int, rank []int32, x []float32) {
	const last = math.MaxUint64
	a, b, c, d := uint64(last), uint64(last), uint64(last), uint64(last)
	for i, v := range x {
		e := uint64(orderKey(v))<<32 | uint64(uint32(i))
		a, e = min(a, e), max(a, e)
		b, e = min(b, e), max(b, e)
		c, e = min(c, e), max(c, e)
		d = min(d, e)
	}
	first := [fewFirst]uint64{a, b, c, d}
	for r, e := range first[:limit] {
		rank[uint32(e)] = int32(r)
	}
}

// sort sorts the entries by the four bytes of their keys, the lowest first. It is stable.
func (m *orderMemory) sort() {
	m.counts = [4][256]uint32{}
	for _, v := range m.entries {
		m.counts[0][uint8(v>>32)]++
		m.counts[1][uint8(v>>40)]++
		m.counts[2][uint8(v>>48)]++
		m.counts[3][uint8(v>>56)]++
	}
	for digit := range m.counts {
		shift := 32 + 8*digit
		count := &m.counts[digit]
		if count[uint8(m.entries[0]>>shift)] == uint32(len(m.entries)) {
			continue // all have the same
		}
		at := uint32(0)
		for d, n := range count {
			count[d] = at
			at += n
		}
		for _, v := range m.entries {
			d := uint8(v >> shift)
			m.other[count[d]] = v
			count[d]++
		}
		m.entries, m.other = m.other, m.entries
	}
}

// kth returns the column of the element of rank k.
func (m *orderMemory) kth(x []float32, k int) int32 {
	if k >= len(x)-1 { // the last of all, as without top-k
		last := uint64(0)
		for c, v := range x {
			last = max(last, uint64(orderKey(v))<<32|uint64(uint32(c)))
		}
		return int32(uint32(last))
	}
	m.load(x)
	return m.descend(uint64(max(0, min(k, len(x)-1)))+1, nil)
}

// nucleus returns the column of the last element that the share p of the masses e keeps.
func (m *orderMemory) nucleus(x, e []float32, p float32) int32 {
	var total uint64
	for _, v := range e {
		total += share(v, 1<<30)
	}
	if total == 0 { // less than the least limit: all are kept
		return m.kth(x, len(x)-1)
	}
	m.load(x)
	hi, lo := bits.Mul64(total, share(p, 1<<31))
	return m.descend(max(hi<<33|lo>>31, 1), e)
}

// share returns rint(unit·x) for x clamped to [0, 1]; NaN counts as 0. Products with powers of
// two are exact.
func share(x, unit float32) uint64 {
	if !(x > 0) {
		return 0
	}
	return uint64(math.RoundToEven(float64(min(x, 1) * unit)))
}

// massOf returns the mass of an entry, 1 where e is nil.
func massOf(e []float32, v uint64) uint64 {
	if e == nil {
		return 1
	}
	return share(e[uint32(v)], 1<<30)
}

// descend returns the column of the first entry, in their order, at which the sum of masses reaches
// the limit, which is at most their total. It narrows the entries to those with the digits of
// that one, and keeps them in the order of columns.
func (m *orderMemory) descend(limit uint64, e []float32) int32 {
	for _, shift := range [...]uint{53, 42, 32} {
		mask := uint64(1<<digitBits - 1)
		if shift == 32 {
			mask >>= 1
		}
		clear(m.masses[:])
		for _, v := range m.entries {
			m.masses[v>>shift&mask] += massOf(e, v)
		}
		chosen := uint64(0)
		for m.masses[chosen] < limit {
			limit -= m.masses[chosen]
			chosen++
		}
		kept := m.entries[:0]
		for _, v := range m.entries {
			if v>>shift&mask == chosen {
				kept = append(kept, v)
			}
		}
		m.entries = kept
	}
	for _, v := range m.entries {
		n := massOf(e, v)
		if n >= limit {
			return int32(uint32(v))
		}
		limit -= n
	}
	panic("cpu: a limit beyond the total mass")
}

// intoSlots puts the values that are kept into slots, by column, and fills the rest with −1 or +0.
func intoSlots(slots []float32, keep []int32, x []float32, isInt bool) {
	n := 0
	for c := 0; c < len(keep) && n < len(slots); c++ {
		slots[n] = x[c]
		n += int(keep[c]) // 0 or 1, without a branch: which are kept is hard to predict
	}
	clear(slots[n:])
	if isInt {
		for i := n; i < len(slots); i++ {
			ints(slots)[i] = -1
		}
	}
}

// fromSlots gives the values that are kept the slots, by column, and the others 0.
func fromSlots(out []float32, keep []int32, slots []float32) {
	clear(out)
	for c, k := range keep {
		if len(slots) == 0 {
			return
		}
		if k != 0 {
			out[c], slots = slots[0], slots[1:]
		}
	}
}
