package reference_test

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/reference"
)

// TestContraction multiplies small matrices of integers in all forms, strided.
func TestContraction(t *testing.T) {
	for form := range 8 {
		f := def.ContractionForm{
			Left: "a", LeftDims: []string{"M", "K"}, TransposeLeft: form&1 != 0,
			Right: "b", RightDims: []string{"K", "N"}, TransposeRight: form&2 != 0,
			Result: "c", ResultDims: []string{"M", "N"}, Accumulate: form&4 != 0,
		}
		// a = 1 2 3    b = 1 0    a·b = 7 8
		//     4 5 6        0 1          16 17
		//                  2 2
		a, b := num.ArrayOf(num.F16, 2, 3, 1, 2, 3, 4, 5, 6), num.ArrayOf(num.F16, 3, 2, 1, 0, 0, 1, 2, 2)
		if f.TransposeLeft {
			f.LeftDims = []string{"K", "M"}
			a = num.ArrayOf(num.F16, 3, 2, 1, 4, 2, 5, 3, 6)
		}
		if f.TransposeRight {
			f.RightDims = []string{"N", "K"}
			b = num.ArrayOf(num.F16, 2, 3, 1, 0, 2, 0, 1, 2)
		}
		c := num.Array{DType: num.F32, Rows: 2, Cols: 2, Stride: 3, Data: make([]byte, 24)}
		for i, v := range []float32{100, 200, 0.5, 300, 400} {
			c.Set(0, i, v) // the third one lies between the rows
		}
		if err := reference.Run(def.Must(def.Contraction("product", f)), []num.Array{a, b, c}, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		want := []float32{7, 8, 0.5, 16, 17}
		if f.Accumulate {
			want = []float32{107, 208, 0.5, 316, 417}
		}
		for i, v := range want {
			if got := c.At(0, i); got != v {
				t.Errorf("form %d: result [%d] is %v, want %v", form, i, got, v)
			}
		}
	}
}

// TestContractionModels adds what tells the models apart: a chain of fused
// multiply-adds rounds every step to nearest, a tensor core aligns sixteen products
// and truncates.
func TestContractionModels(t *testing.T) {
	d := def.Must(def.Contraction("product", def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"},
	}))
	const k = 33
	g := gen.New("models")
	a, b := num.NewArray(num.F16, 1, k), num.NewArray(num.F16, k, 1)
	for i := range k {
		a.Set(0, i, g.Ordinary())
		b.Set(i, 0, g.Ordinary())
	}
	run := func(m def.Accum) uint32 {
		c := num.NewArray(num.F32, 1, 1)
		if err := reference.Run(d, []num.Array{a, b, c}, reference.Options{Accum: m}); err != nil {
			t.Fatal(err)
		}
		return c.Bits(0, 0)
	}
	chain := float32(0)
	var x, y []uint32
	for i := range k {
		chain = num.FMA(a.At(0, i), b.At(i, 0), chain)
		x, y = append(x, a.Bits(0, i)), append(y, b.Bits(i, 0))
	}
	if got, want := run(def.FMAChain), math.Float32bits(chain); got != want {
		t.Errorf("rule fma: got 0x%08x, want 0x%08x", got, want)
	}
	core := def.Accum{L: 16, F: 25}
	if got, want := run(core), math.Float32bits(num.MMA{L: core.L, F: core.F}.Dot(num.F16, x, y, 0)); got != want {
		t.Errorf("model %s: got 0x%08x, want 0x%08x", core, got, want)
	}
	if run(core) == run(def.FMAChain) {
		t.Error("the data do not tell the models apart")
	}
}

func TestGather(t *testing.T) {
	d := def.Must(def.Gather("rows", def.GatherForm{Index: "i", Table: "t", Out: "o"}))
	table := num.NewArray(num.F16, 3, 2)
	patterns := []uint32{0x7d01, 0x8000, 0x0001, 0xfe55, 0x3c00, 0x7c00} // NaN of both kinds among them
	for i, p := range patterns {
		table.SetBits(i/2, i%2, p)
	}
	out := num.NewArray(num.F16, 5, 2)
	if err := reference.Run(d, []num.Array{num.IndexArray(1, 0, 3, -1, 2), table, out}, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint32{0x0001, 0xfe55, 0x7d01, 0x8000, 0, 0, 0, 0, 0x3c00, 0x7c00} {
		if got := out.Bits(i/2, i%2); got != want {
			t.Errorf("out[%d,%d] is 0x%04x, want 0x%04x", i/2, i%2, got, want)
		}
	}
}

// TestRowWrite writes rows of one pattern each.
func TestRowWrite(t *testing.T) {
	d := def.Must(def.WriteRows("writes", def.RowWriteForm{Index: "i", Rows: "r", Table: "t"}))
	rows, table := num.NewArray(num.BF16, 5, 1), num.NewArray(num.BF16, 4, 1)
	for q, pattern := range []uint32{1, 0x7fc1, 3, 4, 5} {
		rows.SetBits(q, 0, pattern)
	}
	for v := range table.Rows {
		table.SetBits(v, 0, 0x8000)
	}
	if err := reference.Run(d, []num.Array{num.IndexArray(2, 0, 2, -1, 4), rows, table}, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	for v, want := range []uint32{0x7fc1, 0x8000, 3, 0x8000} {
		if got := table.Bits(v, 0); got != want {
			t.Errorf("row %d is %#x, want %#x", v, got, want)
		}
	}
}

// TestGatherSum adds three rows of one column, by hand.
func TestGatherSum(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, test := range []struct {
		name          string
		table, weight num.DType // NoDType is without weights
		values        []float32
		index         []int32
		weights       []float32
		want          float32
	}{
		{"ascending", num.F32, num.NoDType, []float32{0x1p24, 1, -0x1p24}, []int32{0, 1, 2}, nil, 0},
		{"another order", num.F32, num.NoDType, []float32{0x1p24, 1, -0x1p24}, []int32{0, 2, 1}, nil, 1},
		{"the sum is rounded once", num.BF16, num.NoDType, []float32{256, 1, 2}, []int32{0, 1, 1}, nil, 258},
		{"a row twice", num.F16, num.NoDType, []float32{3, 5, 7}, []int32{1, 1, 0}, nil, 13},
		{"bad indices add nothing", num.F16, num.NoDType, []float32{3, 5, 7}, []int32{-1, 2, 3}, nil, 7},
		{"bad weights of bad indices too", num.F16, num.F32, []float32{3, 5, 7}, []int32{-1, 2, 3}, []float32{inf, 2, inf}, 14},
		{"no term", num.F32, num.F32, []float32{3, 5, 7}, []int32{-1, 3, 4}, []float32{1, 1, 1}, 0},
		{"begins at +0", num.F32, num.NoDType, []float32{float32(minusZero), 1, 2}, []int32{0, 0, 0}, nil, 0},
		{"a product is not rounded alone", num.F32, num.F32, []float32{-1, 1 + 0x1p-12, 0}, []int32{0, 1, 2}, []float32{1 + 0x1p-11, 1 + 0x1p-12, 1}, 0x1p-24},
	} {
		f := def.GatherSumForm{Index: "i", Table: "t", Out: "o"}
		index := num.IndexArray(test.index...)
		index.Rows, index.Cols, index.Stride = 1, 3, 3
		operands := []num.Array{index, num.ArrayOf(test.table, 3, 1, test.values...)}
		if test.weight != num.NoDType {
			f.Weight = "w"
			operands = append(operands, num.ArrayOf(test.weight, 1, 3, test.weights...))
		}
		out := num.NewArray(test.table, 1, 1)
		if err := reference.Run(def.Must(def.GatherSum("sums", f)), append(operands, out), reference.Options{}); err != nil {
			t.Fatal(err)
		}
		if got := out.Bits(0, 0); got != num.Narrow(test.table, test.want) {
			t.Errorf("%s: the sum is %v, want %v", test.name, out.At(0, 0), test.want)
		}
	}
}

func TestScatterAdd(t *testing.T) {
	for _, test := range []struct {
		name         string
		rows, result num.DType
		accumulate   bool
		index        []int32
		values       []float32
		old, want    []float32 // two rows
	}{
		{"set", num.F32, num.F32, false, []int32{1, 1, -1, 2}, []float32{1, 2, 4, 8}, []float32{5, 6}, []float32{0, 3}},
		{"accumulate", num.F32, num.F32, true, []int32{1, 1, -1, 2}, []float32{1, 2, 4, 8}, []float32{float32(minusZero), 6}, []float32{float32(minusZero), 9}},
		{"f16 is exact", num.F16, num.F16, false, []int32{0, 0, 0}, []float32{2048, 1, 1}, []float32{0, 0}, []float32{2050, 0}},
		{"bf16 rounds at every step", num.BF16, num.F32, false, []int32{0, 0, 0}, []float32{0x1p24, 1, 1}, []float32{0, 0}, []float32{0x1p24, 0}},
		{"the old value is the first term", num.F32, num.F32, true, []int32{0, 0}, []float32{1, -0x1p24}, []float32{0x1p24, 0}, []float32{0 + (0x1p24 + (1 - 0x1p24)), 0}},
		{"exact zero", num.F16, num.F16, false, []int32{0, 0}, []float32{-1, 1}, []float32{1, 1}, []float32{0, 0}},
	} {
		d := def.Must(def.ScatterAdd("sums", def.ScatterForm{Index: "i", Rows: "r", Result: "s", Accumulate: test.accumulate}))
		rows := num.ArrayOf(test.rows, len(test.values), 1, test.values...)
		result := num.ArrayOf(test.result, 2, 1, test.old...)
		if err := reference.Run(d, []num.Array{num.IndexArray(test.index...), rows, result}, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		for v, want := range test.want {
			if got := result.Bits(v, 0); got != num.Narrow(test.result, want) {
				t.Errorf("%s: row %d is %v, want %v", test.name, v, result.At(v, 0), want)
			}
		}
	}
}

// TestScatterChunks sums 130 occurrences: two full chunks and a rest, each from +0.
func TestScatterChunks(t *testing.T) {
	d := def.Must(def.ScatterAdd("sums", def.ScatterForm{Index: "i", Rows: "r", Result: "s"}))
	g := gen.New("chunks")
	const n, width = 130, 20
	index, rows, result := num.NewArray(num.I32, n, 1), num.NewArray(num.F32, n, width), num.NewArray(num.F32, 1, width)
	var total, chunk [width]float32
	for q := range n {
		for c := range width {
			v := g.Ordinary()
			rows.Set(q, c, v)
			chunk[c] += v
			if q%64 == 63 || q == n-1 {
				total[c] += chunk[c]
				chunk[c] = 0
			}
		}
	}
	if err := reference.Run(d, []num.Array{index, rows, result}, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	for c, want := range total {
		if got := result.At(0, c); got != want {
			t.Errorf("column %d: got %v, want %v", c, got, want)
		}
	}
}
