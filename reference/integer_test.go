package reference_test

import (
	"math"
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/num"
	"tokitai/reference"
)

// TestIntegers works out every node of int32 by hand, at values where signs, carries and counts matter.
func TestIntegers(t *testing.T) {
	const least = math.MinInt32
	i := []int32{0, 1, -1, 7, math.MaxInt32, least, 0x12345678, 1<<24 + 1}
	k := []int32{5, 31, 32, -1, 2, -1, 0x1000, 1}
	for name, test := range map[string]struct {
		of   func(i, k def.Value) def.Value
		want []int32
	}{
		"iadd":     {def.Value.IAdd, []int32{5, 32, 31, 6, least + 1, math.MaxInt32, 0x12346678, 1<<24 + 2}},
		"isub":     {def.Value.ISub, []int32{-5, -30, -33, 8, math.MaxInt32 - 2, least + 1, 0x12344678, 1 << 24}},
		"imul":     {def.Value.IMul, []int32{0, 31, -32, -7, -2, least, 0x45678000, 1<<24 + 1}},
		"umulhigh": {def.Value.UMulHigh, []int32{0, 0, 31, 6, 0, 0x7fffffff, 0x123, 0}},
		"iand":     {def.Value.IAnd, []int32{0, 1, 32, 7, 2, least, 0x1000, 1}},
		"ior":      {def.Value.IOr, []int32{5, 31, -1, -1, math.MaxInt32, -1, 0x12345678, 1<<24 + 1}},
		"ixor":     {def.Value.IXor, []int32{5, 30, -33, -8, math.MaxInt32 - 2, math.MaxInt32, 0x12344678, 1 << 24}},
		"shl":      {def.Value.ShlBy, []int32{0, least, -1, least, -4, 0, 0x12345678, 1<<25 + 2}},
		"shr":      {def.Value.ShrBy, []int32{0, 0, -1, 0, 0x1fffffff, -1, 0x12345678, 1 << 23}},
		"shru":     {def.Value.ShrUBy, []int32{0, 0, -1, 0, 0x1fffffff, 1, 0x12345678, 1 << 23}},
	} {
		got := runInts(t, i, k, test.of)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %#x, want %#x", name, got, test.want)
		}
	}
}

// runInts computes a value per element from two rows of int32.
func runInts(t *testing.T, i, k []int32, of func(i, k def.Value) def.Value) []int32 {
	t.Helper()
	d := def.Must(def.Rowwise("test", func(b *def.Builder) {
		isInt := def.Only(num.I32)
		b.Out("y", of(b.In("i", isInt), b.In("k", isInt)))
	}))
	row := func(values []int32) num.Array {
		a := num.NewArray(num.I32, 1, len(values))
		for c, v := range values {
			a.SetBits(0, c, uint32(v))
		}
		return a
	}
	y := row(make([]int32, len(i)))
	if err := reference.Run(d, []num.Array{row(i), row(k), y}, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	got := make([]int32, len(i))
	for c := range got {
		got[c] = y.Int(0, c)
	}
	return got
}

// TestIntegerSums wraps sums of rows, columns and everything, and converts one that has to be rounded.
func TestIntegerSums(t *testing.T) {
	d := def.Must(def.Rowwise("test", func(b *def.Builder) {
		k := b.In("k", def.Only(num.I32))
		b.OutRow("rows", def.RowSum(k))
		b.OutCol("cols", def.ColSum(k))
		b.OutScalar("all", def.TotalSum(k))
		b.OutRow("float", def.RowSum(k).IToF(), def.Only(num.F32))
	}))
	k := num.NewArray(num.I32, 2, 2)
	for at, v := range []int32{math.MaxInt32, 1, 1 << 24, 1} {
		k.SetBits(at/2, at%2, uint32(v))
	}
	ints := func(rows, cols int) num.Array { return num.NewArray(num.I32, rows, cols) }
	operands := []num.Array{k, ints(2, 1), ints(1, 2), ints(1, 1), num.NewArray(num.F32, 2, 1)}
	if err := reference.Run(d, operands, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	got := []int32{operands[1].Int(0, 0), operands[1].Int(1, 0), operands[2].Int(0, 0), operands[2].Int(0, 1), operands[3].Int(0, 0)}
	want := []int32{math.MinInt32, 1<<24 + 1, math.MinInt32 + 1<<24 - 1, 2, math.MinInt32 + 1<<24 + 1}
	if !slices.Equal(got, want) {
		t.Errorf("got %#x, want %#x", got, want)
	}
	if a, b := operands[4].At(0, 0), operands[4].At(1, 0); a != -0x1p31 || b != 0x1p24 {
		t.Errorf("the sums of rows as floats are %v and %v, want -2^31 and 2^24", a, b)
	}
}

// TestStored reads patterns as they are, signalling NaNs among them, and words by rows and numbers.
func TestStored(t *testing.T) {
	d := def.Must(def.Rowwise("test", func(b *def.Builder) {
		x, n := b.In("x"), b.InRow("n", def.Only(num.I32))
		low, high := b.IntParam("low"), b.IntParam("high")
		b.Out("bits", x.Stored())
		b.Out("own", b.RandomRow(low, n, n, high, low))
		b.Out("word", b.Random(low, high, low, high, low, high))
		b.Out("number", b.Element(low, high))
		b.Out("above", b.ElementHigh(low, high))
	}))
	patterns := []uint32{0x7c01, 0xfe00, 0x8000, 0x0001, 0x3c00, 0xfc00}
	x, n := num.NewArray(num.F16, 2, 3), num.NewArray(num.I32, 2, 1)
	operands := []num.Array{x, n}
	for range 5 {
		operands = append(operands, num.NewArray(num.I32, 2, 3))
	}
	for at, p := range patterns {
		x.SetBits(at/3, at%3, p)
	}
	n.SetBits(0, 0, 77)
	n.SetBits(1, 0, ^uint32(0))
	const low, high = -2, 9 // numbers begin with 9·2^32 - 2 + 2^32
	if err := reference.Run(d, operands, reference.Options{Params: []float64{low, high}}); err != nil {
		t.Fatal(err)
	}
	seed := uint64(9)<<32 | 0xfffffffe
	for at, p := range patterns {
		r, c := at/3, at%3
		e := seed + uint64(at)
		want := []uint32{
			p,
			num.Philox(uint64(n.Bits(r, 0))<<32|0xfffffffe, [4]uint32{0, n.Bits(r, 0), 9, 0xfffffffe})[c],
			num.Philox(seed, [4]uint32{uint32(e >> 2), uint32(e >> 34), 0xfffffffe, 9})[e%4],
			uint32(e), uint32(e >> 32),
		}
		for i, w := range want {
			if got := operands[2+i].Bits(r, c); got != w {
				t.Errorf("%s of element %d is %#x, want %#x", d.Operands[2+i].Name, at, got, w)
			}
		}
	}
}
