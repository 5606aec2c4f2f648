package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tokitai/def"
	"tokitai/device"
	"tokitai/lower"
	"tokitai/num"
)

// Lowering is one way to compute definitions on one kind of device. Anyone can write
// one and pass it to a call with the option [Using]; it is admitted like the others.
type Lowering struct {
	// Name is unique among the lowerings of a definition, such as cpu.rowwise. The
	// lowering's id in reports is the definition's name, a slash and this name.
	Name string

	// Device is the kind of device: cpu, cuda.
	Device string

	// Library names the library of a vendor that computes, such as cuBLASLt, and is "" for
	// this project's own code. Benchmarks measure a library beside the other lowerings.
	// OpenLibrary identifies it for reports.
	Library     string
	OpenLibrary func() (Compiler, error)

	// Promise is what the lowering claims about its results.
	Promise Promise

	// Factors lists the formats of the factors that a lowering of contractions multiplies; nil
	// stands for all that its accumulation rule takes.
	Factors []num.DType

	// Suits returns an error if the lowering cannot compute a call on a device, because of
	// the device's architecture, of formats, or of where operands lie. Calls that name no
	// lowering then pass it by, at each call: so it should allocate no memory. Nil stands for
	// a function that returns nil.
	Suits func(dev device.Device, d *def.Definition, c *lower.Call) error

	// Grain is a number of elements. Calls whose matrices have rows and columns in multiples of
	// it, and operands that begin and lie apart by multiples of it, suit the lowering as far
	// as sizes and addresses go: those are what verification runs. 0 stands for 1.
	Grain int

	// Yields reports whether a call that names no lowering passes this one by because a later
	// one is faster. Nil stands for a function that returns false.
	Yields func(d *def.Definition, c *lower.Call) bool

	// Class divides calls into those that share a compiled kernel. Nil puts all into
	// class 0.
	Class func(d *def.Definition, c *lower.Call) int

	// ClassesOfSpeed says that the kernel of every class computes all calls, and that the
	// classes differ in speed alone. Each kernel then has to pass all self-tests, not only
	// those of its class, which may be too large for a self-test.
	ClassesOfSpeed bool

	// Origin says where a kernel of somebody else's comes from, for reports: a command line, or
	// a file with its SHA-256. It is called when the lowering has run. Nil stands for this
	// project's own code, or a library's.
	Origin func() string

	// Renews says that the lowering's kernels are Renewers.
	Renews bool

	// Compile returns the kernel of a class for a device, or an error if the lowering does
	// not apply.
	Compile func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (Kernel, error)
}

// Takes returns an error if d is a contraction whose operands, stored in the given formats,
// the lowering cannot multiply.
func (l *Lowering) Takes(d *def.Definition, dtypes []num.DType) error {
	switch {
	case !d.Multiplies():
		return nil
	case d.IsExact() && !l.Promise.IsBits():
		return fmt.Errorf("%s promises %s, and results are exact, want promise bits", l.Name, l.Promise.Named())
	case l.Factors != nil && !slices.Contains(l.Factors, dtypes[0]):
		return fmt.Errorf("%s multiplies %v, got %s", l.Name, l.Factors, dtypes[0])
	}
	return l.Promise.Accum.Takes(dtypes[0])
}

// ID returns the lowering's id for a definition.
func (l *Lowering) ID(d *def.Definition) string { return d.Name + "/" + l.Name }

// IsNamed reports whether a name is the lowering's: its name with or without the kind of
// device (cuda.cublaslt, cublaslt), or its id for d.
func (l *Lowering) IsNamed(name string, d *def.Definition) bool {
	return name == l.Name || l.Device+"."+name == l.Name || name == l.ID(d)
}

// Kernel is a compiled lowering.
type Kernel interface {
	// Launch computes on a queue. It is safe for concurrent use and retains nothing of
	// its argument.
	Launch(l *Launch) error
}

// KernelFunc adapts a function to a Kernel.
type KernelFunc func(l *Launch) error

// Launch implements Kernel.
func (f KernelFunc) Launch(l *Launch) error { return f(l) }

// Renewer is a Kernel that runs in a process of its own.
type Renewer interface {
	Kernel

	// Renew runs the next launch in a process that has seen nothing and ends after it. Later
	// launches run where earlier ones did.
	Renew()

	// Waited returns the time that launches have waited so far for processes to start and to answer
	// their first call, in which many compile something. A wait in progress counts.
	Waited() time.Duration
}

// Isolator is a Kernel that may share a process with other kernels.
type Isolator interface {
	Kernel

	// Isolate has all launches run in a process that no other kernel uses. It does nothing after the
	// first launch.
	Isolate()
}

// IndexChecker is a Kernel that can itself reject indices out of range, where the host
// cannot read them.
type IndexChecker interface {
	Kernel

	// LaunchChecked is Launch for a call with indices that nobody has checked. If one is
	// out of range it writes nothing, and waiting for the queue returns an [IndexError].
	LaunchChecked(l *Launch) error
}

// ManyLauncher is a Kernel that can compute many calls together, faster than one by one.
// [CallAll] uses it for calls that do not depend on each other, with operands in memory that
// the host cannot address. It must give the bits that Launch gives for each call, and is
// tested for that before its first use.
type ManyLauncher interface {
	Kernel

	// Joins reports whether LaunchMany takes a call.
	Joins(c *lower.Call) bool

	// LaunchMany computes calls on one queue. None writes what another reads or writes. It
	// is safe for concurrent use and retains nothing of its argument.
	LaunchMany(ls []*Launch) error
}

// Sequenced is a Kernel that a [Recording] may join with others in a [device.Sequence]. It
// launches other kernels anew in every run.
type Sequenced interface {
	Kernel

	// SubmitsAll reports whether all that Launch does is to submit work to the launch's
	// queue, always the same but for parameters of the definition.
	SubmitsAll() bool
}

// Compiled is a Kernel that was compiled when it was first needed.
type Compiled interface {
	Kernel

	// Artifacts returns the SHA-256 of its programs, in hexadecimal.
	Artifacts() []string
}

// Chooser is a Kernel that chooses an algorithm for each call, as libraries of vendors do.
type Chooser interface {
	Kernel

	// Choice returns the algorithm for a call.
	Choice(c *lower.Call) (Choice, error)
}

// Choice is the algorithm that a library chose for a call.
type Choice struct {
	Algorithm string // by the library's own numbers
	Parts     int    // into which it divides a sum; 1 for a whole sum
}

// Launch is one execution of a kernel.
type Launch struct {
	lower.Call
	Buffers []device.Buffer // that the operands lie in, in the order of the definition
	Context context.Context
	Device  device.Device
	Queue   device.Queue
	arrays  []num.Array
}

// Arrays returns the operands in memory that the host can address. Other devices' operands
// have no Data; see [lower.Operand].
func (l *Launch) Arrays() []num.Array {
	l.arrays = l.arrays[:0]
	for i := range l.Operands {
		l.arrays = append(l.arrays, l.Operands[i].Array)
	}
	return l.arrays
}
