// Package wave executes decoded instructions of AMD's GPUs, one wave at a time: the lanes of
// a wave take an instruction together, and a mask says which of them do.
//
// Translate turns a kernel's code into steps, once; a Group runs the waves of one work group.
// What the instructions do is written from AMD's documents of the instruction sets (RDNA 3,
// CDNA 2 and CDNA 3). An instruction that is not known is an error of Translate that names it.
package wave

import (
	"tokitai/device/gpu/amdemu/isa"
	"tokitai/device/gpu/amdemu/wave/valu"
)

// Register is one register of all lanes.
type Register = valu.Register

// Wave is the state of a wave.
type Wave struct {
	Lanes int // 32 or 64
	All   uint64

	V    []Register // VGPRs; of gfx9, AGPRs follow at AccumulatorBase
	S    [128]uint32
	VCC  uint64
	Exec uint64
	M0   uint32
	SCC  bool
	Mode Mode

	PC    int // number of the next instruction
	Done  bool
	Group *Group

	// For instructions whose result depends on where they run.
	Approximate *Approximation

	fault   error // ends the wave
	scratch [4]Register
}

// AccumulatorBase is the number of the register that is AGPR 0.
const AccumulatorBase = 256

// Mode is the part of the MODE register that arithmetic depends on.
type Mode = valu.Mode

// Step executes one instruction. A step that branches sets w.PC.
type Step func(w *Wave)

// Code is a translated kernel.
type Code struct {
	Family       isa.Family
	Instructions []isa.Instruction // for messages, beside the steps
	Steps        []Step
}

// Group is a work group: its waves, and the memory that they share.
type Group struct {
	LDS   []byte
	Waves []*Wave
}

// Approximation varies the results of instructions that AMD documents only within an error.
type Approximation = valu.Approximation
