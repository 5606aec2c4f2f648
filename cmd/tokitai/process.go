package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	backends "tokitai/backend/all"
	"tokitai/kernelprocess/child"
	"tokitai/kernelprocess/judge"
	"tokitai/op/all"
)

func newProcess() *cobra.Command {
	options := child.Options{Operations: all.Operations, Open: backends.Open}
	var fd int
	var stdio bool
	c := &cobra.Command{
		Use:   "process (--fd N | --stdio)",
		Short: "compute operations for another program",
		Long: `Compute operations for the program that started this one, with the protocol of
docs/protocol.md: on an inherited Unix stream socket with descriptor N, or on
standard input and output, without shared memory. It exits when the other end closes.
Other inherited descriptors are closed. Ctrl-C on a terminal interrupts all programs of a
process group: a parent that must survive it starts this program in another group.

Exit codes
  0   the other end closed between messages
  2   wrong use, or a stream that does not begin with a greeting or cannot be parsed
  4   an interrupt (SIGINT, SIGTERM)
  10  no such device, or the device is lost
  21  the other end closed within a message`,
		Example:           `  tokitai process --help`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			hasFD := c.Flags().Changed("fd")
			switch {
			case hasFD == stdio:
				return wrongUse("want one of --fd N and --stdio")
			case hasFD && fd < 3:
				return wrongUse("--fd is %d, want a socket from 3 on", fd)
			case options.MaxFrame < 1:
				return wrongUse("--max-frame is %d, want at least 1 byte", options.MaxFrame)
			case options.MemoryLimit < 0:
				return wrongUse("--memory-limit is %d, want a number of bytes, or 0 for three quarters of the machine's", options.MemoryLimit)
			}
			if err := checkDevice(options.Device); err != nil {
				return err
			}
			build := thisBuild().String()
			options.OwnsProcess, options.Build, options.Judge, options.Log = true, build, judge.Judge{Version: build}, warnings(c.ErrOrStderr())
			return untilInterrupted(c.Context(), func() error {
				if hasFD {
					return exitOf(child.FD(fd, options))
				}
				return exitOf(child.Pipes(os.Stdin, os.Stdout, options))
			})
		},
	}
	c.Flags().IntVar(&fd, "fd", 0, "use the socket with descriptor `N`")
	c.Flags().BoolVar(&stdio, "stdio", false, "use standard input and output")
	deviceFlag(c.Flags(), &options.Device, "auto", "compute on")
	c.Flags().Int64Var(&options.MaxFrame, "max-frame", child.DefaultMaxFrame, "refuse messages of more than `BYTES`")
	c.Flags().Int64Var(&options.MemoryLimit, "memory-limit", 0, "limit tensors, messages and shared memory together to `BYTES`; 0 means three quarters of the machine's memory")
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// exitOf returns the program's error for the end of a kernel process.
func exitOf(err error) error {
	if ended, ok := errors.AsType[*child.ExitError](err); ok {
		return &verdictError{code: ended.Code, err: err}
	}
	return err
}
