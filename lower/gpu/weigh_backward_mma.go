package gpu

import (
	_ "embed"
	"fmt"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/weigh_backward_tiles.cu
var weighBackwardTilesText string

//go:embed kernels/weigh_backward_mma.cu
var weighBackwardMMAText string

// backwardFragments plans the launches of kernels/weigh_backward_mma.cu.
type backwardFragments struct {
	weighBackward
	variant Variant
}

// Sizes of kernels/weigh_backward_tiles.cu: rows of a block, and of what comes by.
const (
	backwardOwn    = 128
	backwardOthers = 64
)

// CompileWeighBackwardMMA lowers the gradients of a stream to mma.sync, for operands stored in the given
// formats. The bits are those of the model that [TensorCoreAccum] returns.
func CompileWeighBackwardMMA(d *def.Definition, dtypes []num.DType, v Variant) (*Kernel, error) {
	f, ok := d.Form.(*def.StreamBackward)
	if !ok {
		return nil, fmt.Errorf("%s: is %s, want the gradients of a stream", d.Name, d.Form)
	}
	if dtype := dtypes[f.Query]; dtype != num.F16 && dtype != num.BF16 {
		return nil, fmt.Errorf("%s: is stored in %s, want f16 or bf16", d.Name, dtype)
	}
	return compileWeighBackwardMMA(d, dtypes, v, identifier(d.Name)), nil
}

// The entries are the deltas, then the gradients of keys and values and those of queries, by depth.
func compileWeighBackwardMMA(d *def.Definition, dtypes []num.DType, v Variant, base string) *Kernel {
	f := d.Form.(*def.StreamBackward)
	var s strings.Builder
	s.WriteString(backwardTilesSource(d, dtypes, base, weighBackwardMMAText))
	entries := []string{base + "_deltas"}
	for _, of := range []string{"keys", "queries"} {
		for _, depth := range weighDepths {
			entry := fmt.Sprintf("%s_%s_%d", base, of, depth)
			entries = append(entries, entry)
			fmt.Fprintf(&s, "\nKERNEL_BLOCKS(%s, %d, 1)(const Backward f) { pull_%s<%d, %t>(f); }\n", entry, 2*backwardOwn, of, depth, v == Element)
		}
	}
	entries = append(entries, base+"_check")
	k := &backwardFragments{weighBackward{weigh{d, &f.Stream}, f}, v}
	return &Kernel{Source: Source{Name: base, Text: s.String(), Entries: entries, NeedsTensorCores: true}, d: d, planner: k, check: len(entries) - 1}
}

// backwardTilesSource returns the source of kernels for gradients on tensor cores, and of deltas.
func backwardTilesSource(d *def.Definition, dtypes []num.DType, base, kernels string, more ...string) string {
	dtype := dtypes[d.Form.(*def.StreamBackward).Query]
	more = append(append(fragmentMacros(dtype), "LOAD(AT)", fmt.Sprintf("load_%s(AT)", dtype), "HAS_SLOPE", number(hasSlope(d))), more...)
	return weighSource(d, dtypes, base, weighFragmentsText+weighBackwardTilesText+kernels+weighDeltasText, []string{"ENTRY_DELTAS,", base + "_deltas,"}, more...)
}

// hasSlope reports whether exponents are not the scores times a constant.
func hasSlope(d *def.Definition) bool {
	f := d.Form.(*def.StreamBackward)
	slope := f.Math.Outputs[f.Slope()].Value
	return slope.Op != def.OpConst || slope.Real.F32() != 1
}

// launches implements planner.
func (k *backwardFragments) launches(p *Plan, c *lower.Call, limits Limits) error {
	if err := SuitsWeighMMA(k.d, c); err != nil {
		return fmt.Errorf("%s: %w", k.d.Name, err)
	}
	if k.variant == Vector && WeighMMAVariant(k.d, c) != Vector {
		return fmt.Errorf("%s: rows do not begin at multiples of 16 bytes", k.d.Name)
	}
	entry := 0
	for weighDepths[entry] < c.Size(k.d, "D") {
		entry++
	}
	// Two matrices of the block's own rows, two tiles of two that come by, and two numbers for each of their queries.
	depth := weighDepths[entry]
	bytes := 2*2*depth*(backwardOwn+2*backwardOthers) + 2*4*2*max(backwardOwn, backwardOthers)
	if bytes > limits.SharedBytes {
		return fmt.Errorf("%s: heads of %d columns need %d bytes of shared memory, the device has %d", k.d.Name, c.Size(k.d, "D"), bytes, limits.SharedBytes)
	}
	return k.launchSides(p, c, [2]int{1 + entry, 1 + len(weighDepths) + entry}, depth, 2*backwardOwn, bytes, nil)
}

// launchSides plans the launches of the deltas, then of the two entries that compute gradients of keys and values, and of queries.
func (k *weighBackward) launchSides(p *Plan, c *lower.Call, entries [2]int, depth, threads, sharedBytes int, maps []TensorMap) error {
	groups, shared, tokens := c.Size(k.d, "G"), c.Size(k.d, "J"), c.Size(k.d, "T")
	sequences := c.Operands[k.f.QueryStarts].Rows - 1
	keys := lower.GroupSlots(c.Size(k.d, "S"), backwardOwn, sequences) * groups
	queries := lower.GroupSlots(tokens, backwardOwn, sequences) * groups * shared
	delta := p.reserve(tokens * groups * shared)
	sums := int64(0)
	if shared > 1 || tokens > 1 { // there may be several heads, or segments of queries
		sums = p.reserve(keys * 2 * depth * backwardOwn)
	}
	if err := k.launchBackward(p, c, backwardDeltas, [3]int{tiles(tokens*groups*shared, backwardWarps), 1, 1}, 32*backwardWarps, 0, delta, nil); err != nil {
		return err
	}
	for i, blocks := range []int{keys, queries} {
		if err := k.launchBackward(p, c, entries[i], [3]int{blocks, 1, 1}, threads, sharedBytes, delta, maps); err != nil {
			return err
		}
		if blocks == 0 {
			continue
		}
		p.scratch(sums)
		if maps != nil {
			p.align(64)
		}
	}
	return nil
}
