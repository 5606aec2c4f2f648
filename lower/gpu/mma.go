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
type fragments struct{ contraction }

// mmaTile is an entry of kernels/mma.cu: the tile of a block, and how the block computes it.
type mmaTile struct {
	name               string
	rows, cols         int
	depth, stages      int // of a step along the summed index, and how many are in shared memory
	warpRows, warpCols int // that a warp computes
	blocks             int // that share a multiprocessor
}

func (t *mmaTile) threads() int { return t.rows / t.warpRows * (t.cols / t.warpCols) * 32 }

// bytes returns the shared memory of a block. Devices have 99 KiB or more.
func (t *mmaTile) bytes() int { return (t.rows + t.cols) * t.depth * 2 * t.stages }

// The entries of kernels/mma.cu, in their order.
const (
	mmaLarge  = iota // many products for each element that is read
	mmaMiddle        // where large tiles would be too few for all multiprocessors
	mmaNarrow        // for at most 64 rows, where reading the right operand takes the time
	mmaThin          // for at most 16
)

var mmaTiles = [...]mmaTile{
	mmaLarge:  {"large", 128, 256, 32, 4, 64, 64, 1},
	mmaMiddle: {"middle", 64, 128, 32, 6, 32, 64, 2},
	mmaNarrow: {"narrow", 64, 32, 64, 8, 16, 32, 2},
	mmaThin:   {"thin", 16, 32, 128, 8, 16, 16, 2},
}

// CompileMMA lowers a contraction to mma.sync, for operands stored in the given formats. The
// bits are those of the model that [TensorCoreModel] returns.
func CompileMMA(d *def.Definition, dtypes []num.DType) (*Kernel, error) {
	if err := takesTensorCores(d, dtypes); err != nil {
		return nil, err
	}
	return compileMMA(d, dtypes, identifier(d.Name)), nil
}

func compileMMA(d *def.Definition, dtypes []num.DType, name string) *Kernel {
	k := &fragments{contraction{d, lower.GroupingOf(d)}}
	var b strings.Builder
	k.head(&b, dtypes, name, "MULTIPLY_ADD", fmt.Sprintf("mma_16_8_16_%s", dtypes[0]))
	b.WriteString(mmaText)
	var entries []string
	for i := range mmaTiles {
		t := &mmaTiles[i]
		entries = append(entries, name+"_"+t.name)
		fmt.Fprintf(&b, "\nKERNEL_BLOCKS(%s, %d, %d)(const Params p) { multiply<Tile<%d, %d, %d, %d, %d, %d>>(p); }\n",
			entries[i], t.threads(), t.blocks, t.rows, t.cols, t.depth, t.stages, t.warpRows, t.warpCols)
	}
	return k.kernel(Source{Name: name, Text: b.String(), Entries: entries, NeedsTensorCores: true}, k)
}

// choose returns the entry for a call. It decides speed alone: every entry computes every
// call, with the same bits.
func (k *fragments) choose(z *lower.Products, limits Limits) int {
	rows := z.Rows
	if k.grouping == lower.GroupedRows {
		rows = tiles(z.Rows, z.Groups)
	}
	large := &mmaTiles[mmaLarge]
	switch {
	case rows <= mmaTiles[mmaThin].rows:
		return mmaThin
	case rows <= mmaTiles[mmaNarrow].rows:
		return mmaNarrow
	case k.divide(z, large.rows, large.cols).blocks() < limits.Multiprocessors:
		return mmaMiddle
	}
	return mmaLarge
}

// launches implements planner.
func (k *fragments) launches(p *Plan, c *lower.Call, limits Limits) error {
	z := &p.products
	z.Set(k.d, &c.Operands[0].Array, &c.Operands[1].Array, &c.Operands[2].Array)
	return k.launchTiles(p, c, k.choose(z, limits))
}

// launchTiles plans one launch of an entry.
func (k *fragments) launchTiles(p *Plan, c *lower.Call, entry int) error {
	t := &mmaTiles[entry]
	return k.launch(p, c, k.divide(&p.products, t.rows, t.cols), entry, t.threads(), t.bytes())
}

// tensorCoreModels are the accumulation rules of mma.sync with f16 and bf16, by the
// architecture of a device. Hopper's was compared with an H200 on millions of outputs;
// the others are published (MMA-Sim, arXiv 2511.10909).
var tensorCoreModels = map[string]def.Model{
	"sm_80": def.MMA(8, 24),                             // A100
	"sm_86": def.MMA(8, 24),                             // GA10x
	"sm_87": def.MMA(8, 24),                             // Orin
	"sm_89": def.MMA(8, 24),                             // Ada
	"sm_90": def.MMA(16, 25), "sm_90a": def.MMA(16, 25), // Hopper
	"sim32": def.MMA(16, 25), // the simulator, by sim_tensorcore.h
}

// TensorCoreModel returns the accumulation rule of an architecture's tensor cores, or false
// if it is not known.
func TensorCoreModel(architecture string) (def.Model, bool) {
	m, ok := tensorCoreModels[architecture]
	return m, ok
}
