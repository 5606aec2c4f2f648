package verify_test

import (
	"os"

	"tokitai/verify"
)

// testLevel is how much is checked: TOKITAI_LEVEL, or smoke.
func testLevel() verify.Level {
	l, err := verify.ParseLevel(os.Getenv("TOKITAI_LEVEL"))
	if err != nil {
		return verify.Smoke
	}
	return l
}
