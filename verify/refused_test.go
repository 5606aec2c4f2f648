package verify_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/verify"
)

// errBad is the error of kernels that refuse an index.
var errBad = errors.New("index out of range")

// refusing returns a kernel that fails for indices for which isBad returns true, with the error
// that refuse returns, and otherwise computes the answer.
func refusing(isBad func(index int32, bound int) bool, refuse func(d *def.Definition) error) *engine.Lowering {
	return bitwise(func(d *def.Definition, l *engine.Launch) error {
		for i := range d.Operands {
			o, a := &d.Operands[i], l.Arrays()[i]
			for r := 0; o.IsIndex && r < a.Rows; r++ {
				v := a.Int(r, 0)
				if o.Except != "" && v == int32(l.Params[d.Param(o.Except)]) {
					continue
				}
				if isBad(v, l.Size(d, o.Bound)) {
					return refuse(d)
				}
			}
		}
		store(d, l, answer(d, l), nil)
		return nil
	})
}

func isOutside(index int32, bound int) bool { return index < 0 || int(index) >= bound }

// saysIndex returns a refusal that names the index operand, as for a Python function that raises
// IndexError.
func saysIndex(d *def.Definition) error {
	for i := range d.Operands {
		if d.Operands[i].IsIndex {
			return &engine.UnsuitedError{Lowering: "test", Cause: errBad, IsRefused: true, Index: d.Operands[i].Name}
		}
	}
	return nil
}

// raises returns an error that does not mention an index.
func raises(*def.Definition) error { return &engine.RaisedError{Cause: errBad} }

// TestRefusedIndices checks that a kernel may refuse, with any error, a call that has an index
// out of range, and no other call.
func TestRefusedIndices(t *testing.T) {
	t.Parallel()
	isLarge := func(index int32, bound int) bool { return isOutside(index, bound) || index > 6 }
	for _, c := range []struct {
		what    string
		kernel  *engine.Lowering
		verdict evidence.Verdict
		reason  string
	}{
		{"all bad indices", refusing(isOutside, saysIndex), evidence.Accepted, ""},
		{"all bad indices, by an error", refusing(isOutside, raises), evidence.Accepted, ""},
		{"a good index", refusing(isLarge, saysIndex), evidence.Rejected, "it refuses a good call, in which every index is in its table: index out of range"},
		{"a good index, by an error", refusing(isLarge, raises), evidence.Inadmissible, "index out of range"},
	} {
		for _, d := range []*def.Definition{embedding.ForwardDefinition, embedding.BackwardDefinition, crossentropy.Definition} {
			r := run(t, target(d, num.F32, c.kernel), verify.Options{Seed: 1}).Report
			if r.Verdict != c.verdict || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("%s refuses %s: %s %s, want %s %s", d.Name, c.what, r.Verdict, r.Reason, c.verdict, c.reason)
			}
			claim := "calls with an index outside of its table are refused, as the definition says ("
			if has := strings.Contains(strings.Join(r.Evidence, "\n"), claim); has != (c.verdict == evidence.Accepted) {
				t.Errorf("%s refuses %s: evidence %q", d.Name, c.what, r.Evidence)
			}
		}
	}
}

// TestRefusedCaseIsJudged checks that a case whose call is refused is run again with indices in
// range, under a name by which it can be replayed.
func TestRefusedCaseIsJudged(t *testing.T) {
	t.Parallel()
	good := refusing(isOutside, saysIndex)
	isWrong := func(l *engine.Launch) bool { return l.Arrays()[0].Rows == 70 }
	k := bitwise(func(d *def.Definition, l *engine.Launch) error {
		kernel, _ := good.Compile(nil, d, nil, 0)
		if err := kernel.Launch(l); err != nil {
			return err
		}
		if isWrong(l) {
			out := l.Arrays()[2]
			out.SetBits64(0, 0, out.Bits64(0, 0)^1)
		}
		return nil
	})
	const name, inside = "just-outside/Q=70,V=9,D=13", "just-outside/Q=70,V=9,D=13/indices=inside"
	x := target(embedding.ForwardDefinition, num.F32, k)
	expectRejected(t, x, name, "out[0,0] differs", evidence.Bits)
	r := expectRejected(t, x, inside, "out[0,0] differs", evidence.Bits)
	if got := fmt.Sprint(r.Cases); got != "1" {
		t.Errorf("%s cases, want 1", got)
	}
	c, err := verify.ParseCase(x, inside)
	if err != nil {
		t.Fatal(err)
	}
	if got := verify.CaseName(x, c); got != inside {
		t.Errorf("case %s, want %s", got, inside)
	}
	outside := 0
	for _, i := range verify.Indices(x, c, "index") {
		if isOutside(i, 9) {
			outside++
		}
	}
	if outside > 0 {
		t.Errorf("%d indices of %s are outside", outside, inside)
	}
}

// TestReturnedFormats checks kernels that choose the format of the outputs that they return: a
// kernel is judged in the format it returns, which must be one that the definition allows.
func TestReturnedFormats(t *testing.T) {
	t.Parallel()
	returns := func(output string, format num.DType) *engine.Lowering {
		return bitwise(func(d *def.Definition, l *engine.Launch) error {
			for i := range d.Operands {
				if o := &d.Operands[i]; o.Name == output && l.Arrays()[i].DType != format {
					return &engine.OutputError{Operand: o.Name, Format: format.String(), Cause: errors.New("another format")}
				}
			}
			store(d, l, answer(d, l), nil)
			return nil
		})
	}
	for _, c := range []struct {
		d       *def.Definition
		dtype   num.DType
		output  string
		returns num.DType
		verdict evidence.Verdict
	}{
		{gemm.ForwardDefinition, num.F16, "C", num.F16, evidence.Accepted},
		{gemm.ForwardDefinition, num.F16, "C", num.F32, evidence.Accepted},
		{gemm.ForwardDefinition, num.F16, "C", num.BF16, evidence.Rejected},
		{gemm.ForwardDefinition, num.F32, "C", num.F16, evidence.Rejected},
		{embedding.ForwardDefinition, num.F16, "out", num.F32, evidence.Rejected},
		{layernorm.BackwardDefinition, num.F16, "dgamma", num.F32, evidence.Rejected}, // f32 only if gamma is
	} {
		r := run(t, target(c.d, c.dtype, returns(c.output, c.returns)), verify.Options{Seed: 1}).Report
		if r.Verdict != c.verdict {
			t.Errorf("%s of %s in %s: %s (%s), want %s", c.d.Name, c.dtype, c.returns, r.Verdict, r.Reason, c.verdict)
		}
		isSaid := strings.Contains(strings.Join(r.NonClaims, "\n"), "another format")
		if isSaid != (c.verdict == evidence.Accepted) {
			t.Errorf("%s of %s in %s: not claimed %q", c.d.Name, c.dtype, c.returns, r.NonClaims)
		}
	}
}
