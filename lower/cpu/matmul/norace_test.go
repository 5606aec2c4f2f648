//go:build !race

package matmul_test

const isRaceEnabled = false
