package cache_test

import (
	"testing"

	"tokitai/num"
	"tokitai/op/cache"
	"tokitai/verify/mutants"
)

func TestMutants(t *testing.T) {
	mutants.Test(t, cache.Operations, wrong(), right(), nil)
}

// writes is a kernel that writes rows in the order that next gives of n queries; take returns the row
// of a slot, or -1 for none, and store what is stored of a pattern.
func writes(next func(i, n int) int, take func(v, rows int) int, store func(d num.DType, pattern uint32) uint32) mutants.Plain {
	return mutants.Plain{
		Body:  func(*mutants.Call) {},
		Write: func(*mutants.Call, int, mutants.Matrix, *mutants.Plain) {},
		After: func(c *mutants.Call) {
			rows, table := c.Stored[1], c.Stored[2]
			for i := range c.Index {
				q := next(i, len(c.Index))
				v := take(int(c.Index[q]), table.Rows)
				for col := 0; v >= 0 && col < rows.Cols; col++ {
					table.SetBits(v, col, store(rows.DType, rows.Bits(q, col)))
				}
			}
		},
	}
}

func ascending(i, _ int) int                       { return i }
func bits(_ num.DType, pattern uint32) uint32      { return pattern }
func canonical(d num.DType, pattern uint32) uint32 { return num.Canonical(d, pattern) }
func positiveZero(d num.DType, pattern uint32) uint32 { // x + 0
	if num.Widen(d, pattern) == 0 {
		return 0
	}
	return pattern
}

func wrong() []mutants.Mutant {
	l := mutants.NewList(cache.Operations)
	l.From(mutants.KernelPractice)
	l.Of(cache.AppendDefinition, num.BF16)
	l.Add("first-wins", "of equal slots the first counts, as if threads ran backwards", mutants.PromisesBits, writes(func(i, n int) int { return n - 1 - i }, mutants.RowOf, bits))
	l.Add("any-wins", "of equal slots any counts, as threads arrive", mutants.PromisesBits, writes(func(i, n int) int { return (i + n/3) % n }, mutants.RowOf, bits))
	l.Add("bad-slot-wraps", "a bad slot is taken modulo the rows", mutants.PromisesBits, writes(ascending, func(v, rows int) int { return ((v % rows) + rows) % rows }, bits))
	l.Add("negative-slot", "slot -1 writes the last row", mutants.PromisesBits, writes(ascending, func(v, rows int) int {
		if v < 0 {
			v += rows
		}
		return mutants.RowOf(v, rows)
	}, bits))
	l.Add("short-offsets", "rows of the cache are counted in 8 bits", mutants.PromisesBits, writes(ascending, func(v, rows int) int { return mutants.RowOf(int(int8(v)), rows) }, bits))
	l.Of(cache.AppendDefinition, num.F16)
	l.Add("nan-canonical", "a NaN loses its pattern", mutants.PromisesBits, writes(ascending, mutants.RowOf, canonical))
	l.Add("zero-added", "+0 is added: -0 becomes +0", mutants.PromisesBits, writes(ascending, mutants.RowOf, positiveZero))
	return l.All
}

func right() []mutants.Mutant {
	l := mutants.NewList(cache.Operations)
	l.Of(cache.AppendDefinition, num.F32)
	l.Add("one-after-another", "rows written one after another", mutants.PromisesBits, writes(ascending, mutants.RowOf, bits))
	return l.All
}
