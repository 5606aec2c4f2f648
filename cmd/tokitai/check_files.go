package main

import (
	"github.com/spf13/pflag"

	"tokitai/def"
	"tokitai/foreign"
)

// filesWay names a kernel by a program that reads and writes files.
var filesWay = kernelWay{
	flag: "exec-files", isCommand: true,
	kind: "files",
	register: func(f *checkFlags, flags *pflag.FlagSet) {
		flags.StringVar(&f.execFiles, "exec-files", "", "the kernel is a program that is run for each call: `COMMAND` with {in} and {out}, the paths of safetensors files")
	},
	open: func(f *checkFlags, d *def.Definition) (*foreign.Kernel, error) {
		words, err := splitWords(f.execFiles)
		if err != nil {
			return nil, wrongUse("--exec-files: %v", err)
		}
		o := f.options
		o.Definition = d
		k, err := foreign.Files(words, o)
		if err != nil {
			return nil, wrongUse("--exec-files: %v", err)
		}
		return k, nil
	},
	words: func(f *checkFlags) []string { return []string{"--exec-files", f.execFiles} },
}
