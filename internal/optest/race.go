//go:build race

package optest

// hasRaceDetector: it writes a shadow of every block, touched or not.
const hasRaceDetector = true
