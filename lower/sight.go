package lower

import (
	"math"
	"slices"
	"sync"

	"tokitai/def"
)

// Sight says which keys of a block the queries of a tile see.
type Sight uint8

const (
	SomeKeys Sight = iota // or none, or all: nothing is known
	NoKey
	EveryKey
)

// Range is an interval of int32, both ends included.
type Range struct{ Low, High int }

// SightOf bounds the condition of a stream over queries, keys and heads by intervals. What it reads
// from operands, and whatever it computes from floats, is unknown.
func SightOf(f *def.Stream, params []float64, query, key, head Range) Sight {
	s := sights.Get().(*sight)
	defer sights.Put(s)
	s.params, s.leaves = params, [...]Range{{}, query, key, head}
	n := len(f.Math.Nodes)
	s.known = append(s.known[:0], make([]bool, n)...)
	s.ints, s.bools = slices.Grow(s.ints[:0], n)[:n], slices.Grow(s.bools[:0], n)[:n]
	return s.bool(f.Math.Outputs[1].Value)
}

// sights keeps memory between calls.
var sights = sync.Pool{New: func() any { return &sight{} }}

// Comparisons returns the comparisons in the condition of a stream: those that intervals can decide, so that
// blocks of keys are skipped or taken whole, and those that are computed for each query and key.
func Comparisons(f *def.Stream) (bounded, computed []*def.Node) {
	isKnown := map[*def.Node]bool{} // of int32 nodes: whether they depend on queries, keys, heads and parameters alone
	var known func(n *def.Node) bool
	known = func(n *def.Node) bool {
		is, ok := isKnown[n]
		if !ok {
			is = n.Type != def.Float && (n.Op != def.OpInput || n.Operand < len(sight{}.leaves))
			for _, a := range n.Args {
				is = known(a) && is
			}
			isKnown[n] = is
		}
		return is
	}
	isSeen := map[*def.Node]bool{}
	var walk func(n *def.Node)
	walk = func(n *def.Node) {
		if isSeen[n] {
			return
		}
		isSeen[n] = true
		if n.Op == def.OpSelect {
			for _, a := range n.Args {
				walk(a)
			}
			return
		}
		if known(n) {
			bounded = append(bounded, n)
		} else {
			computed = append(computed, n)
		}
	}
	walk(f.Math.Outputs[1].Value)
	return bounded, computed
}

type sight struct {
	params []float64
	leaves [4]Range // score, query, key, head, as bodies have them

	// By Node.ID:
	known []bool
	ints  []Range
	bools []Sight
}

var anyInt = Range{math.MinInt32, math.MaxInt32}

func (s *sight) int(n *def.Node) Range {
	if s.known[n.ID] {
		return s.ints[n.ID]
	}
	r := s.boundInt(n)
	if r.Low < math.MinInt32 || r.High > math.MaxInt32 { // it may wrap
		r = anyInt
	}
	s.known[n.ID], s.ints[n.ID] = true, r
	return r
}

func (s *sight) boundInt(n *def.Node) Range {
	switch n.Op {
	case def.OpInput:
		if n.Operand > 0 && n.Operand < len(s.leaves) {
			return s.leaves[n.Operand]
		}
	case def.OpParam:
		v := int(s.params[n.Param])
		return Range{v, v}
	case def.OpInt:
		return Range{int(n.Int), int(n.Int)}
	case def.OpIAdd:
		x, y := s.int(n.Args[0]), s.int(n.Args[1])
		return Range{x.Low + y.Low, x.High + y.High}
	case def.OpISub:
		x, y := s.int(n.Args[0]), s.int(n.Args[1])
		return Range{x.Low - y.High, x.High - y.Low}
	case def.OpIMul:
		x, y := s.int(n.Args[0]), s.int(n.Args[1])
		a, b, c, d := x.Low*y.Low, x.Low*y.High, x.High*y.Low, x.High*y.High
		return Range{min(a, b, c, d), max(a, b, c, d)}
	case def.OpShr:
		if by := n.Args[1]; by.Op == def.OpInt {
			x := s.int(n.Args[0])
			return Range{x.Low >> (by.Int & 31), x.High >> (by.Int & 31)}
		}
	case def.OpSelect:
		x, y := s.int(n.Args[1]), s.int(n.Args[2])
		switch s.bool(n.Args[0]) {
		case EveryKey:
			return x
		case NoKey:
			return y
		}
		return Range{min(x.Low, y.Low), max(x.High, y.High)}
	}
	return anyInt
}

func (s *sight) bool(n *def.Node) Sight {
	if s.known[n.ID] {
		return s.bools[n.ID]
	}
	v := s.boundBool(n)
	s.known[n.ID], s.bools[n.ID] = true, v
	return v
}

func (s *sight) boundBool(n *def.Node) Sight {
	switch n.Op {
	case def.OpSelect:
		x, y := s.bool(n.Args[1]), s.bool(n.Args[2])
		switch c := s.bool(n.Args[0]); {
		case c == EveryKey || x == y:
			return x
		case c == NoKey:
			return y
		}
		return SomeKeys
	case def.OpLess, def.OpLessEqual, def.OpEqual, def.OpNotEqual:
	default:
		return SomeKeys
	}
	if n.Args[0].Type != def.Int {
		return SomeKeys
	}
	x, y := s.int(n.Args[0]), s.int(n.Args[1])
	known := func(isAlways, isNever bool) Sight {
		switch {
		case isAlways:
			return EveryKey
		case isNever:
			return NoKey
		}
		return SomeKeys
	}
	areApart, areOne := x.High < y.Low || y.High < x.Low, x == y && x.Low == x.High
	switch n.Op {
	case def.OpLess:
		return known(x.High < y.Low, x.Low >= y.High)
	case def.OpLessEqual:
		return known(x.High <= y.Low, x.Low > y.High)
	case def.OpEqual:
		return known(areOne, areApart)
	}
	return known(areApart, areOne)
}

// Mod returns x modulo n, which is not negative.
func Mod(x, n int) int { return (x%n + n) % n }
