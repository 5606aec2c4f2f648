package answer

import (
	"errors"
	"fmt"
	"math/bits"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/model"
	"tokitai/num"
	"tokitai/op/sample"
	"tokitai/tensor"
)

// runner computes steps on a device: logits of some tokens of several sequences, what is read from each row of
// them, and the tokens drawn. It keeps a recording for every size of a step that has occurred, rounded up
// to a power of two.
type runner struct {
	queue  *engine.Queue
	config model.Config
	shape  model.InferenceShape // the largest step
	given  map[string]*tensor.Tensor
	owned  []interface{ Close() error }

	logits                 *tensor.Tensor // [Rows, vocabulary], of which a step has the first
	changed                *tensor.Tensor // one row
	starts, lengths, pages *tensor.Tensor

	buckets map[[2]int]*bucket
}

// bucket is what a size of steps needs.
type bucket struct {
	in        *model.Instance
	recording *engine.Recording
	logits    *tensor.Tensor
	summary   [5]*tensor.Tensor // largest, max, logsum, word0, word1
}

// step is what a run is given. Sequences are numbered from 0.
type step struct {
	tokens, positions, slots []int32
	starts, lengths          []int32 // by sequence
	pages                    [][]int32
	rows                     []int32 // tokens whose logits are wanted
}

func (s *step) reset() {
	s.tokens, s.positions, s.slots = s.tokens[:0], s.positions[:0], s.slots[:0]
	s.starts, s.lengths, s.pages, s.rows = s.starts[:0], s.lengths[:0], s.pages[:0], s.rows[:0]
}

// summary is what is read from the logits of a token.
type summary struct {
	largest      int32
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
	r := &runner{queue: q.With(engine.WithRule(rule)), config: m.Config, shape: shape, given: map[string]*tensor.Tensor{}, buckets: map[[2]int]*bucket{}}
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
	make(&r.starts, num.I32, r.shape.Sequences+1)
	make(&r.lengths, num.I32, r.shape.Sequences)
	make(&r.pages, num.I32, r.shape.Sequences, r.shape.PerSequence)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.given[model.QueryStarts], r.given[model.KeyLengths], r.given[model.PageTable] = r.starts, r.lengths, r.pages
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
		for _, t := range b.summary {
			errs = append(errs, t.Close())
		}
	}
	for _, t := range r.owned {
		errs = append(errs, t.Close())
	}
	r.buckets, r.owned = nil, nil
	return errors.Join(errs...)
}

// roundUp returns the smallest power of two that is at least n, or the limit.
func roundUp(n, limit int) int { return min(1<<bits.Len(uint(n-1)), limit) }

// bucket returns the recording for a number of tokens and rows.
func (r *runner) bucket(tokens, rows int) (*bucket, error) {
	key := [2]int{tokens, rows}
	if b := r.buckets[key]; b != nil {
		return b, nil
	}
	shape := r.shape
	shape.Tokens, shape.Rows = tokens, rows
	p, err := model.NewInference(r.config, shape)
	if err != nil {
		return nil, err
	}
	b := new(bucket)
	if b.logits, err = r.logits.Slice(0, rows, 0, r.config.Vocabulary); err != nil {
		return nil, err
	}
	given := map[string]*tensor.Tensor{model.Logits: b.logits}
	for name, t := range r.given {
		if p.Program.Value(name) != nil {
			given[name] = t
		}
	}
	if b.in, err = model.NewInstance(r.queue, p.Program, given); err != nil {
		return nil, err
	}
	for i := range b.summary {
		d := num.I32
		if i == 1 || i == 2 {
			d = num.F32
		}
		if b.summary[i], err = tensor.New(r.queue.Device(), d, rows); err != nil {
			break
		}
	}
	if err == nil {
		b.recording, err = r.queue.Record(func(q *engine.Queue) error {
			if err := b.in.Run(q, nil); err != nil {
				return err
			}
			return engine.Call(q, Summary, append([]*tensor.Tensor{b.logits}, b.summary[:]...), nil)
		})
	}
	if err != nil {
		b.in.Close()
		for _, t := range b.summary {
			t.Close()
		}
		return nil, err
	}
	r.buckets[key] = b
	return b, nil
}

// run computes a step, and returns what is read from the rows that it wants.
func (r *runner) run(s *step) ([]summary, error) {
	tokens, rows := roundUp(len(s.tokens), r.shape.Tokens), roundUp(max(1, len(s.rows)), r.shape.Rows)
	b, err := r.bucket(tokens, rows)
	if err != nil {
		return nil, err
	}
	pad := func(list []int32, n int, with int32) []int32 {
		for len(list) < n {
			list = append(list, with)
		}
		return list
	}
	n := int32(len(s.tokens))
	trash := int32((r.shape.Pages - 1) * r.shape.PageSize)
	table := make([]int32, 0, r.shape.Sequences*r.shape.PerSequence)
	for _, pages := range s.pages {
		table = pad(append(table, pages...), (len(table)/r.shape.PerSequence+1)*r.shape.PerSequence, 0)
	}
	var errs []error
	put := func(t *tensor.Tensor, values []int32) {
		if t != nil {
			errs = append(errs, t.SetInt32s(values))
		}
	}
	positions := pad(s.positions, tokens, 0)
	put(r.starts, append(pad(append(s.starts, n), r.shape.Sequences, n), int32(tokens)))
	put(r.lengths, pad(s.lengths, r.shape.Sequences, 0))
	put(r.pages, pad(table, r.shape.Sequences*r.shape.PerSequence, 0))
	put(b.in.Tensor(model.Tokens), pad(s.tokens, tokens, 0))
	put(b.in.Tensor(model.Slots), pad(s.slots, tokens, trash))
	put(b.in.Tensor(model.LogitRows), pad(s.rows, rows, 0))
	put(b.in.Tensor("position"), positions)
	put(b.in.Tensor("position.q"), repeated(positions, r.config.Heads))
	if r.config.KVHeads != r.config.Heads {
		put(b.in.Tensor("position.k"), repeated(positions, r.config.KVHeads))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := b.recording.Run(r.queue); err != nil {
		return nil, err
	}
	if err := r.queue.Wait(); err != nil {
		return nil, err
	}
	return b.read(len(s.rows))
}

func repeated(list []int32, n int) []int32 {
	all := make([]int32, 0, len(list)*n)
	for _, v := range list {
		for range n {
			all = append(all, v)
		}
	}
	return all
}

func (b *bucket) read(n int) ([]summary, error) {
	list := make([]summary, n)
	for k, t := range b.summary {
		if k == 1 || k == 2 {
			values, err := t.Float32s()
			if err != nil {
				return nil, err
			}
			for i := range list {
				*[]*float32{&list[i].most, &list[i].logsum}[k-1] = values[i]
			}
			continue
		}
		values, err := t.Int32s()
		if err != nil {
			return nil, err
		}
		for i := range list {
			switch k {
			case 0:
				list[i].largest = values[i]
			case 3:
				list[i].word0 = uint32(values[i])
			case 4:
				list[i].word1 = uint32(values[i])
			}
		}
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

// draw is a token to be drawn from a row of the last step, for a position.
type draw struct {
	row      int
	sampling *Sampling
	choice   int
	position int32     // of the token
	changed  []float32 // logits to draw from instead, or nil
}

// draws draws tokens. Rows one behind the other that have the same seed are drawn in one call.
func (r *runner) draws(list []draw) ([]int32, error) {
	tokens := make([]int32, 0, len(list))
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[0].changed == nil && list[n].changed == nil && list[n].row == list[0].row+n && list[n].sampling.Seed == list[0].sampling.Seed {
			n++
		}
		got, err := r.drawRun(list[:n])
		if err != nil {
			return nil, err
		}
		tokens, list = append(tokens, got...), list[n:]
	}
	return tokens, nil
}

func (r *runner) drawRun(list []draw) (tokens []int32, err error) {
	logits, first := r.changed, list[0]
	if first.changed == nil {
		if logits, err = r.logits.Slice(first.row, first.row+len(list), 0, r.config.Vocabulary); err != nil {
			return nil, err
		}
	} else if err := logits.SetFloat32s(first.changed); err != nil {
		return nil, err
	}
	var ints [3][]int32
	var floats [3][]float32
	for _, d := range list {
		for i, v := range []int32{int32(d.choice), d.position, int32(d.sampling.TopK)} {
			ints[i] = append(ints[i], v)
		}
		for i, v := range []float64{d.sampling.Temperature, d.sampling.TopP, d.sampling.MinP} {
			floats[i] = append(floats[i], float32(v))
		}
	}
	var owned []*tensor.Tensor
	defer func() {
		for _, t := range owned {
			t.Close()
		}
	}()
	keep := func(t *tensor.Tensor, e error) *tensor.Tensor {
		owned = append(owned, t)
		err = errors.Join(err, e)
		return t
	}
	device, n := r.queue.Device(), len(list)
	int32s := func(v []int32) *tensor.Tensor { return keep(tensor.FromInt32(device, v, n)) }
	float32s := func(v []float32) *tensor.Tensor { return keep(tensor.FromFloat32(device, num.F32, v, n)) }
	token, logprob := int32s(make([]int32, n)), float32s(make([]float32, n))
	settings := sample.Settings{
		Sequence: int32s(ints[0]), Position: int32s(ints[1]), TopK: int32s(ints[2]),
		Temperature: float32s(floats[0]), TopP: float32s(floats[1]), MinP: float32s(floats[2]),
	}
	if err != nil {
		return nil, err
	}
	if err := sample.Draw(r.queue, token, logprob, logits, settings, sample.Words{Seed: first.sampling.Seed}); err != nil {
		return nil, fmt.Errorf("drawing: %w", err)
	}
	if err := r.queue.Wait(); err != nil {
		return nil, err
	}
	return token.Int32s()
}
