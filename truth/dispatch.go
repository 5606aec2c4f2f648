package truth

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"tokitai/def"
)

// sorting evaluates dispatches. Integers are exact: every element has one value.
type sorting struct{ *def.Sort }

func (f sorting) enclose(k *call, r *Result) error {
	index, experts := k.operands[f.Index], k.operands[f.Counts].Rows
	n := index.Rows * index.Cols
	for _, i := range []int{f.Source, f.Slot, f.Place} {
		if len(r.sets[i]) != n {
			return fmt.Errorf("%s: sizes do not fit: %d indices, %d of %s", k.d.Name, n, len(r.sets[i]), k.d.Operands[i].Name)
		}
	}
	expert := make([]int32, n)
	order := make([]int32, n) // choices in the order of rows, bad ones last
	for i := range order {
		order[i] = int32(i)
		if expert[i] = index.Int(i/index.Cols, i%index.Cols); expert[i] < 0 || int(expert[i]) >= experts {
			expert[i] = int32(experts)
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(expert[a], expert[b]), cmp.Compare(a, b)) })
	for r0, i := range order {
		source, slot, place := i/int32(index.Cols), i, int32(r0)
		if int(expert[i]) == experts {
			source, slot, place = -1, -1, -1
		}
		r.sets[f.Source][r0], r.sets[f.Slot][r0], r.sets[f.Place][i] = only(source), only(slot), only(place)
	}
	begin := func(e int) int {
		at, _ := slices.BinarySearchFunc(order, int32(e), func(i, e int32) int { return cmp.Compare(expert[i], e) })
		return at
	}
	for e := range r.sets[f.Counts] {
		r.sets[f.Counts][e] = only(int32(begin(e+1) - begin(e)))
	}
	for e := range r.sets[f.Offsets] {
		r.sets[f.Offsets][e] = only(int32(begin(e)))
	}
	return nil
}

func (sorting) round(*call, *Rounding, *places) error {
	return errors.New("truth: an integer of a dispatch was left open")
}

func (sorting) findGrid(g *Grid, _ GridOptions) error {
	for _, at := range g.at {
		for i := range at {
			at[i] = true
		}
	}
	return nil
}

func (sorting) findForms(*Forms) error { return nil }

func (sorting) encloseStable(*Stable) error {
	return errors.New("truth: a dispatch is exact, and admits one value for each element")
}
