package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	backends "tokitai/backend/all"
	"tokitai/def"
	"tokitai/device"
	"tokitai/foreign"
)

// cudaWay names a kernel by its source and how it is launched.
var cudaWay = kernelWay{
	flag: "cuda",
	register: func(f *checkFlags, flags *pflag.FlagSet) {
		flags.StringVar(&f.cuda, "cuda", "", "the kernel is in CUDA C++, in this `FILE`")
		flags.StringVar(&f.entry, "entry", "", "with --cuda: the `NAME` of the kernel, with template arguments, as in 'softmax<T>'")
		flags.StringVar(&f.launch, "launch", "", "with --cuda: grid, block and arguments, as `LAUNCH` 'grid=R block=256 args=x,y,C' (docs/sources.md)")
		flags.StringVar(&f.device, "device", "", "with --cuda: the `DEVICE` that runs it, cuda:0 (the default) or sim, which needs no GPU")
	},
	open: func(f *checkFlags, d *def.Definition) (*foreign.Kernel, error) { return f.openSource(d) },
	words: func(f *checkFlags) []string {
		words := []string{"--cuda", f.cuda, "--launch", f.launch}
		if f.entry != "" {
			words = append(words, "--entry", f.entry)
		}
		if f.device != "" {
			words = append(words, "--device", f.device)
		}
		return words
	},
}

// wrongKernel is wrong use, with the error that says why.
type wrongKernel struct {
	usageError
	cause error
}

// Detail returns what the cause adds to its message, such as the words of a compiler.
func (e *wrongKernel) Detail() string {
	if d, ok := errors.AsType[detailed](e.cause); ok {
		return d.Detail()
	}
	return ""
}

func (e *wrongKernel) Unwrap() error { return &e.usageError }

func (f *checkFlags) openSource(d *def.Definition) (*foreign.Kernel, error) {
	if f.launch == "" {
		return nil, wrongUse("--cuda needs --launch, as in --launch 'grid=R block=256 args=x,y,C'")
	}
	o := f.options
	o.Definition, o.Open = d, backends.Open
	if o.Device = f.device; o.Device == "" {
		o.Device = "cuda:0"
	}
	var err error
	if o.DTypes, err = parseDTypes(f.dtypes); err != nil {
		return nil, err
	}
	if _, _, err := backends.Parse(o.Device); err != nil {
		return nil, err
	}
	k, err := foreign.Source("cuda", f.cuda, f.entry, f.launch, o)
	if errors.Is(err, device.ErrNoDevice) && f.device == "" {
		return nil, fmt.Errorf("without a GPU, use --device sim, which needs only g++: %w", err)
	}
	if err != nil {
		return nil, &wrongKernel{usageError{err.Error()}, err}
	}
	return k, nil
}
