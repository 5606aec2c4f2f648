package protocol

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/tensor"
)

// sent is what arrives of an error.
func sent(t *testing.T, err error) *Failure {
	t.Helper()
	f, parseErr := ParseFailure(FailureOf(err).Append(nil))
	if parseErr != nil {
		t.Fatalf("%v: %v", err, parseErr)
	}
	return f
}

// typedErrors are errors as the server has them, and as they arrive.
var typedErrors = []struct {
	code Code
	err  error
	is   []error
}{
	{CodeBadArgument, &tensor.BadArgument{Op: "softmax.forward", Operand: "y", Clause: "softmax.C1", Got: "has shape [4 8]", Want: "[4 16] like x"}, []error{tensor.ErrBadArgument}},
	{CodeBadArgument, &tensor.BadArgument{Op: "gemm.forward", Operand: "C", Got: "overlaps A"}, []error{tensor.ErrBadArgument}},
	{CodeBadArgument, &engine.IndexError{Op: "embedding.forward", Operand: "index", Position: 3, Value: -7, Bound: 100}, []error{tensor.ErrBadArgument}},
	{CodeBadArgument, &engine.IndexError{Op: "crossentropy", Operand: "label", Position: 0, Value: 9, Bound: 1 << 40, Except: " or -1 (ignored)"}, []error{tensor.ErrBadArgument}},
	{CodeBadArgument, &device.ArgumentError{Call: "cpu: alloc", Got: "0 bytes", Want: "at least 1"}, []error{device.ErrBadArgument}},
	{CodeNoDevice, &device.NoDeviceError{Name: "cuda:9", Known: []string{"cpu", "cuda:N"}, Reason: "there is one GPU"}, []error{device.ErrNoDevice}},
	{CodeNoDevice, &device.NoDeviceError{Name: "tpu"}, []error{device.ErrNoDevice}},
	{CodeOutOfMemory, &device.OutOfMemoryError{Device: "cuda:0", Asked: 1 << 50, Free: 12}, []error{device.ErrOutOfMemory}},
	{CodeOutOfMemory, &device.OutOfMemoryError{Device: "cpu"}, []error{device.ErrOutOfMemory}},
	{CodeInadmissible, &engine.InadmissibleError{Lowering: "softmax.forward/cpu.rowwise", Device: "cpu", Test: "tail", Reason: "bits differ"}, []error{engine.ErrInadmissible}},
	{CodeLost, &device.LostError{Device: "cuda:0", Cause: errors.New("cuStreamSynchronize: illegal address")}, []error{device.ErrLost}},
	{CodeDefinition, &def.SyntaxError{Line: 3, Column: 17, Message: `unexpected ")"`}, nil},
	{CodeInternal, &engine.LaunchError{Op: "gelu.forward", Cause: errors.New("kernel ended in a panic")}, nil},
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
	for err, code := range map[error]Code{
		device.ErrBadArgument: CodeBadArgument, device.ErrNoDevice: CodeNoDevice, device.ErrOutOfMemory: CodeOutOfMemory,
		device.ErrLost: CodeLost, engine.ErrInadmissible: CodeInadmissible, context.Canceled: CodeCanceled,
		ErrNoHandle: CodeNoHandle, ErrUnsupported: CodeUnsupported,
	} {
		f := sent(t, fmt.Errorf("somewhere: %w", err))
		if f.Code != code || !errors.Is(f, err) {
			t.Errorf("%v: got code %d, is %v; want %d", err, f.Code, errors.Is(f, err), code)
		}
	}
	if f := sent(t, context.DeadlineExceeded); f.Code != CodeCanceled {
		t.Errorf("a deadline: got code %d, want %d", f.Code, CodeCanceled)
	}
	if f := sent(t, errors.New("surprise")); f.Code != CodeInternal || errors.Unwrap(f) != nil {
		t.Errorf("an unknown error: got code %d and cause %v", f.Code, errors.Unwrap(f))
	}
}

// TestCombinedErrors: which part of an error decides.
func TestCombinedErrors(t *testing.T) {
	lost := &device.LostError{Device: "cuda:0", Cause: errors.New("gone")}
	f := sent(t, &engine.LaunchError{Op: "gelu.forward", Cause: lost})
	launch, isLaunch := errors.AsType[*engine.LaunchError](f)
	if f.Code != CodeLost || !errors.Is(f, device.ErrLost) || !isLaunch || launch.Op != "gelu.forward" {
		t.Errorf("a launch that lost the device: code %d, cause %#v", f.Code, errors.Unwrap(f))
	}
	if f := sent(t, &engine.InadmissibleError{Lowering: "l", Device: "cuda:0", Cause: lost}); f.Code != CodeLost {
		t.Errorf("a self-test that lost the device: got code %d, want %d", f.Code, CodeLost)
	}
	failed := &engine.LaunchError{Op: "gelu.forward", Cause: errors.New("panic")}
	f = sent(t, &engine.InadmissibleError{Lowering: "l", Device: "cpu", Reason: "it panics", Cause: failed})
	if _, isLaunch := errors.AsType[*engine.LaunchError](f); f.Code != CodeInadmissible || isLaunch {
		t.Errorf("a self-test that failed in its launch: code %d, cause %#v: nothing of the caller's was launched", f.Code, errors.Unwrap(f))
	}
}

func TestFailureOfFailureIsItself(t *testing.T) {
	want := &Failure{Code: CodeVersion, Message: "no common version", Details: []Detail{{"lowest", "1"}, {"highest", "1"}}}
	if got := FailureOf(fmt.Errorf("hello: %w", want)); got != want {
		t.Errorf("got %#v", got)
	}
	if got := sent(t, want); got.Detail("lowest") != "1" || got.Detail("none") != "" || got.Code != CodeVersion {
		t.Errorf("got %#v", got)
	}
}

// TestClipped: whatever an error says can be sent, and what can be sent is not changed.
func TestClipped(t *testing.T) {
	for _, c := range []struct{ name, s, want string }{
		{"empty", "", ""},
		{"short", "é€𝄞\x00", "é€𝄞\x00"},
		{"longest", strings.Repeat("x", maxString), strings.Repeat("x", maxString)},
		{"one more", strings.Repeat("x", maxString+1), strings.Repeat("x", maxString)},
		{"cut in two bytes", strings.Repeat("x", maxString-1) + "é", strings.Repeat("x", maxString-1)},
		{"cut in three bytes", strings.Repeat("x", maxString-2) + "€", strings.Repeat("x", maxString-2)},
		{"cut in four bytes", strings.Repeat("x", maxString-3) + "𝄞", strings.Repeat("x", maxString-3)},
		{"invalid", "a\xffb", "a\uFFFDb"},
		{"invalid at the end", "a\xc3", "a\uFFFD"},
		{"surrogate", "a\xed\xa0\x80b", "a\uFFFDb"},
		{"invalid before the cut", "\xff" + strings.Repeat("x", maxString), "\uFFFD" + strings.Repeat("x", maxString-3)},
		{"invalid at the cut", strings.Repeat("x", maxString-1) + "\xff\xff", strings.Repeat("x", maxString-1)},
		{"invalid after the cut", strings.Repeat("x", maxString) + "\xff", strings.Repeat("x", maxString)},
	} {
		if got := clipped(c.s); got != c.want {
			t.Errorf("%s: got %d bytes %.20q…, want %d bytes %.20q…", c.name, len(got), got, len(c.want), c.want)
		}
	}
	r := newRandom(1)
	for range 2000 {
		b := make([]byte, r.IntN(3*maxString))
		for i := range b {
			b[i] = "x\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e\xff"[r.IntN(11)]
		}
		if got := clipped(string(b)); len(got) > maxString || !utf8.ValidString(got) {
			t.Fatalf("%x: got %d bytes, valid UTF-8 is %v", b, len(got), utf8.ValidString(got))
		}
	}
}

// TestAnyErrorCanBeSent: a stack of a panic is long, and a message may be anything.
func TestAnyErrorCanBeSent(t *testing.T) {
	long := strings.Repeat("goroutine \xff€ ", 2000)
	f := sent(t, &tensor.BadArgument{Op: long, Operand: long, Got: long, Want: long, Clause: long, Cause: errors.New(long)})
	if f.Code != CodeBadArgument || len(f.Message) > maxString || !errors.Is(f, tensor.ErrBadArgument) {
		t.Errorf("got code %d and %d bytes", f.Code, len(f.Message))
	}
	m := Welcome{Build: long, Device: long, Description: long}
	if _, err := ParseWelcome(m.Append(nil)); err != nil {
		t.Error(err)
	}
}
