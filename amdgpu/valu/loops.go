package valu

import "math"

// Loops of binary32 arithmetic in the plain mode. Elements of d may be those of the operands.

// fmaWordsGo sets d[i] to a[i]·b[i] + c[i].
func fmaWordsGo(d, a, b, c []uint32) {
	const leastNormal, infinity = (1023 - 126) << 52, 0x7ff << 52
	b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
	for i, x := range a {
		p := float64(float64(math.Float32frombits(x)) * float64(math.Float32frombits(b[i])))
		z := float64(math.Float32frombits(c[i]))
		r := p + z
		// As in num.FMA, rounding r once more is harmless unless r lies halfway between two
		// binary32, or below the normal numbers.
		bits := math.Float64bits(r)
		if m := bits &^ (1 << 63); bits&(1<<29-1) == 1<<28 || m-leastNormal > infinity-leastNormal && m != 0 {
			if r != r {
				d[i] = chooseNaN(x, b[i], c[i])
				continue
			}
			r = oddSum(p, z)
		}
		d[i] = math.Float32bits(float32(r))
	}
}

// addWordsGo sets d[i] to a[i] + (b[i] ^ sign).
func addWordsGo(d, a, b []uint32, sign uint32) {
	b, d = b[:len(a)], d[:len(a)]
	for i, x := range a {
		y := b[i] ^ sign
		r := math.Float32frombits(x) + math.Float32frombits(y)
		if r != r {
			d[i] = chooseNaN(x, y, 0)
			continue
		}
		d[i] = math.Float32bits(r)
	}
}

// mulWordsGo sets d[i] to a[i]·b[i].
func mulWordsGo(d, a, b []uint32) {
	b, d = b[:len(a)], d[:len(a)]
	for i, x := range a {
		r := math.Float32frombits(x) * math.Float32frombits(b[i])
		if r != r {
			d[i] = chooseNaN(x, b[i], 0)
			continue
		}
		d[i] = math.Float32bits(r)
	}
}

// chooseNaN returns the NaN that an operation on the operands gives.
func chooseNaN(a, b, c uint32) uint32 {
	if x, ok := firstNaN(single, uint64(a), uint64(b), uint64(c)); ok {
		return uint32(x)
	}
	return uint32(single.nan())
}
