package truth

import (
	"math"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// weighingBackward evaluates the gradients of streams, one sequence and head of keys after another.
type weighingBackward struct{ *def.StreamBackward }

func (f weighingBackward) enclose(k *call, r *Result) error {
	if k.Mode == Rounded && k.Order != nil {
		return encloseInOrder(k, r)
	}
	r.enclosures = room[ball.Ball](k)
	return weighBackward(k, f.StreamBackward, ball.Ball{}, nil, put(k, r.enclosures))
}

func (f weighingBackward) round(k *call, z *Rounding, open *places) error {
	return weighBackward(k, f.StreamBackward, ball.NewBig(0, bigPrec), open, roundOpen(k, z, open))
}

func (weighingBackward) findGrid(*Grid, GridOptions) error { return nil }

func (weighingBackward) findForms(*Forms) error { return nil }

// backwardWeigher evaluates the gradients of a stream in one kind of number.
type backwardWeigher[T ball.Number[T]] struct {
	*weigher[T]
	f     *def.StreamBackward
	open  *places // nil for all
	scale T
	watch func(r *backwardRow[T], s backwardSequence) error // if not nil, is called with every row
}

func weighBackward[T ball.Number[T]](k *call, f *def.StreamBackward, zero T, open *places, yield func(operand, row, col int, v T)) error {
	w, err := newBackwardWeigher(k, f, zero, yield)
	if err != nil {
		return err
	}
	w.open = open
	return w.all()
}

func newBackwardWeigher[T ball.Number[T]](k *call, f *def.StreamBackward, zero T, yield func(operand, row, col int, v T)) (*backwardWeigher[T], error) {
	inner, err := newWeigher(k, &f.Stream, zero, yield)
	if err != nil {
		return nil, err
	}
	w := &backwardWeigher[T]{weigher: inner, f: f}
	outputs, err := w.evaluate(-1, 0, 0, 0)
	if err != nil {
		return nil, err
	}
	w.scale = outputs[f.Scale()].x[0]
	return w, nil
}

// all evaluates the gradients, or those that have open places.
func (w *backwardWeigher[T]) all() error {
	queries := &w.operands[w.f.QueryStarts]
	for b := range queries.Rows - 1 {
		keys := w.enter(b)
		for kv := range w.heads {
			if err := w.sequence(backwardSequence{int(queries.Int(b, 0)), int(queries.Int(b+1, 0)), keys, kv}); err != nil {
				return err
			}
		}
	}
	return nil
}

// backwardSequence is a sequence and head of keys.
type backwardSequence struct{ first, end, keys, kv int }

// isWanted reports whether a row of an output has open places.
func (w *backwardWeigher[T]) isWanted(operand, row int) bool {
	return w.open == nil || w.open.operand == operand && len(w.open.columns[row]) > 0
}

// backwardRow is what a query and head gives to the gradients of keys.
type backwardRow[T any] struct {
	token, head int
	p, ds       []T // as stored
	visible     []bool

	outputs       []vector[T] // of the body
	exponents, dp []T
	origin, delta T
}

func (w *backwardWeigher[T]) sequence(s backwardSequence) error {
	var wanted []int // keys
	for c := range s.keys {
		if row := w.rows[c]*w.heads + s.kv; w.isWanted(w.f.KeyGradient, row) || w.isWanted(w.f.ValueGradient, row) {
			wanted = append(wanted, c)
		}
	}
	dk, dv := make([]T, s.keys*w.depth), make([]T, s.keys*w.depth)
	for i := range dk {
		dk[i], dv[i] = w.zero.FromFloat64(0), w.zero.FromFloat64(0)
	}
	for head := s.kv * w.shared; head < (s.kv+1)*w.shared; head++ {
		var rows []backwardRow[T] // of a segment
		for t := s.first; t < s.end; t++ {
			if err := w.ended(); err != nil {
				return err
			}
			if len(rows) > 0 && (s.keys-(s.end-t))%def.StreamSegment == 0 {
				w.addSegment(dk, dv, rows, wanted)
				rows = nil
			}
			isWanted := len(wanted) > 0 || w.isWanted(w.f.QueryGradient, t*w.heads*w.shared+head)
			if w.f.HasBase() {
				isWanted = isWanted || w.isWanted(w.f.BaseGradient, t*w.heads+s.kv)
			}
			if !isWanted {
				continue
			}
			row, err := w.row(t, head, s)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		w.addSegment(dk, dv, rows, wanted)
	}
	for _, c := range wanted {
		row := w.rows[c]*w.heads + s.kv
		for d := range w.depth {
			w.yield(w.f.KeyGradient, row, d, w.step(dk[c*w.depth+d].Mul(w.scale), tiny))
			w.yield(w.f.ValueGradient, row, d, dv[c*w.depth+d])
		}
	}
	return nil
}

// row evaluates a query and head, and gives the gradients of the query and the base.
func (w *backwardWeigher[T]) row(t, head int, s backwardSequence) (r backwardRow[T], err error) {
	n := s.keys
	outputs, err := w.evaluate(t, head, n-(s.end-t), n)
	if err != nil {
		return r, err
	}
	r = backwardRow[T]{token: t, head: head, p: make([]T, n), ds: make([]T, n), dp: make([]T, n), outputs: outputs}
	r.exponents, r.visible = w.see(outputs, n)
	z := float64(w.operands[w.f.LogSum].At(t*w.heads+s.kv, head%w.shared))
	if math.IsInf(z, -1) {
		z = 0
	}
	r.origin, r.delta = w.zero.FromFloat64(z), w.delta(t*w.heads*w.shared+head)
	w.products(r.dp, w.f.OutGradient, w.f.Value, t, head, n)
	slopes := outputs[w.f.Slope()].x
	for c := range n {
		if !r.visible[c] {
			continue
		}
		r.p[c] = w.bounded(r.exponents[c], r.origin)
		r.ds[c] = w.step(r.p[c].Mul(w.step(r.dp[c].Sub(r.delta), 0)), tiny)
		r.ds[c] = w.step(r.ds[c].Mul(slopes[min(c, len(slopes)-1)]), tiny)
		if w.Mode == Rounded {
			w.rounding.store(r.p[c:c+1], w.dtype)
			w.rounding.store(r.ds[c:c+1], w.dtype)
		}
	}
	w.query(&r, s)
	if w.f.HasBase() {
		x := w.step(w.bounded(outputs[2].x[0], r.origin).Mul(r.delta), tiny).Neg()
		ln2 := w.zero.FromFloat64(2).Log()
		if w.Mode == Rounded {
			ln2 = w.zero.FromFloat64(float64(float32(math.Ln2)))
		}
		w.yield(w.f.BaseGradient, t*w.heads+s.kv, head%w.shared, w.step(x.Mul(ln2), tiny))
	}
	if w.watch != nil {
		return r, w.watch(&r, s)
	}
	return r, nil
}

// bounded returns 2^(x-z). Nothing is known of one that may overflow, or of what the function does not promise.
func (w *backwardWeigher[T]) bounded(x, z T) T {
	difference := w.step(x.Sub(z), 0)
	y := w.power(difference)
	if _, high := y.Bounds(); w.Mode == Rounded && (!(high <= math.MaxFloat32) || !w.f.Weights(w.dtype).Domain.Contains(difference.Bounds())) {
		return w.unknown()
	}
	return y
}

// delta evaluates the product of a row of the mean and its gradient.
func (w *backwardWeigher[T]) delta(row int) T {
	x, y := &w.operands[w.f.OutGradient], &w.operands[w.f.Out]
	terms := make([]T, w.depth)
	for d := range terms {
		terms[d] = w.step(w.zero.FromFloat64(float64(x.At(row, d))).Mul(w.zero.FromFloat64(float64(y.At(row, d)))), tiny)
	}
	return w.rounding.sum(terms, w.shape(w.depth, num.RowLanes(w.depth)))
}

// query gives the gradient of a query and head.
func (w *backwardWeigher[T]) query(r *backwardRow[T], s backwardSequence) {
	if !w.isWanted(w.f.QueryGradient, r.token*w.heads*w.shared+r.head) {
		return
	}
	sums := make([]T, w.depth)
	for d := range sums {
		sums[d] = w.zero.FromFloat64(0)
	}
	key := &w.operands[w.f.Key]
	for first := (s.keys - 1) / def.StreamBlock * def.StreamBlock; first >= 0; first -= def.StreamBlock {
		var seen []int
		var factors []T
		for c := first; c < min(first+def.StreamBlock, s.keys); c++ {
			if r.visible[c] {
				seen, factors = append(seen, w.rows[c]*w.heads+s.kv), append(factors, r.ds[c])
			}
		}
		w.addRows(sums, factors, key, seen)
	}
	for d, x := range sums {
		w.yield(w.f.QueryGradient, r.token*w.heads*w.shared+r.head, d, w.step(x.Mul(w.scale), tiny))
	}
}

// addSegment adds what the queries of a segment give to the gradients of keys and values.
func (w *backwardWeigher[T]) addSegment(dk, dv []T, rows []backwardRow[T], wanted []int) {
	for _, c := range wanted {
		var seen []int
		var ds, p []T
		for _, r := range rows {
			if r.visible[c] {
				seen, ds, p = append(seen, r.token*w.heads*w.shared+r.head), append(ds, r.ds[c]), append(p, r.p[c])
			}
		}
		w.addRows(dk[c*w.depth:][:w.depth], ds, &w.operands[w.f.Query], seen)
		w.addRows(dv[c*w.depth:][:w.depth], p, &w.operands[w.f.OutGradient], seen)
	}
}

// addRows adds a sum of rows of an operand, each times its factor.
func (w *backwardWeigher[T]) addRows(sums, factors []T, a *num.Array, rows []int) {
	if len(rows) == 0 {
		return
	}
	p := products{a: make([]float64, len(rows)), b: make([]float64, len(rows))}
	for i := range rows {
		_, p.a[i] = factors[i].Abs().Bounds()
	}
	terms := make([]T, len(rows))
	for d := range sums {
		abs := 0.0
		for i, row := range rows {
			x := float64(a.At(row, d))
			terms[i] = factors[i].Mul(w.zero.FromFloat64(x))
			p.b[i] = max(x, -x)
			abs += float64(p.a[i] * p.b[i])
		}
		part := w.zero.FromFloat64(0).Sum(terms)
		if w.Mode == Rounded && part.Known() {
			part = part.Widen(0, w.sumError(p, abs*(1+0x1p-40)))
		}
		sums[d] = w.step(sums[d].Add(part), 0)
	}
}
