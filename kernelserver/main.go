package kernelserver

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"

	backends "tokitai/backend/all"
	"tokitai/kernelserver/serve"
	"tokitai/op/all"
)

// serveArgument is the first argument of a program that has started itself as a kernel
// process.
const serveArgument = "tokitai-serve"

// hasMain is set if this program can be its own kernel process.
var hasMain atomic.Bool

// Main makes a program its own kernel process. Call it first in main or in TestMain. If the
// program was started as a kernel process, Main serves and never returns.
func Main() {
	hasMain.Store(true)
	if len(os.Args) < 2 || os.Args[1] != serveArgument {
		return
	}
	os.Exit(serveMain(os.Args[2:]))
}

func serveMain(args []string) int {
	flags := flag.NewFlagSet(serveArgument, flag.ContinueOnError)
	o := serve.Options{OwnsProcess: true, Operations: all.Operations, Open: backends.Open}
	fd := flags.Int("fd", -1, "")
	isStdio := flags.Bool("stdio", false, "")
	flags.StringVar(&o.Device, "device", "auto", "")
	flags.Int64Var(&o.MaxFrame, "max-frame", 0, "")
	flags.Int64Var(&o.MemoryLimit, "memory-limit", 0, "")
	if err := flags.Parse(args); err != nil || *fd < 0 == !*isStdio {
		fmt.Fprintln(os.Stderr, "kernelserver: got no --fd or --stdio, want one of them")
		return serve.ExitRefused
	}
	var err error
	if *isStdio {
		err = serve.Pipes(os.Stdin, os.Stdout, o)
	} else {
		err = serve.FD(*fd, o)
	}
	if err == nil {
		return serve.ExitEnd
	}
	fmt.Fprintln(os.Stderr, err)
	if exit, ok := errors.AsType[*serve.ExitError](err); ok {
		return exit.Code
	}
	return 1
}
