package foreign

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/kernelserver/protocol"
	"tokitai/num"
	"tokitai/promise"
)

// server is a program that answers calls, in one process at a time.
type server struct {
	program string // path
	command []string
	options Options

	mu       sync.Mutex // held during a call: a process gets one at a time
	session  *session   // nil if no process runs
	seeds    *rand.Rand // of TOKITAI_SEED
	isClosed bool
}

// Process starts a program that serves the kernel profile of the protocol
// (docs/protocol.md). The program must have the definition. It is started again for the
// next call after it has died.
func Process(command []string, o Options) (*Kernel, error) {
	if len(command) == 0 {
		return nil, errors.New("foreign: the command is empty, want a program and its arguments")
	}
	if o.Definition == nil {
		return nil, errors.New("foreign: the options have no definition")
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", command[0], err)
	}
	s := &server{program: program, command: command, options: o, seeds: rand.New(rand.NewPCG(o.Seed, 0))}
	if _, err := s.running(); err != nil {
		return nil, err
	}
	return &Kernel{
		Lowering: &engine.Lowering{Name: "check.process", Device: "cpu", IsBounded: true, Promise: promise.Stable, Compile: s.compile},
		Source:   strings.Join(command, " "),
		Device:   "cpu",
		Close:    s.close,
	}, nil
}

// running returns the session of the process, after starting one if none runs. The caller
// holds the mutex, or is alone.
func (s *server) running() (*session, error) {
	if s.isClosed {
		return nil, device.ErrClosed
	}
	if s.session != nil {
		return s.session, nil
	}
	n, err := s.start(s.seeds.Uint64())
	if err != nil {
		return nil, err
	}
	if err := n.offers(s.options.Definition); err != nil {
		n.end()
		return nil, err
	}
	s.session = n
	return n, nil
}

func (s *server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isClosed = true
	s.drop()
	return nil
}

// drop ends the process.
func (s *server) drop() {
	if s.session != nil {
		s.session.end()
		s.session = nil
	}
}

func (s *server) compile(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
	return engine.KernelFunc(func(l *engine.Launch) error { return s.launch(d, l) }), nil
}

// launch computes a call in the process. Results are copied to the operands once the whole
// reply has been read and found to be well-formed: nothing is written before or afterwards.
func (s *server) launch(d *def.Definition, l *engine.Launch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.running()
	if err != nil {
		return err
	}
	calls := []protocol.Call{callOf(d, l)}
	data, err := n.call(calls, inputsOf(d, l), s.options.deadline())
	if err != nil {
		if !isAnswer(err) {
			s.drop()
		}
		return err
	}
	setOutputs(d, l, data)
	return nil
}

// callOf describes a call with all operands in the frames.
func callOf(d *def.Definition, l *engine.Launch) protocol.Call {
	c := protocol.Call{Definition: d.Name}
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
