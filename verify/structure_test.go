package verify_test

import (
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// poke changes a byte of an operand's buffer, counted from its first element.
func poke(l *engine.Launch, operand, at int) {
	memory := l.Buffers[operand].(device.HostBuffer).Memory()
	whole := lower.Operand{Array: num.Array{Data: memory}}
	memory[int(l.Operands[operand].Address()-whole.Address())+at] ^= 0x40
}

// TestUnwritten leaves out exactly the elements that are NaN in the answer, so that
// comparing values shows nothing.
func TestUnwritten(t *testing.T) {
	t.Parallel()
	for _, dtype := range num.FloatDTypes {
		skipping := bitwise(func(d *def.Definition, l *engine.Launch) error {
			out := answer(d, l)
			store(d, l, out, func(i, r, c int) bool { return num.IsNaN(dtype, out[i].Bits(r, c)) })
			return nil
		})
		r := expectRejected(t, target(softmax.ForwardDefinition, dtype, skipping), "special/R=5,C=33", "is not written", evidence.Structure)
		if r.Mismatches != 0 {
			t.Errorf("%s: got %d mismatches, want 0: a NaN that was there before counts as NaN", dtype, r.Mismatches)
		}
	}
	one := bitwise(func(d *def.Definition, l *engine.Launch) error {
		store(d, l, answer(d, l), func(_, r, c int) bool { return r == 3 && c == 17 })
		return nil
	})
	r := expectRejected(t, target(softmax.ForwardDefinition, num.F16, one), "normal/R=5,C=33", "y[3,17]: it is not written", evidence.Structure, evidence.Bits)
	if r.Failure.Place != "y[3,17]" {
		t.Errorf("place %s, want y[3,17]", r.Failure.Place)
	}
}

// TestWrittenPoison writes the very pattern that was there before the first run, or
// the second: it is a NaN like any other.
func TestWrittenPoison(t *testing.T) {
	t.Parallel()
	for _, dtype := range num.FloatDTypes {
		const name = "special/R=5,C=33"
		for which, bits := range verify.PoisonsOf(target(softmax.ForwardDefinition, dtype, bitwise(honest)), name) {
			if !num.IsNaN(dtype, bits) {
				continue // an ordinary number, which the answers are not
			}
			writing := bitwise(damaged(func(_ *engine.Launch, out []num.Array) {
				for r := range out[1].Rows {
					for c := range out[1].Cols {
						if num.IsNaN(dtype, out[1].Bits(r, c)) {
							out[1].SetBits64(r, c, bits)
						}
					}
				}
			}))
			r := expectAccepted(t, target(softmax.ForwardDefinition, dtype, writing), name)
			if t.Failed() {
				t.Fatalf("%s, poison %d: %s", dtype, which, r.Reason)
			}
		}
	}
}

func TestOutside(t *testing.T) {
	t.Parallel()
	const name = "normal/R=5,C=33/gap=3/guards=byte"
	span := func(l *engine.Launch, i int) int { // of the operand with its gaps, in bytes
		o := &l.Operands[i]
		return o.Rows * o.Stride * o.DType.Size()
	}
	for _, test := range []struct {
		what, text, name string
		at               func(l *engine.Launch)
	}{
		{"the byte before y", "it writes outside y", name, func(l *engine.Launch) { poke(l, 1, -1) }},
		{"the first word before y", "it writes outside y", name, func(l *engine.Launch) { poke(l, 1, -64) }},
		{"the byte after y", "it writes outside y", name, func(l *engine.Launch) { poke(l, 1, span(l, 1)) }},
		{"the last word after y", "it writes outside y", name, func(l *engine.Launch) { poke(l, 1, span(l, 1)+63) }},
		{"before x", "it writes outside x", name, func(l *engine.Launch) { poke(l, 0, -1) }},
		{"after x", "it writes outside x", name, func(l *engine.Launch) { poke(l, 0, span(l, 0)) }},
		{"x itself", "it writes to its input x", name, func(l *engine.Launch) { poke(l, 0, 65) }},
		{"the gap of x", "it writes between the rows of x", name, func(l *engine.Launch) { poke(l, 0, 66) }},
		{"the gap of the first row", "it writes between the rows of y", name, func(l *engine.Launch) { poke(l, 1, 66) }},
		{"the end of the last row", "it writes between the rows of y", name, func(l *engine.Launch) { poke(l, 1, span(l, 1)-1) }},
		{"the gap, in place", "it writes between the rows of x", "normal/R=5,C=33/gap=3/y=x/guards=byte", func(l *engine.Launch) { poke(l, 1, 71) }},
		{"after x, in place", "it writes outside x", "normal/R=5,C=33/gap=3/y=x/guards=byte", func(l *engine.Launch) { poke(l, 1, span(l, 1)) }},
	} {
		t.Run(test.what, func(t *testing.T) {
			k := bitwise(func(d *def.Definition, l *engine.Launch) error {
				store(d, l, answer(d, l), nil)
				test.at(l)
				return nil
			})
			expectRejected(t, target(softmax.ForwardDefinition, num.F16, k), test.name, test.text, evidence.Structure)
		})
	}
}

// TestInputChanged checks that changes of inputs are found for every kind of definition, also of
// other inputs than the one that an output replaces.
func TestInputChanged(t *testing.T) {
	t.Parallel()
	change := func(operand int) *engine.Lowering {
		return bitwise(func(d *def.Definition, l *engine.Launch) error {
			store(d, l, answer(d, l), nil)
			poke(l, operand, 0)
			return nil
		})
	}
	for _, test := range []struct {
		d       *def.Definition
		operand int
		name    string
	}{
		{gemm.ForwardDefinition, 0, "normal/M=3,K=5,N=4"},
		{gemm.ForwardDefinition, 1, "normal/M=3,K=5,N=4"},
		{gemm.ForwardAccumulateDefinition, 1, "normal/M=3,K=5,N=4"},
		{embedding.ForwardDefinition, 0, "normal/Q=7,V=5,D=3"},
		{embedding.ForwardDefinition, 1, "normal/Q=7,V=5,D=3"},
		{embedding.BackwardDefinition, 1, "normal/Q=7,D=3,V=5"},
		{softmax.BackwardDefinition, 1, "normal/R=2,C=9/dx=dy"},
		{softmax.BackwardDefinition, 0, "normal/R=2,C=9/dx=y"},
	} {
		name := test.d.Operands[test.operand].Name
		expectRejected(t, target(test.d, num.F32, change(test.operand)), test.name, "it writes to its input "+name, evidence.Structure)
	}
}

// TestWrongInPlace checks a kernel that reads inputs after it has overwritten them.
func TestWrongInPlace(t *testing.T) {
	t.Parallel()
	k := bitwise(func(d *def.Definition, l *engine.Launch) error {
		out := answer(d, l)
		if &l.Operands[0].Data[0] == &l.Operands[1].Data[0] {
			out[1].SetBits(1, 2, out[1].Bits(1, 2)^1)
		}
		store(d, l, out, nil)
		return nil
	})
	x := target(softmax.ForwardDefinition, num.F16, k)
	expectAccepted(t, x, "normal/R=5,C=33")
	r := expectRejected(t, x, "normal/R=5,C=33/gap=1/y=x", "y[1,2] differs", evidence.Bits)
	if r.Failure.Place != "y[1,2]" {
		t.Errorf("place %s, want y[1,2]", r.Failure.Place)
	}
}
