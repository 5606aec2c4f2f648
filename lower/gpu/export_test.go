package gpu

import (
	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// CompileNamed compiles a definition whose entries begin with a name of the test's choice,
// so that many fit into one program.
func CompileNamed(d *def.Definition, dtypes []num.DType, v Variant, base string) *Kernel {
	return loweringOf(d.Form).compile(d, dtypes, v, base)
}

// CompileMMANamed compiles a contraction or a stream to mma.sync.
func CompileMMANamed(d *def.Definition, dtypes []num.DType, v Variant, base string) *Kernel {
	switch d.Form.(type) {
	case *def.Stream:
		return compileWeighMMA(d, dtypes, v, base)
	case *def.StreamBackward:
		return compileWeighBackwardMMA(d, dtypes, v, base)
	}
	return compileMMA(d, dtypes, v, base)
}

// CompileWeighHopperNamed compiles a stream, or its gradients, to wgmma.
func CompileWeighHopperNamed(d *def.Definition, dtypes []num.DType, base string) *Kernel {
	if _, ok := d.Form.(*def.StreamBackward); ok {
		return compileWeighBackwardHopper(d, dtypes, base)
	}
	return compileWeighHopper(d, dtypes, base)
}

// MMATiles returns the number of a variant's tiles.
func MMATiles(v Variant) int { return len(mmaTiles[v]) }

// PlanTiles plans a call of such a kernel in tiles of one kind. Streams have one.
func (k *Kernel) PlanTiles(p *Plan, c *lower.Call, tile int) error {
	p.reset()
	if k.d.Stream() != nil {
		return k.planner.launches(p, c, Limits{SharedBytes: 227 << 10})
	}
	if e, ok := k.planner.(*ending); ok {
		return (&ending{e.ends, tiled{e.each.(*fragments), tile}}).launches(p, c, Limits{})
	}
	p.products.Set(k.d, &c.Operands[0].Array, &c.Operands[1].Array, &c.Operands[2].Array)
	return k.planner.(*fragments).launchTiles(p, c, tile)
}

// tiled plans products in tiles of one kind.
type tiled struct {
	*fragments
	tile int
}

func (k tiled) launches(p *Plan, c *lower.Call, _ Limits) error {
	p.products.SetCall(k.d, c)
	return k.launchTiles(p, c, k.tile)
}

// CompileManyNamed is CompileMany with such entries.
func CompileManyNamed(d *def.Definition, dtypes []num.DType, v Variant, base string) (*Many, error) {
	return compileMany(d, dtypes, v, base)
}

// ManyElements is how many elements of a call a block of many_flat computes.
const ManyElements = manyElements

// SetMaxHints sets how many hints an index has, at most.
func (m *Many) SetMaxHints(n uint64) { m.maxHints = n }
