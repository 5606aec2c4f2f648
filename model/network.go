package model

import (
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/norm"
	"tokitai/tensor"
)

// Network is a program with what training needs to know about it.
type Network struct {
	Program   *Program
	Gradients map[string]string // names of the gradients by those of the weights; nil without them
	Routers   []Measured        // of each mixture

	block     int // tokens of a sequence, for attention
	constants func(q *engine.Queue) (map[string]*tensor.Tensor, error)
}

// Measured names results that say how a router works.
type Measured struct {
	Name    string // that its weights begin with
	Bias    string // of its experts, by which it chooses them; "" without biases
	Experts int
	Counts  string // int32, how many rows each expert has
	Entropy string // the sum over the rows of the entropy of the router's softmax, in nats
}

// Constants returns the inputs that are the same in every run. The caller closes them.
func (n *Network) Constants(q *engine.Queue) (map[string]*tensor.Tensor, error) {
	if n.constants == nil {
		return map[string]*tensor.Tensor{}, nil
	}
	return n.constants(q)
}

// measured adds the calls that say how a router works, and names their results.
func measured(b *Builder, name string, logits, counts Ref) Measured {
	total := b.Value(name+"entropy", num.F32, 1)
	b.CallInto(name+"entropy.sum", norm.TotalDefinition, nil, []Ref{b.Call(name+"entropy.row", Entropy, nil, logits)[0].As(1, logits.Shape()[0])}, []Ref{total})
	b.Keep(counts)
	b.Keep(total)
	return Measured{Name: name, Experts: counts.Value().Len(), Counts: counts.Value().Name, Entropy: total.Value().Name}
}

// namesOf returns the names of gradients by those of their weights.
func namesOf(gradients map[string]Ref) map[string]string {
	names := map[string]string{}
	for weight, r := range gradients {
		names[weight] = r.Value().Name
	}
	return names
}
