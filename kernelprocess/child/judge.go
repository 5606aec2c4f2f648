package child

import (
	"context"
	"fmt"
	"math"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/kernelprocess/protocol"
	"tokitai/op"
	"tokitai/tensor"
)

// Judge answers questions about calls that no kernel of the server runs. It works in the memory of the
// host, whatever the server's device is: it interprets the definition.
type Judge interface {
	// Report returns a report, as JSON, on outputs that some kernel gave for a call of a definition of
	// o, by name. The tensors of the call are the operands before it.
	Report(ctx context.Context, o *op.Operation, call *engine.Record, outputs engine.Args, m *protocol.Judge) ([]byte, error)

	// Enclose appends, for each of the given operands of a call, the lower ends of the enclosures of its
	// elements' exact values to b, as f64, and then the upper ones. Both are NaN where nothing is
	// enclosed.
	Enclose(ctx context.Context, call *engine.Record, operands []int, b []byte) ([]byte, error)
}

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
	outputs, err := st.outputs(m.Outputs)
	if err != nil {
		return reply{}, err
	}
	report, err := s.Judge.Report(ctx, st.operation, st.record(ctx), outputs, &m)
	if err != nil {
		return reply{}, err
	}
	return s.answerWith(report)
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
	var written []int
	for k := range st.call.Operands {
		if st.call.Operands[k].Tensor.Carried&protocol.WithReply != 0 {
			written = append(written, st.slots[k])
		}
	}
	ends, err := s.Judge.Enclose(ctx, st.record(ctx), written, make([]byte, 0, bytes))
	if err != nil {
		return reply{}, err
	}
	return s.answerWith(ends)
}

// record returns the call as judges take it.
func (st *step) record(ctx context.Context) *engine.Record {
	return &engine.Record{Queue: cpu.Queue().WithContext(ctx), Definition: st.Definition, Tensors: st.tensors, Params: st.params}
}

// answerWith returns data as the rest of a reply.
func (s *server) answerWith(data []byte) (reply, error) {
	if err := s.memory.take(forReply, int64(len(data))); err != nil {
		return reply{}, err
	}
	return reply{data: data, reserved: int64(len(data))}, nil
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
