package tensor

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tokitai/num"
)

func TestSlice(t *testing.T) {
	x := ramp(t, host(t), 4, 6)
	for _, c := range []struct {
		rowLo, rowHi, colLo, colHi int
		stride                     int
		offset                     int64
		want                       []float32
	}{
		{0, 4, 0, 2, 6, 0, []float32{0, 1, 6, 7, 12, 13, 18, 19}},
		{2, 4, 4, 6, 6, 64, []float32{16, 17, 22, 23}},
		{1, 3, 0, 6, 6, 24, []float32{6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}},
		{3, 4, 2, 4, 2, 80, []float32{20, 21}}, // one row has no stride
		{3, 4, 5, 6, 1, 92, []float32{23}},
	} {
		v := must(x.Slice(c.rowLo, c.rowHi, c.colLo, c.colHi))
		got, err := v.Float32s()
		if err != nil || !slices.Equal(got, c.want) || v.RowStride() != c.stride || v.Offset() != c.offset ||
			!slices.Equal(v.Shape(), []int{c.rowHi - c.rowLo, c.colHi - c.colLo}) || v.Buffer() != x.Buffer() {
			t.Errorf("Slice(%d,%d, %d,%d) = %v holding %v at %d, %v", c.rowLo, c.rowHi, c.colLo, c.colHi, v, got, v.Offset(), err)
		}
	}
	v := must(x.Slice(1, 4, 1, 6))
	w := must(v.Slice(1, 3, 2, 4))
	if got, err := w.Float32s(); err != nil || !slices.Equal(got, []float32{15, 16, 21, 22}) {
		t.Errorf("a slice of a slice holds %v, %v", got, err)
	}
}

func TestSliceRefuses(t *testing.T) {
	d := host(t)
	x := ramp(t, d, 4, 6)
	for _, c := range [][4]int{
		{-1, 2, 0, 1}, {0, 5, 0, 1}, {3, 2, 0, 1}, {4, 5, 0, 1}, {math.MinInt, math.MaxInt, 0, 1},
		{0, 1, -1, 2}, {0, 1, 0, 7}, {0, 1, 3, 2}, {0, 1, math.MaxInt, math.MinInt},
	} {
		if v, err := x.Slice(c[0], c[1], c[2], c[3]); v != nil || !errors.Is(err, ErrBadArgument) {
			t.Errorf("Slice(%v) = %v, %v", c, v, err)
		}
	}
	_, err := x.Slice(0, 2, 3, 9)
	if want := "tensor.Slice: columns are 3 to 9, want a part of 0 to 6"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	for _, shape := range [][]int{nil, {4}, {1, 2, 2}} {
		if v, err := ramp(t, d, shape...).Slice(0, 1, 0, 1); v != nil || !errors.Is(err, ErrBadArgument) {
			t.Errorf("Slice of shape %v = %v, %v", shape, v, err)
		}
	}
}

func TestReshape(t *testing.T) {
	d := host(t)
	x := ramp(t, d, 4, 6)
	for _, shape := range [][]int{{24}, {2, 12}, {2, 3, 4}, {24, 1}, {1, 1, 24}} {
		v := must(x.Reshape(shape...))
		got, err := v.Float32s()
		want, _ := x.Float32s()
		if err != nil || !slices.Equal(got, want) || !slices.Equal(v.Shape(), shape) || !v.IsContiguous() || v.Buffer() != x.Buffer() {
			t.Errorf("Reshape(%v) = %v holding %v, %v", shape, v, got, err)
		}
	}
	one := ramp(t, d, 1, 1)
	if v, err := one.Reshape(); err != nil || v.Rank() != 0 || v.Len() != 1 {
		t.Errorf("Reshape to a scalar: %v, %v", v, err)
	}
}

func TestReshapeWithGaps(t *testing.T) {
	x := ramp(t, host(t), 4, 6)
	v := must(x.Slice(0, 4, 1, 4))
	w := must(v.Reshape(2, 2, 3))
	if got, err := w.Float32s(); err != nil || !slices.Equal(got, []float32{1, 2, 3, 7, 8, 9, 13, 14, 15, 19, 20, 21}) ||
		w.Rows() != 4 || w.Cols() != 3 || w.RowStride() != 6 {
		t.Errorf("Reshape(2,2,3) = %v holding %v, %v", w, got, err)
	}
	for _, shape := range [][]int{{12}, {3, 4}, {2, 6}} {
		if w, err := v.Reshape(shape...); w != nil || !errors.Is(err, ErrBadArgument) || !strings.Contains(err.Error(), "row stride is 6") {
			t.Errorf("Reshape(%v) of %v = %v, %v", shape, v, w, err)
		}
	}
}

func TestReshapeRefuses(t *testing.T) {
	x := ramp(t, host(t), 4, 6)
	for _, shape := range [][]int{nil, {23}, {4, 7}, {4, 6, 0}, {-4, -6}, {1 << 62, 1 << 62}} {
		if v, err := x.Reshape(shape...); v != nil || !errors.Is(err, ErrBadArgument) {
			t.Errorf("Reshape(%v) = %v, %v", shape, v, err)
		}
	}
	_, err := x.Reshape(5, 5)
	if want := "tensor.Reshape: shape is [5 5], want the 24 elements of [4 6]"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

// touched returns the set of bytes of a tensor, the plain way.
func touched(x *Tensor) map[int64]bool {
	size := int64(x.DType().Size())
	set := map[int64]bool{}
	for _, at := range places(x) {
		for b := range size {
			set[x.Offset()+int64(at)*size+b] = true
		}
	}
	return set
}

// places lists where the elements of a tensor lie, in elements from the first, by its
// shape and strides.
func places(x *Tensor) []int {
	list := []int{0}
	for i, n := range x.Shape() {
		var longer []int
		for _, at := range list {
			for k := range n {
				longer = append(longer, at+k*x.Strides()[i])
			}
		}
		list = longer
	}
	return list
}

// All slices of some matrices in one buffer, against the sets of their bytes.
func TestOverlapAgainstSets(t *testing.T) {
	whole := ramp(t, host(t), 24)
	var views []*Tensor
	for _, shape := range [][2]int{{4, 6}, {6, 4}, {3, 8}} {
		m := must(whole.Reshape(shape[0], shape[1]))
		for rowLo := range shape[0] {
			for rowHi := rowLo + 1; rowHi <= shape[0]; rowHi += 2 {
				for colLo := range shape[1] {
					for colHi := colLo + 1; colHi <= shape[1]; colHi += 2 {
						v := must(m.Slice(rowLo, rowHi, colLo, colHi))
						views = append(views, v)
					}
				}
			}
		}
	}
	sets := make([]map[int64]bool, len(views))
	for i, v := range views {
		sets[i] = touched(v)
	}
	count := map[Relation]int{}
	for i, a := range views {
		for j, b := range views {
			got := Overlap(a, b)
			count[got]++
			if back := Overlap(b, a); back != got {
				t.Fatalf("%v at %d and %v at %d: %v, the other way round %v", a, a.Offset(), b, b.Offset(), got, back)
			}
			common := false
			for at := range sets[i] {
				if sets[j][at] {
					common = true
					break
				}
			}
			isSame := a.Offset() == b.Offset() && a.Rows() == b.Rows() && a.Cols() == b.Cols() && a.RowStride() == b.RowStride()
			want := Disjoint
			switch {
			case isSame:
				want = Identical
			case common:
				want = Overlapping
			}
			if got != want {
				t.Fatalf("%v at %d and %v at %d: %v, want %v", a, a.Offset(), b, b.Offset(), got, want)
			}
		}
	}
	for _, r := range []Relation{Disjoint, Identical, Overlapping} {
		if count[r] < len(views)/2 {
			t.Errorf("only %d pairs are %v", count[r], r)
		}
	}
}

func TestOverlap(t *testing.T) {
	d := host(t)
	x := ramp(t, d, 4, 6)
	slice := func(rowLo, rowHi, colLo, colHi int) *Tensor {
		return must(x.Slice(rowLo, rowHi, colLo, colHi))
	}
	folded := must(x.Reshape(2, 2, 6))
	asInts := x.view()
	asInts.dtype = num.I32
	for name, c := range map[string]struct {
		a, b *Tensor
		want Relation
	}{
		"itself":                  {x, x, Identical},
		"same place, folded":      {x, folded, Identical},
		"same place, other dtype": {x, asInts, Overlapping},
		"another buffer":          {x, ramp(t, d, 4, 6), Disjoint},
		"column blocks":           {slice(0, 4, 0, 3), slice(0, 4, 3, 6), Disjoint},
		"column blocks touching":  {slice(0, 4, 0, 4), slice(0, 4, 3, 6), Overlapping},
		"shifted column blocks":   {slice(0, 3, 4, 6), slice(1, 4, 0, 4), Disjoint},
		"row blocks":              {slice(0, 2, 0, 6), slice(2, 4, 0, 6), Disjoint},
		"whole and part":          {x, slice(1, 2, 1, 2), Overlapping},
		"one row between columns": {slice(2, 3, 0, 3), slice(0, 4, 3, 6), Disjoint},
		"nil":                     {nil, x, Disjoint},
		"both nil":                {nil, nil, Disjoint},
		"zero values":             {new(Tensor), new(Tensor), Disjoint},
	} {
		if got := Overlap(c.a, c.b); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if got := Overlap(c.b, c.a); got != c.want {
			t.Errorf("%s, the other way round: %v, want %v", name, got, c.want)
		}
	}
}

// stacks returns views of a buffer of 96 elements whose leading dimensions are permuted,
// repeated, divided, and parts of something wider.
func stacks(t *testing.T, whole *Tensor) []*Tensor {
	var views []*Tensor
	for _, wide := range []*Tensor{must(whole.Reshape(12, 8)), must(must(whole.Reshape(12, 8)).Slice(0, 12, 2, 6)), must(must(whole.Reshape(12, 8)).Slice(0, 12, 0, 2)),
		must(must(whole.Reshape(24, 4)).Slice(0, 12, 0, 3)), must(must(whole.Reshape(24, 4)).Slice(12, 24, 1, 2))} {
		cols := wide.Cols()
		for _, shape := range [][]int{{12, cols}, {2, 6, cols}, {2, 3, 2, cols}, {3, 4, cols}, {3, 1, 4, cols}} {
			v := must(wide.Reshape(shape...))
			views = append(views, v)
			switch len(shape) {
			case 3:
				views = append(views, must(v.Permute(1, 0, 2)))
			case 4:
				views = append(views, must(v.Permute(1, 0, 2, 3)), must(v.Permute(0, 2, 1, 3)), must(v.Permute(2, 1, 0, 3)))
			}
			if len(shape) == 4 && shape[1] == 1 {
				views = append(views, must(v.Expand(3, 5, 4, cols)), must(v.Expand(2, 3, 1, 4, cols)))
			}
		}
	}
	return views
}

func TestOverlapOfStacks(t *testing.T) {
	views := stacks(t, ramp(t, host(t), 96))
	count := map[Relation]int{}
	for _, a := range views {
		for _, b := range views {
			x, y := touched(a), touched(b)
			want := Disjoint
			for at := range x {
				if y[at] {
					want = Overlapping
				}
			}
			if a.Offset() == b.Offset() && a.Cols() == b.Cols() && slices.Equal(places(a), places(b)) {
				want = Identical
			}
			got := Overlap(a, b)
			if count[got]++; got != want {
				t.Fatalf("%v at %d and %v at %d: %v, want %v", a, a.Offset(), b, b.Offset(), got, want)
			}
		}
	}
	for _, r := range []Relation{Disjoint, Identical, Overlapping} {
		if count[r] < len(views)/2 {
			t.Errorf("only %d pairs are %v", count[r], r)
		}
	}
}

// Values, copies and arrays of views that need not fold, against their places.
func TestViewsOfStacks(t *testing.T) {
	d := host(t)
	whole := ramp(t, d, 96)
	folded, apart := 0, 0
	for _, v := range stacks(t, whole) {
		if v.Folds() {
			folded++
		} else {
			apart++
		}
		var want []float32
		base := float32(v.Offset() / 4)
		for _, at := range places(v) {
			want = append(want, base+float32(at))
		}
		got, err := v.Float32s()
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v holds %v, %v, want %v", v, got, err, want)
		}
		a, ok := v.Array()
		if !ok || a.Rows != v.Rows() || a.Cols != v.Cols() {
			t.Fatalf("%v: array %+v, %v", v, a, ok)
		}
		for i, x := range want {
			if a.At(i/a.Cols, i%a.Cols) != x {
				t.Fatalf("%v: element %d of its array is %v, want %v", v, i, a.At(i/a.Cols, i%a.Cols), x)
			}
		}
		copied := must(New(d, num.F32, v.Shape()...))
		if err := copied.CopyFrom(v); err != nil {
			t.Fatal(err)
		}
		if got, _ := copied.Float32s(); !slices.Equal(got, want) {
			t.Fatalf("a copy of %v holds %v, want %v", v, got, want)
		}
		for i := range want {
			want[i] = -want[i]
		}
		if err := v.SetFloat32s(want); v.IsBroadcast() {
			if !errors.Is(err, ErrBadArgument) || !strings.Contains(err.Error(), "repeats elements") {
				t.Fatalf("%v was written: %v", v, err)
			}
			continue
		}
		if got, err := v.Float32s(); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v, written, holds %v, %v, want %v", v, got, err, want)
		}
		if err := v.CopyFrom(copied); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := whole.Float32s(); got[95] != 95 || got[0] != 0 {
		t.Errorf("the whole holds %v", got)
	}
	if folded < 5 || apart < 5 {
		t.Errorf("%d views fold, %d do not", folded, apart)
	}
}

func TestPermute(t *testing.T) {
	x := ramp(t, host(t), 2, 3, 4, 5) // batch, position, head, width
	v := must(x.Permute(0, 2, 1, 3))
	if !slices.Equal(v.Shape(), []int{2, 4, 3, 5}) || !slices.Equal(v.Strides(), []int{60, 5, 20, 1}) || v.Folds() || v.RowStride() != 0 {
		t.Errorf("%v with strides %v", v, v.Strides())
	}
	if want := "f32 [2 4 3 5] on cpu, strides [60 5 20 1]"; v.String() != want {
		t.Errorf("got %q, want %q", v, want)
	}
	if back := must(v.Permute(0, 2, 1, 3)); Overlap(back, x) != Identical || !back.IsContiguous() {
		t.Errorf("permuted twice: %v", back)
	}
	if w, err := v.Reshape(8, 3, 5); w != nil || !errors.Is(err, ErrBadArgument) {
		t.Errorf("batch and head were merged: %v, %v", w, err)
	}
}

func TestViewsRefuse(t *testing.T) {
	d := host(t)
	x := ramp(t, d, 2, 3, 4)
	scalar := ramp(t, d)
	closed := ramp(t, d, 2, 2)
	closed.Close()
	many := ramp(t, d, 2, 2, 2, 2, 2, 2, 2)
	for name, c := range map[string]struct {
		view func() (*Tensor, error)
		want string
	}{
		"last moved":     {func() (*Tensor, error) { return x.Permute(0, 2, 1) }, "tensor.Permute: order is [0 2 1], want the numbers 0 to 2, the last one last"},
		"too few":        {func() (*Tensor, error) { return x.Permute(0, 2) }, "order is [0 2]"},
		"twice":          {func() (*Tensor, error) { return x.Permute(0, 0, 2) }, "order is [0 0 2]"},
		"out of range":   {func() (*Tensor, error) { return x.Permute(-1, 1, 2) }, "order is [-1 1 2]"},
		"none":           {func() (*Tensor, error) { return x.Permute() }, "order is []"},
		"many":           {func() (*Tensor, error) { return many.Permute(5, 4, 3, 2, 1, 0, 6) }, "want at most 5 leading dimensions that do not fold"},
		"closed":         {func() (*Tensor, error) { return closed.Permute(0, 1) }, "is closed"},
		"other size":     {func() (*Tensor, error) { return x.Expand(4, 3, 4) }, "tensor.Expand: shape is [4 3 4], want [2 3 4] with more leading dimensions"},
		"fewer":          {func() (*Tensor, error) { return x.Expand(3, 4) }, "shape is [3 4]"},
		"last repeated":  {func() (*Tensor, error) { return ramp(t, d, 2, 1).Expand(2, 5) }, "shape is [2 5]"},
		"scalar":         {func() (*Tensor, error) { return scalar.Expand(5) }, "shape is [5]"},
		"below zero":     {func() (*Tensor, error) { return x.Expand(-1, 2, 3, 4) }, "no size below 0"},
		"nil":            {func() (*Tensor, error) { return (*Tensor)(nil).Expand(1) }, "is nil"},
		"merged a gap":   {func() (*Tensor, error) { return must(x.Permute(1, 0, 2)).Reshape(6, 4) }, "strides are [4 12 1]"},
		"merged repeats": {func() (*Tensor, error) { return must(ramp(t, d, 3, 1, 2).Expand(3, 2, 2)).Reshape(3, 4) }, "strides are [2 0 1]"},
	} {
		if v, err := c.view(); v != nil || !errors.Is(err, ErrBadArgument) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %q", name, v, err, c.want)
		}
	}
}

// The methods that operations call on tensors at every call allocate nothing.
func TestOverlapAllocatesNothing(t *testing.T) {
	views := stacks(t, ramp(t, host(t), 96))
	if n := testing.AllocsPerRun(10, func() {
		for _, a := range views {
			Overlap(a, views[3])
			a.Array()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
