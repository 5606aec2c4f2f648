package truth

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/promise"
)

// Under the promise stable, a stream may be computed in any form: in other blocks, in any order, with
// the scale in the exponents or in the queries, by two passes over the keys or by one. For a query
// let t be the exact exponents of the keys that it sees, and w their weights, 2^t over the sum.
//
//   - An exponent is off by d: a score by the error of a sum in the declared order, and by k = 4 units
//     of each factor; other inputs of the body by k units; what the body computes from them by its own
//     roundings. A kernel subtracts maxima, which are exponents, rounded as it likes: k units of the
//     largest |t|, and one of the difference max t - t.
//   - A weight is a power of two that has the function's error, and is multiplied by another one
//     whenever the largest exponent grows: as often as in the definition's own blocks, with that error
//     each, and with 2 ulps in every 16 keys. So its relative error is at most e = exp(ln 2·d + f) - 1.
//   - If weights are w·(1+e) up to a common factor, the mean of values v differs from the exact one, o, by
//     Σ w·e·(v-o) / (1 + Σ w·e), at most Σ w·|e|·|v-o| / (1-M) with M = Σ w·|e|. Where M is not below
//     1/2, nothing is known.
//   - The two sums, the rescaling of both, reciprocal and product, and k units of each v and of the
//     result, are relative to W = Σ w·(1+|e|)·|v| / (1-M). So is the rounding of a weight to the format
//     of v, which the definition has; a kernel may round normalised weights, so that half of the format's
//     smallest number counts for each key.
//   - The logarithm of the sum is off by -log2(1 - M - errors of the sum), its function by its error, and
//     the result by k units.
//
// A base is a key whose value is 0.
func (f weighing) encloseStable(s *Stable) error {
	z, enclosures, err := newLooseRows(s, f.Stream)
	if err != nil {
		return err
	}
	if z.exact, err = newWeigher(s.call, f.Stream, ball.Ball{}, put(s.call, enclosures)); err != nil {
		return err
	}
	z.exact.watch = z.row
	if err := z.exact.all(nil); err != nil {
		return err
	}
	z.finish()
	return nil
}

// newLooseRows returns what finds the errors of a stream or of its gradients, and room for their exact
// results.
func newLooseRows(s *Stable, f *def.Stream) (*looseRows, [][]ball.Ball, error) {
	if s.o.Accum.P > 0 {
		return nil, nil, fmt.Errorf("%s: a stream has no panels", s.call.d.Name)
	}
	if len(s.o.Declares.Roundings) > 0 {
		return nil, nil, fmt.Errorf("%s: roundings of the values of a stream cannot be declared", s.call.d.Name)
	}
	z := &looseRows{s: s, f: f, outputs: map[int]*stableOutput{}, height: s.o.Order.Height}
	enclosures := room[ball.Ball](s.call)
	for i, list := range enclosures {
		if list != nil {
			z.outputs[i] = &stableOutput{exact: list, fixed: make([]float64, len(list))}
		}
	}
	loose := *s.call
	loose.Options.Mode, loose.Options.Order = Rounded, nil
	for _, n := range f.Math.Nodes {
		if n.Op == def.OpCall {
			e := s.errorOf(functionNames[n.Func.Math], max(n.Func.ULPs, s.o.FunctionULP))
			loose.FunctionULP = max(loose.FunctionULP, e.ULPs+e.Relative/(2*unit))
		}
	}
	var err error
	if z.loose, err = newWeigher(&loose, f, ball.Ball{}, nil); err != nil {
		return nil, nil, err
	}
	z.loose.scoreError, z.loose.inputError = z.scoreError, stableFactor*unit
	return z, enclosures, nil
}

// finish makes the sets.
func (z *looseRows) finish() {
	for _, o := range z.outputs {
		o.box = make([]ball.Ball, len(o.exact))
		for i, x := range o.exact {
			o.box[i] = x.Widen(0, o.fixed[i])
		}
	}
	z.s.outputs = z.outputs
}

// looseRows finds the errors that stable admits, row by row.
type looseRows struct {
	s       *Stable
	f       *def.Stream
	exact   *weigher[ball.Ball]
	loose   *weigher[ball.Ball] // evaluates exponents with all their errors
	outputs map[int]*stableOutput
	height  func(terms int) int // of a sum
}

// scoreError bounds the error of a score, whose factors have k units each.
func (z *looseRows) scoreError(p products, abs float64) float64 {
	return z.productError(p, abs, 2*stableFactor*unit)
}

// productError bounds the error of a sum of products: in the declared order, and by steps of the model.
// The products have an error of their own.
func (z *looseRows) productError(p products, abs, each float64) float64 {
	n := len(p.a)
	g := gamma(z.height(n)+1) + each
	e := float64(g*abs) + float64(float64(n)*z.lost()*(1+g))
	if z.s.o.Declares.FlushesSubnormals {
		sizes := sizesOf(p)
		e += float64(z.lost() * (sizes[0] + sizes[1]))
	}
	if z.s.o.Accum != def.FMAChain {
		e = max(e, stepsError(p, z.loose.dtype, z.s.o.Accum)+float64(each*abs))
	}
	if !(abs+e <= math.MaxFloat32/nearOverflow) {
		return math.Inf(1)
	}
	return e * (1 + 0x1p-40)
}

// sumError bounds the relative error of a sum of n products, and of more steps.
func (z *looseRows) sumError(n, more int) float64 {
	e := gamma(z.height(n) + more)
	if z.s.o.Accum != def.FMAChain { // as if every product were a step of its own
		e += float64(float64(n+1) * (math.Ldexp(1, -z.s.o.Accum.F) + 0x1p-23))
	}
	return e
}

// lost is what underflow may lose.
func (z *looseRows) lost() float64 {
	if z.s.o.Declares.FlushesSubnormals {
		return smallestNormal
	}
	return tiny
}

// seenKey is a key that a query sees, or its base.
type seenKey struct {
	t, d float64 // the exponent, and its error
	key  int     // -1: the base
	w, e float64 // the weight, and its relative error
}

// row sets the errors of a query and head.
func (z *looseRows) row(x *streamRow[ball.Ball]) error {
	z.loose.rows = z.exact.rows // of the sequence
	wide, err := z.loose.look(x.t, x.head, x.place, x.n)
	if err != nil {
		return err
	}
	keys, isKnown := z.keys(x, wide)
	w := z.loose
	logAt := x.t*w.heads*w.shared + x.head
	if len(keys) == 0 && isKnown {
		return nil // nothing is seen
	}
	unknown := func() {
		z.outputs[z.f.LogSum].fixed[logAt] = math.Inf(1)
		for d := range w.depth {
			z.outputs[z.f.Out].fixed[logAt*w.depth+d] = math.Inf(1)
		}
	}
	if !isKnown {
		unknown()
		return nil
	}
	shift, sum, isBounded := z.weigh(x, keys)
	if !isBounded {
		unknown()
		return nil
	}
	n := len(keys)
	height := z.sumError(n, 1+z.rescales(x, keys)+(n+15)/16)
	relative, eta, _ := storageError(w.dtype)
	if w.dtype == num.F32 {
		relative, eta = 0, 0
	}
	inverse := z.s.errorOf("div", 0.5)
	last := float64(2*inverse.ULPs*unit) + inverse.Relative + unit
	v := &w.operands[z.f.Value]
	lost := z.lost()
	for d := range w.depth {
		mean, all, size := 0.0, 0.0, 0.0
		for i := range keys {
			value := z.value(v, x, keys[i].key, d)
			all += math.Abs(value)
			mean += float64(keys[i].w * value)
			size += float64(keys[i].w * (1 + keys[i].e) * math.Abs(value))
		}
		size /= 1 - shift
		moved := 0.0
		for i := range keys {
			moved += float64(keys[i].w * keys[i].e * math.Abs(z.value(v, x, keys[i].key, d)-mean))
		}
		steps := height + height + last + stableFactor*unit
		absolute := eta + float64(z.absolute()*float64(2+n/16))
		e := moved/(1-shift) + float64(size*(float64((1+relative)*(1+steps))-1)) + float64(absolute*(all+float64(float64(n)*size))) + float64(4*float64(n+4)*lost*(1+size))
		if z.s.o.Declares.FlushesSubnormals {
			e += float64(lost * all)
		}
		if !(all+e <= math.MaxFloat32/nearOverflow) {
			e = math.Inf(1)
		}
		z.outputs[z.f.Out].fixed[logAt*w.depth+d] = e * (1 + 0x1p-20)
	}
	log := z.s.errorOf("log2", max(z.f.Functions.Log2.ULPs, z.s.o.FunctionULP))
	off := shift + height + float64(float64(n)*(float64(z.absolute()*float64(2+n/16))+lost))
	largest := math.Abs(math.Log2(sum))
	relative = float64(2*log.ULPs*unit) + log.Relative + stableFactor*unit
	e := -math.Log1p(-min(off, 0.9))/math.Ln2 + float64(relative*largest) + log.Absolute + 4*lost
	z.outputs[z.f.LogSum].fixed[logAt] = e * (1 + 0x1p-20)
	return nil
}

// keys returns what a query sees, and whether all of it is known.
func (z *looseRows) keys(x, wide *streamRow[ball.Ball]) (keys []seenKey, isKnown bool) {
	isKnown = true
	add := func(key int, t, loose ball.Ball) {
		r := Radius(loose, t)
		isKnown = isKnown && t.Known() && r <= math.MaxFloat32/nearOverflow && t.Rad <= 0x1p-20
		keys = append(keys, seenKey{t: t.Mid, d: r, key: key})
	}
	for c := range x.n {
		if x.visible[c] || wide.visible[c] {
			isKnown = isKnown && x.visible[c] == wide.visible[c]
			add(c, x.exponents[c], wide.exponents[c])
		}
	}
	if z.f.HasBase() {
		add(-1, x.base, wide.base)
	}
	return keys, isKnown
}

// weigh sets weights and their errors. It returns M, and the sum of 2^(t - max t).
func (z *looseRows) weigh(x *streamRow[ball.Ball], keys []seenKey) (shift, sum float64, isBounded bool) {
	largest, size, most := math.Inf(-1), 0.0, 0.0
	for _, k := range keys {
		largest, size, most = max(largest, k.t), max(size, math.Abs(k.t)), max(most, k.d)
	}
	power := z.power()
	raw := 0.0
	if z.s.o.Declares.RawParams {
		raw = stableFactor * unit
	}
	times := float64(1 + z.rescales(x, keys))
	for i := range keys {
		k := &keys[i]
		gap := largest - k.t
		d := k.d + float64((stableFactor*unit+raw)*size) + float64(unit*(gap+most+most))
		f := float64(times*(float64(2*power.ULPs*unit)+power.Relative)) + float64(2*power.ULPsPerX*unit*gap) + float64(float64((len(keys)+15)/16)*(2*2*unit))
		k.e = math.Expm1(float64(math.Ln2*d) + f)
		k.w = math.Exp2(-gap)
		sum += k.w
	}
	for i := range keys {
		if keys[i].w /= sum; keys[i].w > 0 {
			shift += float64(keys[i].w * keys[i].e)
		} else {
			keys[i].e = 0
		}
	}
	return shift, sum, shift < 0.5
}

// power is the error of a power of two.
func (z *looseRows) power() promise.Error {
	return z.s.errorOf("exp2", max(z.f.Weights(z.loose.dtype).ULPs, z.s.o.FunctionULP))
}

// absolute is the error of a power of two that is relative to the largest weight.
func (z *looseRows) absolute() float64 {
	f, power := z.f.Weights(z.loose.dtype), z.power()
	return power.Absolute + f.Absolute + max(float64((2*power.ULPs+power.Relative/unit)*z.lost()), 1/math.MaxFloat32)
}

// rescales counts the blocks of the definition, and its segments, in which the largest exponent may
// grow.
func (z *looseRows) rescales(x *streamRow[ball.Ball], keys []seenKey) int {
	most, count := 0, 0
	largest, segment := math.Inf(-1), 0
	for i, k := range keys {
		if k.key < 0 {
			continue
		}
		if k.key/def.StreamSegment != segment {
			segment, count, largest = k.key/def.StreamSegment, 0, math.Inf(-1)
		}
		isFirst := i == 0 || keys[i-1].key/def.StreamBlock != k.key/def.StreamBlock
		if isFirst {
			block, least := math.Inf(-1), math.Inf(-1)
			for _, other := range keys[i:] {
				if other.key < 0 || other.key/def.StreamBlock != k.key/def.StreamBlock {
					break
				}
				block, least = max(block, other.t+other.d), max(least, other.t-other.d)
			}
			if block > largest && (!math.IsInf(largest, -1) || z.f.HasBase()) {
				count++
			}
			largest = max(largest, least)
			most = max(most, count)
		}
	}
	return most + (x.n-1)/def.StreamSegment
}

// value returns a value of a key, 0 for a base.
func (z *looseRows) value(v *num.Array, x *streamRow[ball.Ball], key, d int) float64 {
	if key < 0 {
		return 0
	}
	return float64(v.At(z.loose.rows[key]*z.loose.heads+x.head/z.loose.shared, d))
}
