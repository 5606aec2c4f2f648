package jit

import (
	"fmt"
	"sync"
	"unsafe"

	"tokitai/lower/cpu"
	. "tokitai/lower/cpu/asm/amd64"
	"tokitai/lower/cpu/machine"
)

// rankFrame is the argument of the code that ranks rows, which lie one after another. Each element is compared with
// all others: it has the rank
//
//	count of j < i with key[j] >= key[i], and of j > i with key[j] > key[i]
//
// where a key is an int32 in the order of the numbers, of which NaN has the largest. For integers key[j] >= key[i]
// is key[j] > key[i]-1.
type rankFrame struct {
	x, rank unsafe.Pointer
	keys    unsafe.Pointer // whole vectors, for one row
	rows    int            // at least 1
	sizes   rowSizes
}

// packFrame is the argument of the code that packs rows: slots 0, 1, ... of a row get its values in the columns
// that are kept, and the slots that are left get fill.
type packFrame struct {
	keep, x, out       unsafe.Pointer
	xStride, outStride int // in bytes
	rows               int // at least 1
	slots              int // at least 1
	fill               uint32
	sizes              rowSizes
}

// rowSizes describe rows of words of 32 bits.
type rowSizes struct {
	bytes  int       // of a row
	whole  int       // of its whole vectors
	padded int       // of as many vectors as hold it
	mask   uint64    // of the columns in the last vector, if it is not whole
	lanes  [8]uint32 // the same in words of all ones
}

func sizesOf(cols, lanes int) rowSizes {
	s := rowSizes{bytes: 4 * cols, whole: cols / lanes * lanes * 4, padded: (cols + lanes - 1) / lanes * lanes * 4, mask: 1<<(cols%lanes) - 1}
	for i := range min(cols%lanes, len(s.lanes)) {
		s.lanes[i] = 1<<32 - 1
	}
	return s
}

// orderCode is the code for orderings of rows: cpu.OrderCode. It does not depend on a definition.
type orderCode struct {
	code       *machine.Code
	rank, pack int // entries
	lanes      int
	listing    func() string
}

var orderCodes = map[machine.Set]func() (*orderCode, error){
	machine.AVX512: sync.OnceValues(func() (*orderCode, error) { return newOrderCode(true) }),
	machine.AVX2:   sync.OnceValues(func() (*orderCode, error) { return newOrderCode(false) }),
}

// orderCodeOf returns the code of an instruction set; nil if there is none.
func orderCodeOf(set machine.Set) (cpu.OrderCode, error) {
	compile := orderCodes[set]
	if compile == nil {
		return nil, nil
	}
	c, err := compile()
	if err != nil {
		return nil, fmt.Errorf("code for orderings of rows: %w", err)
	}
	return c, nil
}

// String lists the code.
func (c *orderCode) String() string { return c.listing() }

// NewOrderer implements cpu.OrderCode.
func (c *orderCode) NewOrderer() cpu.Orderer { return &orderer{c: c} }

// MostRanked implements cpu.OrderCode: 8 vectors, or 16 where rows would be sorted, as measured.
func (c *orderCode) MostRanked(fewMatter bool) int {
	if fewMatter {
		return 8 * c.lanes
	}
	return 16 * c.lanes
}

type orderer struct {
	c    *orderCode
	rank rankFrame
	pack packFrame
	keys []uint32
}

// Rank implements cpu.Orderer.
func (o *orderer) Rank(rank []int32, x []float32, cols int) {
	o.rank.sizes = sizesOf(cols, o.c.lanes)
	if n := o.rank.sizes.padded / 4; len(o.keys) < n {
		o.keys = make([]uint32, n)
	}
	o.rank.x, o.rank.rank, o.rank.keys = unsafe.Pointer(&x[0]), unsafe.Pointer(&rank[0]), unsafe.Pointer(&o.keys[0])
	o.rank.rows = len(x) / cols
	o.c.code.Call(o.c.rank, unsafe.Pointer(&o.rank))
	o.rank = rankFrame{}
}

// Pack implements cpu.Orderer.
func (o *orderer) Pack(p cpu.Packing) {
	o.pack = packFrame{
		keep: unsafe.Pointer(&p.Keep[0]), x: unsafe.Pointer(&p.X[0]), out: p.Out, outStride: p.OutStride,
		rows: len(p.Keep) / p.Cols, slots: p.Slots, fill: p.Fill, sizes: sizesOf(p.Cols, o.c.lanes),
	}
	if len(p.X) > p.Cols {
		o.pack.xStride = 4 * p.Cols
	}
	o.c.code.Call(o.c.pack, unsafe.Pointer(&o.pack))
	o.pack = packFrame{}
}

func newOrderCode(evex bool) (*orderCode, error) {
	g := &orderGenerator{Assembler: New(), width: Y, evex: evex}
	if g.VEXOnly = !evex; evex {
		g.width = Z
	}
	c := &orderCode{lanes: g.width.Bytes() / 4, listing: g.Listing}
	c.rank = g.ranks()
	g.Align(16)
	c.pack = g.packed()
	text, err := g.Finish()
	if err != nil {
		return nil, err
	}
	c.code, err = machine.Load(text)
	return c, err
}

// orderGenerator emits code for orderings. RDI is the frame throughout.
type orderGenerator struct {
	*Assembler
	width Width
	evex  bool
}

// Registers that hold the same throughout a function.
const (
	partOf = K1      // the mask of a last vector that is not whole
	partIn = Vec(15) // the same as a vector
	ones   = Vec(14)
)

func (g *orderGenerator) bytes() int32 { return int32(g.width.Bytes()) }

// constant returns a vector of words.
func (g *orderGenerator) constant(word func(lane int) uint32) Mem {
	var b []byte
	for i := range g.width.Bytes() / 4 {
		w := word(i)
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return g.Constant(b, g.width.Bytes())
}

func (g *orderGenerator) all(x uint32) Mem { return g.constant(func(int) uint32 { return x }) }

// masks loads partOf or partIn from the sizes at an offset of the frame.
func (g *orderGenerator) masks(sizes uintptr) {
	var s rowSizes
	if g.evex {
		g.K(KMOVQ, partOf, At(RDI, int32(sizes+unsafe.Offsetof(s.mask))))
		return
	}
	g.V(VMOVDQU, Y, partIn, At(RDI, int32(sizes+unsafe.Offsetof(s.lanes))))
}

// load loads a vector; of a part the other lanes are 0.
func (g *orderGenerator) load(v Vec, from Mem, isPart bool) {
	switch {
	case isPart && g.evex:
		g.V(VMOVDQU32, Z, v, from, Zero(partOf))
	case isPart:
		g.V(VPMASKMOVD, Y, v, partIn, from)
	default:
		g.V(VMOVUPS, g.width, v, from)
	}
}

func (g *orderGenerator) store(to Mem, v Vec, isPart bool) {
	switch {
	case isPart && g.evex:
		g.V(VMOVDQU32, Z, to, v, Merge(partOf))
	case isPart:
		g.V(VPMASKMOVD, Y, to, partIn, v)
	default:
		g.V(VMOVUPS, g.width, to, v)
	}
}

// vectors emits a loop over the vectors of a row; offset counts bytes. whole and padded hold these sizes.
func (g *orderGenerator) vectors(offset Reg, whole, padded Operand, body func(isPart bool)) {
	loop, last, end := g.Label(), g.Label(), g.Label()
	g.G(XOR, 32, offset, offset)
	g.Bind(loop)
	g.G(CMP, 64, offset, whole)
	g.J(AboveEqual, last)
	body(false)
	g.G(ADD, 64, offset, Imm(int64(g.bytes())))
	g.Jmp(loop)
	g.Bind(last)
	g.G(CMP, 64, offset, padded)
	g.J(AboveEqual, end)
	body(true)
	g.Bind(end)
}

// ranks emits the code for rankFrame and returns its entry.
func (g *orderGenerator) ranks() int {
	entry := g.Len()
	var f rankFrame
	sizes := unsafe.Offsetof(f.sizes)
	field := func(offset uintptr) Mem { return At(RDI, int32(offset)) }
	const x, rank, keys, rows, whole, padded, stride, at, other = RSI, RDX, RCX, R8, R9, R10, R11, RBX, RAX
	const key, before, first, second, least = Vec(0), Vec(1), Vec(2), Vec(3), Vec(4)
	g.Comment("ranks of rows")
	g.G(MOV, 64, x, field(unsafe.Offsetof(f.x)))
	g.G(MOV, 64, rank, field(unsafe.Offsetof(f.rank)))
	g.G(MOV, 64, keys, field(unsafe.Offsetof(f.keys)))
	g.G(MOV, 64, rows, field(unsafe.Offsetof(f.rows)))
	g.G(MOV, 64, whole, field(sizes+unsafe.Offsetof(f.sizes.whole)))
	g.G(MOV, 64, padded, field(sizes+unsafe.Offsetof(f.sizes.padded)))
	g.G(MOV, 64, stride, field(sizes+unsafe.Offsetof(f.sizes.bytes)))
	g.masks(sizes)
	g.V(VMOVUPS, g.width, ones, g.all(1<<32-1))

	row := g.Label()
	g.Align(16)
	g.Bind(row)
	g.vectors(at, whole, padded, func(isPart bool) {
		g.load(key, At(x, 0).Plus(at, 1), isPart)
		g.key(key, before)
		if isPart { // what is not there comes before nothing
			g.V(VMOVUPS, g.width, least, g.all(1<<31))
			if g.evex {
				g.V(VMOVDQA32, Z, least, key, Merge(partOf))
			} else {
				g.V(VBLENDVPS, Y, least, least, key, partIn)
			}
			g.store(At(keys, 0).Plus(at, 1), least, false)
			return
		}
		g.store(At(keys, 0).Plus(at, 1), key, false)
	})
	g.vectors(at, whole, padded, func(isPart bool) {
		g.V(VMOVUPS, g.width, key, At(keys, 0).Plus(at, 1))
		g.V(VPADDD, g.width, before, key, ones)
		g.V(VXORPS, X, first, first, first)
		g.V(VXORPS, X, second, second, second)
		lower, same, higher, end := g.Label(), g.Label(), g.Label(), g.Label()
		g.G(XOR, 32, other, other)
		g.Bind(lower)
		g.G(CMP, 64, other, at)
		g.J(AboveEqual, same)
		g.count(first, second, At(keys, 0).Plus(other, 1), func(int) Vec { return before })
		g.G(ADD, 64, other, Imm(int64(g.bytes())))
		g.Jmp(lower)
		g.Bind(same)
		g.count(first, second, At(keys, 0).Plus(other, 1), func(lane int) Vec {
			g.V(VPADDD, g.width, least, key, g.constant(func(i int) uint32 {
				if i > lane {
					return 1<<32 - 1
				}
				return 0
			}))
			return least
		})
		g.Bind(higher)
		g.G(ADD, 64, other, Imm(int64(g.bytes())))
		g.G(CMP, 64, other, padded)
		g.J(AboveEqual, end)
		g.count(first, second, At(keys, 0).Plus(other, 1), func(int) Vec { return key })
		g.Jmp(higher)
		g.Bind(end)
		g.V(VPADDD, g.width, first, first, second)
		g.store(At(rank, 0).Plus(at, 1), first, isPart)
	})
	g.G(ADD, 64, x, stride)
	g.G(ADD, 64, rank, stride)
	g.G(DEC, 64, rows)
	g.J(NotEqual, row)
	g.VZeroUpper()
	g.Ret()
	return entry
}

// key turns floats into keys: of a negative number all bits but the sign are inverted. Zeros are made +0 first.
func (g *orderGenerator) key(x, temp Vec) {
	const isNaN = Vec(5)
	g.V(VXORPS, X, temp, temp, temp)
	g.V(VADDPS, g.width, x, x, temp)
	if g.evex {
		g.V(VCMPPS, g.width, K2, x, x, Imm(3))
	} else {
		g.V(VCMPPS, g.width, isNaN, x, x, Imm(3))
	}
	g.V(VPSRAD, g.width, temp, x, Imm(31))
	g.V(VPSRLD, g.width, temp, temp, Imm(1))
	g.V(VXORPS, g.width, x, x, temp)
	g.V(VMOVUPS, g.width, temp, g.all(1<<31-1))
	if g.evex {
		g.V(VMOVDQA32, g.width, x, temp, Merge(K2))
	} else {
		g.V(VBLENDVPS, g.width, x, x, temp, isNaN)
	}
}

// count adds, in two sums by turns, for each key of a vector in memory whether it is larger than the lanes of limit.
func (g *orderGenerator) count(first, second Vec, keys Mem, limit func(lane int) Vec) {
	const less = 1
	for lane := range g.width.Bytes() / 4 {
		sum, one := first, Vec(6+lane%4)
		if lane%2 == 1 {
			sum = second
		}
		from := keys.Offset(int32(4 * lane))
		l := limit(lane)
		if g.evex {
			k := Mask(2 + lane%4)
			g.V(VPCMPD, Z, k, l, from.Broadcast(), Imm(less))
			g.V(VPSUBD, Z, sum, sum, ones, Merge(k))
			continue
		}
		g.V(VPBROADCASTD, Y, one, from)
		g.V(VPCMPGTD, Y, one, one, l)
		g.V(VPSUBD, Y, sum, sum, one)
	}
}

// packed emits the code for packFrame and returns its entry. It gathers up to 64 columns at a time as bits of
// which are kept, and then goes from bit to bit: a branch for each column would be hard to predict.
func (g *orderGenerator) packed() int {
	entry := g.Len()
	var f packFrame
	sizes := unsafe.Offsetof(f.sizes)
	field := func(offset uintptr) Mem { return At(RDI, int32(offset)) }
	const keep, x, out, slot, at, next, bits, shift, word, value = RSI, RDX, R10, R11, RBX, RAX, R13, R12, R8, R9
	slots, whole, padded := field(unsafe.Offsetof(f.slots)), field(sizes+unsafe.Offsetof(f.sizes.whole)), field(sizes+unsafe.Offsetof(f.sizes.padded))
	g.Comment("packs rows")
	g.G(MOV, 64, keep, field(unsafe.Offsetof(f.keep)))
	g.G(MOV, 64, x, field(unsafe.Offsetof(f.x)))
	g.G(MOV, 64, out, field(unsafe.Offsetof(f.out)))
	g.masks(sizes)

	row, group, vector, part, gathered, gather, bit, left, fill, end := g.Label(), g.Label(), g.Label(), g.Label(), g.Label(), g.Label(), g.Label(), g.Label(), g.Label(), g.Label()
	g.Align(16)
	g.Bind(row)
	g.G(XOR, 32, slot, slot)
	g.G(XOR, 32, next, next)
	g.Bind(group)
	g.G(MOV, 64, at, next)
	g.G(XOR, 32, bits, bits)
	g.G(XOR, 32, shift, shift)
	g.Bind(vector)
	g.G(CMP, 64, next, whole)
	g.J(AboveEqual, part)
	g.load(0, At(keep, 0).Plus(next, 1), false)
	g.Jmp(gather)
	g.Bind(part)
	g.load(0, At(keep, 0).Plus(next, 1), true)
	g.Bind(gather)
	if g.evex {
		g.V(VPTESTMD, Z, K2, Vec(0), Vec(0))
		g.K(KMOVW, word, K2)
	} else {
		g.V(VPSLLD, Y, Vec(0), Vec(0), Imm(31))
		g.V(VMOVMSKPS, Y, word, Vec(0))
	}
	g.G(SHLX, 64, word, word, shift)
	g.G(OR, 64, bits, word)
	g.G(ADD, 64, next, Imm(int64(g.bytes())))
	g.G(ADD, 64, shift, Imm(int64(g.bytes()/4)))
	g.G(CMP, 64, next, padded)
	g.J(AboveEqual, gathered)
	g.G(CMP, 64, shift, Imm(64))
	g.J(Below, vector)
	g.Bind(gathered)
	g.G(ADD, 64, at, x)
	g.G(TEST, 64, bits, bits)
	g.J(Equal, left)
	g.Bind(bit)
	g.G(TZCNT, 64, word, bits)
	g.G(MOV, 32, value, At(at, 0).Plus(word, 4))
	g.G(MOV, 32, At(out, 0).Plus(slot, 4), value)
	g.G(INC, 64, slot)
	g.G(CMP, 64, slot, slots)
	g.J(AboveEqual, end)
	g.G(LEA, 64, word, At(bits, -1))
	g.G(AND, 64, bits, word)
	g.J(NotEqual, bit)
	g.Bind(left)
	g.G(CMP, 64, next, padded)
	g.J(Below, group)
	g.G(MOV, 32, value, field(unsafe.Offsetof(f.fill)))
	g.Bind(fill)
	g.G(MOV, 32, At(out, 0).Plus(slot, 4), value)
	g.G(INC, 64, slot)
	g.G(CMP, 64, slot, slots)
	g.J(Below, fill)
	g.Bind(end)
	g.G(ADD, 64, keep, field(sizes+unsafe.Offsetof(f.sizes.bytes)))
	g.G(ADD, 64, x, field(unsafe.Offsetof(f.xStride)))
	g.G(ADD, 64, out, field(unsafe.Offsetof(f.outStride)))
	g.G(DEC, 64, field(unsafe.Offsetof(f.rows)))
	g.J(NotEqual, row)
	g.VZeroUpper()
	g.Ret()
	return entry
}
