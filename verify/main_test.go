package verify_test

import (
	"runtime/debug"
	"testing"

	"tokitai/internal/plaincpu"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // as the program does: cases allocate much, little of which is kept
	plaincpu.Main(m)
}
