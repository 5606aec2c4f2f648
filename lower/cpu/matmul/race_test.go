//go:build race

package matmul_test

// isRaceEnabled: under the race detector a sync.Pool forgets on purpose.
const isRaceEnabled = true
