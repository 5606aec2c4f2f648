package huggingface

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tokitai/internal/jsontree"
	"tokitai/model"
	"tokitai/num"
)

// quantization reads how weights are stored in fewer bits. Only e4m3 with e4m3 inputs is known; anything else would
// compute something else, and is refused by its name.
func (f *fields) quantization(c *model.Config, family *Family) {
	v := f.get("quantization_config")
	if v == nil || f.err != nil {
		return
	}
	if v.Kind != jsontree.Object {
		f.wrong("quantization_config", v, "an object")
		return
	}
	q := newFields(v, "quantization_config.")
	var excepted func(layer string) bool
	switch method := q.text("quant_method", ""); method {
	case "fp8":
		excepted = q.fp8(c)
	case "compressed-tensors":
		excepted = q.compressed(c)
	case "":
		q.fail("quantization_config has no quant_method, want fp8 or compressed-tensors")
	default:
		q.fail("the weights are quantised by %q, which is not supported: want fp8, or compressed-tensors in FP8", method)
	}
	if err := q.end(); err != nil {
		f.fail("%w", err)
		return
	}
	switch {
	case family.Type == "gpt2":
		f.fail("quantization_config: the weights of GPT-2 are stored transposed, which is not supported in FP8")
	case f.err != nil || c.Layers > maxLayers || c.Check() != nil: // refused elsewhere
		return
	}
	var except []string
	for _, layer := range c.LinearLayers() {
		parts, n := partsOf(layer, c.Mixture.Experts), 0
		for _, part := range parts {
			if excepted(part) {
				n++
			}
		}
		switch n {
		case 0:
		case len(parts):
			except = append(except, layer)
		default:
			f.fail("quantization_config leaves %d of the %d experts of %s as they are, which is not supported: want all or none", n, len(parts), layer)
		}
	}
	c.FP8.Except = model.NamesOf(except...)
}

const expertsPart = ".mlp.experts."

// partsOf returns the names that files have for what a program names once: one for each expert.
func partsOf(name string, experts int) []string {
	layer, rest, isExpert := strings.Cut(name, expertsPart)
	if !isExpert {
		return []string{name}
	}
	list := make([]string, experts)
	for e := range list {
		list[e] = layer + expertsPart + strconv.Itoa(e) + "." + rest
	}
	return list
}

// fp8 reads the method of transformers and vLLM, and returns which layers it leaves as they are.
func (f *fields) fp8(c *model.Config) (excepted func(string) bool) {
	f.must("fmt", "weights are in e4m3", `"e4m3"`, `"float8_e4m3fn"`)
	f.must("scale_fmt", "scales are any numbers of binary32", `"float"`)
	f.must("expert_dtype", "experts are in e4m3", `"fp8"`)
	f.must("dequantize", "weights are multiplied as they are stored", "false")
	f.kvCache()
	c.FP8.Scales = "rows"
	if f.get("weight_block_size") != nil {
		c.FP8.Scales = "blocks"
		f.blockSize("weight_block_size")
	}
	switch scheme := f.text("activation_scheme", "dynamic"); scheme {
	case "dynamic":
	case "static":
		c.FP8.IsStatic = true
	default:
		f.fail("%sactivation_scheme is %q, want dynamic or static", f.within, scheme)
	}
	names := append(f.texts("modules_to_not_convert"), f.texts("ignored_layers")...)
	return func(layer string) bool {
		for _, n := range names { // as transformers has it
			if layer == n || strings.HasPrefix(layer, n+".") || strings.HasSuffix(layer, n) {
				return true
			}
		}
		return false
	}
}

// blockSize refuses blocks of another size than those of model.FP8.
func (f *fields) blockSize(name string) {
	if size := f.integers(name); f.err == nil && !slices.Equal(size, []int{model.FP8Block, model.FP8Block}) {
		f.fail("%s%s is %v, which is not supported: want [128 128]", f.within, name, size)
	}
}

func (f *fields) kvCache() {
	const because = "keys and values are stored like activations"
	f.must("kv_cache_scheme", because)
	f.must("kv_cache_quant_method", because)
}

// compressed reads the method of llm-compressor.
func (f *fields) compressed(c *model.Config) (excepted func(string) bool) {
	f.must("format", "weights are stored in FP8, one byte each", `"float-quantized"`, `"naive-quantized"`)
	f.must("quantization_status", "weights are stored quantised", `"compressed"`, `"frozen"`)
	f.must("sparsity_config", "weights have all elements", "{}")
	f.must("transform_config", "inputs of layers are not transformed", "{}")
	f.kvCache()
	f.ignore("global_compression_ratio", "version")
	groups := f.get("config_groups")
	if groups == nil || groups.Kind != jsontree.Object || len(groups.Members) != 1 {
		f.fail("%sconfig_groups: want one group of layers", f.within)
		return nil
	}
	g := newFields(&groups.Members[0].Value, f.within+"config_groups."+groups.Members[0].Name+".")
	if g.object.Kind != jsontree.Object {
		f.fail("%sconfig_groups has %s, want an object", f.within, g.object.Kind)
		return nil
	}
	if targets := g.texts("targets"); len(targets) != 1 || targets[0] != "Linear" {
		g.fail("%stargets is %q, want Linear: all linear layers", g.within, targets)
	}
	g.must("output_activations", "results are stored like activations")
	g.must("format", "weights are stored in FP8, one byte each", `"float-quantized"`, `"naive-quantized"`)
	c.FP8.Scales = "rows"
	weights, inputs := g.inside("weights"), g.inside("input_activations")
	for _, part := range []*fields{weights, inputs} {
		part.must("type", "FP8 alone is", `"float"`)
		part.must("num_bits", "FP8 alone is", "8")
		part.must("symmetric", "values are scaled, not shifted", "true")
		part.must("actorder", "columns are in their order", "false")
		part.ignore("observer", "observer_kwargs", "scale_dtype", "zp_dtype") // how scales were found and stored
	}
	weights.must("dynamic", "weights are quantised in the file", "false")
	weights.must("strategy", "a scale is that of a weight, of a row or of a block", `"tensor"`, `"channel"`, `"block"`)
	isDynamic := inputs.bool("dynamic", false)
	switch strategy := inputs.text("strategy", ""); {
	case weights.text("strategy", "") == "block":
		c.FP8.Scales = "blocks"
		weights.blockSize("block_structure")
		inputs.must("strategy", "rows have a scale for each 128 columns, as blocks have", `"group"`)
		inputs.must("group_size", "rows have a scale for each 128 columns, as blocks have", "128")
		inputs.must("dynamic", "inputs have scales of their own", "true")
	case strategy == "token" && isDynamic:
	case strategy == "tensor" && !isDynamic:
		c.FP8.IsStatic = true
	default:
		inputs.fail("%sstrategy is %q and dynamic %t, want token and true, or tensor and false", inputs.within, strategy, isDynamic)
	}
	for _, part := range []*fields{g, weights, inputs} {
		if c.FP8.Scales != "blocks" {
			part.must("group_size", "weights have no blocks")
			part.must("block_structure", "weights have no blocks")
		}
		if err := part.end(); err != nil {
			f.fail("%w", err)
		}
	}
	return f.ignored()
}

// inside returns the members of an object that must be there.
func (f *fields) inside(name string) *fields {
	v := f.get(name)
	if v == nil || v.Kind != jsontree.Object {
		f.fail("%s%s is missing: want FP8 for weights and for their inputs", f.within, name)
		v = &jsontree.Value{Kind: jsontree.Object}
	}
	return newFields(v, f.within+name+".")
}

// ignored reads which layers llm-compressor leaves as they are: names, or behind "re:" patterns of their beginnings.
func (f *fields) ignored() func(layer string) bool {
	names := map[string]bool{}
	var patterns []*regexp.Regexp
	for _, n := range f.texts("ignore") {
		pattern, isPattern := strings.CutPrefix(n, "re:")
		if !isPattern {
			names[n] = true
			continue
		}
		p, err := regexp.Compile("^(?:" + pattern + ")")
		if err != nil {
			f.fail("%signore has the pattern %q, which is not supported: %v", f.within, pattern, err)
			continue
		}
		patterns = append(patterns, p)
	}
	return func(layer string) bool {
		for _, p := range patterns {
			if p.MatchString(layer) {
				return true
			}
		}
		return names[layer]
	}
}

// scalesOf returns the values that make up one with scales: itself, or those of the experts, whose names are as files
// have them. For other values there are none.
func (f *Folder) scalesOf(w *model.Value) []*model.Value {
	isScale := func(end string) bool { return strings.HasSuffix(w.Name, end) }
	if !f.Config.FP8.IsUsed() || !slices.ContainsFunc([]string{model.WeightScale, model.InputScale, model.ProductScale}, isScale) {
		return nil
	}
	if !strings.Contains(w.Name, expertsPart) {
		return []*model.Value{w}
	}
	part := model.Value{Kind: w.Kind, DType: w.DType, Shape: w.Shape[1:]} // without the experts
	switch len(w.Shape) {
	case 1:
		part.Shape = []int{1}
	case 3:
		part.Shape = []int{w.Shape[0], w.Shape[2]}
	}
	var list []*model.Value
	for _, name := range partsOf(w.Name, f.Config.Mixture.Experts) {
		of := part
		of.Name = name
		list = append(list, &of)
	}
	return list
}

// tensorOfScale returns the tensor that has the scales of a linear layer, for a value that is made of them. DeepSeek and
// transformers have other names for them than vLLM: those of weights end in _inv, and that of inputs is activation_scale.
func (f *Folder) tensorOfScale(w *model.Value) string {
	for _, end := range []struct{ ours, name, other string }{
		{model.WeightScale, model.WeightScale, model.WeightScale + "_inv"},
		{model.ProductScale, model.WeightScale, model.WeightScale + "_inv"},
		{model.InputScale, model.InputScale, ".activation_scale"},
	} {
		if layer, is := strings.CutSuffix(w.Name, end.ours); is {
			if f.set.Has(layer+end.other) && !f.set.Has(layer+end.name) {
				return layer + end.other
			}
			return layer + end.name
		}
	}
	return w.Name
}

// checkScale compares the header of a scale with what the program wants: a number, one for each row, or one for each
// block.
func (f *Folder) checkScale(w *model.Value, name string) error {
	i, err := f.info(name)
	if err != nil {
		return err
	}
	fits, want := elements(i.Shape) == 1 && len(i.Shape) <= 2, "one number"
	switch {
	case strings.HasSuffix(w.Name, model.InputScale):
	case f.Config.FP8.Scales == "rows":
		fits = fits || slices.Equal(i.Shape, w.Shape) || slices.Equal(i.Shape, []int{w.Len(), 1})
		want += fmt.Sprintf(", or one for each of %d rows", w.Len())
	default:
		blocks := f.blocks(w)
		fits, want = slices.Equal(i.Shape, blocks), fmt.Sprintf("%v: one for each block", blocks)
	}
	if !fits {
		return &FormatError{f.set.Path(), fmt.Errorf("scale %q is %v, want %s", name, i.Shape, want)}
	}
	if d := i.Storage(); d != num.F32 && d != num.BF16 && d != num.F16 {
		return &FormatError{f.set.Path(), fmt.Errorf("scale %q is %v, which is not supported: want F32, BF16 or F16", name, i.DType)}
	}
	f.Stored[i.DType]++
	return nil
}

// blocks returns how many blocks a weight has down and across, by the value of the program that holds its scales: one
// for each block across and each row.
func (f *Folder) blocks(w *model.Value) []int {
	return []int{(w.Shape[1] + model.FP8Block - 1) / model.FP8Block, w.Shape[0]}
}

// checkScales refuses scales that are not finite numbers above 0.
func (f *Folder) checkScales(name string, data []byte) error {
	for k := 0; k < len(data); k += 4 {
		if s := math.Float32frombits(binary.LittleEndian.Uint32(data[k:])); !(s > 0) || math.IsInf(float64(s), 0) {
			return &FormatError{f.set.Path(), fmt.Errorf("scale %q has %v at %d, want numbers above 0", name, s, k/4)}
		}
	}
	return nil
}

// joinedScales returns a value that parts make up. Scales of blocks have their experts behind each block across.
func (f *Folder) joinedScales(w *model.Value, parts []*model.Value) ([]byte, error) {
	lists := make([][]byte, len(parts))
	for e, part := range parts {
		var err error
		if lists[e], err = f.scales(part); err != nil {
			return nil, err
		}
	}
	across := 1
	if len(w.Shape) == 3 {
		across = w.Shape[0]
	}
	joined := make([]byte, 0, w.Bytes())
	for b := range across {
		for _, list := range lists {
			size := len(list) / across
			joined = append(joined, list[b*size:(b+1)*size]...)
		}
	}
	return joined, nil
}

// scales returns the scales of a layer, in binary32, of which there is one for each element that the program wants.
func (f *Folder) scales(w *model.Value) ([]byte, error) {
	name := f.tensorOfScale(w)
	i, err := f.info(name)
	if err != nil {
		return nil, err
	}
	data, err := f.read(name)
	if err != nil {
		return nil, err
	}
	if data, err = convert(num.F32, i.Storage(), data); err != nil {
		return nil, err
	}
	if err := f.checkScales(name, data); err != nil {
		return nil, err
	}
	if layer, isProduct := strings.CutSuffix(w.Name, model.ProductScale); isProduct {
		input, err := f.scales(&model.Value{Name: layer + model.InputScale, Shape: []int{1}})
		if err != nil {
			return nil, err
		}
		by := num.Array{DType: num.F32, Rows: 1, Cols: 1, Stride: 1, Data: input}
		products := num.Array{DType: num.F32, Rows: 1, Cols: len(data) / 4, Stride: len(data) / 4, Data: data}
		for k := range products.Cols {
			products.Set(0, k, products.At(0, k)*by.At(0, 0))
		}
		if err := f.checkScales(name+" times "+layer+model.InputScale, data); err != nil {
			return nil, err
		}
	}
	switch {
	case len(w.Shape) == 2: // of blocks
		across, rows := w.Shape[0], w.Shape[1]
		var list []byte
		for b := range across {
			for r := range rows {
				at := 4 * (r/model.FP8Block*across + b)
				list = append(list, data[at:at+4]...)
			}
		}
		return list, nil
	case len(data) == 4:
		return bytes.Repeat(data, w.Len()), nil
	}
	return data, nil
}
