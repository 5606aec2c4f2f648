//go:build !unix

package truthtest

import "time"

var begin = time.Now()

// cpuTime returns the time since the process began, since the processor time is not available.
func cpuTime() time.Duration { return time.Since(begin) }
