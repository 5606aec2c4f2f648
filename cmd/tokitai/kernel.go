package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	backends "tokitai/backend/all"
	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/kernelprocess/stdio"
)

// kernelCommand is the name of the command in messages.
const kernelCommand = toolName + " kernel"

// kernelFlags are the flags of kernel.
type kernelFlags struct {
	server                bool
	device, policy        string
	maxFrame, memoryLimit int64
}

func newKernel() *cobra.Command {
	var f kernelFlags
	c := &cobra.Command{
		Use:   "kernel NAME",
		Short: "compute one operation over standard input and output",
		Long: `Read a request from standard input, compute it, and write the response to standard
output. NAME is embedding, softmax, gemm-bw, gelu-bwd, adamw, gemm, gelu or
layernorm. A request is numbers separated by white space, a response consists of lines
KEY=value; values are fp16, as bit patterns in decimal. adamw also has a binary
format. docs/stdio.md describes all formats.

With --server, requests come in frames, each with its length in four bytes,
little-endian, and so do the responses, until the input ends. An error is a response
too, ERR CODE REASON, and the server continues.

Exit codes, with one line ERR CODE REASON on standard error
  2       a header that cannot be read, or a bad hyper-parameter
  3 to 9  a bad size, choice or list; the code depends on NAME
  10      the device failed, or is out of memory
  11-16   like 3 to 9, for layernorm only
  20, 21  the input ended within the length of a frame, or within the frame
  30-34   a malformed binary request of adamw
  64      an unknown NAME or flag
  70      an internal error of this program
  130     an interrupt (SIGINT); 143 for SIGTERM`,
		Example: `  tokitai kernel softmax < request.txt
  tokitai kernel softmax --server --device cpu --max-frame 1000000 < frames.bin`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return kernelUsage(wrongUse("no kernel given, want %s", oneOf(stdio.Kernels())))
			case len(args) > 1:
				return kernelUsage(wrongUse("unexpected argument %q", args[1]))
			case !slices.Contains(stdio.Kernels(), args[0]):
				return kernelUsage(unknownName("kernel", args[0], stdio.Kernels()))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return stdio.Kernels(), cobra.ShellCompDirectiveNoFileComp
		},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return kernelUsage(refuseEmptyFlags(c.Flags())) },
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return kernelUsage(flagError(c, err)) })
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.server, "server", false, "serve frames until the input ends")
	deviceFlag(flags, &f.device, "auto", "compute on")
	flags.StringVar(&f.policy, "policy", "fast", "`POLICY` fast, or same for the same bits on every device")
	flags.Int64Var(&f.maxFrame, "max-frame", 0, "refuse frames of more than `BYTES` (default 4294967295, the largest length)")
	flags.Int64Var(&f.memoryLimit, "memory-limit", 0, "refuse requests whose operands take more than `BYTES` (default a sixth of the memory of the machine or the device, whichever is less)")
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions([]string{"fast", "same"}, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("max-frame", cobra.NoFileCompletions)
	c.RegisterFlagCompletionFunc("memory-limit", cobra.NoFileCompletions)
	return c
}

// kernelUsage returns a usage error in the form of a kernel process.
func kernelUsage(err error) error {
	if err == nil {
		return nil
	}
	return &stdio.Error{Code: stdio.CodeUsage, Reason: oneLine(err.Error()), Cause: err}
}

// kernelDevice returns the error of a device that cannot be used.
func kernelDevice(err error) error {
	return &stdio.Error{Code: stdio.CodeDevice, Reason: oneLine(err.Error()), Cause: err}
}

func (f *kernelFlags) run(c *cobra.Command, name string) error {
	policy, err := engine.ParsePolicy(f.policy)
	if err = errors.Join(err, checkDevice(f.device)); err != nil {
		return kernelUsage(err)
	}
	for flag, value := range map[string]int64{"max-frame": f.maxFrame, "memory-limit": f.memoryLimit} {
		if c.Flags().Changed(flag) && value < 1 {
			return kernelUsage(wrongUse("--%s is %d, want at least 1", flag, value))
		}
	}
	dev, err := backends.Open(f.device)
	if err != nil {
		return kernelDevice(err)
	}
	defer closeUnlessInterrupted(c.Context(), dev)
	q, err := engine.NewQueue(dev, engine.WithPolicy(policy), engine.WithLog(warnings(c.ErrOrStderr())))
	if err != nil {
		return kernelDevice(err)
	}
	defer closeUnlessInterrupted(c.Context(), q)
	host, err := cpu.New(cpu.Options{})
	if err != nil {
		return kernelDevice(err)
	}
	memory := host.Describe()
	host.Close()
	if f.memoryLimit == 0 {
		f.memoryLimit = min(stdio.DefaultMemoryLimit(memory), stdio.DefaultMemoryLimit(dev.Describe()))
	}
	if memory.MemoryBytes > 0 { // garbage is collected before it crowds out a large request
		debug.SetMemoryLimit(memory.MemoryBytes / 4 * 3)
	}
	p, err := stdio.NewProcess(name, q, stdio.Options{MemoryLimit: f.memoryLimit, MaxFrame: f.maxFrame})
	if err != nil {
		return err
	}
	if stdin, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(stdin.Fd())) {
		what := fmt.Sprintf("a request, %q and its lists, to the end of the input", stdio.Header(name))
		if f.server {
			what = "requests in frames, each after its length in four bytes, to the end of the input"
		}
		fmt.Fprintf(c.ErrOrStderr(), "tokitai kernel %s: awaiting %s\n", name, what)
	}
	serve := p.RunOnce
	if f.server {
		serve = p.Serve
	}
	err = untilInterrupted(c.Context(), func() error { return serve(c.InOrStdin(), c.OutOrStdout()) })
	if cause, ok := errors.AsType[*signalError](context.Cause(c.Context())); ok {
		return kernelInterrupted(cause.signal)
	}
	return err
}
