package gpu

import (
	_ "embed"
	"fmt"
	"math"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/weigh_fragments.cu
var weighFragmentsText string

//go:embed kernels/weigh_tiles.cu
var weighTilesText string

//go:embed kernels/weigh_mma.cu
var weighMMAText string

//go:embed kernels/weigh_few.cu
var weighFewText string

// weighFragments plans the launch of kernels/weigh_mma.cu.
type weighFragments struct {
	weigh
	variant Variant
}

// weighDepths are the entries of kernels/weigh_mma.cu, in their order: rows of at most so many
// elements.
var weighDepths = [...]int{32, 64, lower.TensorCoreHeads}

// weighMMATile is the number of queries of a block, which has two threads for each.
const weighMMATile = 128

// CompileWeighMMA lowers a stream to mma.sync, for operands stored in the given formats. The bits
// are those of the model that [TensorCoreAccum] returns.
func CompileWeighMMA(d *def.Definition, dtypes []num.DType, v Variant) (*Kernel, error) {
	f, ok := d.Form.(*def.Stream)
	if !ok {
		return nil, fmt.Errorf("%s: is %s, want a stream", d.Name, d.Form)
	}
	if dtype := dtypes[f.Query]; dtype != num.F16 && dtype != num.BF16 {
		return nil, fmt.Errorf("%s: is stored in %s, want f16 or bf16", d.Name, dtype)
	}
	return compileWeighMMA(d, dtypes, v, identifier(d.Name)), nil
}

func compileWeighMMA(d *def.Definition, dtypes []num.DType, v Variant, base string) *Kernel {
	f := d.Form.(*def.Stream)
	var s strings.Builder
	s.WriteString(weighSource(d, dtypes, base, weighFragmentsText+weighTilesText+weighMMAText+weighFewText, nil, fragmentMacros(dtypes[f.Query])...))
	var entries []string
	for _, depth := range weighDepths {
		entry := fmt.Sprintf("%s_%d", base, depth)
		entries = append(entries, entry)
		fmt.Fprintf(&s, "\nKERNEL_BLOCKS(%s, %d, 1)(const Params p) { weigh<%d, %t>(p); }\n", entry, 2*weighMMATile, depth, v == Element)
	}
	for _, depth := range weighDepths {
		entry := fmt.Sprintf("%s_few_%d", base, depth)
		entries = append(entries, entry)
		fmt.Fprintf(&s, "\nKERNEL_BLOCKS(%s, %d, %d)(const Few f) { weigh_few<%d, %t>(f); }\n", entry, 2*weighMMATile, weighFewAtOnce, depth, v == Element)
	}
	for _, depth := range weighDepths {
		entry := fmt.Sprintf("%s_join_%d", base, depth)
		entries = append(entries, entry)
		fmt.Fprintf(&s, "\nKERNEL(%s, %d)(const Few f) { join_segments<%d>(f); }\n", entry, 2*weighMMATile, depth)
	}
	entries = append(entries, base+"_check")
	k := &weighFragments{weigh{d, f}, v}
	return &Kernel{Source: Source{Name: base, Text: s.String(), Entries: entries, NeedsTensorCores: true}, d: d, planner: k, check: len(entries) - 1}
}

// fragmentMacros are those that kernels/weigh_fragments.cu needs for a format.
func fragmentMacros(dtype num.DType) []string {
	exponents, last := "0x7c007c00u", "0x04000400u"
	if dtype == num.BF16 {
		exponents, last = "0x7f807f80u", "0x00800080u"
	}
	return []string{
		"MULTIPLY_ADD", fmt.Sprintf("mma_16_8_16_%s", dtype),
		"NARROW_PAIR(LOW, HIGH)", fmt.Sprintf("narrow_pair_%s(LOW, HIGH)", dtype),
		"EXPONENTS", exponents,
		"LAST_EXPONENTS", last,
	}
}

// WeighMMAVariant returns the variant of the kernels for tensor cores that computes a call of a stream, or of its gradients.
func WeighMMAVariant(d *def.Definition, c *lower.Call) Variant {
	for i := range d.Operands {
		if o := &d.Operands[i]; o.Dims[len(o.Dims)-1] == "D" && !isVector(&c.Operands[i]) {
			return Element
		}
	}
	return Vector
}

// SuitsWeighMMA returns an error for a call of a stream, or of its gradients, that those kernels do not compute.
func SuitsWeighMMA(d *def.Definition, c *lower.Call) error {
	if depth := c.Size(d, "D"); depth > lower.TensorCoreHeads {
		return fmt.Errorf("heads of %d columns are too wide, want at most %d", depth, lower.TensorCoreHeads)
	}
	return nil
}

// launches implements planner.
func (k *weighFragments) launches(p *Plan, c *lower.Call, limits Limits) error {
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
	if k.isFew(c) {
		return k.launchFew(p, c, entry, limits)
	}
	// Two blocks of keys and of values, and what the segments before have given.
	bytes := weighDepths[entry]*(4*def.StreamBlock*2+weighMMATile*4) + 2*weighMMATile*16
	if bytes > limits.SharedBytes {
		return fmt.Errorf("%s: heads of %d columns need %d bytes of shared memory, the device has %d", k.d.Name, c.Size(k.d, "D"), bytes, limits.SharedBytes)
	}
	return k.launchTiles(p, c, entry, weighMMATile, 1, 2*weighMMATile, bytes)
}

// Where sequences have at most weighFewQueries queries on average, a block takes a segment of keys and all
// heads that share them; weighFewAtOnce blocks fit into a multiprocessor. weighFewScratch is the most memory for what
// the segments give.
const (
	weighFewQueries = 16
	weighFewRows    = 16
	weighFewAtOnce  = 2
	weighFewScratch = 256 << 20
)

// segments returns how many segments the keys of a sequence have, at most.
func (k *weighFragments) segments(c *lower.Call) int {
	keys := 0
	if k.f.IsPaged() {
		keys = c.Size(k.d, "M") * c.Size(k.d, "N")
	} else {
		keys = c.Size(k.d, "S")
	}
	return tiles(keys, def.StreamSegment)
}

// isFew reports whether sequences have few queries, as far as the host knows.
func (k *weighFragments) isFew(c *lower.Call) bool {
	tokens, sequences := c.Size(k.d, "T"), c.Operands[k.f.QueryStarts].Rows-1
	rows := tokens * c.Size(k.d, "G") * c.Size(k.d, "J")
	return tokens > 0 && tokens <= weighFewQueries*sequences && rows*k.segments(c) <= weighFewScratch/4/(weighDepths[len(weighDepths)-1]+2)
}

// launchFew plans the launches of kernels/weigh_few.cu: of segments, and of what joins them.
func (k *weighFragments) launchFew(p *Plan, c *lower.Call, entry int, limits Limits) error {
	depth, segments := weighDepths[entry], k.segments(c)
	tokens, groups, shared, sequences := c.Size(k.d, "T"), c.Size(k.d, "G"), c.Size(k.d, "J"), c.Operands[k.f.QueryStarts].Rows-1
	rows, items := tokens*groups*shared, segments*sequences*groups
	most := max(1, limits.Multiprocessors) // blocks
	const weights, marks = weighFewRows * (2*def.StreamSegment + 16), 3072
	bytes := func(ring int) int { return ring*2*64*depth + weights }
	ring := 8
	if items > most || bytes(ring)+marks > limits.SharedBytes { // several blocks at a time hide each other's waiting
		ring, most = 4, weighFewAtOnce*most
	}
	if bytes(ring)+marks > limits.SharedBytes {
		return fmt.Errorf("%s: heads of %d columns need %d bytes of shared memory, the device has %d", k.d.Name, c.Size(k.d, "D"), bytes(ring)+marks, limits.SharedBytes)
	}
	tilesOfRows := min(tiles(tokens*shared, weighFewRows*sequences), math.MaxUint16)
	blocks := min(items, max(1, most/tilesOfRows))
	sums, parts := p.reserve(2*rows*segments), p.reserve(depth*rows*segments)
	launch := func(entry, x, y, sharedBytes int) {
		p.launch(entry, [3]uint32{uint32(x), uint32(y), 1}, [3]uint32{2 * weighMMATile, 1, 1}, sharedBytes)
		k.params(p, c)
		p.scratches(sums, parts)
		p.ints(rows, segments, items, ring)
	}
	launch(len(weighDepths)+entry, blocks, tilesOfRows, bytes(ring))
	launch(2*len(weighDepths)+entry, tiles(rows, 2*weighMMATile/depth), 1, 0)
	p.last().IsEarly = true
	return nil
}
