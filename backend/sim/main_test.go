package sim

import (
	"os"
	"testing"

	"tokitai/device/gpu/gputest"
)

func TestMain(m *testing.M) { os.Exit(gputest.KeepKernels(m.Run)) }
