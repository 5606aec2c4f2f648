package model

import (
	"fmt"
	"strconv"

	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/cache"
	"tokitai/op/embedding"
	"tokitai/tensor"
)

// Names of the inputs of an inference program besides Tokens, and the parts of the names of its caches.
const (
	QueryStarts = "qstart" // int32 [Sequences+1]: where the tokens of each sequence begin
	KeyLengths  = "klen"   // int32 [Sequences]: keys of each, those of its new tokens included
	PageTable   = "pages"  // int32 [Sequences, PerSequence]: in which pages they lie
	Slots       = "slot"   // int32 [Tokens]: where the key of each token goes, page*PageSize + place
	LogitRows   = "rows"   // int32 [Rows]: the tokens whose logits are wanted
)

// InferenceShape says how large the inputs and caches of an inference program are.
type InferenceShape struct {
	Tokens      int // of a run, of all sequences together
	Sequences   int
	Rows        int // tokens whose logits are wanted
	Pages       int // of each cache
	PageSize    int // keys of a page: a power of two from 16 to 256
	PerSequence int // the largest number of pages of a sequence
}

// Inference is a decoder whose keys and values lie in pages of caches, one of each for every layer: [Caches].
// It computes prompts, pieces of them, and single tokens, of several sequences in one run. Which tokens
// belong to which sequence, and where they stand, is in int32 tensors: "position", "position.q" and
// "position.k" as NewDecoder has them, and those of the constants above.
type Inference struct {
	Config  Config
	Shape   InferenceShape
	Program *Program
	Caches  []string // names of the states, [Pages, PageSize, KVHeads, width]
}

// NewInference returns the program of a decoder with caches. Its calls are those of NewDecoder without
// dropout, but for where attention finds its keys, the choice of rows, and sums of the residual stream that are one
// call with the norm behind them; the logits of a token have the same bits.
func NewInference(c Config, s InferenceShape) (*Inference, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	isPower := s.PageSize >= 16 && s.PageSize <= 256 && s.PageSize&(s.PageSize-1) == 0
	if s.Tokens < 1 || s.Sequences < 1 || s.Rows < 1 || s.Pages < 1 || s.PerSequence < 1 || !isPower {
		return nil, fmt.Errorf("inference of %+v, want sizes of at least 1, and pages of a power of two from 16 to 256", s)
	}
	d := &inference{body: newBody(c, s.Tokens), shape: s}
	d.joins, d.attend = true, d.cached
	tokens := d.Input(Tokens, num.I32, s.Tokens)
	d.starts, d.lengths = d.Input(QueryStarts, num.I32, s.Sequences+1), d.Input(KeyLengths, num.I32, s.Sequences)
	d.pages, d.slots = d.Input(PageTable, num.I32, s.Sequences, s.PerSequence), d.Input(Slots, num.I32, s.Tokens)
	rows := d.Input(LogitRows, num.I32, s.Rows)
	x := d.layers(d.embed(tokens))
	logits := d.Value(Logits, num.F32, s.Rows, c.Vocabulary)
	d.head(d.Call("rows", embedding.ForwardDefinition, nil, rows, x)[0], logits)
	d.Keep(logits)
	p, err := d.Builder.Program()
	return &Inference{c, s, p, d.caches}, err
}

// Constants returns the inputs that are the same in every run: the tables of rope, and zeros for routers without
// biases. The caller closes them.
func (x *Inference) Constants(q *engine.Queue) (map[string]*tensor.Tensor, error) {
	list, err := x.Config.ropeTables(q.Device())
	if err != nil {
		return nil, err
	}
	if n := x.Config.Mixture.Experts; x.Program.Value("router.bias") != nil {
		t, err := tensor.FromFloat32(q.Device(), num.F32, make([]float32, n), n)
		if err != nil {
			for _, other := range list {
				other.Close()
			}
			return nil, err
		}
		list["router.bias"] = t
	}
	return list, nil
}

type inference struct {
	body
	shape                         InferenceShape
	starts, lengths, pages, slots Ref
	caches                        []string
}

// cached stores the keys and values of the new tokens, and weighs those of their sequences.
func (d *inference) cached(layer int, name string, q, k, v Ref) Ref {
	var pages [2]Ref
	for i, part := range []struct {
		name string
		rows Ref
	}{{"k", k}, {"v", v}} {
		shape := part.rows.Shape()
		cacheName := "cache." + strconv.Itoa(layer) + "." + part.name
		d.caches = append(d.caches, cacheName)
		pages[i] = d.State(cacheName, d.format, d.shape.Pages, d.shape.PageSize, shape[1], shape[2])
		width := shape[1] * shape[2]
		d.CallInto(name+"."+part.name, cache.AppendDefinition, nil, []Ref{d.slots, part.rows.As(shape[0], width)}, []Ref{pages[i].As(d.shape.Pages*d.shape.PageSize, width)})
	}
	w := d.weighing(layer)
	return d.Call(name, w.paged, w.params, q, pages[0], pages[1], d.starts, d.lengths, d.pages)[0]
}
