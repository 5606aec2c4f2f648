package engine

import (
	"context"

	"tokitai/def"
	"tokitai/device"
	"tokitai/lower"
	"tokitai/num"
)

// Lowering is one way to compute definitions on one kind of device. Anyone can
// make one, and have a call use it with the option [Using]; it is admitted like
// every other.
type Lowering struct {
	// Name is unique among the lowerings of a definition, such as cpu.rowwise. The
	// lowering's id in reports is the definition's name, a slash and this name.
	Name string

	// Device is the kind of device: cpu, cuda.
	Device string

	// Model is how a contraction's sums round; the reference answers for it.
	Model def.Model

	// IsBounded says that the lowering does not promise the reference's bits, but a
	// result that honest binary32 arithmetic could give when it adds up in Order.
	// Policy Same does not take it. Self-tests hold every element to that set; where a
	// NaN or an infinity takes part, to the reference's class.
	IsBounded bool

	// Order is how a bounded lowering adds up; the zero Order is any.
	Order def.Order

	// FunctionULP is the worst error of a bounded lowering's own exponentials and the
	// like, in ulps of binary32 from the true value; 0 means that of the definition's.
	FunctionULP float64

	// IsIEEE says that a bounded lowering takes the steps of the definition, each
	// correctly rounded, and differs in the order of sums and in functions alone. Its
	// results in f32 are then held to a narrower set.
	IsIEEE bool

	// Class divides calls into those that share a compiled kernel. Nil puts all into
	// class 0.
	Class func(d *def.Definition, c *lower.Call) int

	// Compile makes the kernel of a class for a device. It fails where the lowering does
	// not apply.
	Compile func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (Kernel, error)
}

// ID names the lowering of a definition.
func (l *Lowering) ID(d *def.Definition) string { return d.Name + "/" + l.Name }

// Kernel is a compiled lowering.
type Kernel interface {
	// Launch computes on a queue. It may be called from several goroutines at once
	// and keeps nothing of what it is given.
	Launch(l *Launch) error
}

// KernelFunc is a function as a Kernel.
type KernelFunc func(l *Launch) error

// Launch implements Kernel.
func (f KernelFunc) Launch(l *Launch) error { return f(l) }

// IndexChecker is a Kernel that can itself reject indices out of range, where the host
// cannot read them.
type IndexChecker interface {
	Kernel

	// LaunchChecked is Launch for a call with indices that nobody has checked. If one is
	// out of range it writes nothing, and waiting for the queue returns an [IndexError].
	LaunchChecked(l *Launch) error
}

// Compiled is a Kernel that was compiled when it was first needed.
type Compiled interface {
	Kernel

	// Artifacts returns the SHA-256 of its programs, in hexadecimal.
	Artifacts() []string
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

// Arrays returns the operands in host memory.
func (l *Launch) Arrays() []num.Array {
	l.arrays = l.arrays[:0]
	for i := range l.Operands {
		l.arrays = append(l.arrays, l.Operands[i].Array)
	}
	return l.arrays
}
