package trial

import (
	"fmt"

	"tokitai/def"
	"tokitai/device"
	"tokitai/num"
)

// Rows that lie far apart: offsets that 32 bits do not hold, in memory of which hardly any
// is there. Host memory holds the rows and what is near them; on a device they are spread.
// What lies between is neither written before a call nor looked at afterwards.

// nearElements is how much of a gap is near each of its ends.
const nearElements = 64

// spread returns the layout that rows have on a device, and sets the gap that they have on
// the host.
func spread(o *def.Operand, dtype num.DType, rows, cols int, batch []int, l *Layout) *block {
	if l.Far == 0 || rows == 1 || len(o.Dims) < 2 {
		return nil
	}
	apart := *l
	apart.Far = 0
	l.Gap = max(l.Gap, 2*nearElements)
	if l.Guards == HiddenGuards {
		l.Guards = GuardsOfBytes
	}
	n := newBlock(o, dtype, rows, cols, batch, apart).count() // of rows in memory
	if n == 1 {
		return nil // a stack whose matrices are one row
	}
	step := (1<<l.Far/(n-1)/64+1)*64 + apart.Gap
	apart.Gap = max(step-cols, l.Gap)
	b := newBlock(o, dtype, rows, cols, batch, apart)
	b.length -= apart.Gap - l.Gap
	return b
}

// count returns the number of rows in memory.
func (b *block) count() int { return b.length / b.step }

// pieces calls f for each part of an operand's host memory, which begins at a byte, with the
// byte at which it begins on the device.
func (b *block) pieces(f func(from, to int, at int64) error) error {
	size, n := b.array.DType.Size(), b.count()
	gap := b.step - b.array.Cols
	for k := range n {
		row := b.start + k*b.step*size
		from, to := row-(gap-gap/2)*size, row+(b.array.Cols+gap/2)*size
		if k == 0 {
			from = 0
		}
		if k == n-1 {
			to = b.end() + GuardBytes
		}
		at := int64(b.far.start) + int64(k)*int64(b.far.step)*int64(size) - int64(row-from)
		if err := f(from, to, at); err != nil {
			return err
		}
	}
	return nil
}

// allocateFar returns a buffer in which rows lie far apart, and the memory of the system that
// it is in, if it is.
func (b *block) allocateFar(dev device.Device) (device.Buffer, *region, error) {
	bytes, err := b.far.bytes()
	if err != nil {
		return nil, nil, err
	}
	adopter, ok := dev.(Adopter)
	if !ok {
		buffer, err := dev.Alloc(bytes)
		return buffer, nil, err
	}
	r, err := newRegion(false, int(bytes))
	if err != nil {
		return nil, nil, fmt.Errorf("rows that lie far apart: %w", err)
	}
	buffer, err := adopter.Adopt(r.memory[:bytes])
	return buffer, r, err
}

// DeviceBytes returns how much memory of a device the operands take.
func (x *Operands) DeviceBytes() int64 {
	n := int64(0)
	for i, b := range x.blocks {
		switch {
		case x.places[i] != i:
		case b.far != nil:
			n += int64(b.far.end()) + GuardBytes
		default:
			n += int64(len(b.memory))
		}
	}
	return n
}
