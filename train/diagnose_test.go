package train

import (
	"math"
	"slices"
	"testing"

	"tokitai/backend/cpu"
)

// TestDiagnose: the squares of all gradients add up to that of the norm, and nothing changes.
func TestDiagnose(t *testing.T) {
	t.Parallel()
	tr := newTrainer(t, cpu.Queue(), tiny().Config)
	before := state(t, tr)
	loss, norm, list, err := tr.Diagnose()
	if err != nil {
		t.Fatal(err)
	}
	if state(t, tr) != before {
		t.Error("a diagnosis has changed the state")
	}
	sum, elements := 0.0, 0
	for _, d := range list {
		sum += d.Gradient * d.Gradient * float64(d.Elements)
		elements += d.Elements
		if d.Bad != 0 || d.Largest < d.Gradient || d.Zeros >= d.Elements {
			t.Errorf("%+v", d)
		}
	}
	// The norm is a tree of binary32, no longer than 32 additions on any path, and a root.
	if math.Abs(math.Sqrt(sum)-float64(norm)) > 40*0x1p-24*float64(norm) || elements != tr.Parameters() {
		t.Errorf("the norm is %v, by the diagnosis %v, of %d elements", norm, math.Sqrt(sum), elements)
	}
	if r := take(t, tr, 1); r.Loss != loss || r.Norm != norm {
		t.Errorf("the step has loss %v and norm %v, the diagnosis %v and %v", r.Loss, r.Norm, loss, norm)
	}
	at := slices.IndexFunc(list, func(d Diagnosis) bool { return d.Name == "model.norm.weight" })
	if list[at].Weight != 1 {
		t.Errorf("weights of 1 have the size %v", list[at].Weight)
	}
}
