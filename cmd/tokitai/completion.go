package main

import (
	"io"

	"github.com/spf13/cobra"
)

// shells lists the shells that have a completion script.
var shells = []struct {
	name  string
	write func(root *cobra.Command, w io.Writer) error
}{
	{"bash", func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) }},
	{"zsh", (*cobra.Command).GenZshCompletion},
	{"fish", func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
	{"powershell", (*cobra.Command).GenPowerShellCompletionWithDesc},
}

func newCompletion() *cobra.Command {
	var names []string
	for _, s := range shells {
		names = append(names, s.name)
	}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "print a completion script for a shell",
		Long: `Print a script that lets a shell complete commands, flags, operations, parameters and
devices, for bash, zsh, fish or powershell. To load it in a running shell:

  bash        source <(tokitai completion bash)
  zsh         source <(tokitai completion zsh)
  fish        tokitai completion fish | source
  powershell  tokitai completion powershell | Out-String | Invoke-Expression`,
		Example:           `  tokitai completion bash`,
		ValidArgsFunction: cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp),
		RunE: func(c *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return wrongUse("no shell given, want %s", oneOf(names))
			case 1:
			default:
				return wrongUse("unexpected argument %q", args[1])
			}
			for _, s := range shells {
				if s.name == args[0] {
					return s.write(c.Root(), c.OutOrStdout())
				}
			}
			return wrongUse("unknown shell %q, want %s", args[0], oneOf(names))
		},
	}
}
