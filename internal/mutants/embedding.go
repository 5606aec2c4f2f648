package mutants

import (
	"sync/atomic"

	"tokitai/num"
	"tokitai/op/embedding"
)

// gather copies patterns; take says which row an index means, or -1 for a row of
// zeros.
func gather(take func(v, rows int) int) plain {
	return plain{body: func(*call) {}, write: func(c *call, _ int, _ matrix, k *plain) {
		table, out := c.a[1], c.a[2]
		for q, v := range c.index {
			row := take(int(v), table.Rows)
			for col := range out.Cols {
				if k.puts != nil && !k.puts(c, 2, q, col) {
					continue
				}
				p := uint32(0)
				if row >= 0 {
					p = table.Bits(row, col)
				}
				if k.store != nil {
					p = k.store(out.DType, num.Widen(out.DType, p))
				}
				out.SetBits(q, col, p)
			}
		}
	}}
}

// rowOf is the honest choice.
func rowOf(v, rows int) int {
	if v < 0 || v >= rows {
		return -1
	}
	return v
}

func embeddingMutants() []Mutant {
	l := &list{}
	honest := gather(rowOf)
	changed := func(change func(k *plain)) plain {
		k := honest
		change(&k)
		return k
	}
	isBad := func(c *call, q int) bool { return rowOf(int(c.index[q]), c.a[1].Rows) < 0 }

	l.of(embedding.ForwardDefinition, num.F16)
	l.from("prototype 9")
	l.add("bad-index-not-written", "the row of a bad index keeps what was there", bits, changed(func(k *plain) {
		k.puts = func(c *call, _, q, _ int) bool { return !isBad(c, q) }
	}))
	l.from("prototype 10")
	l.add("write-beyond", "one element behind the last is written", bits, changed(func(k *plain) { k.after = writesBeyond }))
	l.from("prototype 12")
	l.add("short-offsets", "rows of the table are counted in 8 bits", bits, gather(func(v, rows int) int { return rowOf(int(int8(v)), rows) }))
	l.from(practice)
	l.add("bad-index-wraps", "a bad index is taken modulo the rows", bits, gather(func(v, rows int) int { return ((v % rows) + rows) % rows }))
	l.add("negative-index", "index -1 reads the last row", bits, gather(func(v, rows int) int {
		if v < 0 {
			v += rows
		}
		return rowOf(v, rows)
	}))
	l.add("bad-index-clamped", "a bad index reads the nearest row", bits, gather(func(v, rows int) int { return max(0, min(v, rows-1)) }))
	l.add("last-column", "the last column is not written", bits, changed(func(k *plain) {
		k.puts = func(c *call, _, _, col int) bool { return col < max(1, c.a[2].Cols-1) }
	}))
	l.add("zero-added", "+0 is added: -0 becomes +0", bits, changed(func(k *plain) { k.store = storePositiveZero }))
	l.add("nan-canonical", "a NaN loses its pattern", bits, changed(func(k *plain) {
		k.store = func(d num.DType, v float32) uint32 { return num.Canonical(d, num.Narrow(d, v)) }
	}))
	l.of(embedding.ForwardDefinition, num.F32)
	l.add("via-f16", "values pass through f16", bits, changed(func(k *plain) { k.store = storeVia(to(num.F16)) }))
	l.from(twiceWrong)
	l.add("one-doubled", "one element is twice what it should be", bits, changed(func(k *plain) {
		k.after = func(c *call) {
			a := c.a[2]
			a.Set(a.Rows/2, a.Cols/2, 2*a.At(a.Rows/2, a.Cols/2))
		}
	}))
	l.of(embedding.ForwardDefinition, num.BF16)
	l.from(practice)
	l.add("stride-ignored", "rows of the output are written without gaps", bits, changed(func(k *plain) {
		k.before = func(c *call) error {
			c.a[2].Stride = c.a[2].Cols
			return nil
		}
	}))

	scattered := func(sum func([]float32) float32) plain { return plain{body: scatter(sum)} }
	l.of(embedding.BackwardDefinition, num.F16)
	l.from("prototype 8")
	l.add("f16-atomics", "every addition rounds to f16", anyOrder, scattered(rounding(to(num.F16))))
	l.from(practice)
	l.add("f32-sum", "the sum is kept in f32, not exact", bits, scattered(ascending))
	l.add("last-wins", "of the rows with the same index only the last counts", anyOrder, scattered(func(x []float32) float32 { return x[len(x)-1] }))
	l.add("64-duplicates", "no more than 64 rows of an index count", anyOrder, scattered(func(x []float32) float32 { return ascending(x[:min(64, len(x))]) }))
	l.add("lost-update", "of two neighbouring queries with the same index one is lost", anyOrder, plain{body: exactly, before: loseNeighbours})
	l.add("bad-index-wraps", "a bad index is taken modulo the rows", bits, plain{body: func(c *call) {
		for q, v := range c.index {
			rows := int32(c.a[2].Rows)
			c.index[q] = ((v % rows) + rows) % rows
		}
		exactly(c)
	}})
	l.add("rows-not-cleared", "a row that no index names keeps what was there", bits, plain{body: exactly, puts: isNamed})
	l.add("mean", "the mean is taken, not the sum", anyOrder, scattered(func(x []float32) float32 { return inDouble(x) / float32(len(x)) }))
	l.add("saturates", "a sum too large is 65504", bits, plain{body: exactly, store: func(d num.DType, v float32) uint32 { return storeSaturated(d, v) }})
	l.of(embedding.BackwardDefinition, num.BF16)
	l.from(simulated)
	l.add("bf16-atomics", "every addition rounds to bf16", anyOrder, scattered(rounding(to(num.BF16))))
	l.of(embedding.BackwardDefinition, num.F32)
	l.from(practice)
	l.add("order-alternates", "every other call adds up backwards, as atomics do", anyOrder, alternating(scatter(ascending), scatter(descending)))
	l.from(zerosPass)
	l.add("zeros", "every gradient is zero", anyOrder, scattered(func([]float32) float32 { return 0 }))

	l.of(embedding.AccumulateDefinition, num.F16)
	l.from(practice)
	l.add("old-ignored", "the old value is overwritten", anyOrder, scattered(func(x []float32) float32 { return inDouble(x[1:]) }))
	l.add("added-twice", "the sum is added twice", anyOrder, scattered(func(x []float32) float32 { return 2*inDouble(x[1:]) + x[0] }))
	l.add("old-per-duplicate", "the old value is added once for every row", anyOrder, scattered(func(x []float32) float32 {
		return inDouble(x[1:]) + float32(len(x)-1)*x[0]
	}))
	l.add("rows-cleared", "a row that no index names is cleared", bits, plain{body: exactly, edit: func(c *call) {
		for r := range c.x[2].rows {
			if !isNamed(c, 2, r, 0) {
				clear(c.x[2].row(r))
			}
		}
	}})
	l.from("prototype 8")
	l.add("f16-atomics", "every addition rounds to f16", anyOrder, scattered(rounding(to(num.F16))))
	l.of(embedding.AccumulateDefinition, num.F32)
	l.from("unsloth, gradient accumulation")
	l.add("calls-counted", "from the second call on, sums are divided by the number of calls", bits, stateful(func() func(*call) error {
		var calls atomic.Int64
		return plain{body: exactly, edit: func(c *call) {
			if n := calls.Add(1); n > 1 {
				for i := range c.x[2].v {
					c.x[2].v[i] /= float32(n)
				}
			}
		}}.run
	}))
	return l.all
}

// loseNeighbours gives the first of two neighbouring equal indices no row.
func loseNeighbours(c *call) error {
	i := c.position("index")
	c.a[i] = c.a[i].Clone()
	for q := range c.a[i].Rows - 1 {
		if c.a[i].Int(q, 0) == c.a[i].Int(q+1, 0) {
			c.a[i].SetBits(q, 0, ^uint32(0))
		}
	}
	return nil
}

// isNamed reports whether an index names the row of the result.
func isNamed(c *call, _, r, _ int) bool {
	for _, v := range c.index {
		if int(v) == r {
			return true
		}
	}
	return false
}
