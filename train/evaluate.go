package train

import (
	"tokitai/engine"
	"tokitai/model"
	"tokitai/tensor"
)

// Evaluator computes the loss of a trainer's weights, by the forward calls of its program without
// dropout.
type Evaluator struct {
	t         *Trainer
	network   *model.Network
	in        *model.Instance
	recording runner
}

// NewEvaluator returns an evaluator, which the trainer closes.
func (t *Trainer) NewEvaluator() (*Evaluator, error) {
	network, err := t.task.network(t.config.Batch/t.config.Leaves, false)
	if err != nil {
		return nil, err
	}
	given := map[string]*tensor.Tensor{}
	for _, v := range network.Program.Of(model.Input) {
		given[v.Name] = t.levels[0].leaf.Tensor(v.Name)
	}
	in, recording, err := t.newForward(network, given)
	return &Evaluator{t, network, in, recording}, err
}

// newForward returns a program without gradients, with memory, and its calls.
func (t *Trainer) newForward(network *model.Network, given map[string]*tensor.Tensor) (*model.Instance, runner, error) {
	for i, name := range t.names {
		given[name] = t.working[i]
	}
	t.biases.giveTo(given)
	variables := model.Variables{model.ScaleVariable: 0}
	if t.divided != nil {
		return t.divided.newForward(network.Program, given, variables)
	}
	in, err := model.NewInstance(t.queue, network.Program, given)
	if in, err = own(t, in, err); err != nil {
		return nil, nil, err
	}
	r, err := t.queue.Record(func(q *engine.Queue) error { return in.Run(q, variables) })
	r, err = own(t, r, err)
	return in, r, err
}

// Loss returns the mean loss of all examples of the data, and how many tokens or rows they have; of nil, of the trainer's own
// examples for validation. stop, which may be nil, is asked before each leaf.
func (e *Evaluator) Loss(d Data, stop func() error) (loss float64, rows int, err error) {
	x := e.t.task
	if d != nil {
		if x, err = newTask(&e.t.config, d, true); err != nil {
			return 0, 0, err
		}
	}
	loss, err = e.loss(x, stop)
	_, n := x.examples()
	return loss, n * e.t.config.exampleRows(), err
}

// Validate returns the loss of the examples for validation.
func (e *Evaluator) Validate(stop func() error) (float64, error) { return e.loss(e.t.task, stop) }

// loss returns the mean loss of a task's examples for validation. The sums of the losses of as many examples as a leaf
// has are added in binary64, in order.
func (e *Evaluator) loss(x task, stop func() error) (float64, error) {
	list := make([]int, e.t.config.Batch/e.t.config.Leaves)
	_, n := x.examples()
	sum := 0.0
	for done := 0; done < n; done += len(list) {
		if stop != nil {
			if err := stop(); err != nil {
				return 0, err
			}
		}
		for i := range list {
			if list[i] = -1; done+i < n {
				list[i] = x.validating(done + i)
			}
		}
		if err := x.put(e.in, list); err != nil {
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
	return sum / float64(n*x.terms()), nil
}
