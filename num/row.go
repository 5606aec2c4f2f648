package num

import (
	"encoding/binary"
	"math"
)

// Rows at a time: each function here does to every element of a row what the function for
// one element does, without finding the element and its format anew.

// Floats sets into to the values of row r, exactly.
func (a *Array) Floats(r int, into []float32) {
	row, into := a.Row(r), into[:a.Cols]
	switch a.DType {
	case F16:
		for c := range into {
			into[c] = F16ToF32(binary.LittleEndian.Uint16(row[2*c:]))
		}
	case BF16:
		for c := range into {
			into[c] = BF16ToF32(binary.LittleEndian.Uint16(row[2*c:]))
		}
	case F32:
		for c := range into {
			into[c] = math.Float32frombits(binary.LittleEndian.Uint32(row[4*c:]))
		}
	case E4M3:
		E4M3sToF32s(into, row)
	case E5M2:
		E5M2sToF32s(into, row)
	default:
		for c := range into {
			into[c] = a.At(r, c)
		}
	}
}

// SetFloats stores values in row r, each with one rounding to nearest even.
func (a *Array) SetFloats(r int, values []float32) {
	row, values := a.Row(r), values[:a.Cols]
	switch a.DType {
	case F16:
		for c, v := range values {
			binary.LittleEndian.PutUint16(row[2*c:], F32ToF16(v))
		}
	case BF16:
		for c, v := range values {
			binary.LittleEndian.PutUint16(row[2*c:], F32ToBF16(v))
		}
	case E4M3, E5M2:
		for c, v := range values {
			row[c] = uint8(Narrow(a.DType, v))
		}
	case F32:
		for c, v := range values {
			binary.LittleEndian.PutUint32(row[4*c:], math.Float32bits(v))
		}
	default: // integers
		for c, v := range values {
			a.Set(r, c, v)
		}
	}
}

// Patterns sets into to the bit patterns of row r, which have at most 32 bits.
func (a *Array) Patterns(r int, into []uint32) {
	row, into := a.Row(r), into[:a.Cols]
	switch a.DType.Size() {
	case 1:
		for c := range into {
			into[c] = uint32(row[c])
		}
	case 2:
		for c := range into {
			into[c] = uint32(binary.LittleEndian.Uint16(row[2*c:]))
		}
	case 8:
		panic("num: Patterns of " + a.DType.String())
	default:
		for c := range into {
			into[c] = binary.LittleEndian.Uint32(row[4*c:])
		}
	}
}

// SetPatterns sets the bit patterns of row r, which have at most 32 bits.
func (a *Array) SetPatterns(r int, patterns []uint32) {
	row, patterns := a.Row(r), patterns[:a.Cols]
	switch a.DType.Size() {
	case 1:
		for c, v := range patterns {
			row[c] = uint8(v)
		}
	case 2:
		for c, v := range patterns {
			binary.LittleEndian.PutUint16(row[2*c:], uint16(v))
		}
	case 8:
		panic("num: SetPatterns of " + a.DType.String())
	default:
		for c, v := range patterns {
			binary.LittleEndian.PutUint32(row[4*c:], v)
		}
	}
}

// MakeCanonical replaces every NaN among stored elements of d by the canonical one.
func MakeCanonical(d DType, stored []byte) {
	if d.IsInteger() {
		return
	}
	f := d.format()
	switch d.Size() {
	case 1:
		for i, b := range stored {
			if f.magnitude(uint32(b)) > f.last {
				stored[i] = uint8(f.nan)
			}
		}
	case 2:
		for i := 0; i+1 < len(stored); i += 2 {
			if f.magnitude(uint32(binary.LittleEndian.Uint16(stored[i:]))) > f.last {
				binary.LittleEndian.PutUint16(stored[i:], uint16(f.nan))
			}
		}
	default:
		for i := 0; i+3 < len(stored); i += 4 {
			if f.magnitude(binary.LittleEndian.Uint32(stored[i:])) > f.last {
				binary.LittleEndian.PutUint32(stored[i:], f.nan)
			}
		}
	}
}

// FMAs sets z[i] = FMA(a[i], b[i], c[i]) for every i. The slices are equally long.
func FMAs(z, a, b, c []float32) {
	a, b, c = a[:len(z)], b[:len(z)], c[:len(z)]
	for i := range z {
		s := float64(float64(a[i])*float64(b[i])) + float64(c[i])
		if isDelicate(s) {
			z[i] = FMA(a[i], b[i], c[i])
			continue
		}
		z[i] = float32(s)
	}
}

// AddProducts sets sums[i] = FMA(x, y[i], sums[i]) for every i. The slices are equally
// long.
func AddProducts(sums []float32, x float32, y []float32) {
	y = y[:len(sums)]
	wide := float64(x)
	for i, z := range sums {
		s := float64(wide*float64(y[i])) + float64(z)
		if isDelicate(s) {
			sums[i] = FMA(x, y[i], z)
			continue
		}
		sums[i] = float32(s)
	}
}

// AddShortProducts is AddProducts for factors of at most 12 bits, such as those of BF16:
// unless it leaves the normal range, a product is a binary32, and adding it is the only
// rounding.
func AddShortProducts(sums []float32, x float32, y []float32) {
	y = y[:len(sums)]
	for i, z := range sums {
		p := float32(x * y[i])
		if exponent := math.Float32bits(p) >> 23 & 0xff; exponent-1 < 254 {
			sums[i] = z + p
			continue
		}
		sums[i] = FMA(x, y[i], z)
	}
}
