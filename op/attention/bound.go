package attention

import (
	"math"
	"slices"

	"tokitai/bound"
	"tokitai/def"
	"tokitai/fn"
	"tokitai/num"
)

const u = bound.U

// tooWide is the condition without a bound.
const tooWide = "M >= 1/2"

var forwardBounds = []bound.Form{
	{
		Output: "o", Assumes: assumed, None: tooWide, IsTighter: true,
		Text: []string{
			"bound = 1.01*(sum w*e*|v - o| / (1 - M) + W*((1 + r)*(1 + g(N)) - 1) + T); no bound where " + tooWide,
			"sums are over the n keys that a query sees, w is the softmax: 2^(t - max t) over its sum",
			"e = exp(ln(2)*d + H*f) - 1,  M = sum w*e,  W = sum w*(1 + e)*|v| / (1 - M)",
			"d = c + u*(max t - t + c + max c),  c = 1.001*(|kappa|*(g(D)*sum |q*k| + D*2^-149) + u*|t| + 2^-149)",
			"f is the relative error of a power of two: 1.001*2700*u, in f32 1.8*u;  a = 2^-126, in f32 2^-148, its absolute one",
			"b = blocks of 128 keys in a segment, s = segments of 1,024 keys,  H = b + s - 1",
			"N = min(n, 1024) + 2*min(n, 16) + 3*b + 6*s + 8",
			"r is the rounding of a weight: 2^-11 in f16, 2^-8 in bf16, 0 in f32;  p = 2^-25, 2^-134, 0",
			"T = (a*H + p)*sum |v| + n*a*H*W + N*2^-149*(1 + W)",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			z := queriesOf(call)
			return bound.ByRow(func(r int) func(c int) float64 { return z.meanError(r) })
		},
	},
	{
		Output: "lse", Assumes: assumed, None: tooWide, IsTighter: true,
		Text: []string{
			"bound = 1.01*(-log2(1 - M - g(N) - n*a*H - N*2^-149) + 2*u*|log2 L| + u*|lse| + 2^-148); no bound where " + tooWide,
			"L = sum 2^(t - max t), the other letters as in o",
		},
		At: func(call *bound.Call) func(r, c int) float64 {
			z := queriesOf(call)
			return func(r, c int) float64 { return z.logError(r*z.shared + c) }
		},
	},
}

// decodeBounds are those of attention.forward, of the same keys.
var decodeBounds = func() []bound.Form {
	list := slices.Clone(forwardBounds)
	for i := range list {
		list[i].Text = []string{"bound = that of attention.forward for the same keys; no bound where " + tooWide}
	}
	return list
}()

var backwardBounds = []bound.Form{
	backwardBound("dq",
		"bound = 1.01*(A*(sum E*|k| + g(N + 3)*sum (|ds| + E)*|k| + N*2^-149) + 2^-149*(1 + sum (|ds| + E)*|k|)); no bound where "+tooHeavy,
		"sums are over the n keys that a query sees, N = min(n, 128) + n/128, rounded up;  A = ln(2)*|kappa|",
		"p = 2^(t - lse),  y = sum do*v - sum do*o over d,  ds = p*y",
		"e = exp(ln(2)*d + f) - 1,  d = c + u*(|t - lse| + c),  c = 1.001*(|kappa|*(g(D)*sum |q*k| + D*2^-149) + u*|t| + 2^-149)",
		"f is the relative error of a power of two: 1.001*2700*u, in f32 1.8*u;  a = 2^-126, in f32 2^-148, its absolute one",
		"Y = b + u*(|y| + b),  b = g(D)*sum |do*v| + g(h(D) + 1)*sum |do*o| + 2*D*2^-149",
		"s = (p + p*e + a)*Y + (p*e + a)*|y| + u*(p + p*e + a)*(|y| + Y) + 2^-149",
		"E = s + r*(|ds| + s) + z;  r is the rounding of p and ds: 2^-11 in f16, 2^-8 in bf16, 0 in f32;  z = 2^-25, 2^-134, 0",
	),
	backwardBound("dk",
		"bound = 1.01*(A*(sum E*|q| + g(N + 3)*sum (|ds| + E)*|q| + N*2^-149) + 2^-149*(1 + sum (|ds| + E)*|q|)); no bound where "+tooHeavy,
		"sums are over the m queries and heads that see a key, N = min(m, 1024) + J*(m/1024 + 2), rounded down;  the other letters as in dq",
	),
	backwardBound("dv",
		"bound = 1.01*(sum P*|do| + g(N)*sum (p + P)*|do| + (N + 1)*2^-149); no bound where "+tooHeavy,
		"P = p*e + a + r*(p + p*e + a) + z,  the other letters as in dk",
	),
}

// tooHeavy is the condition without a bound of the gradients: a weight may overflow.
const tooHeavy = "t - lse + d > 126"

func backwardBound(output string, text ...string) bound.Form {
	return bound.Form{
		Output: output, Assumes: assumedOfGradients, None: tooHeavy, IsTighter: true, Text: text,
		At: func(call *bound.Call) func(r, c int) float64 {
			z, operand := gradientsOf(call), call.Definition.Operand(output)
			return func(r, c int) float64 {
				s := z.sum(operand, r, c)
				if math.IsInf(s.errors, 1) || s.errors != s.errors {
					return math.Inf(1)
				}
				if output == "dv" {
					return 1.01 * (s.errors + bound.Gamma(s.steps)*s.abs + float64(s.steps+1)*0x1p-149)
				}
				return 1.01 * (s.scale*(s.errors+bound.Gamma(s.steps+3)*s.abs+float64(s.steps)*0x1p-149) + 0x1p-149*(1+s.abs))
			}
		},
	}
}

var assumedOfGradients = map[*def.Function]float64{fn.Exp2Short3Function: 1350, fn.Exp2Function: 0.9}

// bound computes the errors of a weight and of the gradient of its score. Those of an exponent are a
// score's and the difference from lse, which is given; h is 1, and its product exact.
func (z *gradients) bound(x *gradient, i int, w *weight) {
	t, depth := x.exponents[i], z.q.Cols
	relative, abs := powerErrors(z.q.DType)
	c := z.exponentError(x.query, i)
	d := c + u*(math.Abs(t-x.origin)+c)
	if t-x.origin+d > 126 {
		w.pError, w.dsError = math.Inf(1), math.Inf(1)
		return
	}
	pError := w.p*math.Expm1(math.Ln2*d+relative) + abs
	y := math.Abs(w.dp - x.delta)
	b := bound.Gamma(depth)*w.sizes + bound.Gamma(bound.RowHeight(depth)+1)*x.sizes + 2*float64(depth)*0x1p-149
	yError := b + u*(y+b)
	s := (w.p+pError)*yError + pError*y + u*(w.p+pError)*(y+yError) + 0x1p-149
	rounding := weightErrors[z.q.DType]
	w.pError = pError + rounding.relative*(w.p+pError) + rounding.abs
	w.dsError = s + rounding.relative*(math.Abs(w.ds)+s) + rounding.abs
}

var assumed = map[*def.Function]float64{fn.Exp2Short3Function: 1350, fn.Exp2Function: 0.9, fn.Log2Function: 1}

// weighed is what the errors of a row have in common.
//
// Exponents have the errors c: the sum over d, the product by kappa. The differences m - t and those
// of maxima add up to max t - t, so that their roundings, and those of c itself, add up to the rest
// of d. A weight passes through one power of two, one for each later block of its segment and one for
// each later segment: H in all. Maxima are common to numerator and denominator: if computed weights
// are w(1+e) up to a factor, the mean differs by sum w*e*(v-o) / (1 + sum w*e). Its weight being 1,
// the key with the largest exponent makes the sum at least 1, so that absolute errors a and those of
// underflow are relative to 1.
//
// A term of O passes through at most 1,024 additions, a product for each block and two steps for
// each segment, one of l through 16 + 3 additions and the same products, which count twice, since l
// divides; then come the reciprocal and the last product.
type weighed struct {
	w, e          []float64
	mean, sum     float64 // M, and the sum of 2^(t - max t)
	powers        float64 // H
	relative, abs float64 // f and a
	steps         int     // N
}

func (z *queries) weigh(x *query) weighed {
	n := len(x.keys)
	segments := (n + def.StreamSegment - 1) / def.StreamSegment
	blocks := (min(n, def.StreamSegment) + def.StreamBlock - 1) / def.StreamBlock
	s := weighed{powers: float64(blocks + segments - 1), steps: min(n, def.StreamSegment) + 2*min(n, 16) + 3*blocks + 6*segments + 8}
	s.relative, s.abs = powerErrors(z.q.DType)
	c, most := make([]float64, n), 0.0
	for i := range x.exponents {
		c[i] = z.exponentError(x, i)
		most = max(most, c[i])
	}
	for i, t := range x.exponents {
		d := c[i] + u*(x.largest-t+c[i]+most)
		s.e = append(s.e, math.Expm1(math.Ln2*d+s.powers*s.relative))
		s.w = append(s.w, math.Exp2(t-x.largest))
		s.sum += s.w[i]
	}
	for i := range s.w {
		if s.w[i] /= s.sum; s.w[i] > 0 {
			s.mean += s.w[i] * s.e[i]
		}
	}
	return s
}

// powerErrors returns the errors of a power of two, relative and absolute.
func powerErrors(d num.DType) (relative, abs float64) {
	if d == num.F32 {
		return 1.8 * u, 0x1p-148
	}
	return bound.More * 2700 * u, 0x1p-126
}

// exponentError bounds the error of an exponent: of the sum over d and of the product by kappa.
func (z *queries) exponentError(x *query, i int) float64 {
	depth := z.q.Cols
	return bound.More * (math.Abs(z.kappa)*(bound.Gamma(depth)*x.products[i]+float64(depth)*0x1p-149) + u*math.Abs(x.exponents[i]) + 0x1p-149)
}

// The rounding of a weight to the format of v.
var weightErrors = map[num.DType]struct{ relative, abs float64 }{num.F16: {0x1p-11, 0x1p-25}, num.BF16: {0x1p-8, 0x1p-134}, num.F32: {}}

// meanError bounds the errors of a row of o.
func (z *queries) meanError(row int) func(c int) float64 {
	x := z.at(row)
	s := z.weigh(x)
	rounding := weightErrors[z.q.DType]
	return func(c int) float64 {
		if s.mean >= 0.5 {
			return math.Inf(1)
		}
		mean, size, all := 0.0, 0.0, 0.0
		value := func(i int) float64 { return float64(z.v.At(x.keys[i], c)) }
		for i, w := range s.w {
			v := value(i)
			mean, all = mean+w*v, all+math.Abs(v)
			if w > 0 {
				size += w * (1 + s.e[i]) * math.Abs(v)
			}
		}
		size /= 1 - s.mean
		weights := 0.0
		for i, w := range s.w {
			if w > 0 {
				weights += w * s.e[i] * math.Abs(value(i)-mean)
			}
		}
		tiny := (s.abs*s.powers+rounding.abs)*all + float64(len(s.w))*s.abs*s.powers*size + float64(s.steps)*0x1p-149*(1+size)
		return 1.01 * (weights/(1-s.mean) + size*((1+rounding.relative)*(1+bound.Gamma(s.steps))-1) + tiny)
	}
}

// logError bounds the error of a row's lse: that of the logarithm of the sum of weights w(1+e).
func (z *queries) logError(row int) float64 {
	x := z.at(row)
	s := z.weigh(x)
	if len(x.keys) == 0 {
		return 0
	}
	if s.mean >= 0.5 {
		return math.Inf(1)
	}
	off := s.mean + bound.Gamma(s.steps) + float64(len(s.w))*s.abs*s.powers + float64(s.steps)*0x1p-149
	log := math.Log2(s.sum)
	return 1.01 * (-math.Log1p(-off)/math.Ln2 + 2*u*math.Abs(log) + u*math.Abs(x.largest+log) + 0x1p-148)
}
