package wave

import (
	"encoding/binary"
	"math/bits"
)

// zeros is the upper half of addresses that have none.
var zeros Register

// loadWords loads a word into each register of v for the lanes of the mask, in order, up to the
// first lane whose address is not in memory. The address of a lane is start plus low and high. It
// returns the mask of the lanes that are left.
func loadWords(v []Register, low, high *Register, memory []byte, start, on uint64) uint64 {
	size := uint64(len(memory))
	n := uint64(4 * len(v))
	if size < n {
		return on
	}
	limit := size - n + 1
	for ; on != 0; on &= on - 1 {
		lane := bits.TrailingZeros64(on) & 63
		at := start + (uint64(low[lane]) | uint64(high[lane])<<32)
		if at >= limit {
			return on
		}
		switch p := memory[at:]; len(v) {
		case 1:
			v[0][lane] = binary.LittleEndian.Uint32(p)
		case 2:
			x := binary.LittleEndian.Uint64(p)
			v[0][lane], v[1][lane] = uint32(x), uint32(x>>32)
		case 4:
			p = p[:16]
			x, y := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
			v[0][lane], v[1][lane] = uint32(x), uint32(x>>32)
			v[2][lane], v[3][lane] = uint32(y), uint32(y>>32)
		default:
			for k := range v {
				v[k][lane] = binary.LittleEndian.Uint32(p[4*k:])
			}
		}
	}
	return 0
}

// storeWords is loadWords for a store.
func storeWords(v []Register, low, high *Register, memory []byte, start, on uint64) uint64 {
	size := uint64(len(memory))
	n := uint64(4 * len(v))
	if size < n {
		return on
	}
	limit := size - n + 1
	for ; on != 0; on &= on - 1 {
		lane := bits.TrailingZeros64(on) & 63
		at := start + (uint64(low[lane]) | uint64(high[lane])<<32)
		if at >= limit {
			return on
		}
		switch p := memory[at:]; len(v) {
		case 1:
			binary.LittleEndian.PutUint32(p, v[0][lane])
		case 2:
			binary.LittleEndian.PutUint64(p, uint64(v[0][lane])|uint64(v[1][lane])<<32)
		case 4:
			p = p[:16]
			binary.LittleEndian.PutUint64(p, uint64(v[0][lane])|uint64(v[1][lane])<<32)
			binary.LittleEndian.PutUint64(p[8:], uint64(v[2][lane])|uint64(v[3][lane])<<32)
		default:
			for k := range v {
				binary.LittleEndian.PutUint32(p[4*k:], v[k][lane])
			}
		}
	}
	return 0
}

// loadSmall is loadWords for 8 or 16 bits. What a load of a half does to the other half of its
// register, keepsOther says.
func loadSmall(a access, keepsOther bool, v, low, high *Register, memory []byte, start, on uint64) uint64 {
	n := uint64(a.bytes)
	for ; on != 0; on &= on - 1 {
		lane := bits.TrailingZeros64(on) & 63
		at := start + (uint64(low[lane]) | uint64(high[lane])<<32)
		if size := uint64(len(memory)); at >= size || size-at < n {
			return on
		}
		v[lane] = a.small(memory[at:at+n], v[lane], keepsOther)
	}
	return 0
}

// storeSmall is loadSmall for a store.
func storeSmall(a access, v, low, high *Register, memory []byte, start, on uint64) uint64 {
	n := uint64(a.bytes)
	for ; on != 0; on &= on - 1 {
		lane := bits.TrailingZeros64(on) & 63
		at := start + (uint64(low[lane]) | uint64(high[lane])<<32)
		if size := uint64(len(memory)); at >= size || size-at < n {
			return on
		}
		a.putSmall(memory[at:at+n], v[lane])
	}
	return 0
}
