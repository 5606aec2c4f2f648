package randdef

import (
	"fmt"

	"tokitai/def"
	"tokitai/internal/gen"
)

// Indexed returns a random gather-sum, dispatch or row write.
func Indexed(g *gen.Generator) *def.Definition {
	return []func(*gen.Generator) *def.Definition{GatherSum, Dispatch, RowWrite}[g.Below(3)](g)
}

// Dispatch returns a dispatch with a random name.
func Dispatch(g *gen.Generator) *def.Definition {
	return def.Must(def.Dispatch(fmt.Sprintf("dispatch%d", g.Below(1000)), def.DispatchForm{
		Index: "index", Counts: "counts", Offsets: "offsets", Source: "source", Slot: "slot", Place: "place",
	}))
}

// RowWrite returns a row write with a random name.
func RowWrite(g *gen.Generator) *def.Definition {
	return def.Must(def.WriteRows(fmt.Sprintf("writes%d", g.Below(1000)), def.RowWriteForm{Index: "index", Rows: "rows", Table: "table"}))
}

// GatherSum returns a random gather-sum.
func GatherSum(g *gen.Generator) *def.Definition {
	f := def.GatherSumForm{Index: "index", Table: "table", Out: "out"}
	if g.Below(3) > 0 {
		f.Weight = "weight"
	}
	return def.Must(def.GatherSum(fmt.Sprintf("sums%d", g.Below(1000)), f))
}

// IndexedSizes returns random sizes of a definition that Indexed returns: columns around the ends
// of vectors, at most most in all.
func IndexedSizes(g *gen.Generator, d *def.Definition, most int) map[string]int {
	some := 1 + g.Below(4)
	if g.Below(4) == 0 {
		some = 1 + g.Below(20)
	}
	if _, isSort := d.Form.(*def.Sort); isSort {
		experts := []int{1, 2, 3, 7, 8, 32, 64, 255, 256, 511, 512, 600, 70_000}
		return map[string]int{"T": 1 + g.Below(max(1, most/some)), "S": some, "E": experts[g.Below(len(experts))]}
	}
	cols := widths[g.Below(len(widths))]
	for cols > most {
		cols = widths[g.Below(len(widths))]
	}
	queries := 1 + g.Below(min(40, 1+most/cols))
	if _, isWrite := d.Form.(*def.RowWrite); isWrite && cols < 10 {
		queries = 1 + g.Below(300)
	}
	return map[string]int{"D": cols, "Q": queries, "V": 1 + g.Below(20), "S": some}
}
