package trial_test

import (
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/cpu"
	"tokitai/trial"
)

// TestWatch: a write to an input is noticed, also if it is undone, and one to an output is
// none.
func TestWatch(t *testing.T) {
	near, err := cpu.New(cpu.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	if err := trial.CanWatch(near); err != nil {
		t.Skip(err)
	}
	if trial.CanWatch(&far{}) == nil {
		t.Error("memory that the host cannot address can be watched")
	}
	for _, guards := range []trial.Guards{trial.GuardsOfNaN, trial.HiddenGuards} {
		before := trial.CopyOf(pair, all(t).Arrays(), func(int) trial.Layout { return trial.Layout{Gap: 3, Guards: guards} })
		p, err := before.Place(device.Device(near))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Watch(near, before); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Tensors(); err != nil {
			t.Fatal(err)
		}
		for i := range pair.Operands {
			o := &pair.Operands[i]
			if err := p.Write(before); err != nil {
				t.Fatal(err)
			}
			if after, err := p.Read(); err != nil || after.Fault(before) != "" {
				t.Fatalf("%q: %v", after.Fault(before), err)
			}
			if b, err := p.Watched(); b != nil || err != nil {
				t.Fatalf("nothing was written: %v, %v", b, err)
			}
			_, _, a := p.At(i)
			a.Data[3] ^= 1
			a.Data[3] ^= 1
			b, err := p.Watched()
			if isSeen := b != nil; err != nil || isSeen != (o.IsIn && !o.IsOut) || isSeen && !strings.HasPrefix(b.String(), "it writes to its input "+o.Name+": ") {
				t.Errorf("%v: %s is written and restored: %v, %v", guards, o.Name, b, err)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
