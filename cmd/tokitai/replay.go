package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Replays are commands for a shell. They run from any folder: files that a command names are
// absolute, and a program that may depend on its folder is run in the same one.

// results are the flags that say where results go, which a replay leaves out.
var results = []string{"out", "html", "json", "resume", "progress-file"}

// replayOf returns the command line of a run, for any folder, without the given flags. It returns ""
// if only the program that called this one can repeat the run.
func replayOf(c *cobra.Command, without []string) string {
	args, _ := c.Context().Value(argsKey{}).([]string)
	words, isElsewhere := []string{toolName}, false
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(args[i], "=")
		flag := c.Flags().Lookup(strings.TrimPrefix(name, "--"))
		if !strings.HasPrefix(name, "--") || flag == nil {
			words = append(words, absolute(args[i]))
			continue
		}
		if !hasValue && flag.NoOptDefVal == "" && i+1 < len(args) { // in the next word
			i++
			value = args[i]
		}
		switch {
		case slices.Contains(without, flag.Name):
			continue
		case flag.NoOptDefVal != "":
			words = append(words, args[i])
			continue
		case flag.Name == "shown-as":
			continue
		case (flag.Name == "exec" || flag.Name == "exec-files") && c.Flags().Changed("shown-as"):
			if value, _ = c.Flags().GetString("shown-as"); value == noCommand {
				return ""
			}
		case flag.Name == "exec" || flag.Name == "exec-files":
			isElsewhere = true
		case flag.Name == "in" || flag.Name == "got" || flag.Name == "out":
			operand, path, ok := strings.Cut(value, "=")
			if value = absolute(value); ok {
				value = operand + "=" + absolute(path)
			}
		case namesFile(flag):
			value = absolute(value)
		}
		words = append(words, "--"+flag.Name, value)
	}
	for i := range words {
		words[i] = shellQuoted(words[i])
	}
	if isElsewhere {
		return inFolder() + strings.Join(words, " ")
	}
	return strings.Join(words, " ")
}

// namesFile reports whether the help says that a flag's value is a file or folder.
func namesFile(f *pflag.Flag) bool {
	kind, _ := pflag.UnquoteUsage(f)
	return kind == "FILE" || kind == "FOLDER" || kind == "DIR"
}

// inFolder returns the beginning of a command that is run in this folder.
func inFolder() string {
	folder, err := os.Getwd()
	if err != nil {
		return ""
	}
	return "cd " + shellQuoted(folder) + " && "
}

// absolute returns the absolute path of a file or folder, and any other text as it is.
func absolute(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	if _, err := os.Stat(name); err != nil {
		return name
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return name
	}
	return path
}
