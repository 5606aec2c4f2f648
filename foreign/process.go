package foreign

import (
	"errors"
	"fmt"
	"math"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/kernelprocess/protocol"
	"tokitai/num"
)

// Process starts a program that serves the kernel profile of the protocol
// (docs/protocol.md, Kernels in other languages). The program must have the definition.
//
// Every compiled kernel has a process of its own, which gets one call at a time. One that
// dies, hangs or breaks the protocol is ended, and the next call starts another. Processes
// that take long to start are shared. A program that takes FORK is started once, and forks.
func Process(command []string, o Options) (*Kernel, error) {
	if len(command) == 0 {
		return nil, errors.New("the command is empty, want a program and its arguments")
	}
	if o.Definition == nil {
		return nil, errors.New("foreign: the options have no definition")
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return nil, &StartError{Program: command[0], Cause: err}
	}
	return newPool(program, command, o).opened()
}

// opened starts the first process, and returns the kernel of the pool.
func (p *pool) opened() (*Kernel, error) {
	first, err := p.start()
	if err != nil {
		p.close()
		return nil, err
	}
	first.isBusy = false
	if first.welcome.CanFork {
		if first, err = p.settle(first); err != nil {
			p.close()
			return nil, err
		}
		first.isBusy = false
	}
	return p.kernel(), nil
}

func (p *pool) kernel() *Kernel {
	return &Kernel{
		Lowering: p.options.promising(engine.Lowering{
			Name: "check." + p.kind, Device: "cpu", Compile: p.compile, Origin: p.origin, Renews: true,
		}),
		Source:   p.source,
		Device:   "cpu",
		Overhead: p.options.deadline() + endWait,
		Close:    p.close,
	}
}

// StartError is a program that cannot be started at all.
type StartError struct {
	Program string
	Cause   error
}

func (e *StartError) Error() string {
	cause := e.Cause
	if x, ok := errors.AsType[*exec.Error](cause); ok {
		cause = x.Err // which has the name
	}
	return fmt.Sprintf("%s cannot be started: %v", e.Program, cause)
}
func (e *StartError) Unwrap() error { return e.Cause }

func (p *pool) compile(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
	return &processKernel{pool: p, definition: d}, nil
}

// origin describes the program for reports.
func (p *pool) origin() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.source
	if w := p.welcome; w != nil {
		if w.Build != "" {
			text += ", which calls itself " + w.Build
		}
		text += ", on " + w.Device
		if w.Description != "" {
			text += " (" + w.Description + ")"
		}
	}
	return fmt.Sprintf("%s; processes started: %d", text, p.started)
}

// processKernel is a kernel in processes of a pool.
type processKernel struct {
	pool       *pool
	definition *def.Definition

	mu        sync.Mutex // held during a call: a process gets one at a time
	session   *session   // what it used last; it may have been ended or given to another kernel
	isRenewed bool       // the next call needs a process that has seen nothing, which ends after it
	lastTime  time.Duration
	isAlone   bool // it shares no process with other kernels

	waited  atomic.Int64              // nanoseconds
	waiting atomic.Pointer[time.Time] // since when; nil if no call waits for a process
}

// Waited implements [engine.Renewer].
func (k *processKernel) Waited() time.Duration {
	d := time.Duration(k.waited.Load())
	if since := k.waiting.Load(); since != nil {
		d += time.Since(*since)
	}
	return d
}

// LastTime implements [engine.Timed]: the time in the kernel that the last reply states.
func (k *processKernel) LastTime() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lastTime
}

// Isolate implements [engine.Isolator].
func (k *processKernel) Isolate() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isAlone = k.isAlone || k.session == nil
}

// Renew implements [engine.Renewer].
func (k *processKernel) Renew() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isRenewed = true
}

// Launch computes a call in the process. Results are copied to the operands once the whole
// reply has been read and found to be well-formed. The process has no access to them: it can
// write nothing before it answers, and nothing afterwards.
func (k *processKernel) Launch(l *engine.Launch) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	began := time.Now()
	k.waiting.Store(&began)
	defer k.waiting.Store(nil)
	n, err := k.pool.acquire(k)
	if err != nil {
		return err
	}
	isFresh := k.isRenewed
	if k.isRenewed = false; !isFresh {
		k.session = n
	}
	if n.hasAnswered {
		k.waiting.Store(nil)
	}
	results, err := n.call(callOf(k.definition, l), inputsOf(k.definition, l), k.pool.options.deadline())
	if !n.hasAnswered {
		n.hasAnswered = true
		k.waited.Add(int64(time.Since(began)))
		k.pool.noteFirst(time.Since(began))
	}
	k.pool.release(n, err == nil || isAnswer(err), isFresh)
	if err != nil {
		return k.meaning(err)
	}
	k.lastTime = time.Duration(min(results.KernelNanoseconds, math.MaxInt64))
	setOutputs(k.definition, l, results.Data)
	return nil
}

// meaning returns an error in the words of package engine.
func (k *processKernel) meaning(err error) error {
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return err
	}
	switch refused.Failure.Code {
	case protocol.CodeBadArgument, protocol.CodeUnsupported, protocol.CodeTooLong:
		return &engine.UnsuitedError{Lowering: k.definition.Name + "/check." + k.pool.kind, Cause: refused, IsRefused: true, Index: k.badIndex(refused.Failure)}
	}
	if output := refused.Failure.Detail("output"); output != "" && k.definition.Operand(output) >= 0 {
		return &engine.OutputError{Operand: output, Format: refused.Failure.Detail("dtype"), Cause: errors.New(refused.Failure.Message)}
	}
	return &engine.RaisedError{Cause: err}
}

// badIndex returns the operand in which, by an error reply, an index is out of range, or "".
func (k *processKernel) badIndex(f *protocol.Failure) string {
	name := f.Detail("operand")
	if i := k.definition.Operand(name); i >= 0 && k.definition.Operands[i].IsIndex {
		return name
	}
	return ""
}

// callOf describes a call with all operands in the frames.
func callOf(d *def.Definition, l *engine.Launch) *protocol.Call {
	c := &protocol.Call{Definition: d.Name}
	for i, v := range l.Params {
		c.Params = append(c.Params, protocol.Param{Name: d.Params[i].Name, Value: v})
	}
	for i := range d.Operands {
		o, a := &d.Operands[i], &l.Operands[i].Array
		t := protocol.Tensor{DType: a.DType, Shape: o.Shape(a)}
		if o.IsIn {
			t.Carried |= protocol.WithRequest
		}
		if o.IsOut {
			t.Carried |= protocol.WithReply
		}
		c.Operands = append(c.Operands, protocol.Operand{Name: o.Name, Tensor: t})
	}
	return c
}

// inputsOf returns the elements of the operands that are read, without gaps.
func inputsOf(d *def.Definition, l *engine.Launch) (data []byte) {
	for i := range d.Operands {
		if a := &l.Operands[i].Array; d.Operands[i].IsIn {
			for r := range a.Rows {
				data = append(data, a.Row(r)...)
			}
		}
	}
	return data
}

// setOutputs writes the operands that are written.
func setOutputs(d *def.Definition, l *engine.Launch, data []byte) {
	for i := range d.Operands {
		if a := &l.Operands[i].Array; d.Operands[i].IsOut {
			for r := range a.Rows {
				data = data[copy(a.Row(r), data):]
			}
		}
	}
}
