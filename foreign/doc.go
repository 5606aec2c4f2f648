// Package foreign runs kernels that were written elsewhere, in any language, as lowerings
// that verify can judge.
//
// A [Kernel] comes from a program that answers calls over a socket ([Process], in process.go,
// pool.go and session.go), from one that is run for each call on files ([Files], in files.go),
// from a function in a shared library ([Library], in library.go), or from a source in CUDA C++
// or HIP ([Source], in source.go; launch.go parses how it is launched, and the dialects say how
// it is compiled); or it has been run already, and its outputs are given ([Given], in given.go).
// Whatever it is, verify sees a lowering like any other: it is given operands in memory of its
// own, and the results are compared with the definition's.
//
// The package runs the kernels that it is given for the definitions that it is given. It
// knows no operation and judges nothing. Start with [Kernel].
package foreign

import (
	"cmp"
	"io"
	"time"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/promise"
)

// Kernel is a kernel that was written elsewhere, as a lowering that can be judged.
type Kernel struct {
	// Lowering has a name, a device and Compile. What it promises is the caller's to set.
	Lowering *engine.Lowering

	Source string // what it is, for reports: the command line, or the file with its SHA-256
	Device string // where it runs, as backends.Open takes it: cpu for processes, files and libraries

	// Overhead is how much longer than the deadline of a call a launch may take, as to start a
	// process.
	Overhead time.Duration

	DTypes []num.DType // formats that it takes; nil for all that the definition has

	// Close ends processes and frees libraries. The lowering cannot be used any more.
	Close func() error
}

// Options say for what a kernel is opened, and under which limits.
type Options struct {
	Definition *def.Definition

	// Seed is what the numbers are drawn from that a kernel gets in TOKITAI_SEED.
	Seed uint64

	Deadline    time.Duration // of one call, and of the start of a process; 0 is a minute
	Stderr      io.Writer     // gets a copy of what the kernel writes to standard error; nil for none
	Environment []string      // variables that the kernel gets besides those of this process

	IsStrided bool // of libraries: rows may have gaps between them

	// Of sources: the device, what opens it, and the formats to compile for; nil is all.
	Device string
	Open   func(name string) (engine.Device, error)
	DTypes []num.DType
}

// promising returns a lowering that promises stable, or bits where results are exact.
func (o *Options) promising(l engine.Lowering) *engine.Lowering {
	if !o.Definition.IsExact() {
		l.Promise.Name = promise.Stable
	}
	return &l
}

func (o *Options) deadline() time.Duration { return cmp.Or(o.Deadline, time.Minute) }
