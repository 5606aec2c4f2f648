package main

import (
	"strings"

	"github.com/spf13/pflag"

	"tokitai/def"
	"tokitai/foreign"
)

// execWay names a kernel by a program that answers calls.
var execWay = kernelWay{
	flag: "exec", kind: "process", isCommand: true,
	register: func(f *checkFlags, flags *pflag.FlagSet) {
		flags.StringVar(&f.exec, "exec", "", "the kernel is a program that answers calls: `COMMAND` with its arguments, which no shell reads")
	},
	open: func(f *checkFlags, d *def.Definition) (*foreign.Kernel, error) {
		words, err := splitWords(f.exec)
		if err != nil {
			return nil, wrongUse("--exec: %v", err)
		}
		o := f.options
		o.Definition = d
		return foreign.Process(words, o)
	},
	words: func(f *checkFlags) []string { return []string{"--exec", f.exec} },
}

// splitWords splits a command line into words as a shell does: at white space, except
// within quotes and after a backslash. Nothing is expanded.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	isWord, quote, isEscaped := false, rune(0), false
	for _, r := range line {
		switch {
		case isEscaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			isEscaped = false
		case r == '\\' && quote != '\'':
			isWord, isEscaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			isWord, quote = true, r
		case strings.ContainsRune(" \t\n", r):
			if isWord {
				words = append(words, word.String())
				word.Reset()
				isWord = false
			}
		default:
			isWord = true
			word.WriteRune(r)
		}
	}
	switch {
	case quote != 0:
		return nil, wrongUse("%q has a quote %c without an end", line, quote)
	case isEscaped:
		return nil, wrongUse("%q ends in a backslash", line)
	}
	if isWord {
		words = append(words, word.String())
	}
	return words, nil
}
