package model

import (
	"slices"
	"strconv"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/num"
	"tokitai/op/crossentropy"
)

// TestAncestorTrainer1_LinearIsDifferentiatedAsComputed: the ancestor multiplied by the weight in another shape, and
// differentiated a product with the transposed weight.
func TestAncestorTrainer1_LinearIsDifferentiatedAsComputed(t *testing.T) {
	t.Parallel()
	b := NewBuilder()
	y := b.Call("y", Linear, nil, b.Input("x", num.F32, 1, 2), b.Weight("w", num.F32, 3, 2))[0]
	b.Keep(y)
	label := b.Input("label", num.I32, 1)
	end := b.Call("loss", crossentropy.Definition, Params{"scale": Number(1)}, y, label)
	b.Keep(end[1])
	gradient := b.Backward(y, end[1], nil)["w"].Value().Name
	p, err := b.Program()
	if err != nil {
		t.Fatal(err)
	}
	in, err := NewInstance(cpu.Queue(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	x := []float32{1, 2}
	for name, values := range map[string][]float32{"x": x, "w": {1, 2, 3, 4, 5, 6}} {
		if err := in.Tensor(name).SetFloat32s(values); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.Run(cpu.Queue(), nil); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []float32 {
		values, err := in.Tensor(name).Float32s()
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	if got, want := read("y.y"), []float32{5, 11, 17}; !slices.Equal(got, want) {
		t.Errorf("y is %v, want %v: x times each row of w", got, want)
	}
	var want []float32
	for _, dy := range read(end[1].Value().Name) {
		want = append(want, dy*x[0], dy*x[1])
	}
	if got := read(gradient); !slices.Equal(got, want) {
		t.Errorf("the gradient is %v, want %v: those of y times x", got, want)
	}
}

// TestAncestorTrainer5_RouterWeightsCountOnce: the ancestor's gradients of experts had the router's weight twice. That of a
// bias is the sum over the rows of the weight times the gradient of the outputs, and TestGradientsOfFeatures holds the others.
func TestAncestorTrainer5_RouterWeightsCountOnce(t *testing.T) {
	t.Parallel()
	f := fewExperts
	in, _, gradients, _ := computeFeatures(t, f)
	weights, err := in.Tensor(RouterWeights).Float32s()
	if err != nil {
		t.Fatal(err)
	}
	outputs, err := in.Tensor(Outputs).Float32s()
	if err != nil {
		t.Fatal(err)
	}
	for e := range f.Experts {
		parts := make([]float32, len(outputs)) // of four rows
		for i, target := range featureRows.targets {
			if target == target {
				d := outputs[i] - target
				parts[i] = weights[i/f.Outputs*f.Experts+e] * (d + d)
			}
		}
		want := make([]float32, f.Outputs)
		for i := range want {
			want[i] = (parts[i] + parts[3+i]) + (parts[6+i] + parts[9+i]) // as colsum adds them
		}
		if got := gradients["experts."+strconv.Itoa(e)+".head.bias"]; !slices.Equal(got, want) {
			t.Errorf("expert %d: the gradient of the last bias is %v, want %v", e, got, want)
		}
	}
}
