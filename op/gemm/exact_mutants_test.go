package gemm_test

import (
	"math/big"
	"math/bits"
	"slices"

	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/verify/mutants"
)

// bytesBody returns a kernel of gemm.int8 that adds up products as sum does, and scales as the
// definition says.
func bytesBody(sum func(a, b []int32) int32) mutants.Plain {
	return scaledBytes(sum, func(acc int32, row, col float32) float32 { return float32(float32(acc)*row) * col })
}

func scaledBytes(sum func(a, b []int32) int32, scale func(acc int32, row, col float32) float32) mutants.Plain {
	ints := func(x []float32) []int32 {
		z := make([]int32, len(x))
		for i, v := range x {
			z[i] = int32(v)
		}
		return z
	}
	return mutants.Plain{Body: func(c *mutants.Call) {
		mutants.ContractionAt(func(m, n int, a, b []float32, _ float32, _ bool) float32 {
			return scale(sum(ints(a), ints(b)), c.In("scale_a").V[m], c.In("scale_b").V[n])
		})(c)
	}}
}

// swappedScales multiplies row m by the scale of column m, and column n by that of row n.
func swappedScales(c *mutants.Call) {
	rows, cols := c.In("scale_a").V, c.In("scale_b").V
	mutants.ContractionAt(func(m, n int, a, b []float32, _ float32, _ bool) float32 {
		acc := int32(0)
		for k := range a {
			acc += int32(a[k]) * int32(b[k])
		}
		return float32(float32(acc)*cols[m%len(cols)]) * rows[n%len(rows)]
	})(c)
}

func scalesFirst(acc int32, row, col float32) float32 { return float32(acc) * float32(row*col) }
func columnFirst(acc int32, row, col float32) float32 { return float32(float32(acc)*col) * row }
func wideScaling(acc int32, row, col float32) float32 {
	return float32(float64(acc) * float64(row) * float64(col))
}
func roundedTwice(acc int32, row, col float32) float32 {
	return float32(num.Round(num.F16, float32(acc))*row) * col
}

// inFloat32 keeps the sum in f32.
func inFloat32(a, b []int32) int32 {
	acc := float32(0)
	for k := range a {
		acc += float32(a[k] * b[k])
	}
	return int32(int64(acc))
}

func unsignedLeft(a, b []int32) int32 {
	u := slices.Clone(a)
	for k := range u {
		u[k] &= 0xff
	}
	return wrapping(u, b)
}

func wrapping(a, b []int32) (acc int32) {
	for k := range a {
		acc += a[k] * b[k]
	}
	return acc
}

// saturating adds within limits, as some integer instructions do.
func saturating(least, greatest int64) func(a, b []int32) int32 {
	return func(a, b []int32) int32 {
		acc := int64(0)
		for k := range a {
			acc = max(least, min(greatest, acc+int64(a[k]*b[k])))
		}
		return int32(acc)
	}
}

func wrongExact(l *mutants.List) {
	l.Of(gemm.Int8Definition, num.F32)
	l.From(mutants.KernelPractice)
	l.Add("saturating", "the accumulator saturates instead of wrapping", mutants.PromisesBits, bytesBody(saturating(-1<<31, 1<<31-1)))
	l.Add("saturating-i16", "pairs of products saturate in 16 bits, as vpmaddubsw does", mutants.PromisesBits, bytesBody(func(a, b []int32) (acc int32) {
		for k := 0; k < len(a); k += 2 {
			acc += saturating(-1<<15, 1<<15-1)(a[k:min(k+2, len(a))], b[k:min(k+2, len(a))])
		}
		return acc
	}))
	l.Add("i16-accumulator", "the sum is kept in 16 bits", mutants.PromisesBits, bytesBody(func(a, b []int32) int32 { return int32(int16(wrapping(a, b))) }))
	l.Add("f32-accumulator", "the sum is kept in f32", mutants.PromisesBits, bytesBody(inFloat32))
	l.Add("unsigned-left", "the left operand is read as u8", mutants.PromisesBits, bytesBody(unsignedLeft))
	l.Add("last-skipped", "the last of an odd number of products is missing", mutants.PromisesBits, bytesBody(func(a, b []int32) int32 { return wrapping(a[:len(a)/2*2], b[:len(a)/2*2]) }))
	l.Add("tail-of-four", "products after the last multiple of four are missing", mutants.PromisesBits, bytesBody(func(a, b []int32) int32 { return wrapping(a[:len(a)/4*4], b[:len(a)/4*4]) }))
	l.Add("column-first", "the scale of the column is multiplied first", mutants.PromisesBits, scaledBytes(wrapping, columnFirst))
	l.Add("scales-first", "the scales are multiplied with each other first", mutants.PromisesBits, scaledBytes(wrapping, scalesFirst))
	l.Add("scales-swapped", "rows are multiplied by the scales of columns, and columns by those of rows", mutants.PromisesBits, mutants.Plain{Body: swappedScales})
	l.Add("wide-scaling", "the products with scales are rounded once, at the end", mutants.PromisesBits, scaledBytes(wrapping, wideScaling))
	l.Add("rounded-twice", "the accumulator is rounded to f16 on its way", mutants.PromisesBits, scaledBytes(wrapping, roundedTwice))
	l.Add("least-is-127", "-128 is read as -127", mutants.PromisesBits, bytesBody(func(a, b []int32) (acc int32) {
		for k := range a {
			acc += max(a[k], -127) * b[k]
		}
		return acc
	}))
	l.Add("leading-dimension", "the rows of the operands are read as if they had no gaps", mutants.PromisesBits, mutants.Plain{Body: bytesBody(wrapping).Body, Load: mutants.LoadPacked})

	// A sum in a ring has no error, whatever the promise.
	l.Of(gemm.Int8Definition, num.F16)
	l.Add("saturating", "the accumulator saturates instead of wrapping", mutants.Stable, bytesBody(saturating(-1<<31, 1<<31-1)))
	l.Add("f32-accumulator", "the sum is kept in f32", mutants.Stable, bytesBody(inFloat32))
	l.Add("unsigned-left", "the left operand is read as u8", mutants.Stable, bytesBody(unsignedLeft))
	l.Add("scales-swapped", "rows are multiplied by the scales of columns, and columns by those of rows", mutants.Stable, mutants.Plain{Body: swappedScales})
	l.Add("store-via-bf16", "results are rounded to bf16, then to f16", mutants.PromisesBits, mutants.Plain{Body: bytesBody(wrapping).Body, Store: mutants.StoreVia(mutants.To(num.BF16))})
	l.Of(gemm.Int8Definition, num.F32)
	l.Add("rounded-twice-in-any-order", "the accumulator is rounded to f16 on its way", mutants.AnyOrder, scaledBytes(wrapping, roundedTwice))
	l.Add("i16-accumulator-stable", "the sum is kept in 16 bits", mutants.Stable, bytesBody(func(a, b []int32) int32 { return int32(int16(wrapping(a, b))) }))

	l.Of(gemm.ZPKDefinition, num.I64)
	l.Add("not-reduced", "the sum wraps at 64 bits, and is not reduced", mutants.PromisesBits, residues(func(a, b []int64, _ *big.Int) *big.Int {
		acc := int64(0)
		for k := range a {
			acc += a[k] * b[k]
		}
		return big.NewInt(acc)
	}))
	l.Add("wraps-first", "products wrap at 64 bits before they are reduced", mutants.PromisesBits, residues(func(a, b []int64, q *big.Int) *big.Int {
		acc := int64(0)
		for k := range a {
			acc += a[k] * b[k]
		}
		return new(big.Int).Mod(big.NewInt(acc), q)
	}))
	l.Add("negative-residues", "the rest of a division has the sign of what is divided", mutants.PromisesBits, residues(func(a, b []int64, q *big.Int) *big.Int {
		return new(big.Int).Rem(exactly(a, b), q)
	}))
	l.Add("not-reduced-last", "a result that equals p^k less one is 0", mutants.PromisesBits, residues(func(a, b []int64, q *big.Int) *big.Int {
		z := new(big.Int).Mod(exactly(a, b), q)
		if last := new(big.Int).Sub(q, big.NewInt(1)); z.Cmp(last) == 0 {
			return new(big.Int)
		}
		return z
	}))
	l.Add("last-skipped", "the last product is missing", mutants.PromisesBits, residues(func(a, b []int64, q *big.Int) *big.Int {
		n := len(a) - 1
		return new(big.Int).Mod(exactly(a[:n], b[:n]), q)
	}))
	l.Add("float64-products", "products are computed in float64", mutants.PromisesBits, residues(func(a, b []int64, q *big.Int) *big.Int {
		acc := new(big.Int)
		for k := range a {
			p, _ := new(big.Float).SetFloat64(float64(a[k]) * float64(b[k])).Int(nil)
			acc.Add(acc, p)
		}
		return acc.Mod(acc, q)
	}))
	l.Add("skips-one-valuation-too-many", "products of valuation k-1 are skipped as if they were 0", mutants.PromisesBits, residues(func(a, b []int64, q *big.Int) *big.Int {
		acc, third := new(big.Int), new(big.Int).Div(q, big.NewInt(3))
		for k := range a {
			p := exactly(a[k:k+1], b[k:k+1])
			if new(big.Int).Rem(p, third).Sign() != 0 {
				acc.Add(acc, p)
			}
		}
		return acc.Mod(acc, q)
	}))
}

func rightExact(l *mutants.List) {
	l.Of(gemm.Int8Definition, num.F32)
	l.Add("descending", "products are added from the last to the first", mutants.PromisesBits, bytesBody(func(a, b []int32) (acc int32) {
		for k := len(a) - 1; k >= 0; k-- {
			acc += a[k] * b[k]
		}
		return acc
	}))
	l.Add("dp4a", "four products at a time", mutants.PromisesBits, bytesBody(func(a, b []int32) (acc int32) {
		for k := 0; k < len(a); k += 4 {
			acc += wrapping(a[k:min(k+4, len(a))], b[k:min(k+4, len(a))])
		}
		return acc
	}))
	l.Add("unsigned-corrected", "u8 times i8, as VNNI multiplies, less 128 times the sum of the other operand", mutants.PromisesBits, bytesBody(func(a, b []int32) (acc int32) {
		for k := range a {
			acc += (a[k]+128)*b[k] - 128*b[k]
		}
		return acc
	}))
	l.Add("wide", "sums of 64 bits, cut to 32 at the end", mutants.PromisesBits, bytesBody(func(a, b []int32) int32 {
		acc := int64(0)
		for k := range a {
			acc += int64(a[k]) * int64(b[k])
		}
		return int32(acc)
	}))
	l.Add("split", "the sums of both halves are added", mutants.PromisesBits, bytesBody(func(a, b []int32) int32 {
		half := len(a) / 2
		return wrapping(a[:half], b[:half]) + wrapping(a[half:], b[half:])
	}))
	l.Add("column-first-stable", "the scale of the column is multiplied first", mutants.Stable, scaledBytes(wrapping, columnFirst))
	l.Add("scales-first-stable", "the scales are multiplied with each other first", mutants.Stable, scaledBytes(wrapping, scalesFirst))
	l.Add("wide-scaling-stable", "the products with scales are rounded once, at the end", mutants.Stable, scaledBytes(wrapping, wideScaling))
	l.Of(gemm.ZPKDefinition, num.I64)
	l.Add("montgomery", "factors and products are kept as multiples of 2^64 modulo p^k", mutants.PromisesBits, residues(montgomery))
	l.Add("split", "the sums of three parts of K are reduced, then added", mutants.PromisesBits, residues(func(a, b []int64, q *big.Int) *big.Int {
		acc := new(big.Int)
		for part := range 3 {
			lo, hi := part*len(a)/3, (part+1)*len(a)/3
			acc.Add(acc, new(big.Int).Mod(exactly(a[lo:hi], b[lo:hi]), q))
		}
		return acc.Mod(acc, q)
	}))
	l.Add("exact", "the exact sum is reduced once", mutants.PromisesBits, residues(func(a, b []int64, q *big.Int) *big.Int { return new(big.Int).Mod(exactly(a, b), q) }))
	l.Add("descending", "products are reduced one by one, from the last to the first", mutants.PromisesBits, residues(func(a, b []int64, q *big.Int) *big.Int {
		acc := new(big.Int)
		for k := len(a) - 1; k >= 0; k-- {
			acc.Add(acc, exactly(a[k:k+1], b[k:k+1])).Mod(acc, q)
		}
		return acc
	}))
}

// exactly returns the sum of products.
func exactly(a, b []int64) *big.Int {
	acc, x, y := new(big.Int), new(big.Int), new(big.Int)
	for k := range a {
		acc.Add(acc, x.Mul(x.SetInt64(a[k]), y.SetInt64(b[k])))
	}
	return acc
}

// montgomery multiplies without divisions by q, which is odd: REDC(t) = (t + m·q)/2^64 where m
// makes the sum a multiple of 2^64.
func montgomery(a, b []int64, modulus *big.Int) *big.Int {
	q, inverse := modulus.Uint64(), uint64(1)
	for range 6 { // Newton: 2^6 = 64 bits
		inverse *= 2 - q*inverse
	}
	times := func(x, y uint64) uint64 {
		hi, lo := bits.Mul64(x, y)
		mq, _ := bits.Mul64(-lo*inverse, q)
		if lo != 0 {
			mq++
		}
		if z := hi + mq; z >= q { // below 2q < 2^64
			return z - q
		} else {
			return z
		}
	}
	residue := func(v int64) uint64 {
		r := v % int64(q)
		if r < 0 {
			r += int64(q)
		}
		return uint64(r)
	}
	square := new(big.Int).Lsh(big.NewInt(1), 128)
	in := square.Mod(square, modulus).Uint64() // times it brings a residue into the form
	acc := uint64(0)
	for k := range a {
		if acc += times(times(residue(a[k]), in), times(residue(b[k]), in)); acc >= q {
			acc -= q
		}
	}
	return new(big.Int).SetUint64(times(acc, 1))
}

// residues returns a kernel of gemm.zpk that computes each element as f does.
func residues(f func(a, b []int64, q *big.Int) *big.Int) mutants.Kernel {
	return mutants.Stateful(func() func(c *mutants.Call) error {
		return func(c *mutants.Call) error {
			left, right, result := c.Stored[0], c.Stored[1], c.Stored[2]
			q := new(big.Int).Exp(new(big.Int).SetUint64(c.Definition.Ring().P), big.NewInt(int64(c.Definition.Ring().K)), nil)
			a, b := make([]int64, left.Cols), make([]int64, left.Cols)
			for col := range result.Cols {
				for k := range b {
					b[k] = right.Integer(k, col)
				}
				for r := range result.Rows {
					for k := range a {
						a[k] = left.Integer(r, k)
					}
					result.SetBits64(r, col, uint64(f(a, b, q).Int64()))
				}
			}
			return nil
		}
	})
}
