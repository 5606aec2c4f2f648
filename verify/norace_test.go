//go:build !race

package verify_test

const isRace = false
