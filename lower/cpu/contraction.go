package cpu

import (
	"fmt"
	"math"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
)

// A contraction is cut into tiles of the result, one item each, whatever the number of
// its matrices. A worker packs the tile's rows of the left operand and columns of the
// right one into panels, block after block of the summed index, and carries the tile's
// accumulators from one block to the next: every accumulator sees its products in
// ascending order, so that blocking changes no bit.
const (
	tileRows  = 64
	tileCols  = 128
	tileDepth = 256 // of one block of the summed index

	// The inner loop holds panelRows × panelCols accumulators in registers: eight
	// chains keep the adder busy, and with their operands they fit sixteen
	// registers.
	panelRows = 2
	panelCols = 4
)

// multiplyPanels and fusedPanels are written out for 2 × 4.
const _ = uint(panelRows-2) + uint(2-panelRows) + uint(panelCols-4) + uint(4-panelCols)

type contraction struct {
	d      *def.Definition
	tiling Tiling[tileWorker]
}

// compileContraction lowers a contraction, in binary32 or in a ring.
func compileContraction(d *def.Definition, _ []num.DType, _ Class) (Program, error) {
	if d.Ring().IsExact() {
		return newRing(d, false)
	}
	return newContraction(d), nil
}

func newContraction(d *def.Definition) *contraction {
	p := &contraction{d: d}
	p.tiling = Tiling[tileWorker]{Rows: tileRows, Cols: tileCols, New: p.newWorker, Do: p.do}
	return p
}

func (p *contraction) String() string {
	return fmt.Sprintf("packed contraction %s: tiles of %d×%d, blocks of %d, inner loop %d×%d, rule fma\n",
		p.d.Name, tileRows, tileCols, tileDepth, panelRows, panelCols)
}

// tileWorker is the memory that one worker uses.
type tileWorker struct {
	left  [tileRows * tileDepth]float32 // panels of panelRows, k by k
	right [tileCols * tileDepth]float32 // panels of panelCols, k by k
	acc   [tileRows * tileCols]float32  // by panels
	line  [tileDepth]float32

	// The same panels in binary64, for products that are not exact in binary32.
	left64  []float64
	right64 []float64
}

func (p *contraction) newWorker(c *lower.Call) *tileWorker {
	w := &tileWorker{}
	if dtype := c.Operands[p.d.Product().Left].DType; dtype == num.BF16 || dtype == num.F32 {
		w.left64 = make([]float64, len(w.left))
		w.right64 = make([]float64, len(w.right))
	}
	return w
}

// Bind implements Program.
func (p *contraction) Bind(c *lower.Call, workers int) Job { return p.tiling.Bind(p.d, c, workers) }

// do computes one tile of the result.
func (p *contraction) do(w *tileWorker, tiles *lower.Tiles, t *lower.Tile) {
	clear(w.acc[:])
	if p.d.Accumulates() {
		for r := range t.Rows {
			line := w.line[:t.Cols]
			Load(line, &t.Result, t.Row+r, t.Col)
			for c, v := range line {
				w.acc[accIndex(r, c)] = v
			}
		}
	}
	for k := t.K; k < t.End; k += tileDepth {
		depth := min(tileDepth, t.End-k)
		w.packLeft(&t.Left, p.d.Product().TransposeLeft, t.Row, t.Rows, k, depth)
		w.packRight(&t.Right, p.d.Product().TransposeRight, t.Col, t.Cols, k, depth)
		w.multiply(t.Rows, t.Cols, depth, t.Left.DType)
	}
	for r := range t.Rows {
		line := w.line[:t.Cols]
		for c := range line {
			line[c] = w.acc[accIndex(r, c)]
		}
		tiles.Multiply(line, t.Row+r, t.Col)
		Store(&t.Result, t.Row+r, t.Col, line)
	}
}

// accIndex is where the accumulator of the tile's element (r, c) lies.
func accIndex(r, c int) int {
	return (r/panelRows*(tileCols/panelCols)+c/panelCols)*panelRows*panelCols + r%panelRows*panelCols + c%panelCols
}

// packLeft fills panels of panelRows rows: element (r, k) at k·panelRows + r mod panelRows.
func (w *tileWorker) packLeft(a *num.Array, transposed bool, row, rows, k, depth int) {
	pack(w.left[:], w.line[:], a, !transposed, panelRows, row, rows, k, depth)
}

// packRight fills panels of panelCols columns: element (k, c) at k·panelCols + c mod panelCols.
func (w *tileWorker) packRight(b *num.Array, transposed bool, col, cols, k, depth int) {
	pack(w.right[:], w.line[:], b, transposed, panelCols, col, cols, k, depth)
}

// pack widens n lines (rows of the left operand, columns of the right one) by
// depth values of the summed index into panels of width lines; a panel that is
// not full ends in zeros. linesAreRows says that a line is contiguous in memory.
func pack(panels, buffer []float32, a *num.Array, linesAreRows bool, width, first, n, k, depth int) {
	if linesAreRows {
		for i := range n {
			line := buffer[:depth]
			Load(line, a, first+i, k)
			panel := panels[i/width*width*tileDepth:]
			for kk, v := range line {
				panel[kk*width+i%width] = v
			}
		}
	} else {
		for kk := range depth {
			line := buffer[:n]
			Load(line, a, k+kk, first)
			for i, v := range line {
				panels[i/width*width*tileDepth+kk*width+i%width] = v
			}
		}
	}
	for i := n; i%width != 0; i++ {
		panel := panels[i/width*width*tileDepth:]
		for kk := range depth {
			panel[kk*width+i%width] = 0
		}
	}
}

// multiply adds the products of the packed blocks to the accumulators.
func (w *tileWorker) multiply(rows, cols, depth int, dtype num.DType) {
	rowPanels, colPanels := (rows+panelRows-1)/panelRows, (cols+panelCols-1)/panelCols
	exactProducts := dtype == num.F16 || dtype.IsFP8() || dtype == num.BF16 && w.productsFit(rowPanels, colPanels, depth)
	if !exactProducts {
		widenPanels(w.left64, w.left[:], rowPanels, panelRows, depth)
		widenPanels(w.right64, w.right[:], colPanels, panelCols, depth)
	}
	for c := range colPanels {
		for r := range rowPanels {
			acc := (*[panelRows * panelCols]float32)(w.acc[(r*(tileCols/panelCols)+c)*panelRows*panelCols:])
			a, b := r*panelRows*tileDepth, c*panelCols*tileDepth
			if exactProducts {
				multiplyPanels(acc, w.left[a:a+depth*panelRows], w.right[b:b+depth*panelCols])
			} else {
				fusedPanels(acc, w.left64[a:a+depth*panelRows], w.right64[b:b+depth*panelCols])
			}
		}
	}
}

func widenPanels(d []float64, s []float32, panels, width, depth int) {
	for p := range panels {
		at := p * width * tileDepth
		for i, v := range s[at : at+width*depth] {
			d[at+i] = float64(v)
		}
	}
}

// productsFit reports whether every product of the packed bf16 values is exact in
// binary32: two significands of 8 bits give one of 16, so it is unless a product
// overflows or its last bit lies below 2^-149.
func (w *tileWorker) productsFit(rowPanels, colPanels, depth int) bool {
	leftLow, leftHigh := exponents(w.left[:], rowPanels, panelRows, depth)
	rightLow, rightHigh := exponents(w.right[:], colPanels, panelCols, depth)
	return leftHigh+rightHigh+2 <= 128 && leftLow+rightLow-14 >= -149
}

// exponents returns bounds on the exponents of all values but zeros, which are
// always exact. Subnormals count as the least normal, whose lowest bit is theirs; infinities and NaN as 128.
func exponents(panels []float32, count, width, depth int) (low, high int) {
	least, most := uint32(math.MaxUint32), uint32(0)
	for p := range count {
		for _, v := range panels[p*width*tileDepth:][:width*depth] {
			if u := math.Float32bits(v) << 1; u != 0 {
				least, most = min(least, u), max(most, u)
			}
		}
	}
	if most == 0 {
		return 0, 0
	}
	low = int(least>>24) - 127
	if least>>24 == 0 {
		low = -126 // a bf16 subnormal has 7 bits below 2^-126, as a normal has below its exponent
	}
	return low, int(most>>24) - 127
}

// multiplyPanels is acc[r][c] += a[k][r]·b[k][c], k ascending, for products that
// are exact in binary32: then a product and a sum are the fused multiply-add.
func multiplyPanels(acc *[panelRows * panelCols]float32, a, b []float32) {
	c00, c01, c02, c03 := acc[0], acc[1], acc[2], acc[3]
	c10, c11, c12, c13 := acc[4], acc[5], acc[6], acc[7]
	for len(a) >= panelRows && len(b) >= panelCols {
		a0, a1 := a[0], a[1]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		c00 += float32(a0 * b0)
		c01 += float32(a0 * b1)
		c02 += float32(a0 * b2)
		c03 += float32(a0 * b3)
		c10 += float32(a1 * b0)
		c11 += float32(a1 * b1)
		c12 += float32(a1 * b2)
		c13 += float32(a1 * b3)
		a, b = a[panelRows:], b[panelCols:]
	}
	*acc = [...]float32{c00, c01, c02, c03, c10, c11, c12, c13}
}

// fusedPanels is acc[r][c] = fma(a[k][r], b[k][c], acc[r][c]), k ascending: the
// primitive fma on binary32 values held in binary64.
func fusedPanels(acc *[panelRows * panelCols]float32, a, b []float64) {
	for r := range panelRows {
		c0, c1, c2, c3 := float64(acc[4*r]), float64(acc[4*r+1]), float64(acc[4*r+2]), float64(acc[4*r+3])
		for k := 0; k < len(b)/panelCols; k++ {
			x, y := a[panelRows*k+r], (*[panelCols]float64)(b[panelCols*k:])
			s0 := float64(x*y[0]) + c0
			s1 := float64(x*y[1]) + c1
			s2 := float64(x*y[2]) + c2
			s3 := float64(x*y[3]) + c3
			if isDelicate(s0) || isDelicate(s1) || isDelicate(s2) || isDelicate(s3) {
				s0, s1, s2, s3 = fusedSlow(x, y[0], c0), fusedSlow(x, y[1], c1), fusedSlow(x, y[2], c2), fusedSlow(x, y[3], c3)
			}
			c0, c1, c2, c3 = float64(float32(s0)), float64(float32(s1)), float64(float32(s2)), float64(float32(s3))
		}
		acc[4*r], acc[4*r+1], acc[4*r+2], acc[4*r+3] = float32(c0), float32(c1), float32(c2), float32(c3)
	}
}

func fusedSlow(x, y, z float64) float64 {
	return float64(num.FMA(float32(x), float32(y), float32(z)))
}
