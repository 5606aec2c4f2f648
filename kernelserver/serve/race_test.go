//go:build race

package serve

const isRaceEnabled = true
