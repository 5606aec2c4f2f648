//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// onCheckpointSignal calls f at every SIGUSR1, until the function that it returns is called.
func onCheckpointSignal(f func()) (end func()) {
	signals, ended := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		for {
			select {
			case <-signals:
				f()
			case <-ended:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}
