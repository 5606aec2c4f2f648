//go:build race

package verify_test

// isRace reports whether the race detector is on.
const isRace = true
