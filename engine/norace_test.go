//go:build !race

package engine_test

const isRaceEnabled = false
