package def_test

import (
	"fmt"
	"testing"

	"tokitai/def"
)

// TestDemands finds the rows in which a branch of a selection is read: by one selection, by one inside of
// another, and by two.
func TestDemands(t *testing.T) {
	d := def.Must(def.Rowwise("demands", func(b *def.Builder) {
		x, p, q := b.In("x"), b.InRow("p"), b.InRow("q")
		first, second := def.Zero.Less(p), def.Zero.Less(q)
		often := def.RowSum(x).As("often")
		inner := def.RowMax(x).As("inner")
		shared := def.RowMin(x).As("shared")
		each := x.Mul(x).As("each")
		y := def.Select(first, def.Select(second, shared, inner.Add(shared)), often)
		b.OutRow("y", y)
		b.OutRow("z", def.Select(second, often, def.Zero))
		b.OutRow("w", def.Select(first, def.RowSum(def.Select(x.Less(each), each, x)).As("late"), def.Zero))
	}))
	want := map[string]string{"often": "[]", "inner": "[less=true less=false]", "shared": "[less=true]", "each": "[less=true]", "late": "[less=true]", "x": "[]"}
	demands := d.Exec().Demands()
	for _, n := range d.Exec().Nodes {
		w, ok := want[n.Name]
		if !ok {
			continue
		}
		delete(want, n.Name)
		var got []string
		for _, c := range demands[n.ID] {
			got = append(got, fmt.Sprintf("%s=%v", c.Value.Op, c.IsTrue))
		}
		if fmt.Sprint(got) != w {
			t.Errorf("%s is needed where %v, want %s", n.Name, got, w)
		}
	}
	for name := range want {
		t.Errorf("no value %s", name)
	}
}
