package cpu

import (
	"math"
	"unsafe"

	"tokitai/def"
	"tokitai/num"
)

// A primitive is a loop over slices of equal length: d[i] = op(a[i], b[i], c[i]).
// d may be any of its arguments. int32 and bools (0 and 1) live in the same
// slices as binary32, as patterns (see ints). No loop but fma, whose binary64 product
// is exact, both multiplies and adds, so that the compiler has nothing to fuse.
type primitive func(d, a, b, c []float32)

// ints returns the same memory as int32.
func ints(x []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

var primitives = map[def.Op]primitive{
	def.OpAdd: add, def.OpSub: sub, def.OpMul: mul, def.OpDiv: div, def.OpSqrt: sqrt, def.OpFMA: fma,
	def.OpNeg: neg, def.OpAbs: abs, def.OpMin: minimum, def.OpMax: maximum, def.OpRint: rint, def.OpScale: scale,
	def.OpIToF: itof, def.OpFToI: ftoi, def.OpIAdd: iadd, def.OpISub: isub, def.OpIAnd: iand, def.OpIOr: ior,
	def.OpIMul: imul, def.OpUMulHigh: umulHigh, def.OpIXor: ixor,
	def.OpShl: shl, def.OpShr: shr, def.OpShrU: shrU, def.OpSelect: choose, def.OpPartner: partner,
}

// Comparisons by type of argument, and roundings by format.
var (
	floatComparisons = map[def.Op]primitive{
		def.OpLess: less, def.OpLessEqual: lessEqual, def.OpEqual: equal, def.OpNotEqual: notEqual,
	}
	intComparisons = map[def.Op]primitive{
		def.OpLess: iless, def.OpLessEqual: ilessEqual, def.OpEqual: iequal, def.OpNotEqual: inotEqual,
	}
	rounds  = map[num.DType]primitive{num.F16: roundF16, num.BF16: roundBF16, num.F32: copyValues}
	srounds = map[num.DType]primitive{num.F16: sroundF16, num.BF16: sroundBF16, num.F32: copyValues}
)

// partner exchanges the values of each pair. Chunks consist of pairs, except at the end of a row.
func partner(d, a, _, _ []float32) {
	last := len(d) &^ 1
	for i := 0; i < last; i += 2 {
		d[i], d[i+1] = a[i+1], a[i]
	}
	clear(d[last:])
}

func add(d, a, b, _ []float32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] + b[i]
	}
}

func sub(d, a, b, _ []float32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] - b[i]
	}
}

func mul(d, a, b, _ []float32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] * b[i]
	}
}

func div(d, a, b, _ []float32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = a[i] / b[i]
	}
}

// sqrt rounds once: the compiler turns this form into a binary32 square root, and
// a binary64 one rounded again gives the same.
func sqrt(d, a, _, _ []float32) {
	a = a[:len(d)]
	for i := range d {
		d[i] = float32(math.Sqrt(float64(a[i])))
	}
}

// fma multiplies and adds in binary64, where the product is exact, and rounds the
// sum again to binary32 unless that would be wrong.
func fma(d, a, b, c []float32) {
	a, b, c = a[:len(d)], b[:len(d)], c[:len(d)]
	for i := range d {
		p := float64(a[i]) * float64(b[i])
		s := float64(p) + float64(c[i])
		if isDelicate(s) {
			d[i] = num.FMA(a[i], b[i], c[i])
			continue
		}
		d[i] = float32(s)
	}
}

// isDelicate reports whether rounding a binary64 sum to binary32 could differ from
// rounding the exact sum once: it is halfway between two binary32 (its low 29 bits are a
// one and zeros), where the bits that binary64 lost decide, or it is a subnormal
// binary32, where halfway points have other patterns.
func isDelicate(s float64) bool {
	u := math.Float64bits(s)
	return u&0x1fffffff == 0x10000000 || u<<1 < 897<<53
}

func neg(d, a, _, _ []float32) {
	a = a[:len(d)]
	for i := range d {
		d[i] = -a[i]
	}
}

func abs(d, a, _, _ []float32) {
	x, y := ints(d), ints(a)[:len(d)]
	for i := range x {
		x[i] = y[i] & math.MaxInt32
	}
}

// minimum and maximum use Go's built-in functions, which order zeros and propagate NaN.
func minimum(d, a, b, _ []float32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = min(a[i], b[i])
	}
}

func maximum(d, a, b, _ []float32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = max(a[i], b[i])
	}
}

func rint(d, a, _, _ []float32) {
	a = a[:len(d)]
	for i := range d {
		d[i] = float32(math.RoundToEven(float64(a[i])))
	}
}

func scale(d, a, b, _ []float32) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = scale1(a[i], b[i])
	}
}

// scale1 returns (x·2^a)·2^(n−a) with a = ⌊n/2⌋; both powers are normal numbers.
func scale1(x, n float32) float32 {
	if n != n {
		return n
	}
	k := int32(max(-252, min(254, math.RoundToEven(float64(n)))))
	a := k >> 1
	x *= math.Float32frombits(uint32(a+127) << 23)
	return x * math.Float32frombits(uint32(k-a+127)<<23)
}

func copyValues(d, a, _, _ []float32) { copy(d, a) }

func roundF16(d, a, _, _ []float32) {
	a = a[:len(d)]
	for i := range d {
		d[i] = num.F16ToF32(num.F32ToF16(a[i]))
	}
}

func roundBF16(d, a, _, _ []float32) {
	a = a[:len(d)]
	for i := range d {
		d[i] = num.BF16ToF32(num.F32ToBF16(a[i]))
	}
}

func sroundF16(d, a, word, _ []float32)  { sround(num.F16, d, a, ints(word)) }
func sroundBF16(d, a, word, _ []float32) { sround(num.BF16, d, a, ints(word)) }

func sround(format num.DType, d, a []float32, words []int32) {
	a, words = a[:len(d)], words[:len(d)]
	for i := range d {
		d[i] = num.StochasticRound(format, a[i], uint32(words[i]))
	}
}

func truth(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

func less(d, a, b, _ []float32) {
	x, a, b := ints(d), a[:len(d)], b[:len(d)]
	for i := range x {
		x[i] = truth(a[i] < b[i])
	}
}

func lessEqual(d, a, b, _ []float32) {
	x, a, b := ints(d), a[:len(d)], b[:len(d)]
	for i := range x {
		x[i] = truth(a[i] <= b[i])
	}
}

func equal(d, a, b, _ []float32) {
	x, a, b := ints(d), a[:len(d)], b[:len(d)]
	for i := range x {
		x[i] = truth(a[i] == b[i])
	}
}

func notEqual(d, a, b, _ []float32) {
	x, a, b := ints(d), a[:len(d)], b[:len(d)]
	for i := range x {
		x[i] = truth(a[i] != b[i])
	}
}

func iless(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = truth(y[i] < z[i])
	}
}

func ilessEqual(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = truth(y[i] <= z[i])
	}
}

func iequal(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = truth(y[i] == z[i])
	}
}

func inotEqual(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = truth(y[i] != z[i])
	}
}

// choose works on patterns, so that it serves floats and int32 alike. The masks
// avoid a branch that random data would mispredict.
func choose(d, cond, a, b []float32) {
	x, k, y, z := ints(d), ints(cond)[:len(d)], ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		m := -k[i]
		x[i] = y[i]&m | z[i]&^m
	}
}

func itof(d, a, _, _ []float32) {
	y := ints(a)[:len(d)]
	for i := range d {
		d[i] = float32(y[i])
	}
}

func ftoi(d, a, _, _ []float32) {
	x, a := ints(d), a[:len(d)]
	for i := range x {
		switch v := a[i]; {
		case v != v:
			x[i] = 0
		case v >= 1<<31:
			x[i] = math.MaxInt32
		case v <= -1<<31:
			x[i] = math.MinInt32
		default:
			x[i] = int32(v)
		}
	}
}

func iadd(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = y[i] + z[i]
	}
}

func isub(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = y[i] - z[i]
	}
}

func iand(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = y[i] & z[i]
	}
}

func ior(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = y[i] | z[i]
	}
}

func ixor(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = y[i] ^ z[i]
	}
}

func imul(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = y[i] * z[i]
	}
}

func umulHigh(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = int32(uint64(uint32(y[i])) * uint64(uint32(z[i])) >> 32)
	}
}

func shrU(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = int32(uint32(y[i]) >> (uint32(z[i]) & 31))
	}
}

func shl(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = y[i] << (uint32(z[i]) & 31)
	}
}

func shr(d, a, b, _ []float32) {
	x, y, z := ints(d), ints(a)[:len(d)], ints(b)[:len(d)]
	for i := range x {
		x[i] = y[i] >> (uint32(z[i]) & 31)
	}
}

// fill sets every element to one value's pattern.
func fill(d []float32, v float32) {
	x, p := ints(d), int32(math.Float32bits(v))
	for i := range x {
		x[i] = p
	}
}

// maxOf and minOf fold a slice into m. NaN wins; of two zeros the sign decides.
func maxOf(m float32, x []float32) float32 {
	for _, v := range x {
		if v > m {
			m = v
		} else if v != v {
			return v
		} else if v == 0 && m == 0 {
			m = max(m, v)
		}
	}
	return m
}

func minOf(m float32, x []float32) float32 {
	for _, v := range x {
		if v < m {
			m = v
		} else if v != v {
			return v
		} else if v == 0 && m == 0 {
			m = min(m, v)
		}
	}
	return m
}

// argMaxOf and argMinOf continue from the extreme m of earlier columns, in column at, with
// x, which begins in column first. Only a better value replaces an earlier one; NaN is
// the best, and −0 and +0 are equal.
func argMaxOf(m float32, at *int32, x []float32, first int) float32 {
	if m != m {
		return m
	}
	for i, v := range x {
		if v > m {
			m, *at = v, int32(first+i)
		} else if v != v {
			*at = int32(first + i)
			return v
		}
	}
	return m
}

func argMinOf(m float32, at *int32, x []float32, first int) float32 {
	if m != m {
		return m
	}
	for i, v := range x {
		if v < m {
			m, *at = v, int32(first+i)
		} else if v != v {
			*at = int32(first + i)
			return v
		}
	}
	return m
}

// plus returns the loop that adds values of a type.
func plus(t def.Type) primitive {
	if t == def.Int {
		return iadd
	}
	return add
}

// addToLanes adds x to lanes, element i to lane (first+i) mod len(lanes).
func addToLanes(plus primitive, lanes, x []float32, first int) {
	for len(x) > 0 {
		at := first & (len(lanes) - 1)
		n := min(len(x), len(lanes)-at)
		l := lanes[at : at+n]
		plus(l, l, x[:n], nil)
		x = x[n:]
		first += n
	}
}

// treeOf adds up lanes of a type: floats as a tree.
func treeOf(t def.Type, lanes []float32) float32 {
	if t != def.Int {
		return tree(lanes)
	}
	sum := int32(0)
	for _, x := range ints(lanes) {
		sum += x
	}
	return math.Float32frombits(uint32(sum))
}

// tree adds neighbours until one sum is left, and overwrites the lanes.
func tree(lanes []float32) float32 {
	for n := len(lanes); n > 1; n = (n + 1) / 2 {
		for i := range n / 2 {
			lanes[i] = lanes[2*i] + lanes[2*i+1]
		}
		if n%2 == 1 {
			lanes[n/2] = lanes[n-1]
		}
	}
	return lanes[0]
}
