package bench

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/promise"
)

// vendor is a library that computes with a lowering of ours, and changes the outputs.
type vendor struct {
	engine.Kernel
	change func(call int, y num.Array)
	calls  *int
}

func (v vendor) Launch(l *engine.Launch) error {
	if err := v.Kernel.Launch(l); err != nil {
		return err
	}
	*v.calls++
	if v.change != nil {
		v.change(*v.calls, l.Arrays()[2])
	}
	return nil
}

func (v vendor) Choice(*lower.Call) (engine.Choice, error) {
	return engine.Choice{Algorithm: "algorithm 7", Parts: 1}, nil
}

// besideVendor returns a case with a library beside it, and the number of its calls.
func besideVendor(t *testing.T, operation string, dtype num.DType, change func(call int, y num.Array)) (*Case, *int) {
	t.Helper()
	plan := tiny()
	plan.DTypes = []num.DType{dtype}
	c := plan.Cases(find(t, operation))[0]
	if c.Library != nil {
		t.Fatalf("%v has a library on the CPU: %s", c, c.Library.Name)
	}
	calls, ours := new(int), c.Lowering
	c.Library = &engine.Lowering{
		Name: "cpu.vendor", Device: cpu.Kind, Library: "Vendor", Promise: engine.Promise{Name: promise.Stable},
		Compile: func(dev device.Device, d *def.Definition, dtypes []num.DType, class int) (engine.Kernel, error) {
			k, err := ours.Compile(dev, d, dtypes, class)
			return vendor{k, change, calls}, err
		},
	}
	return c, calls
}

// TestLibraryBeside: a library has as many turns as we have, at least 15, and figures of
// its own; its results may be those of another order.
func TestLibraryBeside(t *testing.T) {
	m := newTestMeter(t, short)
	oneUp := func(_ int, y num.Array) { y.SetBits(0, 0, y.Bits(0, 0)+1) } // within a rounding of the last sums
	for _, operation := range []string{"gemm.forward", "gemm.grad_a", "gemm.grad_b", "gemm.batched.forward"} {
		for _, change := range []func(int, num.Array){nil, oneUp} {
			c, calls := besideVendor(t, operation, num.F32, change)
			r, err := m.Measure(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			l := r.Library
			if l == nil || l.Err != nil || l.Name != "Vendor" || l.Lowering != c.Library || l.Algorithm != "algorithm 7" {
				t.Fatalf("%v: %+v", c, l)
			}
			if r.Repetitions != libraryRepetitions || *calls != libraryRepetitions+3 { // a warm-up, and a check before and after
				t.Errorf("%v: %d repetitions and %d calls of the library, want 15 and 18", c, r.Repetitions, *calls)
			}
			if !(l.Seconds > 0 && 0 < l.Least && l.Least <= l.Ratio && l.Ratio <= l.Most) {
				t.Errorf("%v: %+v", c, l)
			}
		}
	}
}

// TestLibraryFails: what goes wrong with a library is said, and does not keep us from
// being measured.
func TestLibraryFails(t *testing.T) {
	m := newTestMeter(t, short)
	spoil := func(y num.Array) { y.Set(y.Rows-1, 0, y.At(y.Rows-1, 0)+1) }
	missing := errors.New("the library is not installed")
	for _, test := range []struct {
		name   string
		change func(call int, y num.Array)
		err    error
		want   string
	}{
		{"wrong from the start", func(_ int, y num.Array) { spoil(y) }, nil, "wrong before timing: C["},
		{"wrong in the end", func(call int, y num.Array) {
			if call == libraryRepetitions+3 {
				spoil(y)
			}
		}, nil, "wrong after timing: C["},
		{"missing", nil, missing, missing.Error()},
	} {
		c, _ := besideVendor(t, "gemm.forward", num.F32, test.change)
		if test.err != nil {
			c.Library.Compile = func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) { return nil, test.err }
		}
		r, err := m.Measure(t.Context(), c)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if l := r.Library; l == nil || l.Err == nil || !strings.Contains(l.Err.Error(), test.want) || l.Ratio != 0 {
			t.Errorf("%s: %+v, want an error that says %q and no figures", test.name, l, test.want)
		}
		if r.Repetitions < 3 || !(r.TFLOPS() > 0) {
			t.Errorf("%s: %+v, want us to be measured", test.name, r)
		}
	}
}

// TestLibraryOf: the libraries of a backend are those that it offers on demand.
func TestLibraryOf(t *testing.T) {
	forward := find(t, "gemm.forward").Definitions[0]
	if l := libraryOf(cpu.Backend, forward, forward.Formats()[0]); l != nil {
		t.Errorf("the CPU has the library %s", l.Name)
	}
	b := onDemand{cpu.Backend, []*engine.Lowering{{Name: "cpu.other"}, {Name: "cpu.vendor", Library: "Vendor"}}}
	plan := tiny()
	plan.Backend = b
	cases := plan.Cases(find(t, "gemm.forward"))
	if len(cases) == 0 || slices.ContainsFunc(cases, func(c *Case) bool { return c.Library != b.list[1] }) {
		t.Errorf("%v: the library is not beside all of them", cases)
	}
	b.list[1].Factors = []num.DType{num.F16}
	for _, c := range plan.Cases(find(t, "gemm.forward")) {
		if (c.Library != nil) != (c.DType == num.F16) {
			t.Errorf("%v: the library %v, which multiplies f16", c, c.Library)
		}
	}
}

// onDemand is a backend that offers other lowerings on demand.
type onDemand struct {
	engine.Backend
	list []*engine.Lowering
}

func (b onDemand) OnDemand(*def.Definition) []*engine.Lowering { return b.list }
