package train

import (
	"math"
	"slices"

	"tokitai/data"
	"tokitai/model"
)

// regression trains a network of features on the rows of a table.
type regression struct {
	config     *Config
	table      *data.Table
	train, all int // rows for training, and with those for validation

	features, targets []float32 // of the rows that were put last
}

func newRegression(c *Config, t *data.Table, all bool) (task, error) {
	if f := &c.Features; t.Inputs != f.Inputs || t.Outputs != f.Outputs {
		return nil, badInput("the data have %d features and %d targets in a row, and features in the settings %d inputs and %d outputs", t.Inputs, t.Outputs, f.Inputs, f.Outputs)
	}
	r := &regression{config: c, table: t, all: t.Len()}
	if all {
		return r, nil
	}
	var err error
	if r.train, _, err = t.Split(); err != nil {
		return nil, badInput("%w", err)
	}
	return r, nil
}

func (r *regression) examples() (train, validation int) { return r.train, r.all - r.train }
func (r *regression) validating(i int) int              { return r.train + i }
func (r *regression) terms() int                        { return r.table.Outputs }
func (r *regression) tokenizer() data.Tokenizer         { return data.Tokenizer{} }

// training returns a row: an epoch has every row once, in an order of its own.
func (r *regression) training(i int) int {
	return data.Order(r.config.Seed, uint64(i/r.train), r.train, i%r.train)
}

func (r *regression) initial(w *model.Value) []float32 {
	return r.config.Features.Initial(w, r.config.Seed)
}

func (r *regression) network(examples int, training bool) (*model.Network, error) {
	return model.NewFeatures(r.config.Features, examples, training)
}

func (r *regression) put(in *model.Instance, examples []int) error {
	n, k := r.table.Inputs, r.table.Outputs
	r.features = slices.Grow(r.features[:0], n*len(examples))[:n*len(examples)]
	r.targets = slices.Grow(r.targets[:0], k*len(examples))[:k*len(examples)]
	for i, row := range examples {
		features, targets := r.features[i*n:][:n], r.targets[i*k:][:k]
		if row >= 0 {
			r.table.Put(features, targets, row)
			continue
		}
		clear(features)
		for j := range targets {
			targets[j] = float32(math.NaN())
		}
	}
	if err := in.Tensor(model.Rows).SetFloat32s(r.features); err != nil {
		return err
	}
	return in.Tensor(model.Targets).SetFloat32s(r.targets)
}
