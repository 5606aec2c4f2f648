package soak

import (
	"encoding/binary"
	"math"
	"math/bits"
	"runtime"
	"sync"

	"tokitai/internal/tensorcore"
	lowergpu "tokitai/lower/gpu"
	"tokitai/num"
)

// What the kernels must answer, computed by package num, which shares no code with them.

func mix(x uint32) uint32 {
	x = (x ^ x>>16) * 0x85ebca6b
	x = (x ^ x>>13) * 0xc2b2ae35
	return x ^ x>>16
}

// fraction is in [1, 2).
func fraction(x uint32) float32 { return math.Float32frombits(0x3f800000 | x>>9) }

// arithmetic returns the answer of a thread after some rounds of the steps of definitions.
func arithmetic(seed, thread, rounds uint32) uint32 {
	x := mix(seed + thread)
	for range rounds {
		y := mix(x + 0x9e3779b9)
		a, b, c := fraction(x), fraction(y), math.Float32frombits(x&1<<31|0x3f000000|y&0x7fffff)
		f, q, s := num.FMA(a, b, c), a/b, num.Sqrt(float32(a*b))
		z := num.Scale(f, float32(float32(a*16)-24))
		high, low := num.F32ToF16(q), num.F32ToBF16(s)
		w := float32(num.F16ToF32(high) + num.BF16ToF32(low))
		x = mix(x+math.Float32bits(f)) ^ math.Float32bits(q) ^ bits.RotateLeft32(math.Float32bits(s), 7) ^ bits.RotateLeft32(math.Float32bits(z), 13)
		product, _ := bits.Mul32(x, y)
		x += (uint32(high)<<16 | uint32(low)) + bits.RotateLeft32(math.Float32bits(w), 19) + product + y*(x|1)
	}
	return x
}

// arithmeticAnswers returns a word for each thread of a block, as bytes.
func arithmeticAnswers(seed, rounds uint32) []byte {
	words := make([]uint32, lowergpu.SoakThreads)
	parallel(len(words), func(i int) { words[i] = arithmetic(seed, uint32(i), rounds) })
	return bytesOf(words)
}

// fragments are the operands of a chain of matrix instructions as the threads of a block take them, and the
// answers.
type fragments struct{ left, right, start, answers []byte }

// matrixFragments makes the operands of an instruction and their answers, by its model.
func matrixFragments(i tensorcore.Instruction, model num.MMA, seed uint32) fragments {
	const warps, chain = lowergpu.SoakThreads / 32, lowergpu.SoakChain
	b := tensorcore.NewBatch(i, 0, seed, warps*chain)
	var left, right, start, answers [lowergpu.SoakThreads * 4 * chain]uint32
	word := func(from []byte, at int) uint32 { return binary.LittleEndian.Uint32(from[at:]) }
	size := i.DType.Size()
	parallel(lowergpu.SoakThreads, func(thread int) {
		warp, lane := thread/32, thread%32
		group, quad := lane/4, lane%4
		for j := range chain {
			tile := warp*chain + j
			for n := range 4 {
				left[(thread*chain+j)*4+n] = word(b.A, (tile*i.M+group+n%2*8)*i.K*size+quad*4+n/2*16)
			}
			for n := range 2 {
				right[(thread*chain+j)*2+n] = word(b.B, (tile*i.N+group)*i.K*size+quad*4+n*16)
			}
		}
		x, y := make([]uint32, i.K), make([]uint32, i.K)
		for n := range 4 {
			output := (group+n/2*8)*i.N + quad*2 + n%2
			var sum float32
			for j := range chain {
				c := b.Row((warp*chain+j)*i.M*i.N+output, x, y)
				if j == 0 {
					start[thread*4+n] = c
					sum = math.Float32frombits(c)
				}
				sum = model.Dot(i.DType, x, y, sum)
			}
			answers[thread*4+n] = math.Float32bits(sum)
		}
	})
	const threads = lowergpu.SoakThreads
	return fragments{bytesOf(left[:]), bytesOf(right[:threads*2*chain]), bytesOf(start[:threads*4]), bytesOf(answers[:threads*4])}
}

func bytesOf(words []uint32) []byte {
	b := make([]byte, 0, 4*len(words))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// parallel calls f for 0 to n-1, on all processors.
func parallel(n int, f func(i int)) {
	workers := min(n, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < n; i += workers {
				f(i)
			}
		})
	}
	group.Wait()
}
