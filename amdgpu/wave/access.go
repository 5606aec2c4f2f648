package wave

import (
	"encoding/binary"
	"strings"
)

// half is the half of a register that an access of 8 or 16 bits stores or reads.
type half uint8

const (
	wholeRegister half = iota
	lowerHalf
	upperHalf
)

// access is what a load or a store moves.
type access struct {
	bytes    int
	isSigned bool // of a load of 8 or 16 bits
	half     half // of a load: the half that it changes; of a store: the one that it reads
}

func (a access) words() int { return (a.bytes + 3) / 4 }

// accesses has the suffixes of loads and stores of both families.
var accesses = map[string]access{
	"u8": {bytes: 1}, "i8": {bytes: 1, isSigned: true}, "b8": {bytes: 1},
	"u16": {bytes: 2}, "i16": {bytes: 2, isSigned: true}, "b16": {bytes: 2},
	"b32": {bytes: 4}, "b64": {bytes: 8}, "b96": {bytes: 12}, "b128": {bytes: 16},

	"d16_u8": {1, false, lowerHalf}, "d16_i8": {1, true, lowerHalf}, "d16_b16": {2, false, lowerHalf},
	"d16_hi_u8": {1, false, upperHalf}, "d16_hi_i8": {1, true, upperHalf}, "d16_hi_b16": {2, false, upperHalf},
	"d16_hi_b8": {1, false, upperHalf},
	"u8_d16":    {1, false, lowerHalf}, "i8_d16": {1, true, lowerHalf}, "u16_d16": {2, false, lowerHalf},
	"u8_d16_hi": {1, false, upperHalf}, "i8_d16_hi": {1, true, upperHalf}, "u16_d16_hi": {2, false, upperHalf},
	"b8_d16_hi": {1, false, upperHalf}, "b16_d16_hi": {2, false, upperHalf},

	"ubyte": {bytes: 1}, "sbyte": {bytes: 1, isSigned: true}, "byte": {bytes: 1},
	"ushort": {bytes: 2}, "sshort": {bytes: 2, isSigned: true}, "short": {bytes: 2},
	"dword": {bytes: 4}, "dwordx2": {bytes: 8}, "dwordx3": {bytes: 12}, "dwordx4": {bytes: 16},
	"ubyte_d16": {1, false, lowerHalf}, "sbyte_d16": {1, true, lowerHalf}, "short_d16": {2, false, lowerHalf},
	"ubyte_d16_hi": {1, false, upperHalf}, "sbyte_d16_hi": {1, true, upperHalf}, "short_d16_hi": {2, false, upperHalf},
	"byte_d16_hi": {1, false, upperHalf},
}

// parseAccess splits the name of a load or a store, without its prefix, into what it does.
func parseAccess(name string) (a access, isStore, ok bool) {
	for _, verb := range []string{"load_", "read_", "store_", "write_"} {
		if suffix, found := strings.CutPrefix(name, verb); found {
			a, ok = accesses[suffix]
			return a, verb == "store_" || verb == "write_", ok
		}
	}
	return access{}, false, false
}

// small returns the value that a load of 8 or 16 bits leaves in a register.
func (a access) small(p []byte, old uint32, keepsOther bool) uint32 {
	var v uint32
	switch {
	case a.bytes == 1 && a.isSigned:
		v = uint32(int32(int8(p[0])))
	case a.bytes == 1:
		v = uint32(p[0])
	case a.isSigned:
		v = uint32(int32(int16(binary.LittleEndian.Uint16(p))))
	default:
		v = uint32(binary.LittleEndian.Uint16(p))
	}
	if !keepsOther {
		old = 0
	}
	switch a.half {
	case lowerHalf:
		return old&0xffff0000 | v&0xffff
	case upperHalf:
		return old&0xffff | v<<16
	}
	return v
}

// load stores what is read for one lane in the registers from d on. Where a load changes one half of a
// register, gfx11 keeps the other half; chips of gfx9 whose memory has error correction clear it.
func (w *Wave) load(a access, d, lane int, p []byte) {
	lane &= 63
	switch a.bytes {
	case 4:
		w.V[d][lane] = binary.LittleEndian.Uint32(p)
	case 8:
		v := w.V[d : d+2 : d+2]
		x := binary.LittleEndian.Uint64(p)
		v[0][lane], v[1][lane] = uint32(x), uint32(x>>32)
	case 16:
		v := w.V[d : d+4 : d+4]
		_ = p[15]
		x, y := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
		v[0][lane], v[1][lane], v[2][lane], v[3][lane] = uint32(x), uint32(x>>32), uint32(y), uint32(y>>32)
	case 12:
		v := w.V[d : d+3 : d+3]
		for k := range v {
			v[k][lane] = binary.LittleEndian.Uint32(p[4*k:])
		}
	default:
		w.V[d][lane] = a.small(p, w.V[d][lane], w.isGFX11())
	}
}

// store writes the registers from s on, of one lane.
func (w *Wave) store(a access, s, lane int, p []byte) {
	lane &= 63
	switch a.bytes {
	case 4:
		binary.LittleEndian.PutUint32(p, w.V[s][lane])
	case 8:
		v := w.V[s : s+2 : s+2]
		binary.LittleEndian.PutUint64(p, uint64(v[0][lane])|uint64(v[1][lane])<<32)
	case 16:
		v := w.V[s : s+4 : s+4]
		_ = p[15]
		binary.LittleEndian.PutUint64(p, uint64(v[0][lane])|uint64(v[1][lane])<<32)
		binary.LittleEndian.PutUint64(p[8:], uint64(v[2][lane])|uint64(v[3][lane])<<32)
	case 12:
		v := w.V[s : s+3 : s+3]
		for k := range v {
			binary.LittleEndian.PutUint32(p[4*k:], v[k][lane])
		}
	default:
		a.putSmall(p, w.V[s][lane])
	}
}

// putSmall writes 8 or 16 bits of a register.
func (a access) putSmall(p []byte, v uint32) {
	if a.half == upperHalf {
		v >>= 16
	}
	if a.bytes == 1 {
		p[0] = byte(v)
	} else {
		binary.LittleEndian.PutUint16(p, uint16(v))
	}
}
