package gpu

import (
	"encoding/binary"
	"slices"

	"tokitai/lower"
)

// Plan is the sequence of launches that computes a definition once. A Plan that is reused
// keeps its memory, so that planning allocates nothing.
type Plan struct {
	Launches     []Launch
	ScratchBytes int64   // of scratch memory, aligned to 256 bytes
	Checks       []Check // of the checking pass, if any: each has a word of eight bytes
	Maps         []Map   // that the driver encodes into the parameters
	Table        []byte  // read by the kernels of many calls; aligned to 16 bytes

	firstEntry int             // of the stage that is planned
	values     []lower.Operand // between stages
	part       lower.Call      // of a stage, or of a product
	ends       endsCall

	places   []place
	inTable  []place // parameters that are addresses in the table
	many     manyPlan
	binding  binding
	products lower.Products
}

// Launch is one launch of an entry.
type Launch struct {
	Entry       int // index into Source.Entries
	Grid, Block [3]uint32
	Shared      uint32 // bytes of dynamic shared memory
	Params      []byte // the kernel's one parameter, a struct
	IsEarly     bool   // may start before the launch before it has ended, for which it waits itself
}

// Map is a tensor map among the parameters of a launch.
type Map struct {
	Launch, At int // the launch, and where the map's bytes begin in its parameters
	Tensor     TensorMap
}

// MapBytes is the size of an encoded tensor map. Its alignment is 64.
const MapBytes = 128

// TensorMap is a tensor that a kernel copies in boxes. The first dimension is contiguous,
// and a box has 128 or 64 bytes of it.
type TensorMap struct {
	Address      uint64
	ElementBytes int
	Rank         int
	Sizes        [5]uint64
	Strides      [4]uint64 // in bytes, of all dimensions but the first
	Box          [5]uint32 // in elements
}

// place is a parameter of a launch that is an address in scratch memory or of a check's
// word.
type place struct {
	launch, at int // or an offset in the table, if launch is ofTable
	isWord     bool
	offset     int64
}

// ofTable stands for a launch where a place is in the table.
const ofTable = -1

// Place completes the parameters with the addresses of the scratch memory and of the words
// of the checks.
func (p *Plan) Place(scratch, words uint64) {
	for i := range p.places {
		at := &p.places[i]
		base := scratch
		if at.isWord {
			base = words
		}
		in := p.Table
		if at.launch != ofTable {
			in = p.Launches[at.launch].Params
		}
		binary.LittleEndian.PutUint64(in[at.at:], base+uint64(at.offset))
	}
}

// PlaceTable completes the parameters with the address at which the kernels will find the
// table, and returns the table.
func (p *Plan) PlaceTable(address uint64) []byte {
	for i := range p.inTable {
		at := &p.inTable[i]
		binary.LittleEndian.PutUint64(p.Launches[at.launch].Params[at.at:], address+uint64(at.offset))
	}
	return p.Table
}

func (p *Plan) reset() {
	p.Launches, p.places, p.Checks, p.Maps, p.ScratchBytes = p.Launches[:0], p.places[:0], p.Checks[:0], p.Maps[:0], 0
	p.Table, p.inTable = p.Table[:0], p.inTable[:0]
}

// reserve reserves scratch memory and returns its offset.
func (p *Plan) reserve(words int) int64 {
	at := p.ScratchBytes
	p.ScratchBytes += (4*int64(words) + 255) / 256 * 256
	return at
}

// launch begins a launch. Its parameters follow, in the order of the kernel's struct.
func (p *Plan) launch(entry int, grid, block [3]uint32, shared int) {
	n := len(p.Launches)
	p.Launches = slices.Grow(p.Launches, 1)[:n+1]
	l := &p.Launches[n]
	l.Entry, l.Grid, l.Block, l.Shared, l.Params, l.IsEarly = p.firstEntry+entry, grid, block, uint32(shared), l.Params[:0], false
}

// last returns the launch that is being filled in.
func (p *Plan) last() *Launch { return &p.Launches[len(p.Launches)-1] }

func (p *Plan) word(v uint64) {
	l := p.last()
	l.Params = binary.LittleEndian.AppendUint64(l.Params, v)
}

func (p *Plan) half(v uint32) {
	l := p.last()
	l.Params = binary.LittleEndian.AppendUint32(l.Params, v)
}

// scratch adds the address of reserved memory.
func (p *Plan) scratch(offset int64) {
	p.places = append(p.places, place{launch: len(p.Launches) - 1, at: len(p.last().Params), offset: offset})
	p.word(0)
}

// status adds the address of a check's word.
func (p *Plan) status(check int) {
	p.places = append(p.places, place{launch: len(p.Launches) - 1, at: len(p.last().Params), isWord: true, offset: 8 * int64(check)})
	p.word(0)
}

// refused adds the address of the checks' words, or null if there is no checking pass.
func (p *Plan) refused() {
	if len(p.Checks) > 0 {
		p.status(0)
	} else {
		p.word(0)
	}
}

func (p *Plan) pointers(values ...uint64) {
	for _, v := range values {
		p.word(v)
	}
}

func (p *Plan) scratches(offsets ...int64) {
	for _, o := range offsets {
		p.scratch(o)
	}
}

func (p *Plan) ints(values ...int) {
	for _, v := range values {
		p.word(uint64(v))
	}
}

// bools adds bools as int32; they come in pairs.
func (p *Plan) bools(values ...bool) {
	for _, v := range values {
		n := uint32(0)
		if v {
			n = 1
		}
		p.half(n)
	}
}

// tensorMap adds a tensor map.
func (p *Plan) tensorMap(m *TensorMap) {
	l := p.last()
	p.Maps = append(p.Maps, Map{len(p.Launches) - 1, len(l.Params), *m})
	p.pad(MapBytes)
}

// pad adds zeros.
func (p *Plan) pad(bytes int) {
	l := p.last()
	l.Params = append(l.Params, make([]byte, bytes)...)
}

// align pads the parameters to a multiple of bytes, a power of two, as the compiler pads a struct.
func (p *Plan) align(bytes int) {
	p.pad(-len(p.last().Params) & (bytes - 1))
}
