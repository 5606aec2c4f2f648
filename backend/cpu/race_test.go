//go:build race

package cpu_test

// isRaceEnabled: under the race detector a sync.Pool forgets on purpose.
const isRaceEnabled = true
