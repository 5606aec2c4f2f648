package sim

import (
	"encoding/binary"

	"tokitai/device/gpu/driver"
)

// The simulator's encoding of a tensor map is struct Map of the runtime's async.h: words of
// eight bytes, of which the second has these halves.
const (
	mapWords = driver.TensorMapBytes / 8
	mapRank  = 1 << 16
	mapLine  = 1 << 32
	mapMark  = 0x706d << 48
)

// encodeTensorMap implements the table's EncodeTensorMap. It refuses what CUDA's driver
// refuses.
func encodeTensorMap(to []byte, m *driver.TensorMap) error {
	if text := badTensorMap(m); text != "" {
		return &driver.Error{Call: "encode a tensor map", Text: text}
	}
	words := [mapWords]uint64{m.Address, uint64(m.ElementBytes) | uint64(m.Rank)*mapRank | uint64(m.LineBytes())*mapLine | mapMark}
	copy(words[2:], m.Sizes[:])
	copy(words[7:], m.Strides[:])
	for i, n := range m.Box {
		words[11+i] = uint64(n)
	}
	for i, w := range words {
		binary.LittleEndian.PutUint64(to[8*i:], w)
	}
	return nil
}

// badTensorMap says what is wrong with a tensor map, if anything.
func badTensorMap(m *driver.TensorMap) string {
	switch {
	case m.Address == 0 || m.Address%16 != 0:
		return "the address is no multiple of 16"
	case m.ElementBytes != 1 && m.ElementBytes != 2 && m.ElementBytes != 4:
		return "elements have 1, 2 or 4 bytes"
	case m.Rank < 2 || m.Rank > 5:
		return "the rank is 2 to 5"
	case m.LineBytes() != 128 && m.LineBytes() != 64:
		return "a box has 128 or 64 bytes of the first dimension"
	}
	for i := range m.Rank {
		switch {
		case m.Sizes[i] < 1 || m.Sizes[i] > 1<<32:
			return "a dimension has 1 to 2^32 elements"
		case m.Box[i] < 1 || m.Box[i] > 256:
			return "a box has 1 to 256 elements of a dimension"
		case i > 0 && (m.Strides[i-1]%16 != 0 || m.Strides[i-1] >= 1<<40):
			return "strides are multiples of 16 below 2^40"
		}
	}
	return ""
}
