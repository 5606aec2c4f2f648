package verify

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/promise"
	"tokitai/reference"
	"tokitai/truth"
)

// The thresholds are fixed in advance, and so are the seeds: a correct kernel passes always or
// never. For a sample of n, the mean of unbiased errors is more than mostBias standard errors
// from 0 with a probability of 6·10⁻⁷. The mean square of errors in units of the model's standard
// deviation, whose expectation is at most 1.5 (truth.OrderVariance says why), exceeds
// 1.5 + 6·√(2/n) with a probability of 10⁻⁹. A count with mean e exceeds e + 5·√e + 3 with a
// probability below 10⁻⁶.
const mostBias = 5

// leastSample is the least number of outputs of a test. The spread of fewer cannot be estimated.
const leastSample = 64

// mostOfModel is the largest expectation of the mean square.
const mostOfModel = 1.5

func mostMeanSquare(n int64) float64 { return mostOfModel + 6*math.Sqrt(2/float64(n)) }

func mostMisrounded(e float64) float64 { return e + 5*math.Sqrt(e) + 3 }

// statistics tests the errors of a bounded kernel together: each may be small enough although
// all of them have the same sign.
func (s *verification) statistics(x *trialRun, j *judgement, r *caseResult) {
	d := s.t.Definition
	fail := s.failing(r)
	judgeBias := func(m moments, what string) {
		if m.N < leastSample {
			return
		}
		if t := m.t(); math.Abs(t) > mostBias {
			fail("%s are biased: their mean is %.1f standard errors from 0, at most %d are allowed (%d outputs)", what, t, mostBias, m.N)
		} else {
			r.count(evidence.Statistics, 1, 0)
		}
	}
	if d.Product() != nil {
		s.contractionStatistics(x, judgeBias, fail, r)
		return
	}
	// Rounding to 16 bits hides what functions of a few ulps of binary32 are biased by;
	// in f32 that would show, and is allowed.
	for i := range d.Operands {
		if d.Operands[i].IsOut && x.base.operands[i].DType == num.F32 {
			return
		}
	}
	// Errors of outputs that are computed from few different inputs, in 16 bits, are
	// far from independent. What is looked at is how they differ from those of the
	// correct rounding, in units of what independent errors would add up to.
	if b := j.Accuracy.Bias; b.N > 0 {
		n := float64(b.N)
		spread := 1.0 / 12
		if len(s.t.Lowering.Promise.Declares.Roundings) > 0 || j.Accuracy.Declared > 0 || s.t.hasCoarseFunctions() || d.Fused() != nil { // a value that is rounded twice, or whose function errs, is a step off more often
			spread = max(spread, b.Sqr/n)
		}
		// An error of less than an ulp before the last rounding moves results by as much on average,
		// and those of a declared function may all have one sign.
		if most := j.Accuracy.Declared/n + mostBias*math.Sqrt(spread/n); math.Abs(b.Sum/n) > most {
			fail("outputs are biased: they are %+.3g ulp from the correct rounding on average, at most %.3g are allowed (%d outputs)", b.Sum/n, most, b.N)
		} else {
			r.count(evidence.Statistics, 1, 0)
		}
	}
}

// failing returns a function that notes a test that failed.
func (s *verification) failing(r *caseResult) func(format string, args ...any) {
	return func(format string, args ...any) {
		r.fail(&finding{Tier: evidence.Statistics, Operand: outputOf(s.t.Definition), Row: -1, Message: fmt.Sprintf(format, args...)}, 1)
	}
}

// spreadStatistics judges the heights that the sums of a stable kernel need.
func (s *verification) spreadStatistics(j *judgement, r *caseResult) {
	fail := s.failing(r)
	for _, name := range slices.Sorted(maps.Keys(j.Outputs)) {
		t := j.Outputs[name]
		if t.Spread.N == 0 {
			continue
		}
		if mean, most := t.Spread.Sqr/float64(t.Spread.N), mostMeanSquare(int64(t.Sums)); mean > most {
			fail("errors of %s are larger than sums in any order give: the mean square of the heights that they need is %.3g of what it should be, at most %.3g is allowed (%d outputs, %d sums)", name, mean, most, t.Spread.N, t.Sums)
		} else {
			r.count(evidence.Statistics, 1, 0)
		}
	}
}

// varianceOf returns the variance that the order of a kernel's sums gives, or, if none is
// declared, the largest that a usual one gives.
func varianceOf(o def.Order, terms []float64) float64 {
	if o.IsDeclared() {
		return truth.OrderVariance(o, terms)
	}
	most := 0.0
	for _, o := range truth.UsualOrders {
		most = max(most, truth.OrderVariance(o, terms))
	}
	return most
}

// contractionStatistics compares the errors of products with those expected of their
// order.
func (s *verification) contractionStatistics(x *trialRun, judgeBias func(moments, string), fail func(string, ...any), r *caseResult) {
	l := s.t.Lowering
	got := x.base.operands[2]
	terms := x.l.products()
	isWide := got.DType == num.F32
	if x.l.lossy() != def.FMAChain {
		s.truncationStatistics(x, terms, fail, r)
		return
	}
	var bias, square moments
	misrounded, expected := 0.0, 0.0
	var buffer []float64
	for row := range got.Rows {
		for col := range got.Cols {
			buffer = terms(row, col, buffer[:0])
			sum, abs := 0.0, 0.0
			for _, p := range buffer {
				sum += p
				abs += math.Abs(p)
			}
			scaled := x.l.scaled(row, col, sum)
			scale := 1.0
			if sum != 0 {
				scale = scaled[len(scaled)-1] / sum
			}
			sum, abs = scaled[len(scaled)-1], abs*math.Abs(scale)
			v := float64(got.At(row, col))
			if sum == 0 || v-v != 0 || sum-sum != 0 {
				continue
			}
			e := v - sum
			ulp := num.ULP(got.DType, sum)
			if isWide {
				bias.count(math.Copysign(e, e*sum) / abs)
			} else {
				bias.count(math.Copysign(e, e*sum) / ulp)
			}
			if !l.Promise.Order.IsDeclared() && s.t.Promised() != promise.Stable {
				continue
			}
			variance := varianceOf(l.Promise.Order, buffer)
			if x.base.operands[0].DType == num.F32 { // products may round as well
				variance += productVariance(buffer)
			}
			variance *= scale * scale
			for _, product := range scaled[1:] { // each rounds, and its error is scaled with it
				variance += productVariance([]float64{product}) * float64(sum/product) * float64(sum/product)
			}
			if !isWide {
				expected += 1.6 * math.Sqrt(variance) / ulp
				if num.NarrowF64(got.DType, sum) != got.Bits(row, col) {
					misrounded++
				}
				variance += ulp * ulp / 12
			}
			if variance > 0 {
				square.count(e / math.Sqrt(variance))
			}
		}
	}
	judgeBias(bias, "errors")
	if square.N < leastSample {
		return
	}
	if mean, most := square.Sqr/float64(square.N), mostMeanSquare(square.N); mean > most {
		fail("errors are larger than order %s gives: their mean square is %.3g of what it should be, at most %.3g is allowed (%d outputs)", l.Promise.Order, mean, most, square.N)
	} else {
		r.count(evidence.Statistics, 1, 0)
	}
	if isWide {
		return
	}
	if most := mostMisrounded(expected); misrounded > most {
		fail("%.0f outputs are not correctly rounded, at most %.0f are to be expected of order %s", misrounded, most, l.Promise.Order)
	} else {
		r.count(evidence.Statistics, 1, 0)
	}
}

// truncationStatistics judges the errors of sums on tensor cores, which truncate: results
// are biased toward zero, in one order more than in another. The model's own order is the
// longest chain, and so the most biased. Errors must be biased neither away from zero nor
// farther toward it than the model's.
func (s *verification) truncationStatistics(x *trialRun, terms func(row, col int, into []float64) []float64, fail func(string, ...any), r *caseResult) {
	accum := x.l.lossy()
	answer, err := interpret(s.t.Definition, x.l.inputs(), reference.Options{Params: x.l.params, Accum: accum, Context: s.bench.ctx})
	if err != nil {
		fail("the reference refused: %v", err)
		return
	}
	got := x.base.operands[2]
	var away, toward moments
	var buffer []float64
	for row := range got.Rows {
		for col := range got.Cols {
			buffer = terms(row, col, buffer[:0])
			sum, abs := 0.0, 0.0
			for _, p := range buffer {
				sum += p
				abs += math.Abs(p)
			}
			v, most := float64(got.At(row, col)), float64(answer[2].At(row, col))
			if sum == 0 || v-v != 0 || most-most != 0 {
				continue
			}
			unit := num.ULP(got.DType, sum)
			if got.DType == num.F32 {
				unit = abs
			}
			sign := math.Copysign(1, sum)
			away.count(sign * (v - sum) / unit)
			toward.count(sign * (most - v) / unit)
		}
	}
	for _, test := range []struct {
		m    moments
		what string
	}{{away, "errors are biased away from zero"}, {toward, "errors are biased toward zero, more than those of model " + accum.String()}} {
		if test.m.N < leastSample {
			continue
		}
		if t := test.m.t(); t > mostBias {
			fail("%s: their mean is %.1f standard errors from 0, at most %d are allowed (%d outputs)", test.what, t, mostBias, test.m.N)
		} else {
			r.count(evidence.Statistics, 1, 0)
		}
	}
}

// productVariance returns the variance that rounding every product adds to a sum, in the
// model of truth.OrderVariance.
func productVariance(products []float64) float64 {
	const unit = 0x1p-24
	sum := 0.0
	for _, p := range products {
		if p != 0 {
			power := math.Ldexp(1, math.Ilogb(p))
			sum += float64(power * power)
		}
	}
	return sum * (unit * unit / 3)
}

// scaled returns the sum of an element, and the products after each of its scales.
func (l *loaded) scaled(row, col int, sum float64) []float64 {
	d, list := l.target.Definition, []float64{sum}
	scale := func(operand, at int) float64 {
		a := l.array(operand)
		return float64(a.At(at, 0))
	}
	if i := d.Operand(d.Scales().Row); i >= 0 {
		list = append(list, list[len(list)-1]*scale(i, row))
	}
	if i := d.Operand(d.Scales().Col); i >= 0 {
		list = append(list, list[len(list)-1]*scale(i, col))
	}
	return list
}

// products returns a function that lists the exact products which an element of a
// contraction sums.
func (l *loaded) products() func(row, col int, into []float64) []float64 {
	d, operands := l.target.Definition, l.inputs()
	if d.HasAxes() {
		return l.productsOfStack
	}
	lefts, rights := widened(operands[0], d.Product().TransposeLeft), widened(operands[1], !d.Product().TransposeRight)
	return func(row, col int, into []float64) []float64 {
		for k, a := range lefts[row] {
			into = append(into, a*rights[col][k])
		}
		return into
	}
}

// widened returns the rows of an array, or its columns, in float64.
func widened(a num.Array, byColumns bool) [][]float64 {
	n, length := a.Rows, a.Cols
	if byColumns {
		n, length = length, n
	}
	lines := make([][]float64, n)
	for i := range lines {
		lines[i] = make([]float64, length)
		for k := range lines[i] {
			if byColumns {
				lines[i][k] = float64(a.At(k, i))
			} else {
				lines[i][k] = float64(a.At(i, k))
			}
		}
	}
	return lines
}

// moments are a sample's number, sum and sum of squares.
type moments struct {
	N   int64   `json:"n"`
	Sum float64 `json:"sum"`
	Sqr float64 `json:"sqr"`
}

func (m *moments) count(x float64) {
	m.N++
	m.Sum += x
	m.Sqr += float64(x * x)
}

func (m *moments) add(k moments) {
	m.N += k.N
	m.Sum += k.Sum
	m.Sqr += k.Sqr
}

// t returns the mean in units of its standard error.
func (m moments) t() float64 {
	if m.N < 2 {
		return 0
	}
	n := float64(m.N)
	mean := m.Sum / n
	variance := (m.Sqr - float64(n*float64(mean*mean))) / (n - 1)
	if variance <= 0 {
		if mean == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return mean / math.Sqrt(variance/n)
}
