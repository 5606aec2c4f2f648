package reference_test

import (
	"math"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/reference"
)

var (
	inf       = math.Inf(1)
	nan       = math.NaN()
	minusZero = math.Copysign(0, -1)
)

// evaluate computes an expression of x and z on one row each, f32 in and out; int32
// come as floats.
func evaluate(t *testing.T, expression func(b *def.Builder, x, z def.Value) def.Value, x, z []float64) []float32 {
	t.Helper()
	d, err := def.Rowwise("test", func(b *def.Builder) {
		x, z := b.In("x", def.Only(num.F32)), b.In("z", def.Only(num.F32))
		v, dtype := expression(b, x, z), num.F32
		if v.Type() == def.Int {
			dtype = num.I32
		}
		switch v.Extent() {
		case def.PerElement:
			b.Out("y", v, def.Only(dtype))
		case def.PerRow:
			b.OutRow("y", v, def.Only(dtype))
		case def.PerColumn:
			b.OutCol("y", v, def.Only(dtype))
		default:
			b.OutScalar("y", v, def.Only(dtype))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	cols := 1
	if d.Operands[2].Extent&def.PerColumn != 0 {
		cols = len(x)
	}
	operands := []num.Array{row(num.F32, x), row(num.F32, z), num.NewArray(d.Operands[2].DTypes.Allowed[0], 1, cols)}
	if err := reference.Run(d, operands, reference.Options{}); err != nil {
		t.Fatal(err)
	}
	var y []float32
	for c := range operands[2].Cols {
		y = append(y, operands[2].At(0, c))
	}
	return y
}

func row(d num.DType, x []float64) num.Array {
	a := num.NewArray(d, 1, len(x))
	for c, v := range x {
		a.Set(0, c, float32(v))
	}
	return a
}

// TestNodes has every node's answers worked out by hand.
func TestNodes(t *testing.T) {
	type values = []float64
	yes := func(c def.Value) def.Value { return def.Select(c, def.One, def.Zero) }
	inside := func(f func(x def.Value) def.Value) func(b *def.Builder, x, z def.Value) def.Value {
		return func(_ *def.Builder, x, _ def.Value) def.Value {
			return (&def.Function{Name: "f", Domain: def.EveryX, Expand: f}).Of(x)
		}
	}
	const tiny = 0x1p-149
	for _, test := range []struct {
		name       string
		expression func(b *def.Builder, x, z def.Value) def.Value
		x, z, want values
	}{
		{"add", func(_ *def.Builder, x, z def.Value) def.Value { return x.Add(z) },
			values{1, 1, 0x1p24, minusZero, minusZero, inf, nan, math.MaxFloat32}, values{2, 0x1p-24, 1, minusZero, 0, -inf, 1, 0x1p103},
			values{3, 1, 0x1p24, minusZero, 0, nan, nan, inf}},
		{"sub", func(_ *def.Builder, x, z def.Value) def.Value { return x.Sub(z) },
			values{1, 0, minusZero, tiny}, values{1, 0, 0, 0x2p-149}, values{0, 0, minusZero, -tiny}},
		{"mul", func(_ *def.Builder, x, z def.Value) def.Value { return x.Mul(z) },
			values{3, -1, 0, 0x1p-75, 0x1p-75, 0x1p64}, values{-2, 0, inf, 0x1p-75, 0x1.8p-75, 0x1p64}, values{-6, minusZero, nan, 0, tiny, inf}},
		{"a product is not fused with the sum it feeds", func(_ *def.Builder, x, z def.Value) def.Value { return x.Mul(x).Sub(z) },
			values{1 + 0x1p-12}, values{1 + 0x1p-11}, values{0}},
		{"fma", func(_ *def.Builder, x, z def.Value) def.Value { return def.FMA(x, x, z) },
			values{1 + 0x1p-12, 0x1p64, inf}, values{-(1 + 0x1p-11), -math.MaxFloat32, -inf}, values{0x1p-24, 0x1p104, nan}},
		{"div", func(_ *def.Builder, x, z def.Value) def.Value { return x.Div(z) },
			values{1, 1, -1, 0, 1, tiny}, values{3, 0, 0, 0, inf, 2}, values{1.0 / 3, inf, -inf, nan, 0, 0}},
		{"sqrt", func(_ *def.Builder, x, _ def.Value) def.Value { return x.Sqrt() },
			values{4, 2, minusZero, -1, inf, tiny}, values{0, 0, 0, 0, 0, 0}, values{2, math.Sqrt2, minusZero, nan, inf, 0x1.6a09e6p-75}},
		{"neg", func(_ *def.Builder, x, _ def.Value) def.Value { return x.Neg() }, values{0, minusZero, 1}, values{0, 0, 0}, values{minusZero, 0, -1}},
		{"abs", func(_ *def.Builder, x, _ def.Value) def.Value { return x.Abs() }, values{minusZero, -inf, -2}, values{0, 0, 0}, values{0, inf, 2}},
		{"min", func(_ *def.Builder, x, z def.Value) def.Value { return x.Min(z) },
			values{1, minusZero, 0, nan, 1, -inf}, values{2, 0, minusZero, 1, nan, 1}, values{1, minusZero, minusZero, nan, nan, -inf}},
		{"max", func(_ *def.Builder, x, z def.Value) def.Value { return x.Max(z) },
			values{1, minusZero, 0, nan, 1, inf}, values{2, 0, minusZero, inf, nan, 1}, values{2, 0, 0, nan, nan, inf}},
		{"rint", func(_ *def.Builder, x, _ def.Value) def.Value { return x.Rint() },
			values{0.5, 1.5, -0.25, 2.5, 0x1p30, inf}, values{0, 0, 0, 0, 0, 0}, values{0, 2, minusZero, 2, 0x1p30, inf}},
		{"scale", func(_ *def.Builder, x, z def.Value) def.Value { return x.Scale(z) },
			values{1, 1, 0x1p-100, 3, 1, 0x1.8p-127, 1, 1, 1},
			values{-149, 127, 300, 2.5, -300, -25, 128, nan, -inf},
			values{tiny, 0x1p127, inf, 12, 0, 0, inf, nan, 0}},
		{"scale rounds twice", func(_ *def.Builder, x, z def.Value) def.Value { return x.Scale(z) },
			values{0x1.8p-126, 0x5p-149}, values{-23, -3}, values{0x2p-149, 0}},
		{"round f16", func(_ *def.Builder, x, _ def.Value) def.Value { return x.Round(def.FixedStorage(num.F16)) },
			values{1 + 0x1p-11, 65519, 65520, 0x1p-25, 0x1.8p-25}, values{0, 0, 0, 0, 0}, values{1, 65504, inf, 0, 0x1p-24}},
		{"round bf16", func(_ *def.Builder, x, _ def.Value) def.Value { return x.Round(def.FixedStorage(num.BF16)) },
			values{1 + 0x1p-8, 1 + 0x3p-9, math.MaxFloat32}, values{0, 0, 0}, values{1, 1 + 0x1p-7, inf}},
		{"round to an operand's storage", func(_ *def.Builder, x, _ def.Value) def.Value { return x.Round(def.StorageOf("z")) },
			values{1 + 0x1p-23}, values{0}, values{1 + 0x1p-23}},
		{"stochastic rounding down", func(_ *def.Builder, x, _ def.Value) def.Value {
			return x.StochasticRound(def.FixedStorage(num.F16), def.IntConst(-1)) // the largest word
		}, values{1 + 0x1p-11, 1, 65519, 65520}, values{0, 0, 0, 0}, values{1, 1, 65504, inf}},
		{"stochastic rounding up", func(_ *def.Builder, x, _ def.Value) def.Value {
			return x.StochasticRound(def.FixedStorage(num.F16), def.IntConst(0))
		}, values{1 + 0x1p-20, 1, -1 - 0x1p-20}, values{0, 0, 0}, values{1 + 0x1p-10, 1, -1 - 0x1p-10}},

		{"partner", func(_ *def.Builder, x, _ def.Value) def.Value { return x.Partner() },
			values{1, nan, minusZero, inf, 5}, values{0, 0, 0, 0, 0}, values{nan, 1, inf, minusZero, 0}},
		{"partner of a computed value", func(_ *def.Builder, x, z def.Value) def.Value { return x.Add(z).Partner() },
			values{1, 2, 3}, values{10, 20, 30}, values{22, 11, 0}},

		{"less", func(_ *def.Builder, x, z def.Value) def.Value { return yes(x.Less(z)) },
			values{1, 2, 2, minusZero, nan, 1}, values{2, 1, 2, 0, 1, nan}, values{1, 0, 0, 0, 0, 0}},
		{"lesseq", func(_ *def.Builder, x, z def.Value) def.Value { return yes(x.LessEqual(z)) },
			values{1, 2, 2, 0, nan}, values{2, 1, 2, minusZero, nan}, values{1, 0, 1, 1, 0}},
		{"equal", func(_ *def.Builder, x, z def.Value) def.Value { return yes(x.Equal(z)) },
			values{1, 2, 0, nan}, values{1, 1, minusZero, nan}, values{1, 0, 1, 0}},
		{"notequal", func(_ *def.Builder, x, z def.Value) def.Value { return yes(x.NotEqual(z)) },
			values{1, 2, 0, nan}, values{1, 1, minusZero, nan}, values{0, 1, 0, 1}},
		{"int32 comparisons", func(b *def.Builder, _, _ def.Value) def.Value {
			c, one := b.Col(), def.IntConst(1)
			return yes(c.Less(one)).Add(yes(c.LessEqual(one)).Mul(def.Const(10))).
				Add(yes(c.Equal(one)).Mul(def.Const(100))).Add(yes(c.NotEqual(one)).Mul(def.Const(1000)))
		}, values{0, 0, 0}, values{0, 0, 0}, values{1011, 110, 1000}},
		{"inside", func(b *def.Builder, _, _ def.Value) def.Value {
			return yes(b.Col().Inside()).Add(yes(def.IntConst(2).Inside())).Add(yes(def.IntConst(-1).Inside()))
		}, values{0, 0}, values{0, 0}, values{1, 1}},
		{"select of bools", func(_ *def.Builder, x, z def.Value) def.Value {
			return yes(def.Select(x.Less(z), x.Equal(x), z.Less(x)))
		}, values{1, 2, 3}, values{2, 1, 3}, values{1, 1, 0}},
		{"col, rows, columns", func(b *def.Builder, x, _ def.Value) def.Value {
			return def.Select(b.Col().Equal(def.IntConst(2)), b.Columns(), b.Rows())
		}, values{7, 7, 7}, values{0, 0, 0}, values{1, 1, 3}},
		{"constants", func(_ *def.Builder, x, _ def.Value) def.Value {
			return x.Mul(def.Number("1/3")).Add(def.Number("0.1"))
		},
			values{0, 3}, values{0, 0}, values{0.1, 1.1}},

		{"bits and float", inside(func(x def.Value) def.Value { return x.Bits().IAdd(def.IntConst(1)).Float() }),
			values{1, 0}, values{0, 0}, values{1 + 0x1p-23, tiny}},
		{"itof", inside(func(x def.Value) def.Value {
			return def.Select(x.Less(def.Zero), def.IntConst(0x1000001), def.IntConst(-5)).IToF()
		}),
			values{-1, 1}, values{0, 0}, values{0x1p24, -5}},
		{"ftoi", inside(func(x def.Value) def.Value { return x.FToI().IToF() }),
			values{-1.9, 1.9, 0x1p40, -0x1p40, nan, inf}, values{0, 0, 0, 0, 0, 0}, values{-1, 1, 0x1p31, -0x1p31, 0, 0x1p31}},
		{"int32 wraps", inside(func(x def.Value) def.Value {
			return x.FToI().IAdd(def.IntConst(math.MaxInt32)).ISub(def.IntConst(-3)).IToF()
		}), values{1, 0}, values{0, 0}, values{-2147483645, -2147483646}},
		{"and, or", inside(func(x def.Value) def.Value { return x.FToI().IAnd(def.IntConst(12)).IOr(def.IntConst(3)).IToF() }),
			values{5, 8, -1}, values{0, 0, 0}, values{7, 11, 15}},
		{"shifts", inside(func(x def.Value) def.Value { return x.FToI().Shl(33).Shr(34).IToF() }),
			values{6, -6, 2, 0x1p30}, values{0, 0, 0, 0}, values{3, -3, 1, -0x1p29}},

		{"rowmax", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowMax(x) }, values{minusZero, -3, 0, -1}, values{0, 0, 0, 0}, values{0}},
		{"rowmax with NaN", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowMax(x) }, values{1, nan, inf}, values{0, 0, 0}, values{nan}},
		{"rowmax of -Inf", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowMax(x) }, values{-inf, -inf}, values{0, 0}, values{-inf}},
		{"rowmin", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowMin(x) }, values{0, minusZero, 3}, values{0, 0, 0}, values{minusZero}},
		{"rowargmax", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowArgMax(x) },
			values{1, 3, 2, 3}, values{0, 0, 0, 0}, values{1}},
		{"rowargmax of one", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowArgMax(x) }, values{-inf}, values{0}, values{0}},
		{"rowargmax takes zeros for equal", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowArgMax(x) },
			values{-1, minusZero, 0}, values{0, 0, 0}, values{1}},
		{"rowargmax takes the first NaN", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowArgMax(x) },
			values{inf, 1, nan, inf, nan}, values{0, 0, 0, 0, 0}, values{2}},
		{"rowargmax of -Inf", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowArgMax(x) },
			values{-inf, -inf}, values{0, 0}, values{0}},
		{"rowargmin", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowArgMin(x) },
			values{1, -3, 2, -3}, values{0, 0, 0, 0}, values{1}},
		{"rowargmin takes zeros for equal", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowArgMin(x) },
			values{1, 0, minusZero}, values{0, 0, 0}, values{1}},
		{"rowargmin takes the first NaN", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowArgMin(x) },
			values{-inf, nan, -inf, nan}, values{0, 0, 0, 0}, values{1}},
		{"rowargmin of +Inf", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowArgMin(x) }, values{inf, inf}, values{0, 0}, values{0}},
		{"rank", func(_ *def.Builder, x, _ def.Value) def.Value { return def.Rank(x) },
			values{1, minusZero, nan, 0, 1, -inf, nan, inf, tiny, -tiny}, make(values, 10), values{3, 6, 0, 7, 4, 9, 1, 2, 5, 8}},
		{"rank of one", func(_ *def.Builder, x, _ def.Value) def.Value { return def.Rank(x) }, values{nan}, values{0}, values{0}},
		{"rowkth", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowKth(x, def.IntConst(2)) },
			values{0, minusZero, 3, 0}, values{0, 0, 0, 0}, values{1}},
		{"rowkth below", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowKth(x, def.IntConst(-5)) }, values{0, 5, nan}, values{0, 0, 0}, values{2}},
		{"rowkth beyond", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowKth(x, def.IntConst(7)) }, values{0, 5, nan}, values{0, 0, 0}, values{0}},
		{"rownucleus", func(_ *def.Builder, x, z def.Value) def.Value { return def.RowNucleus(x, z, def.Const(0.75)) },
			values{1, 4, 3, 2}, values{0.25, 0.25, 0.25, 0.25}, values{3}}, // half the mass before it
		{"rownucleus of no share", func(_ *def.Builder, x, z def.Value) def.Value { return def.RowNucleus(x, z, def.Zero) },
			values{1, 4, 3, 2}, values{0.25, 0.25, 0.25, 0.25}, values{1}},
		{"rownucleus passes elements without mass", func(_ *def.Builder, x, z def.Value) def.Value { return def.RowNucleus(x, z, def.Zero) },
			values{1, 4, 3, 2}, values{0.25, 0, nan, 0x1p-30}, values{3}},
		{"rownucleus of all", func(_ *def.Builder, x, z def.Value) def.Value { return def.RowNucleus(x, z, def.One) },
			values{1, 4, 3, 2}, values{0, 7, inf, 0x1p-32}, values{2}},
		{"rownucleus without mass", func(_ *def.Builder, x, z def.Value) def.Value { return def.RowNucleus(x, z, def.Half) },
			values{1, 4, 3, 1}, values{0, -1, nan, 0x1p-31}, values{3}},
		{"rownucleus counts shares to 2^-31", func(_ *def.Builder, x, z def.Value) def.Value { return def.RowNucleus(x, z, def.Const(0x1p-29)) },
			values{3, 2, 1, 0}, values{0x1p-30, 0x1p-30, 1, 1}, values{2}}, // a limit of 4 units
		{"at the largest", func(_ *def.Builder, x, z def.Value) def.Value { return z.At(def.RowArgMax(x)) },
			values{1, 5, 2}, values{7, 8, 9}, values{8}},
		{"int32 per element", func(b *def.Builder, x, _ def.Value) def.Value {
			return def.Select(b.Col().Equal(def.RowArgMin(x)), def.IntConst(-7), b.Col())
		}, values{1, 0, 2}, values{0, 0, 0}, values{0, -7, 2}},
		{"int32 per column", func(_ *def.Builder, x, _ def.Value) def.Value {
			return def.Select(def.ColSum(x).Less(def.Zero), def.IntConst(math.MinInt32), def.IntConst(3))
		}, values{1, -1}, values{0, 0}, values{3, -0x1p31}},
		{"one int32", func(_ *def.Builder, x, _ def.Value) def.Value {
			return def.Select(def.TotalSum(x).Less(def.Zero), def.IntConst(1), def.IntConst(2))
		}, values{1, -1}, values{0, 0}, values{2}},
		{"colf", func(b *def.Builder, x, _ def.Value) def.Value { return b.ColFloat().Mul(x) }, values{1, 1, -1}, values{0, 0, 0}, values{0, 1, -2}},
		{"rowsum of −0", func(_ *def.Builder, x, _ def.Value) def.Value { return def.RowSum(x) }, values{minusZero}, values{0}, values{0}},
		{"at", func(_ *def.Builder, x, _ def.Value) def.Value { return x.At(def.IntConst(1)) }, values{1, 2}, values{0, 0}, values{2}},
		{"at, outside", func(_ *def.Builder, x, _ def.Value) def.Value { return x.At(def.IntConst(2)) }, values{1, 2}, values{0, 0}, values{0}},
		{"at, below", func(_ *def.Builder, x, _ def.Value) def.Value { return x.At(def.IntConst(-1)) }, values{1, 2}, values{0, 0}, values{0}},
		{"at a computed element", func(_ *def.Builder, x, _ def.Value) def.Value { return x.Mul(x).At(def.IntConst(0)) }, values{3, 2}, values{0, 0}, values{9}},
		{"colsum of −0", func(_ *def.Builder, x, _ def.Value) def.Value { return def.ColSum(x) }, values{minusZero, 2}, values{0, 0}, values{0, 2}},
		{"totalsum of −0", func(_ *def.Builder, x, _ def.Value) def.Value { return def.TotalSum(x) }, values{minusZero}, values{0}, values{0}},
		{"a late expression", func(b *def.Builder, x, z def.Value) def.Value {
			return def.ColSum(x).Mul(def.TotalSum(z)).Add(b.Columns())
		}, values{1, 2}, values{3, 4}, values{9, 16}},
	} {
		got := evaluate(t, test.expression, test.x, test.z)
		if len(got) != len(test.want) {
			t.Errorf("%s: got %d values, want %d", test.name, len(got), len(test.want))
			continue
		}
		for i, w := range test.want {
			x, y := num.Canonical(num.F32, math.Float32bits(got[i])), num.Canonical(num.F32, math.Float32bits(float32(w)))
			if x != y {
				t.Errorf("%s: at %d, x %v, z %v: got 0x%08x (%v), want 0x%08x (%v)", test.name, i, test.x[i], test.z[i], x, got[i], y, w)
			}
		}
	}
}

// pairwise is the adjacent tree written as what it says: s[i] = s[2i] + s[2i+1],
// absent lanes being no terms at all.
func pairwise(lanes []float32, present []bool) float32 {
	for len(lanes) > 1 {
		var sums []float32
		var any []bool
		for i := 0; i < len(lanes); i += 2 {
			switch {
			case present[i] && present[i+1]:
				sums = append(sums, lanes[i]+lanes[i+1])
			case present[i]:
				sums = append(sums, lanes[i])
			default:
				sums = append(sums, 0)
			}
			any = append(any, present[i])
		}
		lanes, present = sums, any
	}
	return lanes[0]
}

func shapedSum(x []float32, lanes int) float32 {
	sums, present := make([]float32, lanes), make([]bool, lanes)
	for i, v := range x {
		sums[i%lanes] += v
		present[i%lanes] = true
	}
	return pairwise(sums, present)
}

// TestSumShapes adds in the frozen shape: lanes by the number of columns.
func TestSumShapes(t *testing.T) {
	d := def.Must(def.Rowwise("sums", func(b *def.Builder) {
		x := b.In("x", def.Only(num.F32))
		b.OutRow("row", def.RowSum(x), def.Only(num.F32))
		b.OutCol("col", def.ColSum(x), def.Only(num.F32))
		b.OutScalar("total", def.TotalSum(x), def.Only(num.F32))
	}))
	rowLanes := func(c int) int {
		switch {
		case c <= 2048:
			return 256
		case c <= 8192:
			return 1024
		}
		return 8192
	}
	g := gen.New("sum shapes")
	for _, s := range [][2]int{
		{1, 1}, {3, 2}, {2, 255}, {2, 256}, {2, 257}, {3, 2048}, {2, 2049}, {2, 8192}, {2, 8193}, {1, 70000}, {5, 20000},
		{2049, 3}, {4100, 1}, {513, 257}, {257, 2050},
	} {
		rows, cols := s[0], s[1]
		operands := []num.Array{
			num.NewArray(num.F32, rows, cols), num.NewArray(num.F32, rows, 1), num.NewArray(num.F32, 1, cols), num.NewArray(num.F32, 1, 1),
		}
		var x []float32
		for i := range rows * cols {
			x = append(x, g.Ordinary())
			operands[0].Set(i/cols, i%cols, x[i])
		}
		if err := reference.Run(d, operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		for _, r := range []int{0, rows - 1} {
			if got, want := operands[1].At(r, 0), shapedSum(x[r*cols:(r+1)*cols], rowLanes(cols)); got != want {
				t.Errorf("%v: row sum %d is %v, want %v", s, r, got, want)
			}
		}
		colLanes := 256
		if cols <= 256 {
			colLanes = 2048
		} else if cols <= 2048 {
			colLanes = 512
		}
		for _, c := range []int{0, cols - 1} {
			var column []float32
			for r := range rows {
				column = append(column, x[r*cols+c])
			}
			if got, want := operands[2].At(0, c), shapedSum(column, colLanes); got != want {
				t.Errorf("%v: column sum %d is %v, want %v", s, c, got, want)
			}
		}
		var flat []float32
		for first := 0; first < len(x); first += 65536 {
			part := x[first:min(first+65536, len(x))]
			flat = append(flat, shapedSum(part, rowLanes(len(part))))
		}
		if got, want := operands[3].At(0, 0), shapedSum(flat, rowLanes(len(flat))); got != want {
			t.Errorf("%v: total sum is %v, want %v", s, got, want)
		}
	}
}

// TestExtents gives every kind of operand different values, so that a mix-up of
// rows, columns, formats or parameters shows.
func TestExtents(t *testing.T) {
	d := def.Must(def.Rowwise("extents", func(b *def.Builder) {
		x, c, r := b.In("x"), b.InCol("c"), b.InRow("r")
		p := b.Param("p")
		ignore := b.IntParam("ignore")
		label := b.InIndex("label", ignore)
		v := x.Add(c.Mul(def.Const(10))).Add(r.Mul(def.Const(100)))
		b.Out("y", v.Add(p.Mul(def.Const(1000))))
		b.OutRow("z", def.Select(label.Equal(ignore), def.Const(-1), x.At(label).Add(r)))
		b.OutCol("w", c.Neg())
		b.Out("x", x.Add(def.One))
	}))
	operands := []num.Array{
		num.ArrayOf(num.F16, 2, 3, 1, 2, 3, 4, 5, 6),
		num.ArrayOf(num.BF16, 1, 3, 1, 2, 3),
		num.ArrayOf(num.F32, 2, 1, 1, 2),
		num.IndexArray(2, 7),
		num.NewArray(num.F32, 2, 3), num.NewArray(num.F32, 2, 1), num.NewArray(num.F16, 1, 3),
	}
	run := func(ignore float64) {
		t.Helper()
		if err := reference.Run(d, operands, reference.Options{Params: []float64{1, ignore}}); err != nil {
			t.Fatal(err)
		}
	}
	run(7)
	want := func(operand int, values ...float32) {
		t.Helper()
		a := operands[operand]
		for i, v := range values {
			if got := a.At(i/a.Cols, i%a.Cols); got != v {
				t.Errorf("%s[%d] is %v, want %v", d.Operands[operand].Name, i, got, v)
			}
		}
	}
	want(4, 1111, 1122, 1133, 1214, 1225, 1236)
	want(5, 4, -1)
	want(6, -1, -2, -3)
	want(0, 2, 3, 4, 5, 6, 7) // updated in place
	run(5)                    // now 7 is a bad index: +0 from outside the row
	want(5, 5, 2)
}

// TestRandomWords takes the words by the element's flat index, the parameters as
// seed, tensor and step.
func TestRandomWords(t *testing.T) {
	d := def.Must(def.Rowwise("random", func(b *def.Builder) {
		low, high, tensor, step := b.IntParam("low"), b.IntParam("high"), b.IntParam("tensor"), b.IntParam("step")
		b.Out("y", b.In("x").StochasticRound(def.FixedStorage(num.BF16), b.Random(low, high, tensor, step)), def.Only(num.F32))
	}))
	operands := []num.Array{num.NewArray(num.F32, 3, 7), num.NewArray(num.F32, 3, 7)}
	for i := range 21 {
		operands[0].Set(i/7, i%7, 1+0x1p-8) // halfway between two bf16
	}
	if err := reference.Run(d, operands, reference.Options{Params: []float64{-5, 6, 7, 8}}); err != nil {
		t.Fatal(err)
	}
	seed := uint64(uint32(0xfffffffb)) | 6<<32
	for i := range 21 {
		want := float32(1)
		if num.RandomWord(seed, 7, 8, uint64(i)) < 1<<31 {
			want = 1 + 0x1p-7
		}
		if got := operands[1].At(i/7, i%7); got != want {
			t.Errorf("element %d: got %v, want %v", i, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	rowwise := def.Must(def.Rowwise("rowwise", func(b *def.Builder) {
		b.Out("y", b.In("x").Mul(b.InRow("r")).Mul(b.InCol("c")).Mul(b.Param("p")))
	}))
	product := def.Must(def.Contraction("product", def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"},
	}))
	gather := def.Must(def.Gather("gather", def.GatherForm{Index: "i", Table: "t", Out: "o"}))
	scatter := def.Must(def.ScatterAdd("scatter", def.ScatterForm{Index: "i", Rows: "r", Result: "s"}))
	array := func(r, c int) num.Array { return num.NewArray(num.F32, r, c) }
	index := func(n int) num.Array { return num.NewArray(num.I32, n, 1) }
	for _, test := range []struct {
		d        *def.Definition
		operands []num.Array
		o        reference.Options
		want     string
	}{
		{rowwise, []num.Array{array(2, 3)}, reference.Options{}, "rowwise: got 1 operands, want 4"},
		{rowwise, []num.Array{array(2, 3), array(2, 1), array(1, 3), array(2, 3)}, reference.Options{}, "rowwise: got 0 parameters, want 1"},
		{rowwise, []num.Array{array(2, 3), array(3, 1), array(1, 3), array(2, 3)}, reference.Options{Params: []float64{1}}, "rowwise: r is 3×1, want 2×1"},
		{rowwise, []num.Array{array(2, 3), array(2, 1), array(1, 4), array(2, 3)}, reference.Options{Params: []float64{1}}, "rowwise: c is 1×4, want 1×3"},
		{rowwise, []num.Array{array(2, 3), array(2, 1), array(1, 3), array(3, 2)}, reference.Options{Params: []float64{1}}, "rowwise: y is 3×2, want 2×3"},
		{product, []num.Array{array(2, 3), array(4, 2), array(2, 2)}, reference.Options{}, "product: sizes do not fit: K = 4 in b, want 3"},
		{product, []num.Array{array(2, 3), array(3, 2), array(2, 3)}, reference.Options{}, "product: sizes do not fit: N = 3 in c, want 2"},
		{product, []num.Array{array(2, 3), array(3, 2), array(2, 2)}, reference.Options{Accum: def.Accum{L: 16, F: 25}},
			"product: rule mma(16,25) takes f16, bf16, e4m3 or e5m2, got f32"},
		{gather, []num.Array{index(3), array(5, 2), array(2, 2)}, reference.Options{}, "gather: sizes do not fit: 3 indices, rows of 2, into 2×2"},
		{gather, []num.Array{index(3), array(5, 2), array(3, 4)}, reference.Options{}, "gather: sizes do not fit: 3 indices, rows of 2, into 3×4"},
		{scatter, []num.Array{index(3), array(2, 2), array(5, 2)}, reference.Options{}, "scatter: sizes do not fit: 3 indices, 2×2 rows, into 5×2"},
		{scatter, []num.Array{index(3), array(3, 2), array(5, 3)}, reference.Options{}, "scatter: sizes do not fit: 3 indices, 3×2 rows, into 5×3"},
	} {
		if err := reference.Run(test.d, test.operands, test.o); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}
