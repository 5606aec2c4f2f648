package bench

import (
	"errors"
	"testing"

	"tokitai/engine"
)

// Operations on several tensors are measured beside one tensor of their size, and one of
// many calls that is wrong is caught.
func TestSeveral(t *testing.T) {
	plan := tiny()
	plan.Tensors = 9
	for _, o := range operations {
		cases := plan.Cases(o)
		if (len(cases) > 0) != (o.Several != nil) {
			t.Errorf("%s has %d cases with several tensors", o.Name, len(cases))
		}
		for _, c := range cases {
			m := newTestMeter(t, short)
			r, err := m.Measure(t.Context(), c)
			if err != nil {
				t.Error(err)
				continue
			}
			if r.Repetitions != 3 || r.Bytes <= 0 || !(r.OneSeconds > 0) || !(r.HostSeconds > 0) || !(r.OfOne() > 0) {
				t.Errorf("%v: %+v", c, r)
			}
		}
		if len(cases) == 0 {
			continue
		}
		c, last := cases[0], only(9) // of the first nine
		if o.Name == "norm.square_sum" {
			last = only(1) // the sum of the sums, which may hide an error in one of them
		}
		c.Lowering = fault{isWrong: last}.lowering()
		_, err := newTestMeter(t, short, engine.WithAdmission(engine.Off)).Measure(t.Context(), c)
		var wrong *WrongError
		if !errors.As(err, &wrong) || wrong.When != "before" {
			t.Errorf("%v: got %v, want a result that is wrong before timing", c, err)
		}
	}
}

// Tensors are not empty, every other one is a row, and they have all rows.
func TestRowsBefore(t *testing.T) {
	for n := 1; n < 20; n++ {
		for rows := n; rows < 60; rows++ {
			for i := range n {
				size := rowsBefore(i+1, n, rows) - rowsBefore(i, n, rows)
				if size < 1 || i%2 == 1 && size != 1 {
					t.Fatalf("tensor %d of %d has %d of %d rows", i, n, size, rows)
				}
			}
			if rowsBefore(0, n, rows) != 0 || rowsBefore(n, n, rows) != rows {
				t.Fatalf("%d tensors have rows %d to %d, want %d", n, rowsBefore(0, n, rows), rowsBefore(n, n, rows), rows)
			}
		}
	}
}
