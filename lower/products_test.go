package lower_test

import (
	"slices"
	"testing"

	"tokitai/internal/gen"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// Every product finds the matrices that belong to the indices of its letters.
func TestProducts(t *testing.T) {
	g := gen.New(t.Name())
	var p lower.Products
	for range 300 {
		d := randdef.Product(g)
		sizes := randdef.ProductSizes(g, d, 3)
		c := randdef.NewCase(g, d, randdef.DTypes(g, d), sizes)
		for i := range 3 { // the first letter may stand for several axes
			if b := &c.Operands[i].Batch; b.Count > 0 && b.Count < num.MaxBatchAxes && g.Below(2) == 0 {
				n := b.Axes[0].Size
				rest := b.Axes
				rest[0] = num.Axis{Size: n, Stride: rest[0].Stride}
				copy(b.Axes[1:], rest[:b.Count])
				b.Axes[0] = num.Axis{Size: 1, Stride: 99}
				b.Count++
			}
		}
		p.Set(d, &c.Operands[0], &c.Operands[1], &c.Operands[2])
		letters := slices.DeleteFunc(slices.Clone(d.Operands[2].BatchDims()), func(l string) bool { return l == d.Groups().Number })
		if d.Groups().Number != "" {
			letters = slices.Insert(letters, 0, d.Groups().Number)
		}
		count := 1
		for _, l := range letters {
			count *= sizes[l]
		}
		if p.Count != count || p.Rows != sizes["M"] || p.Cols != sizes["N"] || p.Depth != sizes["K"] || p.Groups*p.PerGroup != count || d.Groups().Number != "" && p.Groups != sizes["G"] {
			t.Fatalf("%+v, want %d products of %v\n%s", p, count, sizes, d.Text())
		}
		for i := range count {
			at, rest := map[string]int{}, i
			for _, l := range slices.Backward(letters) {
				at[l] = rest % sizes[l]
				rest /= sizes[l]
			}
			for k, w := range []*lower.Walk{&p.Left, &p.Right, &p.Result} {
				m := 0
				for _, l := range d.Operands[k].BatchDims() {
					m = m*sizes[l] + at[l]
				}
				if got, want := w.Offset(i), c.Operands[k].Batch.Offset(m); got != want {
					t.Fatalf("product %d, %s: at %d, want %d\n%s", i, d.Operands[k].Name, got, want, d.Text())
				}
			}
		}
	}
	d := randdef.Product(g)
	c := randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.ProductSizes(g, d, 3))
	if n := testing.AllocsPerRun(10, func() { p.Set(d, &c.Operands[0], &c.Operands[1], &c.Operands[2]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Slots cover every row of every group once.
func TestGroupSlots(t *testing.T) {
	g := gen.New(t.Name())
	for range 300 {
		size, groups, rows := 1+g.Below(9), 1+g.Below(7), 1+g.Below(60)
		offsets := make([]int, groups+1)
		for i := 1; i < groups; i++ {
			offsets[i] = g.Below(rows + 1)
		}
		offsets[groups] = rows
		slices.Sort(offsets)
		at := func(i int) int { return offsets[i] }
		seen := make([]int, rows)
		for slot := range lower.GroupSlots(rows, size, groups) {
			i := lower.GroupOf(at, groups, size, slot)
			first := offsets[i] + (slot-lower.GroupSlot(offsets[i], size, i))*size
			for r := first; r < min(first+size, offsets[i+1]); r++ {
				seen[r]++
			}
		}
		if slices.ContainsFunc(seen, func(n int) bool { return n != 1 }) {
			t.Fatalf("offsets %v, tiles of %d rows: rows are covered %v times", offsets, size, seen)
		}
	}
}
