package peers

import (
	"runtime"
	"sync"
	"unsafe"

	"tokitai/lower/cpu/asm/amd64"
	"tokitai/lower/cpu/machine"
)

// mover moves memory as fast as the processor can: with wide registers, prefetched, and
// past the caches where memory is only written. Without code for this processor it moves
// it in Go.
type mover struct {
	code                             *machine.Code
	copyAt, updateAt, readAt, fillAt int
}

// moved is the frame of the mover's code.
type moved struct {
	to, from unsafe.Pointer
	bytes    int // a multiple of block
}

const block = 256

// theMover returns the mover for this processor.
var theMover = sync.OnceValue(func() *mover {
	m := &mover{}
	if set := machine.Available()[0]; runtime.GOARCH == "amd64" && set >= machine.AVX2 {
		m.generate(set)
	}
	return m
})

// generate makes the code. Where it cannot, Go moves.
func (m *mover) generate(set machine.Set) {
	a := amd64.New()
	a.VEXOnly = set != machine.AVX512
	width := amd64.Z
	if a.VEXOnly {
		width = amd64.Y
	}
	const (
		ahead = 16 * block
		none  = amd64.RAX // nothing is prefetched
	)
	loop := func(body func(at int32, v amd64.Vec), reads amd64.Reg) int {
		a.Align(16)
		start := a.Len()
		a.G(amd64.MOV, 64, amd64.RDX, amd64.At(amd64.RDI, int32(unsafe.Offsetof(moved{}.to))))
		a.G(amd64.MOV, 64, amd64.RSI, amd64.At(amd64.RDI, int32(unsafe.Offsetof(moved{}.from))))
		a.G(amd64.MOV, 64, amd64.RCX, amd64.At(amd64.RDI, int32(unsafe.Offsetof(moved{}.bytes))))
		again := a.Label()
		a.Bind(again)
		for at := int32(0); at < block && reads != none; at += 64 {
			a.G(amd64.PREFETCHT0, 8, amd64.At(reads, ahead+at))
		}
		for at, v := int32(0), amd64.Vec(0); at < block; at, v = at+int32(width.Bytes()), v+1 {
			body(at, v)
		}
		a.G(amd64.ADD, 64, amd64.RDX, amd64.Imm(block))
		a.G(amd64.ADD, 64, amd64.RSI, amd64.Imm(block))
		a.G(amd64.SUB, 64, amd64.RCX, amd64.Imm(block))
		a.J(amd64.NotEqual, again)
		a.SFence()
		a.VZeroUpper()
		a.Ret()
		return start
	}
	m.copyAt = loop(func(at int32, v amd64.Vec) {
		a.V(amd64.VMOVUPS, width, v, amd64.At(amd64.RSI, at))
		a.V(amd64.VMOVNTPS, width, amd64.At(amd64.RDX, at), v)
	}, amd64.RSI)
	m.updateAt = loop(func(at int32, v amd64.Vec) {
		a.V(amd64.VMOVUPS, width, v, amd64.At(amd64.RDX, at))
		a.V(amd64.VMOVUPS, width, amd64.At(amd64.RDX, at), v)
	}, amd64.RDX)
	m.readAt = loop(func(at int32, v amd64.Vec) { a.V(amd64.VMOVUPS, width, v, amd64.At(amd64.RSI, at)) }, amd64.RSI)
	m.fillAt = loop(func(at int32, v amd64.Vec) {
		a.V(amd64.VXORPS, width, v, v, v)
		a.V(amd64.VMOVNTPS, width, amd64.At(amd64.RDX, at), v)
	}, none)
	code, err := a.Finish()
	if err != nil {
		return
	}
	m.code, _ = machine.Load(code)
}

// call runs the code on whole blocks of aligned memory, and returns how many bytes these
// have.
func (m *mover) call(offset int, to, from []byte, n int) int {
	const aligned = 64
	if n -= n % block; m.code == nil || n == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(to)))%aligned != 0 {
		return 0
	}
	frame := moved{unsafe.Pointer(unsafe.SliceData(to)), unsafe.Pointer(unsafe.SliceData(from)), n}
	m.code.Call(offset, unsafe.Pointer(&frame))
	runtime.KeepAlive(&frame)
	return n
}

// copy copies memory that is not read again soon.
func (m *mover) copy(to, from []byte) {
	done := m.call(m.copyAt, to, from, len(to))
	copy(to[done:], from[done:])
}

// update reads memory and writes it back.
func (m *mover) update(memory []byte) {
	rest := words(memory[m.call(m.updateAt, memory, nil, len(memory)):])
	for i := range rest {
		rest[i] ^= unchanged
	}
}

// unchanged is 0, which the compiler does not know.
var unchanged uint64

// read reads memory.
func (m *mover) read(memory []byte) {
	sum := uint64(0)
	for _, w := range words(memory[m.call(m.readAt, nil, memory, len(memory)):]) {
		sum += w
	}
	runtime.KeepAlive(sum)
}

// fill sets memory to zeros.
func (m *mover) fill(memory []byte) {
	clear(memory[m.call(m.fillAt, memory, nil, len(memory)):])
}

// words returns memory as 64-bit words, without a rest of less than one. Buffers are
// aligned to more than that.
func words(memory []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/8)
}
