package gpu

import (
	_ "embed"
	"fmt"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

//go:embed kernels/mma.cu
var mmaText string

// fragments plans the launches of kernels/mma.cu.
type fragments struct {
	contraction
	variant Variant
	tiles   []mmaTile
}

// mmaTile is an entry of kernels/mma.cu: the tile of a block, and how the block computes it.
type mmaTile struct {
	rows, cols         int
	depth, stages      int // bytes of a step along the summed index, and how many steps are in shared memory
	warpRows, warpCols int // that a warp computes
	blocks             int // that share a multiprocessor
}

func (t *mmaTile) threads() int { return t.rows / t.warpRows * (t.cols / t.warpCols) * 32 }

// bytes returns the shared memory of a block: at most 99 KiB, which all devices have, but for
// the first tile.
func (t *mmaTile) bytes() int { return (t.rows + t.cols) * t.depth * t.stages }

// mmaTiles are the entries, for operands whose rows all begin at multiples of 16 bytes and
// for others. Tall tiles come first, and of those with the same number of rows the wide ones:
// they read less for each product.
var mmaTiles = [...][]mmaTile{
	Vector: {
		{128, 256, 128, 3, 64, 64, 1},
		{128, 128, 128, 3, 64, 64, 2},
		{64, 128, 128, 4, 32, 64, 2},
		{64, 64, 128, 6, 32, 32, 2},
		{64, 32, 256, 4, 16, 32, 2},
		{32, 64, 256, 4, 16, 32, 2},
		{32, 32, 256, 6, 16, 16, 2},
		{16, 64, 256, 4, 16, 16, 2},
		{16, 32, 256, 8, 16, 16, 2},
	},
	Element: {
		{128, 128, 128, 3, 64, 64, 2},
		{64, 64, 128, 4, 32, 32, 2},
		{16, 32, 256, 8, 16, 16, 2},
	},
}

// CompileMMA lowers a contraction to mma.sync, for operands stored in the given formats. The
// bits are those of the model that [TensorCoreAccum] returns; sums of i8 are exact.
func CompileMMA(d *def.Definition, dtypes []num.DType, v Variant) (*Kernel, error) {
	if err := takesTensorCores(d, dtypes, num.F16, num.BF16, num.I8); err != nil {
		return nil, err
	}
	if isOfBytes(dtypes[0]) {
		if err := TakesBytes(d); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	return compileMMA(d, dtypes, v, identifier(d.Name)), nil
}

func compileMMA(d *def.Definition, dtypes []num.DType, v Variant, name string) *Kernel {
	of, dtypes := contractionOf(d, dtypes)
	k := &fragments{of, v, mmaTiles[v]}
	var b strings.Builder
	k.head(&b, dtypes, name, "IS_INT8", number(dtypes[0] == num.I8), "MULTIPLY_ADD", fmt.Sprintf("mma_16_8_%d_%s", 32/dtypes[0].Size(), dtypes[0]))
	b.WriteString(mmaText)
	var entries []string
	for i := range k.tiles {
		t := &k.tiles[i]
		entries = append(entries, fmt.Sprintf("%s_%dx%d", name, t.rows, t.cols))
		fmt.Fprintf(&b, "\nKERNEL_BLOCKS(%s, %d, %d)(const Params p) { multiply<Tile<%d, %d, %d, %d, %d, %d, %t>>(p); }\n",
			entries[i], t.threads(), t.blocks, t.rows, t.cols, t.depth/dtypes[0].Size(), t.stages, t.warpRows, t.warpCols, v == Element)
	}
	return k.kernel(Source{Name: name, Text: b.String(), Entries: entries, NeedsTensorCores: true}, k)
}

// MMAVariant returns the variant of kernels/mma.cu that computes a call.
func MMAVariant(d *def.Definition, c *lower.Call) Variant {
	if f := d.Fused(); f != nil {
		var part lower.Call
		for i := range f.Products {
			if bindProduct(&part, f, i, c, lower.Operand{}); MMAVariant(f.Products[i], &part) == Element {
				return Element
			}
		}
		return Vector
	}
	k := contraction{d: d, grouping: lower.GroupingOf(d)}
	if k.isVector(c, 0) && k.isVector(c, 1) {
		return Vector
	}
	return Element
}

// longSum is the least length of sums for which a multiprocessor works on one tile alone:
// nothing else is done while it begins and ends.
const longSum = 4096

// choose returns the entry for a call: of the tiles that are tall enough for its rows, the
// first that gives all multiprocessors work, or else the last. Few rows get tiles that are no
// taller than needed. It decides speed alone: every entry computes every call, with the same
// bits.
func (k *fragments) choose(z *lower.Products, limits Limits) (entry int) {
	rows := z.Rows
	if k.grouping == lower.GroupedRows {
		rows = tiles(z.Rows, z.Groups)
	}
	enough := limits.Multiprocessors * 2 / 3
	if rows <= FewRows { // reading the right operand takes the time: two blocks read more than one
		enough = limits.Multiprocessors * 3 / 2
	}
	height := 0
	for i := range k.tiles {
		if t := &k.tiles[i]; t.rows >= min(rows, FewRows) {
			height = t.rows
		}
	}
	for i := range k.tiles {
		t := &k.tiles[i]
		if t.rows < height || t.rows > height && rows <= FewRows {
			continue
		}
		blocks := k.divide(z, t.rows, t.cols).blocks()
		if t.blocks == 1 && (z.Depth < longSum || 2*blocks < 3*limits.Multiprocessors || t.bytes() > limits.SharedBytes) {
			continue
		}
		entry = i
		if blocks >= enough {
			break
		}
	}
	return entry
}

// launches implements planner.
func (k *fragments) launches(p *Plan, c *lower.Call, limits Limits) error {
	z := &p.products
	z.SetCall(k.d, c)
	return k.launchTiles(p, c, k.choose(z, limits))
}

// launchTiles plans one launch of an entry.
func (k *fragments) launchTiles(p *Plan, c *lower.Call, entry int) error {
	if k.variant == Vector && MMAVariant(k.d, c) != Vector {
		return fmt.Errorf("%s: a factor does not consist of rows at multiples of 16 bytes, which the vector kernel needs", k.d.Name)
	}
	t := &k.tiles[entry]
	return k.launch(p, c, k.divide(&p.products, t.rows, t.cols), entry, t.threads(), t.bytes())
}

// tensorCoreAccums are the accumulation rules of mma.sync with f16 and bf16, by the
// architecture of a device. Hopper's was compared with an H200 on millions of outputs;
// the others are published (MMA-Sim, arXiv 2511.10909).
var tensorCoreAccums = map[string]def.Accum{
	"sm_80": def.MMA(8, 24),                             // A100
	"sm_86": def.MMA(8, 24),                             // GA10x
	"sm_87": def.MMA(8, 24),                             // Orin
	"sm_89": def.MMA(8, 24),                             // Ada
	"sm_90": def.MMA(16, 25), "sm_90a": def.MMA(16, 25), // Hopper
	"sim32": def.MMA(16, 25), // the simulator, by sim_tensorcore.h
}

// TensorCoreAccum returns the accumulation rule of an architecture's tensor cores, or false
// if it is not known.
func TensorCoreAccum(architecture string) (def.Accum, bool) {
	m, ok := tensorCoreAccums[architecture]
	return m, ok
}
