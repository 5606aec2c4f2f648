package ondevice

import (
	"bytes"
	"errors"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/backend/gputest"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// network is a model with one of each operation and the tensors of a step of training it.
type network struct {
	index, label *tensor.Tensor

	table, gamma, beta, matrix     *tensor.Tensor   // weights
	dtable, dgamma, dbeta, dmatrix *tensor.Tensor   // their gradients
	states                         []adamw.State    // of table, gamma, beta and matrix
	grads                          []*tensor.Tensor // likewise

	x, mean, rstd, y, h, logits, weights, loss *tensor.Tensor
	dx, dy, dh, dlogits                        *tensor.Tensor
	size, factor                               *tensor.Tensor

	all []*tensor.Tensor
}

func newNetwork(t *testing.T, dev device.Device) *network {
	const rows, width, words = 37, 72, 24
	g := gen.New("network")
	n := &network{}
	keep := got[*tensor.Tensor](t)
	integers := func(bound int) *tensor.Tensor {
		values := make([]int32, rows)
		for i := range values {
			values[i] = int32(g.Below(bound))
		}
		return keep(tensor.FromInt32(dev, values, rows))
	}
	add := func(x *tensor.Tensor) *tensor.Tensor {
		n.all = append(n.all, x)
		return x
	}
	make := func(dtype num.DType, shape ...int) *tensor.Tensor { return add(keep(tensor.New(dev, dtype, shape...))) }
	weight := func(grad **tensor.Tensor, shape ...int) *tensor.Tensor {
		x := make(num.BF16, shape...)
		values := []float32{}
		for range x.Len() {
			values = append(values, g.Normal())
		}
		must(t, x.SetFloat32s(values))
		*grad = make(num.BF16, shape...)
		n.states = append(n.states, adamw.State{Weight: x, M: make(num.F32, shape...), V: make(num.F32, shape...)})
		n.grads = append(n.grads, *grad)
		return x
	}
	n.index, n.label = integers(words), integers(words)
	n.table, n.gamma, n.beta = weight(&n.dtable, words, width), weight(&n.dgamma, width), weight(&n.dbeta, width)
	n.matrix = weight(&n.dmatrix, width, words)
	n.x, n.y, n.h, n.dx, n.dy, n.dh = make(num.BF16, rows, width), make(num.BF16, rows, width), make(num.BF16, rows, width), make(num.BF16, rows, width), make(num.BF16, rows, width), make(num.BF16, rows, width)
	n.logits, n.weights, n.dlogits = make(num.BF16, rows, words), make(num.BF16, rows, words), make(num.BF16, rows, words)
	n.mean, n.rstd, n.loss = make(num.F32, rows), make(num.F32, rows), make(num.F32, rows)
	n.size, n.factor = make(num.F32), make(num.F32)
	return n
}

// gradient computes all gradients.
func (n *network) gradient(q *engine.Queue) error {
	return errors.Join(
		embedding.Forward(q, n.x, n.index, n.table),
		layernorm.Forward(q, n.y, n.mean, n.rstd, n.x, n.gamma, n.beta, layernorm.DefaultParams),
		gelu.Forward(q, n.h, n.y),
		gemm.Forward(q, n.logits, n.h, n.matrix),
		softmax.Forward(q, n.weights, n.logits),
		crossentropy.Run(q, n.loss, n.dlogits, n.logits, n.label, crossentropy.DefaultParams),
		gemm.GradA(q, n.dh, n.dlogits, n.matrix),
		gemm.GradB(q, n.dmatrix, n.h, n.dlogits),
		gelu.Backward(q, n.dy, n.dh, n.y),
		layernorm.Backward(q, n.dx, n.dgamma, n.dbeta, n.dy, n.x, n.gamma, n.mean, n.rstd),
		embedding.Backward(q, n.dtable, n.index, n.dx),
	)
}

// update is the rest of a step, whose numbers are others in each.
func (n *network) update(q *engine.Queue, step int) error {
	err := norm.Clip(q, n.size, n.factor, 1+1/float64(step), n.grads)
	hyper := adamw.DefaultHyper
	hyper.LR = 0.1 / float64(step)
	for i, s := range n.states {
		err = errors.Join(err, adamw.Step(q, adamw.Update{Mode: adamw.Stochastic, State: s, Grad: n.grads[i], Hyper: hyper, T: step, Random: adamw.Random{Seed: 1 << 40, Tensor: int32(i)}}))
	}
	return err
}

func (n *network) step(q *engine.Queue, step int) error {
	return errors.Join(n.gradient(q), n.update(q, step))
}

func (n *network) bits(t *testing.T) []byte {
	t.Helper()
	var all []byte
	for _, x := range n.all {
		all = append(all, got[[]byte](t)(x.Bytes())...)
	}
	return all
}

// TestRecordedSteps trains a network by a recording whose runs nobody waits for, while
// another queue keeps the device busy: as often as compared, it has the bits of calls on the
// device and on the CPU.
func TestRecordedSteps(t *testing.T) {
	if isSimulated() {
		t.Skip("the tests of package engine record steps in the simulator")
	}
	dev := gputest.Needs(t)
	stop := keepBusy(t, dev)
	defer stop()
	q, host := newQueue(t, dev, engine.WithPolicy(engine.Same)), cpu.Queue()
	recorded, plain, reference := newNetwork(t, dev), newNetwork(t, dev), newNetwork(t, host.Device())
	recording, err := q.Record(func(q *engine.Queue) error { return recorded.step(q, 1) })
	must(t, err)
	defer recording.Close()
	for i := 1; i <= 100; i++ {
		must(t, errors.Join(
			recording.Update(func(q *engine.Queue) error { return recorded.update(q, i) }), recording.Run(q),
			plain.step(q, i), reference.step(host, i),
		))
		if i%10 != 4 {
			continue
		}
		want := reference.bits(t)
		if !bytes.Equal(plain.bits(t), want) {
			t.Fatalf("after %d steps the device's calls have other bits than the CPU's", i)
		}
		if !bytes.Equal(recorded.bits(t), want) {
			t.Fatalf("after %d steps the recording has other bits than the calls", i)
		}
	}
	must(t, q.Wait())

	must(t, recorded.label.SetInt32s(copiesOf(recorded.label.Len(), 99)))
	must(t, recording.Run(q))
	if bad, ok := errors.AsType[*engine.IndexError](q.Wait()); !ok || bad.Op != "crossentropy" || bad.Value != 99 {
		t.Errorf("a label of 99: got %v", bad)
	}
}

func copiesOf(n int, value int32) []int32 {
	values := make([]int32, n)
	for i := range values {
		values[i] = value
	}
	return values
}
