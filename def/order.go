package def

import (
	"fmt"
	"math/bits"
	"slices"
)

// Order is the order in which a lowering that does not promise bits adds the terms of a
// sum. The zero Order is any order. A declared order depends only on the number of
// terms. The fewer additions a term passes through, the fewer results an order admits.
type Order struct {
	Kind  OrderKind
	Width int // of Lanes and Chunks; the bound of Height
}

// OrderKind is a family of orders.
type OrderKind uint8

const (
	AnyOrder OrderKind = iota
	Lanes              // term k in lane k mod Width, each lane ascending; then a binary tree over the lanes
	Chunks             // Width neighbours at a time, each chunk ascending; then the chunks' sums ascending
	Pairwise           // halves, recursively
	Height             // any order in which no term passes through more than Width additions
)

// Sequential adds the terms in ascending order.
var Sequential = Order{Kind: Lanes, Width: 1}

func (o Order) String() string {
	switch {
	case o == Sequential:
		return "sequential"
	case o.Kind == Lanes || o.Kind == Chunks || o.Kind == Height:
		return fmt.Sprintf("%s(%d)", [...]string{Lanes: "lanes", Chunks: "chunks", Height: "height"}[o.Kind], o.Width)
	case o.Kind == Pairwise:
		return "pairwise"
	}
	return "any order"
}

// IsDeclared reports whether the order is a function of the number of terms alone.
func (o Order) IsDeclared() bool { return o.Kind == Lanes || o.Kind == Chunks || o.Kind == Pairwise }

// Check returns an error if the order is invalid.
func (o Order) Check() error {
	switch {
	case o.Kind > Height:
		return fmt.Errorf("order kind %d is unknown", o.Kind)
	case (o.Kind == Lanes || o.Kind == Chunks || o.Kind == Height) && o.Width < 1:
		return fmt.Errorf("an order %s needs a width of at least 1, got %d", o, o.Width)
	}
	return nil
}

// Height returns the largest number of additions that a term of a sum of n passes
// through, not counting one to +0.
func (o Order) Height(n int) int {
	if n < 2 {
		return 0
	}
	h := n - 1
	switch o.Kind {
	case Lanes:
		used := min(n, o.Width)
		h = (n+o.Width-1)/o.Width - 1 + bits.Len(uint(used-1))
	case Chunks:
		h = min(n, o.Width) - 1 + (n+o.Width-1)/o.Width - 1
	case Pairwise:
		h = bits.Len(uint(n - 1))
	case Height:
		h = min(h, o.Width)
	}
	return h
}

// Walk adds the terms in the order, in float64, and returns the sum. It calls visit for
// every partial sum that rounds; the rounding errors of the order are relative to these.
// The order must be declared.
func (o Order) Walk(terms []float64, visit func(partial float64)) float64 {
	return Fold(o, terms, func(a, b float64) float64 {
		visit(a + b)
		return a + b
	})
}

// Fold adds the terms in the order with the given addition. Without terms it returns the
// zero value. The order must be declared.
func Fold[T any](o Order, terms []T, add func(a, b T) T) T {
	switch o.Kind {
	case Lanes:
		lanes := slices.Clone(terms[:min(o.Width, len(terms))])
		for k := len(lanes); k < len(terms); k++ {
			l := k % o.Width
			lanes[l] = add(lanes[l], terms[k])
		}
		return tree(lanes, add)
	case Chunks:
		var sums []T
		for chunk := range slices.Chunk(terms, o.Width) {
			sums = append(sums, chain(chunk, add))
		}
		return chain(sums, add)
	case Pairwise:
		return halves(terms, add)
	}
	panic("def: an order that is not declared does not say which terms meet")
}

// tree adds neighbours, level by level. It overwrites x.
func tree[T any](x []T, add func(a, b T) T) (sum T) {
	for len(x) > 1 {
		half := (len(x) + 1) / 2
		for i := range half {
			if x[i] = x[2*i]; 2*i+1 < len(x) {
				x[i] = add(x[i], x[2*i+1])
			}
		}
		x = x[:half]
	}
	if len(x) == 1 {
		sum = x[0]
	}
	return sum
}

func chain[T any](x []T, add func(a, b T) T) (sum T) {
	for i, v := range x {
		if i == 0 {
			sum = v
		} else {
			sum = add(sum, v)
		}
	}
	return sum
}

func halves[T any](x []T, add func(a, b T) T) (sum T) {
	switch len(x) {
	case 0:
		return sum
	case 1:
		return x[0]
	}
	half := (len(x) + 1) / 2
	return add(halves(x[:half], add), halves(x[half:], add))
}
