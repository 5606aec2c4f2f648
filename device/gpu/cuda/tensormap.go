package cuda

import (
	"sync"
	"unsafe"

	"tokitai/device/gpu/driver"
)

// mapFrame is the memory of one call of cuTensorMapEncodeTiled.
type mapFrame struct {
	args    [12]uintptr
	m       driver.TensorMap
	steps   [5]uint32                        // from one element to the next
	encoded [driver.TensorMapBytes + 64]byte // of which the driver writes an aligned part
}

var mapFrames = sync.Pool{New: func() any { return &mapFrame{steps: [5]uint32{1, 1, 1, 1, 1}} }}

// tensorMaps returns the table's EncodeTensorMap, nil if the driver has none.
func (l *library) tensorMaps() func(to []byte, m *driver.TensorMap) error {
	if l.api.cuTensorMapEncodeTiled.isMissing {
		return nil
	}
	return l.encodeTensorMap
}

func (l *library) encodeTensorMap(to []byte, m *driver.TensorMap) error {
	// CUtensorMapDataType by the bytes of an element, CUtensorMapSwizzle, CUtensorMapL2promotion.
	types := [...]uintptr{1: 0, 2: 1, 4: 2}
	const swizzle64, swizzle128, promote128 = 2, 3, 2
	swizzle := uintptr(swizzle128)
	if m.LineBytes() == 64 {
		swizzle = swizzle64
	}
	f := mapFrames.Get().(*mapFrame)
	f.m = *m
	at := (-address(&f.encoded[0])) & 63
	f.args = [12]uintptr{address(&f.encoded[at]), types[m.ElementBytes], uintptr(m.Rank), uintptr(m.Address),
		address(&f.m.Sizes), address(&f.m.Strides), address(&f.m.Box), address(&f.steps), 0, swizzle, promote128, 0}
	code := int32(l.api.cuTensorMapEncodeTiled.proc.Call(f.args[:]))
	copy(to[:driver.TensorMapBytes], unsafe.Slice(&f.encoded[at], driver.TensorMapBytes))
	mapFrames.Put(f)
	if code != 0 {
		return l.failure(l.api.cuTensorMapEncodeTiled.name, code)
	}
	return nil
}
