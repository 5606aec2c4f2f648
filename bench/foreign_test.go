package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/reference"
	"tokitai/trial"
	"tokitai/verify"
)

// kernelOf makes a lowering of a function that is told the number of its call.
func kernelOf(run func(call int, d *def.Definition, l *engine.Launch) error) *engine.Lowering {
	calls := 0
	return &engine.Lowering{Name: "test.kernel", Device: "cpu", Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
		return engine.KernelFunc(func(l *engine.Launch) error {
			calls++
			return run(calls, d, l)
		}), nil
	}}
}

func compute(_ int, d *def.Definition, l *engine.Launch) error {
	return reference.Run(d, l.Arrays(), reference.Options{Params: l.Params})
}

// foreignOf makes a small measurement of a kernel that promises bits.
func foreignOf(d *def.Definition, l *engine.Lowering, sizes map[string]int) *Foreign {
	t := &verify.Target{Definition: d, Lowering: l, DType: num.F32}
	data := t.Usual()
	data.Sizes = sizes
	return &Foreign{
		Definition: d, Data: data, DTypes: t.Formats(), Lowering: l, Seed: 1,
		Admits: func(ctx context.Context, before, after []num.Array, params []float64) (int64, string, error) {
			return t.Admits(ctx, before, after, params, nil)
		},
	}
}

func smallMeter(t *testing.T) *Meter {
	t.Helper()
	m, err := NewMeter(cpu.Queue(), Options{CopyBytes: 1 << 16, Repetitions: 3, Time: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// TestForeignIsMeasured: every repetition has inputs of its own, is judged, and has its times.
func TestForeignIsMeasured(t *testing.T) {
	m := smallMeter(t)
	seen := map[string]bool{}
	l := kernelOf(func(n int, d *def.Definition, l *engine.Launch) error {
		seen[string(l.Arrays()[0].Data)] = true
		return compute(n, d, l)
	})
	r, err := m.MeasureForeign(context.Background(), foreignOf(softmax.ForwardDefinition, l, map[string]int{"R": 40, "C": 33}))
	if err != nil || r.Wrong != "" {
		t.Fatal(err, r)
	}
	if r.Repetitions < leastForeign || r.Calls != r.Repetitions+2 || len(seen) != r.Calls || r.Judged == 0 {
		t.Errorf("%d repetitions, %d calls, %d outputs judged, %d different inputs; want every call judged, on inputs of its own", r.Repetitions, r.Calls, r.Judged, len(seen))
	}
	if r.Bytes != 2*40*33*4 || !strings.HasPrefix(r.OwnID, "softmax.forward/cpu.") || r.Shape != "R=40,C=33" {
		t.Errorf("%d bytes, own kernel %q, shape %q", r.Bytes, r.OwnID, r.Shape)
	}
	for name, x := range map[string]Spread{"seconds": r.Seconds, "own": r.Own, "copy": r.Copy, "share of copy": r.OfCopy, "share of own": r.OfOwn} {
		if x.Least <= 0 || x.Median < x.Least || x.Most < x.Median {
			t.Errorf("%s: %+v, want figures above 0 in order", name, x)
		}
	}
	if r.Inside != (Spread{}) || r.Doubt != "" {
		t.Errorf("inside %+v, doubt %q of a kernel that says nothing about its time", r.Inside, r.Doubt)
	}
}

// TestForeignSums: definitions that cannot be judged in part are judged as a whole.
func TestForeignSums(t *testing.T) {
	r, err := smallMeter(t).MeasureForeign(context.Background(), foreignOf(layernorm.BackwardDefinition, kernelOf(compute), map[string]int{"R": 5, "C": 9}))
	if err != nil || r.Wrong != "" || r.Judged != int64(r.Calls)*(5*9+9+9) {
		t.Errorf("%+v %v", r, err)
	}
}

// TestForeignCheats: what makes a kernel look fast voids its times.
func TestForeignCheats(t *testing.T) {
	memory := map[string][]byte{}
	output := func(l *engine.Launch) []byte { return l.Arrays()[1].Data }
	remember := func(key func(l *engine.Launch) string) func(int, *def.Definition, *engine.Launch) error {
		clear(memory)
		return func(n int, d *def.Definition, l *engine.Launch) error {
			if known, ok := memory[key(l)]; ok {
				copy(output(l), known)
				return nil
			}
			err := compute(n, d, l)
			memory[key(l)] = append([]byte(nil), output(l)...)
			return err
		}
	}
	for _, test := range []struct {
		what string
		run  func(call int, d *def.Definition, l *engine.Launch) error
		want string
	}{
		{"wrong from the first call on", func(n int, d *def.Definition, l *engine.Launch) error {
			err := compute(n, d, l)
			l.Arrays()[1].SetBits(0, 0, 0)
			return err
		}, "wrong before it was timed, call 1: y[0,0] is 0x00000000"},
		{"remembers results by address", remember(func(l *engine.Launch) string { return fmt.Sprintf("%p", &l.Arrays()[0].Data[0]) }), "wrong in a repetition that was timed"},
		{"remembers results by shape", remember(func(l *engine.Launch) string { return fmt.Sprint(l.Arrays()[0].Rows) }), "wrong in a repetition that was timed"},
		{"skips work once it is warm", func(n int, d *def.Definition, l *engine.Launch) error {
			if n > 6 {
				return nil
			}
			return compute(n, d, l)
		}, "wrong in a repetition that was timed, call 7"},
		{"one element of 66,000 is wrong", func(n int, d *def.Definition, l *engine.Launch) error {
			err := compute(n, d, l)
			y := l.Arrays()[1]
			y.Set(1234, 20, y.At(1234, 20)*2)
			return err
		}, "wrong before it was timed, call 1: y["},
		{"changes its input", func(n int, d *def.Definition, l *engine.Launch) error {
			err := compute(n, d, l)
			l.Arrays()[0].Set(3, 3, 9)
			return err
		}, "it writes to its input x"},
		{"leaves one row out", func(n int, d *def.Definition, l *engine.Launch) error {
			y := l.Arrays()[1]
			kept := append([]byte(nil), y.Row(77)...)
			err := compute(n, d, l)
			copy(y.Row(77), kept)
			return err
		}, "among rows"},
	} {
		t.Run(strings.ReplaceAll(test.what, " ", "_"), func(t *testing.T) {
			r, err := smallMeter(t).MeasureForeign(context.Background(), foreignOf(softmax.ForwardDefinition, kernelOf(test.run), map[string]int{"R": 2000, "C": 33}))
			if err != nil || !strings.Contains(r.Wrong, test.want) || r.Seconds != (Spread{}) || r.Repetitions != 0 {
				t.Errorf("%v, wrong %q, %d repetitions; want %q, and no times", err, r.Wrong, r.Repetitions, test.want)
			}
		})
	}
}

// TestForeignWritesLater: an output that changes after the call has returned is wrong, even if
// it is right then.
func TestForeignWritesLater(t *testing.T) {
	f := foreignOf(softmax.ForwardDefinition, kernelOf(compute), map[string]int{"R": 4, "C": 4})
	r := &foreignRun{Foreign: f, meter: smallMeter(t), result: &ForeignResult{}}
	before := trial.New(f.Definition, f.DTypes, f.Data.Sizes, nil)
	after := before.Clone()
	if err := reference.Run(f.Definition, after.Arrays(), reference.Options{}); err != nil {
		t.Fatal(err)
	}
	later := after.Clone()
	if wrong, err := r.judge(context.Background(), before, after, later, nil); wrong != "" || err != nil {
		t.Errorf("right outputs: %q, %v", wrong, err)
	}
	a := after.Array(1)
	a.SetBits(2, 2, 0)
	if wrong, err := r.judge(context.Background(), before, after, later, nil); !strings.Contains(wrong, "changed after the call had returned") || err != nil {
		t.Errorf("outputs that become right later: %q, %v", wrong, err)
	}
}

// timedKernel says how long it took.
type timedKernel struct {
	engine.Kernel
	says time.Duration
}

func (k *timedKernel) LastTime() time.Duration { return k.says }

// TestForeignClock: what a kernel says about its own time stands beside what is measured, and is
// doubted if it cannot be.
func TestForeignClock(t *testing.T) {
	for _, test := range []struct {
		says      time.Duration
		isDoubted bool
	}{{time.Nanosecond, false}, {time.Hour, true}} {
		l := kernelOf(compute)
		plain := l.Compile
		l.Compile = func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
			k, err := plain(dev, d, dtypes, class)
			return &timedKernel{k, test.says}, err
		}
		r, err := smallMeter(t).MeasureForeign(context.Background(), foreignOf(softmax.ForwardDefinition, l, map[string]int{"R": 4, "C": 4}))
		if err != nil || r.Inside.Median != test.says.Seconds() || r.Seconds.Median <= 0 || (r.Doubt != "") != test.isDoubted {
			t.Errorf("says %v: %v, inside %+v, outside %+v, doubt %q", test.says, err, r.Inside, r.Seconds, r.Doubt)
		}
	}
}

// TestForeignErrors: a kernel that fails is not timed, and an interrupt ends the measurement.
func TestForeignErrors(t *testing.T) {
	broken := errors.New("out of order")
	f := foreignOf(softmax.ForwardDefinition, kernelOf(func(int, *def.Definition, *engine.Launch) error { return broken }), map[string]int{"R": 4, "C": 4})
	if _, err := smallMeter(t).MeasureForeign(context.Background(), f); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f = foreignOf(softmax.ForwardDefinition, kernelOf(func(n int, d *def.Definition, l *engine.Launch) error { cancel(); return compute(n, d, l) }), map[string]int{"R": 4, "C": 4})
	if _, err := smallMeter(t).MeasureForeign(ctx, f); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
