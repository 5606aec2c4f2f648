package jit

import "tokitai/num"

// The worker's memory begins with words of 8 bytes, then come slots of 64: one vector of
// the widest registers each. Generated code has its address in one register and finds
// everything from there.

const (
	wordRows    place = 8 * iota // rows still to compute
	wordCols                     // columns; in a part of a pass, the column that it ends before
	wordFirst                    // the first column of a part of a pass
	wordMask                     // lanes of a row sum, less one
	wordVectors                  // vectors that the lanes of a row sum take
	wordScratch                  // for the code itself
	fixedWords  = iota
)

const slotBytes = 64

// arrayKind is what an array is.
type arrayKind uint8

const (
	operandArray arrayKind = iota
	keptArray              // a row of the worker's own
	columnArray            // a value per column that is computed once
	sumArray               // the accumulators of a column sum
	addendArray            // what is added to the accumulators of a column sum
	totalArray             // a row of terms of a total sum that is added up elsewhere
	rowArray               // the row of a table that an index names; code points at it
)

// array is memory that code walks through: a row of it at a time.
type array struct {
	kind    arrayKind
	index   int       // of the operand, kept value, column value, sum, or lookup
	format  num.DType // of its elements
	pointer place     // word: the address of the row's first element
	stride  place     // word: bytes from one row to the next; 0 if all rows are the same one
}

// table is the words by which code finds the rows of a table.
type table struct {
	pointer place // the address of its first element
	stride  place // bytes from one row to the next
	rows    place // the number of its rows
}

// layout gives everything in the worker's memory its place.
type layout struct {
	arrays    []array
	tables    map[int]*table // by operand
	zeros     place          // word: the address of a row of zeros; 0 if nobody reads it
	sums      []place        // by row sum: the word with the address of its lanes
	sumLanes  int            // of every row sum; 0 if the length of a row decides
	words     int
	slots     int
	constants map[uint32]place
}

func newLayout() *layout {
	return &layout{words: fixedWords, constants: map[uint32]place{}, tables: map[int]*table{}}
}

// maxWords is how many words there are: they come first, and slots follow.
const maxWords = 128

func (l *layout) word() place {
	l.words++
	return place(8 * (l.words - 1))
}

// slot returns the place of a new slot.
func (l *layout) slot() place {
	l.slots++
	return place(8*maxWords + slotBytes*(l.slots-1))
}

// bytes returns the size of the worker's memory.
func (l *layout) bytes() int { return 8*maxWords + slotBytes*l.slots }

// constant returns the slot that holds a pattern in all lanes.
func (l *layout) constant(bits uint32) place {
	p, ok := l.constants[bits]
	if !ok {
		p = l.slot()
		l.constants[bits] = p
	}
	return p
}

// table returns the words of a table.
func (l *layout) table(operand int) *table {
	t, ok := l.tables[operand]
	if !ok {
		t = &table{l.word(), l.word(), l.word()}
		l.tables[operand] = t
	}
	if l.zeros == 0 {
		l.zeros = l.word()
	}
	return t
}

// array returns the index of an array, which is added if it is new.
func (l *layout) array(kind arrayKind, index int, format num.DType, hasRows bool) int {
	for i := range l.arrays {
		if a := &l.arrays[i]; a.kind == kind && a.index == index {
			return i
		}
	}
	a := array{kind: kind, index: index, format: format, pointer: l.word()}
	if hasRows {
		a.stride = l.word()
	}
	l.arrays = append(l.arrays, a)
	return len(l.arrays) - 1
}

// rowLanes returns how many lanes sums over rows of a length have.
func (l *layout) rowLanes(length int) int {
	if l.sumLanes != 0 {
		return l.sumLanes
	}
	return num.RowLanes(length)
}

// laneOf returns the first lane of a row sum to which a copy of an unrolled loop adds, counted from that
// of the first copy, in vectors of so many lanes.
func (l *layout) laneOf(copy, vector int) int {
	if l.sumLanes != 0 {
		return copy * vector % l.sumLanes
	}
	return copy * vector
}
