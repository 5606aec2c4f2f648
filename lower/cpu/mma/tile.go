package mma

import (
	"math"
	"math/bits"

	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/num"
)

// nan is the only NaN that tensor cores return.
const nan = 0x7fffffff

// worker is the memory that one worker uses.
type worker struct {
	p           *program
	tile        *lower.Tile
	scales      *lower.Scales
	steps       steps
	left, right packed
	acc         []float64 // strip by strip, row by row, a strip's lanes as in right
	line        []float32
	trees       [][]float32 // sums of panels, if the model has panels: see addPanel
}

func newWorker(p *program) *worker {
	return &worker{
		p:     p,
		left:  newPacked(tileRows, p.depth),
		right: newPacked(tileCols, p.depth),
		acc:   make([]float64, tileRows*tileCols),
		line:  make([]float32, max(tileRows, tileCols, p.depth)),
	}
}

// compute computes the worker's tile.
func (w *worker) compute() {
	t, m, accumulates := w.tile, w.p.accum, w.p.d.Accumulates()
	if t.K == t.End && accumulates {
		return // the old result stays, -0 included
	}
	if m.P == 0 || t.K == t.End {
		w.begin(accumulates)
		w.chain(t.K, t.End)
		for r := range t.Rows {
			w.sums(w.line[:t.Cols], r)
			w.store(w.line[:t.Cols], r)
		}
		return
	}
	panel, depth := 0, m.PanelDepth(t.End-t.K)
	for k := t.K; k < t.End; k += depth {
		w.begin(false)
		w.chain(k, min(k+depth, t.End))
		w.addPanel(panel)
		panel++
	}
	w.storePanels(panel)
}

// begin sets the accumulators to the old result or to zero.
func (w *worker) begin(accumulates bool) {
	t := w.tile
	clear(w.acc[:t.Rows*roundUp(t.Cols, w.p.lanes)])
	if !accumulates {
		return
	}
	for r := range t.Rows {
		line := w.line[:t.Cols]
		lowercpu.Load(line, &t.Result, t.Row+r, t.Col)
		for c, v := range line {
			w.acc[w.accIndex(r, c)] = float64(v) * accScale
		}
	}
}

// accIndex returns where the accumulator of the tile's element (r, c) lies.
func (w *worker) accIndex(r, c int) int {
	lanes := w.p.lanes
	return (c/lanes*w.tile.Rows+r)*lanes + lane(c, lanes)
}

// sums sets line to a row of the accumulators in binary32.
func (w *worker) sums(line []float32, r int) {
	for c := range line {
		v := float32(w.acc[w.accIndex(r, c)] * (1 / accScale))
		switch {
		case v == 0:
			v = 0 // not -0
		case v != v:
			v = math.Float32frombits(nan)
		}
		line[c] = v
	}
}

// chain adds the products of a part of the summed index, which begins with a step.
func (w *worker) chain(first, end int) {
	t, d := w.tile, w.p.d
	L, lanes := w.p.accum.L, w.p.lanes
	emin := emins[t.Left.DType]
	for k := first; k < end; k += w.p.depth {
		depth := min(w.p.depth, end-k)
		padded := roundUp(depth, L)
		w.left.layLeft(t.Rows, padded, L)
		w.left.pack(w.line, &t.Left, !d.Product().TransposeLeft, emin, t.Row, t.Rows, k, depth)
		w.right.layRight(t.Cols, padded, lanes)
		w.right.pack(w.line, &t.Right, d.Product().TransposeRight, emin, t.Col, t.Cols, k, depth)
		for c := 0; c < t.Cols; c += lanes {
			w.steps = steps{
				left: &w.left.values[0], leftExponents: &w.left.exponents[0],
				right: &w.right.values[c*padded], rightExponents: &w.right.exponents[c*padded],
				acc:  &w.acc[c*t.Rows],
				rows: t.Rows, steps: padded / L,
			}
			w.p.run(&w.steps)
		}
	}
}

// addPanel adds the sum of panel i, which is in the accumulators, to the trees of panels.
// There is a tree of 2^n panels for every bit n that is set in the number of panels so far,
// the largest tree first.
func (w *worker) addPanel(i int) {
	t := w.tile
	n := bits.OnesCount(uint(i)) // trees before
	if n == len(w.trees) {
		w.trees = append(w.trees, make([]float32, tileRows*tileCols))
	}
	for r := range t.Rows {
		w.sums(w.trees[n][r*t.Cols:][:t.Cols], r)
	}
	for ; i&1 != 0; i >>= 1 {
		w.joinTrees(n)
		n--
	}
}

// joinTrees adds tree number n to the one before.
func (w *worker) joinTrees(n int) {
	size := w.tile.Rows * w.tile.Cols
	sums, more := w.trees[n-1][:size], w.trees[n][:size]
	for i, v := range more {
		sums[i] += v
	}
}

// storePanels joins the trees, the smallest first, adds the old result if the definition
// accumulates, and stores the sums.
func (w *worker) storePanels(panels int) {
	t := w.tile
	for n := bits.OnesCount(uint(panels)) - 1; n > 0; n-- {
		w.joinTrees(n)
	}
	for r := range t.Rows {
		sums := w.trees[0][r*t.Cols:][:t.Cols]
		if w.p.d.Accumulates() {
			old := w.line[:t.Cols]
			lowercpu.Load(old, &t.Result, t.Row+r, t.Col)
			for c, v := range old {
				sums[c] += v
			}
		}
		w.store(sums, r)
	}
}

// store multiplies a row's sums by the scales and stores them.
func (w *worker) store(sums []float32, r int) {
	t := w.tile
	w.scales.Multiply(sums, t.Row+r, t.Col)
	lowercpu.Store(&t.Result, t.Row+r, t.Col, sums)
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// emins holds the least exponents of normal values.
var emins = map[num.DType]int32{num.F16: -14, num.BF16: -126, num.E4M3: -6, num.E5M2: -14}
