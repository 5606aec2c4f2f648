package bench

import (
	"os"
	"testing"

	"tokitai/lower/cpu/machine"
)

// TestMain has tests run with what every processor has: which lowerings there are must not
// depend on the processor.
func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(machine.Variable); !ok {
		os.Setenv(machine.Variable, machine.Plain.String())
	}
	m.Run()
}
