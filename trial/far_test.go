package trial_test

import (
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/cpu"
	"tokitai/op/gemm"
	"tokitai/trial"
)

// TestFar: rows that lie far apart are where the layout says, come back as they were, and
// what is near them is watched.
func TestFar(t *testing.T) {
	near, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	stack := gemm.BatchedForwardDefinition
	sizes := map[string]int{"R": 3, "C": 5, "M": 2, "K": 3, "N": 4}
	for _, letter := range stack.Sizes() {
		if sizes[letter] == 0 {
			sizes[letter] = 2
		}
	}
	for _, exponent := range []int{12, 24, 31} {
		for _, dev := range []device.Device{near, &far{room: 100}} {
			if exponent > 24 && dev != device.Device(near) {
				continue // it has no room
			}
			layout := func(i int) trial.Layout {
				return trial.Layout{Offset: i, Gap: i, Far: exponent, Guards: trial.Guards(i % 4)}
			}
			for _, before := range []*trial.Operands{
				trial.CopyOf(pair, all(t).Arrays(), layout),
				trial.New(stack, stack.Formats()[0], sizes, layout),
			} {
				d := before.Definition
				before.Poison(0)
				p, err := before.Place(dev)
				if err != nil {
					t.Skip(err)
				}
				tensors, err := p.Tensors()
				if err != nil {
					t.Fatal(err)
				}
				after, err := p.Read()
				if err != nil || after.Fault(before) != "" {
					t.Fatalf("%s, 2^%d apart on %s: %q: %v", d.Name, exponent, dev.Name(), after.Fault(before), err)
				}
				for i := range d.Operands {
					b, offset, a := p.At(i)
					host := before.Array(i)
					if len(d.Operands[i].Dims) < 2 || a.Rows == 1 {
						continue
					}
					if last := a.Index(a.Rows-1, 0); last < 1<<exponent || b.Bytes() > int64(last+10_000)*int64(a.DType.Size())*2 {
						t.Errorf("the last row of %s begins at %d in %d bytes, want 2^%d at least", d.Operands[i].Name, last, b.Bytes(), exponent)
					}
					size := a.DType.Size()
					element := make([]byte, size)
					for r := range a.Rows {
						if err := b.CopyOut(offset+int64(a.Index(r, 1)*size), element); err != nil || string(element) != string(host.Row(r)[size:][:size]) {
							t.Errorf("%s[%d,1] is %x on the device, want %x: %v", d.Operands[i].Name, r, element, host.Row(r)[size:][:size], err)
						}
					}
					at := offset + int64((a.Index(a.Rows-1, 0)-1)*size)
					b.CopyOut(at, element)
					element[0] ^= 1
					b.CopyIn(at, element)
					if after, err = p.Read(); err != nil || !strings.HasPrefix(after.Fault(before), "it writes between the rows of "+d.Operands[i].Name) {
						t.Errorf("%s: the element before the last row has changed: %q: %v", d.Operands[i].Name, after.Fault(before), err)
					}
					element[0] ^= 1
					b.CopyIn(at, element)
				}
				if tensors[0].RowStride() < 1<<exponent/8 {
					t.Errorf("the first operand has stride %d", tensors[0].RowStride())
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
