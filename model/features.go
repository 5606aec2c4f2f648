package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tokitai/num"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
)

// Names of the inputs and results of a network of features. Its loss is Loss.
const (
	Rows          = "features" // a row of numbers for each example
	Targets       = "targets"  // what the outputs should be; NaN for those that do not count
	Outputs       = "outputs"
	RouterWeights = "router.weights" // by which the outputs of the experts are added up; 0 for those that are not chosen
)

// Features describes a network that computes rows of numbers from rows of features: a mixture whose experts all
// compute every row, or, without experts, one deep network.
type Features struct {
	Inputs  int `json:"inputs"`            // features of a row
	Outputs int `json:"outputs"`           // numbers of a row
	Hidden  int `json:"hidden"`            // width of the hidden layers
	Layers  int `json:"layers"`            // hidden layers of an expert behind the first, or blocks without experts
	Experts int `json:"experts,omitempty"` // 0 for one deep network
	PerRow  int `json:"per_row,omitempty"` // experts whose outputs a row gets
	Width   int `json:"width,omitempty"`   // without experts, that of the sum to which blocks add
}

// FeatureSizes are descriptions with a name.
var FeatureSizes = map[string]Features{
	"nano":   {Inputs: 96, Outputs: 20, Hidden: 128, Layers: 2, Experts: 4, PerRow: 2},
	"tiny":   {Inputs: 96, Outputs: 20, Hidden: 2048, Layers: 5, Experts: 4, PerRow: 2},
	"medium": {Inputs: 96, Outputs: 20, Hidden: 4096, Layers: 5, Experts: 4, PerRow: 2},
	"full":   {Inputs: 96, Outputs: 20, Hidden: 4096, Layers: 12, Experts: 4, PerRow: 2},
	"dense":  {Inputs: 96, Outputs: 20, Hidden: 4096, Layers: 84, Width: 1024},
}

// UnmarshalJSON reads a description, whose members replace those that f has, or the name of one in FeatureSizes.
func (f *Features) UnmarshalJSON(text []byte) error {
	var name string
	if json.Unmarshal(text, &name) == nil {
		size, ok := FeatureSizes[name]
		if !ok {
			return fmt.Errorf("features is %q, want %s, or an object", name, strings.Join(slices.Sorted(maps.Keys(FeatureSizes)), ", "))
		}
		*f = size
		return nil
	}
	type plain Features
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode((*plain)(f)); err != nil {
		return fmt.Errorf("features: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// Check returns an error for a description that no network has.
func (f *Features) Check() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"inputs", f.Inputs}, {"outputs", f.Outputs}, {"hidden", f.Hidden}, {"layers", f.Layers}} {
		if n.value < 1 || n.value > math.MaxInt16 {
			return fmt.Errorf("features.%s is %d, want 1 to %d", n.name, n.value, math.MaxInt16)
		}
	}
	switch {
	case f.Experts < 0 || f.Experts > 256:
		return fmt.Errorf("features.experts is %d, want at most 256, or 0 for none", f.Experts)
	case f.Experts > 0 && (f.PerRow < 1 || f.PerRow > f.Experts):
		return fmt.Errorf("features.per_row is %d, want 1 to the %d experts", f.PerRow, f.Experts)
	case f.Experts > 0 && f.Width != 0:
		return fmt.Errorf("features.width is %d, and there are experts: it is for a network without", f.Width)
	case f.Experts == 0 && f.PerRow != 0:
		return fmt.Errorf("features.per_row is %d, and there are no experts", f.PerRow)
	case f.Experts == 0 && (f.Width < 1 || f.Width > math.MaxInt16):
		return fmt.Errorf("features.width is %d without experts, want 1 to %d", f.Width, math.MaxInt16)
	}
	return nil
}

// NewFeatures returns the network for a number of rows: for training, with gradients, or the same forward calls alone.
//
// The loss is the sum of the squares of all differences to the targets. Linear layers have weights [out, in] and biases.
// With experts, y = sum over the experts e of w[e]*e(x), where w is softmax(router(x)) for the PerRow largest
// of a row, not scaled up to a sum of 1, and 0 for the others. An expert has layers of linear, LayerNorm and
// GELU, and a linear head. Without experts, blocks of LayerNorm, linear, GELU and linear add to the first linear layer's result.
func NewFeatures(f Features, rows int, training bool) (*Network, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	if rows < 1 || rows > MaxLeafTokens {
		return nil, fmt.Errorf("%d rows of features in a leaf, want 1 to %d", rows, MaxLeafTokens)
	}
	d := &features{Builder: NewBuilder(), Features: f, rows: rows, network: &Network{}}
	outputs, gradient := d.forward()
	if training {
		d.network.Gradients = namesOf(d.Backward(outputs, gradient, nil))
	}
	var err error
	d.network.Program, err = d.Builder.Program()
	return d.network, err
}

// features builds a network of features.
type features struct {
	*Builder
	Features
	rows    int
	network *Network
}

func (d *features) forward() (outputs, gradient Ref) {
	x, targets := d.Input(Rows, num.F32, d.rows, d.Inputs), d.Input(Targets, num.F32, d.rows, d.Outputs)
	outputs = d.Value(Outputs, num.F32, d.rows, d.Outputs)
	if d.Experts > 0 {
		d.mixture(x, outputs)
	} else {
		d.dense(x, outputs)
	}
	d.Keep(outputs)
	out := d.Call("error", SquaredError, Params{"scale": Variable(ScaleVariable)}, outputs, targets)
	loss := d.Value(Loss, num.F32, 1)
	d.CallInto(Loss, norm.TotalDefinition, nil, []Ref{out[0].As(1, d.rows)}, []Ref{loss})
	d.Keep(loss)
	return outputs, out[1]
}

func (d *features) mixture(x, outputs Ref) {
	logits := d.linear("router", x, d.Inputs, d.Experts)
	weights := d.Value(RouterWeights, num.F32, d.rows, d.Experts)
	counts := d.Value("router.counts", num.I32, d.Experts)
	d.CallInto("router.top", Top, Params{"k": Number(float64(d.PerRow))},
		[]Ref{d.Call("router.softmax", softmax.ForwardDefinition, nil, logits)[0]}, []Ref{weights, counts})
	d.Keep(weights)
	d.network.Routers = []Measured{measured(d.Builder, "router.", logits, counts)}
	all := d.Value("experts.outputs", num.F32, d.rows, d.Experts*d.Outputs)
	for e := range d.Experts {
		name := "experts." + strconv.Itoa(e) + "."
		h, width := x, d.Inputs
		for i := range d.Layers + 1 {
			layer := strconv.Itoa(i)
			h = d.linear(name+"layers."+layer, h, width, d.Hidden)
			h = d.activate(name+"act."+layer, d.norm(name+"norms."+layer, h, d.Hidden))
			width = d.Hidden
		}
		d.linearInto(name+"head", h, width, all.Columns(e*d.Outputs, (e+1)*d.Outputs))
	}
	d.CallInto("experts.sum", gemm.BatchedForwardDefinition, nil,
		[]Ref{weights.As(d.rows, 1, d.Experts), all.As(d.rows, d.Experts, d.Outputs)}, []Ref{outputs.As(d.rows, 1, d.Outputs)})
}

func (d *features) dense(x, outputs Ref) {
	x = d.linear("first", x, d.Inputs, d.Width)
	for i := range d.Layers {
		name := "blocks." + strconv.Itoa(i) + "."
		h := d.linear(name+"up", d.norm(name+"norm", x, d.Width), d.Width, d.Hidden)
		x = d.Call(name+"sum", Add, nil, x, d.linear(name+"down", d.activate(name+"act", h), d.Hidden, d.Width))[0]
	}
	d.linearInto("head", x, d.Width, outputs)
}

func (d *features) linear(name string, x Ref, in, out int) Ref {
	y := d.Value(name+".y", num.F32, d.rows, out)
	d.linearInto(name, x, in, y)
	return y
}

func (d *features) linearInto(name string, x Ref, in int, y Ref) {
	out := y.Shape()[1]
	product := d.Call(name+".product", Linear, nil, x, d.Weight(name+".weight", num.F32, out, in))[0]
	d.CallInto(name, Bias, nil, []Ref{product, d.Weight(name+".bias", num.F32, out)}, []Ref{y})
}

func (d *features) norm(name string, x Ref, width int) Ref {
	return d.Call(name, layernorm.ForwardDefinition, Params{"eps": Number(layernorm.DefaultEps)}, x,
		d.Weight(name+".weight", num.F32, width), d.Weight(name+".bias", num.F32, width))[0]
}

func (d *features) activate(name string, x Ref) Ref {
	return d.Call(name, gelu.ForwardDefinition, nil, x)[0]
}

// Initial returns the initial values of a weight of the network: biases are 0, weights of norms 1, and matrices [out, in]
// uniform between -0.5/sqrt(in) and 0.5/sqrt(in). They depend on the seed, the name and the element alone.
func (f *Features) Initial(w *Value, seed uint64) []float32 {
	values := make([]float32, w.Len())
	switch {
	case len(w.Shape) > 1:
		uniform(values, seed, w.Name, 0.5*invSqrt(w.Shape[1]))
	case strings.HasSuffix(w.Name, ".weight"):
		for i := range values {
			values[i] = 1
		}
	}
	return values
}
