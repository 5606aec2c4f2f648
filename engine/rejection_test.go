package engine_test

import (
	"errors"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/reference"
)

// checker is a kernel that checks indices itself, well or badly.
type checker struct {
	d       *def.Definition
	checked func(k *checker, l *engine.Launch, bad error) error
}

func (k *checker) Launch(l *engine.Launch) error {
	return reference.Run(k.d, l.Arrays(), reference.Options{Params: l.Params})
}

func (k *checker) LaunchChecked(l *engine.Launch) error {
	index, bound := l.Operands[0].Array, l.Operands[1].Rows
	for r := range index.Rows {
		if v := index.Int(r, 0); v < 0 || int(v) >= bound {
			return k.checked(k, l, engine.NewIndexError(k.d, 0, r, 1, v, bound, 0))
		}
	}
	return k.checked(k, l, nil)
}

// TestRejection admits no kernel whose check of indices is wrong.
func TestRejection(t *testing.T) {
	d := embedding.ForwardDefinition
	right := func(k *checker, l *engine.Launch, bad error) error {
		if bad != nil {
			return bad
		}
		return k.Launch(l)
	}
	for _, test := range []struct {
		name    string
		checked func(k *checker, l *engine.Launch, bad error) error
		reason  string // none if it is admitted
	}{
		{"right", right, ""},
		{"accepts everything", func(k *checker, l *engine.Launch, _ error) error { return k.Launch(l) }, "it accepts an index out of range: embedding.forward: index["},
		{"does nothing", func(*checker, *engine.Launch, error) error { return nil }, "it accepts an index out of range"},
		{"rejects everything", func(k *checker, _ *engine.Launch, bad error) error {
			if bad == nil {
				bad = engine.NewIndexError(k.d, 0, 0, 1, 0, 1, 0)
			}
			return bad
		}, "a call with all indices in range: "},
		{"writes first", func(k *checker, l *engine.Launch, bad error) error {
			return errors.Join(k.Launch(l), bad)
		}, "it rejects an index out of range, but has written: out["},
		{"names another index", func(k *checker, l *engine.Launch, bad error) error {
			if bad != nil {
				return engine.NewIndexError(k.d, 0, 0, 1, 0, 1, 0)
			}
			return k.Launch(l)
		}, "it rejects an index out of range with "},
		{"computes something else", func(k *checker, l *engine.Launch, bad error) error {
			if bad != nil {
				return bad
			}
			err := k.Launch(l)
			out := l.Operands[2].Array
			out.SetBits(0, 0, out.Bits(0, 0)^1)
			return err
		}, "where indices are checked, out[0,0] is "},
		{"fails", func(k *checker, l *engine.Launch, bad error) error {
			if bad != nil {
				return errors.New("no such instruction")
			}
			return k.Launch(l)
		}, "a call with an index out of range: no such instruction"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := &engine.Lowering{Name: "cpu.checker", Device: "cpu", Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
				return &checker{d, test.checked}, nil
			}}
			_, err := engine.Admit(newQueue(t), d, d.DTypes(num.F16), engine.Using(l))
			if test.reason == "" && err != nil || test.reason != "" && (!errors.Is(err, engine.ErrInadmissible) || !strings.Contains(err.Error(), test.reason)) {
				t.Errorf("got %v, want %q", err, test.reason)
			}
		})
	}
}

// TestRetained: nothing is left of the Launch of a self-test once the kernel has returned,
// so that a kernel that computes with it later fails there, and not in a call.
func TestRetained(t *testing.T) {
	var retained *engine.Launch
	l := lowering("cpu.later", func(d *def.Definition, l *engine.Launch) error {
		retained = l
		return right(d, l)
	})
	d := embedding.ForwardDefinition
	if _, err := engine.Admit(newQueue(t), d, d.DTypes(num.F16), engine.Using(l)); err != nil {
		t.Fatal(err)
	}
	if retained.Operands != nil || retained.Buffers != nil || retained.Device != nil || retained.Context != nil {
		t.Errorf("a kernel can still use the Launch of a self-test: %+v", retained)
	}
}
