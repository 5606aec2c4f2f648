//go:build !linux

package soak

// allowedCores lists workers: no core can be chosen here.
func allowedCores() (cores []int, isPlaced bool) { return workers(), false }

func pin(int) error { return nil }

// watchProcessor has nothing to sample.
func watchProcessor() *monitor {
	return &monitor{stop: make(chan struct{}), fill: func(h *Health) { h.NotTold = "no program may ask this system without rights" }}
}
