package tkp1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"tokitai/model"
)

// config is the configuration of a file.
type config struct {
	ModelKind string `json:"model_kind"`
	Inputs    int    `json:"input_dim"`
	Outputs   int    `json:"output_dim"`
	Hidden    int    `json:"hidden_dim"`
	Layers    int    `json:"num_layers"`
	Experts   int    `json:"num_experts"`
	PerRow    int    `json:"top_k"`
}

// defaultPerRow is how many experts a row has if the configuration says nothing.
const defaultPerRow = 2

// place is where a parameter of a file stands in a network.
type place struct {
	theirs string
	ours   *model.Value
}

// Features returns the network whose parameters are in the file. Sizes follow from these; how many experts a row has is
// top_k of the configuration, or 2.
func (f *File) Features() (model.Features, error) {
	sizes := map[string]int{}
	for i := range f.Parameters {
		p := &f.Parameters[i]
		if _, isTwice := sizes[p.Name]; isTwice {
			return model.Features{}, fmt.Errorf("two parameters %s, want one", p.Name)
		}
		sizes[p.Name] = len(p.Weight)
	}
	var c config
	if err := json.Unmarshal(f.Config, &c); err != nil {
		return model.Features{}, fmt.Errorf("the configuration: %w", err)
	}
	x := model.Features{Experts: sizes["router.param_1"], Hidden: sizes["expert_0.param_1"], PerRow: c.PerRow}
	if x.PerRow == 0 {
		x.PerRow = defaultPerRow
	}
	count := 0 // of parameters of an expert
	for sizes["expert_0.param_"+strconv.Itoa(count)] > 0 {
		count++
	}
	if x.Experts == 0 || x.Hidden == 0 || count < 10 || count%4 != 2 {
		return model.Features{}, fmt.Errorf("a router of %d experts, of which the first has %d parameters, want 4 for each of two or more layers and 2 behind them", x.Experts, count)
	}
	x.Inputs, x.Outputs, x.Layers = sizes["router.param_0"]/x.Experts, sizes["expert_0.param_"+strconv.Itoa(count-1)], (count-2)/4-1
	return x, x.Check()
}

// places lists the parameters of a network in the order of a file.
func places(f model.Features) ([]place, error) {
	n, err := model.NewFeatures(f, 1, false)
	if err != nil {
		return nil, err
	}
	if f.Experts == 0 {
		return nil, fmt.Errorf("the network has no experts, want some: TKP1 has names for those alone")
	}
	var list []place
	add := func(group string, names ...string) {
		for i, name := range names {
			list = append(list, place{group + ".param_" + strconv.Itoa(i), n.Program.Value(name)})
		}
	}
	add("router", "router.weight", "router.bias")
	for e := range f.Experts {
		prefix := "experts." + strconv.Itoa(e) + "."
		var names []string
		for i := range f.Layers + 1 {
			layer, norm := prefix+"layers."+strconv.Itoa(i), prefix+"norms."+strconv.Itoa(i)
			names = append(names, layer+".weight", layer+".bias", norm+".weight", norm+".bias")
		}
		add("expert_"+strconv.Itoa(e), append(names, prefix+"head.weight", prefix+"head.bias")...)
	}
	return list, nil
}

// State is a weight with its moments.
type State struct{ Weight, M, V []float32 }

// Take returns the weights and moments by the names that they have in the network, matrices as [out, in], and the step of the
// moments, which is that of each parameter: the step of the file may count something else. The file is left without
// parameters, so that a large one is in memory once.
func (f *File) Take() (states map[string]State, step int, err error) {
	x, err := f.Features()
	if err != nil {
		return nil, 0, err
	}
	list, err := places(x)
	if err != nil {
		return nil, 0, err
	}
	if len(list) != len(f.Parameters) {
		return nil, 0, fmt.Errorf("%d parameters, want %d: %d experts like the first, and a router", len(f.Parameters), len(list), x.Experts)
	}
	given := map[string]*Parameter{}
	for i := range f.Parameters {
		p := &f.Parameters[i]
		if given[p.Name] = p; p.Step != f.Parameters[0].Step {
			return nil, 0, fmt.Errorf("%s is of step %d, and %s of step %d, want one step for all", p.Name, p.Step, f.Parameters[0].Name, f.Parameters[0].Step)
		}
	}
	for _, p := range list {
		have := 0
		if given[p.theirs] != nil {
			have = len(given[p.theirs].Weight)
		}
		if have != p.ours.Len() {
			return nil, 0, fmt.Errorf("%s has %d elements, want %d, %v of the network", p.theirs, have, p.ours.Len(), p.ours.Shape)
		}
	}
	states, step = map[string]State{}, int(f.Parameters[0].Step)
	for _, p := range list {
		from := given[p.theirs]
		to := [3][]float32{from.Weight, from.M, from.V}
		from.Weight, from.M, from.V, from.Grad = nil, nil, nil, nil
		for i := range to {
			if len(p.ours.Shape) == 2 {
				to[i] = transposed(to[i], p.ours.Shape[1], p.ours.Shape[0])
			}
		}
		states[p.ours.Name] = State{to[0], to[1], to[2]}
	}
	f.Parameters = nil
	return states, step, nil
}

// transposed returns a matrix of so many rows and columns with both exchanged.
func transposed(x []float32, rows, cols int) []float32 {
	y := make([]float32, len(x))
	for r := range rows {
		for c := range cols {
			y[c*rows+r] = x[r*cols+c]
		}
	}
	return y
}

// New returns a file of a network after a step. read returns a weight, and its m and v; a nil moment stands for zeros.
func New(f model.Features, step int, read func(name string) (weight, m, v []float32, err error)) (*File, error) {
	list, err := places(f)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config{"moe", f.Inputs, f.Outputs, f.Hidden, f.Layers, f.Experts, f.PerRow})
	if err != nil {
		return nil, err
	}
	to := &File{Step: uint32(step), Config: text}
	for _, p := range list {
		weight, m, v, err := read(p.ours.Name)
		if err != nil {
			return nil, err
		}
		stored := [][]float32{weight, m, v}
		for i := range stored {
			if stored[i] == nil {
				stored[i] = make([]float32, len(weight))
			}
			if len(p.ours.Shape) == 2 {
				stored[i] = transposed(stored[i], p.ours.Shape[0], p.ours.Shape[1])
			}
		}
		to.Parameters = append(to.Parameters, Parameter{Name: p.theirs, Weight: stored[0], M: stored[1], V: stored[2], Step: uint32(step)})
	}
	return to, nil
}

// ArchitectureFile is the name of the file beside a TKP1 file that describes its architecture.
const ArchitectureFile = "arch.json"

// architecture is that file.
type architecture struct {
	config
	Hash string `json:"hash"` // the first 16 hexadecimal digits of the SHA-256 of the configuration
}

func (f *File) hash() string {
	sum := sha256.Sum256(f.Config)
	return hex.EncodeToString(sum[:8])
}

// Architecture returns the text of the file beside this one.
func (f *File) Architecture() ([]byte, error) {
	a := architecture{Hash: f.hash()}
	if err := json.Unmarshal(f.Config, &a.config); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(a, "", "  ")
	return append(text, '\n'), err
}

// CheckArchitecture returns an error for the text of an arch.json that is not of this file: the members that it has in common
// with the configuration have the same values. The hash is not compared, since programs may write
// a configuration, and hash it, in other ways.
func (f *File) CheckArchitecture(text []byte) error {
	var beside, own map[string]any
	if err := json.Unmarshal(text, &beside); err != nil {
		return err
	}
	if err := json.Unmarshal(f.Config, &own); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if v, isThere := beside[name]; isThere && !reflect.DeepEqual(v, own[name]) {
			return fmt.Errorf("%s is %v, and %v in the TKP1 file", name, v, own[name])
		}
	}
	return nil
}
