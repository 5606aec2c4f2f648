package train

import (
	"tokitai/data"
	"tokitai/model"
	"tokitai/op/crossentropy"
)

// Data is what a run learns from: a *data.Corpus for decoders, a *data.Table for networks of features.
type Data interface {
	// Identity returns the digest of the content.
	Identity() string
	// Len returns the number of tokens or rows.
	Len() int
}

// task is what a run trains: a network, and the examples that its leaves read.
type task interface {
	// examples returns how many examples there are, for training and behind them for validation.
	examples() (train, validation int)
	// training returns example i of the run, counted over all steps from 0.
	training(i int) int
	// validating returns example i of those for validation.
	validating(i int) int
	// terms returns how many terms an example adds to the loss, which is their mean.
	terms() int
	// network returns the network for so many examples: with gradients and dropout, or without.
	network(examples int, training bool) (*model.Network, error)
	// put gives a network examples, as training and validating return them. In the place of -1 stands something without a loss.
	put(in *model.Instance, examples []int) error
	// initial returns the first values of a weight.
	initial(w *model.Value) []float32
	// tokenizer returns that of the data; the zero value if they are not tokens.
	tokenizer() data.Tokenizer
}

// newTask returns the task of settings. The part of the data for validation is the last tenth, or all of them.
func newTask(c *Config, d Data, all bool) (task, error) {
	switch d := d.(type) {
	case *data.Table:
		if c.HasFeatures() {
			return newRegression(c, d, all)
		}
	case *data.Corpus:
		if !c.HasFeatures() {
			return newDecoding(c, d, all)
		}
	}
	return nil, badInput("the data are a %T: a network of features learns from rows of numbers, a decoder from text", d)
}

// decoding trains a decoder on blocks of tokens.
type decoding struct {
	config *Config
	corpus *data.Corpus
	blocks *data.Blocks

	tokens, labels []int32 // of the examples that were put last
}

func newDecoding(c *Config, corpus *data.Corpus, all bool) (task, error) {
	if c.Vocabulary < corpus.Tokenizer.Size {
		return nil, badInput("vocabulary is %d, want at least %d: so many tokens has the tokenizer", c.Vocabulary, corpus.Tokenizer.Size)
	}
	split := corpus.Split
	if all {
		split = corpus.Whole
	}
	blocks, err := split(c.Block)
	if err != nil {
		return nil, badInput("%w", err)
	}
	return &decoding{config: c, corpus: corpus, blocks: blocks}, nil
}

func (d *decoding) examples() (train, validation int) { return d.blocks.Train, d.blocks.Validation }
func (d *decoding) validating(i int) int              { return d.blocks.Begin(d.blocks.Train + i) }
func (d *decoding) terms() int                        { return d.blocks.Size }
func (d *decoding) tokenizer() data.Tokenizer         { return d.corpus.Tokenizer }
func (d *decoding) initial(w *model.Value) []float32  { return d.config.Initial(w, d.config.Seed) }

func (d *decoding) training(i int) int {
	return d.blocks.Draw(d.config.Seed, i, d.config.Shift)
}

func (d *decoding) network(examples int, training bool) (*model.Network, error) {
	n, err := model.NewDecoder(d.config.Config, examples, training)
	if err != nil {
		return nil, err
	}
	return &n.Network, nil
}

func (d *decoding) put(in *model.Instance, examples []int) error {
	d.tokens, d.labels = d.tokens[:0], d.labels[:0]
	for _, begin := range examples {
		d.tokens, d.labels = d.append(begin)
	}
	if err := in.Tensor(model.Tokens).SetInt32s(d.tokens); err != nil {
		return err
	}
	return in.Tensor(model.Labels).SetInt32s(d.labels)
}

// append returns tokens and labels with those of a block behind them, by the token at which it begins.
func (d *decoding) append(begin int) (tokens, labels []int32) {
	size := d.blocks.Size
	at := len(d.tokens)
	tokens, labels = append(d.tokens, make([]int32, size)...), append(d.labels, make([]int32, size)...)
	if begin >= 0 {
		d.blocks.Put(tokens[at:], labels[at:], begin)
		return tokens, labels
	}
	for i := range size {
		labels[at+i] = crossentropy.DefaultIgnore
	}
	return tokens, labels
}
