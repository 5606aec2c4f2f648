package engine

import (
	"cmp"
	"slices"
	"sort"

	"tokitai/lower"
)

// span is memory that a call writes, gaps included.
type span struct {
	from, to uint64
	call     int32
	output   int32 // counted over all calls
}

// spans finds out whether calls depend on each other. It keeps its memory, and the order of
// the last outputs: the next ones are mostly in the same order.
type spans struct {
	written []span  // sorted
	places  []int32 // among them, by output
}

// areApart reports whether no call writes to memory that another reads or writes. Views
// whose elements lie between each other's count as sharing memory.
func (s *spans) areApart(calls []batchEntry) bool {
	s.collect(calls)
	for i := 1; i < len(s.written); i++ { // outputs of one call share no memory
		if s.written[i-1].to > s.written[i].from {
			return false
		}
	}
	for i := range calls {
		e := &calls[i]
		for k := range e.launch.Operands {
			if !e.definition.Operands[k].IsOut && s.isWritten(&e.launch.Operands[k], int32(i)) {
				return false
			}
		}
	}
	return true
}

// isWritten reports whether a call other than the given one writes to an operand's memory.
func (s *spans) isWritten(o *lower.Operand, call int32) bool {
	from, to := extent(o)
	end := sort.Search(len(s.written), func(i int) bool { return s.written[i].from >= to })
	for i := end - 1; i >= 0 && s.written[i].to > from; i-- {
		if s.written[i].call != call {
			return true
		}
	}
	return false
}

// extent returns the addresses between which an operand lies.
func extent(o *lower.Operand) (from, to uint64) {
	return o.Pointer, o.Pointer + uint64((o.Rows-1)*o.Stride+o.Cols)*uint64(o.DType.Size())
}

// collect lists what calls write, sorted.
func (s *spans) collect(calls []batchEntry) {
	n := 0
	for i := range calls {
		d := calls[i].definition
		for k := range d.Operands {
			if d.Operands[k].IsOut {
				n++
			}
		}
	}
	s.written = resized(s.written, n)
	if len(s.places) != n {
		s.places = resized(s.places, n)
		for i := range s.places {
			s.places[i] = int32(i)
		}
	}
	output := 0
	for i := range calls {
		e := &calls[i]
		for k := range e.launch.Operands {
			if !e.definition.Operands[k].IsOut {
				continue
			}
			x := &s.written[s.places[output]]
			x.from, x.to = extent(&e.launch.Operands[k])
			x.call, x.output = int32(i), int32(output)
			output++
		}
	}
	s.sort()
}

func (s *spans) sort() {
	isSorted := true
	for i := 1; i < len(s.written) && isSorted; i++ {
		isSorted = s.written[i-1].from <= s.written[i].from
	}
	if isSorted {
		return
	}
	slices.SortFunc(s.written, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := range s.written {
		s.places[s.written[i].output] = int32(i)
	}
}
