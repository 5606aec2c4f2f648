package mutants

import (
	"slices"
	"tokitai/def"
	"tokitai/num"
)

// Orders are orders of additions, each with the promise that it keeps. A sum in binary64 is
// more accurate than any declared order requires.
var Orders = []struct {
	Name, Text string
	Promise    Promise
	Sum        func([]float32) float32
}{
	{"sequential", "one sum, ascending", Sequential, Ascending},
	{"lanes-16", "16 lanes and a tree", Lanes16, InLanes(16)},
	{"lanes-128", "128 lanes and a tree", Lanes128, InLanes(128)},
	{"pairwise", "halves of halves", Pairwise, InPairs},
	{"chunks-32", "chunks of 32", chunks32, inChunks(32)},
	{"reversed", "one sum, descending, declared as any order", AnyOrder, Descending},
	{"binary64", "sums in binary64, rounded once", Pairwise, InDouble},
}

// InOrders adds kernels that keep their promise: the body with sums in each of the named
// Orders.
func (l *List) InOrders(d *def.Definition, dtype num.DType, body func(Parts) func(*Call), names ...string) {
	l.Of(d, dtype)
	for _, o := range Orders {
		if slices.Contains(names, o.Name) {
			l.Add(o.Name, o.Text, o.Promise, Plain{Body: body(Ordered(o.Sum))})
		}
	}
}

// AddReferenceOrder adds a kernel that has the reference's bits and does not promise them.
func (l *List) AddReferenceOrder() {
	l.Add("reference-order", "the reference's own order, declared as any order", AnyOrder, Plain{Body: Answer})
}
