// Package kernelprocess runs kernels in separate processes, for Go hosts: a fault of a
// device or of a kernel ends such a process, and the host gets an error.
//
// A [Pool] starts kernel processes when they are first needed, one per device and group,
// and starts them again when they die. Its [Device] is a device like any other: a queue on
// it computes in the process. On a queue of any other device the option [Isolated] does
// the same for ordinary tensors, which are then sent and fetched.
//
//	func main() {
//		kernelprocess.Main() // first thing: the program is its own kernel process
//		pool, err := kernelprocess.NewPool(kernelprocess.Options{})
//		…
//		dev, err := pool.Open("cpu", "")
//		q, err := engine.NewQueue(dev)
//		x, err := tensor.FromFloat32(dev, num.F32, values, 64, 64) // in shared memory
//		err = softmax.Forward(q, x, x)
//	}
//
// Tensors of a Device on the CPU lie in memory that both processes see. They outlive the
// process, and nothing of them is ever sent. Those of [Device.Resident] lie in the
// process, or on its GPU, and are lost with it: see [ErrStateLost].
//
// A call returns when the process has answered. When its context ends it returns at once,
// and what the process may still be using is kept from others until it has answered, or
// is dead: it is killed where it does not answer within [Options.HangAfter].
//
// pool.go has the pool and its options, device.go what a host sees of a process, child.go
// a process's life, conn.go the frames in flight, call.go how a call becomes a frame,
// arena.go the shared memory. docs/protocol.md is what is spoken.
package kernelprocess
