package train

import (
	"tokitai/data"
	"tokitai/engine"
	"tokitai/model"
	"tokitai/op/crossentropy"
	"tokitai/tensor"
)

// Evaluator computes the loss of a trainer's weights, by the forward calls of its program without
// dropout.
type Evaluator struct {
	t              *Trainer
	decoder        *model.Decoder
	in             *model.Instance
	recording      *engine.Recording
	tokens, labels []int32
}

// NewEvaluator returns an evaluator, which the trainer closes.
func (t *Trainer) NewEvaluator() (*Evaluator, error) {
	decoder, err := model.NewDecoder(t.config.Config, t.decoder.Sequences, false)
	if err != nil {
		return nil, err
	}
	given := map[string]*tensor.Tensor{}
	for _, v := range decoder.Program.Of(model.Input) {
		given[v.Name] = t.levels[0].leaf.Tensor(v.Name)
	}
	for i, name := range t.names {
		given[name] = t.working[i]
	}
	t.biases.giveTo(given)
	in, err := model.NewInstance(t.queue, decoder.Program, given)
	if in, err = own(t, in, err); err != nil {
		return nil, err
	}
	recording, err := t.queue.Record(func(q *engine.Queue) error { return in.Run(q, model.Variables{model.ScaleVariable: 0}) })
	if recording, err = own(t, recording, err); err != nil {
		return nil, err
	}
	return &Evaluator{t, decoder, in, recording, make([]int32, decoder.Tokens()), make([]int32, decoder.Tokens())}, nil
}

// Loss returns the mean loss of the labels of n blocks, from number first on. The sums of the losses of as
// many blocks as a leaf has are added in binary64, in order. stop, which may be nil, is asked before
// each of them.
func (e *Evaluator) Loss(b *data.Blocks, first, n int, stop func() error) (float64, error) {
	sum := 0.0
	for done := 0; done < n; done += e.decoder.Sequences {
		if stop != nil {
			if err := stop(); err != nil {
				return 0, err
			}
		}
		for i := range e.decoder.Sequences {
			at := i * b.Size
			if done+i < n {
				b.Put(e.tokens[at:][:b.Size], e.labels[at:][:b.Size], first+done+i)
				continue
			}
			for k := range b.Size { // no block: its labels do not count
				e.tokens[at+k], e.labels[at+k] = 0, crossentropy.DefaultIgnore
			}
		}
		if err := e.in.Tensor(model.Tokens).SetInt32s(e.tokens); err != nil {
			return 0, err
		}
		if err := e.in.Tensor(model.Labels).SetInt32s(e.labels); err != nil {
			return 0, err
		}
		if err := e.recording.Run(e.t.queue); err != nil {
			return 0, err
		}
		if err := e.t.queue.Wait(); err != nil {
			return 0, err
		}
		loss, err := scalar{e.in.Tensor(model.Loss)}.read()
		if err != nil {
			return 0, err
		}
		sum += float64(loss)
	}
	return sum / float64(n*b.Size), nil
}

// Validate returns the loss of the blocks for validation.
func (e *Evaluator) Validate(stop func() error) (float64, error) {
	b := e.t.blocks
	return e.Loss(b, b.Train, b.Validation, stop)
}
