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

// cudaWay and hipWay name a kernel by its source and how it is launched.
var (
	cudaWay = sourceWay("cuda", "the kernel is in CUDA C++, in this `FILE`; --device sim compiles it without a GPU")
	hipWay  = sourceWay("hip", "the kernel is in HIP, in this `FILE`")
)

func sourceWay(language, usage string) kernelWay {
	return kernelWay{
		flag: language,
		register: func(f *checkFlags, flags *pflag.FlagSet) {
			flags.StringVar(f.source(language), language, "", usage)
			if flags.Lookup("entry") == nil { // both languages have these
				flags.StringVar(&f.entry, "entry", "", "of a source: the `NAME` of the kernel, with template arguments, as in 'softmax<T>'")
				flags.StringVar(&f.launch, "launch", "", "of a source: grid, block and arguments, as in 'grid=R block=256 args=x,y,C' (docs/check.md)")
				flags.StringVar(&f.device, "device", "", "of a source: the `DEVICE` that runs it, such as cuda:0 (the default of --cuda), sim, hip:0 (that of --hip) or amdemu:gfx1100")
			}
		},
		open: func(f *checkFlags, d *def.Definition) (*foreign.Kernel, error) {
			return f.openSource(language, d)
		},
		words: func(f *checkFlags) []string {
			words := []string{"--" + language, *f.source(language), "--launch", f.launch}
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

// wrongKernel is wrong use, with the error that says why.
type wrongKernel struct {
	usageError
	cause error
}

// Detail returns the details of the cause.
func (e *wrongKernel) Detail() string {
	if d, ok := errors.AsType[detailed](e.cause); ok {
		return d.Detail()
	}
	return ""
}

func (e *wrongKernel) Unwrap() error { return &e.usageError }

func (f *checkFlags) source(language string) *string {
	if language == "hip" {
		return &f.hip
	}
	return &f.cuda
}

func (f *checkFlags) openSource(language string, d *def.Definition) (*foreign.Kernel, error) {
	if f.launch == "" {
		return nil, wrongUse("--%s needs --launch, as in --launch 'grid=R block=256 args=x,y,C'", language)
	}
	o := f.options
	o.Definition, o.Open = d, backends.Open
	if o.Device = f.device; o.Device == "" {
		o.Device = language + ":0"
	}
	var err error
	if o.DTypes, err = parseDTypes(f.dtypes); err != nil {
		return nil, err
	}
	if _, _, err := backends.Parse(o.Device); err != nil {
		return nil, err
	}
	k, err := foreign.Source(language, *f.source(language), f.entry, f.launch, o)
	if errors.Is(err, device.ErrNoDevice) && f.device == "" {
		without := map[string]string{"cuda": "--device sim, which needs only g++", "hip": "--device amdemu:gfx1100, which needs clang-22"}[language]
		return nil, fmt.Errorf("%w; without a GPU, use %s", err, without)
	}
	if err != nil {
		return nil, &wrongKernel{usageError{err.Error()}, err}
	}
	return k, nil
}
