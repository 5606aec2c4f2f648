package truth

import (
	"fmt"
	"slices"

	"tokitai/def"
	"tokitai/num"
	"tokitai/num/ball"
)

// weighing evaluates streams, one query and head after another.
type weighing struct{ *def.Stream }

func (f weighing) enclose(k *call, r *Result) error {
	if k.Mode == Rounded && k.Order != nil { // in another order, exponents are taken relative to other maxima
		return encloseInOrder(k, r)
	}
	r.enclosures = room[ball.Ball](k)
	return weighAll(k, f.Stream, ball.Ball{}, nil, put(k, r.enclosures))
}

// encloseInOrder encloses what a stream, or its gradients, may be in an order of sums.
func encloseInOrder(k *call, r *Result) error {
	s, err := EncloseStable(k.d, k.operands, StableOptions{Params: k.Params, Accum: k.Accum, Order: *k.Order, FunctionULP: k.FunctionULP, Context: k.Context})
	if err != nil {
		return err
	}
	r.enclosures = make([][]ball.Ball, len(k.d.Operands))
	for i, z := range s.outputs {
		r.enclosures[i] = z.box
	}
	return nil
}

func (f weighing) round(k *call, z *Rounding, open *places) error {
	return weighAll(k, f.Stream, ball.NewBig(0, bigPrec), open, roundOpen(k, z, open))
}

// roundOpen rounds the elements of open places.
func roundOpen(k *call, z *Rounding, open *places) func(operand, row, col int, v ball.Big) {
	cols, dtype := k.operands[open.operand].Cols, k.operands[open.operand].DType
	return func(operand, row, col int, v ball.Big) {
		i := row*cols + col
		if operand != open.operand || z.State[i] != Undecided {
			return
		}
		lo, hi := between(dtype, v)
		var isDecided bool
		if z.Bits[i], isDecided = decide(dtype, lo, hi); isDecided {
			z.State[i] = ByBig
		}
	}
}

func (weighing) findGrid(*Grid, GridOptions) error { return nil }

func (weighing) findForms(*Forms) error { return nil }

// weigher evaluates the rows of a stream in one kind of number.
type weigher[T ball.Number[T]] struct {
	*call
	f        *def.Stream
	zero     T
	rounding rounding[T]
	dtype    num.DType
	yield    func(operand, row, col int, v T)
	watch    func(x *streamRow[T]) error // if not nil, is called with every row

	scoreError func(p products, abs float64) float64 // of a rounded score; nil is that of the model
	inputError float64                               // relative, of what the body reads

	heads, shared, depth int   // G, J and D
	rows                 []int // of k and v: where the keys of the sequence lie
}

// streamRow is what a query and head, which stands at a place among n keys, sees.
type streamRow[T any] struct {
	t, head, place, n int

	exponents []T
	visible   []bool
	base      T
}

// weighAll evaluates the rows of a stream, or those that have open places.
func weighAll[T ball.Number[T]](k *call, f *def.Stream, zero T, open *places, yield func(operand, row, col int, v T)) error {
	w, err := newWeigher(k, f, zero, yield)
	if err != nil {
		return err
	}
	return w.all(open)
}

// all evaluates the rows, or those that have open places.
func (w *weigher[T]) all(open *places) error {
	k, f := w.call, w.f
	queries := &k.operands[f.QueryStarts]
	for b := range queries.Rows - 1 {
		first, end := int(queries.Int(b, 0)), int(queries.Int(b+1, 0))
		n := w.enter(b)
		for t := first; t < end; t++ {
			if err := k.ended(); err != nil {
				return err
			}
			for head := range w.heads * w.shared {
				if open != nil && !w.isOpen(open, t, head) {
					continue
				}
				if err := w.row(t, head, n-(end-t), n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func newWeigher[T ball.Number[T]](k *call, f *def.Stream, zero T, yield func(operand, row, col int, v T)) (*weigher[T], error) {
	q, key := &k.operands[f.Query], &k.operands[f.Key]
	if axes := len(k.d.Operands[f.Key].BatchDims()); q.Batch.Count != 2 || key.Batch.Count != axes {
		return nil, fmt.Errorf("%s: %s and %s have %d and %d batch axes, want 2 and %d", k.d.Name, k.d.Operands[f.Query].Name, k.d.Operands[f.Key].Name, q.Batch.Count, key.Batch.Count, axes)
	}
	w := &weigher[T]{call: k, f: f, zero: zero, rounding: roundingOf(k.Options, zero), dtype: q.DType, yield: yield}
	w.heads, w.depth = q.Batch.Axes[1].Size, q.Cols
	w.shared = q.Rows / max(1, q.Matrices())
	return w, nil
}

// enter finds the keys of a sequence, and returns how many it has.
func (w *weigher[T]) enter(b int) int {
	w.rows = w.rows[:0]
	if !w.f.IsPaged() {
		starts := &w.operands[w.f.KeyStarts]
		for row := starts.Int(b, 0); row < starts.Int(b+1, 0); row++ {
			w.rows = append(w.rows, int(row))
		}
		return len(w.rows)
	}
	each, left := w.operands[w.f.Key].Batch.Axes[1].Size, int(w.operands[w.f.Lengths].Int(b, 0))
	for page := 0; left > 0; page, left = page+1, left-each {
		first := int(w.operands[w.f.Pages].Int(b, page)) * each
		for i := range min(each, left) {
			w.rows = append(w.rows, first+i)
		}
	}
	return len(w.rows)
}

// isOpen reports whether a query and head has open places.
func (w *weigher[T]) isOpen(open *places, t, head int) bool {
	if open.operand == w.f.Out {
		return len(open.columns[t*w.heads*w.shared+head]) > 0
	}
	return slices.Contains(open.columns[t*w.heads+head/w.shared], head%w.shared)
}

// carriedTruth is what is carried from block to block.
type carriedTruth[T any] struct {
	m, l    T
	o       []T
	isEmpty bool // nothing was seen: m is the exponent of nothing
}

// row evaluates a query and head that stands at a place among n keys.
func (w *weigher[T]) row(t, head, place, n int) error {
	x, err := w.look(t, head, place, n)
	if err != nil {
		return err
	}
	if w.watch != nil {
		if err := w.watch(x); err != nil {
			return err
		}
	}
	exponents, visible, base := x.exponents, x.visible, x.base
	all := carriedTruth[T]{isEmpty: true}
	for first := 0; first == 0 || first < n; first += def.StreamSegment {
		part := carriedTruth[T]{l: w.zero.FromFloat64(0), isEmpty: true}
		for range w.depth {
			part.o = append(part.o, w.zero.FromFloat64(0))
		}
		if first == 0 && w.f.HasBase() {
			part.m, part.l, part.isEmpty = base, w.zero.FromFloat64(1), false
		}
		for block := first; block < min(first+def.StreamSegment, n); block += def.StreamBlock {
			w.block(&part, head, exponents, visible, block, min(block+def.StreamBlock, n))
		}
		switch {
		case part.isEmpty:
		case all.isEmpty:
			all = part
		default:
			w.join(&all, part)
		}
	}
	w.store(t, head, all)
	return nil
}

// look evaluates what a query and head sees.
func (w *weigher[T]) look(t, head, place, n int) (*streamRow[T], error) {
	x := &streamRow[T]{t: t, head: head, place: place, n: n}
	var err error
	x.exponents, x.visible, x.base, err = w.body(t, head, place, n)
	return x, err
}

// unknown returns a number that nothing is known of.
func (w *weigher[T]) unknown() T { return w.zero.FromFloat64(0).Recip() }

// body evaluates the exponents of a query and head, and finds the keys that it sees. A key of
// which that is unknown has an unknown exponent, and is seen.
func (w *weigher[T]) body(t, head, place, n int) (exponents []T, visible []bool, base T, err error) {
	if n == 0 && !w.f.HasBase() {
		return nil, nil, base, nil
	}
	values, err := w.evaluate(t, head, place, n)
	if err != nil {
		return nil, nil, base, err
	}
	exponents, visible = w.see(values, n)
	if w.f.HasBase() {
		base = values[2].x[0]
	}
	return exponents, visible, base, nil
}

// see returns the exponents of n keys, and which of the keys are seen, from the outputs of the body.
func (w *weigher[T]) see(outputs []vector[T], n int) (exponents []T, visible []bool) {
	exponents, visible = outputs[0].x[:n], make([]bool, n)
	for c := range n {
		switch s := outputs[1].i[min(c, len(outputs[1].i)-1)]; {
		case !s.isOne():
			exponents[c], visible[c] = w.unknown(), true
		default:
			visible[c] = s.one != 0
		}
	}
	return exponents, visible
}

// evaluate evaluates the outputs of the body for a query and head and n keys; of no query if t is -1.
func (w *weigher[T]) evaluate(t, head, place, n int) ([]vector[T], error) {
	d := w.f.Body
	inner := &call{d: d, operands: make([]num.Array, len(d.Operands)), Options: w.Options}
	for i := range d.Operands {
		o, dtype, cols := &d.Operands[i], num.F32, 1
		if o.IsInt() {
			dtype = num.I32
		}
		if i < len(w.f.Reads) && w.f.Reads[i] >= 0 {
			dtype = w.operands[w.f.Reads[i]].DType
		}
		if o.Extent&def.PerColumn != 0 {
			cols = max(n, 1)
		}
		inner.operands[i] = num.NewArray(dtype, 1, cols)
	}
	for i, read := range w.f.Reads {
		a := &inner.operands[i]
		switch {
		case t < 0:
		case read >= 0:
			w.read(a, read, t, head, n)
		case i == 1:
			a.SetBits(0, 0, uint32(int32(place)))
		case i == 2:
			for c := range n {
				a.SetBits(0, c, uint32(c))
			}
		case i == 3:
			a.SetBits(0, 0, uint32(head))
		}
	}
	e := &evaluator[T]{call: inner, zero: w.zero, rounding: w.rounding}
	if err := e.size(); err != nil {
		return nil, err
	}
	e.instead = func(node *def.Node) {
		if node.Op == def.OpInput && node.Operand == 0 {
			if n > 0 {
				w.products(e.values[node.ID].x, w.f.Query, w.f.Key, t, head, n)
			}
			return
		}
		e.evaluate(node)
		if node.Op == def.OpInput && node.Type == def.Float && w.inputError > 0 {
			for i, x := range e.values[node.ID].x {
				e.values[node.ID].x[i] = x.Widen(w.inputError, 0)
			}
		}
	}
	e.mark(d.Math().Outputs)
	e.begin(upTo(max(n, 1)))
	e.each(e.perRow)
	var outputs []vector[T]
	for _, o := range d.Math().Outputs {
		outputs = append(outputs, e.values[o.Value.ID])
	}
	return outputs, e.err
}

// read copies what a query and head reads of an operand.
func (w *weigher[T]) read(to *num.Array, operand, t, head, n int) {
	dims, from := w.d.Operands[operand].Dims, &w.operands[operand]
	g, j := head/w.shared, head%w.shared
	switch {
	case dims[0] == "G":
		to.SetBits(0, 0, from.Bits(g, j))
	case dims[0] == "T" && len(dims) == 3:
		to.SetBits(0, 0, from.Bits(t*w.heads+g, j))
	case dims[0] == "T":
		to.SetBits(0, 0, from.Bits(t, 0))
	default:
		if len(dims) == 1 {
			g = 0
		}
		for c := range n {
			to.SetBits(0, c, from.Bits(w.rows[c], g))
		}
	}
}

// products sets the product of a query's row of one operand and each key's row of another.
func (w *weigher[T]) products(out []T, left, right, t, head, n int) {
	q, key := &w.operands[left], &w.operands[right]
	p := products{a: make([]float64, w.depth), b: make([]float64, w.depth)}
	for i := range w.depth {
		p.a[i] = float64(q.At(t*w.heads*w.shared+head, i))
	}
	terms := make([]T, w.depth)
	for c := range n {
		abs := 0.0
		for i := range w.depth {
			p.b[i] = float64(key.At(w.rows[c]*w.heads+head/w.shared, i))
			product := float64(p.a[i] * p.b[i]) // of two binary32: exact, but for the smallest
			terms[i] = w.zero.FromFloat64(p.a[i]).Mul(w.zero.FromFloat64(p.b[i]))
			abs += max(product, -product)
		}
		out[c] = w.zero.FromFloat64(0).Sum(terms)
		if w.Mode == Rounded && out[c].Known() {
			size, lost := abs*(1+0x1p-50), 0.0
			if w.scoreError != nil {
				lost = w.scoreError(p, size)
			} else {
				lost = accumError(p, w.dtype, w.Accum, size, false)
			}
			out[c] = out[c].Widen(0, lost)
		}
	}
}

// power returns 2^x, as the stream's function gives it.
func (w *weigher[T]) power(x T) T {
	y := x.Exp2()
	if w.Mode == Rounded {
		f := w.f.Weights(w.dtype)
		y = y.Widen(2*f.ULPs*unit, 2*f.ULPs*tiny+f.Absolute)
	}
	return y
}

// step rounds one operation.
func (w *weigher[T]) step(x T, eta float64) T {
	one := []T{x}
	w.rounding.step(one, unit, eta)
	return one[0]
}

// less returns 2^(x-z) where x <= z: at most 1.
func (w *weigher[T]) less(x, z T) T { return w.power(w.step(x.Sub(z), 0)) }

// block takes the keys from first to end into a state.
func (w *weigher[T]) block(s *carriedTruth[T], head int, exponents []T, visible []bool, first, end int) {
	var seen []int
	for c := first; c < end; c++ {
		if visible[c] {
			seen = append(seen, c)
		}
	}
	if len(seen) == 0 {
		return
	}
	largest := exponents[seen[0]]
	for _, c := range seen {
		largest = largest.Max(exponents[c])
	}
	one := w.zero.FromFloat64(1)
	a := w.zero.FromFloat64(0) // of nothing
	switch {
	case s.isEmpty:
	case largest.LessEq(s.m) == ball.Yes: // E(0) is 1, and m stays
		largest, a = s.m, one
	default:
		largest = largest.Max(s.m)
		a = w.less(s.m, largest)
	}
	s.m, s.isEmpty = largest, false
	weights := make([]T, len(seen))
	for i, c := range seen {
		weights[i] = w.less(exponents[c], largest)
	}
	// In lanes of at most 16 terms, a tree of 3 levels and an fma, all terms positive.
	sum := w.zero.FromFloat64(0).Sum(weights)
	s.l = s.l.Mul(a).Add(sum)
	if w.Mode == Rounded {
		s.l = s.l.Widen(gamma(def.StreamBlock/def.StreamLanes+3+1), tiny)
		w.rounding.store(weights, w.dtype)
	}
	v := &w.operands[w.f.Value]
	p := products{a: make([]float64, len(seen)), b: make([]float64, len(seen))}
	for i := range seen {
		_, p.a[i] = weights[i].Bounds()
	}
	terms := make([]T, len(seen))
	for d := range s.o {
		abs := 0.0
		for i, c := range seen {
			x := float64(v.At(w.rows[c]*w.heads+head/w.shared, d))
			terms[i] = weights[i].Mul(w.zero.FromFloat64(x))
			p.b[i] = max(x, -x)
			abs += p.a[i] * p.b[i]
		}
		old := s.o[d].Mul(a)
		if a.Equal(one) != ball.Yes {
			old = w.step(old, tiny)
		}
		s.o[d] = old.Sum(terms)
		if w.Mode == Rounded && s.o[d].Known() {
			_, p.init = old.Abs().Bounds()
			s.o[d] = s.o[d].Widen(0, w.sumError(p, (abs+p.init)*(1+0x1p-40)))
		}
	}
}

// sumError bounds the error of a block's sum from the magnitudes of its terms. Steps of several
// products may hold any of the block's terms.
func (w *weigher[T]) sumError(p products, abs float64) float64 {
	if w.Accum != def.FMAChain { // as if every product were a step of its own: more steps, and no smaller terms
		wide := w.Accum
		return mmaError(products{p.a, p.b, p.init}, w.dtype, def.Accum{L: 1, F: wide.F, R: wide.R}, abs) * float64(wide.L+1)
	}
	return chainError(p, false, abs)
}

// join adds the state of the next segment.
func (w *weigher[T]) join(s *carriedTruth[T], next carriedTruth[T]) {
	largest := s.m.Max(next.m)
	a, b := w.less(s.m, largest), w.less(next.m, largest)
	add := func(x, y T) T { return w.step(x.Mul(a).Add(w.step(y.Mul(b), tiny)), tiny) }
	s.m, s.l = largest, add(s.l, next.l)
	for d := range s.o {
		s.o[d] = add(s.o[d], next.o[d])
	}
}

// store gives the results of a query and head.
func (w *weigher[T]) store(t, head int, s carriedTruth[T]) {
	logSum := w.unknown()
	for d := range w.depth {
		out := w.zero.FromFloat64(0)
		if !s.isEmpty {
			out = w.step(s.o[d].Mul(w.step(s.l.Recip(), tiny)), tiny)
		}
		w.yield(w.f.Out, t*w.heads*w.shared+head, d, out)
	}
	if !s.isEmpty {
		logSum = s.l.Log2()
		if w.Mode == Rounded {
			f := w.f.Functions.Log2
			logSum = logSum.Widen(2*f.ULPs*unit, 2*f.ULPs*tiny+f.Absolute)
		}
		logSum = w.step(s.m.Add(logSum), 0)
	}
	w.yield(w.f.LogSum, t*w.heads+head/w.shared, head%w.shared, logSum)
}
