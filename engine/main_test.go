package engine_test

import (
	"os"
	"testing"

	"tokitai/backend/gputest"
	"tokitai/internal/plaincpu"
)

func TestMain(m *testing.M) {
	plaincpu.Set()
	os.Exit(gputest.KeepKernels(m.Run))
}
