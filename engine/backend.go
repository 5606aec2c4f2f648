package engine

import (
	"crypto/sha256"
	"slices"

	"tokitai/def"
	"tokitai/device"
	"tokitai/num"
)

// Backend lists the ways to compute on one kind of device. It is all that this package
// knows of processors and GPUs. Each folder below backend makes one; backend/all lists them.
type Backend interface {
	// Kind returns the kind of the devices, with which their names begin: cpu, cuda.
	Kind() string

	// Preferred returns the lowerings for a definition that a call may choose, best
	// first. Nothing is timed, so that bits never depend on timing.
	Preferred(*def.Definition) []*Lowering

	// OnDemand returns the lowerings for a definition that only a name chooses.
	OnDemand(*def.Definition) []*Lowering
}

// Device is a device that brings its backend with it.
type Device interface {
	device.Device

	// Backend returns the backend that the device belongs to. It is always the same.
	Backend() Backend

	// Compiler returns what compiles kernels for the device when they are first needed;
	// nil if kernels are part of the program.
	Compiler() (Compiler, error)
}

// Compiler identifies a compiler that a backend runs.
type Compiler interface {
	// String returns name and version, such as "NVRTC 13.0".
	String() string

	// Path returns the file that it was loaded from.
	Path() string

	// Options returns all options that kernels are compiled with.
	Options() []string

	// Hash returns the hash of the compiler's files. With the same hash, a source compiles
	// to the same program, bit for bit.
	Hash() ([sha256.Size]byte, error)
}

// Lowerings returns the lowerings of a backend that a call of d may name, preferred ones
// first: those that take the operands in at least one choice of formats.
func Lowerings(b Backend, d *def.Definition) []*Lowering {
	return slices.DeleteFunc(slices.Concat(b.Preferred(d), b.OnDemand(d)), func(l *Lowering) bool {
		return !slices.ContainsFunc(d.Formats(), func(dtypes []num.DType) bool { return l.Takes(d, dtypes) == nil })
	})
}
