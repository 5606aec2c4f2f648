package verify

import (
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/adamw"
	"tokitai/op/softmax"
	"tokitai/reference"
	"tokitai/tensor"
)

// changed returns a lowering that computes the reference and then lets spoil change the outputs.
func changed(spoil func(d *def.Definition, operands []num.Array)) *engine.Lowering {
	return &engine.Lowering{
		Name: "cpu.changed", Device: "cpu",
		Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
			return engine.KernelFunc(func(l *engine.Launch) error {
				if err := reference.Run(d, l.Arrays(), reference.Options{Params: l.Params}); err != nil {
					return err
				}
				if spoil != nil {
					spoil(d, l.Arrays())
				}
				return nil
			}), nil
		},
	}
}

// nudge moves the last element of one operand to the next value of its format.
func nudge(operand string) func(d *def.Definition, operands []num.Array) {
	return func(d *def.Definition, operands []num.Array) {
		if i := d.Operand(operand); i >= 0 {
			a := operands[i]
			a.SetBits(a.Rows-1, a.Cols-1, a.Bits(a.Rows-1, a.Cols-1)^1)
		}
	}
}

// using returns options with which a call uses a lowering without its self-tests, which would fail.
func using(l *engine.Lowering) []engine.CallOption {
	return []engine.CallOption{engine.Using(l), engine.WithAdmission(engine.Off)}
}

func filled(t *testing.T, q *engine.Queue, d num.DType, x float32, n int) *tensor.Tensor {
	t.Helper()
	values := make([]float32, n)
	for i := range values {
		values[i] = x * float32(1+i%7)
	}
	out, err := tensor.FromFloat32(q.Device(), d, values, n)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// step makes one checked step of AdamW in a mode, and returns its report.
func step(t *testing.T, mode adamw.Mode, l *engine.Lowering) *evidence.Report {
	t.Helper()
	const n = 100
	q := cpu.Queue()
	weight, copied := num.F16, (*tensor.Tensor)(nil)
	if mode == adamw.Master {
		weight, copied = num.F32, filled(t, q, num.F16, 0, n)
	}
	s := adamw.State{Weight: filled(t, q, weight, 0.5, n), Copy: copied, M: filled(t, q, num.F32, 1e-3, n), V: filled(t, q, num.F32, 1e-4, n)}
	hyper := adamw.DefaultHyper
	hyper.LR = 0.01
	var r CallReport
	r.Tool, r.Version = "test", "0"
	opts := append(using(l), Checked(&r))
	if err := adamw.Step(q, adamw.Update{Mode: mode, State: s, Grad: filled(t, q, num.F16, 0.25, n), Hyper: hyper, T: 3}, opts...); err != nil {
		t.Fatal(err)
	}
	if len(r.Reports()) != 1 || r.Reports()[0].Verdict != r.Verdict() {
		t.Fatalf("%d reports, verdict %s", len(r.Reports()), r.Verdict())
	}
	return r.Reports()[0]
}

// AdamW's report compares what the kernel gave with the reference, never with itself: one
// bit of any output is found, and every output counts.
func TestAncestor01_AdamWIsComparedWithTheReference(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		mode    adamw.Mode
		outputs []string
	}{
		{adamw.InPlace, []string{"weight", "m", "v"}},
		{adamw.Master, []string{"weight", "copy", "m", "v"}},
		{adamw.Stochastic, []string{"weight", "m", "v"}},
	} {
		want := int64(100 * len(row.outputs))
		if r := step(t, row.mode, changed(nil)); r.Verdict != evidence.Accepted || r.Elements != want || r.Mismatches != 0 || r.Check() != nil {
			t.Errorf("%s: %s, %d of %d outputs differ, want 0 of %d; %v", row.mode, r.Verdict, r.Mismatches, r.Elements, want, r.Check())
		}
		for _, output := range row.outputs {
			r := step(t, row.mode, changed(nudge(output)))
			if r.Verdict != evidence.Rejected || r.Elements != want || r.Mismatches != 1 || r.Failure == nil || r.Failure.Place != output+"[0,99]" || r.Failure.Got == r.Failure.Want {
				t.Errorf("%s, a bit of %s: %s, %d of %d outputs differ, %+v", row.mode, output, r.Verdict, r.Mismatches, r.Elements, r.Failure)
			}
			if err := r.Check(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Every way to run AdamW has the same judge: steps of a whole model are reported tensor
// by tensor, none left out.
func TestAncestor02_EveryWayToRunAdamWIsChecked(t *testing.T) {
	t.Parallel()
	q := cpu.Queue()
	sizes := []int{5, 64, 130}
	run := func(l *engine.Lowering) *CallReport {
		t.Helper()
		hyper := adamw.DefaultHyper
		hyper.LR = 0.01
		var parameters []adamw.Parameter
		var grads []*tensor.Tensor
		for _, n := range sizes {
			parameters = append(parameters, adamw.Parameter{Weight: filled(t, q, num.F32, 0.5, n), LRScale: 1})
			grads = append(grads, filled(t, q, num.F32, 0.25, n))
		}
		o, err := adamw.New(q, adamw.Options{Hyper: hyper}, parameters)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		var r CallReport
		r.Tool, r.Version = "test", "0"
		if err := o.StepAll(q, grads, append(using(l), Checked(&r))...); err != nil {
			t.Fatal(err)
		}
		return &r
	}
	good := run(changed(nil))
	if good.Verdict() != evidence.Accepted || len(good.Reports()) != len(sizes) {
		t.Fatalf("%s in %d reports", good.Verdict(), len(good.Reports()))
	}
	for i, r := range good.Reports() {
		if want := int64(3 * sizes[i]); r.Elements != want {
			t.Errorf("tensor %d: %d outputs, want %d", i, r.Elements, want)
		}
	}
	lastWrong := run(changed(func(d *def.Definition, operands []num.Array) {
		if a := operands[d.Operand("v")]; a.Rows*a.Cols == sizes[2] {
			nudge("v")(d, operands)
		}
	}))
	if lastWrong.Verdict() != evidence.Rejected {
		t.Errorf("a step with one wrong tensor is %s", lastWrong.Verdict())
	}
	for i, r := range lastWrong.Reports() {
		if want := i == len(sizes)-1; (r.Verdict == evidence.Rejected) != want {
			t.Errorf("tensor %d is %s", i, r.Verdict)
		}
	}
}

// A gradient of zeros for a softmax over 32,768 columns is within 1e-2 of the right one,
// and rejected.
func TestAncestor06_ZeroSoftmaxGradientIsRejected(t *testing.T) {
	t.Parallel()
	const columns, tolerance = 32768, 1e-2
	zeros := changed(func(d *def.Definition, operands []num.Array) {
		a := operands[d.Operand("dx")]
		for r := range a.Rows {
			for c := range a.Cols {
				a.SetBits(r, c, 0)
			}
		}
	})
	q := cpu.Queue()
	place := func(x float32) *tensor.Tensor {
		values := make([]float32, columns)
		for i := range values {
			values[i] = x * float32(1+i%3)
		}
		out, err := tensor.FromFloat32(q.Device(), num.F16, values, 1, columns)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	dy, y, dx := place(1), place(1.0/columns/2), place(0)
	if err := softmax.Backward(q, dx, dy, y); err != nil {
		t.Fatal(err)
	}
	right, err := dx.Float32s()
	if err != nil {
		t.Fatal(err)
	}
	isZero := true
	for _, x := range right {
		if x < -tolerance || x > tolerance {
			t.Fatalf("zero is not within %v of %v: the case shows nothing", tolerance, x)
		}
		isZero = isZero && x == 0
	}
	if isZero {
		t.Fatal("the right gradient is zero: the case shows nothing")
	}

	var checked CallReport
	checked.Tool, checked.Version = "test", "0"
	if err := softmax.Backward(q, dx, dy, y, append(using(zeros), Checked(&checked))...); err != nil {
		t.Fatal(err)
	}
	r := checked.Reports()[0]
	if checked.Verdict() != evidence.Rejected || r.Elements != columns || r.Mismatches < columns/2 {
		t.Errorf("a checked call says %s: %d of %d outputs differ", r.Verdict, r.Mismatches, r.Elements)
	}

	for _, o := range softmax.Operations {
		for _, target := range Targets([]*op.Operation{o}, cpu.Backend) {
			if o.Name != "softmax.backward" || target.Lowering.Name != "cpu.rowwise" {
				continue
			}
			target.Lowering = zeros
			result, err := Run(t.Context(), target, Options{Level: Smoke, Seed: 1, Tool: "test", Version: "0"})
			if err != nil {
				t.Fatal(err)
			}
			if r := result.Report; r.Verdict != evidence.Rejected || r.Mismatches == 0 || r.Failure == nil || r.Check() != nil {
				t.Errorf("%s: %s, %d of %d outputs differ, %v", target.DType, r.Verdict, r.Mismatches, r.Elements, r.Check())
			}
		}
	}
}
