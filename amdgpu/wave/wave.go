// Package wave executes decoded instructions of AMD's GPUs, one wave at a time: the lanes of
// a wave take an instruction together, and a mask says which of them do.
//
// Translate turns a kernel's code into steps, once. A Launch holds what the work groups of
// one launch share, and a Group runs one work group after the other. The semantics follow
// AMD's documents of the instruction sets (RDNA 3, CDNA 2 and CDNA 3); the arithmetic of
// vectors is package valu's. An instruction that is not known is an error of Translate that
// names it.
//
// Where hardware is lenient the package is strict: an access outside of allocated memory, of
// the work group's LDS or of a lane's private memory is a fault, as is a misaligned atomic.
// Not modelled are time, caches and the order of memory accesses within a wave: every access
// is complete when its instruction is, so a missing s_waitcnt goes unnoticed.
package wave

import (
	"sync"

	"tokitai/amdgpu/isa"
	"tokitai/amdgpu/valu"
)

// Register is one register of all lanes.
type Register = valu.Register

// Mode is the part of the MODE register that arithmetic depends on.
type Mode = valu.Mode

// Places in a wave's scalar registers. Those below 128 are the numbers that the encodings
// use, with gfx9's number of M0.
const (
	flatScratchAt = 102 // gfx9; a pair, as is the next
	xnackMaskAt   = 104 // gfx9
	vccAt         = 106 // a pair
	ttmpAt        = 108
	m0At          = 124
	execAt        = 126 // a pair
	discardAt     = 128 // 16 words: what is written to null
	conditionAt   = 144 // 4 pairs: scc, vccz and execz as operands, one for each operand
	ConstantsAt   = 152 // constants of the code, in words
)

// AccumulatorBase is the number of the register that is AGPR 0.
const AccumulatorBase = 256

// Wave is the state of a wave.
type Wave struct {
	Lanes  int
	All    uint64 // the mask of all lanes
	Number int    // in its group

	V []Register // VGPRs; AGPRs follow at AccumulatorBase

	// S holds the scalar registers: SGPRs at their numbers, then vcc, m0 and exec, then the
	// code's constants, so that every scalar operand is a place in S.
	S   []uint32
	SCC bool

	// Exec is the mask of the lanes that take the next instruction: S holds it too, and
	// SetExec sets both.
	Exec uint64

	PC    int // number of the next instruction
	Done  bool
	Group *Group

	Private []byte // private memory of all lanes, lane after lane

	call       valu.Call
	broadcasts []broadcast
	modeRest   uint32 // what the MODE register has besides Mode

	at        int // number of the instruction that is executed
	stopped   bool
	isWaiting bool // at a barrier
	fault     *Fault
	blocks    [16]Block // those that memory instructions used last
	temporary [12]Register
}

// Step executes one instruction. A step that branches sets w.PC.
type Step func(w *Wave)

// Code is a translated kernel.
type Code struct {
	Family       isa.Family
	Instructions []isa.Instruction // for messages, beside the steps
	Steps        []Step

	constants    []uint32
	registers    int            // VGPRs that the instructions name
	accumulators int            // AGPRs that the instructions name
	broadcasts   int            // scalar registers that vector instructions read
	numbers      map[uint64]int // of instructions by their offset
	groups       sync.Pool      // *Group of earlier launches
}

// Registers returns the numbers of VGPRs and of AGPRs that a kernel has to have: the highest
// that its instructions name, and one.
func (c *Code) Registers() (vector, accumulators int) { return c.registers, c.accumulators }

// SetExec sets the mask of the lanes that take the next instruction.
func (w *Wave) SetExec(mask uint64) {
	mask &= w.All
	w.Exec = mask
	w.S[execAt], w.S[execAt+1] = uint32(mask), uint32(mask>>32)
}

// loadExec brings Exec up to date after a scalar instruction wrote to it in S.
func (w *Wave) loadExec() { w.SetExec(w.pair(execAt)) }

// VCC returns the vector condition code.
func (w *Wave) VCC() uint64 { return w.pair(vccAt) & w.All }

// M0 returns the register m0.
func (w *Wave) M0() uint32 { return w.S[m0At] }

// pair returns the scalar registers i and i+1 as one number.
func (w *Wave) pair(i int) uint64 {
	s := w.S[i : i+2 : i+2]
	return uint64(s[0]) | uint64(s[1])<<32
}

// setPair sets the scalar registers i and i+1.
func (w *Wave) setPair(i int, v uint64) {
	s := w.S[i : i+2 : i+2]
	s[0], s[1] = uint32(v), uint32(v>>32)
}
