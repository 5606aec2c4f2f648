package answer

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/model"
	"tokitai/num"
	"tokitai/tensor"
)

// runner computes steps on a device: logits of some tokens of several sequences, what is read from each row of
// them, and the tokens drawn. It keeps a recording for every size of a step that has occurred, rounded up
// to a power of two. A step is one copy to the device, one launch and one copy back.
type runner struct {
	queue  *engine.Queue
	config model.Config
	shape  model.InferenceShape // the largest step
	given  map[string]*tensor.Tensor
	owned  []interface{ Close() error }

	logits  *tensor.Tensor // [Rows, vocabulary]; a step uses the first rows
	changed *tensor.Tensor // one row
	inputs  *tensor.Tensor // of the step, as bucket divides it
	results *tensor.Tensor // likewise
	values  []int32        // of inputs

	buckets map[size]*bucket
}

// size names a recording.
type size struct {
	tokens, rows int
	isDrawn      bool // some token is not that of the largest logit
}

// bucket is what a size of steps needs.
type bucket struct {
	in        *model.Instance
	recording *engine.Recording
	inputs    map[string]place // by the names of the program's inputs and of the operands of Draw
	results   [5]place         // token, max, logsum, word0, word1
	end       int              // of the results
}

// place is where a list of numbers of 32 bits stands in a larger one.
type place struct{ from, n int }

// layout gives parts of a tensor to numbers of 32 bits. Each begins at a multiple of 256 bytes.
type layout struct{ end int }

func (l *layout) add(n int) place {
	p := place{l.end, n}
	l.end += (n + 63) / 64 * 64
	return p
}

// of returns a part of a tensor of int32, as another format of 32 bits.
func (p place) of(t *tensor.Tensor, d num.DType, shape ...int) (*tensor.Tensor, error) {
	return tensor.At(t.Buffer(), t.Offset()+int64(p.from)*4, d, shape[len(shape)-1], shape...)
}

// step is what a run is given. Sequences are numbered from 0.
type step struct {
	tokens, positions, slots []int32
	starts, lengths          []int32 // by sequence
	pages                    [][]int32
	rows                     []int32 // tokens whose logits are wanted
	draws                    []draw  // by row
}

// draw is how the token behind a row is drawn.
type draw struct {
	sampling *Sampling // nil for the token of the largest logit
	choice   int
	position int32 // of the token
}

func (s *step) reset() {
	s.tokens, s.positions, s.slots = s.tokens[:0], s.positions[:0], s.slots[:0]
	s.starts, s.lengths, s.pages, s.rows = s.starts[:0], s.lengths[:0], s.pages[:0], s.rows[:0]
	s.draws = s.draws[:0]
}

// add adds tokens of a sequence from a position on, whose keys go to pages of a size.
func (s *step) add(tokens []int32, at int, pages []int32, size int) {
	s.starts = append(s.starts, int32(len(s.tokens)))
	for i := range tokens {
		s.positions = append(s.positions, int32(at+i))
		s.slots = append(s.slots, pages[(at+i)/size]*int32(size)+int32((at+i)%size))
	}
	s.tokens = append(s.tokens, tokens...)
	s.lengths = append(s.lengths, int32(at+len(tokens)))
	s.pages = append(s.pages, pages)
}

// want wants the logits of a token of the step.
func (s *step) want(token int, d draw) {
	s.rows = append(s.rows, int32(token))
	s.draws = append(s.draws, d)
}

// summary is what is read from the logits of a token.
type summary struct {
	drawn        int32 // the token
	most         float32
	logsum       float32
	word0, word1 uint32
}

// logprob returns the logprob of a logit of the row.
func (s *summary) logprob(logit float32) float32 { return float32(float32(logit-s.most) - s.logsum) }

func (s *summary) checksum() uint64 { return uint64(s.word1)<<32 | uint64(s.word0) }

// newRunner allocates caches and logits. shape.Pages does not count the page that padding is written to.
func newRunner(q *engine.Queue, m *Model, shape model.InferenceShape) (*runner, error) {
	rule, err := def.ParseAccum(m.Identity.Rule)
	if err != nil {
		return nil, err
	}
	r := &runner{queue: q.With(engine.WithRule(rule)), config: m.Config, shape: shape, given: map[string]*tensor.Tensor{}, buckets: map[size]*bucket{}}
	r.shape.Pages++
	r.shape.Sequences++ // of padding
	if err := r.allocate(m); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *runner) tensor(d num.DType, shape ...int) (*tensor.Tensor, error) {
	t, err := tensor.New(r.queue.Device(), d, shape...)
	if err == nil {
		r.owned = append(r.owned, t)
	}
	return t, err
}

func (r *runner) allocate(m *Model) error {
	p, err := model.NewInference(r.config, r.shape)
	if err != nil {
		return err
	}
	var errs []error
	make := func(to **tensor.Tensor, d num.DType, shape ...int) {
		t, err := r.tensor(d, shape...)
		*to, errs = t, append(errs, err)
	}
	for _, w := range append(p.Program.Of(model.Weight), p.Program.Of(model.Fixed)...) {
		t := m.Weights[w.Name]
		if t == nil {
			return badInput("%s: no tensor %s, which the configuration needs", m.Name, w.Name)
		}
		if t.DType() != w.DType || t.Len() != w.Len() {
			return badInput("%s: tensor %s is %v %v, want %v %v by the configuration", m.Name, w.Name, t.DType(), t.Shape(), w.DType, w.Shape)
		}
		r.given[w.Name] = t
	}
	for _, v := range p.Program.Of(model.State) {
		var t *tensor.Tensor
		make(&t, v.DType, v.Shape...)
		r.given[v.Name] = t
	}
	make(&r.logits, num.F32, r.shape.Rows, r.config.Vocabulary)
	make(&r.changed, num.F32, 1, r.config.Vocabulary)
	largest := r.newBucket(size{r.shape.Tokens, r.shape.Rows, true}, p.Program)
	make(&r.inputs, num.I32, largest.inputs[model.PageTable].from+r.shape.Sequences*r.shape.PerSequence)
	make(&r.results, num.I32, largest.end)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.values = append(r.values, slices.Repeat([]int32{0}, r.inputs.Len())...)
	constants, err := p.Constants(r.queue)
	if err != nil {
		return err
	}
	for name, t := range constants {
		r.given[name] = t
		r.owned = append(r.owned, t)
	}
	return nil
}

func (r *runner) close() error {
	var errs []error
	for _, b := range r.buckets {
		errs = append(errs, b.recording.Close(), b.in.Close())
	}
	for _, t := range r.owned {
		errs = append(errs, t.Close())
	}
	r.buckets, r.owned = nil, nil
	return errors.Join(errs...)
}

// roundUp returns the smallest power of two that is at least n, or the limit.
func roundUp(n, limit int) int { return min(1<<bits.Len(uint(n-1)), limit) }

// drawInputs are the operands of Draw that a row has besides its logits.
var drawInputs = []struct {
	name string
	of   func(d *draw) int32 // its value, or the pattern of a float
}{
	{"seed_low", func(d *draw) int32 { return int32(d.sampling.Seed) }},
	{"seed_high", func(d *draw) int32 { return int32(d.sampling.Seed >> 32) }},
	{"sequence", func(d *draw) int32 { return int32(d.choice) }},
	{"position", func(d *draw) int32 { return d.position }},
	{"temperature", func(d *draw) int32 { return pattern(d.sampling.Temperature) }},
	{"top_k", func(d *draw) int32 { return int32(d.sampling.TopK) }},
	{"top_p", func(d *draw) int32 { return pattern(d.sampling.TopP) }},
	{"min_p", func(d *draw) int32 { return pattern(d.sampling.MinP) }},
}

func pattern(x float64) int32 { return int32(math.Float32bits(float32(x))) }

// drawName tells an operand of Draw from an input of the program.
func drawName(name string) string { return "draw." + name }

// newBucket returns the places of the inputs and results of a size. The table of pages is the last input, so that
// only the pages of sequences that there are have to be copied.
func (r *runner) newBucket(k size, p *model.Program) *bucket {
	b := &bucket{inputs: map[string]place{}}
	var inputs, results layout
	for _, v := range p.Of(model.Input) {
		if v.DType == num.I32 && v.Name != model.PageTable {
			b.inputs[v.Name] = inputs.add(v.Len())
		}
	}
	if k.isDrawn {
		for _, in := range drawInputs {
			b.inputs[drawName(in.name)] = inputs.add(k.rows)
		}
	}
	b.inputs[model.PageTable] = inputs.add(r.shape.Sequences * r.shape.PerSequence)
	for i := range b.results {
		b.results[i] = results.add(k.rows)
	}
	b.end = results.end
	return b
}

// reading returns the definition that reads rows of logits, and its operands.
func (r *runner) reading(k size, b *bucket, logits *tensor.Tensor) (*def.Definition, []*tensor.Tensor, error) {
	d := Summary
	if k.isDrawn {
		d = Draw
	}
	operands := []*tensor.Tensor{logits}
	for i, o := range d.Operands[1:] {
		t, p := r.inputs, b.inputs[drawName(o.Name)]
		if o.IsOut {
			t, p = r.results, b.results[i+1-len(d.Operands)+len(b.results)]
		}
		format := num.F32
		if o.IsInt() {
			format = num.I32
		}
		view, err := p.of(t, format, k.rows)
		if err != nil {
			return nil, nil, err
		}
		operands = append(operands, view)
	}
	return d, operands, nil
}

// bucket returns the recording of a size.
func (r *runner) bucket(k size) (*bucket, error) {
	if b := r.buckets[k]; b != nil {
		return b, nil
	}
	shape := r.shape
	shape.Tokens, shape.Rows = k.tokens, k.rows
	p, err := model.NewInference(r.config, shape)
	if err != nil {
		return nil, err
	}
	b := r.newBucket(k, p.Program)
	logits, err := r.logits.Slice(0, k.rows, 0, r.config.Vocabulary)
	if err != nil {
		return nil, err
	}
	given := map[string]*tensor.Tensor{model.Logits: logits}
	for name, t := range r.given {
		if p.Program.Value(name) != nil {
			given[name] = t
		}
	}
	for _, v := range p.Program.Of(model.Input) {
		if part, isOfStep := b.inputs[v.Name]; isOfStep {
			if given[v.Name], err = part.of(r.inputs, num.I32, v.Shape...); err != nil {
				return nil, err
			}
		}
	}
	if b.in, err = model.NewInstance(r.queue, p.Program, given); err != nil {
		return nil, err
	}
	b.recording, err = r.queue.Record(func(q *engine.Queue) error {
		if err := b.in.Run(q, nil); err != nil {
			return err
		}
		d, operands, err := r.reading(k, b, logits)
		if err != nil {
			return err
		}
		return engine.Call(q, d, operands, nil)
	})
	if err != nil {
		b.in.Close()
		return nil, err
	}
	r.buckets[k] = b
	return b, nil
}

// run computes a step, and returns what is read from the rows that it wants.
func (r *runner) run(s *step) ([]summary, error) {
	k := size{tokens: roundUp(len(s.tokens), r.shape.Tokens), rows: roundUp(max(1, len(s.rows)), r.shape.Rows)}
	k.isDrawn = slices.ContainsFunc(s.draws, func(d draw) bool { return d.sampling != nil })
	b, err := r.bucket(k)
	if err != nil {
		return nil, err
	}
	end := r.fill(b, s, k)
	if err := r.send(end); err != nil {
		return nil, err
	}
	if err := b.recording.Run(r.queue); err != nil {
		return nil, err
	}
	return r.read(b, len(s.rows))
}

// fill writes the inputs of a step, with padding behind its tokens, sequences and rows, and returns where they end.
func (r *runner) fill(b *bucket, s *step, k size) (end int) {
	put := func(name string, values []int32, times int, padding int32) {
		p, isThere := b.inputs[name]
		if !isThere {
			return
		}
		to := r.values[p.from:][:p.n]
		for _, v := range values {
			for range times {
				to[0], to = v, to[1:]
			}
		}
		for i := range to {
			to[i] = padding
		}
	}
	n := int32(len(s.tokens))
	put(model.Tokens, s.tokens, 1, 0)
	put(model.Slots, s.slots, 1, int32((r.shape.Pages-1)*r.shape.PageSize))
	put(model.LogitRows, s.rows, 1, 0)
	put("position", s.positions, 1, 0)
	put("position.q", s.positions, r.config.Heads, 0)
	put("position.k", s.positions, r.config.KVHeads, 0)
	put(model.QueryStarts, s.starts, 1, n)
	starts := b.inputs[model.QueryStarts]
	r.values[starts.from+starts.n-1] = int32(k.tokens) // the last sequence is that of the padding
	put(model.KeyLengths, s.lengths, 1, 0)
	if k.isDrawn {
		r.fillDraws(b, s.draws)
	}
	end = b.inputs[model.PageTable].from
	for _, pages := range s.pages { // entries behind those of a sequence are not read
		copy(r.values[end:][:r.shape.PerSequence], pages)
		end += r.shape.PerSequence
	}
	return end
}

// fillDraws writes how tokens are drawn. That of the largest logit has the temperature 0.
func (r *runner) fillDraws(b *bucket, draws []draw) {
	for _, in := range drawInputs {
		p := b.inputs[drawName(in.name)]
		to := r.values[p.from:][:p.n]
		clear(to)
		for i := range draws {
			if draws[i].sampling != nil {
				to[i] = in.of(&draws[i])
			}
		}
	}
}

// send copies the first inputs to the device.
func (r *runner) send(n int) error {
	t, err := place{0, n}.of(r.inputs, num.I32, n)
	if err != nil {
		return err
	}
	return t.SetInt32s(r.values[:n])
}

// read waits for a step, and returns what it has read from rows.
func (r *runner) read(b *bucket, n int) ([]summary, error) {
	list := make([]summary, n)
	if n == 0 {
		return list, r.queue.Wait()
	}
	t, err := place{0, b.end}.of(r.results, num.I32, b.end)
	if err != nil {
		return nil, err
	}
	values, err := t.Int32s() // once the step is done
	if err != nil {
		return nil, err
	}
	if err := r.queue.Wait(); err != nil { // it may have refused an index
		return nil, err
	}
	for i := range list {
		at := func(k int) uint32 { return uint32(values[b.results[k].from+i]) }
		list[i] = summary{int32(at(0)), math.Float32frombits(at(1)), math.Float32frombits(at(2)), at(3), at(4)}
	}
	return list, nil
}

// row returns the logits of a row of the last step.
func (r *runner) row(i int) ([]float32, error) {
	t, err := r.logits.Slice(i, i+1, 0, r.config.Vocabulary)
	if err != nil {
		return nil, err
	}
	return t.Float32s()
}

// drawFrom draws a token from logits, by the computation of a step of one row.
func (r *runner) drawFrom(logits []float32, d draw) (int32, error) {
	if err := r.changed.SetFloat32s(logits); err != nil {
		return 0, err
	}
	k := size{rows: 1, isDrawn: true}
	b := r.newBucket(k, &model.Program{})
	r.fillDraws(b, []draw{d})
	if err := r.send(b.inputs[model.PageTable].from); err != nil {
		return 0, err
	}
	definition, operands, err := r.reading(k, b, r.changed)
	if err != nil {
		return 0, err
	}
	if err := engine.Call(r.queue, definition, operands, nil); err != nil {
		return 0, fmt.Errorf("drawing: %w", err)
	}
	list, err := r.read(b, 1)
	if err != nil {
		return 0, err
	}
	return list[0].drawn, nil
}
