//go:build race

package child

const isRaceEnabled = true
