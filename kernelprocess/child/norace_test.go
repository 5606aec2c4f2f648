//go:build !race

package child

const isRaceEnabled = false
