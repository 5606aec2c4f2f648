//go:build !race

package clibtest

const isRace = false
