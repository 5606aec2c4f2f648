package truth

import (
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// Under the promise stable, the gradients of a stream may be computed in any form: sums over keys,
// queries and heads in any order and in parts of any size, by one pass or by several, with the scale in
// the exponents, in the queries, in ds or in the results. For a query let t be the exact exponents of
// the keys that it sees, p = 2^(t-lse), y = dp - delta, and ds = p·y·h.
//
//   - An exponent is off by d: a score by the error of a sum in the declared order, and by k = 4 units of
//     each product; other inputs of the body by k units; what the body computes from them by its own
//     roundings; k units of |t|, and one of |t-lse|. A power of two has the function's error f: so p is
//     off by P = p·(exp(ln 2·d + f) - 1) + what the function loses near zero.
//   - dp and delta are sums of products in the declared order. With Y the error of dp and k units of y,
//     and H that of h, ds is off by S = P·(|y|+Y)·(|h|+H) + p·Y·(|h|+H) + p·|y|·H, and by k units of all.
//   - All keys of a query share the error of delta, and k units of lse. So they add to the gradient of a
//     query the first times |Σ p·h·k|, and 2^(k units of |lse|) - 1 times |Σ ds·k|. A key sees them with
//     each query.
//   - p and ds may be rounded to the format of v, before or after a scale is multiplied into them. The
//     definition rounds them.
//   - A gradient is a sum over all that it depends on of p or ds times a value: off by the errors of
//     these, by those of a sum in the declared order with k units of each value, and by what the scale
//     makes of it.
//
// A product that may overflow, or a weight about which nothing is known, makes every result unknown that has it as
// a term.
//
// Errors are convex in the height h of sums. So those at height 0, and the rise from there to the largest
// height of any sum, bound those of every height in between.
func (f weighingBackward) encloseStable(s *Stable) error {
	longest := f.longest(s.call)
	most := s.o.Order.Height(longest)
	var declared, least, largest *looseGradients
	var exact *backwardWeigher[ball.Ball]
	for _, at := range []struct {
		of     **looseGradients
		height func(int) int
	}{{&declared, s.o.Order.Height}, {&least, func(int) int { return 0 }}, {&largest, func(int) int { return most }}} {
		inner, enclosures, err := newLooseRows(s, &f.Stream)
		if err != nil {
			return err
		}
		if inner.height = at.height; exact == nil {
			if exact, err = newBackwardWeigher(s.call, f.StreamBackward, ball.Ball{}, put(s.call, enclosures)); err != nil {
				return err
			}
		}
		inner.loose.scoreError = inner.scoreErrorOfGradients
		*at.of = &looseGradients{
			looseRows: inner, f: f.StreamBackward, weigher: exact, scale: largestOf(exact.scale),
			keys: map[int][]looseSum{}, values: map[int][]looseSum{},
		}
	}
	all := []*looseGradients{declared, least, largest}
	exact.watch = func(r *backwardRow[ball.Ball], q backwardSequence) error {
		for _, z := range all {
			if err := z.row(r, q); err != nil {
				return err
			}
		}
		return nil
	}
	if err := exact.all(); err != nil {
		return err
	}
	for _, z := range all {
		z.store(z.keys, f.KeyGradient, z.scale)
		z.store(z.values, f.ValueGradient, 1)
	}
	declared.finish()
	if most == 0 {
		return nil
	}
	s.shapes[rowSums] = shape{n: longest, order: s.o.Order}
	for i, o := range s.outputs {
		o.slopes[rowSums] = make([]float64, len(o.fixed))
		for k := range o.fixed {
			low, high := least.outputs[i].fixed[k], largest.outputs[i].fixed[k]
			if o.fixed[k] = low; high <= math.MaxFloat64 {
				o.slopes[rowSums][k] = (high - low) / (float64(most) * unit) * (1 + 0x1p-40)
			}
		}
	}
	return nil
}

// longest returns the number of terms of the longest sum.
func (f weighingBackward) longest(k *call) int {
	queries, keys := &k.operands[f.QueryStarts], &k.operands[f.KeyStarts]
	q := &k.operands[f.Query]
	n := q.Cols
	for b := range queries.Rows - 1 {
		n = max(n, int(keys.Int(b+1, 0)-keys.Int(b, 0)), int(queries.Int(b+1, 0)-queries.Int(b, 0))*q.Rows/max(1, q.Matrices()))
	}
	return n
}

// looseGradients finds the errors that stable admits in gradients.
type looseGradients struct {
	*looseRows
	f       *def.StreamBackward
	weigher *backwardWeigher[ball.Ball]
	scale   float64

	keys, values map[int][]looseSum // of gradients, by row
}

// looseSum is what the error of a sum of products follows from.
type looseSum struct {
	n            int     // terms
	size         float64 // Σ|factor·value|, the errors of factors included
	off          float64 // Σ|error·value|
	factors, all float64 // Σ|factor| and Σ|value|
}

func (s *looseSum) add(factor, off, value float64) {
	value = math.Abs(value)
	s.n++
	s.all += value
	s.factors += factor + off
	if off > math.MaxFloat64 {
		s.off = math.Inf(1)
		return
	}
	s.size += float64((factor + off) * value)
	s.off += float64(off * value)
}

// largestOf bounds what a ball holds.
func largestOf(x ball.Ball) float64 {
	if !x.Known() {
		return math.Inf(1)
	}
	_, _, most := reach(x)
	return most
}

// looseFactors are a weight and the gradient of a score, with their errors.
type looseFactors struct {
	p, pError, ds, dsError float64

	own, byDelta, byShift float64 // of dsError what keys do not share; and what is left of what they share
	signed, byDeltaSigned float64 // ds, and p·h
}

// sharedErrors are those that the keys of a query share: of delta, and relative ones of the weights.
type sharedErrors struct{ delta, weights float64 }

// row takes the errors of a query and head into the sums that depend on it.
func (z *looseGradients) row(r *backwardRow[ball.Ball], s backwardSequence) error {
	z.loose.rows = z.weigher.rows // of the sequence
	x, shared, err := z.factors(r, s)
	if err != nil {
		return err
	}
	w, row := z.loose, r.token*z.loose.heads*z.loose.shared+r.head
	q, do, key := &w.operands[z.f.Query], &w.operands[z.f.OutGradient], &w.operands[z.f.Key]
	query, ofDelta, ofWeights := make([]looseSum, w.depth), make([]float64, w.depth), make([]float64, w.depth)
	for c := range s.keys {
		if !r.visible[c] && x[c].pError == 0 {
			continue
		}
		at := w.rows[c]*w.heads + s.kv
		dk, dv := roomOf(z.keys, at, w.depth), roomOf(z.values, at, w.depth)
		for d := range w.depth {
			k := float64(key.At(at, d))
			query[d].add(x[c].ds, x[c].dsError, k)
			if query[d].off <= math.MaxFloat64 {
				query[d].off += float64((x[c].own + x[c].byDelta + x[c].byShift - x[c].dsError) * math.Abs(k))
			}
			ofDelta[d] += float64(x[c].byDeltaSigned * k)
			ofWeights[d] += float64(x[c].signed * k)
			dk[d].add(x[c].ds, x[c].dsError, float64(q.At(row, d)))
			dv[d].add(x[c].p, x[c].pError, float64(do.At(row, d)))
		}
	}
	for d := range query {
		query[d].off += float64(shared.delta*math.Abs(ofDelta[d])) + float64(shared.weights*math.Abs(ofWeights[d])) + float64(query[d].size*0x1p-40)
		z.outputs[z.f.QueryGradient].fixed[row*w.depth+d] = z.sumOf(&query[d], z.scale)
	}
	return nil
}

func roomOf(sums map[int][]looseSum, row, depth int) []looseSum {
	if sums[row] == nil {
		sums[row] = make([]looseSum, depth)
	}
	return sums[row]
}

// factors bounds p and ds of each key and their errors, and sets that of the gradient of a base.
func (z *looseGradients) factors(r *backwardRow[ball.Ball], s backwardSequence) ([]looseFactors, sharedErrors, error) {
	w, n := z.loose, s.keys
	x := make([]looseFactors, n)
	outputs, err := w.evaluate(r.token, r.head, n-(s.end-r.token), n)
	if err != nil {
		return nil, sharedErrors{}, err
	}
	exponents, visible := w.see(outputs, n)
	dp := make([]ball.Ball, n)
	w.scoreError = z.plainError
	w.products(dp, z.f.OutGradient, z.f.Value, r.token, r.head, n)
	w.scoreError = z.scoreErrorOfGradients
	shared := sharedErrors{z.deltaError(r.token*w.heads*w.shared + r.head), math.Expm1(float64(math.Ln2 * stableFactor * unit * largestOf(r.origin)))}
	wide, exact := outputs[z.f.Slope()].x, r.outputs[z.f.Slope()].x
	for c := range n {
		if r.visible[c] != visible[c] { // not even that is known
			x[c] = looseFactors{pError: math.Inf(1), dsError: math.Inf(1)}
			continue
		}
		if !visible[c] {
			continue
		}
		p, own := z.weight(exponents[c], r.exponents[c], r.origin)
		pError := own + float64(shared.weights*(p+own))
		y, yError := largestOf(r.dp[c].Sub(r.delta)), Radius(dp[c], r.dp[c])
		yError += float64(stableFactor * unit * (y + yError + shared.delta))
		h, hError := largestOf(at(exact, c)), Radius(at(wide, c), at(exact, c))
		ds := float64(p * y * h)
		e := float64(own*(y+yError+shared.delta)*(h+hError)) + float64(p*yError*(h+hError)) + float64(p*y*hError)
		byDelta := float64(shared.delta * (float64(pError*(h+hError)) + float64(p*hError)))
		byShift := float64(shared.weights * (e + byDelta + float64(shared.delta*p*h)))
		last := float64(stableFactor*unit*(ds+e)) + float64(stableFactor*z.lost()*(1+h)*(1+y+p))
		all := e + byDelta + byShift + float64(shared.delta*p*h) + float64(shared.weights*ds)
		x[c] = looseFactors{
			p: p, pError: z.stored(p, pError, 1), ds: ds, dsError: z.stored(ds, all+last, z.scale),
			byDelta: byDelta, byShift: byShift, signed: r.ds[c].Mid, byDeltaSigned: float64(r.p[c].Mid * at(exact, c).Mid),
		}
		x[c].own = x[c].dsError - all + e
	}
	if z.f.HasBase() {
		p, own := z.weight(outputs[2].x[0], r.outputs[2].x[0], r.origin)
		delta, pError := largestOf(r.delta), own+float64(shared.weights*(p+own))
		e := float64(pError*(delta+shared.delta)) + float64(p*shared.delta)
		e += float64(stableFactor*unit*(float64(p*delta)+e)) + float64(stableFactor*z.lost()*(1+delta))
		z.outputs[z.f.BaseGradient].fixed[(r.token*w.heads+s.kv)*w.shared+r.head%w.shared] = finite(e, float64(p*delta))
	}
	return x, shared, nil
}

// scoreErrorOfGradients bounds the error of a score, whose products have k units.
func (z *looseRows) scoreErrorOfGradients(p products, abs float64) float64 {
	return z.productError(p, abs, stableFactor*unit)
}

// plainError bounds the error of dp and delta.
func (z *looseGradients) plainError(p products, abs float64) float64 {
	return z.productError(p, abs, 0)
}

// weight bounds a power of two, whose exponent has a loose enclosure, and the error that is its own.
func (z *looseGradients) weight(loose, t, origin ball.Ball) (p, off float64) {
	difference, d := t.Sub(origin), Radius(loose, t)
	gap, size := largestOf(difference), largestOf(t)
	d += float64(stableFactor*unit*size) + float64(unit*(gap+d))
	if z.s.o.Declares.RawParams {
		d += float64(stableFactor * unit * size)
	}
	power := z.power()
	lo, hi := difference.Bounds()
	p = largestOf(difference.Exp2())
	off = float64(p*math.Expm1(float64(math.Ln2*d)+float64(2*power.ULPs*unit)+power.Relative+float64(2*power.ULPsPerX*unit*gap))) + z.absolute()
	if !(p+off <= math.MaxFloat32/nearOverflow) || !z.f.Weights(z.loose.dtype).Domain.Contains(lo-d, hi+d) {
		return 0, math.Inf(1)
	}
	return p, off * (1 + 0x1p-20)
}

// deltaError bounds the error of the product of a row of the mean and its gradient.
func (z *looseGradients) deltaError(row int) float64 {
	x, y := &z.loose.operands[z.f.OutGradient], &z.loose.operands[z.f.Out]
	p, abs := products{}, 0.0
	for d := range z.loose.depth {
		p.a, p.b = append(p.a, float64(x.At(row, d))), append(p.b, float64(y.At(row, d)))
		abs += math.Abs(float64(p.a[d] * p.b[d]))
	}
	return z.plainError(p, abs*(1+0x1p-40))
}

// stored adds to the error of a factor what a rounding to the format of v makes, before a scale or after it.
func (z *looseGradients) stored(x, off, scale float64) float64 {
	relative, eta, limit := storageError(z.loose.dtype)
	if !((x+off)*max(1, scale) <= limit/nearOverflow) {
		return math.Inf(1)
	}
	if z.loose.dtype == num.F32 {
		return off
	}
	if scale > 0 && scale < 1 {
		eta /= scale
	}
	return off + float64(relative*(x+off)) + eta
}

// store sets the errors of an output whose rows are sums.
func (z *looseGradients) store(rows map[int][]looseSum, operand int, scale float64) {
	for row, sums := range rows {
		for d := range sums {
			z.outputs[operand].fixed[row*z.loose.depth+d] = z.sumOf(&sums[d], scale)
		}
	}
}

// sumOf bounds the error of a sum of products, times a scale.
func (z *looseGradients) sumOf(s *looseSum, scale float64) float64 {
	if s.n == 0 {
		return 0
	}
	g := z.sumError(s.n, 3) + stableFactor*unit
	e := s.off + float64(g*s.size) + float64(float64(s.n+stableFactor)*z.lost()*(1+g))
	if z.s.o.Declares.FlushesSubnormals {
		e += float64(z.lost() * (s.factors + s.all))
	}
	e = float64(scale*e*(1+stableFactor*unit)) + float64(stableFactor*z.lost()*(1+s.size+scale))
	return finite(e, max(1, scale)*s.size)
}

// finite returns an error, or that nothing is known where a value of the given size may overflow.
func finite(e, size float64) float64 {
	if !(e+size <= math.MaxFloat32/nearOverflow) {
		return math.Inf(1)
	}
	return e * (1 + 0x1p-20)
}
