package reference_test

import (
	"fmt"
	"math"
	"testing"

	"tokitai/def"
	"tokitai/fn"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial"
)

var streamForm = def.StreamForm{
	Query: "q", Key: "k", Value: "v", QueryStarts: "qstart", KeyStarts: "kstart", Out: "o", LogSum: "lse",
	Functions: def.StreamFunctions{Short: fn.Exp2Short3Function, Exp2: fn.Exp2Function, Log2: fn.Log2Function},
}

// attention is an attention in plain words: what a score becomes, its slope, and what a query sees.
type attention struct {
	name    string
	build   func(b *def.StreamBuilder)
	t       func(score, slope float64, query, key int) (t, dt float64)
	sees    func(query, key int) bool
	hasBase bool
}

var attentions = []attention{
	{"causal", func(b *def.StreamBuilder) {
		b.Weigh(b.Score().Mul(b.Param("kappa")), b.Key().LessEqual(b.Query()))
	}, func(s, _ float64, _, _ int) (float64, float64) { return s * 0.4, 0.4 }, func(q, k int) bool { return k <= q }, false},
	{"window", func(b *def.StreamBuilder) {
		near := b.Query().ISub(b.Key()).Less(def.IntConst(7))
		b.Weigh(b.Score().Mul(b.Param("kappa")).Neg(), def.Select(b.Key().LessEqual(b.Query()), near, b.Key().Less(def.IntConst(0))))
	}, func(s, _ float64, _, _ int) (float64, float64) { return -s * 0.4, -0.4 }, func(q, k int) bool { return k <= q && q-k < 7 }, false},
	{"soft cap", func(b *def.StreamBuilder) {
		b.Weigh(fn.Tanh(b.Score().Mul(b.Param("kappa"))).Mul(def.Const(3)), b.Key().LessEqual(b.Query()), b.In("slope", []string{"G", "J"}).Mul(def.Const(1.5)))
	}, func(s, _ float64, _, _ int) (float64, float64) {
		y := math.Tanh(s * 0.4)
		return 3 * y, 3 * 0.4 * (1 - y*y)
	}, func(q, k int) bool { return k <= q }, true},
	{"slopes", func(b *def.StreamBuilder) {
		slope := b.In("slope", []string{"G", "J"})
		b.Weigh(def.FMA(slope, b.Key().ISub(b.Query()).IToF(), b.Score().Mul(b.Param("kappa"))), b.Key().NotEqual(def.IntConst(3)))
	}, func(s, slope float64, q, k int) (float64, float64) { return s*0.4 + slope*float64(k-q), 0.4 }, func(_, k int) bool { return k != 3 }, false},
}

// TestStreamBackward compares the gradients with those that plain binary64 gives.
func TestStreamBackward(t *testing.T) {
	g := gen.New("gradients of streams")
	for _, a := range attentions {
		forward := def.Must(def.StreamOf("near", streamForm, a.build))
		backward, err := def.Derivative(forward, nil, fn.All...)
		if err != nil {
			t.Fatal(err)
		}
		sizes := map[string]int{"T": 23, "S": 150, "G": 2, "J": 2, "D": 5, "B": 3}
		operands := map[string]num.Array{}
		fill := func(d *def.Definition) (list []num.Array) {
			for i := range d.Operands {
				o := &d.Operands[i]
				array, ok := operands[o.Name]
				if !ok {
					array = o.NewArray(d.DTypes(num.F32)[i], sizes)
					if o.IsIn && !o.IsInt() {
						trial.Fill(array, func(int, int) float32 { return g.Normal() })
					}
					operands[o.Name] = array
				}
				list = append(list, array)
			}
			return list
		}
		first := fill(forward)
		for i, starts := range map[string][]uint32{"qstart": {0, 9, 9, 23}, "kstart": {0, 6, 11, 150}} {
			for b, v := range starts { // more queries than keys, no queries, two blocks
				array := operands[i]
				array.SetBits(b, 0, v)
			}
		}
		options := reference.Options{Params: []float64{0.4}}
		if err := reference.Run(forward, first, options); err != nil {
			t.Fatal(err)
		}
		if err := reference.Run(backward, fill(backward), options); err != nil {
			t.Fatal(err)
		}
		want := a.gradients(operands, sizes)
		for name, exact := range want {
			got := operands[name]
			for r := range got.Rows {
				for c := range got.Cols {
					x := exact[r*got.Cols+c]
					if d := math.Abs(float64(got.At(r, c)) - x.value); !(d <= x.bound()) {
						t.Errorf("%s: %s[%d,%d] is %v, binary64 has %v: they differ by %g, at most %g is right", a.name, name, r, c, got.At(r, c), x.value, d, x.bound())
					}
				}
			}
		}
	}
}

// term is a sum in binary64, and the sum of what its terms would be if all of their parts were positive.
type term struct{ value, size, roundings float64 }

// bound bounds the error of the same sum in binary32. Every part of a term is a sum or a product of
// others, and has an error of at most roundings·2^-24 times its size; a power of two multiplies that of
// its argument by its size. Sizes are those of sums of magnitudes, so that nothing cancels; a factor
// of 2 has what is of second order.
func (t *term) bound() float64 { return 2 * t.roundings * 0x1p-24 * t.size }

func (t *term) add(value, size, roundings float64) {
	t.value += value
	t.size += size
	t.roundings = max(t.roundings, roundings)
}

// gradients computes the gradients in binary64.
func (a *attention) gradients(in map[string]num.Array, sizes map[string]int) map[string][]term {
	T, S, G, J, D := sizes["T"], sizes["S"], sizes["G"], sizes["J"], sizes["D"]
	dq, dk, dv, dbase := make([]term, T*G*J*D), make([]term, S*G*D), make([]term, S*G*D), make([]term, T*G*J)
	at := func(name string, row, col int) float64 {
		a := in[name]
		return float64(a.At(row, col))
	}
	starts := func(name string, b int) int {
		a := in[name]
		return int(a.Int(b, 0))
	}
	for b := range sizes["B"] {
		first, n := starts("kstart", b), starts("kstart", b+1)-starts("kstart", b)
		for tok := starts("qstart", b); tok < starts("qstart", b+1); tok++ {
			query := n - (starts("qstart", b+1) - tok)
			for head := range G * J {
				g, row := head/J, tok*G*J+head
				key := func(c int) int { return (first+c)*G + g }
				slope := 0.0
				if _, ok := in["slope"]; ok {
					slope = at("slope", g, head%J)
				}
				var exponents, slopes, dp, dpSize []float64
				var seen []int
				largest := 1.0 // magnitude of an exponent, or of what it is made of
				sum, total, totalSize := 0.0, 0.0, 0.0
				for c := range n {
					if !a.sees(query, c) {
						continue
					}
					s, size, x, y := 0.0, 0.0, 0.0, 0.0
					for d := range D {
						s += at("q", row, d) * at("k", key(c), d)
						size += math.Abs(at("q", row, d) * at("k", key(c), d))
						x += at("do", row, d) * at("v", key(c), d)
						y += math.Abs(at("do", row, d) * at("v", key(c), d))
					}
					e, slopeHere := a.t(s, slope, query, c)
					largest = max(largest, 3*0.4*size+math.Abs(slope*float64(c-query)), math.Abs(e)+8)
					exponents, slopes, seen = append(exponents, e), append(slopes, slopeHere), append(seen, c)
					dp, dpSize = append(dp, x), append(dpSize, y)
					sum += math.Exp2(e)
				}
				base := 0.0
				if a.hasBase {
					base = math.Exp2(1.5 * slope)
					sum += base
				}
				for i, e := range exponents {
					total += math.Exp2(e) / sum * dp[i]
					totalSize += math.Exp2(e) / sum * dpSize[i]
				}
				// Scores and sums over D have D roundings, weights and means n, and gradients n or T more.
				roundings := float64(2*D+3*n+T+40) * largest
				for i, c := range seen {
					p := math.Exp2(exponents[i]) / sum
					ds := p * (dp[i] - total) * math.Ln2 * slopes[i]
					size := p * (dpSize[i] + totalSize) * math.Ln2 * 1.2
					for d := range D {
						k, q, o := at("k", key(c), d), at("q", row, d), at("do", row, d)
						dq[row*D+d].add(ds*k, size*math.Abs(k), roundings)
						dk[key(c)*D+d].add(ds*q, size*math.Abs(q), roundings)
						dv[key(c)*D+d].add(p*o, p*math.Abs(o), roundings)
					}
				}
				dbase[row].add(-base/sum*total*math.Ln2, base/sum*totalSize, roundings)
			}
		}
	}
	all := map[string][]term{"dq": dq, "dk": dk, "dv": dv}
	if a.hasBase {
		all["dbase"] = dbase
	}
	return all
}

// TestStreamBackwardSees writes NaN at a key, then at a query, and compares what does not see it to the bit.
func TestStreamBackwardSees(t *testing.T) {
	g := gen.New("what gradients see")
	for _, a := range attentions {
		for _, test := range []struct {
			dtype num.DType
			accum def.Accum
		}{{num.F32, def.FMAChain}, {num.F16, def.FMAChain}, {num.BF16, def.MMA(16, 25)}, {num.F16, def.MMA(8, 24)}} {
			forward := def.Must(def.StreamOf("near", streamForm, a.build))
			d, err := def.Derivative(forward, nil, fn.All...)
			if err != nil {
				t.Fatal(err)
			}
			n := 140
			sizes := map[string]int{"T": 30, "S": n, "G": 1, "J": 2, "D": 6, "B": 1}
			make := func() (list []num.Array) {
				g := gen.New("operands")
				for i := range d.Operands {
					o := &d.Operands[i]
					array := o.NewArray(d.DTypes(test.dtype)[i], sizes)
					switch {
					case o.IsOffsets:
						array.SetBits(1, 0, uint32(sizes[o.Bound]))
					case o.IsIn:
						trial.Fill(array, func(int, int) float32 { return g.Normal() })
					}
					list = append(list, array)
				}
				return list
			}
			run := func(operands []num.Array) {
				if err := reference.Run(d, operands, reference.Options{Params: []float64{0.4}, Accum: test.accum}); err != nil {
					t.Fatal(err)
				}
			}
			clean, poisoned := make(), make()
			run(clean)
			key, query := n-1-g.Below(20), g.Below(sizes["T"]) // somebody sees the key
			poison := func(name string, row int) {
				array := poisoned[d.Operand(name)]
				for c := range array.Cols {
					array.Set(row, c, float32(math.NaN()))
				}
			}
			poison("k", key)
			poison("v", key)
			run(poisoned)
			place := func(token int) int { return n - sizes["T"] + token }
			name := fmt.Sprintf("%s, %s, %s", a.name, test.dtype, test.accum)
			compare(t, name+", a key", d, clean, poisoned, map[string]func(row int) bool{
				"dq":    func(row int) bool { return a.sees(place(row/2), key) },
				"dk":    func(row int) bool { return row == key },
				"dv":    func(row int) bool { return row == key },
				"dbase": func(int) bool { return false },
			})
			poisoned = make()
			for head := range 2 {
				for _, name := range []string{"q", "do", "o"} {
					poison(name, query*2+head)
				}
			}
			poison("lse", query)
			run(poisoned)
			compare(t, name+", a query", d, clean, poisoned, map[string]func(row int) bool{
				"dq":    func(row int) bool { return row/2 == query },
				"dk":    func(row int) bool { return a.sees(place(query), row) },
				"dv":    func(row int) bool { return a.sees(place(query), row) },
				"dbase": func(row int) bool { return row == query },
			})
		}
	}
}

// compare compares outputs to the bit, but for the rows that a change touches. Some of those are NaN.
func compare(t *testing.T, name string, d *def.Definition, clean, poisoned []num.Array, touches map[string]func(row int) bool) {
	t.Helper()
	touched := 0
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			continue
		}
		for r := range clean[i].Rows {
			for c := range clean[i].Cols {
				switch {
				case touches[d.Operands[i].Name](r):
					if poisoned[i].At(r, c) != poisoned[i].At(r, c) {
						touched++
					}
				case clean[i].Bits(r, c) != poisoned[i].Bits(r, c):
					t.Fatalf("%s: %s[%d,%d] is %v, want %v", name, d.Operands[i].Name, r, c, poisoned[i].At(r, c), clean[i].At(r, c))
				}
			}
		}
	}
	if touched == 0 {
		t.Errorf("%s: nothing is NaN", name)
	}
}

// TestStreamBackwardByHand computes two keys with the logarithm of the weights, and the mean, that the
// call is given: p = 1/2 and 1, delta = 3, dp = 2 and 4, so ds = -1/2 and 1.
func TestStreamBackwardByHand(t *testing.T) {
	forward := def.Must(def.StreamOf("two", streamForm, func(b *def.StreamBuilder) {
		b.Weigh(b.Score(), b.Key().LessEqual(b.Query()), b.In("sink", []string{"T", "G", "J"}))
	}))
	d, err := def.Derivative(forward, nil)
	if err != nil {
		t.Fatal(err)
	}
	const ln2 = float32(math.Ln2)
	for _, dtype := range num.FloatDTypes {
		var operands []num.Array
		sizes := map[string]int{"T": 1, "S": 2, "G": 1, "J": 1, "D": 1, "B": 1}
		values := map[string][]float32{"q": {1}, "k": {1, 2}, "v": {2, 4}, "sink": {1}, "do": {1}, "o": {3}, "lse": {2}}
		for i := range d.Operands {
			o := &d.Operands[i]
			array := o.NewArray(d.DTypes(dtype)[i], sizes)
			if o.IsOffsets {
				array.SetBits(1, 0, uint32(sizes[o.Bound]))
			}
			for r, x := range values[o.Name] {
				array.Set(r, 0, x)
			}
			operands = append(operands, array)
		}
		if err := reference.Run(d, operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		// The short power of two is exact for integers too.
		for name, want := range map[string][]float32{"dq": {1.5 * ln2}, "dk": {-0.5 * ln2, ln2}, "dv": {0.5, 1}, "dbase": {-1.5 * ln2}} {
			got := operands[d.Operand(name)]
			for r, x := range want {
				if num.Narrow(got.DType, x) != got.Bits(r, 0) {
					t.Errorf("%s: %s[%d] is %v, want %v", dtype, name, r, got.At(r, 0), x)
				}
			}
		}
	}
}
