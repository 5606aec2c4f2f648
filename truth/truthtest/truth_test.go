// Package truthtest tests package truth from outside. Many of these tests use operations, which
// import truth: beside its own tests, all of them would be compiled once more.
package truthtest

import (
	"math"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/truth"
)

var softmax = rowwise("softmax", func(b *def.Builder) {
	x := b.In("x")
	e := fn.ExpNonPositive(x.Sub(def.RowMax(x))).As("e")
	b.Out("y", e.Mul(def.One.Div(def.RowSum(e))), def.Like("x"))
})

var product = def.Must(def.Contraction("product", def.ContractionForm{
	Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"},
}))

func rowwise(name string, build func(b *def.Builder)) *def.Definition {
	return def.Must(def.Rowwise(name, build))
}

// unary returns the definition y = f(x).
func unary(f func(b *def.Builder, x def.Value) def.Value) *def.Definition {
	return rowwise("unary", func(b *def.Builder) { b.Out("y", f(b, b.In("x")), def.AnyFloat) })
}

func enclose(t *testing.T, d *def.Definition, mode truth.Mode, params []float64, operands ...num.Array) *truth.Result {
	t.Helper()
	r, err := truth.Enclose(d, operands, truth.Options{Params: params, Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func row(values ...float32) num.Array { return num.ArrayOf(num.F32, 1, len(values), values...) }

func like(a num.Array) num.Array { return num.NewArray(a.DType, a.Rows, a.Cols) }

// mustHold fails unless the ball contains want and is no wider than relative 2^-45.
func mustHold(t *testing.T, what string, got ball.Ball, want float64) {
	t.Helper()
	lo, hi := got.Bounds()
	if !(lo <= want && want <= hi) {
		t.Errorf("%s: %v does not contain %v", what, got, want)
	}
	if !(hi-lo <= 0x1p-45*math.Abs(want)) {
		t.Errorf("%s: %v is wider than float64 allows around %v", what, got, want)
	}
}

func TestHandWorked(t *testing.T) {
	for _, test := range []struct {
		name   string
		d      *def.Definition
		params []float64
		x      []float32
		want   []float64
	}{
		{"softmax of equals", softmax, nil, []float32{3, 3, 3, 3, 3}, []float64{0.2, 0.2, 0.2, 0.2, 0.2}},
		{"softmax far apart", softmax, nil, []float32{0, 1}, []float64{1 / (1 + math.E), math.E / (1 + math.E)}},
		{"constant is the real number", unary(func(_ *def.Builder, x def.Value) def.Value { return x.Mul(def.Number("0.1")) }),
			nil, []float32{10, 30}, []float64{1, 3}},
		{"parameter is its binary32", rowwise("param", func(b *def.Builder) { b.Out("y", b.In("x").Mul(b.Param("p")), def.AnyFloat) }),
			[]float64{0.1}, []float32{1}, []float64{float64(float32(0.1))}},
		{"columns and rows", unary(func(b *def.Builder, x def.Value) def.Value { return x.Mul(b.Columns()).Add(b.Rows()) }),
			nil, []float32{1, 2, 3}, []float64{4, 7, 10}},
		{"rounding does nothing", unary(func(_ *def.Builder, x def.Value) def.Value { return x.Round(def.FixedStorage(num.BF16)) }),
			nil, []float32{1.0001}, []float64{float64(float32(1.0001))}},
		{"scale and rint", unary(func(_ *def.Builder, x def.Value) def.Value { return x.Scale(x).Add(x.Rint()) }),
			nil, []float32{3, -2.5, 300}, []float64{27, -0.625 - 2, 300*0x1p254 + 300}},
		{"select", unary(func(_ *def.Builder, x def.Value) def.Value {
			return def.Select(x.NotEqual(def.Zero), def.Select(x.LessEqual(def.One), def.Two, x), def.Half)
		}), nil, []float32{0, 1, 5}, []float64{0.5, 2, 5}},
		{"label", rowwise("label", func(b *def.Builder) {
			x := b.In("x")
			at := x.At(def.IntConst(1)).Add(x.At(def.IntConst(7))) // there is no column 7
			b.Out("y", def.Select(b.Col().Less(def.IntConst(2)), at, x), def.AnyFloat)
		}), nil, []float32{10, 20, 30}, []float64{20, 20, 30}},
		{"minimum and maximum", unary(func(_ *def.Builder, x def.Value) def.Value {
			return x.Abs().Min(def.Const(4)).Max(def.RowMin(x).Neg()).Add(def.RowMax(x))
		}), nil, []float32{-3, 8, 1}, []float64{11, 12, 11}},
		{"fma of a square", unary(func(_ *def.Builder, x def.Value) def.Value { return def.FMA(x, x, def.One).Sqrt() }),
			nil, []float32{0, -3}, []float64{1, math.Sqrt(10)}},
		{"functions", unary(func(_ *def.Builder, x def.Value) def.Value {
			return fn.Log(fn.Exp(x)).Sub(fn.Tanh(x)).Add(fn.Sigmoid(x)).Mul(fn.Recip(x)).Mul(fn.Rsqrt(x))
		}), nil, []float32{2}, []float64{(2 - math.Tanh(2) + 1/(1+math.Exp(-2))) / 2 / math.Sqrt2}},
		{"more functions", unary(func(_ *def.Builder, x def.Value) def.Value {
			waves := def.Two.Mul(fn.Sin(x)).Mul(fn.Cos(x))
			return waves.Add(fn.Erf(x)).Add(fn.Log1p(x)).Add(fn.Exp2(x)).Add(fn.Log2(x))
		}), nil, []float32{1.5}, []float64{math.Sin(3) + math.Erf(1.5) + math.Log1p(1.5) + math.Exp2(1.5) + math.Log2(1.5)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			x := row(test.x...)
			r := enclose(t, test.d, truth.Exact, test.params, x, like(x))
			for c, want := range test.want {
				mustHold(t, test.name, r.At(1, 0, c), want)
			}
		})
	}
}

func TestColumnAndTotalSums(t *testing.T) {
	d := rowwise("sums", func(b *def.Builder) {
		x := b.In("x")
		b.OutCol("column", def.ColSum(x.Mul(x)).Div(b.Rows()), def.AnyFloat)
		b.OutScalar("total", def.TotalSum(x).Sqrt(), def.AnyFloat)
	})
	const R, C = 300, 3 // more rows than wait at a time
	x := num.NewArray(num.F32, R, C)
	squares, total := [C]float64{}, 0.0
	for r := range R {
		for c := range C {
			v := float32(r%17 + c)
			x.Set(r, c, v)
			squares[c] += float64(v * v)
			total += float64(v)
		}
	}
	r := enclose(t, d, truth.Exact, nil, x, num.NewArray(num.F32, 1, C), num.NewArray(num.F32, 1, 1))
	for c := range C {
		mustHold(t, "column", r.At(1, 0, c), squares[c]/R)
	}
	mustHold(t, "total", r.At(2, 0, 0), math.Sqrt(total))
}

func TestTables(t *testing.T) {
	a := num.ArrayOf(num.F16, 2, 3, 1, 2, 3, 4, 5, 6)
	b := num.ArrayOf(num.F16, 2, 3, 1, -1, 0.5, 2, 0, 0)
	old := num.ArrayOf(num.F32, 2, 2, 10, 20, 30, 40)
	index := num.IndexArray(1, -5, 1)
	transposed := def.Must(def.Contraction("transposed", def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "N"}, Right: "b", RightDims: []string{"K", "N"}, TransposeRight: true,
		Result: "c", ResultDims: []string{"M", "K"}, Accumulate: true,
	}))
	left := def.Must(def.Contraction("left", def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "K"}, TransposeLeft: true, Right: "b", RightDims: []string{"M", "N"}, Result: "c", ResultDims: []string{"K", "N"},
	}))
	gather := def.Must(def.Gather("gather", def.GatherForm{Index: "i", Table: "t", Out: "o"}))
	scatter := def.Must(def.ScatterAdd("scatter", def.ScatterForm{Index: "i", Rows: "x", Result: "y"}))
	added := def.Must(def.ScatterAdd("added", def.ScatterForm{Index: "i", Rows: "x", Result: "y", Accumulate: true}))
	rows := num.ArrayOf(num.BF16, 3, 2, 1, 2, 100, 100, 3, 4)
	summed := def.Must(def.GatherSum("summed", def.GatherSumForm{Index: "i", Table: "t", Out: "o"}))
	weighted := def.Must(def.GatherSum("weighted", def.GatherSumForm{Index: "i", Table: "t", Weight: "w", Out: "o"}))
	pairs, absent := num.IndexArray(0, 1, 2, 2), num.IndexArray(0, 3, -1, -7)
	pairs.Rows, pairs.Cols, pairs.Stride = 2, 2, 2
	absent.Rows, absent.Cols, absent.Stride = 2, 2, 2
	for _, test := range []struct {
		d        *def.Definition
		operands []num.Array
		want     []float64
	}{
		{transposed, []num.Array{a, b, old}, []float64{10 + 0.5, 20 + 2, 30 + 4 - 5 + 3, 40 + 8}},
		{left, []num.Array{a, b, num.NewArray(num.F32, 3, 3)}, []float64{1 + 8, -1, 0.5, 2 + 10, -2, 1, 3 + 12, -3, 1.5}},
		{gather, []num.Array{index, a, num.NewArray(num.F16, 3, 3)}, []float64{4, 5, 6, 0, 0, 0, 4, 5, 6}},
		{scatter, []num.Array{index, rows, num.NewArray(num.BF16, 2, 2)}, []float64{0, 0, 4, 6}},
		{added, []num.Array{index, rows, old}, []float64{10, 20, 34, 46}},
		{summed, []num.Array{pairs, rows, num.NewArray(num.BF16, 2, 2)}, []float64{101, 102, 6, 8}},
		{weighted, []num.Array{pairs, rows, num.ArrayOf(num.F32, 2, 2, 3, -1, 0.5, 2), num.NewArray(num.BF16, 2, 2)}, []float64{-97, -94, 7.5, 10}},
		{weighted, []num.Array{absent, rows, num.ArrayOf(num.F32, 2, 2, 3, float32(math.Inf(1)), 0.5, 2), num.NewArray(num.BF16, 2, 2)}, []float64{3, 6, 0, 0}},
	} {
		r := enclose(t, test.d, truth.Exact, nil, test.operands...)
		last := len(test.operands) - 1
		out := test.operands[last]
		z, err := r.Round(last)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range test.want {
			mustHold(t, test.d.Name, r.At(last, i/out.Cols, i%out.Cols), want)
			if got := num.Widen(out.DType, z.Bits[i]); float64(got) != want {
				t.Errorf("%s[%d] rounds to %v, want %v", test.d.Name, i, got, want)
			}
		}
	}
}

// TestOpenComparison checks that an undecided comparison gives both branches.
func TestOpenComparison(t *testing.T) {
	d := unary(func(_ *def.Builder, x def.Value) def.Value {
		third := x.Div(def.Const(3))
		return def.Select(third.Add(third).Add(third).Less(x), def.Const(-1), def.Const(5))
	})
	x := row(1)
	lo, hi := enclose(t, d, truth.Exact, nil, x, like(x)).At(1, 0, 0).Bounds()
	if lo != -1 || hi != 5 {
		t.Errorf("got [%v, %v], want both branches, [-1, 5]", lo, hi)
	}
	isInt := rowwise("isint", func(b *def.Builder) {
		x := b.In("x")
		third := x.Div(def.Const(3))
		i := def.Select(def.RowMax(third.Add(third).Add(third)).Less(def.RowMax(x)), def.IntConst(0), def.IntConst(1))
		b.OutRow("y", x.At(i), def.AnyFloat)
		b.OutRow("i", i)
	})
	r := enclose(t, isInt, truth.Exact, nil, row(1, 1.5), num.NewArray(num.F32, 1, 1), num.NewArray(num.I32, 1, 1))
	if lo, hi := r.At(1, 0, 0).Bounds(); lo != 1 || hi != 1.5 {
		t.Errorf("an element at 0 or 1: got [%v, %v], want [1, 1.5]", lo, hi)
	}
	if r.Count(2, 0, 0) != 2 || !r.Admits(2, 0, 0, 0) || !r.Admits(2, 0, 0, 1) || r.Admits(2, 0, 0, 2) {
		t.Errorf("an int32 that hangs on an open comparison: want 0 and 1 admitted alone, got %d values", r.Count(2, 0, 0))
	}
	random := rowwise("random", func(b *def.Builder) {
		p := b.Param("p")
		third := p.Div(def.Const(3))
		seed := def.Select(third.Add(third).Add(third).Less(p), def.IntConst(0), def.IntConst(1))
		b.Out("y", b.In("x").StochasticRound(def.FixedStorage(num.F16), b.Random(seed, seed, seed, seed)))
	})
	order := def.Sequential // so that roundings follow the words
	r, err := truth.Enclose(random, []num.Array{row(1 + 0x1p-12), row(1)}, truth.Options{Params: []float64{1}, Mode: truth.Rounded, Order: &order})
	if err != nil {
		t.Fatal(err)
	}
	if lo, hi := r.At(1, 0, 0).Bounds(); lo != 1 || hi != 1+0x1p-10 {
		t.Errorf("random bits that hang on an open comparison: got [%v, %v], want both neighbours", lo, hi)
	}
}

func TestNoInformation(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, test := range []struct {
		name  string
		x     []float32
		known []bool
	}{
		{"NaN", []float32{1, nan, 2}, []bool{true, false, true}},
		{"infinity", []float32{1, inf, -inf}, []bool{true, false, false}},
	} {
		d := unary(func(_ *def.Builder, x def.Value) def.Value { return x.Mul(def.Zero).Add(def.One) })
		x := row(test.x...)
		r := enclose(t, d, truth.Exact, nil, x, like(x))
		z, err := r.Round(1)
		if err != nil {
			t.Fatal(err)
		}
		for c, known := range test.known {
			if got := r.At(1, 0, c).Known(); got != known {
				t.Errorf("%s: column %d known %v, want %v", test.name, c, got, known)
			}
			if isUnknown := z.State[c] == truth.Unknown; isUnknown == known {
				t.Errorf("%s: column %d rounds %v", test.name, c, z.State[c])
			}
		}
	}
	x := row(1, nan)
	if enclose(t, softmax, truth.Exact, nil, x, like(x)).At(1, 0, 0).Known() {
		t.Error("a NaN in a row of softmax leaves its neighbour known")
	}
}

// TestRoundedLimits checks that results are unknown in mode Rounded if they may overflow, or if an
// argument may be outside of a function's domain.
func TestRoundedLimits(t *testing.T) {
	bounded := func(f *def.Function) *def.Definition {
		return unary(func(_ *def.Builder, x def.Value) def.Value { return f.Of(x) })
	}
	nearZero := func(f func(x def.Value) def.Value) *def.Definition {
		return unary(func(_ *def.Builder, x def.Value) def.Value {
			third := x.Div(def.Const(3))
			return f(third.Add(third).Add(third).Sub(x))
		})
	}
	double := unary(func(_ *def.Builder, x def.Value) def.Value { return x.Add(x) })
	sum := rowwise("sum", func(b *def.Builder) { b.OutRow("y", def.RowSum(b.In("x")), def.AnyFloat) })
	for _, test := range []struct {
		name string
		d    *def.Definition
		x    float32
		want bool
	}{
		{"2x within range", double, 0x1.fffffcp126, true},
		{"2x beyond", double, 0x1p127, false},
		{"2x within half a unit of the largest", double, 0x1.fffffep126, false},
		{"exp_nonpositive inside", bounded(fn.ExpNonPositiveFunction), 44, true},
		{"exp_nonpositive outside", bounded(fn.ExpNonPositiveFunction), 44.00001, false},
		{"recip_bounded inside", bounded(fn.RecipBoundedFunction), -0x1p-125, true},
		{"recip_bounded outside", bounded(fn.RecipBoundedFunction), -0x1p-126, false},
		{"recip_bounded above", bounded(fn.RecipBoundedFunction), 0x1p126, false},
		{"log inside", bounded(fn.LogFunction), 0x1p-149, true},
		{"root of a square", nearZero(func(x def.Value) def.Value { return x.Mul(x).Sqrt() }), 1, true},
		{"root of what may be below zero", nearZero(def.Value.Sqrt), 1, false},
		{"exp overflows", bounded(fn.ExpFunction), 89, false},
		{"round to f16 within range", unary(func(_ *def.Builder, x def.Value) def.Value { return x.Round(def.FixedStorage(num.F16)) }), 60000, true},
		{"round to f16 overflows", unary(func(_ *def.Builder, x def.Value) def.Value { return x.Round(def.FixedStorage(num.F16)) }), 65536, false},
	} {
		x := row(test.x)
		if got := enclose(t, test.d, truth.Rounded, nil, x, like(x)).At(1, 0, 0); got.Known() != test.want {
			t.Errorf("%s: %v, want known %v", test.name, got, test.want)
		}
	}
	huge := row(0x1p127, 0x1p127, -0x1p127, -0x1p127)
	if enclose(t, sum, truth.Rounded, nil, huge, num.NewArray(num.F32, 1, 1)).At(1, 0, 0).Known() {
		t.Error("a sum whose parts overflow is known")
	}
}

// TestRoundedSigns checks that no rounding crosses zero: a negative value stays negative, however
// small.
func TestRoundedSigns(t *testing.T) {
	halved := unary(func(_ *def.Builder, x def.Value) def.Value { return x.Mul(def.Const(0.375)) })
	for _, x := range []float32{0x1p-149, 0x1p-148, 0x1.8p-147, 0x1p-140} {
		for _, sign := range []float32{1, -1} {
			in := row(sign * x)
			lo, hi := enclose(t, halved, truth.Rounded, nil, in, like(in)).At(1, 0, 0).Bounds()
			if sign > 0 && lo < 0 || sign < 0 && hi > 0 {
				t.Errorf("3/8 of %v is between %v and %v, across zero", sign*x, lo, hi)
			}
		}
	}
}

// TestRoundTies checks that exact arithmetic decides values on a boundary between two results.
func TestRoundTies(t *testing.T) {
	d := rowwise("sum", func(b *def.Builder) {
		x, y := b.In("x", def.AnyFloat), b.In("y", def.AnyFloat)
		b.Out("z", x.Add(y), def.AnyFloat)
	})
	y := row(0x1p-11, 3*0x1p-11, 0x1p-11, 0x1.000002p-11, 0x1.fffffep-12)
	x := row(1, 1, -1, 1, 1)
	z := num.NewArray(num.F16, 1, 5)
	got, err := enclose(t, d, truth.Exact, nil, x, y, z).Round(2)
	if err != nil {
		t.Fatal(err)
	}
	want := []uint32{0x3c00, 0x3c02, 0xbbff, 0x3c01, 0x3c00}
	state := []truth.State{truth.ByBig, truth.ByBig, truth.ByFloat64, truth.ByFloat64, truth.ByFloat64}
	for c := range want {
		if got.Bits[c] != want[c] || got.State[c] != state[c] {
			t.Errorf("%v + %v: got %#04x %v, want %#04x %v", x.At(0, c), y.At(0, c), got.Bits[c], got.State[c], want[c], state[c])
		}
	}
}

// TestRoundUndecided checks that x - x/3·3, which is zero but at no precision known to be, stays
// undecided where the sign matters.
func TestRoundUndecided(t *testing.T) {
	d := unary(func(_ *def.Builder, x def.Value) def.Value {
		third := x.Div(def.Const(3))
		return x.Add(def.Const(0x1p-24)).Add(third.Add(third).Add(third).Sub(x))
	})
	x := row(1)
	z, err := enclose(t, d, truth.Exact, nil, x, like(x)).Round(1)
	if err != nil {
		t.Fatal(err)
	}
	if z.State[0] != truth.Undecided {
		t.Errorf("got %v %#x, want undecided: the value is exactly halfway", z.State[0], z.Bits[0])
	}
}

// TestRoundNeedsDigits checks x³ - x·x², which takes 72 bits to be recognised as zero: more than the
// least precision of a Big.
func TestRoundNeedsDigits(t *testing.T) {
	d := unary(func(_ *def.Builder, x def.Value) def.Value {
		zero := x.Mul(x).Mul(x).Sub(x.Mul(x.Mul(x)))
		return zero.Add(def.Const(1 + 0x1p-11))
	})
	x := row(0x1.abcde2p0)
	z, err := enclose(t, d, truth.Exact, nil, x, num.NewArray(num.F16, 1, 1)).Round(1)
	if err != nil {
		t.Fatal(err)
	}
	if z.Bits[0] != 0x3c00 || z.State[0] != truth.ByBig {
		t.Errorf("1 + 2^-11 rounds to %#04x (%v), want 0x3c00", z.Bits[0], z.State[0])
	}
}

// TestRoundLeavesNeighbours checks that an element that is only evaluated again because of its
// neighbour keeps its state.
func TestRoundLeavesNeighbours(t *testing.T) {
	d := rowwise("shifted", func(b *def.Builder) {
		x, y := b.In("x", def.AnyFloat), b.In("y", def.AnyFloat)
		b.Out("z", x.Add(def.RowMax(y)), def.AnyFloat)
	})
	x, y := row(1, float32(math.NaN()), 1.5), row(0x1p-11, 0, 0)
	z, err := enclose(t, d, truth.Exact, nil, x, y, num.NewArray(num.F16, 1, 3)).Round(2)
	if err != nil {
		t.Fatal(err)
	}
	for c, want := range []truth.State{truth.ByBig, truth.Unknown, truth.ByBig} {
		if z.State[c] != want {
			t.Errorf("column %d: %v, want %v", c, z.State[c], want)
		}
	}
}

// TestRoundReductions checks that elements that depend on sums over rows, columns or everything, and
// that float64 leaves open, are evaluated again with everything that they depend on.
func TestRoundReductions(t *testing.T) {
	d := rowwise("reductions", func(b *def.Builder) {
		x := b.In("x")
		s := def.RowSum(x).As("s")
		b.Out("y", x.Add(s), def.AnyFloat)
		b.OutRow("row", s, def.AnyFloat)
		b.OutCol("column", def.ColSum(x), def.AnyFloat)
		b.OutScalar("total", def.TotalSum(x), def.AnyFloat)
	})
	x := num.ArrayOf(num.F32, 2, 3, 1, 0x1p-12, 0x1p-12, 2, 0, 0)
	r := enclose(t, d, truth.Exact, nil, x, num.NewArray(num.F16, 2, 3), num.NewArray(num.F16, 2, 1), num.NewArray(num.F16, 1, 3), num.NewArray(num.BF16, 1, 1))
	for operand, want := range map[int][]uint32{
		1: {0x4000, 0x3c01, 0x3c01, 0x4400, 0x4000, 0x4000}, // 2+2^-11, 1+3·2^-12, …
		2: {0x3c00, 0x4000},                                 // 1+2^-11 is halfway
		3: {0x4200, 0x0c00, 0x0c00},
		4: {0x4040},
	} {
		z, err := r.Round(operand)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if z.Bits[i] != want[i] {
				t.Errorf("operand %d, element %d: got %#04x (%v), want %#04x", operand, i, z.Bits[i], z.State[i], want[i])
			}
		}
	}
}

func TestRoundZero(t *testing.T) {
	d := unary(func(_ *def.Builder, x def.Value) def.Value {
		third := x.Div(def.Const(3))
		return third.Add(third).Add(third).Sub(x)
	})
	x := row(1)
	z, err := enclose(t, d, truth.Exact, nil, x, num.NewArray(num.F16, 1, 1)).Round(1)
	if err != nil {
		t.Fatal(err)
	}
	if z.Bits[0] != 0 || z.State[0] != truth.ByFloat64 {
		t.Errorf("a ball around zero rounds to %#04x (%v), want +0", z.Bits[0], z.State[0])
	}
}

func TestBetweenCounts(t *testing.T) {
	d := unary(func(_ *def.Builder, x def.Value) def.Value { return x.Round(def.FixedStorage(num.F16)) })
	x := row(1.5)
	r := enclose(t, d, truth.Rounded, nil, x, num.NewArray(num.F32, 1, 1))
	lo, hi := r.Between(1, 0, 0)
	if n := num.Distance(num.F32, lo, hi); n != 3<<13/2 { // 1.5·2^-11 to each side, spacing 2^-23
		t.Errorf("1.5 rounded to f16 lies between %#x and %#x, %d apart", lo, hi, n)
	}
}

func TestWrongUse(t *testing.T) {
	x := row(1, 2)
	for _, test := range []struct {
		d        *def.Definition
		operands []num.Array
		params   []float64
		want     string
	}{
		{softmax, []num.Array{x}, nil, "got 1 operands, want 2"},
		{softmax, []num.Array{x, x}, []float64{1}, "got 1 parameters, want 0"},
		{softmax, []num.Array{x, row(1)}, nil, "y is 1×1, want 1×2"},
		{product, []num.Array{x, x, x}, nil, "sizes do not fit"},
	} {
		_, err := truth.Enclose(test.d, test.operands, truth.Options{Params: test.params})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got error %v, want %q", err, test.want)
		}
	}
	if _, err := enclose(t, softmax, truth.Rounded, nil, x, like(x)).Round(1); err == nil {
		t.Error("an enclosure of rounded results was rounded")
	}
}

// TestSumErrors checks that the radius of a chain of fused multiply-adds, of a scatter-add and of a
// tensor core covers their results.
func TestSumErrors(t *testing.T) {
	const K = 300
	g := gen.New(t.Name())
	for trial := range 50 {
		dtype := num.FloatDTypes[trial%3]
		a, b, c := num.NewArray(dtype, 1, K), num.NewArray(dtype, K, 1), num.NewArray(num.F32, 1, 1)
		left, right := make([]uint32, K), make([]uint32, K)
		acc, abs := float32(0), 0.0
		for k := range K {
			x, y := g.Normal(), g.Normal()
			if trial%2 == 1 { // a sum that grows
				x, y = max(x, -x), max(y, -y)
			}
			a.Set(0, k, x)
			b.Set(k, 0, y)
			abs += math.Abs(float64(a.At(0, k)) * float64(b.At(k, 0)))
			left[k], right[k] = a.Bits(0, k), b.Bits(k, 0)
			acc = num.FMA(a.At(0, k), b.At(k, 0), acc)
		}
		exactly := enclose(t, product, truth.Exact, nil, a, b, c).At(2, 0, 0)
		check := func(accum def.Accum, got float32) {
			t.Helper()
			r, err := truth.Enclose(product, []num.Array{a, b, c}, truth.Options{Mode: truth.Rounded, Accum: accum})
			if err != nil {
				t.Fatal(err)
			}
			lo, hi := r.At(2, 0, 0).Bounds()
			if !(lo <= float64(got) && float64(got) <= hi) {
				t.Errorf("trial %d, %v: %v is outside [%v, %v]", trial, accum, got, lo, hi)
			}
			if radius := truth.Radius(r.At(2, 0, 0), exactly); radius > K*0x1.001p-24*abs && accum.L != 1 {
				t.Errorf("trial %d, %v: radius %v is above the a-priori bound %v", trial, accum, radius, K*0x1p-24*abs)
			}
		}
		check(def.FMAChain, acc)
		if dtype != num.F32 {
			for _, accum := range []def.Accum{{L: 16, F: 25}, {L: 1, F: 25}} { // the second loses most in its last step
				check(accum, num.MMA{L: accum.L, F: accum.F}.Dot(dtype, left, right, 0))
			}
		}
	}
}
