package compile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/hip/standin"
)

// TestHIPRTCHangs: a compiler that does not end is killed, and the error says so.
func TestHIPRTCHangs(t *testing.T) {
	t.Setenv("TOKITAI_HIPRTC", standin.Plain(t).Path())
	c, err := compile.OpenHIPRTC("", 6)
	if err != nil {
		t.Fatal(err)
	}
	defer compile.SetChildLimit(200 * time.Millisecond)() // it hangs for ever
	t.Setenv("STANDIN_RTC", "hang")
	_, err = c.Compile("gfx1101", compile.Source{Name: "kernel.hip", Text: "text"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "killed after 200ms") {
		t.Errorf("got %v, want that it was killed", err)
	}
}
