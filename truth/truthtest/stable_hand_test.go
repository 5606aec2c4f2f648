package truthtest

import (
	"math"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/crossentropy"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	softmaxop "tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/truth"
)

const u = 0x1p-24

func stable(t *testing.T, d *def.Definition, o truth.StableOptions, operands ...num.Array) *truth.Stable {
	t.Helper()
	s, err := truth.EncloseStable(d, operands, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mustBe compares an f32 element with an exact value and a bound that were worked out by hand: the
// values at both ends of the bound must be admitted, those beyond must not. The second order is
// below 2^-8 of the bounds here.
func mustBe(t *testing.T, what string, s *truth.Stable, operand, row, col, height int, y, bound float64) {
	t.Helper()
	if got := s.At(operand, row, col).Mid; math.Abs(got-y) > 0x1p-40*max(math.Abs(y), bound) {
		t.Fatalf("%s: the exact value is %v, want %v", what, got, y)
	}
	if got := s.Error(operand, row, col, height); !(bound*(1-0x1p-30) <= got && got <= bound*(1+0x1p-8)) {
		t.Errorf("%s: the bound is %v, want %v", what, got, bound)
	}
	for _, sign := range []float64{-1, 1} {
		end := float32(y + sign*bound*(1-0x1p-30))
		if !s.Admits(operand, row, col, height, math.Float32bits(end)) {
			t.Errorf("%s: %v, within %v of %v, is not admitted", what, end, bound, y)
		}
		beyond := math.Nextafter32(float32(y+sign*bound*(1+0x1p-8)), float32(math.Inf(int(sign))))
		if s.Admits(operand, row, col, height, math.Float32bits(beyond)) {
			t.Errorf("%s: %v, more than %v from %v, is admitted", what, beyond, bound, y)
		}
	}
}

func TestStableSoftmaxByHand(t *testing.T) {
	x := []float64{1.5, -2, 0, 3.25, 3}
	const h = 2
	s := stable(t, softmaxop.ForwardDefinition, truth.StableOptions{}, row(1.5, -2, 0, 3.25, 3), num.NewArray(num.F32, 1, 5))
	total := 0.0
	for _, v := range x {
		total += math.Exp(v)
	}
	for c := range x {
		y := math.Exp(x[c]) / total
		inputs, exps := 0.0, 0.0
		for j := range x {
			p := math.Exp(x[j]) / total
			d := math.Abs(y * -p) // dy/dx_j, and dy/de_j·e_j
			if j == c {
				d = y * (1 - y)
			}
			inputs += d * math.Abs(x[j])
			exps += d
		}
		// The quotient 1/sum is a function with half an ulp; dy/dsum·sum is -y.
		mustBe(t, "y", s, 1, 0, c, h, y, u*(4*y+4*inputs+4*exps+1*y+h*y))
	}
}

// TestStableLayerNormByHand has a constant row, where y is beta: only the inputs, their sum and beta
// can change it.
func TestStableLayerNormByHand(t *testing.T) {
	const n, eps, value = 4, 0.25, 3.0
	gamma, beta := []float32{2, -1, 0.5, 1}, []float32{0.75, -4, 1, 0}
	operands := []num.Array{
		row(value, value, value, value), num.ArrayOf(num.F32, 1, n, gamma...), num.ArrayOf(num.F32, 1, n, beta...),
		num.NewArray(num.F32, 1, n), num.NewArray(num.F32, 1, 1), num.NewArray(num.F32, 1, 1),
	}
	s := stable(t, layernorm.ForwardDefinition, truth.StableOptions{Params: []float64{eps}}, operands...)
	const rstd = 2
	for c := range n {
		// |dy/dx_j| = rstd·|gamma|·|[j = c] - 1/n|, which add up to 2·(1-1/n).
		g, b := math.Abs(float64(gamma[c])), math.Abs(float64(beta[c]))
		// The mean is a sum of differences to the first element, and so of the elements too: they
		// pass n-1 additions, which count as four. |dy/dmean| = rstd·|gamma|.
		bound := u * (4*b + 4*b + 4*value*rstd*g*2*(1-1.0/n) + 4*value*rstd*g)
		mustBe(t, "y", s, 3, 0, c, n, float64(beta[c]), bound)
	}
	mustBe(t, "mean", s, 4, 0, 0, n, value, u*(4*value+4*value+4*value))
	// The root of the variance and its reciprocal have half an ulp each.
	mustBe(t, "rstd", s, 5, 0, 0, n, rstd, u*(4*rstd+1*rstd+1*rstd))

	zero := stable(t, layernorm.ForwardDefinition, truth.StableOptions{Params: []float64{0}}, operands...)
	if zero.Known(3, 0, 0) || zero.Known(5, 0, 0) {
		t.Error("a constant row with eps 0 has a set of results")
	}
	if !zero.Known(4, 0, 0) {
		t.Error("the mean of a constant row with eps 0 has no set of results")
	}
}

func TestStableCrossEntropyByHand(t *testing.T) {
	x := []float64{2, 0, -1.5, 1}
	operands := []num.Array{row(2, 0, -1.5, 1), num.IndexArray(1), num.NewArray(num.F32, 1, 1), num.NewArray(num.F32, 1, 4)}
	s := stable(t, crossentropy.Definition, truth.StableOptions{Params: []float64{-100, 1}}, operands...)
	total, inputs := 0.0, 0.0
	for _, v := range x {
		total += math.Exp(v)
	}
	for j, v := range x {
		d := math.Exp(v) / total
		if j == 1 {
			d--
		}
		inputs += math.Abs(d * v) // the target's logit is 0, and adds nothing
	}
	loss := math.Log(total)
	log := math.Log(total) - 2 // of the sum of exp(x - max)
	const h = 3
	mustBe(t, "loss", s, 2, 0, 0, h, loss, u*(4*loss+4*inputs+4*log+4*1+h*1))
}

func TestStableAdamWByHand(t *testing.T) {
	w, m, v, g := 0.5, 0.25, 0.01, -0.3
	const beta1, beta2, size, inverse, eps, decay = 0.875, 0.984375, 0.0625, 4, 0.0078125, 0.001953125
	operands := []num.Array{row(float32(w)), row(float32(m)), row(float32(v)), row(float32(g))}
	v, g = float64(float32(v)), float64(float32(g))
	params := map[string]float64{
		"beta1": beta1, "one_minus_beta1": 1 - beta1, "beta2": beta2, "one_minus_beta2": 1 - beta2,
		"step_size": size, "inverse_sqrt_bc2": inverse, "eps": eps, "decay": decay,
	}
	d := adamw.InPlaceDefinition
	var values []float64
	for _, p := range d.Params {
		values = append(values, params[p.Name])
	}
	s := stable(t, d, truth.StableOptions{Params: values}, operands...)
	newM, newV := beta1*m+(1-beta1)*g, beta2*v+(1-beta2)*g*g
	root := math.Sqrt(newV)
	den := root*inverse + eps
	step := size * newM / den
	y := w - (step + decay*w)
	byRoot := step / den * inverse // |dy/droot|
	byV := byRoot / (2 * root)
	byG := -size/den*(1-beta1) + byV*(1-beta2)*2*g
	bound := u * (4*math.Abs(y) +
		4*((1-decay)*w+size/den*beta1*m+byV*beta2*v) + 4*math.Abs(byG*g) +
		1*math.Abs(step) + 1*math.Abs(byRoot*root))
	mustBe(t, "weight", s, d.Operand("weight"), 0, 0, 0, y, bound)
	mustBe(t, "m", s, d.Operand("m"), 0, 0, 0, newM, u*(4*math.Abs(newM)+4*(beta1*m+(1-beta1)*math.Abs(g))))
	mustBe(t, "v", s, d.Operand("v"), 0, 0, 0, newV, u*(4*newV+4*beta2*v+8*(1-beta2)*g*g))
}

func TestStableGELUByHand(t *testing.T) {
	xs := []float32{1.25, -2, 0.001, -0.5}
	s := stable(t, gelu.ForwardDefinition, truth.StableOptions{}, row(xs...), num.NewArray(num.F32, 1, len(xs)))
	for c, x := range xs {
		x, a := float64(x), math.Abs(float64(x))
		slope := 2 * math.Sqrt(2/math.Pi)
		e := math.Exp(-slope * (a + 0.044715*a*a*a))
		r := 1 / (1 + e)
		sigma, dt := r, slope*(1+3*0.044715*x*x)
		byE := a * r * r * e // |dy/de·e|
		if x < 0 {
			sigma = e * r
			byE = a * e * r * r
		}
		y := x * sigma
		byX := sigma + x*sigma*(1-sigma)*dt
		mustBe(t, "y", s, 1, 0, c, 0, y, u*(4*math.Abs(y)+4*math.Abs(byX*x)+4*byE+4*math.Abs(y)))
	}
}

func TestStableGEMMByHand(t *testing.T) {
	a := num.ArrayOf(num.F16, 1, 5, 1, -2, 0.5, 3, 1)
	b := num.ArrayOf(num.F16, 5, 1, 0.25, 1, 8, -1, 0.5)
	c := num.NewArray(num.F32, 1, 1)
	const y, size = 0.25 - 2 + 4 - 3 + 0.5, 0.25 + 2 + 4 + 3 + 0.5
	s := stable(t, gemm.ForwardDefinition, truth.StableOptions{}, a, b, c)
	if got := s.MostHeight(); got != 4 {
		t.Errorf("a sum of five has height %d, want 4", got)
	}
	mustBe(t, "any order", s, 2, 0, 0, 4, y, 4*u*size)
	mustBe(t, "height 3", s, 2, 0, 0, 3, y, 3*u*size)
	if n := s.Count(2, 0, 0, 0); n != 1 {
		t.Errorf("without an error there are %d values, want 1", n)
	}
	pairs := stable(t, gemm.ForwardDefinition, truth.StableOptions{Order: def.Order{Kind: def.Pairwise}}, a, b, c)
	mustBe(t, "pairwise", pairs, 2, 0, 0, 100, y, 3*u*size)
}

// TestStableDeclarations checks that a declaration widens the sets by exactly what it says.
func TestStableDeclarations(t *testing.T) {
	x, y := row(1.5, -2, 0, 3.25, 3), num.NewArray(num.F32, 1, 5)
	plain := stable(t, softmaxop.ForwardDefinition, truth.StableOptions{}, x, y)
	p := plain.At(1, 0, 0).Mid
	rest := 0.0 // Σ |dy/de_j·e_j|
	for c := range 5 {
		q := plain.At(1, 0, c).Mid
		if c == 0 {
			q = 1 - q
		}
		rest += p * q
	}
	far := 0.0 // the same, weighted with |x - max|
	for c, v := range []float64{1.5, -2, 0, 3.25, 3} {
		q := plain.At(1, 0, c).Mid
		if c == 0 {
			q = 1 - q
		}
		far += p * q * (3.25 - v)
	}
	for _, test := range []struct {
		name string
		o    truth.StableOptions
		adds float64
	}{
		{"exp=2ulp+1.16|x|", truth.StableOptions{Declares: promise.Declaration{Functions: map[string]promise.Error{"exp": {ULPs: 2, ULPsPerX: 1.16}}}}, 2 * 1.16 * u * far},
		{"exp=3ulp", truth.StableOptions{Declares: promise.Declaration{Functions: map[string]promise.Error{"exp": {ULPs: 3}}}}, 2 * u * rest},
		{"exp=1ulp", truth.StableOptions{Declares: promise.Declaration{Functions: map[string]promise.Error{"exp": {ULPs: 1}}}}, -2 * u * rest},
		{"FunctionULP", truth.StableOptions{FunctionULP: 5}, 6 * u * rest},
		{"div=2ulp", truth.StableOptions{Declares: promise.Declaration{Functions: map[string]promise.Error{"div": {ULPs: 2}}}}, 3 * u * p},
		{"div of a profile", truth.StableOptions{Errors: func(f string) promise.Error {
			if f == "div" {
				return promise.Error{Relative: 0x1p-20}
			}
			return promise.Error{ULPs: 2}
		}}, 0x1p-20*p - u*p},
		{"e in bf16", truth.StableOptions{Declares: promise.Declaration{Roundings: map[string]num.DType{"e": num.BF16}}}, 0x1p-8 * rest},
		{"allowed", truth.StableOptions{Allow: func(operand, r, c int) float64 { return float64(operand+r+c) * 0x1p-20 }}, 0x1p-20},
	} {
		s := stable(t, softmaxop.ForwardDefinition, test.o, x, y)
		got := s.Error(1, 0, 0, 0) - plain.Error(1, 0, 0, 0)
		if !(math.Abs(got-test.adds) <= 0x1p-5*math.Abs(test.adds)) {
			t.Errorf("%s: the bound grows by %v, want %v", test.name, got, test.adds)
		}
	}
	_, err := truth.EncloseStable(softmaxop.ForwardDefinition, []num.Array{x, y}, truth.StableOptions{Declares: promise.Declaration{Roundings: map[string]num.DType{"q": num.BF16}}})
	if err == nil || !strings.Contains(err.Error(), "q") {
		t.Errorf("a rounding of a value that does not exist: %v", err)
	}

	scaled := rowwise("scaled", func(b *def.Builder) { b.Out("y", b.In("x").Mul(b.Param("p")), def.Only(num.F32)) })
	for raw, want := range map[bool]float64{false: 8, true: 12} {
		s := stable(t, scaled, truth.StableOptions{Params: []float64{3}, Declares: promise.Declaration{RawParams: raw}}, row(1), row(0))
		mustBe(t, "parameter", s, 1, 0, 0, 0, 3, want*u*3)
	}
	// Flushing: a product of 2^-126 may be lost, and so may a subnormal input.
	for flushes, want := range map[bool]float64{false: 4 * 0x1p-150, true: 4*0x1p-126 + 0x1p-140} {
		s := stable(t, scaled, truth.StableOptions{Params: []float64{1}, Declares: promise.Declaration{FlushesSubnormals: flushes}}, row(0x1p-140), row(0))
		if got := s.Error(1, 0, 0, 0); math.Abs(got-want) > 0x1p-10*want+8*u*0x1p-140 {
			t.Errorf("a subnormal, flushed %v: the bound is %v, want %v", flushes, got, want)
		}
	}
}

// TestStableMeanOfSubnormals checks a mean that is updated with every element: it divides once per
// element, and each quotient may underflow.
func TestStableMeanOfSubnormals(t *testing.T) {
	d := rowwise("mean", func(b *def.Builder) { b.OutRow("y", def.RowSum(b.In("x")).Div(b.Columns()), def.Only(num.F32)) })
	g := gen.New("mean of subnormals")
	x, farthest := num.NewArray(num.F32, 1, 1000), int64(0)
	for range 20 {
		mean, sum := float32(0), 0.0
		for c := range x.Cols {
			v := float32(g.Below(1<<16)) * 0x1p-149 // 2^15 units of binary32 on average
			x.Set(0, c, v)
			mean += (v - mean) / float32(c+1)
			sum += float64(v)
		}
		s := stable(t, d, truth.StableOptions{}, x, num.NewArray(num.F32, 1, 1))
		if bits := math.Float32bits(mean); !s.Admits(1, 0, 0, s.MostHeight(), bits) {
			t.Errorf("the running mean %v is not admitted, of %v", mean, sum/1000)
		}
		farthest = max(farthest, num.Distance(num.F32, math.Float32bits(mean), math.Float32bits(float32(sum/1000))))
		if n := s.Count(1, 0, 0, s.MostHeight()); n > 2*504+1 { // 1000·2^-150, and 1000·2^-24·2^16 units for the sum
			t.Errorf("%d values, want at most 1009", n)
		}
	}
	if farthest < 3 {
		t.Errorf("no running mean is more than %d values off: the test shows nothing", farthest)
	}
}

// TestStableHeights checks that sets grow with the height, and that Height finds the least one.
func TestStableHeights(t *testing.T) {
	d := rowwise("sum", func(b *def.Builder) { b.OutRow("y", def.RowSum(b.In("x")), def.Only(num.F32)) })
	x := num.NewArray(num.F32, 1, 40)
	for c := range 40 {
		x.Set(0, c, 1+float32(c)/64)
	}
	s := stable(t, d, truth.StableOptions{}, x, num.NewArray(num.F32, 1, 1))
	if s.MostHeight() != 39 {
		t.Fatalf("the largest height of 40 terms is %d", s.MostHeight())
	}
	before := int64(0)
	for h := range 45 {
		n := s.Count(1, 0, 0, h)
		if n < before || h > 39 && n != before {
			t.Errorf("height %d: %d values, %d before", h, n, before)
		}
		_, hi := s.Between(1, 0, 0, h)
		if least, ok := s.Height(1, 0, 0, hi); !ok || least > h || s.Admits(1, 0, 0, least-1, hi) && least > 0 {
			t.Errorf("height %d: its last value has the least height %d, %v", h, least, ok)
		}
		before = n
	}
	if before < 40 {
		t.Errorf("%d values at the largest height", before)
	}
	_, hi := s.Between(1, 0, 0, 39)
	if _, ok := s.Height(1, 0, 0, num.NextUp(num.F32, hi)); ok {
		t.Error("a value beyond the set has a height")
	}
}

// TestStableEdges checks that nothing is admitted for an unknown result, and both branches of an
// undecided comparison are.
func TestStableEdges(t *testing.T) {
	clipped := rowwise("clipped", func(b *def.Builder) {
		root := b.In("x").Sqrt()
		b.Out("y", def.Select(root.LessEqual(def.One), def.Two, root), def.Only(num.F32))
	})
	s := stable(t, clipped, truth.StableOptions{}, row(1, 0.25, 9, -1, float32(math.NaN())), num.NewArray(num.F32, 1, 5))
	for c, want := range [][2]float32{{1 - 0x1p-20, 2}, {2, 2}, {3, 3}} {
		lo, hi := s.Between(1, 0, c, 0)
		if l, h := math.Float32frombits(lo), math.Float32frombits(hi); !(l >= want[0]*(1-0x1p-20) && l <= want[0]*(1+0x1p-20) && h >= want[1] && h <= want[1]*(1+0x1p-20)) {
			t.Errorf("column %d: %v to %v, want %v", c, l, h, want)
		}
	}
	for c := 3; c < 5; c++ {
		if s.Known(1, 0, c) || s.Admits(1, 0, c, 0, 0) {
			t.Errorf("column %d: the root of a number that has none has a set", c)
		}
	}
	// What is not decided counts with all that it may be, also in a sum.
	summed := rowwise("summed", func(b *def.Builder) {
		root := b.In("x").Sqrt()
		b.OutRow("y", def.RowSum(def.Select(root.LessEqual(def.One), def.Two, root).Add(root.Rint())), def.Only(num.F32))
	})
	s = stable(t, summed, truth.StableOptions{}, row(1, 0.25, 2.25), num.NewArray(num.F32, 1, 1)) // 2+1, 2+0, 1.5+2
	if got := s.Error(1, 0, 0, 0); !(3-0x1p-15 <= got && got <= 3+0x1p-15) {
		t.Errorf("a sum with a comparison and two roundings that are not decided has a bound of %v, want 3", got)
	}
	// A comparison of inputs is exact, though both have errors.
	largest := rowwise("largest", func(b *def.Builder) {
		x := b.In("x")
		b.Out("y", def.Select(x.Less(def.RowMax(x)), def.Zero, x), def.Only(num.F32))
	})
	s = stable(t, largest, truth.StableOptions{}, row(3, math.Nextafter32(3, 4), 0.5), num.NewArray(num.F32, 1, 3))
	for c, want := range []int64{1, 13, 1} {
		if got := s.Count(1, 0, c, 0); got > want || got == 1 && want > 1 {
			t.Errorf("column %d: %d values, want %d", c, got, want)
		}
	}
	// An overflow.
	square := rowwise("square", func(b *def.Builder) { x := b.In("x"); b.Out("y", fn.Log(x.Mul(x)), def.Only(num.F32)) })
	if s = stable(t, square, truth.StableOptions{}, row(0x1p62, 0x1p61), num.NewArray(num.F32, 1, 2)); s.Known(1, 0, 0) || !s.Known(1, 0, 1) {
		t.Error("a square of 2^62, close to overflow, is known, or one of 2^61 is not")
	}
}
