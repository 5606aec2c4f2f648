package data

import "fmt"

// Blocks is a corpus cut into blocks of equal length. Each token of a block has the one behind it as
// its label. What is left at the end is not used.
type Blocks struct {
	Size       int // tokens of a block
	Train      int // number of blocks for training, the first ones
	Validation int // number of those behind them
	tokens     []int32
}

// Split cuts a corpus into blocks, the last tenth for validation, rounded down.
func (c *Corpus) Split(size int) (*Blocks, error) {
	if size < 1 {
		return nil, fmt.Errorf("blocks of %d tokens, want at least 1", size)
	}
	n := (len(c.Tokens) - 1) / size
	if len(c.Tokens) == 0 {
		n = 0
	}
	b := &Blocks{size, n - n/10, n / 10, c.Tokens}
	if b.Validation == 0 {
		return nil, fmt.Errorf("the corpus has %d tokens, want at least %d: ten blocks of %d tokens, of which one is for validation, and a token behind them", len(c.Tokens), 10*size+1, size)
	}
	return b, nil
}

// Whole cuts a corpus into blocks that are all for validation.
func (c *Corpus) Whole(size int) (*Blocks, error) {
	if size < 1 || len(c.Tokens) < size+1 {
		return nil, fmt.Errorf("the corpus has %d tokens, want at least %d: a block of %d tokens and one behind it", len(c.Tokens), size+1, size)
	}
	return &Blocks{size, 0, (len(c.Tokens) - 1) / size, c.Tokens}, nil
}

// Begin returns the token at which a block begins. Blocks for validation are counted on from those
// for training.
func (b *Blocks) Begin(block int) int { return block * b.Size }

// Draw returns the token at which example i of training begins. An epoch has every block once, in an order of its own. If
// blocks are shifted, all blocks of an epoch begin so many tokens later, fewer than a block has, and there is one block less.
func (b *Blocks) Draw(seed uint64, i int, isShifted bool) int {
	n, shift := b.Train, 0
	if isShifted = isShifted && n > 1; isShifted {
		n--
	}
	epoch := uint64(i / n)
	if isShifted {
		shift = Shift(seed, epoch, b.Size)
	}
	return b.Begin(Order(seed, epoch, n, i%n)) + shift
}

// Put writes the tokens and the labels of the block that begins at a token.
func (b *Blocks) Put(tokens, labels []int32, begin int) {
	from := b.tokens[begin:]
	copy(tokens[:b.Size], from)
	copy(labels[:b.Size], from[1:])
}
