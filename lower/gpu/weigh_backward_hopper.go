package gpu

import (
	_ "embed"
	"fmt"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/weigh_backward_hopper.cu
var weighBackwardHopperText string

// backwardHopper plans the launches of kernels/weigh_backward_hopper.cu.
type backwardHopper struct{ weighBackward }

// Of kernels/weigh_backward_hopper.cu: its entries, rows of at most so many elements, and the stages of the ring.
var backwardHopperDepths = [...]int{64, 96, lower.TensorCoreHeads}

const backwardHopperStages = 4

// CompileWeighBackwardHopper lowers the gradients of a stream to wgmma, for operands stored in the given formats. The bits are those
// of [CompileWeighBackwardMMA] on Hopper.
func CompileWeighBackwardHopper(d *def.Definition, dtypes []num.DType) (*Kernel, error) {
	f, ok := d.Form.(*def.StreamBackward)
	if !ok {
		return nil, fmt.Errorf("%s: is %s, want the gradients of a stream", d.Name, d.Form)
	}
	if dtype := dtypes[f.Query]; dtype != num.F16 && dtype != num.BF16 {
		return nil, fmt.Errorf("%s: is stored in %s, want f16 or bf16", d.Name, dtype)
	}
	return compileWeighBackwardHopper(d, dtypes, identifier(d.Name)), nil
}

// The entries are the deltas, then the gradients of keys and values and those of queries, by depth.
func compileWeighBackwardHopper(d *def.Definition, dtypes []num.DType, base string) *Kernel {
	f := d.Form.(*def.StreamBackward)
	var s strings.Builder
	s.WriteString(backwardTilesSource(d, dtypes, base, weighBackwardHopperText, "IS_BF16", truth(dtypes[f.Query] == num.BF16)))
	entries := []string{base + "_deltas"}
	for _, of := range []string{"keys", "queries"} {
		for _, depth := range backwardHopperDepths {
			entry := fmt.Sprintf("%s_%s_%d", base, of, depth)
			entries = append(entries, entry)
			fmt.Fprintf(&s, "\nKERNEL_ALONE(%s, %d)(GRID_CONSTANT MappedBackward m) { pull_%s<%d>(m); }\n", entry, weighHopperThreads, of, depth)
		}
	}
	entries = append(entries, base+"_check")
	k := &backwardHopper{weighBackward{weigh{d, &f.Stream}, f}}
	return &Kernel{Source: Source{Name: base, Text: s.String(), Entries: entries, NeedsTensorCores: true}, d: d, planner: k, check: len(entries) - 1}
}

// launches implements planner.
func (k *backwardHopper) launches(p *Plan, c *lower.Call, limits Limits) error {
	if err := SuitsWeighHopper(k.d, c); err != nil {
		return fmt.Errorf("%s: %w", k.d.Name, err)
	}
	entry := 0
	for backwardHopperDepths[entry] < c.Size(k.d, "D") {
		entry++
	}
	depth := backwardHopperDepths[entry]
	// Own rows of two matrices, and a ring of two matrices of those that come by; zeros, two numbers of each query, barriers and marks.
	matrix := tiles(depth, 64) * hopperLine * backwardOthers
	bytes := 2*matrix*(backwardOwn/backwardOthers+backwardHopperStages) + 8*hopperLine + backwardHopperStages*2*4*backwardOthers +
		(2*backwardHopperStages+1)*8 + 4*4 + hopperAlignment
	if bytes > limits.SharedBytes {
		return fmt.Errorf("%s: heads of %d columns need %d bytes of shared memory, the device has %d", k.d.Name, c.Size(k.d, "D"), bytes, limits.SharedBytes)
	}
	var maps []TensorMap
	for _, i := range []int{k.f.Query, k.f.Key, k.f.Value, k.f.OutGradient} {
		maps = append(maps, headsMap(&c.Operands[i], backwardOthers))
	}
	return k.launchSides(p, c, [2]int{1 + entry, 1 + len(backwardHopperDepths) + entry}, depth, weighHopperThreads, bytes, maps)
}
