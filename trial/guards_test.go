package trial_test

import (
	"bytes"
	"strings"
	"testing"
	"unsafe"

	"tokitai/device"
	"tokitai/device/cpu"
	"tokitai/num"
	"tokitai/trial"
)

// outsideOf calls f with every element around operand i: before it, behind it, and between
// its rows.
func outsideOf(x *trial.Operands, i int, f func(bits uint32)) {
	memory, offset := x.Memory(i)
	a := x.Array(i)
	size := a.DType.Size()
	isInside := map[int]bool{}
	for r := range a.Rows {
		for c := range a.Cols {
			isInside[offset/size+a.Index(r, c)] = true
		}
	}
	all := num.Array{DType: a.DType, Rows: 1, Cols: len(memory) / size, Stride: len(memory) / size, Data: memory}
	for k := range all.Cols {
		if !isInside[k] {
			f(all.Bits(0, k))
		}
	}
}

// TestGuards holds what lies around operands to what was asked for, in every format.
func TestGuards(t *testing.T) {
	for _, guards := range []trial.Guards{trial.GuardsOfBytes, trial.GuardsOfNaN, trial.GuardsOfNumbers, trial.HiddenGuards} {
		if again, err := trial.ParseGuards(guards.String()); err != nil || again != guards {
			t.Errorf("%v reads back as %v, %v", guards, again, err)
		}
		for _, formats := range pair.Formats() {
			x := trial.New(pair, formats, map[string]int{"R": 3, "C": 5}, func(i int) trial.Layout {
				return trial.Layout{Offset: i, Gap: 2, Guards: guards, Key: uint64(i)}
			})
			x.PoisonDrawn(1, 0)
			for i := range pair.Operands {
				d, seen := x.Array(i).DType, map[uint32]bool{}
				outsideOf(x, i, func(bits uint32) {
					seen[bits] = true
					v := num.Widen(d, bits)
					ok := false
					switch guards {
					case trial.GuardsOfNaN:
						ok = num.IsNaN(d, bits) || d == num.I32 && bits == 0
					case trial.GuardsOfNumbers:
						ok = v-v == 0
					default:
						ok = bits == 0xa5a5a5a5>>(32-8*d.Size())
					}
					if !ok {
						t.Fatalf("%v around %s in %v: 0x%x", guards, pair.Operands[i].Name, d, bits)
					}
				})
				isDrawn := guards == trial.GuardsOfNaN && d != num.I32 || guards == trial.GuardsOfNumbers
				if isDrawn != (len(seen) > 10) {
					t.Errorf("%v around %s in %v: %d patterns", guards, pair.Operands[i].Name, d, len(seen))
				}
			}
		}
	}
	if _, err := trial.ParseGuards("iron"); err == nil {
		t.Error("guards of iron are accepted")
	}
}

// TestHiddenGuards: a kernel sees a buffer that its operand fills, and what it writes
// outside is seen nevertheless.
func TestHiddenGuards(t *testing.T) {
	near, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	layout := func(int) trial.Layout { return trial.Layout{Gap: 2, Guards: trial.HiddenGuards} }
	for _, dev := range []device.Device{near, &far{room: 100}} {
		before := trial.CopyOf(pair, all(t).Arrays(), layout)
		p, err := before.Place(dev)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Tensors(); err != nil {
			t.Fatal(err)
		}
		after, err := p.Read()
		if err != nil || after.Fault(before) != "" {
			t.Fatalf("%s: read back %v: %v", dev.Name(), after.Fault(before), err)
		}
		b, offset, a := p.At(0)
		if dev == device.Device(near) {
			if offset != 0 || b.Bytes() != int64(a.Span()*a.DType.Size()) || len(a.Data) != int(b.Bytes()) {
				t.Errorf("a buffer of %d bytes, the operand of %d at %d", b.Bytes(), a.Span()*a.DType.Size(), offset)
			}
			beyond := unsafe.Slice(&a.Data[0], len(a.Data)+1)
			beyond[len(a.Data)] ^= 1
			if after, err = p.Read(); err != nil || !strings.HasPrefix(after.Fault(before), "it writes between the rows of x") {
				t.Errorf("behind the buffer: %q: %v", after.Fault(before), err)
			}
			beyond[len(a.Data)] ^= 1
		}
		inside := make([]byte, 2)
		if err := b.CopyOut(offset, inside); err != nil || bytes.Equal(inside, []byte{trial.GuardByte, trial.GuardByte}) {
			t.Errorf("%s: the first element is %x: %v", dev.Name(), inside, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDrawPoisons: two different patterns, mostly NaNs, that depend on the key.
func TestDrawPoisons(t *testing.T) {
	for d := num.F16; d <= num.I32; d++ {
		if !d.IsFloat() && d != num.I32 {
			continue
		}
		nans, seen := 0, map[uint64]bool{}
		for key := range uint64(400) {
			p := trial.DrawPoisons(d, key)
			if p[0] == p[1] {
				t.Errorf("%v, key %d: both poisons are 0x%x", d, key, p[0])
			}
			for _, bits := range p {
				if seen[bits] = true; num.IsNaN(d, bits) {
					nans++
				}
			}
		}
		if d != num.I32 && (nans < 500 || nans > 700) || d.Size() > 1 && len(seen) < 300 {
			t.Errorf("%v: %d NaNs of 800, %d patterns", d, nans, len(seen))
		}
	}
}
