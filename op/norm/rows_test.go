package norm

import (
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/tensor"
)

// TestRows: the norm by the sums of flat rows, those of parts of tensors too, has the bits of Clip.
func TestRows(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	dev := q.Device()
	zeros := func(n int) *tensor.Tensor {
		x, err := tensor.New(dev, num.F32, n)
		optest.OK(t, err)
		t.Cleanup(func() { x.Close() })
		return x
	}
	view := func(x *tensor.Tensor, lo, hi int) *tensor.Tensor {
		v, err := tensor.At(x.Buffer(), x.Offset()+int64(4*lo), num.F32, hi-lo, hi-lo)
		optest.OK(t, err)
		return v
	}
	g := gen.New("norm rows")
	for _, sizes := range [][]int{{1}, {num.FlatRow}, {3, 3*num.FlatRow + 5, 1, num.FlatRow + 1, 7}} {
		var xs, sums []*tensor.Tensor
		for _, n := range sizes {
			values := make([]float32, n)
			for i := range values {
				values[i] = g.Ordinary()
			}
			x := zeros(n)
			optest.OK(t, x.SetFloat32s(values))
			xs = append(xs, x)
			s := zeros(Rows(n))
			cut := Rows(n) / 2 // two parts, as two processes would have them
			if cut > 0 {
				optest.OK(t, RowSums(q, view(s, 0, cut), view(x, 0, cut*num.FlatRow)))
			}
			optest.OK(t, RowSums(q, view(s, cut, s.Len()), view(x, cut*num.FlatRow, n)))
			sums = append(sums, s)
		}
		for _, limit := range []float64{1e-2, 1e9} {
			want, got := [2]*tensor.Tensor{zeros(1), zeros(1)}, [2]*tensor.Tensor{zeros(1), zeros(1)}
			optest.OK(t, Clip(q, want[0], want[1], limit, xs))
			optest.OK(t, ClipRows(q, got[0], got[1], limit, sums, zeros(len(sums))))
			for i, name := range []string{"norm", "factor"} {
				a, err := got[i].Bytes()
				optest.OK(t, err)
				b, err := want[i].Bytes()
				optest.OK(t, err)
				if string(a) != string(b) {
					t.Errorf("sizes %v, limit %v: %s %x, want %x", sizes, limit, name, a, b)
				}
			}
		}
	}
	x := zeros(num.FlatRow + 1)
	for want, err := range map[string]error{
		"sums has 1 elements, want 2":   RowSums(q, zeros(1), x),
		"totals has 2 elements, want 1": ClipRows(q, zeros(1), zeros(1), 1, []*tensor.Tensor{x}, zeros(2)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
