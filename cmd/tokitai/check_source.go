package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	backends "tokitai/backend/all"
	"tokitai/def"
	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/foreign"
)

// Ways to name a kernel by its source and how it is launched.
var (
	cudaWay = sourceWay("cuda", "CUDA C++", func(f *checkFlags) *string { return &f.cuda })
	hipWay  = sourceWay("hip", "HIP", func(f *checkFlags) *string { return &f.hip })
)

// sourceWay returns the way of a language, whose files a flag names.
func sourceWay(language, title string, file func(f *checkFlags) *string) *kernelWay {
	return &kernelWay{
		flag: language,
		register: func(f *checkFlags, flags *pflag.FlagSet) {
			flags.StringVar(file(f), language, "", "the kernel is in "+title+", in this `FILE`")
		},
		open: func(f *checkFlags, d *def.Definition) (*foreign.Kernel, error) {
			return f.openSource(language, *file(f), d)
		},
		words: func(f *checkFlags) []string {
			words := []string{"--" + language, absolute(*file(f)), "--launch", f.launch}
			if f.entry != "" {
				words = append(words, "--entry", f.entry)
			}
			if f.device != "" {
				words = append(words, "--device", f.device)
			}
			return words
		},
	}
}

// registerLaunch adds the flags that all languages share.
func (f *checkFlags) registerLaunch(flags *pflag.FlagSet) {
	flags.StringVar(&f.entry, "entry", "", "with --cuda or --hip: the `NAME` of the kernel, with template arguments, as in 'softmax<T>'")
	flags.StringVar(&f.launch, "launch", "", "with --cuda or --hip: grid, block and arguments, as `LAUNCH` 'grid=R block=256 args=x,y,C' (docs/sources.md)")
	flags.StringVar(&f.device, "device", "", "with --cuda or --hip: the `DEVICE` that runs it, cuda:0 or hip:0 (the defaults), or without a GPU sim or for HIP amdemu")
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

func (f *checkFlags) openSource(language, file string, d *def.Definition) (*foreign.Kernel, error) {
	if f.launch == "" {
		return nil, wrongUse("--%s needs --launch, as in --launch 'grid=R block=256 args=x,y,C'", language)
	}
	o := f.options
	o.Definition, o.Open = d, backends.Open
	switch o.Device = f.device; {
	case o.Device == "":
		o.Device = language + ":0"
	case language == "hip" && o.Device == "sim":
		o.Device = "sim:64" // lanes of a wave, as most GPUs have that HIP runs on
	}
	var err error
	if o.DTypes, err = parseDTypes(f.dtypes); err != nil {
		return nil, err
	}
	if _, _, err := backends.Parse(o.Device); err != nil {
		return nil, err
	}
	k, err := foreign.Source(language, file, f.entry, f.launch, o)
	if errors.Is(err, device.ErrNoDevice) && f.device == "" {
		return nil, fmt.Errorf("without a GPU, use --device sim, which needs only g++: %w", err)
	}
	if errors.Is(err, compile.ErrNoHIPRTC) {
		return nil, err
	}
	if err != nil {
		return nil, &wrongKernel{usageError{err.Error()}, err}
	}
	return k, nil
}
