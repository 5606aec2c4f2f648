package kernelprocess

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"

	backends "tokitai/backend/all"
	process "tokitai/kernelprocess/child"
	"tokitai/op/all"
)

// processArgument is the first argument of a program that has started itself as a kernel
// process.
const processArgument = "tokitai-process"

// hasMain is set if this program can be its own kernel process.
var hasMain atomic.Bool

// Main makes a program its own kernel process. Call it first in main or in TestMain. If the
// program was started as a kernel process, Main computes for its host and never returns.
func Main() {
	hasMain.Store(true)
	if len(os.Args) < 2 || os.Args[1] != processArgument {
		return
	}
	os.Exit(processMain(os.Args[2:]))
}

func processMain(args []string) int {
	flags := flag.NewFlagSet(processArgument, flag.ContinueOnError)
	o := process.Options{OwnsProcess: true, Operations: all.Operations, Open: backends.Open}
	fd := flags.Int("fd", -1, "")
	isStdio := flags.Bool("stdio", false, "")
	flags.StringVar(&o.Device, "device", "auto", "")
	flags.Int64Var(&o.MaxFrame, "max-frame", 0, "")
	flags.Int64Var(&o.MemoryLimit, "memory-limit", 0, "")
	if err := flags.Parse(args); err != nil || *fd < 0 == !*isStdio {
		fmt.Fprintln(os.Stderr, "kernelprocess: got no --fd or --stdio, want one of them")
		return process.ExitRefused
	}
	var err error
	if *isStdio {
		err = process.Pipes(os.Stdin, os.Stdout, o)
	} else {
		err = process.FD(*fd, o)
	}
	if err == nil {
		return process.ExitEnd
	}
	fmt.Fprintln(os.Stderr, err)
	if exit, ok := errors.AsType[*process.ExitError](err); ok {
		return exit.Code
	}
	return 1
}
