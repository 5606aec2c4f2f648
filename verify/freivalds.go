package verify

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"sync"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/num/zpk"
)

// A large product C = A·B in a ring is judged by Freivalds' check instead of the interpreter: C·r
// is compared with A·(B·r) for random vectors r, which takes M·N + N·K + M·K products for each
// instead of M·N·K.
//
// No right row is found wrong, since the arithmetic is exact. A wrong row is missed by one r with
// a probability of at most 1/p: let e ≠ 0 be the row's errors in Z/p^k and v < k their least
// valuation, so that e = p^v·e' where p does not divide some e'[j]. For r drawn evenly from Z/p^k,
// e'·r takes every value of Z/p^(k-v) equally often, whatever the other elements of r are, and e·r
// is 0 with probability p^(v-k). Enough vectors r are drawn to make the probability that all miss
// at most 2^-40 in the worst case, v = k-1. They are drawn from a hash of the seed and the outputs,
// so that a kernel cannot know them in advance.
//
// Tiles with a wrong row, or with an element that is not a least residue, are interpreted. So this
// check may accept a wrong kernel, with that probability, but never rejects a right one.

// leastProduct is the least number of multiply-adds of a product that is judged by this check.
// Interpreting smaller ones takes a fraction of a second. Tests make it small.
var leastProduct = 1 << 22

// missedBits is the probability that a wrong row is missed, as a power of 1/2.
const missedBits = 40

// freivalds is the check of one case.
type freivalds struct {
	d       *def.Definition
	ring    *zpk.Word
	left    num.Array
	right   num.Array
	result  num.Array
	depth   int        // K
	vectors [][]uint64 // r
}

// vectorsFor returns how many r are needed for Z/p^k.
func vectorsFor(p uint64) int { return int(math.Ceil(missedBits / math.Log2(float64(p)))) }

// newFreivalds returns the check of a case, without vectors, or nil if the case has none: scaled
// results do not show the sums.
func newFreivalds(d *def.Definition, inputs, got []num.Array) (f *freivalds, err error) {
	if d.Product() == nil || !d.Ring().IsExact() || d.HasScales() {
		return nil, nil
	}
	f = &freivalds{d: d, left: inputs[0], right: inputs[1], result: got[2], depth: lengthOf(d, inputs, d.SummedOver())}
	f.ring, err = zpk.NewWord(d.Ring().P, d.Ring().K)
	return f, err
}

// isWorth reports whether the check takes less time than the interpreter.
func (f *freivalds) isWorth() bool {
	m, n, k := float64(f.result.Rows), float64(f.result.Cols), float64(f.depth)
	return m*n*k >= max(float64(leastProduct), 2*float64(vectorsFor(f.d.Ring().P))*(m*k+k*n+m*n))
}

// draw draws vectors.
func (f *freivalds) draw(key uint64, count int) {
	g := gen.Seeded(gen.New("freivalds").Next() ^ key)
	f.vectors = nil
	limit := math.MaxUint64 - math.MaxUint64%f.ring.Q() // below it, every residue is as likely
	for range count {
		r := make([]uint64, f.result.Cols)
		for i := range r {
			x := g.Next()
			for x >= limit {
				x = g.Next()
			}
			r[i] = x % f.ring.Q()
		}
		f.vectors = append(f.vectors, r)
	}
}

// wrongRows reports which rows of the result are wrong.
func (f *freivalds) wrongRows(ctx context.Context) ([]bool, error) {
	images := make([][]uint64, len(f.vectors)) // B·r
	for i := range images {
		images[i] = make([]uint64, f.depth)
	}
	err := eachRow(ctx, f.depth, f.result.Cols, func(k int, line []uint64) {
		for c := range line {
			line[c] = f.ring.Int(integerOf(&f.right, f.d.Product().TransposeRight, k, c))
		}
		for i, r := range f.vectors {
			images[i][k] = f.dot(line, r)
		}
	})
	if err != nil {
		return nil, err
	}
	wrong := make([]bool, f.result.Rows)
	err = eachRow(ctx, f.result.Rows, max(f.depth, f.result.Cols), func(row int, line []uint64) {
		sums := line[:f.result.Cols]
		for c := range sums {
			v := f.result.Integer(row, c)
			if sums[c] = f.ring.Int(v); f.result.DType == num.I64 && uint64(v) != sums[c] {
				wrong[row] = true
				return
			}
		}
		products := make([]uint64, len(f.vectors)) // C·r
		for i, r := range f.vectors {
			products[i] = f.dot(sums, r)
		}
		factors := line[:f.depth]
		for k := range factors {
			factors[k] = f.ring.Int(integerOf(&f.left, f.d.Product().TransposeLeft, row, k))
		}
		for i := range f.vectors {
			if f.dot(factors, images[i]) != products[i] {
				wrong[row] = true
				return
			}
		}
	})
	return wrong, err
}

// byFreivalds returns the text of a report about outputs that were judged by this check.
func byFreivalds(n int64) string {
	return fmt.Sprintf("%d outputs were judged by Freivalds' check with random vectors: a wrong row of a product is missed with a probability of at most 2^-%d", n, missedBits)
}

// judgeProduct runs Freivalds' check on a case, unless the interpreter judges it.
func (t *Target) judgeProduct(ctx context.Context, inputs, got []num.Array, m manner) (f *freivalds, wrong []bool, err error) {
	if !m.withFreivalds || !t.Lowering.Promise.IsBits() {
		return nil, nil, nil
	}
	if f, err = newFreivalds(t.Definition, inputs, got); f == nil || err != nil || !f.isWorth() {
		return nil, nil, err
	}
	f.draw(m.key, vectorsFor(t.Definition.Ring().P))
	wrong, err = f.wrongRows(ctx)
	return f, wrong, err
}

// dot returns the sum of x[i]·y[i] in the ring.
func (f *freivalds) dot(x, y []uint64) uint64 {
	y = y[:len(x)]
	if f.ring.P() == 2 { // 2^k divides 2^64
		sum := uint64(0)
		for i, a := range x {
			sum += a * y[i]
		}
		return sum & (f.ring.Q() - 1)
	}
	var s0, s1, s2, carry uint64 // each product is below 2^126
	for i, a := range x {
		high, low := bits.Mul64(a, y[i])
		s0, carry = bits.Add64(s0, low, 0)
		s1, carry = bits.Add64(s1, high, carry)
		s2 += carry
	}
	q := f.ring.Q()
	return bits.Rem64(bits.Rem64(s2%q, s1, q), s0, q)
}

// rightTile returns the judgement of a tile whose rows are all right, or nil if one is wrong.
func rightTile(wrong []bool, at Rect) *judgement {
	for _, isWrong := range wrong[at.Row:][:at.Rows] {
		if isWrong {
			return nil
		}
	}
	return &judgement{Tiles: 1, Elements: at.elements(), Freivalds: at.elements()}
}

// integerOf returns an integer of a matrix or, if isTransposed is set, of its transpose.
func integerOf(a *num.Array, isTransposed bool, r, c int) int64 {
	if isTransposed {
		r, c = c, r
	}
	return a.Integer(r, c)
}

// eachRow calls do for n rows, on all processors, each with a line of memory. It starts no row
// after the context has ended.
func eachRow(ctx context.Context, n, length int, do func(row int, line []uint64)) error {
	var group sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), n)
	for w := range workers {
		group.Go(func() {
			line := make([]uint64, length)
			for row := w; row < n && ctx.Err() == nil; row += workers {
				do(row, line)
			}
		})
	}
	group.Wait()
	return ctx.Err()
}

// checkTile returns an error if the check found a tile wrong and the interpreter found it right:
// then one of the two is broken.
func (f *freivalds) checkTile(d *def.Definition, at Rect, j *judgement) error {
	if j.Mismatches == 0 && j.Waived == 0 {
		return fmt.Errorf("%s: Freivalds' check finds a wrong row among rows %d to %d, and the interpreter none: one of them is broken, --interpret all uses the interpreter alone", d.Name, at.Row, at.Row+at.Rows-1)
	}
	return nil
}
