//go:build race

package clibtest

// isRace: the race detector makes sync.Pool forget, so that it allocates.
const isRace = true
