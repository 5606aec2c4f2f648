//go:build unix

package kernelprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/kernelprocess/stdio"
)

// serveStdio is a program that serves a kernel over standard input and output, well or badly.
func serveStdio(kernel string) {
	switch kernel {
	case "hang":
		select {}
	case "garbage":
		fmt.Print("garbage, and no frame")
		io.Copy(io.Discard, os.Stdin) // until its host ends it
		return
	case "die":
		fmt.Fprintln(os.Stderr, "no more")
		os.Exit(7)
	}
	p, err := stdio.NewProcess(kernel, cpu.Queue(), stdio.Options{})
	if err == nil {
		err = p.Serve(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func startStdio(t *testing.T, kernel string) *StdioProgram {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := NewStdioProgram(nil, self, "kernel", kernel)
	t.Cleanup(func() { a.Close() })
	return a
}

// halves asks for the softmax of n equal values.
func halves(n int) *stdio.Request {
	return &stdio.Request{Kernel: "softmax", Integers: []int64{0, 1, int64(n)}, Lists: [][]byte{make([]byte, 2*n)}}
}

func checkHalves(a *StdioProgram) error {
	r, err := a.Do(context.Background(), halves(2))
	if err == nil && string(r.Results[0]) != "\x00\x38\x00\x38" {
		err = fmt.Errorf("got %x, want two halves", r.Results[0])
	}
	return err
}

func TestStdioProgram(t *testing.T) {
	a := startStdio(t, "softmax")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if err := checkHalves(a); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	bad := halves(2)
	bad.Integers[0] = 9
	var refused *stdio.Error
	if _, err := a.Do(t.Context(), bad); !errors.As(err, &refused) || refused.Code != 3 {
		t.Errorf("a mode that there is not: %v", err)
	}
	syscall.Kill(a.running.child.PID(), syscall.SIGKILL)
	if err := checkHalves(a); err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("a killed program: %v", err)
	}
	if err := checkHalves(a); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	if err := checkHalves(a); !errors.Is(err, device.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestStdioProgramThatMisbehaves(t *testing.T) {
	for kernel, want := range map[string]string{"garbage": "a length of", "die": "no more"} {
		a := startStdio(t, kernel)
		for range 2 {
			if err := checkHalves(a); !errors.Is(err, ErrDied) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want one with %q", kernel, err, want)
			}
		}
	}
	a := startStdio(t, "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	first, err := a.process()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Do(ctx, halves(2)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a program that hangs: %v", err)
	}
	select {
	case <-first.child.Done():
	case <-time.After(patience):
		t.Error("a program with an abandoned request goes on")
	}
	if _, err := NewStdioProgram(nil, "/nonexistent/program").Do(t.Context(), halves(2)); !errors.Is(err, ErrDied) {
		t.Errorf("no program: %v", err)
	}
	if _, err := a.Do(t.Context(), nil); !errors.Is(err, device.ErrBadArgument) {
		t.Errorf("no request: %v", err)
	}
}
