package engine_test

import (
	"errors"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/promise"
	"tokitai/truth"
)

// edge makes a lowering that gives the upper end of every set of admissible values, or
// what lies beyond it, and the right answer where there is no set.
func edge(p promise.Name, beyond int64) *engine.Lowering {
	l := lowering("cpu.edge", nil)
	l.Promise.Name = p
	l.Promise.Order = def.Order{Kind: def.Pairwise}
	l.Compile = func(dev device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
		return engine.KernelFunc(func(launch *engine.Launch) error {
			operands := launch.Arrays()
			upper, err := upperEnds(l, d, clones(operands), launch.Params)
			if err != nil {
				return err
			}
			if err := right(d, launch); err != nil {
				return err
			}
			for i := range operands {
				if !d.Operands[i].IsOut {
					continue
				}
				a := operands[i]
				for r := range a.Rows {
					for c := range a.Cols {
						if hi, ok := upper(i, r, c); ok {
							a.SetBits(r, c, num.FromIndex(a.DType, num.Index(a.DType, hi)+beyond))
						}
					}
				}
			}
			return nil
		}), nil
	}
	return l
}

// upperEnds returns the greatest admissible values, where there are any.
func upperEnds(l *engine.Lowering, d *def.Definition, operands []num.Array, params []float64) (func(i, r, c int) (uint32, bool), error) {
	if l.Promise.Named() == promise.Stable {
		set, err := truth.EncloseStable(d, operands, truth.StableOptions{Params: params, Order: l.Promise.Order, FunctionULP: l.Promise.FunctionULP, CountSteps: true})
		return func(i, r, c int) (uint32, bool) {
			_, hi := set.Between(i, r, c, set.MostHeight())
			return hi, set.Known(i, r, c)
		}, err
	}
	set, err := truth.Enclose(d, operands, truth.Options{Params: params, Mode: truth.Rounded, Order: &l.Promise.Order, FunctionULP: l.Promise.FunctionULP})
	return func(i, r, c int) (uint32, bool) {
		_, hi := set.Between(i, r, c)
		return hi, set.At(i, r, c).Known()
	}, err
}

func clones(operands []num.Array) []num.Array {
	var copies []num.Array
	for _, a := range operands {
		copies = append(copies, a.Clone())
	}
	return copies
}

// TestBoundedLowerings are held to what they may give, and to nothing less.
func TestBoundedLowerings(t *testing.T) {
	damage := func(f func(y num.Array)) *engine.Lowering {
		l := lowering("cpu.damaged", func(d *def.Definition, l *engine.Launch) error {
			err := right(d, l)
			f(l.Arrays()[1])
			return err
		})
		l.Promise.Name = promise.Stable
		return l
	}
	each := func(f func(bits uint32) uint32) func(num.Array) {
		return func(y num.Array) {
			for r := range y.Rows {
				for c := range y.Cols {
					y.SetBits(r, c, f(y.Bits(r, c)))
				}
			}
		}
	}
	exact := edge(promise.Bits, 0)
	exact.Promise.Name = promise.Bits
	for _, test := range []struct {
		name, test string
		l          *engine.Lowering
		want       string // in the reason, or "" for admitted
	}{
		{"right", "C=515", damage(func(num.Array) {}), ""},
		{"the last admissible value", "C=515", edge(promise.Ordered, 0), ""},
		{"the last admissible value, among special ones", "special", edge(promise.Ordered, 0), ""},
		{"the last admissible value, in place", "in-place", edge(promise.Ordered, 0), ""},
		{"one beyond", "C=515", edge(promise.Ordered, 1), "y[0,0] is 0x"},
		{"the last admissible value, stable", "C=515", edge(promise.Stable, 0), ""},
		{"the last admissible value, stable, among special ones", "special", edge(promise.Stable, 0), ""},
		{"one beyond, stable", "C=515", edge(promise.Stable, 1), "y[0,0] is 0x"},
		{"bits are promised", "C=515", exact, "y[0,0] is 0x"},
		{"NaN for a number", "C=515", damage(each(func(uint32) uint32 { return 0x7fc00000 })), "y[0,0] is 0x7fc00000, want 0x"},
		{"a number for NaN", "special", damage(each(func(bits uint32) uint32 {
			if num.IsNaN(num.F32, bits) {
				return 0x3f800000
			}
			return bits
		})), "is 0x3f800000, want NaN"},
		{"an infinity for a number", "special", damage(each(func(bits uint32) uint32 {
			if bits == 0 {
				return 0x7f800000
			}
			return bits
		})), "is 0x7f800000, want "},
		{"nothing written", "C=1", damage(func(y num.Array) { each(func(uint32) uint32 { return 0xa5a5a5a5 })(y) }), "y[0,0] is 0xa5a5a5a5, want 0x"},
	} {
		err := private.RunSelfTest(newQueue(t), test.l, softmax.ForwardDefinition, []num.DType{num.F32, num.F32}, test.test)
		wantReason(t, test.name, err, test.want)
	}
}

// TestBoundedContraction admits the ends of the sets of sums.
func TestBoundedContraction(t *testing.T) {
	dtypes := []num.DType{num.F16, num.F16, num.F32}
	for _, name := range private.SelfTests(gemm.ForwardDefinition) {
		wantReason(t, name, private.RunSelfTest(newQueue(t), edge(promise.Ordered, 0), gemm.ForwardDefinition, dtypes, name), "")
		wantReason(t, name, private.RunSelfTest(newQueue(t), edge(promise.Ordered, 1), gemm.ForwardDefinition, dtypes, name), "want 0x")
	}
}

// TestReferenceIsAdmissible: the reference's own results are among those that a bounded
// lowering in any order may give, in the self-tests of every shipped definition.
func TestReferenceIsAdmissible(t *testing.T) {
	for _, p := range []promise.Name{promise.Ordered, promise.Stable} {
		l := lowering("cpu.right", right)
		l.Promise.Name = p
		t.Run(p.String(), func(t *testing.T) { admitsReference(t, l) })
	}
}

func admitsReference(t *testing.T, l *engine.Lowering) {
	q := newQueue(t)
	for i, d := range definitions() {
		// At level smoke, a third of the definitions are held to one of the two promises, in one format, in a fifth of the self-tests.
		if testlevel.Current() == testlevel.Smoke && ((i%2 == 0) != (l.Promise.Name == promise.Stable) || !testlevel.InSample(i/2, 3)) {
			continue
		}
		if d.IsExact() && l.Promise.Name == promise.Stable {
			continue // one result is right
		}
		for _, dtypes := range d.Formats() {
			if testlevel.Current() == testlevel.Smoke && d.Format(dtypes) != num.F16 || l.Takes(d, dtypes) != nil {
				continue
			}
			for k, name := range private.SelfTests(d) {
				if name == "long" || testlevel.Current() == testlevel.Smoke && (i/2+k)%5 != 0 { // long takes longer than all others
					continue
				}
				if err := private.RunSelfTest(q, l, d, dtypes, name); err != nil {
					t.Errorf("%s %v: %v", d.Name, dtypes, err)
				}
			}
		}
	}
}

// TestUnwrittenElements refuses a bounded lowering that leaves an element as it was
// where the element may be anything: a sum of large terms that may overflow on its way.
func TestUnwrittenElements(t *testing.T) {
	left := 0
	lazy := func(replace func(old uint32) uint32) *engine.Lowering {
		l := lowering("cpu.lazy", nil)
		l.Promise.Name = promise.Stable
		l.Compile = func(dev device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
			return engine.KernelFunc(func(launch *engine.Launch) error {
				operands := clones(launch.Arrays())
				exact, err := truth.Enclose(d, operands, truth.Options{})
				if err != nil {
					return err
				}
				rounded, err := truth.Enclose(d, operands, truth.Options{Mode: truth.Rounded, Order: &l.Promise.Order})
				if err != nil {
					return err
				}
				if err := right(d, launch); err != nil {
					return err
				}
				y := launch.Arrays()[2]
				for r := range y.Rows {
					for c := range y.Cols {
						if !rounded.At(2, r, c).Known() && exact.At(2, r, c).Known() {
							y.SetBits(r, c, replace(operands[2].Bits(r, c)))
							left++
						}
					}
				}
				return nil
			}), nil
		}
		return l
	}
	d, dtypes := gemm.ForwardDefinition, []num.DType{num.F32, num.F32, num.F32}
	wantReason(t, "anything", private.RunSelfTest(newQueue(t), lazy(func(uint32) uint32 { return 0x7fc12345 }), d, dtypes, "special"), "")
	if left == 0 {
		t.Fatal("no element may be anything")
	}
	wantReason(t, "nothing", private.RunSelfTest(newQueue(t), lazy(func(old uint32) uint32 { return old }), d, dtypes, "special"), "] is not written")
}

// wantReason wants a lowering inadmissible for a reason that contains a text, or
// admitted if that is "".
func wantReason(t *testing.T, name string, err error, want string) {
	t.Helper()
	var inadmissible *engine.InadmissibleError
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: got %v, want it admitted", name, err)
	case want != "" && (!errors.As(err, &inadmissible) || !strings.Contains(inadmissible.Reason, want)):
		t.Errorf("%s: got %v, want it inadmissible: %s", name, err, want)
	}
}
