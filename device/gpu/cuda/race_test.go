//go:build race

package cuda

// isRace: the race detector makes sync.Pool forget, so that it allocates.
const isRace = true
