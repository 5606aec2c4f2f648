package trial_test

import (
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/cpu"
	"tokitai/num"
	"tokitai/trial"
)

// TestShare: inputs in one memory, all of it or rows apart, on the host and on devices.
func TestShare(t *testing.T) {
	near, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	x, z := operand(t, "x"), operand(t, "z")
	for _, guards := range []trial.Guards{trial.GuardsOfNaN, trial.HiddenGuards} {
		for shift := range 3 {
			plain := trial.CopyOf(pair, all(t).Arrays(), func(i int) trial.Layout { return trial.Layout{Gap: i, Offset: i, Guards: guards} })
			one := plain.Clone()
			if one.Share(x, x, 0) || one.Share(x, operand(t, "y"), 0) || one.Share(x, operand(t, "g"), 0) || one.Share(x, z, 3) || one.Share(x, z, -1) {
				t.Error("operands share memory that cannot")
			}
			if !one.Share(x, z, shift) {
				t.Fatalf("%v: z does not share the memory of x, %d rows on", guards, shift)
			}
			if one.Share(z, x, 0) {
				t.Error("z shares twice")
			}
			for r := range 3 {
				for c := range 5 {
					want := operandOf(plain, z).Bits(r, c)
					if r+shift < 3 {
						want = operandOf(plain, x).Bits(r+shift, c)
					}
					if got := operandOf(one, z).Bits(r, c); got != want || operandOf(one, x).Bits(r, c) != operandOf(plain, x).Bits(r, c) {
						t.Errorf("%v, %d rows on: z[%d,%d] is 0x%x, want 0x%x", guards, shift, r, c, got, want)
					}
				}
			}
			for _, dev := range []device.Device{near, &far{room: 100}} {
				p, err := one.Place(dev)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.Tensors(); err != nil {
					t.Error(err)
				}
				after, err := p.Read()
				if err != nil || after.Fault(one) != "" {
					t.Errorf("%s, %d rows on: %q: %v", dev.Name(), shift, after.Fault(one), err)
				}
				b, offset, a := p.At(z)
				if err := b.CopyIn(offset+int64(a.Index(2, 4)*2), []byte{1, 2}); err != nil {
					t.Error(err)
				}
				after, err = p.Read()
				if text := after.Fault(one); err != nil || !strings.HasPrefix(text, "it writes to its input ") {
					t.Errorf("%s, %d rows on: the last element of z has changed: %q: %v", dev.Name(), shift, text, err)
				}
				p.Close()
			}
		}
	}
	in := all(t)
	if in.Share(x, z, 0); !in.Replace(operand(t, "y"), x) {
		t.Error("y does not take the place of two inputs in one memory")
	}
	was := in.Clone()
	operandOf(in, operand(t, "y")).SetBits(1, 1, 0x1234)
	if b := in.Breach(was); b != nil || operandOf(in, z).Bits(1, 1) != 0x1234 {
		t.Errorf("y is written in the place of both: %v", b)
	}
	other := trial.New(pair, formats(t, num.F16, num.F32), map[string]int{"R": 2, "C": 2}, nil)
	if d := other.DTypes(); d[x] != d[z] && other.Share(x, z, 0) {
		t.Error("inputs of two formats share memory")
	}
}

// TestBeside: several callers with the same inputs and outputs of their own.
func TestBeside(t *testing.T) {
	near, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	for _, dev := range []device.Device{near, &far{room: 100}} {
		before := all(t)
		before.Replace(operand(t, "y"), operand(t, "x"))
		p, err := before.Place(dev)
		if err != nil {
			t.Fatal(err)
		}
		q, err := p.Beside(dev)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Write(before); err != nil {
			t.Fatal(err)
		}
		for i := range pair.Operands {
			a, _, _ := p.At(i)
			b, _, _ := q.At(i)
			name := pair.Operands[i].Name
			if isOne := a == b; isOne != (name == "z" || name == "g") {
				t.Errorf("%s: operand %s: one memory: %t", dev.Name(), name, isOne)
			}
		}
		if after, err := q.Read(); err != nil || after.Fault(before) != "" {
			t.Errorf("%s: %q: %v", dev.Name(), after.Fault(before), err)
		}
		if q.Close() != nil || p.Close() != nil {
			t.Error("closing failed")
		}
	}
}
