//go:build race

package table_test

// isRaceEnabled: under the race detector a sync.Pool forgets on purpose.
const isRaceEnabled = true
