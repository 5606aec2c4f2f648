package num

import "math/bits"

// The order of a sum is fixed by its shape: elements are dealt to lanes, a lane
// starts at +0 and adds its elements in ascending order, and the lanes are added as
// neighbours in a binary tree. The shape depends on sizes alone, never on a device, a
// dtype or a number of threads. The numbers below are frozen: changing one would
// change the bits of results.

// FlatRow is the length of the rows that a sum over a whole tensor divides its
// elements into; the last row may be shorter. Each row is summed as a row, and the
// row of these sums likewise.
const FlatRow = 65536

// RowLanes returns the number of lanes of a sum over a row of C columns: column c
// goes to lane c mod RowLanes(C).
func RowLanes(C int) int {
	switch {
	case C <= 2048:
		return 256
	case C <= 8192:
		return 1024
	}
	return 8192
}

// ColLanes returns the number of lanes of each column sum of a matrix of C columns:
// row r goes to lane r mod ColLanes(C). Wide matrices have enough columns to keep a
// device busy, so they get fewer lanes.
func ColLanes(C int) int {
	switch {
	case C <= 256:
		return 2048
	case C <= 2048:
		return 512
	}
	return 256
}

// Tree adds neighbours, then neighbouring sums, and so on: s[i] = s[2i] + s[2i+1]
// until one is left. A lane without a neighbour is passed on unchanged, so padding to
// a larger power of two of lanes gives the same bits. No lanes give +0.
func Tree(lanes []float32) float32 {
	switch n := len(lanes); n {
	case 0:
		return 0
	case 1:
		return lanes[0]
	default:
		half := 1 << (bits.Len(uint(n-1)) - 1) // the largest power of two below n
		return Tree(lanes[:half]) + Tree(lanes[half:])
	}
}

// TreeRows is Tree for every column of rows of equal length at once: it leaves the sums in
// the first row, and intermediate ones in others.
func TreeRows(lanes [][]float32) {
	if len(lanes) < 2 {
		return
	}
	half := 1 << (bits.Len(uint(len(lanes)-1)) - 1)
	TreeRows(lanes[:half])
	TreeRows(lanes[half:])
	for c, v := range lanes[half] {
		lanes[0][c] += v
	}
}

// LaneSum returns the sum of x in the given number of lanes. It is written to be
// obviously right, not fast.
func LaneSum(x []float32, lanes int) float32 {
	sums := make([]float32, min(lanes, len(x)))
	for i, v := range x {
		sums[i%lanes] += v
	}
	return Tree(sums)
}
