package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/kernelprocess"
	"tokitai/kernelprocess/spawn"
	"tokitai/kernelprocess/stdio"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// noise returns n values of f16, of magnitudes from 2^-4 to 2^-3.
func noise(n int, seed uint64) []byte {
	raw := make([]byte, 2*n)
	fillNoise(raw, seed)
	return raw
}

func fillNoise(raw []byte, seed uint64) {
	for i := 0; i+1 < len(raw); i += 2 {
		seed = seed*6364136223846793005 + 1442695040888963407
		v := uint16(seed>>48)&0x83ff | 0x2c00
		raw[i], raw[i+1] = byte(v), byte(v>>8)
	}
}

// softmaxCall is a softmax of rows on tensors of a device, by a queue.
type softmaxCall struct {
	q    *engine.Queue
	x, y *tensor.Tensor
}

func newSoftmax(q *engine.Queue, dev device.Device, rows, cols int) (*softmaxCall, error) {
	x, err := tensor.FromBytes(dev, num.F16, noise(rows*cols, 1), rows, cols)
	if err != nil {
		return nil, err
	}
	y, err := tensor.New(dev, num.F16, rows, cols)
	return &softmaxCall{q, x, y}, err
}

func (s *softmaxCall) run() error { return softmax.Forward(s.q, s.y, s.x) }

func (s *softmaxCall) result() ([]byte, error) { return s.y.Bytes() }

func (s *softmaxCall) close() {
	s.x.Close()
	s.y.Close()
}

// hyper are parameters that the binary format of AdamW can represent.
var hyper = adamw.Hyper{LR: 0x1p-10, Beta1: 0.875, Beta2: 1 - 0x1p-10, Eps: 0x1p-27, WeightDecay: 0x1p-7}

// adamwCall is a step of n weights in f16. Each run starts from the state of the run
// before, as in training.
type adamwCall struct {
	q     *engine.Queue
	state adamw.State
	grad  *tensor.Tensor
	t     int
}

// newAdamW returns a call with the state on one device and the gradient on another, which
// the queue can also use.
func newAdamW(q *engine.Queue, stateOn, gradOn device.Device, n int) (*adamwCall, error) {
	a := &adamwCall{q: q}
	var err error
	if a.state.Weight, err = tensor.FromBytes(stateOn, num.F16, noise(n, 2), n); err != nil {
		return nil, err
	}
	for _, moment := range []**tensor.Tensor{&a.state.M, &a.state.V} {
		if *moment, err = tensor.New(stateOn, num.F32, n); err != nil {
			return nil, err
		}
	}
	a.grad, err = tensor.FromBytes(gradOn, num.F16, noise(n, 3), n)
	return a, err
}

func (a *adamwCall) run() error {
	a.t++
	return adamw.Step(a.q, adamw.Update{State: a.state, Grad: a.grad, Hyper: hyper, T: a.t})
}

func (a *adamwCall) result() ([]byte, error) { return a.state.Weight.Bytes() }

func (a *adamwCall) close() {
	for _, t := range []*tensor.Tensor{a.state.Weight, a.state.M, a.state.V, a.grad} {
		t.Close()
	}
}

// newStdioServer returns this program as a server of one kernel over standard input and
// output.
func newStdioServer(kernel string) (*kernelprocess.StdioProgram, error) {
	self, err := spawn.Self()
	return kernelprocess.NewStdioProgram(nil, self, stdioRole, kernel, "server"), err
}

// stdioCall calls a kernel over standard input and output: a server, or a new process
// each time.
type stdioCall struct {
	server  *kernelprocess.StdioProgram // nil for a process each time
	request *stdio.Request
	last    *stdio.Response
	carries bool // the state is sent back and forth
}

func newStdioSoftmax(isServer bool, rows, cols int) (*stdioCall, error) {
	a := &stdioCall{request: &stdio.Request{Kernel: "softmax", Integers: []int64{0, int64(rows), int64(cols)}, Lists: [][]byte{noise(rows*cols, 1)}}}
	var err error
	if isServer {
		a.server, err = newStdioServer("softmax")
	}
	return a, err
}

func newStdioAdamW(n int, isBinary bool) (*stdioCall, error) {
	a := &stdioCall{carries: true, request: &stdio.Request{
		Kernel: "adamw", Integers: []int64{int64(n), 0}, Hyper: hyper, IsBinary: isBinary,
		Lists: [][]byte{noise(n, 2), make([]byte, 4*n), make([]byte, 4*n), noise(n, 3)},
	}}
	var err error
	a.server, err = newStdioServer("adamw")
	return a, err
}

func (a *stdioCall) run() (err error) {
	if a.carries {
		a.request.Integers[1]++
	}
	if a.server != nil {
		a.last, err = a.server.Do(context.Background(), a.request)
	} else {
		a.last, err = a.spawn()
	}
	if err == nil && a.carries {
		copy(a.request.Lists, a.last.Results) // theta, m and v
	}
	return err
}

func (a *stdioCall) spawn() (*stdio.Response, error) {
	self, err := spawn.Self()
	if err != nil {
		return nil, err
	}
	child, err := spawn.Start(spawn.Spec{Program: self, Args: []string{stdioRole, a.request.Kernel}, HasPipes: true})
	if err != nil {
		return nil, err
	}
	defer child.Close(time.Second)
	text, err := a.request.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	go func() {
		io.Copy(child.Stdin(), bytes.NewReader(text))
		child.Stdin().Close()
	}()
	answer, err := io.ReadAll(child.Stdout())
	if err != nil {
		return nil, err
	}
	return stdio.ParseResponse(a.request, answer)
}

func (a *stdioCall) result() ([]byte, error) { return a.last.Results[0], nil }

func (a *stdioCall) close() {
	if a.server != nil {
		a.server.Close()
	}
}

// pools are the kernel processes of the protocol: one that shares memory, one that does
// not.
type pools struct {
	pool, inlinePool *kernelprocess.Pool
	shared, inline   *kernelprocess.Device
	sharedQueue      *engine.Queue
	isolated         *engine.Queue // ordinary tensors, sent by shared memory if they are large
	inlined          *engine.Queue // ordinary tensors, sent in frames
}

func openPools() (*pools, error) {
	p := &pools{}
	var err error
	if p.pool, err = kernelprocess.NewPool(kernelprocess.Options{}); err != nil {
		return nil, err
	}
	if p.inlinePool, err = kernelprocess.NewPool(kernelprocess.Options{Inline: true}); err != nil {
		return nil, err
	}
	if p.shared, err = p.pool.Open("cpu", ""); err != nil {
		return nil, err
	}
	if p.inline, err = p.inlinePool.Open("cpu", ""); err != nil {
		return nil, err
	}
	if p.sharedQueue, err = engine.NewQueue(p.shared); err != nil {
		return nil, err
	}
	p.isolated = cpu.Queue().With(kernelprocess.Isolated(p.shared))
	p.inlined = cpu.Queue().With(kernelprocess.Isolated(p.inline))
	return p, nil
}

func (p *pools) close() error {
	err := p.pool.Close()
	if e := p.inlinePool.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("closing the pools: %w", err)
	}
	return nil
}
