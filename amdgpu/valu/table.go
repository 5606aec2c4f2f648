package valu

import (
	"strings"

	"tokitai/amdgpu/isa"
)

// tables has the operations of each family by name.
var tables = [...]map[string]*Op{isa.GFX9: newTable(isa.GFX9), isa.GFX11: newTable(isa.GFX11)}

// table collects the operations of a family.
type table struct {
	family isa.Family
	ops    map[string]*Op
}

func newTable(family isa.Family) map[string]*Op {
	t := &table{family, map[string]*Op{}}
	t.defineFloats()
	t.defineConversions()
	t.defineApproximations()
	t.defineIntegers()
	t.definePacked()
	t.defineMixed()
	t.place()
	t.addFastLoops()
	return t.ops
}

// add adds an operation that computes lane by lane.
func (t *table) add(name string, result Type, sources []Type, lane laneFunc) *Op {
	op := &Op{Name: name, Sources: sources, Result: result, lane: lane}
	op.bind = op.bindPlain
	t.ops[name] = op
	return op
}

// place says where results of 16 bits are stored. gfx11 keeps the other half of the register;
// gfx9 clears it, but for the instructions that it has new.
func (t *table) place() {
	for _, op := range t.ops {
		if op.Result.Is16() && t.family == isa.GFX11 {
			op.Placement = OneHalf
		}
	}
	for _, name := range []string{"v_fmac_f16", "v_fmaak_f16", "v_fmamk_f16", "v_mac_f16", "v_madak_f16", "v_madmk_f16", "v_fma_mixlo_f16"} {
		if op := t.ops[name]; op != nil {
			op.Placement = OneHalf
		}
	}
	t.ops["v_fma_mixhi_f16"].Placement = UpperHalf
}

func trimDual(name string) string {
	if rest, ok := strings.CutPrefix(name, "v_dual_"); ok {
		return "v_" + rest
	}
	return name
}
