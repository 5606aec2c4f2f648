package table_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"tokitai/def"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/num"
)

// run executes a job with a goroutine for each worker, which take items as they come.
func run(p lowercpu.Program, c *lower.Call, workers int) {
	job := p.Bind(c, workers)
	for {
		items, ok := job.Next()
		if !ok {
			job.Release()
			return
		}
		var next atomic.Int64
		help := func(w int) {
			for i := next.Add(1) - 1; int(i) < items; i = next.Add(1) - 1 {
				job.Do(w, int(i))
			}
		}
		var all sync.WaitGroup
		for w := 1; w < workers; w++ {
			all.Go(func() { help(w) })
		}
		help(0)
		all.Wait()
	}
}

// BenchmarkEmbedding measures embeddings of 32768 rows of 1024 columns. BenchmarkCopy
// is what to compare the bytes per second with.
func BenchmarkEmbedding(b *testing.B) {
	const rows, cols = 32768, 1024
	for _, d := range []*def.Definition{gather, scatters[0]} {
		for _, dtype := range num.FloatDTypes {
			for _, queries := range []int{8192, 65536} {
				for _, spread := range []string{"uniform", "zipf"} {
					index := num.NewArray(num.I32, queries, 1)
					r := rand.New(rand.NewPCG(1, 2))
					zipf := rand.NewZipf(r, 1.1, 1, rows-1)
					for q := range queries {
						v := uint32(r.IntN(rows))
						if spread == "zipf" {
							v = uint32(zipf.Uint64())
						}
						index.SetBits(q, 0, v)
					}
					call := &lower.Call{}
					array := func(n int) num.Array {
						return num.Array{DType: dtype, Rows: n, Cols: cols, Stride: cols, Data: aligned(n * cols * dtype.Size())}
					}
					call.Operands = []lower.Operand{{Array: index}, {Array: array(rows)}, {Array: array(queries)}}
					moved := 2 * queries * cols * dtype.Size()
					if d != gather {
						call.Operands[1], call.Operands[2] = call.Operands[2], call.Operands[1]
						moved = (rows + queries) * cols * dtype.Size()
					}
					for k := range call.Operands[1].Rows {
						for c := range cols {
							call.Operands[1].Set(k, c, float32(r.NormFloat64()))
						}
					}
					for _, set := range sets(b) {
						p := compile(b, d, []num.DType{num.I32, dtype, dtype}, set)
						for _, workers := range []int{1, 2} {
							b.Run(fmt.Sprintf("kind=%s/dtype=%s/queries=%d/index=%s/set=%s/workers=%d", d.Name, dtype, queries, spread, set, workers), func(b *testing.B) {
								b.SetBytes(int64(moved))
								for b.Loop() {
									run(p, call, workers)
								}
							})
						}
					}
				}
			}
		}
	}
}

// BenchmarkCopy measures plain copies.
func BenchmarkCopy(b *testing.B) {
	for _, size := range []int{32 << 20, 80 << 20, 256 << 20} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("bytes=%d/workers=%d", size, workers), func(b *testing.B) {
				from, to := aligned(size), aligned(size)
				for i := range from {
					from[i] = byte(i)
				}
				b.SetBytes(int64(2 * size))
				for b.Loop() {
					var all sync.WaitGroup
					for w := range workers {
						all.Go(func() { copy(to[size/workers*w:size/workers*(w+1)], from[size/workers*w:]) })
					}
					all.Wait()
				}
			})
		}
	}
}
