package train

import (
	"errors"

	"tokitai/engine"
	"tokitai/model"
	"tokitai/tensor"
)

// Predictor computes the outputs of a network of features. What a row gives depends on no other row.
type Predictor struct {
	features  model.Features
	queue     *engine.Queue
	rows      int // that it computes at once
	in        *model.Instance
	recording *engine.Recording
	weights   []*tensor.Tensor
}

// Prediction is what a network gives for a row.
type Prediction struct {
	Outputs []float32 `json:"outputs"`
	Weights []float32 `json:"router_weights,omitempty"` // of the experts; nil without
}

// NewPredictor returns a predictor that computes up to so many rows at once.
func NewPredictor(q *engine.Queue, s *Start, rows int) (*Predictor, error) {
	if s.Features == (model.Features{}) {
		return nil, badInput("it is a decoder, want a network of features")
	}
	n, err := model.NewFeatures(s.Features, rows, false)
	if err != nil {
		return nil, err
	}
	p := &Predictor{features: s.Features, queue: q, rows: rows}
	if err := p.prepare(n.Program, s); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Predictor) prepare(program *model.Program, s *Start) error {
	given := map[string]*tensor.Tensor{}
	for _, w := range program.Of(model.Weight) {
		values := s.weights[w.Name].values
		if len(values) != w.Len() {
			return badInput("%s has %d elements, want %d", w.Name, len(values), w.Len())
		}
		t, err := tensor.FromFloat32(p.queue.Device(), w.DType, values, w.Shape...)
		if err != nil {
			return err
		}
		p.weights, given[w.Name] = append(p.weights, t), t
	}
	var err error
	if p.in, err = model.NewInstance(p.queue, program, given); err != nil {
		return err
	}
	p.recording, err = p.queue.Record(func(q *engine.Queue) error { return p.in.Run(q, model.Variables{model.ScaleVariable: 0}) })
	return err
}

// Predict computes rows of features, one behind the other.
func (p *Predictor) Predict(features []float32) ([]Prediction, error) {
	n := p.features.Inputs
	if len(features)%n != 0 {
		return nil, badInput("%d numbers, want rows of %d", len(features), n)
	}
	var list []Prediction
	for len(features) > 0 {
		part := features[:min(len(features), p.rows*n)]
		features = features[len(part):]
		some, err := p.predict(part)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

// predict computes as many rows as fit at once. What stands behind them changes nothing of theirs.
func (p *Predictor) predict(features []float32) ([]Prediction, error) {
	padded := make([]float32, p.rows*p.features.Inputs)
	copy(padded, features)
	if err := p.in.Tensor(model.Rows).SetFloat32s(padded); err != nil {
		return nil, err
	}
	if err := p.recording.Run(p.queue); err != nil {
		return nil, err
	}
	if err := p.queue.Wait(); err != nil {
		return nil, err
	}
	list := make([]Prediction, len(features)/p.features.Inputs)
	take := func(name string, columns int, to func(i int) *[]float32) error {
		values, err := p.in.Tensor(name).Float32s()
		if err != nil {
			return err
		}
		for i := range list {
			*to(i) = append([]float32(nil), values[i*columns:][:columns]...)
		}
		return nil
	}
	err := take(model.Outputs, p.features.Outputs, func(i int) *[]float32 { return &list[i].Outputs })
	if err == nil && p.features.Experts > 0 {
		err = take(model.RouterWeights, p.features.Experts, func(i int) *[]float32 { return &list[i].Weights })
	}
	return list, err
}

// Close frees the memory.
func (p *Predictor) Close() error {
	var errs []error
	if p.recording != nil {
		errs = append(errs, p.recording.Close())
	}
	errs = append(errs, p.in.Close())
	for _, t := range p.weights {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}
