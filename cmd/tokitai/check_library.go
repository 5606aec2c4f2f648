package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tokitai/def"
	"tokitai/foreign"
)

// libraryWay names a kernel by a function in a shared library.
var libraryWay = kernelWay{
	flag: "library",
	register: func(f *checkFlags, flags *pflag.FlagSet) {
		flags.StringVar(&f.library, "library", "", "the kernel is a C function in this shared library, a `FILE`")
		flags.StringVar(&f.symbol, "symbol", "", "with --library: the `NAME` of the function, int NAME(const tokitai_call *)")
		flags.BoolVar(&f.strided, "strided", false, "with --library: leave gaps between rows, for a function that reads strides")
		flags.StringVar(&f.emit, "emit", "", "print `WHAT`, and judge nothing: header is the C header of such functions")
	},
	open: func(f *checkFlags, d *def.Definition) (*foreign.Kernel, error) {
		if f.symbol == "" {
			return nil, wrongUse("--library needs --symbol, the name of the function")
		}
		o := f.options
		o.Definition, o.IsStrided = d, f.strided
		return foreign.Library(f.library, f.symbol, o)
	},
	words: func(f *checkFlags) []string {
		words := []string{"--library", absolute(f.library), "--symbol", f.symbol}
		if f.strided {
			words = append(words, "--strided")
		}
		return words
	},
}

// emitHeader prints the header of functions in libraries.
func (f *checkFlags) emitHeader(c *cobra.Command) error {
	if f.emit != "header" {
		return wrongUse("--emit %q: want header", f.emit)
	}
	_, err := fmt.Fprint(c.OutOrStdout(), foreign.LibraryHeader)
	return err
}
