//go:build !race

package table_test

const isRaceEnabled = false
