//go:build !race

package cuda

const isRace = false
