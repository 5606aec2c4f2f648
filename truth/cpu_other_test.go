//go:build !unix

package truth_test

import "time"

var begin = time.Now()

// cpuTime returns the time since the process began: the nearest that there is here.
func cpuTime() time.Duration { return time.Since(begin) }
