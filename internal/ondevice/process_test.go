package ondevice

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/backend/gputest"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/kernelprocess"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/all"
	"tokitai/op/softmax"
	"tokitai/tensor"
)

// TestKernelProcess computes in a process of its own: self-tests of every definition on
// tensors of the host, then an optimizer whose state stays in the process. When the process
// is killed its state is lost, and the next call has a new one.
func TestKernelProcess(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "it compiles kernels of its own")
	gputest.Needs(t)
	pool, err := kernelprocess.NewPool(kernelprocess.Options{Backoff: time.Millisecond})
	must(t, err)
	defer pool.Close()
	dev, err := pool.Open(gputest.Chosen(), "")
	must(t, err)
	here := cpu.Queue()
	for i, o := range all.Operations {
		d := o.Definitions[0]
		if isSimulated() && testlevel.Current() == testlevel.Smoke && i%6 != 0 {
			continue // compilers take seconds for each
		}
		formats := d.Formats()[0]
		c := engine.SelfTestCases(d, formats)[0]
		run := func(q *engine.Queue) (results [][]byte) {
			var tensors []*tensor.Tensor
			for i, a := range c.Operands {
				x, err := tensor.New(here.Device(), a.DType, d.Operands[i].Shape(&a)...)
				must(t, err)
				for r := range a.Rows {
					row := a.Row(r)
					must(t, x.Buffer().CopyIn(int64(r*len(row)), row))
				}
				tensors = append(tensors, x)
			}
			must(t, engine.Call(q, d, tensors, c.Params, engine.WithBadIndex(engine.Skip)))
			for _, x := range tensors {
				raw, err := x.Bytes()
				must(t, err)
				canonical(x.DType(), raw)
				results = append(results, raw)
			}
			return results
		}
		want, got := run(here), run(here.With(kernelprocess.Isolated(dev)))
		for i := range want {
			if d.Operands[i].IsOut && !bytes.Equal(got[i], want[i]) {
				t.Errorf("%s: %s differs", d.Name, d.Operands[i].Name)
			}
		}
	}
	var weights [2][]byte
	for i, on := range []device.Device{here.Device(), dev} {
		q, err := engine.NewQueue(on)
		must(t, err)
		weights[i] = train(t, q)
	}
	if !bytes.Equal(weights[0], weights[1]) {
		t.Error("an optimizer in a process gives other weights than one on the CPU")
	}

	q, err := engine.NewQueue(dev)
	must(t, err)
	x, err := tensor.New(dev, num.F16, 64, 64)
	must(t, err)
	must(t, softmax.Forward(q, x, x))
	process, err := os.FindProcess(dev.PID())
	must(t, err)
	must(t, process.Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for ctx.Err() == nil && err == nil {
		err = softmax.Forward(q.WithContext(ctx), x, x)
	}
	if !errors.Is(err, kernelprocess.ErrStateLost) && !errors.Is(err, kernelprocess.ErrDied) {
		t.Errorf("memory of a process that was killed: %v", err)
	}
	if y, err := tensor.New(dev, num.F16, 64, 64); err != nil {
		t.Errorf("after a kill: %v", err)
	} else {
		must(t, softmax.Forward(q, y, y))
	}
}

// train takes steps on many tensors, and returns all weights.
func train(t *testing.T, q *engine.Queue) (weights []byte) {
	var list []adamw.Parameter
	var grads []*tensor.Tensor
	for i := range 50 {
		values := make([]float32, 1+17*i)
		for k := range values {
			values[k] = float32(k%13) - 6
		}
		w, err := tensor.FromFloat32(q.Device(), num.F16, values, len(values))
		must(t, err)
		g, err := tensor.FromFloat32(q.Device(), num.F16, values, len(values))
		must(t, err)
		list, grads = append(list, adamw.Parameter{Weight: w, LRScale: 1}), append(grads, g)
	}
	h := adamw.DefaultHyper
	h.LR = 0.01
	o, err := adamw.New(q, adamw.Options{Hyper: h}, list)
	must(t, err)
	for range 3 {
		must(t, o.StepAll(q, grads))
	}
	for _, p := range list {
		raw, err := p.Weight.Bytes()
		must(t, err)
		weights = append(weights, raw...)
	}
	return weights
}
