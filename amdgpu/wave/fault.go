package wave

import (
	"fmt"

	"tokitai/amdgpu/isa"
)

// Fault is an error of an executed instruction.
type Fault struct {
	Instruction isa.Instruction
	Group       [3]uint32
	Wave        int // in its group
	Lane        int // -1 where the fault is not a lane's
	Err         error
}

func (f *Fault) Error() string {
	lane := ""
	if f.Lane >= 0 {
		lane = fmt.Sprintf(", lane %d", f.Lane)
	}
	return fmt.Sprintf("%s at offset %#x, group (%d,%d,%d), wave %d%s: %v", f.Instruction, f.Instruction.Offset,
		f.Group[0], f.Group[1], f.Group[2], f.Wave, lane, f.Err)
}

func (f *Fault) Unwrap() error { return f.Err }

// AccessError reports an access outside of memory.
type AccessError struct {
	Space   string // "global", "LDS" or "private"
	IsWrite bool
	Address uint64 // in its space
	Bytes   int
	Reason  string
}

func (e *AccessError) Error() string {
	verb := "reads"
	if e.IsWrite {
		verb = "writes"
	}
	return fmt.Sprintf("%s %d bytes at %s address %#x: %s", verb, e.Bytes, e.Space, e.Address, e.Reason)
}

// BudgetError reports a launch that executed as many instructions as it may.
type BudgetError struct{ Limit int64 }

func (e *BudgetError) Error() string {
	return fmt.Sprintf("the launch has executed %d instructions, its budget", e.Limit)
}

// fail ends the wave with a fault of the current instruction. The first fault counts.
func (w *Wave) fail(lane int, err error) {
	w.stopped = true
	if w.fault != nil {
		return
	}
	w.fault = &Fault{Group: w.Group.ID, Wave: w.Number, Lane: lane, Err: err}
	if at := w.Group.launch.Code.Instructions; w.at < len(at) {
		w.fault.Instruction = at[w.at]
	}
}
