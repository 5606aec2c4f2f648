//go:build !race

package serve

const isRaceEnabled = false
