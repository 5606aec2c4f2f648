package integer

import (
	"unsafe"

	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/num"
)

// A tile of the result is one item of work. Its sums stay in the second-level cache, and a block of
// one strip of the right operand in the first.
const (
	tileRows  = 16 * blockRows
	tileCols  = 256
	tileWords = 128
)

// job is one product. It goes from region to region of the result; each has a phase in which the
// operands are packed, and one in which tiles are computed.
type job struct {
	p        *program
	tiles    lower.Tiles // for sizes and scales
	whole    lower.Tile
	rows     int // of a region
	cols     int
	row, col int // of the region that is computed
	phase    phase

	left, right         side
	packLeft, packRight packed
	workers             []*worker
}

type phase uint8

const (
	begin phase = iota
	packing
	computing
)

// worker is the memory that one worker uses.
type worker struct {
	sums [tileRows * tileCols]int32 // strip by strip, row by row
	line [tileCols]float32
	args block
}

func (j *job) bind(c *lower.Call, workers int) {
	j.tiles.Set(j.p.d, c, tileRows, tileCols)
	left, right, result := c.OfProduct(j.p.d)
	j.whole = lower.Tile{Left: left.Array, Right: right.Array, Result: result.Array, Rows: j.tiles.Rows, Cols: j.tiles.Products.Cols, End: j.tiles.Depth}
	bytes := max(1, 4*j.p.kernel.wordsOf(j.whole.End))
	j.rows = max(tileRows, j.p.most/bytes/tileRows*tileRows)
	j.cols = max(tileCols, j.p.most/bytes/tileCols*tileCols)
	j.row, j.col, j.phase = 0, 0, begin
	for len(j.workers) < workers {
		j.workers = append(j.workers, &worker{})
	}
}

// Next implements lowercpu.Job.
func (j *job) Next() (int, bool) {
	k, w := j.p.kernel, &j.whole
	switch {
	case j.phase == packing:
		j.phase = computing
		return ceil(j.left.end-j.left.first, tileRows) * ceil(j.right.end-j.right.first, tileCols), true
	case j.phase == computing:
		if j.row += j.rows; j.row >= w.Rows {
			j.row, j.col = 0, j.col+j.cols
		}
	}
	if j.row >= w.Rows || j.col >= w.Cols {
		return 0, false
	}
	flips := uint32(0)
	if k.isVNNI {
		flips = 0x80808080
	}
	d := j.p.d
	j.left = side{a: &w.Left, areRows: !d.Product().TransposeLeft, perStrip: blockRows, perWord: k.perWord, first: j.row, end: min(j.row+j.rows, w.Rows), depth: w.End}
	j.right = side{a: &w.Right, areRows: d.Product().TransposeRight, perStrip: k.cols(), perWord: k.perWord, flips: flips, first: j.col, end: min(j.col+j.cols, w.Cols), depth: w.End}
	words := k.wordsOf(w.End)
	j.packLeft.grow(j.left.strips(), blockRows, words)
	j.packRight.grow(j.right.strips(), k.cols(), words)
	j.phase = packing
	return j.left.strips() + j.right.strips(), true
}

// strips returns the number of strips.
func (s *side) strips() int { return ceil(s.end-s.first, s.perStrip) }

func ceil(n, by int) int { return (n + by - 1) / by }

// Release implements lowercpu.Job.
func (j *job) Release() {
	j.tiles, j.whole, j.left, j.right = lower.Tiles{}, lower.Tile{}, side{}, side{} // the pool must not keep operands alive
	j.p.jobs.Put(j)
}

// Do implements lowercpu.Job: it packs one strip, or computes one tile.
func (j *job) Do(worker, item int) {
	if j.phase == computing {
		across := ceil(j.right.end-j.right.first, tileCols)
		j.compute(j.workers[worker], item/across*tileRows, item%across*tileCols)
		return
	}
	if n := j.left.strips(); item < n {
		j.left.pack(&j.packLeft, item)
	} else {
		j.right.pack(&j.packRight, item-n)
	}
}

// compute computes the tile at a row and a column of the region.
func (j *job) compute(w *worker, row, col int) {
	k := j.p.kernel
	rows, cols := min(tileRows, j.left.end-j.left.first-row), min(tileCols, j.right.end-j.right.first-col)
	downs, acrosses, words := ceil(rows, blockRows), ceil(cols, k.cols()), k.wordsOf(j.whole.End)
	perBlock := blockRows * k.cols()
	clear(w.sums[:acrosses*downs*perBlock])
	for from := 0; from < words; from += tileWords {
		w.args.words = min(tileWords, words-from)
		for across := range acrosses {
			w.args.right = &j.packRight.words[((col/k.cols()+across)*words+from)*k.cols()]
			for down := range downs {
				w.args.left = &j.packLeft.words[((row/blockRows+down)*words+from)*blockRows]
				w.args.sums = &w.sums[(across*downs+down)*perBlock]
				k.run(&w.args)
			}
		}
	}
	w.args = block{}
	for r := range rows {
		correction := j.packLeft.sums[row+r]
		for across := range acrosses {
			sums := w.sums[(across*downs+r/blockRows)*perBlock+r%blockRows*k.cols():][:min(k.cols(), cols-across*k.cols())]
			j.store(w, j.row+row+r, j.col+col+across*k.cols(), sums, correction)
		}
	}
}

// store stores sums from a place of the result on, without the correction.
func (j *job) store(w *worker, row, col int, sums []int32, correction int32) {
	result := &j.whole.Result
	if result.DType == num.I32 {
		data := result.Data[4*(row*result.Stride+col):][:4*len(sums)]
		to := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(data))), len(sums))
		for c, v := range sums {
			to[c] = v - correction
		}
		return
	}
	line := w.line[:len(sums)]
	for c, v := range sums {
		line[c] = float32(v - correction)
	}
	j.tiles.Multiply(line, row, col)
	lowercpu.Store(result, row, col, line)
}
