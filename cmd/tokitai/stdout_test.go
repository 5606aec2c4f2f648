package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spf13/cobra"

	"tokitai/kernelprocess/stdio"
)

// lossy fails after some bytes.
func lossy(after int64) *lossyWriter { return &lossyWriter{left: after} }

type lossyWriter struct{ left int64 }

func (w *lossyWriter) Write(data []byte) (int, error) {
	if n := min(w.left, int64(len(data))); n < int64(len(data)) {
		w.left = 0
		return int(n), errors.New("no room")
	}
	w.left -= int64(len(data))
	return len(data), nil
}

// Output that cannot be written is an error of every command, told once.
func TestLostOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir+"/x.safetensors", "x:f32:1x2=0")
	writeFile(t, dir+"/y.safetensors", "y:f32:1x2=0.5")
	lines := []string{
		"explain", "explain softmax.forward", "explain softmax.forward --json", "version", "version --json", "completion bash", "check --emit header",
		"cache list", "help run", "run softmax.forward --in DIR/x.safetensors --out DIR/o.safetensors", "run softmax.forward --in DIR/x.safetensors --out DIR/o.safetensors --json",
		"verify gelu.forward --level smoke --dtype f16",
		"check softmax.forward --in DIR/x.safetensors --got DIR/y.safetensors",
	}
	eachCommand(func(path []string, c *cobra.Command) {
		lines = append(lines, strings.Join(append(path, "--help"), " "))
	})
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			for _, room := range []int64{0, 40} { // nothing, and a part: version and the like fit into that
				var stderr strings.Builder
				w := lossy(room)
				code := execute(t.Context(), strings.Fields(strings.ReplaceAll(line, "DIR", dir)), w, &stderr)
				if w.left > 0 && code == exitOK { // everything was written
					continue
				}
				if code != exitFailed || strings.Count(stderr.String(), "\n") != 1 || !strings.HasSuffix(stderr.String(), ": writing the result: no room\n") {
					t.Errorf("room for %d bytes: exit code %d, %q, want 1 and one line about the lost result", room, code, stderr.String())
				}
			}
		})
	}
}

// Lost output does not hide what is worse.
func TestWithLostOutput(t *testing.T) {
	t.Parallel()
	lost := errors.New("no room")
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{nil, exitFailed, "writing the result: no room"},
		{errors.New("so"), exitFailed, "writing the result: no room"},
		{wrongUse("so"), exitWrongUse, "so"},
		{&verdictError{exitRejected, errors.New("1 of 2 are rejected")}, exitRejected, "1 of 2 are rejected; writing the result: no room"},
		{errInterrupted, exitFailed, "writing the result: no room"},
		{&stdio.Error{Code: 12, Reason: "so"}, 12, "ERR 12 so"},
		{fmt.Errorf("so: %w", context.Canceled), exitFailed, "writing the result: no room"},
	} {
		got := withLostOutput(c.err, lost)
		if exitCode(got) != c.code || got.Error() != c.text {
			t.Errorf("%v: got %d, %v, want %d, %s", c.err, exitCode(got), got, c.code, c.text)
		}
		if got := withLostOutput(c.err, nil); got != c.err {
			t.Errorf("nothing is lost, and %v became %v", c.err, got)
		}
	}
	if code := execute(t.Context(), []string{"version"}, iotest.TruncateWriter(new(strings.Builder), 0), new(strings.Builder)); code != exitOK {
		t.Errorf("exit code %d of output that is discarded", code)
	}
}
