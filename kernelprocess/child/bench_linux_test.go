package child

import (
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/kernelprocess/protocol"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/tensor"
)

func BenchmarkTinyOneByOne(b *testing.B) {
	c := connect(b, Options{})
	body := softmax(num.F16, 2, 8, bytesOf(32))
	c.must(protocol.KindCall, body)
	for b.Loop() {
		c.must(protocol.KindCall, body)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

func BenchmarkTinyPipelined(b *testing.B) {
	c := connect(b, Options{})
	body := softmax(num.F16, 2, 8, bytesOf(32))
	c.must(protocol.KindCall, body)
	const inFlight = 64
	sent := make(chan struct{}, inFlight)
	b.ResetTimer()
	go func() {
		for i := range b.N {
			sent <- struct{}{}
			c.conn.Write(frame(uint64(1000+i), protocol.KindCall, body))
		}
	}()
	for range b.N {
		if _, _, failure := c.receive(); failure != nil {
			b.Fatal(failure)
		}
		<-sent
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}

func BenchmarkInline(b *testing.B) {
	const rows, cols = 4096, 4096
	c := connect(b, Options{})
	body := softmax(num.F16, rows, cols, bytesOf(2*rows*cols))
	c.must(protocol.KindCall, body)
	b.SetBytes(2 * 2 * rows * cols)
	for b.Loop() {
		c.must(protocol.KindCall, body)
	}
}

func BenchmarkArena(b *testing.B) {
	const rows, cols = 8192, 4096
	c := connect(b, Options{})
	copy(c.newArena(1, 4*rows*cols), bytesOf(2*rows*cols))
	body := protocol.AppendCalls(nil, []protocol.Call{inArena(num.F16, rows, cols, 1, 2*rows*cols)})
	c.must(protocol.KindCall, body)
	b.SetBytes(4 * rows * cols)
	for b.Loop() {
		c.must(protocol.KindCall, body)
	}
}

func BenchmarkInProcess(b *testing.B) {
	const rows, cols = 8192, 4096
	q := cpu.Queue()
	d := all.Find("softmax.forward").Definitions[0]
	x, _ := tensor.New(q.Device(), num.F16, rows, cols)
	y, _ := tensor.New(q.Device(), num.F16, rows, cols)
	x.Buffer().CopyIn(0, bytesOf(2*rows*cols))
	list := []*tensor.Tensor{x, y}
	if err := engine.Call(q, d, list, nil); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(4 * rows * cols)
	for b.Loop() {
		engine.Call(q, d, list, nil)
	}
}

// A model's optimizer in one request: 808 calls of four small operands each.
func BenchmarkManyCalls(b *testing.B) {
	const calls, elems = 808, 64
	c := connect(b, Options{})
	list := adamwCalls(c, calls, elems)
	body := protocol.AppendCalls(nil, list)
	c.must(protocol.KindCall, body)
	for b.Loop() {
		c.must(protocol.KindCall, body)
	}
}

// adamwCalls are steps on tensors in one handle.
func adamwCalls(c *client, calls, elems int) []protocol.Call {
	h := c.newHandle(calls * elems * 12)
	var list []protocol.Call
	offset := int64(0)
	for range calls {
		call := protocol.Call{Definition: "adamw.step", Params: []protocol.Param{
			{Name: "lr", Value: 1e-3}, {Name: "beta1", Value: 0.9}, {Name: "beta2", Value: 0.999}, {Name: "eps", Value: 1e-8}, {Name: "weight_decay", Value: 0.01}, {Name: "t", Value: 3}}}
		for _, o := range []struct {
			name  string
			dtype num.DType
		}{{"m", num.F32}, {"v", num.F32}, {"weight", num.F16}, {"grad", num.F16}} {
			call.Operands = append(call.Operands, protocol.Operand{Name: o.name, Tensor: protocol.Tensor{
				DType: o.dtype, Place: protocol.InHandle, Handle: h, Shape: []int{elems}, Offset: offset, Stride: elems}})
			offset += int64(elems * o.dtype.Size())
		}
		list = append(list, call)
	}
	return list
}
