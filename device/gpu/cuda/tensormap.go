package cuda

import (
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/driver/clib"
)

// boxes is what the arguments of cuTensorMapEncodeTiled point to.
type boxes struct {
	m       driver.TensorMap
	steps   [5]uint32                        // from one element to the next
	encoded [driver.TensorMapBytes + 64]byte // of which the driver writes an aligned part
}

// tensorMaps returns the table's EncodeTensorMap, nil if the driver has none.
func (l *library) tensorMaps() func(to []byte, m *driver.TensorMap) error {
	if l.api.cuTensorMapEncodeTiled.IsMissing {
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
	f := l.Frame()
	b := &f.Structs.boxes
	b.m, b.steps = *m, [5]uint32{1, 1, 1, 1, 1}
	at := (-clib.Address(&b.encoded[0])) & 63
	f.Args = [12]uintptr{clib.Address(&b.encoded[at]), types[m.ElementBytes], uintptr(m.Rank), uintptr(m.Address),
		clib.Address(&b.m.Sizes), clib.Address(&b.m.Strides), clib.Address(&b.m.Box), clib.Address(&b.steps), 0, swizzle, promote128, 0}
	err := l.Call(&l.api.cuTensorMapEncodeTiled, f, 12)
	copy(to[:driver.TensorMapBytes], b.encoded[at:])
	l.Done(f)
	return err
}
