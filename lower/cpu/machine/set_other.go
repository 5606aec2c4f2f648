//go:build !amd64 && !arm64

package machine

import "unsafe"

var emptyFunction []byte

// supported returns nothing: no code is generated for this processor.
func supported() []Set { return nil }

func call(code, frame unsafe.Pointer) { panic("machine: no code is generated for this processor") }

func flush([]byte) {}
