package model

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/op/layernorm"
)

var (
	fewExperts = Features{Inputs: 5, Outputs: 3, Hidden: 4, Layers: 1, Experts: 3, PerRow: 2}
	fewBlocks  = Features{Inputs: 5, Outputs: 3, Hidden: 6, Layers: 2, Width: 4}
)

// featureRows are rows of five features, and their targets; that of one does not count.
var featureRows = struct{ features, targets []float32 }{
	features: []float32{1, 0, 0.5, -0.25, 2, 0, 1, -0.75, 0.125, 1, 1, 1, -1, 0.5, 0.25, 0, 0, 1.5, -2, 0.75},
	targets:  []float32{1, 0, 0.5, 0, 1, -0.5, 0.25, float32(math.NaN()), 1, -1, 0.75, 0.125},
}

// computeFeatures runs a network of features once, with weights that are larger than initial ones.
func computeFeatures(t *testing.T, f Features) (in *Instance, weights, gradients map[string][]float32, loss float64) {
	t.Helper()
	n, err := NewFeatures(f, len(featureRows.features)/f.Inputs, true)
	if err != nil {
		t.Fatal(err)
	}
	q := cpu.Queue()
	if in, err = NewInstance(q, n.Program, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	weights = map[string][]float32{}
	for _, w := range n.Program.Of(Weight) {
		values, noise := f.Initial(w, 3), make([]float32, w.Len())
		uniform(noise, 4, w.Name, 0.5)
		for i := range values {
			values[i] += noise[i]
		}
		weights[w.Name] = values
		if err := in.Tensor(w.Name).SetFloat32s(values); err != nil {
			t.Fatal(err)
		}
	}
	if err := in.Tensor(Rows).SetFloat32s(featureRows.features); err != nil {
		t.Fatal(err)
	}
	if err := in.Tensor(Targets).SetFloat32s(featureRows.targets); err != nil {
		t.Fatal(err)
	}
	gradients, loss = runOnce(t, q, n, in)
	return in, weights, gradients, loss
}

// features writes a network of features down a second time: what NewFeatures says, not what it builds.
func (n *network) features(f Features, x row) row {
	if f.Experts == 0 {
		x = n.linear("first", x, true)
		for i := range f.Layers {
			name := "blocks." + strconv.Itoa(i) + "."
			x = plus(x, n.linear(name+"down", n.activate(nil, n.linear(name+"up", n.norm(name+"norm", x), true)), true))
		}
		return n.linear("head", x, true)
	}
	logits := n.linear("router", x, true)
	total, scores, order := n.t.number(0), make(row, f.Experts), make([]int, f.Experts)
	for i, l := range logits {
		scores[i], order[i] = l.exp(), i
		total = total.add(scores[i])
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b].value, scores[a].value) })
	y := make(row, f.Outputs)
	for i := range y {
		y[i] = n.t.number(0)
	}
	for _, e := range order[:f.PerRow] {
		n.choices = append(n.choices, e)
		name, h := "experts."+strconv.Itoa(e)+".", x
		for i := range f.Layers + 1 {
			h = n.activate(nil, n.norm(name+"norms."+strconv.Itoa(i), n.linear(name+"layers."+strconv.Itoa(i), h, true)))
		}
		weight := scores[e].mul(total.recip()) // once: neither normalised again nor squared
		for i, v := range n.linear(name+"head", h, true) {
			y[i] = y[i].add(v.mul(weight))
		}
	}
	return y
}

// TestGradientsOfFeatures holds loss and gradients to the tape, as TestGradients does. The gradient of an expert has the weight of
// the router once, and that of a linear layer is the gradient of what it computes, x times the transposed weight.
func TestGradientsOfFeatures(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Features{"experts": fewExperts, "dense": fewBlocks} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, weights, gradients, loss := computeFeatures(t, f)
			if len(gradients) != len(weights) {
				t.Errorf("%d gradients of %d weights", len(gradients), len(weights))
			}
			compareGradients(t, weights, gradients, loss, func(other string, values []float64, isValueOnly bool) (variable, map[string][]int, []int) {
				n, nodes := networkOf(Config{Norm: "layer", Eps: layernorm.DefaultEps, FeedForward: "gelu"}, weights, other, values, isValueOnly)
				total := n.t.number(0)
				for r := range len(featureRows.features) / f.Inputs {
					var x row
					for _, v := range featureRows.features[r*f.Inputs:][:f.Inputs] {
						x = append(x, n.t.number(float64(v)))
					}
					for i, y := range n.features(f, x) {
						if want := featureRows.targets[r*f.Outputs+i]; want == want {
							d := y.sub(n.t.number(float64(want)))
							total = total.add(d.mul(d))
						}
					}
				}
				return total, nodes, n.choices
			})
		})
	}
}

// TestRouterOfFeatures: a row has the weights of PerRow experts, those of the softmax over all, and the others have 0; counts say
// how many rows an expert has.
func TestRouterOfFeatures(t *testing.T) {
	t.Parallel()
	in, _, _, _ := computeFeatures(t, fewExperts)
	weights, err := in.Tensor(RouterWeights).Float32s()
	if err != nil {
		t.Fatal(err)
	}
	counts, err := in.Tensor("router.counts").Int32s()
	if err != nil {
		t.Fatal(err)
	}
	var want [3]int32
	for r := range 4 {
		sum, chosen := float32(0), 0
		for e, w := range weights[3*r:][:3] {
			if w > 0 {
				sum, chosen = sum+w, chosen+1
				want[e]++
			}
		}
		if chosen != 2 || !(sum < 1) {
			t.Errorf("row %d has the weights %v, want two that add up to less than 1", r, weights[3*r:][:3])
		}
	}
	if !slices.Equal(counts, want[:]) {
		t.Errorf("rows of the experts: %v, want %v", counts, want)
	}
}

// TestFeatureSizes: the sizes have the numbers of weights that their layers say.
func TestFeatureSizes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"nano": 195_540, "tiny": 84_984_276, "medium": 337_740_244, "full": 807_846_356, "dense": 705_365_012} {
		n, err := NewFeatures(FeatureSizes[name], 1, false)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, w := range n.Program.Of(Weight) {
			got += w.Len()
		}
		if got != want {
			t.Errorf("%s has %d weights, want %d", name, got, want)
		}
	}
}

// TestFeatureSettings: a member that no network has is refused, and every other changes the program.
func TestFeatureSettings(t *testing.T) {
	t.Parallel()
	identity := func(f Features) string {
		n, err := NewFeatures(f, 2, true)
		if err != nil {
			t.Fatal(err)
		}
		return n.Program.Identity()
	}
	known := map[string]bool{identity(FeatureSizes["nano"]): true}
	for _, text := range []string{`{"inputs":95}`, `{"outputs":19}`, `{"hidden":64}`, `{"layers":3}`, `{"experts":5}`, `{"per_row":1}`, `{"experts":0,"per_row":0,"width":8}`} {
		f := FeatureSizes["nano"]
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
		id := identity(f)
		if known[id] {
			t.Errorf("%s: the program is that of other settings", text)
		}
		known[id] = true
	}
	for text, want := range map[string]string{
		`"huge"`: `features is "huge", want dense, full, medium, nano, tiny, or an object`, `{"router_kind":"x"}`: `features: unknown field "router_kind"`,
		`{"hidden":0}`: "features.hidden is 0", `{"experts":0}`: "features.per_row is 2, and there are no experts", `{"per_row":5}`: "features.per_row is 5, want 1 to the 4 experts",
		`{"width":7}`: "features.width is 7, and there are experts", `{"experts":0,"per_row":0}`: "features.width is 0 without experts", `{"hidden":"x"}`: "features: cannot unmarshal",
	} {
		f := FeatureSizes["nano"]
		err := json.Unmarshal([]byte(text), &f)
		if err == nil {
			err = f.Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
