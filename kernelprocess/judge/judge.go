// Package judge judges results for the clients of kernel processes, with package verify: a program
// that gives it to its kernel processes can answer JUDGE and TRUTH of docs/protocol.md.
package judge

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/foreign"
	"tokitai/kernelprocess/protocol"
	"tokitai/num"
	"tokitai/op"
	"tokitai/truth"
	"tokitai/verify"
)

// Judge implements child.Judge.
type Judge struct {
	Version string // of the program, for reports
}

// Report returns a report, as JSON, on outputs that some kernel gave for a call of a definition of o.
func (j Judge) Report(ctx context.Context, o *op.Operation, call *engine.Record, outputs engine.Args, m *protocol.Judge) ([]byte, error) {
	d := call.Definition
	terms, err := verify.ParseTerms(m.Promise, m.Profile, m.Declaration)
	if err != nil {
		return nil, refusedTerms(d, err)
	}
	for _, name := range m.Waived {
		if _, err := o.ClauseOf(name); err != nil {
			return nil, refusedTerms(d, err)
		}
	}
	kernel, err := foreign.Given(outputs, foreign.Options{Definition: d})
	if err != nil {
		return nil, err
	}
	given := *call
	if given.Lowering, err = terms.Hold(&verify.Target{Operation: o, Definition: d, Lowering: kernel.Lowering}); err != nil {
		return nil, refusedTerms(d, err)
	}
	p, err := prepare(&given)
	if err != nil {
		return nil, err
	}
	report := &verify.CallReport{Tool: "tokitai", Version: j.Version, Op: o.Name, Operation: o, Waive: m.Waived, IsGiven: true}
	if err := report.Before(&given); err != nil {
		return nil, err
	}
	report.After(&given, p.Launch())
	if report.Verdict() == evidence.Interrupted {
		return nil, &protocol.Failure{Code: protocol.CodeCanceled, Message: "canceled before the outputs were compared"}
	}
	return report.Reports()[0].JSON()
}

// refusedTerms returns the error for what a kernel cannot be held to.
func refusedTerms(d *def.Definition, err error) error {
	return &protocol.Failure{Code: protocol.CodeBadArgument, Message: fmt.Sprintf("%s: %v", d.Name, err), Details: []protocol.Detail{{Name: "op", Value: d.Name}}}
}

// prepare compiles the kernel of a call, outside of the engine's plans.
func prepare(call *engine.Record) (*engine.Prepared, error) {
	trial, err := engine.NewTrial(call.Queue, call.Definition, call.Lowering)
	if err != nil {
		return nil, err
	}
	return trial.Prepare(call.Tensors, call.Params)
}

// Enclose appends the ends of the enclosures of operands of a call to b.
func (Judge) Enclose(ctx context.Context, call *engine.Record, operands []int, b []byte) ([]byte, error) {
	enclose := engine.KernelFunc(func(l *engine.Launch) error {
		exact, err := truth.Enclose(call.Definition, l.Arrays(), truth.Options{Params: l.Params, Mode: truth.Exact, Context: ctx})
		if err != nil {
			return err
		}
		for _, operand := range operands {
			b = appendEnds(b, exact, operand, &l.Operands[operand].Array)
		}
		return nil
	})
	enclosed := *call
	enclosed.Lowering = &engine.Lowering{Name: "check.truth", Device: cpu.Kind, Compile: func(device.Device, *def.Definition, []num.DType, int) (engine.Kernel, error) {
		return enclose, nil
	}}
	p, err := prepare(&enclosed)
	if err != nil {
		return nil, err
	}
	return b, p.Launch()
}

// appendEnds adds the lower ends of an output's enclosures, and then the upper ones. Both are NaN
// where nothing is enclosed.
func appendEnds(b []byte, exact *truth.Result, operand int, a *num.Array) []byte {
	for _, isUpper := range []bool{false, true} {
		for r := range a.Rows {
			for c := range a.Cols {
				lo, hi := endsAt(exact, operand, a, r, c)
				if isUpper {
					lo = hi
				}
				b = binary.LittleEndian.AppendUint64(b, math.Float64bits(lo))
			}
		}
	}
	return b
}

func endsAt(exact *truth.Result, operand int, a *num.Array, r, c int) (lo, hi float64) {
	if a.DType == num.I32 {
		values := exact.Ints(operand, r, c)
		if len(values) == 0 {
			return math.NaN(), math.NaN()
		}
		return float64(values[0]), float64(values[len(values)-1]) // ascending
	}
	x := exact.At(operand, r, c)
	if !x.Known() {
		return math.NaN(), math.NaN()
	}
	return x.Endpoints()
}
