package verify_test

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/internal/testlevel"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/softmax"
	"tokitai/trial"
	"tokitai/verify"
)

// beyond returns the element right after an operand's last one, or the guard after its gap.
func beyond(l *engine.Launch, operand int) float32 {
	o := &l.Operands[operand]
	memory := l.Buffers[operand].(device.HostBuffer).Memory()
	whole := lower.Operand{Array: num.Array{Data: memory}}
	at := int(o.Address()-whole.Address()) + o.Span()*o.DType.Size()
	if at+o.DType.Size() > len(memory) {
		return 0
	}
	a := num.Array{DType: o.DType, Rows: 1, Cols: 1, Stride: 1, Data: memory[at:]}
	return a.At(0, 0)
}

// timesZero computes the reference, and adds the memory after an input, times zero, to the outputs,
// like a kernel that loads rows as whole vectors and multiplies the tail by zero.
func timesZero(d *def.Definition, l *engine.Launch) error {
	out := answer(d, l)
	zero := beyond(l, 0) * 0
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			continue
		}
		for r := range out[i].Rows {
			for c := range out[i].Cols {
				if v := out[i].At(r, c); v != 0 {
					out[i].Set(r, c, v+zero)
				}
			}
		}
	}
	store(d, l, out, nil)
	return nil
}

// TestGuardsOfNaN checks that reading beyond an operand is found even if what is read is multiplied
// by zero: in half of the cases it is NaN.
func TestGuardsOfNaN(t *testing.T) {
	t.Parallel()
	for _, dtype := range testlevel.Pick([]num.DType{num.F16}, []num.DType{num.F16, num.BF16, num.F32}) {
		x := target(gemm.ForwardDefinition, dtype, bitwise(timesZero))
		for _, guards := range []string{"byte", "number", "hidden"} {
			expectAccepted(t, x, "normal/M=3,K=5,N=4/guards="+guards)
		}
		expectRejected(t, x, "normal/M=3,K=5,N=4/guards=nan", "C[0,0] differs", evidence.Bits)
		r := run(t, x, verify.Options{Seed: 1})
		if f := r.Report.Failure; r.Report.Verdict != evidence.Rejected || !strings.Contains(f.Case, "/guards=nan") {
			t.Errorf("%s: %s %+v, want rejected by a case that says guards=nan", dtype, r.Report.Verdict, f)
		}
	}
}

// TestShrunkGuards checks that a fault that does not depend on guards is reported without them.
func TestShrunkGuards(t *testing.T) {
	t.Parallel()
	wrong := bitwise(damaged(func(_ *engine.Launch, out []num.Array) { out[1].SetBits(0, 0, out[1].Bits(0, 0)^1) }))
	r := run(t, target(softmax.ForwardDefinition, num.F16, wrong), verify.Options{Seed: 1}).Report
	if r.Failure == nil || r.Failure.Case != "ones/R=1,C=1" {
		t.Errorf("%+v, want ones/R=1,C=1", r.Failure)
	}
}

// TestOneIndexTooMany checks a kernel that scatters one row more than there are indices. If the
// guards were not valid indices, the row would be skipped and the fault hidden.
func TestOneIndexTooMany(t *testing.T) {
	t.Parallel()
	k := bitwise(func(d *def.Definition, l *engine.Launch) error {
		out := answer(d, l)
		memory := l.Buffers[0].(device.HostBuffer).Memory()
		whole := lower.Operand{Array: num.Array{Data: memory}}
		at := int(l.Operands[0].Address()-whole.Address()) + 4*l.Operands[0].Rows
		if at+4 <= len(memory) {
			i := *(*int32)(unsafe.Pointer(&memory[at]))
			if i >= 0 && int(i) < out[2].Rows {
				out[2].Set(int(i), 0, out[2].At(int(i), 0)+1)
			}
		}
		store(d, l, out, nil)
		return nil
	})
	x := target(embedding.BackwardDefinition, num.F32, k)
	expectAccepted(t, x, "normal/Q=7,D=3,V=5/guards=byte")
	expectRejected(t, x, "normal/Q=7,D=3,V=5/guards=nan", "dweight[0,0] differs", evidence.Bits)
}

// TestVerifierIsNotRecognised checks kernels that are right only if they see marks of a
// verification: guards around an operand, the guard byte in them, poison in an output.
func TestVerifierIsNotRecognised(t *testing.T) {
	t.Parallel()
	before := func(l *engine.Launch) []byte { // the memory before the output
		memory := l.Buffers[1].(device.HostBuffer).Memory()
		whole := lower.Operand{Array: num.Array{Data: memory}}
		return memory[:l.Operands[1].Address()-whole.Address()]
	}
	for what, isVerified := range map[string]func(l *engine.Launch) bool{
		"there is memory around it":  func(l *engine.Launch) bool { return len(before(l)) >= trial.GuardBytes },
		"guard bytes lie around it":  func(l *engine.Launch) bool { return slices.Contains(before(l), trial.GuardByte) },
		"the output holds a poison":  func(l *engine.Launch) bool { return slices.Contains(old[:], uint16(l.Operands[1].Bits(0, 0))) },
		"the output holds some NaN":  func(l *engine.Launch) bool { return num.IsNaN(num.F16, l.Operands[1].Bits(0, 0)) },
		"the output holds no number": func(l *engine.Launch) bool { v := l.Operands[1].At(0, 0); return v-v != 0 },
	} {
		cheat := bitwise(damaged(func(l *engine.Launch, out []num.Array) {
			if !isVerified(l) && !(l.Operands[0].Address() == l.Operands[1].Address()) {
				out[1].SetBits(0, 0, 0)
			}
		}))
		if r := run(t, target(softmax.ForwardDefinition, num.F16, cheat), verify.Options{Seed: 1}).Report; r.Verdict != evidence.Rejected {
			t.Errorf("a kernel that is right if %s: %s", what, r.Verdict)
		}
	}
}

// old has the poisons that every verification once used.
var old = [...]uint16{0x7e5a, 0xff2d}
