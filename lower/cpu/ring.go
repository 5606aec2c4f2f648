package cpu

import (
	"fmt"
	"math/bits"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/num/zpk"
)

// A contraction in a ring is cut into tiles of the result, one item each. A worker unpacks the
// tile's rows of the left operand and columns of the right one, block after block of the
// summed index, into lines of integers, and adds up products of lines: i8 in int32, which
// wrap; residues of i64 in 192 bits, which are reduced when the tile is done. Nothing is
// rounded, so that any other order would do.
const (
	ringRows  = 32
	ringCols  = 32
	ringDepth = 512 // of one block of the summed index
)

// ring is a program of contractions in a ring.
type ring struct {
	d           *def.Definition
	q           uint64
	byValuation bool
	tiling      Tiling[ringWorker]
}

func newRing(d *def.Definition, byValuation bool) (*ring, error) {
	q, err := zpk.Power(d.Ring().P, d.Ring().K)
	p := &ring{d: d, q: q, byValuation: byValuation}
	p.tiling = Tiling[ringWorker]{Rows: ringRows, Cols: ringCols, New: func(*lower.Call) *ringWorker { return &ringWorker{} }, Do: p.do}
	return p, err
}

// CompileByValuation lowers a contraction of i64 in Z/p^k to a program that skips products of
// factors whose valuations add up to k or more: they are 0.
func CompileByValuation(d *def.Definition, dtypes []num.DType) (Program, error) {
	if dtypes[0] != num.I64 || !d.Ring().IsExact() {
		return nil, fmt.Errorf("%s: factors in %s, want i64 in Z/p^k", d.Name, dtypes[0])
	}
	return newRing(d, true)
}

func (p *ring) String() string {
	text := fmt.Sprintf("contraction %s in %s: tiles of %d×%d, blocks of %d", p.d.Name, p.d.Ring(), ringRows, ringCols, ringDepth)
	if p.byValuation {
		text += ", products that are 0 by their valuations skipped"
	}
	return text + "\n"
}

// ringWorker is the memory that one worker uses.
type ringWorker struct {
	line [ringCols]float32

	// Of i8: lines of one block, and sums.
	narrow struct {
		left, right [ringRows * ringDepth]int8
		sums        [ringRows * ringCols]int32
	}
	// Of i64: residues of one block, their valuations where they are used, and sums.
	wide struct {
		left, right           [ringRows * ringDepth]uint64
		leftOrder, rightOrder [ringRows * ringDepth]uint8
		sums                  [ringRows * ringCols][3]uint64
	}
}

const _ = uint(ringRows-ringCols) + uint(ringCols-ringRows) // lines of both operands have the same room

// Bind implements Program.
func (p *ring) Bind(c *lower.Call, workers int) Job { return p.tiling.Bind(p.d, c, workers) }

// do computes one tile of the result.
func (p *ring) do(w *ringWorker, tiles *lower.Tiles, t *lower.Tile) {
	if t.Left.DType == num.I8 {
		p.doNarrow(w, tiles, t)
	} else {
		p.doWide(w, t)
	}
}

// unpack calls put for every element of n lines, from a line on, and of depth values of the
// summed index. areRows says that a line is contiguous in memory.
func unpack(a *num.Array, areRows bool, first, n, k, depth int, put func(at int, v int64)) {
	for i := range n {
		for kk := range depth {
			if areRows {
				put(i*ringDepth+kk, a.Integer(first+i, k+kk))
			} else {
				put(i*ringDepth+kk, a.Integer(k+kk, first+i))
			}
		}
	}
}

func (p *ring) doNarrow(w *ringWorker, tiles *lower.Tiles, t *lower.Tile) {
	z, d := &w.narrow, p.d
	clear(z.sums[:])
	for k := t.K; k < t.End; k += ringDepth {
		depth := min(ringDepth, t.End-k)
		unpackBytes(z.left[:], &t.Left, !d.Product().TransposeLeft, t.Row, t.Rows, k, depth)
		unpackBytes(z.right[:], &t.Right, d.Product().TransposeRight, t.Col, t.Cols, k, depth)
		for r := range t.Rows {
			for c := range t.Cols {
				z.sums[r*ringCols+c] += dotBytes(z.left[r*ringDepth:][:depth], z.right[c*ringDepth:][:depth])
			}
		}
	}
	for r := range t.Rows {
		sums := z.sums[r*ringCols:][:t.Cols]
		if t.Result.DType == num.I32 {
			for c, v := range sums {
				t.Result.SetBits(t.Row+r, t.Col+c, uint32(v))
			}
			continue
		}
		line := w.line[:t.Cols]
		for c, v := range sums {
			line[c] = float32(v)
		}
		tiles.Multiply(line, t.Row+r, t.Col)
		Store(&t.Result, t.Row+r, t.Col, line)
	}
}

// unpackBytes is unpack for i8.
func unpackBytes(to []int8, a *num.Array, areRows bool, first, n, k, depth int) {
	for i := range n {
		line := to[i*ringDepth:][:depth]
		at, step := (first+i)*a.Stride+k, 1
		if !areRows {
			at, step = k*a.Stride+first+i, a.Stride
		}
		for kk := range line {
			line[kk] = int8(a.Data[at+kk*step])
		}
	}
}

// dotBytes returns the sum of x[i]·y[i], which wraps.
func dotBytes(x, y []int8) int32 {
	var s0, s1, s2, s3 int32
	for len(x) >= 4 && len(y) >= 4 {
		s0 += int32(x[0]) * int32(y[0])
		s1 += int32(x[1]) * int32(y[1])
		s2 += int32(x[2]) * int32(y[2])
		s3 += int32(x[3]) * int32(y[3])
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		s0 += int32(v) * int32(y[i])
	}
	return s0 + s1 + s2 + s3
}

func (p *ring) doWide(w *ringWorker, t *lower.Tile) {
	z, d := &w.wide, p.d
	clear(z.sums[:])
	for k := t.K; k < t.End; k += ringDepth {
		depth := min(ringDepth, t.End-k)
		p.unpackResidues(z.left[:], z.leftOrder[:], &t.Left, !d.Product().TransposeLeft, t.Row, t.Rows, k, depth)
		p.unpackResidues(z.right[:], z.rightOrder[:], &t.Right, d.Product().TransposeRight, t.Col, t.Cols, k, depth)
		for r := range t.Rows {
			for c := range t.Cols {
				x, y := z.left[r*ringDepth:][:depth], z.right[c*ringDepth:][:depth]
				sum := &z.sums[r*ringCols+c]
				if p.byValuation {
					addResiduesByValuation(sum, x, y, z.leftOrder[r*ringDepth:][:depth], z.rightOrder[c*ringDepth:][:depth], uint8(d.Ring().K))
				} else {
					addResidues(sum, x, y)
				}
			}
		}
	}
	for r := range t.Rows {
		for c := range t.Cols {
			t.Result.SetBits64(t.Row+r, t.Col+c, reduce(z.sums[r*ringCols+c], p.q))
		}
	}
}

// unpackResidues unpacks integers modulo q, and their valuations if the program uses them.
func (p *ring) unpackResidues(to []uint64, orders []uint8, a *num.Array, areRows bool, first, n, k, depth int) {
	unpack(a, areRows, first, n, k, depth, func(at int, v int64) {
		to[at] = residue(v, p.q)
		if p.byValuation {
			orders[at] = valuation(to[at], p.d.Ring())
		}
	})
}

// residue returns v modulo q.
func residue(v int64, q uint64) uint64 {
	if v >= 0 {
		return uint64(v) % q
	}
	return (q - -uint64(v)%q) % q
}

// valuation returns the largest n up to K for which P^n divides x.
func valuation(x uint64, r def.Ring) uint8 {
	n := uint8(0)
	for int(n) < r.K && x%r.P == 0 {
		x /= r.P
		n++
	}
	return n
}

// addResidues adds the products x[i]·y[i] to a sum of 192 bits. Each is below 2^126.
func addResidues(sum *[3]uint64, x, y []uint64) {
	s0, s1, s2 := sum[0], sum[1], sum[2]
	y = y[:len(x)]
	for i, a := range x {
		high, low := bits.Mul64(a, y[i])
		var carry uint64
		s0, carry = bits.Add64(s0, low, 0)
		s1, carry = bits.Add64(s1, high, carry)
		s2 += carry
	}
	*sum = [3]uint64{s0, s1, s2}
}

// addResiduesByValuation is addResidues without the products that are 0 mod p^k, by the
// valuations of their factors.
func addResiduesByValuation(sum *[3]uint64, x, y []uint64, xOrders, yOrders []uint8, k uint8) {
	for i, n := range xOrders {
		if n+yOrders[i] < k {
			addResidues(sum, x[i:i+1], y[i:i+1])
		}
	}
}

// reduce returns a sum modulo q.
func reduce(sum [3]uint64, q uint64) uint64 {
	rest := sum[2] % q
	rest = bits.Rem64(rest, sum[1], q)
	return bits.Rem64(rest, sum[0], q)
}
