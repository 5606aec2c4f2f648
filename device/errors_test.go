package device

import (
	"errors"
	"fmt"
	"testing"
)

func TestErrors(t *testing.T) {
	cause := errors.New("unspecified launch failure")
	sentinels := []error{ErrBadArgument, ErrNoDevice, ErrOutOfMemory, ErrLost, ErrClosed}
	for _, c := range []struct {
		err  error
		is   error
		text string
	}{
		{&ArgumentError{Op: "cpu: alloc", Got: "0 bytes", Want: "at least 1"}, ErrBadArgument,
			"cpu: alloc: got 0 bytes, want at least 1"},
		{&NoDeviceError{Name: "cuda:3", Known: []string{"cpu", "cuda:0"}}, ErrNoDevice,
			`no device "cuda:3"; known: cpu, cuda:0`},
		{&NoDeviceError{Name: "hip:0", Reason: "libamdhip64.so.6 is not installed"}, ErrNoDevice,
			`no device "hip:0": libamdhip64.so.6 is not installed`},
		{&OutOfMemoryError{Device: "cpu", Asked: 100, Free: 7}, ErrOutOfMemory,
			"cpu: out of memory: asked for 100 bytes, 7 are free"},
		{&LostError{Device: "cuda:0", Cause: cause}, ErrLost,
			"cuda:0: device lost: unspecified launch failure"},
		{&LostError{Device: "cuda:0"}, ErrLost, "cuda:0: device lost"},
	} {
		if c.err.Error() != c.text {
			t.Errorf("%T says %q, want %q", c.err, c.err, c.text)
		}
		wrapped := fmt.Errorf("softmax.forward: %w", c.err)
		for _, s := range sentinels {
			if got, want := errors.Is(wrapped, s), s == c.is; got != want {
				t.Errorf("errors.Is(%q, %q) = %v, want %v", wrapped, s, got, want)
			}
		}
	}
	if !errors.Is(&LostError{Device: "cuda:0", Cause: cause}, cause) {
		t.Error("a LostError hides its cause")
	}
}
