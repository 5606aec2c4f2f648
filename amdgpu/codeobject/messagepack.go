package codeobject

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// decoder decodes MessagePack to nil, bool, int64, uint64, float64, string, []byte, []any
// and map[string]any. Keys that are not strings and extension types are errors.
type decoder struct {
	data []byte
}

var errEnds = errors.New("the data ends early")

// maxDepth limits arrays and maps in one another.
const maxDepth = 32

// decode decodes one value, which is all of the data.
func decode(data []byte) (any, error) {
	d := decoder{data}
	v, err := d.value(maxDepth)
	if err == nil && len(d.data) > 0 {
		err = fmt.Errorf("%d bytes follow the value", len(d.data))
	}
	if err != nil {
		return nil, fmt.Errorf("MessagePack at byte %d: %w", len(data)-len(d.data), err)
	}
	return v, nil
}

func (d *decoder) take(n uint64) ([]byte, error) {
	if n > uint64(len(d.data)) {
		return nil, errEnds
	}
	taken := d.data[:n]
	d.data = d.data[n:]
	return taken, nil
}

// number takes a big-endian number of 1, 2, 4 or 8 bytes.
func (d *decoder) number(bytes int) (uint64, error) {
	var padded [8]byte
	taken, err := d.take(uint64(bytes))
	copy(padded[8-bytes:], taken)
	return binary.BigEndian.Uint64(padded[:]), err
}

func (d *decoder) value(depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("more than %d arrays and maps in one another", maxDepth)
	}
	first, err := d.number(1)
	if err != nil {
		return nil, err
	}
	switch c := byte(first); {
	case c <= 0x7f:
		return int64(c), nil
	case c <= 0x8f:
		return d.mapping(first&0xf, depth)
	case c <= 0x9f:
		return d.array(first&0xf, depth)
	case c <= 0xbf:
		return d.text(first & 0x1f)
	case c >= 0xe0:
		return int64(int8(c)), nil
	case c == 0xc0:
		return nil, nil
	case c == 0xc2 || c == 0xc3:
		return c == 0xc3, nil
	case c >= 0xc4 && c <= 0xc6:
		n, err := d.number(1 << (c - 0xc4))
		if err != nil {
			return nil, err
		}
		return d.take(n)
	case c == 0xca:
		n, err := d.number(4)
		return float64(math.Float32frombits(uint32(n))), err
	case c == 0xcb:
		n, err := d.number(8)
		return math.Float64frombits(n), err
	case c >= 0xcc && c <= 0xcf:
		n, err := d.number(1 << (c - 0xcc))
		if n <= math.MaxInt64 {
			return int64(n), err
		}
		return n, err
	case c >= 0xd0 && c <= 0xd3:
		size := 1 << (c - 0xd0)
		n, err := d.number(size)
		shift := 64 - 8*size
		return int64(n<<shift) >> shift, err
	case c >= 0xd9 && c <= 0xdb:
		n, err := d.number(1 << (c - 0xd9))
		if err != nil {
			return nil, err
		}
		return d.text(n)
	case c == 0xdc || c == 0xdd:
		n, err := d.number(2 << (c - 0xdc))
		if err != nil {
			return nil, err
		}
		return d.array(n, depth)
	case c == 0xde || c == 0xdf:
		n, err := d.number(2 << (c - 0xde))
		if err != nil {
			return nil, err
		}
		return d.mapping(n, depth)
	default:
		return nil, fmt.Errorf("values of type %#x are unknown", c)
	}
}

func (d *decoder) text(bytes uint64) (any, error) {
	taken, err := d.take(bytes)
	return string(taken), err
}

func (d *decoder) array(n uint64, depth int) (any, error) {
	if n > uint64(len(d.data)) { // an element has at least one byte
		return nil, errEnds
	}
	list := make([]any, 0, min(n, 1024))
	for range n {
		v, err := d.value(depth - 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (d *decoder) mapping(n uint64, depth int) (any, error) {
	if n > uint64(len(d.data)) {
		return nil, errEnds
	}
	m := make(map[string]any, min(n, 64))
	for range n {
		k, err := d.value(depth - 1)
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if !ok {
			return nil, fmt.Errorf("a map has the key %v, want a string", k)
		}
		if _, ok := m[key]; ok {
			return nil, fmt.Errorf("a map has the key %q twice", key)
		}
		if m[key], err = d.value(depth - 1); err != nil {
			return nil, err
		}
	}
	return m, nil
}
