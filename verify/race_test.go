//go:build race

package verify_test

// isRace says that the race detector is on.
const isRace = true
