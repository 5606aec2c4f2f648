//go:build !race

package optest

const hasRaceDetector = false
