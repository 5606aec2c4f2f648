// Package tokitai computes deep-learning operations with the same bits on every machine.
//
// It is the front door: Open returns a queue on a device, and the packages below op have
// the operations. Programs that run on the CPU alone, and want no code for GPUs in their
// binary, import tokitai/backend/cpu instead.
//
//	q, err := tokitai.Open("auto")
//	x, err := tokitai.FromFloat32(q, tokitai.F16, values, rows, cols)
//	err = softmax.Forward(q, x, x)
//	values, err = x.Float32s()
//
// [Run] and [Eval] compute definitions of your own. Everything here is a name for
// something in the packages that own it: queues and calls in engine, tensors in tensor,
// formats in num, definitions in def.
package tokitai

import (
	"tokitai/backend/all"
	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/fn"
	"tokitai/num"
	"tokitai/tensor"
)

type (
	// Queue runs calls on one device.
	Queue = engine.Queue
	// Recording is a sequence of calls that can be run again; Queue.Record makes one.
	Recording = engine.Recording
	// Option changes how a queue behaves, or one call on it.
	Option = engine.Option
	// CallOption changes how one call behaves.
	CallOption = engine.CallOption
	// Args names the tensors of a call by operand.
	Args = engine.Args
	// Params names the numbers of a call by parameter.
	Params = engine.Params
	// Tensor is values of one format on one device.
	Tensor = tensor.Tensor
	// DType is a storage format.
	DType = num.DType
	// Definition is an operation, defined to the bit.
	Definition = def.Definition
)

// The storage formats.
const (
	F16  = num.F16
	BF16 = num.BF16
	F32  = num.F32
	I32  = num.I32
	E4M3 = num.E4M3
	E5M2 = num.E5M2
	I8   = num.I8
	I64  = num.I64
)

// Open returns a queue on a device by name: auto for the best one that this machine has,
// cpu, cuda:0 for the first of NVIDIA's GPUs, hip:0 for the first of AMD's, or sim for a
// simulated GPU. Closing the queue closes the device too.
func Open(name string, opts ...Option) (*Queue, error) {
	dev, err := all.Open(name)
	if err != nil {
		return nil, err
	}
	q, err := engine.OpenQueue(dev, opts...)
	if err != nil {
		dev.Close()
		return nil, err
	}
	return q, nil
}

// CPU returns the queue on the host that all callers of it share. Do not close it.
func CPU() *Queue { return cpu.Queue() }

// New returns a tensor of zeros on the device of q. All sizes are at least 1.
func New(q *Queue, d DType, shape ...int) (*Tensor, error) {
	return tensor.New(q.Device(), d, shape...)
}

// FromFloat32 returns a tensor of values, each rounded to d, on the device of q.
func FromFloat32(q *Queue, d DType, values []float32, shape ...int) (*Tensor, error) {
	return tensor.FromFloat32(q.Device(), d, values, shape...)
}

// FromInts returns a tensor of integers, of type int8, int32 or int64, on the device of q.
func FromInts[T int8 | int32 | int64](q *Queue, values []T, shape ...int) (*Tensor, error) {
	return tensor.FromInts(q.Device(), values, shape...)
}

// FromInt32 returns a tensor of indices or labels on the device of q.
func FromInt32(q *Queue, values []int32, shape ...int) (*Tensor, error) {
	return tensor.FromInt32(q.Device(), values, shape...)
}

// Parse reads a definition from its text, which may use the functions of package fn.
func Parse(text string) (*Definition, error) { return def.Parse(text, fn.All...) }

// WithParams gives the parameters of a definition by name.
func WithParams(p Params) CallOption { return engine.WithParams(p) }

// WithLowering demands the lowering of that name, such as cpu.reference.
func WithLowering(name string) Option { return engine.WithLowering(name) }

// Same makes matrix products use only the rule of accumulation that every device has, so
// that they have the same bits everywhere. Without it each device may use its fastest.
func Same() Option { return engine.WithPolicy(engine.Same) }

// Run computes a definition on tensors given by name, among them its outputs.
func Run(q *Queue, d *Definition, args Args, opts ...CallOption) error {
	return engine.Run(q, d, args, opts...)
}

// Eval is like Run, but allocates outputs that are not given. It waits for the results and
// returns all outputs.
func Eval(q *Queue, d *Definition, args Args, opts ...CallOption) (Args, error) {
	return engine.Eval(q, d, args, opts...)
}
