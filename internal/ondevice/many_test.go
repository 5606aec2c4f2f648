package ondevice

import (
	"bytes"
	"fmt"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/backend/gputest"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/norm"
	"tokitai/tensor"
)

// manySizes are those of a model's tensors: of one element, odd, of several flat rows.
var manySizes = [][]int{{1}, {7}, {3, 5}, {8}, {2049}, {1, 1}, {33, 257}, {65536}, {2, 65537}, {1000}, {9, 1024}, {1}}

// manyTensor returns a tensor of the i-th size with the same values on every device. Every
// fourth begins at an odd place, and every fifth has gaps between its rows.
func manyTensor(t *testing.T, q *engine.Queue, d num.DType, i int, seed string) *tensor.Tensor {
	t.Helper()
	shape := manySizes[i]
	rows, cols := 1, shape[len(shape)-1]
	if len(shape) > 1 {
		rows = shape[0]
	}
	offset, stride := 0, cols
	if i%4 == 2 {
		offset = 1
	}
	if i%5 == 1 {
		stride += 3
	}
	values := make([]float32, offset+rows*stride)
	g := gen.New(fmt.Sprint(seed, i))
	for k := range values {
		values[k] = g.Normal() / 16
	}
	all, err := tensor.FromFloat32(q.Device(), d, values, len(values))
	if err != nil {
		t.Fatal(err)
	}
	x, err := tensor.At(all.Buffer(), int64(offset*d.Size()), d, stride, shape...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { all.Close() })
	return x
}

func bytesOf(t *testing.T, x *tensor.Tensor) []byte {
	t.Helper()
	raw, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestStepAll takes steps on all tensors of a model: with the bits of the CPU, which takes
// them tensor by tensor.
func TestStepAll(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "it compiles kernels of its own")
	dev := gputest.Needs(t)
	hyper := adamw.DefaultHyper
	hyper.LR = 1e-2
	for _, mode := range []adamw.Mode{adamw.InPlace, adamw.Master, adamw.Stochastic} {
		var results [][][]byte
		for _, q := range []*engine.Queue{cpu.Queue(), newQueue(t, dev)} {
			var parameters []adamw.Parameter
			weight := num.BF16
			if mode == adamw.Master {
				weight = num.F32
			}
			for i := range manySizes {
				p := adamw.Parameter{Weight: manyTensor(t, q, weight, i, "weight"), LRScale: 1 + float64(i%2), WeightDecay: 0.01 * float64(i%3)}
				if mode == adamw.Master {
					p.Copy = manyTensor(t, q, num.BF16, i, "copy")
				}
				parameters = append(parameters, p)
			}
			o, err := adamw.New(q, adamw.Options{Mode: mode, Hyper: hyper, Seed: 7}, parameters)
			if err != nil {
				t.Fatal(err)
			}
			for step := range 3 {
				var grads []*tensor.Tensor
				for i := range manySizes {
					grads = append(grads, manyTensor(t, q, num.BF16, i, fmt.Sprint("grad", step)))
				}
				if step == 2 {
					o.SetLR(1e-3)
				}
				if err := o.StepAll(q, grads); err != nil {
					t.Fatal(err)
				}
			}
			var all [][]byte
			for i, p := range parameters {
				m, v := o.Moments(i)
				all = append(all, bytesOf(t, p.Weight), bytesOf(t, m), bytesOf(t, v))
				if p.Copy != nil {
					all = append(all, bytesOf(t, p.Copy))
				}
			}
			results = append(results, all)
			o.Close()
		}
		for i := range results[0] {
			if !bytes.Equal(results[0][i], results[1][i]) {
				t.Errorf("%v: result %d has other bits than on the CPU", mode, i)
			}
		}
	}
}

// TestNormOfMany computes norms of all tensors of a model, in several formats: with the bits
// of the CPU, which sums tensor by tensor.
func TestNormOfMany(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "it compiles kernels of its own")
	dev := gputest.Needs(t)
	var results [][]byte
	for _, q := range []*engine.Queue{cpu.Queue(), newQueue(t, dev)} {
		var xs []*tensor.Tensor
		for i := range manySizes {
			xs = append(xs, manyTensor(t, q, num.FloatDTypes[i%3], i, "x"))
		}
		out, err := tensor.New(q.Device(), num.F32, 3)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { out.Close() })
		var one [3]*tensor.Tensor
		for i := range one {
			if one[i], err = tensor.At(out.Buffer(), int64(4*i), num.F32, 1, 1); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // the second time in the same memory
			if err := norm.SquareSum(q, one[0], xs); err != nil {
				t.Fatal(err)
			}
			if err := norm.Clip(q, one[1], one[2], 0.5, append(xs, xs[4])); err != nil {
				t.Fatal(err)
			}
		}
		results = append(results, bytesOf(t, out))
	}
	if !bytes.Equal(results[0], results[1]) {
		t.Errorf("got %x, want the CPU's %x", results[1], results[0])
	}
}
