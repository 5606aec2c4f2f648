package train

import (
	"tokitai/data"
	"tokitai/model"
	"tokitai/num"
	"tokitai/op/crossentropy"
	"tokitai/op/sample"
	"tokitai/tensor"
)

// Sampler draws text with a trainer's weights, by the forward calls of its program for one sequence,
// without dropout. For each token it computes the whole block again, as a step does: what stands behind a
// token changes none of its bits.
type Sampler struct {
	t         *Trainer
	in        *model.Instance
	recording runner
	tokenizer data.Tokenizer
	settings  sample.Settings
	token     *tensor.Tensor
	logprob   *tensor.Tensor
}

// NewSampler returns a sampler, which the trainer closes. A temperature of 0 takes the likeliest tokens.
func (t *Trainer) NewSampler(temperature float64) (*Sampler, error) {
	network, err := t.task.network(1, false)
	if err != nil {
		return nil, err
	}
	given, err := network.Constants(t.queue)
	if err != nil {
		return nil, err
	}
	for _, v := range given {
		t.owned = append(t.owned, v)
	}
	s := &Sampler{t: t, tokenizer: t.task.tokenizer()}
	if s.in, s.recording, err = t.newForward(network, given); err != nil {
		return nil, err
	}
	for _, x := range []struct {
		to     **tensor.Tensor
		format num.DType
		value  float32
	}{
		{&s.token, num.I32, 0}, {&s.logprob, num.F32, 0}, {&s.settings.Sequence, num.I32, 0}, {&s.settings.Position, num.I32, 0},
		{&s.settings.Temperature, num.F32, float32(temperature)}, {&s.settings.TopK, num.I32, 0}, {&s.settings.TopP, num.F32, 1}, {&s.settings.MinP, num.F32, 0},
	} {
		if *x.to, err = t.tensor(x.format, 1); err != nil {
			return nil, err
		}
		if x.format == num.F32 {
			err = (*x.to).SetFloat32s([]float32{x.value})
		} else {
			err = (*x.to).SetInt32s([]int32{int32(x.value)})
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Sample returns a text that begins with a prompt and fills a block, unless the token comes with which
// documents begin. Of a longer prompt the end is taken. Tokens are drawn by the seed of the run and their
// position. stop, which may be nil, is asked before each of them.
func (s *Sampler) Sample(prompt string, stop func() error) (string, error) {
	size := s.t.config.Block
	c, err := data.Documents{[]byte(prompt)}.Corpus(s.tokenizer)
	if err != nil {
		return "", badInput("prompt: %w", err)
	}
	begin, tokens := int32(-1), c.Tokens
	if len(tokens) == 0 {
		return "", badInput("prompt: it has no tokens")
	}
	if empty, err := (data.Documents{nil}).Corpus(s.tokenizer); err == nil && len(empty.Tokens) > 0 {
		begin = empty.Tokens[0]
	}
	if len(tokens) >= size {
		tokens = tokens[len(tokens)-size+1:]
	}
	block, labels := make([]int32, size), make([]int32, size)
	n := copy(block, tokens)
	for i := range labels {
		labels[i] = crossentropy.DefaultIgnore
	}
	if err := s.in.Tensor(model.Labels).SetInt32s(labels); err != nil {
		return "", err
	}
	for ; n < size; n++ {
		if stop != nil {
			if err := stop(); err != nil {
				return "", err
			}
		}
		if block[n], err = s.next(block, n); err != nil {
			return "", err
		}
		if block[n] == begin {
			break
		}
	}
	return s.tokenizer.Decode(block[:n])
}

// next draws the token behind n tokens.
func (s *Sampler) next(block []int32, n int) (int32, error) {
	q := s.t.queue
	if err := s.in.Tensor(model.Tokens).SetInt32s(block); err != nil {
		return 0, err
	}
	if err := s.recording.Run(q); err != nil {
		return 0, err
	}
	if err := s.settings.Position.SetInt32s([]int32{int32(n)}); err != nil {
		return 0, err
	}
	// The vocabulary may be larger than the tokenizer's: nobody has seen the rest.
	row, err := s.in.Tensor(model.Logits).Slice(n-1, n, 0, s.tokenizer.Size)
	if err != nil {
		return 0, err
	}
	if err := sample.Draw(q, s.token, s.logprob, row, s.settings, sample.Words{Seed: s.t.config.Seed}); err != nil {
		return 0, err
	}
	if err := q.Wait(); err != nil {
		return 0, err
	}
	list, err := s.token.Int32s()
	if err != nil {
		return 0, err
	}
	return list[0], nil
}
