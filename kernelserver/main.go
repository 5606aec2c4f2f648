package kernelserver

import "sync/atomic"

const serveArgument = "tokitai-serve"

var hasMain atomic.Bool

func Main() { hasMain.Store(true) }
