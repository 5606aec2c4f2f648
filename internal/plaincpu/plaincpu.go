// Package plaincpu lets tests run with what every processor has, so that the lowerings
// they meet, and the names in what they print, do not depend on the processor.
package plaincpu

import (
	"os"
	"testing"

	"tokitai/lower/cpu/machine"
)

// Set has this process generate no machine code, unless the environment says what to do.
// Call it first of all.
func Set() {
	if _, ok := os.LookupEnv(machine.Variable); !ok {
		os.Setenv(machine.Variable, machine.Plain.String())
	}
}

// Main is a TestMain: Set, and then the tests.
func Main(m *testing.M) {
	Set()
	m.Run()
}
