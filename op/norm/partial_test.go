package norm

import (
	"sync"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/optest"
	"tokitai/tensor"
)

// A recording has memory of its own for its sums: calls between its runs, on other tensors
// and on other numbers of them, change nothing.
func TestRecordedBetweenCalls(t *testing.T) {
	q := cpu.Queue()
	xs := []*tensor.Tensor{optest.Vector(t, num.F32, 1, 2), optest.Vector(t, num.F32, 3), optest.Vector(t, num.F32, 4, 5)}
	recorded, called := optest.Garbage(t, num.F32, 1), optest.Garbage(t, num.F32, 1)
	optest.OK(t, SquareSum(q, called, xs))
	rec, err := q.Record(func(q *engine.Queue) error { return SquareSum(q, recorded, xs) })
	optest.OK(t, err)
	defer rec.Close()
	for n := range 3 {
		optest.OK(t, SquareSum(q, called, xs[n:]))
		optest.OK(t, rec.Run(q))
		if got := optest.Floats(t, recorded)[0]; got != 55 {
			t.Errorf("run %d gives %v, want 55", n, got)
		}
		if got, want := optest.Floats(t, called)[0], []float32{55, 50, 41}[n]; got != want {
			t.Errorf("call %d gives %v, want %v", n, got, want)
		}
		optest.OK(t, recorded.CopyFrom(called))
	}
}

// Calls from several goroutines do not share memory while they are made.
func TestSquareSumConcurrently(t *testing.T) {
	var group sync.WaitGroup
	for g := range 4 {
		xs := []*tensor.Tensor{optest.Vector(t, num.F32, float32(g)), optest.Vector(t, num.F32, 1), optest.Vector(t, num.F32, 2)}
		total := optest.Garbage(t, num.F32, 1)
		group.Go(func() {
			for range 200 {
				if err := SquareSum(cpu.Queue(), total, xs); err != nil {
					t.Error(err)
					return
				}
				if got := optest.Floats(t, total)[0]; got != float32(g*g+5) {
					t.Errorf("goroutine %d: got %v, want %d", g, got, g*g+5)
					return
				}
			}
		})
	}
	group.Wait()
}

// A mistake in one of several tensors is that of a call on it and total, and the first one is
// reported.
func TestFirstMistake(t *testing.T) {
	good, total := optest.Vector(t, num.F32, 1, 2), optest.Garbage(t, num.F32, 1)
	half := optest.Vector(t, num.F16, 3)
	other, err := tensor.FromInt32(cpu.Queue().Device(), []int32{1}, 1)
	optest.OK(t, err)
	closed := optest.Garbage(t, num.F32, 1)
	closed.Close()
	for _, x := range []struct {
		xs   []*tensor.Tensor
		want string
	}{
		{[]*tensor.Tensor{good, half, nil, total}, "tensor 2: norm.square_sum: x is nil"},
		{[]*tensor.Tensor{good, total, nil}, "tensor 1: norm.square_sum: total overlaps x, want memory of its own"},
		{[]*tensor.Tensor{good, closed, total}, "tensor 1: norm.square_sum: x is closed"},
		{[]*tensor.Tensor{good, half, other, nil}, "tensor 2: norm.square_sum: x is i32, want f16, bf16 or f32"},
	} {
		before := optest.Floats(t, total)
		err := SquareSum(cpu.Queue(), total, x.xs)
		if err == nil || err.Error() != x.want {
			t.Errorf("got %v, want %s", err, x.want)
		}
		if after := optest.Floats(t, total); after[0] != before[0] && after[0] == after[0] {
			t.Errorf("%s: total was written", x.want)
		}
	}
	optest.OK(t, SquareSum(cpu.Queue(), total, []*tensor.Tensor{good, half, good}))
	if got := optest.Floats(t, total)[0]; got != 19 {
		t.Errorf("got %v, want 19", got)
	}
}
