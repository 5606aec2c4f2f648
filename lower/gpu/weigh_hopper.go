package gpu

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/weigh_hopper.cu
var weighHopperText string

// weighHopper plans the launch of kernels/weigh_hopper.cu.
type weighHopper struct{ weigh }

// weighHopperDepths are the entries of kernels/weigh_hopper.cu, in their order: rows of at most so many
// elements.
var weighHopperDepths = [...]int{64, lower.TensorCoreHeads}

// Of kernels/weigh_hopper.cu.
const (
	weighHopperStages  = 2 // of each ring
	weighHopperThreads = 3 * 128
)

// CompileWeighHopper lowers a stream to wgmma, for operands stored in the given formats. The bits are those of [CompileWeighMMA]
// on Hopper.
func CompileWeighHopper(d *def.Definition, dtypes []num.DType) (*Kernel, error) {
	f, ok := d.Form.(*def.Stream)
	switch {
	case !ok:
		return nil, fmt.Errorf("%s: is %s, want a stream", d.Name, d.Form)
	case f.IsPaged():
		return nil, fmt.Errorf("%s: %w", d.Name, errPaged)
	}
	if dtype := dtypes[f.Query]; dtype != num.F16 && dtype != num.BF16 {
		return nil, fmt.Errorf("%s: is stored in %s, want f16 or bf16", d.Name, dtype)
	}
	return compileWeighHopper(d, dtypes, identifier(d.Name)), nil
}

func compileWeighHopper(d *def.Definition, dtypes []num.DType, base string) *Kernel {
	f := d.Form.(*def.Stream)
	var s strings.Builder
	more := append(fragmentMacros(dtypes[f.Query]), "IS_BF16", truth(dtypes[f.Query] == num.BF16))
	s.WriteString(weighSource(d, dtypes, base, weighFragmentsText+weighTilesText+weighHopperText, nil, more...))
	var entries []string
	for _, depth := range weighHopperDepths {
		entry := fmt.Sprintf("%s_%d", base, depth)
		entries = append(entries, entry)
		fmt.Fprintf(&s, "\nKERNEL_ALONE(%s, %d)(GRID_CONSTANT MappedParams m) { weigh_all<%d>(m); }\n", entry, weighHopperThreads, depth)
	}
	entries = append(entries, base+"_check")
	k := &weighHopper{weigh{d, f}}
	return &Kernel{Source: Source{Name: base, Text: s.String(), Entries: entries, NeedsTensorCores: true}, d: d, planner: k, check: len(entries) - 1}
}

// Why kernels/weigh_hopper.cu does not compute a call.
var (
	errPaged     = errors.New("keys and values lie in pages")
	errNoStride  = errors.New("heads or tokens of an operand lie in one place")
	errManyQuery = errors.New("an operand has 2^31 tokens or more")
)

// SuitsWeighHopper returns an error for a call of a stream, or of its gradients, that the kernels for wgmma do not compute.
func SuitsWeighHopper(d *def.Definition, c *lower.Call) error {
	f := d.Stream()
	if f == nil || f.IsPaged() {
		return errPaged
	}
	if err := SuitsWeighMMA(d, c); err != nil {
		return err
	}
	if WeighMMAVariant(d, c) != Vector {
		return errUnaligned
	}
	mapped := []int{f.Query, f.Key, f.Value}
	if b, ok := d.Form.(*def.StreamBackward); ok {
		mapped = append(mapped, b.OutGradient)
	}
	for _, i := range mapped {
		if err := isHeadsMap(&c.Operands[i]); err != nil {
			return err
		}
	}
	return nil
}

// isHeadsMap returns an error for an operand whose tokens have no tensor map of heads.
func isHeadsMap(o *lower.Operand) error {
	if o.Cols*o.DType.Size()%16 != 0 {
		return errUnaligned
	}
	m := headsMap(o, 1)
	for j, stride := range m.Strides[:m.Rank-1] {
		switch {
		case m.Sizes[j+1] > math.MaxInt32-weighTile:
			return errManyQuery
		case stride == 0:
			return errNoStride
		case stride%16 != 0 || stride >= 1<<40:
			return errUnaligned
		}
	}
	return nil
}

// HasFewQueries reports whether the sequences of a call of a stream have so few queries that kernels/weigh_mma.cu, which divides
// their keys among blocks, is faster than kernels/weigh_hopper.cu.
func HasFewQueries(d *def.Definition, c *lower.Call) bool {
	return (&weighFragments{weigh: weigh{d, d.Form.(*def.Stream)}}).isFew(c)
}

// headsMap returns the tensor map of tokens with heads, in boxes of so many tokens: 64 elements of a head of each.
func headsMap(o *lower.Operand, tokens int) TensorMap {
	size := o.DType.Size()
	m := TensorMap{Address: o.Pointer, ElementBytes: size, Rank: 5, Sizes: [5]uint64{uint64(o.Cols)}, Box: [5]uint32{uint32(hopperLine / size), uint32(tokens), 1, 1, 1}}
	dims, strides := make([]int, 0, 4), make([]int, 0, 4)
	for _, a := range o.Batch.Axes[:o.Batch.Count] {
		dims, strides = append(dims, a.Size), append(strides, a.Stride)
	}
	dims, strides = append(dims, o.Rows/max(1, o.Matrices())), append(strides, o.Stride)
	for i := range m.Sizes[1:] {
		m.Sizes[1+i], m.Strides[i] = 1, 16
		if i < len(dims) && dims[i] > 1 {
			m.Sizes[1+i], m.Strides[i] = uint64(dims[i]), uint64(strides[i]*size)
		}
	}
	return m
}

// launches implements planner.
func (k *weighHopper) launches(p *Plan, c *lower.Call, limits Limits) error {
	if err := SuitsWeighHopper(k.d, c); err != nil {
		return fmt.Errorf("%s: %w", k.d.Name, err)
	}
	entry := 0
	for weighHopperDepths[entry] < c.Size(k.d, "D") {
		entry++
	}
	depth := weighHopperDepths[entry]
	// Queries, blocks of keys and of values, and what the segments before have given; zeros, notices, barriers and marks.
	bytes := depth*(weighMMATile*2+2*weighHopperStages*def.StreamBlock*2+weighMMATile*4) + 8*hopperLine + weighHopperStages*16 + (4*weighHopperStages+1)*8 + 4*4 + hopperAlignment
	if bytes > limits.SharedBytes {
		return fmt.Errorf("%s: heads of %d columns need %d bytes of shared memory, the device has %d", k.d.Name, c.Size(k.d, "D"), bytes, limits.SharedBytes)
	}
	return k.launchMapped(p, c, entry, bytes)
}

// launchMapped plans the launch.
func (k *weighHopper) launchMapped(p *Plan, c *lower.Call, entry, sharedBytes int) error {
	blocks, err := k.blocksOf(c, weighMMATile)
	if err != nil || blocks == 0 {
		return err
	}
	p.launch(entry, [3]uint32{uint32(blocks), 1, 1}, [3]uint32{weighHopperThreads, 1, 1}, sharedBytes)
	for _, o := range []struct{ operand, tokens int }{{k.f.Query, weighMMATile / 2}, {k.f.Key, def.StreamBlock}, {k.f.Value, def.StreamBlock}} {
		m := headsMap(&c.Operands[o.operand], o.tokens)
		p.tensorMap(&m)
	}
	k.params(p, c)
	p.align(64)
	return nil
}
