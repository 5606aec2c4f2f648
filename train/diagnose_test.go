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
	for i, d := range list {
		gradient, err := tr.levels[0].grads[i].Float32s()
		if err != nil {
			t.Fatal(err)
		}
		if want := inF16(gradient); d.F16 != want {
			t.Errorf("%s: in f16 %+v, want %+v", d.Name, d.F16, want)
		}
	}
	at := slices.IndexFunc(list, func(d Diagnosis) bool { return d.Name == "model.norm.weight" })
	if list[at].Weight != 1 {
		t.Errorf("weights of 1 have the size %v", list[at].Weight)
	}
}

// TestInF16 has values on both sides of where f16 changes: half of the smallest subnormal number, 2^-24, is rounded to even, which
// is 0, the middle between the largest subnormal number and 2^-14 to the latter, and 65520 to infinity.
func TestInF16(t *testing.T) {
	t.Parallel()
	up := func(x float32) float32 { return math.Nextafter32(x, math.MaxFloat32) }
	down := func(x float32) float32 { return math.Nextafter32(x, 0) }
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		values []float32
		want   InF16
	}{
		{[]float32{0, 1, -2, 65504, 0x1p-14, 0x1p-14 - 0x1p-25}, InF16{Error: 0x1p-25 / math.Sqrt(1+4+65504*65504)}},
		{[]float32{0x1p-25, -0x1p-25, 0x1p-149}, InF16{Zeros: 3, Error: 1}},
		{[]float32{up(0x1p-25), 0x1p-24, -down(0x1p-14 - 0x1p-25)}, InF16{Subnormals: 3}},
		{[]float32{down(65520)}, InF16{Error: (float64(down(65520)) - 65504) / float64(down(65520))}},
		{[]float32{65520, -1e30, 3}, InF16{Infinite: 2}},
		{[]float32{inf, -inf, float32(math.NaN())}, InF16{}},
		{[]float32{3 + 0x1p-10}, InF16{Error: 0x1p-10 / (3 + 0x1p-10)}},
	} {
		got := inF16(c.values)
		if c.want.Subnormals == 3 { // whose error the squares of binary64 give
			c.want.Error = got.Error
			if !(got.Error > 0 && got.Error < 0x1p-10) {
				t.Errorf("%v: the error is %v", c.values, got.Error)
			}
		}
		if math.Abs(got.Error-c.want.Error) > 4*0x1p-53*c.want.Error { // four operations of binary64 in which a value is rounded
			t.Errorf("%v: the error is %v, want %v", c.values, got.Error, c.want.Error)
		}
		if got.Error = c.want.Error; got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.values, got, c.want)
		}
	}
}
