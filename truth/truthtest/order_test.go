package truthtest

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/num/exact"
	"tokitai/truth"
)

var orders = []def.Order{
	{}, def.Sequential, {Kind: def.Lanes, Width: 16}, {Kind: def.Chunks, Width: 8}, {Kind: def.Pairwise}, {Kind: def.Height, Width: 12},
}

// shuffled sums in a random order: it replaces two random terms by their sum until one is left,
// which makes a tree of moderate height.
func shuffled(g *gen.Generator, terms []float32) float32 {
	terms = append([]float32(nil), terms...)
	for len(terms) > 1 {
		last := len(terms) - 1
		i := g.Below(last)
		terms[i] += terms[last]
		terms = terms[:last]
	}
	return terms[0]
}

func add32(a, b float32) float32 { return a + b }

// sumIn sums in the order: a random one if any is allowed, and a tree if only the height is given.
func sumIn(g *gen.Generator, o def.Order, terms []float32) float32 {
	switch o.Kind {
	case def.AnyOrder:
		return shuffled(g, terms)
	case def.Height:
		o = def.Order{Kind: def.Pairwise}
	}
	return def.Fold(o, terms, add32)
}

func encloseIn(t *testing.T, d *def.Definition, o def.Order, operands ...num.Array) *truth.Result {
	t.Helper()
	r, err := truth.Enclose(d, operands, truth.Options{Mode: truth.Rounded, Order: &o})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// mustBeIn fails unless the set holds v, and reaches as far to both sides of the exact
// sum as bound says. abs is the sum of the magnitudes, of which float64 loses little.
func mustBeIn(t *testing.T, what string, r *truth.Result, operand, row, col int, v float32, exactly, abs, bound float64) {
	t.Helper()
	lo, hi := r.At(operand, row, col).Bounds()
	if !(lo <= float64(v) && float64(v) <= hi) {
		t.Errorf("%s: %v is outside [%v, %v]", what, v, lo, hi)
	}
	slack := 0x1p-40*abs + 0x1p-10*bound // of the latter the two bounds of a sum differ by less
	for _, reach := range []float64{exactly - lo, hi - exactly} {
		if math.Abs(reach-bound) > slack {
			t.Errorf("%s: [%v, %v] reaches %v to a side of %v, want %v", what, lo, hi, reach, exactly, bound)
		}
	}
}

// gammaOf returns the textbook bound of n roundings.
func gammaOf(n int) float64 { return float64(n) * 0x1p-24 / (1 - float64(n)*0x1p-24) }

func fill(g *gen.Generator, a num.Array, value func(g *gen.Generator) float32) {
	for r := range a.Rows {
		for c := range a.Cols {
			a.Set(r, c, value(g))
		}
	}
}

var kinds = map[string]func(g *gen.Generator) float32{
	"normal":   (*gen.Generator).Normal,
	"positive": func(g *gen.Generator) float32 { return float32(math.Abs(float64(g.Normal()))) },
	"wide":     func(g *gen.Generator) float32 { return g.Exponents(-12, 12) },
}

func TestOrderOfRowwiseSums(t *testing.T) {
	d := rowwise("sums", func(b *def.Builder) {
		x := b.In("x")
		b.OutRow("row", def.RowSum(x), def.AnyFloat)
		b.OutCol("column", def.ColSum(x), def.AnyFloat)
		b.OutScalar("total", def.TotalSum(x), def.AnyFloat)
	})
	const R, C = 90, 33
	for kind, value := range kinds {
		for _, o := range orders {
			g := gen.New(fmt.Sprint(t.Name(), kind, o))
			x := num.NewArray(num.F32, R, C)
			fill(g, x, value)
			r := encloseIn(t, d, o, x, num.NewArray(num.F32, R, 1), num.NewArray(num.F32, 1, C), num.NewArray(num.F32, 1, 1))
			check := func(what string, operand, row, col int, terms []float32) {
				t.Helper()
				exactly, abs := 0.0, 0.0
				for _, v := range terms {
					exactly += float64(v)
					abs += math.Abs(float64(v))
				}
				bound := min(gammaOf(o.Height(len(terms))), float64(len(terms)-1)*0x1p-24) * abs
				mustBeIn(t, fmt.Sprintf("%s of %s in %s", what, kind, o), r, operand, row, col, sumIn(g, o, terms), exactly, abs, bound)
			}
			var all []float32
			for i := range R {
				var terms []float32
				for j := range C {
					terms = append(terms, x.At(i, j))
				}
				check("row", 1, i, 0, terms)
				all = append(all, terms...)
			}
			for j := range C {
				var terms []float32
				for i := range R {
					terms = append(terms, x.At(i, j))
				}
				check("column", 2, 0, j, terms)
			}
			check("total", 3, 0, 0, all)
		}
	}
}

// Products that are rounded before they are added, and products that are not.
func TestOrderOfContractions(t *testing.T) {
	accumulated := def.Must(def.Contraction("accumulated", def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "N"}, Result: "c", ResultDims: []string{"M", "N"}, Accumulate: true,
	}))
	const M, N = 4, 5
	tinies := func(g *gen.Generator) float32 { return g.Exponents(-80, -70) } // products around 2^-149
	for _, dtype := range num.FloatDTypes {
		for _, kind := range []string{"normal", "positive", "wide", "tiny"} {
			value := kinds[kind]
			if kind == "tiny" {
				if value = tinies; dtype == num.F16 {
					continue
				}
			}
			for i, o := range append(orders, orders...) {
				K := 200
				if i >= len(orders) {
					K = 1
				}
				g := gen.New(fmt.Sprint(t.Name(), dtype, kind, o, K))
				a, b, c := num.NewArray(dtype, M, K), num.NewArray(dtype, K, N), num.NewArray(num.F32, M, N)
				fill(g, a, value)
				fill(g, b, value)
				fill(g, c, value)
				for _, d := range []*def.Definition{product, accumulated} {
					if o.Kind == def.Height && d.Accumulates() {
						continue // the old value would be above the height
					}
					r := encloseIn(t, d, o, a, b, c)
					for i := range M * N {
						i, j := i/N, i%N
						var terms []float32
						x, y := make([]float64, K), make([]float64, K)
						exactly, abs := 0.0, 0.0
						for k := range K {
							terms = append(terms, a.At(i, k)*b.At(k, j))
							x[k], y[k] = float64(a.At(i, k)), float64(b.At(k, j))
							exactly += float64(x[k] * y[k])
							abs += math.Abs(float64(x[k] * y[k]))
						}
						got := sumIn(g, o, terms)
						h := o.Height(K)
						if d.Accumulates() {
							h++
							exactly += float64(c.At(i, j))
							abs += math.Abs(float64(c.At(i, j)))
							got += c.At(i, j)
						}
						if dtype == num.F32 {
							h++
						}
						bound := gammaOf(h) * abs
						if dtype != num.F16 {
							bound += float64(K) * 0x1p-150 * (1 + gammaOf(h))
						}
						what := fmt.Sprintf("%s of %v %s in %s", d.Name, dtype, kind, o)
						mustBeIn(t, what, r, 2, i, j, got, exactly, abs, bound)
						if o == def.Sequential || o.Kind == def.AnyOrder {
							acc := float32(0)
							if d.Accumulates() {
								acc = c.At(i, j)
							}
							for k := range K {
								acc = num.FMA(a.At(i, k), b.At(k, j), acc)
							}
							mustBeIn(t, what+", fused", r, 2, i, j, acc, exactly, abs, bound)
						}
					}
				}
			}
		}
	}
}

func TestOrderOfScatterAdds(t *testing.T) {
	const Q, V, D = 120, 3, 4
	for _, accumulates := range []bool{false, true} {
		d := def.Must(def.ScatterAdd("scatter", def.ScatterForm{Index: "i", Rows: "x", Result: "y", Accumulate: accumulates}))
		for _, dtype := range num.FloatDTypes {
			for _, o := range orders {
				if o.Kind == def.Height && accumulates {
					continue
				}
				g := gen.New(fmt.Sprint(t.Name(), dtype, o, accumulates))
				index, x, y := num.NewArray(num.I32, Q, 1), num.NewArray(dtype, Q, D), num.NewArray(num.F32, V, D)
				fill(g, x, kinds["wide"])
				fill(g, y, kinds["wide"])
				for q := range Q {
					index.SetBits(q, 0, uint32(g.Below(V-1))) // the last row has no term
				}
				r := encloseIn(t, d, o, index, x, y)
				for i := range V * D {
					v, c := i/D, i%D
					var terms []float32
					exactly, abs := 0.0, 0.0
					for q := range Q {
						if int(index.Int(q, 0)) == v {
							terms = append(terms, x.At(q, c))
							exactly += float64(x.At(q, c))
							abs += math.Abs(float64(x.At(q, c)))
						}
					}
					got, h := float32(0), 0
					if len(terms) > 0 {
						got, h = sumIn(g, o, terms), o.Height(len(terms))
					}
					if accumulates {
						got += y.At(v, c)
						exactly += float64(y.At(v, c))
						abs += math.Abs(float64(y.At(v, c)))
						if len(terms) > 0 {
							h++
						}
					}
					mustBeIn(t, fmt.Sprintf("%v in %s, accumulates %v", dtype, o, accumulates), r, 2, v, c, got, exactly, abs, gammaOf(h)*abs)
				}
			}
		}
	}
}

// TestOrderOverflows checks that a sum is unknown in every order in which a partial sum may
// overflow.
func TestOrderOverflows(t *testing.T) {
	sum := rowwise("sum", func(b *def.Builder) { b.OutRow("y", def.RowSum(b.In("x")), def.AnyFloat) })
	scatter := def.Must(def.ScatterAdd("scatter", def.ScatterForm{Index: "i", Rows: "x", Result: "y"}))
	const huge = 0x1p126
	for _, test := range []struct {
		name  string
		x     []float32
		known bool
	}{
		{"below", []float32{huge, huge, -huge}, true},
		{"above", []float32{huge, huge, huge, huge, -huge}, false},
	} {
		n := len(test.x)
		x := row(test.x...)
		ones := num.NewArray(num.F32, n, 1)
		column := num.ArrayOf(num.F32, n, 1, test.x...)
		fill(nil, ones, func(*gen.Generator) float32 { return 1 })
		for _, o := range orders {
			if got := encloseIn(t, sum, o, x, num.NewArray(num.F32, 1, 1)).At(1, 0, 0).Known(); got != test.known {
				t.Errorf("%s, row sum in %s: known %v", test.name, o, got)
			}
			if got := encloseIn(t, product, o, x, ones, num.NewArray(num.F32, 1, 1)).At(2, 0, 0).Known(); got != test.known {
				t.Errorf("%s, contraction in %s: known %v", test.name, o, got)
			}
			if got := encloseIn(t, scatter, o, num.IndexArray(make([]int32, n)...), column, num.NewArray(num.F32, 1, 1)).At(2, 0, 0).Known(); got != test.known {
				t.Errorf("%s, scatter-add in %s: known %v", test.name, o, got)
			}
		}
	}
	if _, err := truth.Enclose(sum, []num.Array{row(1), row(1)}, truth.Options{Mode: truth.Rounded, Order: &def.Order{Kind: def.Lanes}}); err == nil {
		t.Error("an order of no lanes is accepted")
	}
}

func TestFunctionULP(t *testing.T) {
	d := unary(func(_ *def.Builder, x def.Value) def.Value { return fn.Exp(x) })
	x := row(1)
	for _, isIEEE := range []bool{false, true} {
		width := func(ulps float64) float64 {
			r, err := truth.Enclose(d, []num.Array{x, like(x)}, truth.Options{Mode: truth.Rounded, FunctionULP: ulps, IsIEEE: isIEEE})
			if err != nil {
				t.Fatal(err)
			}
			lo, hi := r.At(1, 0, 0).Bounds()
			if !(lo <= math.E && math.E <= hi) {
				t.Errorf("%v ulps: [%v, %v] does not contain e", ulps, lo, hi)
			}
			return (hi - lo) / (2 * math.E)
		}
		if own := width(0); width(fn.ExpFunction.ULPs/2) != own || width(fn.ExpFunction.ULPs) != own {
			t.Errorf("an error below the definition's own changes the set")
		}
		// 100 ulps are 200·2^-24 of the value; correctly rounded sets end on binary32.
		slack := 0x1p-40
		if isIEEE {
			slack = 0x1p-23
		}
		if got := width(100); math.Abs(got-200*0x1p-24) > slack {
			t.Errorf("100 ulps widen by %v of the value, want %v", got, 200*0x1p-24)
		}
	}
}

// TestDecide checks that Decide agrees with Round where float64 suffices.
func TestDecide(t *testing.T) {
	d := rowwise("sum", func(b *def.Builder) {
		x, y := b.In("x", def.AnyFloat), b.In("y", def.AnyFloat)
		b.Out("z", x.Add(y), def.AnyFloat)
	})
	x, y := row(1, 1, -1, float32(math.NaN())), row(0x1p-11, 0x1.000002p-11, 0x1p-11, 1)
	r := enclose(t, d, truth.Exact, nil, x, y, num.NewArray(num.F16, 1, 4))
	got := r.Decide(2)
	for c, want := range []truth.State{truth.Undecided, truth.ByFloat64, truth.ByFloat64, truth.Unknown} {
		if got.State[c] != want {
			t.Errorf("column %d: %v, want %v", c, got.State[c], want)
		}
	}
	rounded, err := r.Round(2)
	if err != nil {
		t.Fatal(err)
	}
	for c, state := range got.State {
		if state == truth.ByFloat64 && (got.Bits[c] != rounded.Bits[c] || rounded.State[c] != truth.ByFloat64) {
			t.Errorf("column %d: decided %#04x, rounded %#04x (%v)", c, got.Bits[c], rounded.Bits[c], rounded.State[c])
		}
	}
	if rounded.State[0] != truth.ByBig {
		t.Errorf("a tie is decided %v", rounded.State[0])
	}

	// Mode Rounded: 1 + 1 leaves one f16, 1 + 2^-11 does not.
	x, y = row(1, 1), row(1, 0x1p-11)
	z := enclose(t, d, truth.Rounded, nil, x, y, num.NewArray(num.F16, 1, 2)).Decide(2)
	if z.Bits[0] != 0x4000 || z.State[0] != truth.ByFloat64 || z.State[1] != truth.Undecided {
		t.Errorf("mode rounded: %#04x %v, %v", z.Bits[0], z.State[0], z.State[1])
	}
}

// TestContractionSizes checks blocks of four elements and their remainders, in both layouts.
func TestContractionSizes(t *testing.T) {
	for M := 1; M <= 5; M++ {
		for N := 1; N <= 5; N++ {
			for _, K := range []int{1, 2, 7, 8, 9, 20} {
				for _, form := range []def.ContractionForm{{}, {TransposeLeft: true}, {TransposeRight: true, Accumulate: true}} {
					form.Left, form.Right, form.Result = "a", "b", "c"
					form.LeftDims, form.RightDims, form.ResultDims = []string{"M", "K"}, []string{"K", "N"}, []string{"M", "N"}
					left, right := [2]int{M, K}, [2]int{K, N}
					if form.TransposeLeft {
						form.LeftDims, left = []string{"K", "M"}, [2]int{K, M}
					}
					if form.TransposeRight {
						form.RightDims, right = []string{"N", "K"}, [2]int{N, K}
					}
					dtype := num.FloatDTypes[(M+N+K)%3]
					g := gen.New(fmt.Sprint(t.Name(), M, N, K, form.TransposeLeft, form.TransposeRight))
					a, b, c := apart(dtype, left), apart(dtype, right), apart(num.F32, [2]int{M, N})
					for _, x := range []num.Array{a, b, c} {
						fill(g, x, (*gen.Generator).Normal)
					}
					r := enclose(t, def.Must(def.Contraction("sizes", form)), truth.Exact, nil, a, b, c)
					for i := range M * N {
						i, j := i/N, i%N
						x, y := make([]float64, K), make([]float64, K)
						for k := range K {
							if x[k] = float64(a.At(i%a.Rows, k%a.Cols)); form.TransposeLeft {
								x[k] = float64(a.At(k, i))
							}
							if y[k] = float64(b.At(k%b.Rows, j%b.Cols)); form.TransposeRight {
								y[k] = float64(b.At(j, k))
							}
						}
						init := 0.0
						if form.Accumulate {
							init = float64(c.At(i, j))
						}
						want, bound := exact.Big(x, y, init), exact.Float64(x, y, init).Err
						got := r.At(2, i, j)
						distance, _ := new(big.Float).Sub(want, big.NewFloat(got.Mid)).Float64()
						if math.Abs(distance) > got.Rad || got.Rad > bound*(1+0x1p-40) {
							t.Errorf("%d×%d×%d, transposed %v %v, at %d,%d: got %v, want %v within %v",
								M, N, K, form.TransposeLeft, form.TransposeRight, i, j, got, want, bound)
						}
					}
				}
			}
		}
	}
}

// apart returns an array with a gap after every row.
func apart(d num.DType, size [2]int) num.Array {
	wide := num.NewArray(d, size[0], size[1]+3)
	return num.Array{DType: d, Rows: size[0], Cols: size[1], Stride: wide.Stride, Data: wide.Data}
}
