package failure_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/kernelprocess/failure"
	"tokitai/kernelprocess/protocol"
)

// sent returns what arrives of an error.
func sent(t *testing.T, err error) *protocol.Failure {
	t.Helper()
	f, parseErr := protocol.ParseFailure(failure.Of(err).Append(nil))
	if parseErr != nil {
		t.Fatalf("%v: %v", err, parseErr)
	}
	failure.Resolve(f)
	return f
}

// typedErrors are errors as the server has them, and as they arrive.
var typedErrors = []struct {
	code protocol.Code
	err  error
	is   []error
}{
	{protocol.CodeBadArgument, &device.ArgumentError{Op: "softmax.forward", Operand: "y", Clause: "softmax.C1", Got: "has shape [4 8]", Want: "[4 16] like x"}, []error{device.ErrBadArgument}},
	{protocol.CodeBadArgument, &device.ArgumentError{Op: "gemm.forward", Operand: "C", Got: "overlaps A"}, []error{device.ErrBadArgument}},
	{protocol.CodeBadArgument, &engine.IndexError{Op: "embedding.forward", Operand: "index", Position: 3, Value: -7, Bound: 100}, []error{device.ErrBadArgument}},
	{protocol.CodeBadArgument, &engine.IndexError{Op: "combine.forward", Operand: "expert", Position: 15, Columns: 4, Value: 8, Bound: 8}, []error{device.ErrBadArgument}},
	{protocol.CodeBadArgument, &engine.IndexError{Op: "crossentropy", Operand: "label", Position: 0, Value: 9, Bound: 1 << 40, Except: " or -1 (ignored)"}, []error{device.ErrBadArgument}},
	{protocol.CodeBadArgument, &device.ArgumentError{Op: "cpu: alloc", Got: "0 bytes", Want: "at least 1"}, []error{device.ErrBadArgument}},
	{protocol.CodeNoDevice, &device.NoDeviceError{Name: "cuda:9", Known: []string{"cpu", "cuda:N"}, Reason: "there is one GPU"}, []error{device.ErrNoDevice}},
	{protocol.CodeNoDevice, &device.NoDeviceError{Name: "tpu"}, []error{device.ErrNoDevice}},
	{protocol.CodeOutOfMemory, &device.OutOfMemoryError{Device: "cuda:0", Asked: 1 << 50, Free: 12}, []error{device.ErrOutOfMemory}},
	{protocol.CodeOutOfMemory, &device.OutOfMemoryError{Device: "cpu"}, []error{device.ErrOutOfMemory}},
	{protocol.CodeInadmissible, &engine.InadmissibleError{Lowering: "softmax.forward/cpu.rowwise", Device: "cpu", Test: "tail", Reason: "bits differ"}, []error{engine.ErrInadmissible}},
	{protocol.CodeLost, &device.LostError{Device: "cuda:0", Cause: errors.New("cuStreamSynchronize: illegal address")}, []error{device.ErrLost}},
	{protocol.CodeDefinition, &def.SyntaxError{Line: 3, Column: 17, Message: `unexpected ")"`}, nil},
	{protocol.CodeInternal, &engine.LaunchError{Op: "gelu.forward", Cause: errors.New("kernel ended in a panic")}, nil},
}

// TestErrorsKeepTheirTypes: what errors.As and errors.Is find in an error, they find in
// what arrives of it.
func TestErrorsKeepTheirTypes(t *testing.T) {
	for _, c := range typedErrors {
		for name, err := range map[string]error{"as it is": c.err, "wrapped": fmt.Errorf("call 3: %w", c.err)} {
			f := sent(t, err)
			if f.Code != c.code || f.Error() != err.Error() {
				t.Errorf("%s: %v arrives as code %d, %q", name, err, f.Code, f.Error())
			}
			if got := errors.Unwrap(f); !reflect.DeepEqual(got, c.err) {
				t.Errorf("%s: got %#v, want %#v", name, got, c.err)
			}
			for _, target := range c.is {
				if !errors.Is(f, target) {
					t.Errorf("%s: %v arrives and is no %q", name, err, target)
				}
			}
		}
	}
}

// TestSentinelsKeepTheirCodes: errors that are nothing but their kind.
func TestSentinelsKeepTheirCodes(t *testing.T) {
	for err, code := range map[error]protocol.Code{
		device.ErrBadArgument: protocol.CodeBadArgument, device.ErrNoDevice: protocol.CodeNoDevice, device.ErrOutOfMemory: protocol.CodeOutOfMemory,
		device.ErrLost: protocol.CodeLost, engine.ErrInadmissible: protocol.CodeInadmissible, context.Canceled: protocol.CodeCanceled,
		protocol.ErrNoHandle: protocol.CodeNoHandle, protocol.ErrUnsupported: protocol.CodeUnsupported,
	} {
		f := sent(t, fmt.Errorf("somewhere: %w", err))
		if f.Code != code || !errors.Is(f, err) {
			t.Errorf("%v: got code %d, is %v; want %d", err, f.Code, errors.Is(f, err), code)
		}
	}
	if f := sent(t, context.DeadlineExceeded); f.Code != protocol.CodeCanceled {
		t.Errorf("a deadline: got code %d, want %d", f.Code, protocol.CodeCanceled)
	}
	if f := sent(t, errors.New("surprise")); f.Code != protocol.CodeInternal || errors.Unwrap(f) != nil {
		t.Errorf("an unknown error: got code %d and cause %v", f.Code, errors.Unwrap(f))
	}
}

// TestCombinedErrors: which part of an error decides.
func TestCombinedErrors(t *testing.T) {
	lost := &device.LostError{Device: "cuda:0", Cause: errors.New("gone")}
	f := sent(t, &engine.LaunchError{Op: "gelu.forward", Cause: lost})
	launch, isLaunch := errors.AsType[*engine.LaunchError](f)
	if f.Code != protocol.CodeLost || !errors.Is(f, device.ErrLost) || !isLaunch || launch.Op != "gelu.forward" {
		t.Errorf("a launch that lost the device: code %d, cause %#v", f.Code, errors.Unwrap(f))
	}
	if f := sent(t, &engine.InadmissibleError{Lowering: "l", Device: "cuda:0", Cause: lost}); f.Code != protocol.CodeLost {
		t.Errorf("a self-test that lost the device: got code %d, want %d", f.Code, protocol.CodeLost)
	}
	failed := &engine.LaunchError{Op: "gelu.forward", Cause: errors.New("panic")}
	f = sent(t, &engine.InadmissibleError{Lowering: "l", Device: "cpu", Reason: "it panics", Cause: failed})
	if _, isLaunch := errors.AsType[*engine.LaunchError](f); f.Code != protocol.CodeInadmissible || isLaunch {
		t.Errorf("a self-test that failed in its launch: code %d, cause %#v: nothing of the caller's was launched", f.Code, errors.Unwrap(f))
	}
}

func TestOfFailureIsItself(t *testing.T) {
	want := &protocol.Failure{Code: protocol.CodeVersion, Message: "no common version", Details: []protocol.Detail{{Name: "lowest", Value: "1"}, {Name: "highest", Value: "1"}}}
	if got := failure.Of(fmt.Errorf("hello: %w", want)); got != want {
		t.Errorf("got %#v", got)
	}
	if got := sent(t, want); got.Detail("lowest") != "1" || got.Detail("none") != "" || got.Code != protocol.CodeVersion {
		t.Errorf("got %#v", got)
	}
}

// TestAnyErrorCanBeSent: a stack of a panic is long, and a message may be anything.
func TestAnyErrorCanBeSent(t *testing.T) {
	long := strings.Repeat("goroutine \xff€ ", 2000)
	f := sent(t, &device.ArgumentError{Op: long, Operand: long, Got: long, Want: long, Clause: long, Cause: errors.New(long)})
	if f.Code != protocol.CodeBadArgument || !errors.Is(f, device.ErrBadArgument) {
		t.Errorf("got code %d and %d bytes", f.Code, len(f.Message))
	}
}

// FuzzResolve sends what arrived once more: its code must stay.
func FuzzResolve(f *testing.F) {
	for _, c := range typedErrors {
		f.Add(failure.Of(c.err).Append(nil))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		first, err := protocol.ParseFailure(body)
		if err != nil {
			return
		}
		if failure.Resolve(first); first.Cause == nil {
			return
		}
		if second := failure.Of(first.Cause); second.Code != first.Code {
			t.Errorf("code %d arrives as %T, which has code %d", first.Code, first.Cause, second.Code)
		}
	})
}
