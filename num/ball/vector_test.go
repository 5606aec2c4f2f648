package ball

import (
	"math"
	"testing"
)

// TestVectors compares every place of a vector with the method.
func TestVectors(t *testing.T) {
	special := []Ball{{}, {Mid: 1}, {Rad: 1}, {-3, 0x1p-30}, {0x1p-1070, 0}, {0x1p600, 0x1p500}, {-0x1p700, 1}, unknown, {math.Inf(1), 0}, {math.Pi, 0x1p-52}, {0, 0x1p-1074}}
	var a, b []Ball
	for _, x := range special {
		for _, y := range special {
			a, b = append(a, x), append(b, y)
		}
	}
	for _, op := range []struct {
		name string
		all  func(out, a, b []Ball)
		one  func(a, b Ball) Ball
	}{{"add", AddAll, Ball.Add}, {"sub", SubAll, Ball.Sub}, {"mul", MulAll, Ball.Mul}} {
		same := func(how string, a, b []Ball) {
			out := make([]Ball, len(special)*len(special))
			op.all(out, a, b)
			for j, got := range out {
				want := op.one(a[j%len(a)], b[j%len(b)])
				if !isSame(got.Mid, want.Mid) || !isSame(got.Rad, want.Rad) {
					t.Errorf("%s, %s: %v and %v give %x, want %x", op.name, how, a[j%len(a)], b[j%len(b)], got, want)
				}
			}
		}
		same("two vectors", a, b)
		for _, x := range special {
			same("a single first", []Ball{x}, b)
			same("a single second", a, []Ball{x})
			same("two single", []Ball{x}, []Ball{{2, 0x1p-50}})
		}
	}
}

// TestSums compares sums of vectors, and their magnitudes, with Ball.Sum and Bounds.
func TestSums(t *testing.T) {
	rows := [][]Ball{{{}, {1, 0x1p-60}, {-3, 0x1p-30}, {math.Pi, 0x1p-52}, {0x1p600, 0x1p500}, unknown, {2, 3}, {math.Inf(1), 0}, {math.MaxFloat64, math.MaxFloat64}}, {{}, {0x1p-70, 0}, {3, 0}, {-1.0 / 3, 0x1p-54}, {1, 0}, {}, {2, 2}, {}, {}}}
	width := len(rows[0])
	sums, totals, isBelow := NewSums(width), make([]float64, width), make([]bool, width)
	var terms [][]Ball
	for i := range 3*Block + 5 {
		row := append([]Ball{}, rows[i%2]...)
		row[3].Mid *= float64(i)
		sums.Add(row)
		AddReach(totals, isBelow, row)
		terms = append(terms, row)
	}
	got := make([]Ball, width)
	sums.Total(got)
	for j, g := range got {
		want, total, below := Ball{}, 0.0, false
		for first := 0; first < len(terms); first += Block {
			var column []Ball
			for _, row := range terms[first:min(first+Block, len(terms))] {
				column = append(column, row[j])
				lo, hi := row[j].Bounds()
				total += max(-lo, hi)
				below = below || lo < 0
			}
			want = want.Sum(column)
			if sum, abs, isBelow := SumReach(column); sum != (Ball{}).Sum(column) && sum.Known() || isBelow && !below || !(abs >= 0 || !sum.Known()) {
				t.Errorf("%v: the sum is %v, of %v in all, below 0 is %t", column, sum, abs, isBelow)
			}
		}
		if !isSame(g.Mid, want.Mid) || !isSame(g.Rad, want.Rad) || !isSame(totals[j], total) || isBelow[j] != below && total <= math.MaxFloat64 {
			t.Errorf("column %d: the sum is %x, of %x in all, below 0 is %t, want %x, %x, %t", j, g, totals[j], isBelow[j], want, total, below)
		}
	}
}

// isSame compares bits; all NaNs are the same.
func isSame(x, y float64) bool {
	return math.Float64bits(x) == math.Float64bits(y) || x != x && y != y
}

// TestSlopes compares every place of vectors with plain steps. Vectors have every length modulo 4,
// so that places are taken alone and several at once.
func TestSlopes(t *testing.T) {
	special := []Ball{{}, {Mid: 1}, {Rad: 1}, {-3, 0x1p-30}, {0x1p-1070, 0}, {0x1p600, 0x1p500}, {-0x1p700, 1}, unknown, {math.Inf(1), 0}, {math.Pi, 0x1p-52}, {0, 0x1p-1074}, {math.Copysign(0, -1), 0}, {1, math.Inf(1)}}
	var a, b, to []Ball
	var weights, totals []float64
	for i, x := range special {
		for k, y := range special {
			a, b = append(a, x), append(b, y)
			to = append(to, special[(i+k)%len(special)])
			weights, totals = append(weights, math.Ldexp(1.7, 10*k)), append(totals, float64(i)/3)
		}
	}
	for range 4 {
		a, b, to, weights, totals = a[1:], b[1:], to[1:], weights[1:], totals[1:]
		balls := func(name string, run func(to []Ball), want func(j int) Ball) {
			t.Helper()
			got := append([]Ball{}, to...)
			run(got)
			for j, g := range got {
				if w := want(j); !isSame(g.Mid, w.Mid) || !isSame(g.Rad, w.Rad) {
					t.Errorf("%s: %v and %v, to %v, give %x, want %x", name, a[j], b[j], to[j], g, w)
				}
			}
		}
		floats := func(name string, run func(totals []float64), want func(j int) float64) {
			t.Helper()
			got := append([]float64{}, totals...)
			run(got)
			for j, g := range got {
				if w := want(j); !isSame(g, w) {
					t.Errorf("%s: %v gives %x, want %x", name, a[j], g, w)
				}
			}
		}
		balls("set products", func(to []Ball) { SetProducts(to, a, b) }, func(j int) Ball { return a[j].Times(b[j]) })
		balls("add products", func(to []Ball) { AddProducts(to, a, b) }, func(j int) Ball { return to[j].Add(a[j].Times(b[j])) })
		for _, x := range special {
			balls("set multiples", func(to []Ball) { SetProducts(to, a, []Ball{x}) }, func(j int) Ball { return a[j].Times(x) })
			balls("add multiples", func(to []Ball) { AddProducts(to, a, []Ball{x}) }, func(j int) Ball { return to[j].Add(a[j].Times(x)) })
		}
		balls("add", func(to []Ball) { AddSigned(to, a, false) }, func(j int) Ball { return to[j].Add(a[j]) })
		balls("subtract", func(to []Ball) { AddSigned(to, a, true) }, func(j int) Ball { return to[j].Add(a[j].Neg()) })
		balls("means", func(to []Ball) { SetMeans(to, a, b) }, func(j int) Ball {
			x := a[j].Add(b[j])
			if (x == Ball{}) {
				return x
			}
			return Ball{x.Mid / 2, x.Rad/2 + tiny}
		})
		magnitude := func(j int) float64 { return math.Abs(a[j].Mid) + a[j].Rad }
		floats("magnitudes", func(totals []float64) { AddMagnitudes(totals, a, weights) }, func(j int) float64 { return totals[j] + float64(magnitude(j)*weights[j]) })
		floats("weighted", func(totals []float64) { AddWeighted(totals, a, 0.3, grow) }, func(j int) float64 { return totals[j] + float64(magnitude(j)*0.3*grow) })
		errors := make([]float64, len(a))
		for _, errors := range [][]float64{nil, errors} {
			z := Noise{Relative: 0x1p-22, Absolute: 0x1p-140, Limit: 5, Errors: errors}
			widened := func(x Ball) (Ball, float64) {
				const grow = 1 + 0x1p-50
				if errors == nil || (x == Ball{}) {
					return x, 0
				}
				e := float64((float64((math.Abs(x.Mid)+x.Rad)*0x1p-22) + 0x1p-140) * grow)
				return Ball{x.Mid, float64((x.Rad + e) * grow)}, e
			}
			step := func(name string, run func(to []Ball), want func(j int) Ball) {
				t.Helper()
				balls(name, run, func(j int) Ball { x, _ := widened(want(j)); return x })
				for j, e := range errors {
					if _, w := widened(want(j)); !isSame(e, w) {
						t.Errorf("%s: the error of %v is %x, want %x", name, want(j), e, w)
					}
				}
			}
			step("noisy copy", func(to []Ball) { z.Copy(to, a) }, func(j int) Ball { return a[j] })
			step("noisy square", func(to []Ball) { z.Sqr(to, a) }, func(j int) Ball { return a[j].Sqr() })
			for _, op := range []struct {
				name string
				all  func(to, a, b []Ball) (bool, bool)
				one  func(a, b Ball) Ball
			}{{"noisy sum", z.Add, Ball.Add}, {"noisy difference", z.Sub, Ball.Sub}, {"noisy product", z.Mul, Ball.Mul}} {
				step(op.name, func(to []Ball) { op.all(to, a, b) }, func(j int) Ball { return op.one(a[j], b[j]) })
				for _, x := range special {
					step(op.name+", a single second", func(to []Ball) { op.all(to, a, []Ball{x}) }, func(j int) Ball { return op.one(a[j], x) })
					step(op.name+", a single first", func(to []Ball) { op.all(to, []Ball{x}, b) }, func(j int) Ball { return op.one(x, b[j]) })
				}
			}
		}
	}
	for at := range 9 { // a single place decides
		for _, test := range []struct {
			x                 Ball
			isBeyond, isBelow bool
		}{
			{Ball{2, 1}, false, false}, {Ball{4, 1}, true, false}, {Ball{-4, 1}, true, true}, {Ball{0, 1}, false, true}, {Ball{}, false, false},
			{Ball{math.NaN(), 0}, true, false}, {unknown, true, false},
		} {
			a, to := make([]Ball, 9), make([]Ball, 9)
			a[at] = test.x
			for _, errors := range [][]float64{nil, make([]float64, 9)} {
				z := Noise{Relative: 0x1p-22, Absolute: 0x1p-140, Limit: 4.5, Errors: errors}
				if isBeyond, isBelow := z.Copy(to, a); isBeyond != test.isBeyond || isBelow != test.isBelow {
					t.Errorf("%v at %d: %t and %t, want %t and %t", test.x, at, isBeyond, isBelow, test.isBeyond, test.isBelow)
				}
			}
		}
	}
}
