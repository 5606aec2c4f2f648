package reference

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/num"
)

// stream interprets a stream, one query and head after another.
type stream struct {
	d        *def.Definition
	f        *def.Stream
	operands []num.Array
	o        *Options
	weights  *def.Definition // of one row of exponents
	logs     *def.Definition

	tokens, heads, shared int // T, G and J
	depth                 int // D
	dtype                 num.DType

	token func(key int) int // where a key of the sequence lies, among the rows of k and v
}

// carried is the state of a query and head: the largest exponent, the sum of the weights and the
// weighed sum of the values.
type carried struct {
	m, l    float32
	o       []float32
	isEmpty bool
}

func runStream(d *def.Definition, f *def.Stream, operands []num.Array, o *Options) error {
	if operands[f.Query].Rows == 0 {
		return nil // no query, no result
	}
	s, err := newStream(d, f, operands, o)
	if err != nil {
		return err
	}
	if s.logs, err = rowOf(f.Functions.Log2); err != nil {
		return err
	}
	queries := &operands[f.QueryStarts]
	for b := range queries.Rows - 1 {
		first, end := int(queries.Int(b, 0)), int(queries.Int(b+1, 0))
		n := s.enter(b)
		for t := first; t < end; t++ {
			for head := range s.heads * s.shared {
				if err := o.err(); err != nil {
					return err
				}
				if err := s.query(t, head, n-(end-t), n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func newStream(d *def.Definition, f *def.Stream, operands []num.Array, o *Options) (*stream, error) {
	s := &stream{d: d, f: f, operands: operands, o: o, dtype: operands[f.Query].DType}
	if err := o.Accum.Takes(s.dtype); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	if o.Accum.P != 0 {
		return nil, fmt.Errorf("%s: a stream has no panels, got %s", d.Name, o.Accum)
	}
	if err := s.size(); err != nil {
		return nil, err
	}
	var err error
	s.weights, err = rowOf(f.Weights(s.dtype))
	return s, err
}

// enter makes token that of a sequence, and returns how many keys it has.
func (s *stream) enter(b int) int {
	if !s.f.IsPaged() {
		starts := &s.operands[s.f.KeyStarts]
		first := int(starts.Int(b, 0))
		s.token = func(key int) int { return first + key }
		return int(starts.Int(b+1, 0)) - first
	}
	pages := &s.operands[s.f.Pages]
	each := s.operands[s.f.Key].Batch.Axes[1].Size
	s.token = func(key int) int { return int(pages.Int(b, key/each))*each + key%each }
	return int(s.operands[s.f.Lengths].Int(b, 0))
}

// rowOf returns a function as a definition.
func rowOf(f *def.Function) (*def.Definition, error) {
	return def.Rowwise("row", func(b *def.Builder) {
		b.Out("y", f.Of(b.In("x", def.Only(num.F32))), def.Only(num.F32))
	})
}

// size sets the sizes, and returns an error if operands disagree.
func (s *stream) size() error {
	q, k := &s.operands[s.f.Query], &s.operands[s.f.Key]
	sizes, err := sizesOf(&s.d.Operands[s.f.Query], q)
	if err != nil {
		return fmt.Errorf("%s: %w", s.d.Name, err)
	}
	s.tokens, s.heads, s.shared, s.depth = sizes[0], sizes[1], sizes[2], sizes[3]
	if s.tokens == 0 { // then the logarithms say how many heads there are
		s.shared = s.operands[s.f.LogSum].Cols
	}
	known := map[string]int{"T": s.tokens, "G": s.heads, "J": s.shared, "D": s.depth}
	if sizes, err = sizesOf(&s.d.Operands[s.f.Key], k); err != nil {
		return fmt.Errorf("%s: %w", s.d.Name, err)
	}
	known["B"] = s.operands[s.f.QueryStarts].Rows - 1
	if s.f.IsPaged() {
		known["P"], known["N"], known["M"] = sizes[0], sizes[1], s.operands[s.f.Pages].Cols
		if err := s.d.CheckSize("N", known["N"]); err != nil {
			return fmt.Errorf("%s: %w", s.d.Name, err)
		}
	} else {
		known["S"] = sizes[0]
	}
	for i := range s.d.Operands {
		o, a := &s.d.Operands[i], &s.operands[i]
		if rows, cols := o.Matrix(known); a.Rows != rows || a.Cols != cols {
			return fmt.Errorf("%s: sizes do not fit: %s is %d×%d, want %d×%d", s.d.Name, o.Name, a.Rows, a.Cols, rows, cols)
		}
		if o.IsIndex && !o.IsOffsets {
			if err := s.checkIndex(i, known); err != nil {
				return err
			}
		}
		if !o.IsOffsets {
			continue
		}
		for b := range a.Rows {
			last := known[o.Bound]
			if b < a.Rows-1 {
				last = int(a.Int(b+1, 0))
			}
			if v := int(a.Int(b, 0)); b == 0 && v != 0 || v > last || b == a.Rows-1 && v != last {
				return fmt.Errorf("%s: %s[%d] is %d, want offsets that ascend from 0 to %d", s.d.Name, o.Name, b, v, known[o.Bound])
			}
		}
	}
	return nil
}

// checkIndex returns an error for an index in use that is out of range.
func (s *stream) checkIndex(operand int, sizes map[string]int) error {
	o, a := &s.d.Operands[operand], &s.operands[operand]
	limit := o.LimitIn(sizes)
	for r := range a.Rows {
		for c := range s.d.InUse(operand, s.operands, func(letter string) int { return sizes[letter] }, r) {
			if v := int(a.Int(r, c)); v < 0 || v >= limit {
				at := fmt.Sprint(r*a.Cols + c)
				if len(o.Dims) > 1 {
					at = fmt.Sprintf("%d,%d", r, c)
				}
				return fmt.Errorf("%s: %s[%s] is %d, want 0 to %d", s.d.Name, o.Name, at, v, limit-1)
			}
		}
	}
	return nil
}

// query computes the results of a query and head that stands at a place of its sequence, which has n keys.
func (s *stream) query(t, head, place, n int) error {
	exponents, visible, base, err := s.body(t, head, place, n)
	if err != nil {
		return err
	}
	all := carried{isEmpty: true}
	for first := 0; first == 0 || first < n; first += def.StreamSegment {
		part := carried{m: float32(math.Inf(-1)), o: make([]float32, s.depth), isEmpty: true}
		if first == 0 && s.f.HasBase() {
			part.m, part.l, part.isEmpty = base, 1, false
		}
		for block := first; block < min(first+def.StreamSegment, n); block += def.StreamBlock {
			if err := s.block(&part, head, exponents, visible, block, min(block+def.StreamBlock, n)); err != nil {
				return err
			}
		}
		if err := s.join(&all, part); err != nil {
			return err
		}
	}
	return s.store(t, head, all)
}

// body computes the exponents of a query and head, and which keys it sees.
func (s *stream) body(t, head, place, n int) (exponents []float32, visible []bool, base float32, err error) {
	if n == 0 && !s.f.HasBase() {
		return nil, nil, 0, nil
	}
	outputs, err := s.runBody(t, head, place, n)
	if err != nil {
		return nil, nil, 0, err
	}
	exponents, visible = make([]float32, n), make([]bool, n)
	for c := range n {
		exponents[c] = outputs[0].At(0, c)
		visible[c] = outputs[1].Int(0, min(c, outputs[1].Cols-1)) != 0
	}
	if s.f.HasBase() {
		base = outputs[2].At(0, 0)
	}
	return exponents, visible, base, nil
}

// bodyArrays makes room for the operands of the body, for one query and so many keys.
func (s *stream) bodyArrays(columns int) []num.Array {
	body := s.f.Body
	arrays := make([]num.Array, len(body.Operands))
	for i := range body.Operands {
		o := &body.Operands[i]
		dtype := num.F32
		if o.IsInt() {
			dtype = num.I32
		}
		if i < len(s.f.Reads) && s.f.Reads[i] >= 0 {
			dtype = s.operands[s.f.Reads[i]].DType
		}
		arrays[i] = num.NewArray(dtype, 1, 1)
		if o.Extent&def.PerColumn != 0 {
			arrays[i] = num.NewArray(dtype, 1, columns)
		}
	}
	return arrays
}

// runBody returns the outputs of the body for a query and head and n keys.
func (s *stream) runBody(t, head, place, n int) ([]num.Array, error) {
	body := s.f.Body
	arrays := s.bodyArrays(max(n, 1)) // a base does not depend on keys
	for i, read := range s.f.Reads {
		a := &arrays[i]
		switch {
		case read >= 0:
			s.copy(a, read, t, head, n)
		case body.Operands[i].Name == "score":
			row := num.Array{DType: num.F32, Rows: 1, Cols: n, Stride: n, Data: a.Data}
			row.SetFloats(0, s.products(s.f.Query, s.f.Key, t, head, n))
		case body.Operands[i].Name == "query":
			a.SetBits(0, 0, uint32(int32(place)))
		case body.Operands[i].Name == "key":
			for c := range n {
				a.SetBits(0, c, uint32(c))
			}
		case body.Operands[i].Name == "head":
			a.SetBits(0, 0, uint32(head))
		}
	}
	if err := Run(body, arrays, Options{Params: s.o.Params}); err != nil {
		return nil, err
	}
	return arrays[len(s.f.Reads):], nil
}

// copy reads an operand of the stream for a query and head.
func (s *stream) copy(to *num.Array, operand, t, head, n int) {
	o, from := &s.d.Operands[operand], &s.operands[operand]
	row, col := 0, 0
	switch o.Dims[0] {
	case "T":
		row = t
	case "G":
		row, col = head/s.shared, head%s.shared
	}
	if len(o.Dims) == 3 {
		row, col = t*s.heads+head/s.shared, head%s.shared
	}
	if o.Dims[0] != "S" {
		to.SetBits(0, 0, from.Bits(row, col))
		return
	}
	if len(o.Dims) == 2 {
		col = head / s.shared
	}
	for c := range n {
		to.SetBits(0, c, from.Bits(s.token(c), col))
	}
}

// products returns the product of a query's row of one operand and each key's row of another.
func (s *stream) products(left, right, t, head, n int) []float32 {
	p := newProducts(s.o.Accum, s.dtype, s.depth, n)
	line := make([]uint32, s.depth)
	for c := range n {
		s.operands[right].Patterns(s.token(c)*s.heads+head/s.shared, line)
		for k, pattern := range line {
			p.setRight(k, c, pattern)
		}
	}
	row := make([]uint32, s.depth)
	s.operands[left].Patterns(t*s.heads*s.shared+head, row)
	p.setLeft(row)
	sums := make([]float32, n)
	p.sum(sums, nil)
	return sums
}

// block takes the keys from first to end into a state.
func (s *stream) block(c *carried, head int, exponents []float32, visible []bool, first, end int) error {
	largest, isEmpty := c.m, true
	for k := first; k < end; k++ {
		if visible[k] {
			largest, isEmpty = num.Max(largest, exponents[k]), false
		}
	}
	if isEmpty {
		return nil
	}
	z := origin(largest)
	arguments := []float32{c.m - z}
	for k := first; k < end; k++ {
		arguments = append(arguments, exponents[k]-z)
	}
	powers, err := s.apply(s.weights, arguments)
	if err != nil {
		return err
	}
	a, p := powers[0], powers[1:]
	c.m, c.isEmpty = largest, false

	var lanes [def.StreamLanes]float32
	for k := first; k < end; k++ {
		if visible[k] {
			lanes[k%def.StreamLanes] += p[k-first]
		}
	}
	for n := len(lanes); n > 1; n /= 2 {
		for i := range n / 2 {
			lanes[i] = lanes[2*i] + lanes[2*i+1]
		}
	}
	c.l = num.FMA(c.l, a, lanes[0])
	for i := range c.o {
		c.o[i] *= a
	}
	s.addValues(c.o, head/s.shared, visible, p, first, end)
	return nil
}

// origin returns the exponent whose weight is 1.
func origin(largest float32) float32 {
	if math.IsInf(float64(largest), -1) {
		return 0
	}
	return largest
}

// addValues adds the values of the visible keys, weighed.
func (s *stream) addValues(o []float32, kv int, visible []bool, weights []float32, first, end int) {
	s.addRows(o, first, end-first,
		func(i int) (uint32, bool) { return num.Narrow(s.dtype, weights[i]), visible[first+i] },
		func(i int, line []uint32) { s.operands[s.f.Value].Patterns(s.token(first+i)*s.heads+kv, line) })
}

// addRows adds n rows at places that ascend from first on, each times its factor, but for those
// that are not visible. In a model that adds several products at a time, steps begin at multiples
// of their length; the products of what is not visible are zeros, and a step of nothing else is left out.
func (s *stream) addRows(sums []float32, first, n int, factor func(i int) (uint32, bool), row func(i int, line []uint32)) {
	step := max(1, s.o.Accum.L)
	var left []uint32
	var rows []int // or -1
	begin := -((first%step + step) % step)
	for k := begin; k < n; k += step {
		isSeen := false
		for i := k; i < k+step; i++ {
			x, at := uint32(0), -1
			if i >= 0 && i < n {
				if y, isVisible := factor(i); isVisible {
					x, at, isSeen = y, i, true
				}
			}
			left, rows = append(left, x), append(rows, at)
		}
		if !isSeen {
			left, rows = left[:len(left)-step], rows[:len(rows)-step]
		}
	}
	p := newProducts(s.o.Accum, s.dtype, len(left), len(sums))
	line := make([]uint32, len(sums))
	for k, i := range rows {
		if i < 0 {
			continue
		}
		row(i, line)
		for c, pattern := range line {
			p.setRight(k, c, pattern)
		}
	}
	p.setLeft(left)
	p.chain(0, len(left), sums)
}

// join adds the state of the next segment.
func (s *stream) join(all *carried, next carried) error {
	switch {
	case next.isEmpty:
		return nil
	case all.isEmpty:
		*all = next
		return nil
	}
	largest := num.Max(all.m, next.m)
	z := origin(largest)
	powers, err := s.apply(s.weights, []float32{all.m - z, next.m - z})
	if err != nil {
		return err
	}
	a, b := powers[0], powers[1]
	all.m, all.l = largest, num.FMA(all.l, a, float32(next.l*b))
	for i := range all.o {
		all.o[i] = num.FMA(all.o[i], a, float32(next.o[i]*b))
	}
	return nil
}

// store stores the results of a query and head.
func (s *stream) store(t, head int, c carried) error {
	mean, sum := make([]float32, s.depth), float32(math.Inf(-1))
	switch nan := float32(math.NaN()); {
	case c.isEmpty || c.l == 0:
	case c.m != c.m || math.IsInf(float64(c.m), 1):
		for i := range mean {
			mean[i] = nan
		}
		sum = nan
	default:
		inverse := 1 / c.l
		for i := range mean {
			mean[i] = num.FMA(c.o[i], inverse, 0)
		}
		logs, err := s.apply(s.logs, []float32{c.l})
		if err != nil {
			return err
		}
		sum = c.m + logs[0]
	}
	out, logSum := &s.operands[s.f.Out], &s.operands[s.f.LogSum]
	out.SetFloats(t*s.heads*s.shared+head, mean)
	logSum.Set(t*s.heads+head/s.shared, head%s.shared, sum)
	return nil
}

// apply returns a function of each argument.
func (s *stream) apply(f *def.Definition, x []float32) ([]float32, error) {
	in, out := num.ArrayOf(num.F32, 1, len(x), x...), num.NewArray(num.F32, 1, len(x))
	if err := Run(f, []num.Array{in, out}, Options{}); err != nil {
		return nil, err
	}
	y := make([]float32, len(x))
	out.Floats(0, y)
	return y, nil
}
