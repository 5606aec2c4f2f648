package serve

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/foreign"
	"tokitai/kernelserver/protocol"
	"tokitai/num"
	"tokitai/tensor"
	"tokitai/truth"
	"tokitai/verify"
)

// Judges work in the memory of the host, whatever the server's device is: they interpret the
// definition.

// judgingBytes is the memory that judging takes for a byte of the operands, about: copies, the
// reference's outputs and enclosures.
const judgingBytes = 8

// judge answers a JUDGE with a report as JSON.
func (s *server) judge(ctx context.Context, body []byte) (reply, error) {
	m, err := protocol.ParseJudge(body)
	if err != nil {
		return reply{}, err
	}
	b := &batch{}
	defer s.clear(b)
	st, err := s.question(b, &m.Question)
	if err != nil {
		return reply{}, err
	}
	terms, err := verify.ParseTerms(m.Promise, m.Profile, m.Declaration)
	if err != nil {
		return reply{}, refusedTerms(st, err)
	}
	for _, name := range m.Waived {
		if _, err := st.operation.ClauseOf(name); err != nil {
			return reply{}, refusedTerms(st, err)
		}
	}
	outputs, err := st.outputs(m.Outputs)
	if err != nil {
		return reply{}, err
	}
	kernel, err := foreign.Given(outputs, foreign.Options{Definition: st.Definition})
	if err != nil {
		return reply{}, err
	}
	lowering, err := terms.Hold(&verify.Target{Operation: st.operation, Definition: st.Definition, Lowering: kernel.Lowering})
	if err != nil {
		return reply{}, refusedTerms(st, err)
	}
	report := &verify.CallReport{Tool: "tokitai", Version: s.Build, Op: st.operation.Name, Operation: st.operation, Waive: m.Waived, IsGiven: true}
	if err := st.observe(ctx, lowering, report); err != nil {
		return reply{}, err
	}
	if report.Verdict() == evidence.Interrupted {
		return reply{}, &protocol.Failure{Code: protocol.CodeCanceled, Message: "canceled before the outputs were compared"}
	}
	text, err := report.Reports()[0].JSON()
	if err != nil {
		return reply{}, err
	}
	return s.answerWith(text)
}

// truth answers a TRUTH with the ends of enclosures.
func (s *server) truth(ctx context.Context, body []byte) (reply, error) {
	m, err := protocol.ParseTruth(body)
	if err != nil {
		return reply{}, err
	}
	b := &batch{}
	defer s.clear(b)
	bytes, ok := protocol.TruthBytes(&m.Call)
	if !ok {
		return reply{}, malformed("operands that no frame can hold")
	}
	if err := s.hold(b, 2*bytes); err != nil {
		return reply{}, err
	}
	st, err := s.question(b, &m)
	if err != nil {
		return reply{}, err
	}
	ends := make([]byte, 0, bytes)
	enclose := engine.KernelFunc(func(l *engine.Launch) error {
		exact, err := truth.Enclose(st.Definition, l.Arrays(), truth.Options{Params: l.Params, Mode: truth.Exact, Context: ctx})
		if err != nil {
			return err
		}
		for k := range st.call.Operands {
			if st.call.Operands[k].Tensor.Carried&protocol.WithReply != 0 {
				slot := st.slots[k]
				ends = appendEnds(ends, exact, slot, &l.Operands[slot].Array)
			}
		}
		return nil
	})
	lowering := &engine.Lowering{Name: "check.truth", Device: cpu.Kind, Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
		return enclose, nil
	}}
	p, err := st.prepare(ctx, lowering)
	if err != nil {
		return reply{}, err
	}
	if err := p.Launch(); err != nil {
		return reply{}, err
	}
	return s.answerWith(ends)
}

// appendEnds adds the lower ends of an output's enclosures, and then the upper ones. Both are NaN
// where nothing is enclosed.
func appendEnds(b []byte, exact *truth.Result, operand int, a *num.Array) []byte {
	for _, isUpper := range []bool{false, true} {
		for r := range a.Rows {
			for c := range a.Cols {
				lo, hi := endsAt(exact, operand, a, r, c)
				if isUpper {
					lo = hi
				}
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(lo))
			}
		}
	}
	return b
}

func endsAt(exact *truth.Result, operand int, a *num.Array, r, c int) (lo, hi float64) {
	if a.DType == num.I32 {
		values := exact.Ints(operand, r, c)
		if len(values) == 0 {
			return math.NaN(), math.NaN()
		}
		return float64(values[0]), float64(values[len(values)-1]) // ascending
	}
	x := exact.At(operand, r, c)
	if !x.Known() {
		return math.NaN(), math.NaN()
	}
	return x.Endpoints()
}

// answerWith returns data as the rest of a reply.
func (s *server) answerWith(data []byte) (reply, error) {
	if err := s.memory.take(forReply, int64(len(data))); err != nil {
		return reply{}, err
	}
	return reply{data: data, reserved: int64(len(data))}, nil
}

// refusedTerms returns the error for what a kernel cannot be held to.
func refusedTerms(st *step, err error) error {
	return &protocol.Failure{Code: protocol.CodeBadArgument, Message: fmt.Sprintf("%s: %v", st.Name, err), Details: []protocol.Detail{{Name: "op", Value: st.Name}}}
}

// question resolves a call whose operands are all in the frame, and places them in the memory of
// the host.
func (s *server) question(b *batch, q *protocol.Question) (*step, error) {
	s.steps, s.slots, s.tensors, s.params = s.steps[:0], s.slots[:0], s.tensors[:0], s.params[:0]
	st := &step{call: &q.Call}
	if err := s.resolveCall(st); err != nil {
		return nil, err
	}
	if q.Call.Lowering != "" {
		return nil, &device.ArgumentError{Op: st.Name, Operand: "lowering", Got: fmt.Sprintf("is %q", q.Call.Lowering), Want: "none: no kernel runs"}
	}
	total := int64(0)
	for k := range q.Call.Operands {
		n, ok := q.Call.Operands[k].Tensor.Bytes()
		if total += n; !ok || total < 0 || total > math.MaxInt64/judgingBytes {
			return nil, malformed("operands that no frame can hold")
		}
	}
	if err := st.checkShapes(); err != nil {
		return nil, err
	}
	if err := s.hold(b, judgingBytes*total); err != nil {
		return nil, err
	}
	st.tensors = make([]*tensor.Tensor, len(st.Operands))
	data := q.Data
	for k := range q.Call.Operands {
		o := &q.Call.Operands[k]
		t, err := tensor.New(cpu.Queue().Device(), o.Tensor.DType, o.Tensor.Shape...)
		if err != nil {
			return nil, named(st, o, err)
		}
		if o.Tensor.Carried&protocol.WithRequest != 0 {
			data = data[fill(t, data):]
		}
		st.tensors[st.slots[k]] = t
	}
	return st, st.checkOnHost()
}

// fill copies the first bytes of data to a new tensor on the host, and returns their number.
func fill(t *tensor.Tensor, data []byte) int {
	a, _ := t.Array()
	return copy(a.Data, data)
}

// checkOnHost checks the call as every call is checked.
func (st *step) checkOnHost() error {
	q := cpu.Queue().With(engine.WithBadIndex(engine.BadIndex(st.call.BadIndex)), engine.WithLowering("cpu.reference"), engine.WithAdmission(engine.Off))
	return engine.Call(q, st.Definition, st.tensors, st.params, engine.CheckOnly())
}

// outputs returns the outputs of a JUDGE by name.
func (st *step) outputs(data []byte) (engine.Args, error) {
	args := engine.Args{}
	for k := range st.call.Operands {
		o := &st.call.Operands[k]
		if o.Tensor.Carried&protocol.WithReply == 0 {
			continue
		}
		t, err := tensor.New(cpu.Queue().Device(), o.Tensor.DType, o.Tensor.Shape...)
		if err != nil {
			return nil, named(st, o, err)
		}
		data = data[fill(t, data):]
		args[o.Name] = t
	}
	return args, nil
}

// prepare compiles a kernel for the call, outside of the engine's plans.
func (st *step) prepare(ctx context.Context, l *engine.Lowering) (*engine.Prepared, error) {
	trial, err := engine.NewTrial(cpu.Queue().WithContext(ctx), st.Definition, l)
	if err != nil {
		return nil, err
	}
	return trial.Prepare(st.tensors, st.params)
}

// observe runs a kernel between the two halves of an observer.
func (st *step) observe(ctx context.Context, l *engine.Lowering, o engine.Observer) error {
	p, err := st.prepare(ctx, l)
	if err != nil {
		return err
	}
	record := &engine.Record{Queue: cpu.Queue().WithContext(ctx), Definition: st.Definition, Lowering: l, Tensors: st.tensors, Params: st.params}
	if err := o.Before(record); err != nil {
		return err
	}
	o.After(record, p.Launch())
	return nil
}
