//go:build !unix

package main

// onCheckpointSignal does nothing: there is no such signal here.
func onCheckpointSignal(func()) (end func()) { return func() {} }
