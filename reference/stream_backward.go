package reference

import (
	"math"

	"tokitai/def"
	"tokitai/num"
)

// streamBackward interprets the gradients of a stream.
type streamBackward struct {
	*stream
	f     *def.StreamBackward
	scale float32
}

func runStreamBackward(d *def.Definition, f *def.StreamBackward, operands []num.Array, o *Options) error {
	inner, err := newStream(d, &f.Stream, operands, o)
	if err != nil {
		return err
	}
	s := &streamBackward{stream: inner, f: f}
	if err := s.findScale(); err != nil {
		return err
	}
	queries, keys := &operands[f.QueryStarts], &operands[f.KeyStarts]
	for b := range queries.Rows - 1 {
		q := span{int(queries.Int(b, 0)), int(queries.Int(b+1, 0))}
		k := span{int(keys.Int(b, 0)), int(keys.Int(b+1, 0))}
		s.enter(b)
		for kv := range s.heads {
			if err := s.sequence(q, k, kv); err != nil {
				return err
			}
		}
	}
	return nil
}

// span is the part of the tokens that belongs to a sequence.
type span struct{ first, end int }

func (s span) len() int { return s.end - s.first }

// findScale computes the scale, which depends on no operand.
func (s *streamBackward) findScale() error {
	arrays := s.bodyArrays(1)
	if err := Run(s.f.Body, arrays, Options{Params: s.o.Params}); err != nil {
		return err
	}
	s.scale = arrays[len(s.f.Reads)+s.f.Scale()].At(0, 0)
	return nil
}

// sequence computes the gradients of a sequence and head of keys.
func (s *streamBackward) sequence(queries, keys span, kv int) error {
	n := keys.len()
	dk, dv := make([]float32, n*s.depth), make([]float32, n*s.depth)
	for head := kv * s.shared; head < (kv+1)*s.shared; head++ {
		var rows []backwardRow // of a segment
		first := 0             // the place of the first of them
		for t := queries.first; t < queries.end; t++ {
			if err := s.o.err(); err != nil {
				return err
			}
			place := n - (queries.end - t)
			if len(rows) > 0 && place%def.StreamSegment == 0 {
				s.addSegment(dk, dv, rows, first)
				rows = nil
			}
			if len(rows) == 0 {
				first = place
			}
			row, err := s.row(t, head, place, keys)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		s.addSegment(dk, dv, rows, first)
	}
	scaled := make([]float32, s.depth)
	for c := range n {
		for i, x := range dk[c*s.depth:][:s.depth] {
			scaled[i] = num.FMA(x, s.scale, 0)
		}
		s.operands[s.f.KeyGradient].SetFloats((keys.first+c)*s.heads+kv, scaled)
		s.operands[s.f.ValueGradient].SetFloats((keys.first+c)*s.heads+kv, dv[c*s.depth:][:s.depth])
	}
	return nil
}

// backwardRow is what a query and head gives to the gradients of the keys that it sees, as stored.
type backwardRow struct {
	token, head int
	p, ds       []uint32
	visible     []bool
}

// row computes the weights of a query and head and the gradients of its scores, and stores those of
// the query and the base.
func (s *streamBackward) row(t, head, place int, keys span) (r backwardRow, err error) {
	n := keys.len()
	outputs, err := s.runBody(t, head, place, n)
	if err != nil {
		return r, err
	}
	f, kv := s.f, head/s.shared
	z := origin(s.operands[f.LogSum].At(t*s.heads+kv, head%s.shared))
	var arguments []float32
	for c := range n {
		arguments = append(arguments, outputs[0].At(0, c)-z)
	}
	if f.HasBase() {
		arguments = append(arguments, outputs[2].At(0, 0)-z)
	}
	powers, err := s.apply(s.weights, arguments)
	if err != nil {
		return r, err
	}
	delta := s.delta(t*s.heads*s.shared + head)
	dp := s.products(f.OutGradient, f.Value, t, head, n)
	r = backwardRow{t, head, make([]uint32, n), make([]uint32, n), make([]bool, n)}
	for c := range n {
		if r.visible[c] = outputs[1].Int(0, min(c, outputs[1].Cols-1)) != 0; !r.visible[c] {
			continue
		}
		slope := outputs[f.Slope()].At(0, min(c, outputs[f.Slope()].Cols-1))
		r.p[c] = num.Narrow(s.dtype, powers[c])
		r.ds[c] = num.Narrow(s.dtype, float32(powers[c]*(dp[c]-delta))*slope)
	}
	s.storeQuery(&r, keys)
	if f.HasBase() {
		s.operands[f.BaseGradient].Set(t*s.heads+kv, head%s.shared, -float32(powers[n]*delta)*float32(math.Ln2))
	}
	return r, nil
}

// delta returns the product of a row of the mean and its gradient.
func (s *streamBackward) delta(row int) float32 {
	x, y := make([]float32, s.depth), make([]float32, s.depth)
	s.operands[s.f.OutGradient].Floats(row, x)
	s.operands[s.f.Out].Floats(row, y)
	for i := range x {
		x[i] *= y[i]
	}
	return num.LaneSum(x, num.RowLanes(s.depth))
}

// storeQuery stores the gradient of a query and head.
func (s *streamBackward) storeQuery(r *backwardRow, keys span) {
	sum, n := make([]float32, s.depth), keys.len()
	for block := (n - 1) / def.StreamBlock * def.StreamBlock; block >= 0; block -= def.StreamBlock {
		part := make([]float32, s.depth)
		s.addRows(part, block, min(def.StreamBlock, n-block),
			func(i int) (uint32, bool) { return r.ds[block+i], r.visible[block+i] },
			func(i int, line []uint32) {
				s.operands[s.f.Key].Patterns((keys.first+block+i)*s.heads+r.head/s.shared, line)
			})
		add(sum, part)
	}
	for i, x := range sum {
		sum[i] = num.FMA(x, s.scale, 0)
	}
	s.operands[s.f.QueryGradient].SetFloats(r.token*s.heads*s.shared+r.head, sum)
}

// addSegment adds what the queries of a segment give to the gradients of the keys and the values.
func (s *streamBackward) addSegment(dk, dv []float32, rows []backwardRow, first int) {
	for c := range len(dk) / s.depth {
		for _, sum := range []struct {
			to      []float32
			factors func(*backwardRow) []uint32
			of      int
		}{
			{dk, func(r *backwardRow) []uint32 { return r.ds }, s.f.Query},
			{dv, func(r *backwardRow) []uint32 { return r.p }, s.f.OutGradient},
		} {
			part := make([]float32, s.depth)
			s.addRows(part, first, len(rows),
				func(i int) (uint32, bool) { return sum.factors(&rows[i])[c], rows[i].visible[c] },
				func(i int, line []uint32) {
					s.operands[sum.of].Patterns(rows[i].token*s.heads*s.shared+rows[i].head, line)
				})
			add(sum.to[c*s.depth:][:s.depth], part)
		}
	}
}
