//go:build !race

package cpu_test

const isRaceEnabled = false
