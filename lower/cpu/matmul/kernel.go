package matmul

import (
	"unsafe"

	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// target describes the code of an instruction set.
type target struct {
	set     machine.Set
	lanes   int // of a vector, in binary32
	rows    int // of a full register block
	vectors int // across a full register block and a panel of the right operand

	// Whether code handles any number of lanes: if not, full vectors only.
	partial bool

	lineRows int // the most rows that are multiplied by lines
}

// The sizes of register blocks that kernels have, besides those of a panel: with few rows,
// more vectors are needed to hide the latency of the multiply-adds.
const (
	maxRows    = 14
	maxVectors = 8
)

// widest returns the number of vectors across the widest register block of that many rows.
func (t *target) widest(rows int) int {
	vectors := maxVectors
	for vectors > t.vectors && rows*vectors+vectors+2 > t.registers() {
		vectors /= 2
	}
	return vectors
}

// leftStep returns the bytes from a row of a packed panel of the left operand to the next:
// whole vectors if it takes several, since they are written one after the other.
func (t *target) leftStep() int {
	if t.rows <= t.lanes {
		return t.rows * 4
	}
	return (t.rows + t.lanes - 1) / t.lanes * t.lanes * 4
}

// masks reports whether vectors of a format can be loaded in part.
func (t *target) masks(dtype num.DType) bool {
	return t.partial || t.set == machine.AVX2 && dtype == num.F32
}

func (t *target) registers() int {
	if t.set == machine.AVX2 {
		return 16
	}
	return 32
}

// code is generated code for operands of one storage format.
type code struct {
	target
	dtype   num.DType // of the operands
	program *machine.Code
	listing func() string // of the full register block

	// Offsets of the functions. Those that are not there are not called.
	multiply       [2]kernelTable   // by adjacency of the left operand, right operand binary32
	multiplyStored kernelTable      // rows adjacent, right operand of 16 bits as stored
	multiplyLines  [maxRows + 1]int // by rows: right operand as stored, in lines
	widen          [2]byFormat      // rows of one vector and of two to binary32
	widenFar       [2]byFormat      // the same, which fetches rows ahead
	transpose      byFormat         // lines to vectors across them, in binary32
	narrow         byFormat         // rows of binary32 to the stored format
}

// byFormat has the offset of a function for each storage format of real values.
type byFormat [num.E5M2 + 1]int

// adjacency says which elements of a left operand lie side by side.
type adjacency uint8

const (
	rowsAdjacent  adjacency = iota // as in packed panels
	stepsAdjacent                  // along the summed index
)

func (a adjacency) String() string { return [...]string{"rows", "steps"}[a] }

// kernelTable has the offsets of kernels by rows and vectors.
type kernelTable [maxRows + 1][maxVectors + 1]int

// multiplyFrame is the argument of a multiplication. For every row r of a panel and every
// column c of the register block:
//
//	x = in[r][c], or +0 without in
//	for k := range depth { x = fma(a[r][k], b[k][c], x) }
//	out[r][c] = x
//
// It repeats that for each panel: of rows with the same b, or of columns with the same a. Distances
// are in bytes.
//
// Where the right operand is given as lines, b[k][c] is lines[c][k], the only panel is
// packed without gaps, and there are as many columns as a vector has lanes. Lines that are
// bStep bytes further on are fetched into the cache.
type multiplyFrame struct {
	a, b, in, out unsafe.Pointer
	aRow, aStep   int // from a row to the next, from an index of the sum to the next; one of them is 4
	bStep         int
	inRow, outRow int
	depth         int
	panels        int // at least 1; the code counts it down
	aPanel        int // from a panel to the next
	bPanel        int
	inPanel       int
	outPanel      int
	mask          uint64         // lanes of the last vector, one bit each
	maskLanes     unsafe.Pointer // the same as a vector, for sets without mask registers
	prefetch      uintptr        // where to fetch what later multiplications need; the code moves it on

	lines     [16]unsafe.Pointer // of multiplyLines
	lastSteps uint64             // of multiplyLines: the steps beyond whole blocks, one bit each
}

// moveFrame is the argument of widen, transpose and narrow.
//
//	widen      to[i][l] = from[0][i][l]         for i in depth, l in lanes, and that times times
//	transpose  to[i][l] = from[l][i]            for i in depth, l in lanes
//	narrow     to[i][c] = round(from[0][i][c])  for i in depth, c in count
//
// Widen and transpose write full vectors, transpose also full blocks of rows: to scratch
// memory with room for that.
type moveFrame struct {
	from     [16]unsafe.Pointer
	to       unsafe.Pointer
	fromStep int // of widen and narrow: bytes from a row to the next
	toStep   int
	depth    int
	count    int // of narrow: columns
	mask     uint64

	// Of widen: from each time to the next, in bytes.
	times, fromNext, toNext int
	ahead                   int            // from what is read to what is fetched into the cache
	maskLanes               unsafe.Pointer // mask as a vector, for sets without mask registers
}

// maskLanes has a vector of n selected lanes at maskLanes[8-n].
var maskLanes = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}
