package wave

import (
	"encoding/binary"
	"math"
	"strings"
)

// atomicOperation is a read-modify-write of 4 or 8 bytes.
type atomicOperation struct {
	bytes     int
	isCompare bool // has a second operand, which is compared with what is there
	f         func(old, data, compare uint64) uint64
}

// apply changes the bytes and returns what was there.
func (a atomicOperation) apply(p []byte, data, compare uint64) uint64 {
	if a.bytes == 4 {
		old := binary.LittleEndian.Uint32(p)
		binary.LittleEndian.PutUint32(p, uint32(a.f(uint64(old), data, compare)))
		return uint64(old)
	}
	old := binary.LittleEndian.Uint64(p)
	binary.LittleEndian.PutUint64(p, a.f(old, data, compare))
	return old
}

// parseAtomic returns the operation of an atomic of FLAT, GLOBAL or MUBUF, without its prefix.
func parseAtomic(name string) (atomicOperation, bool) {
	name, ok := strings.CutPrefix(name, "atomic_")
	if !ok {
		return atomicOperation{}, false
	}
	if a, ok := atomics[name]; ok {
		return a, true
	}
	// gfx9's names: the type is a prefix of the operation, and _x2 is 64 bits.
	name, isLong := strings.CutSuffix(name, "_x2")
	typ, ok := map[string]string{
		"swap": "swap_b", "cmpswap": "cmpswap_b", "add": "add_u", "sub": "sub_u", "smin": "min_i", "umin": "min_u", "smax": "max_i", "umax": "max_u",
		"and": "and_b", "or": "or_b", "xor": "xor_b", "inc": "inc_u", "dec": "dec_u",
	}[name]
	if !ok {
		return atomicOperation{}, false
	}
	if isLong {
		return atomics[typ+"64"], true
	}
	return atomics[typ+"32"], true
}

// atomics has the operations on memory, by gfx11's names.
var atomics = map[string]atomicOperation{}

func init() {
	integer := func(name string, f func(old, data, compare uint64) uint64) {
		atomics[name+"32"] = atomicOperation{bytes: 4, f: f, isCompare: strings.HasPrefix(name, "cmp")}
		atomics[name+"64"] = atomicOperation{bytes: 8, f: f, isCompare: strings.HasPrefix(name, "cmp")}
	}
	integer("swap_b", func(old, data, _ uint64) uint64 { return data })
	integer("cmpswap_b", func(old, data, compare uint64) uint64 {
		if old == compare {
			return data
		}
		return old
	})
	integer("add_u", func(old, data, _ uint64) uint64 { return old + data })
	integer("sub_u", func(old, data, _ uint64) uint64 { return old - data })
	integer("rsub_u", func(old, data, _ uint64) uint64 { return data - old })
	integer("min_u", func(old, data, _ uint64) uint64 { return min(old, data) })
	integer("max_u", func(old, data, _ uint64) uint64 { return max(old, data) })
	integer("and_b", func(old, data, _ uint64) uint64 { return old & data })
	integer("or_b", func(old, data, _ uint64) uint64 { return old | data })
	integer("xor_b", func(old, data, _ uint64) uint64 { return old ^ data })
	integer("inc_u", func(old, data, _ uint64) uint64 {
		if old >= data {
			return 0
		}
		return old + 1
	})
	integer("dec_u", func(old, data, _ uint64) uint64 {
		if old == 0 || old > data {
			return data
		}
		return old - 1
	})
	atomics["min_i32"] = atomicOperation{bytes: 4, f: func(old, data, _ uint64) uint64 { return uint64(min(int32(old), int32(data))) }}
	atomics["max_i32"] = atomicOperation{bytes: 4, f: func(old, data, _ uint64) uint64 { return uint64(max(int32(old), int32(data))) }}
	atomics["min_i64"] = atomicOperation{bytes: 8, f: func(old, data, _ uint64) uint64 { return uint64(min(int64(old), int64(data))) }}
	atomics["max_i64"] = atomicOperation{bytes: 8, f: func(old, data, _ uint64) uint64 { return uint64(max(int64(old), int64(data))) }}
	// The result of csub is 0 where it would be negative.
	atomics["csub_u32"] = atomicOperation{bytes: 4, f: func(old, data, _ uint64) uint64 {
		if old < data {
			return 0
		}
		return old - data
	}}

	f32 := func(x uint64) float32 { return math.Float32frombits(uint32(x)) }
	atomics["add_f32"] = atomicOperation{bytes: 4, f: func(old, data, _ uint64) uint64 { return uint64(math.Float32bits(f32(old) + f32(data))) }}
	atomics["min_f32"] = atomicOperation{bytes: 4, f: func(old, data, _ uint64) uint64 { return pick(f32(data) < f32(old), data, old) }}
	atomics["max_f32"] = atomicOperation{bytes: 4, f: func(old, data, _ uint64) uint64 { return pick(f32(data) > f32(old), data, old) }}
	atomics["cmpswap_f32"] = atomicOperation{bytes: 4, isCompare: true, f: func(old, data, compare uint64) uint64 {
		return pick(f32(old) == f32(compare), data, old)
	}}
	f64 := math.Float64frombits
	atomics["add_f64"] = atomicOperation{bytes: 8, f: func(old, data, _ uint64) uint64 { return math.Float64bits(f64(old) + f64(data)) }}
	atomics["min_f64"] = atomicOperation{bytes: 8, f: func(old, data, _ uint64) uint64 { return pick(f64(data) < f64(old), data, old) }}
	atomics["max_f64"] = atomicOperation{bytes: 8, f: func(old, data, _ uint64) uint64 { return pick(f64(data) > f64(old), data, old) }}
}

func pick(isFirst bool, a, b uint64) uint64 {
	if isFirst {
		return a
	}
	return b
}
