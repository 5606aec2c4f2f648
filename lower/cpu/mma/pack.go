package mma

import (
	"math"

	lowercpu "tokitai/lower/cpu"
	"tokitai/num"
)

// zeroExponent is the exponent of zeros. It keeps products with a zero out of the maximum.
const zeroExponent = -1 << 20

// packed is a block of an operand in the order in which steps read it: lines (rows of the
// left operand, columns of the right one) by values of the summed index. A line's place
// and an index's place add up to the place of an element.
type packed struct {
	values    []float64
	exponents []int32

	valueAt    []int // by line, of values
	exponentAt []int // by line, of exponents
	depthAt    []int // by index
	depth      int   // whole steps
}

func newPacked(lines, depth int) packed {
	return packed{
		values: make([]float64, lines*depth), exponents: make([]int32, lines*depth),
		valueAt: make([]int, lines), exponentAt: make([]int, lines), depthAt: make([]int, depth),
	}
}

// layLeft lays out rows step by step: the L values of row 0, those of row 1, and so on.
func (p *packed) layLeft(rows, depth, L int) {
	p.depth = depth
	for r := range rows {
		p.valueAt[r], p.exponentAt[r] = r*L, r*L
	}
	for k := range depth {
		p.depthAt[k] = k/L*rows*L + k%L
	}
}

// layRight lays out columns in strips of lanes, index by index.
func (p *packed) layRight(cols, depth, lanes int) {
	p.depth = depth
	for c := range cols {
		first := c / lanes * lanes * depth
		p.valueAt[c], p.exponentAt[c] = first+lane(c, lanes), first+c%lanes
	}
	for k := range depth {
		p.depthAt[k] = k * lanes
	}
}

// lane returns the position of a column's value in its strip: even columns come first, then
// odd ones. Exponents keep the order of the columns and are half as wide, so that those of
// an even column and of the odd one after it share the 64 bits of one value. No exponent has
// to move between elements of a vector.
func lane(c, lanes int) int { return c&1*lanes/2 + c%lanes/2 }

// pack fills the block with n lines from first on, by depth values of the summed index
// from k on, and its last step with zeros. linesAreRows says that a line is contiguous in
// memory.
func (p *packed) pack(buffer []float32, a *num.Array, linesAreRows bool, emin int32, first, n, k, depth int) {
	if linesAreRows {
		for i := range n {
			line := buffer[:depth]
			lowercpu.Load(line, a, first+i, k)
			values, exponents, depthAt := p.values[p.valueAt[i]:], p.exponents[p.exponentAt[i]:], p.depthAt[:depth]
			for j, v := range line {
				values[depthAt[j]], exponents[depthAt[j]] = float64(v), exponentOf(v, emin)
			}
		}
	} else {
		for j := range depth {
			line := buffer[:n]
			lowercpu.Load(line, a, k+j, first)
			values, exponents := p.values[p.depthAt[j]:], p.exponents[p.depthAt[j]:]
			valueAt, exponentAt := p.valueAt[:n], p.exponentAt[:n]
			for i, v := range line {
				values[valueAt[i]], exponents[exponentAt[i]] = float64(v), exponentOf(v, emin)
			}
		}
	}
	for i := range n {
		for _, at := range p.depthAt[depth:p.depth] {
			p.values[p.valueAt[i]+at], p.exponents[p.exponentAt[i]+at] = 0, zeroExponent
		}
	}
}

// exponentOf returns the exponent of a value of a format with the least exponent emin. That
// of infinity and NaN is infExponent.
func exponentOf(v float32, emin int32) int32 {
	u := math.Float32bits(v) << 1
	if u == 0 {
		return zeroExponent
	}
	return max(int32(u>>24)-127, emin)
}
