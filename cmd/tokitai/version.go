package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the version that --version prints and that output files contain. scripts/release sets
// it when it links the program.
var version = "0.1.0-dev"

const toolName = "tokitai"

// build describes how this program was built. Unknown fields are empty.
type build struct {
	Tool     string `json:"tool"`
	Version  string `json:"version"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"revision_time,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from files that differ from the revision
}

func thisBuild() build {
	b := build{Tool: toolName, Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.addSettings(info.Settings)
	}
	return b
}

func (b *build) addSettings(settings []debug.BuildSetting) {
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
}

func (b build) String() string {
	s := fmt.Sprintf("%s %s %s %s/%s", b.Tool, b.Version, b.Go, b.OS, b.Arch)
	if b.Revision != "" {
		s += " revision " + b.Revision
		if b.Modified {
			s += " (modified)"
		}
	}
	return s
}

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "print the version of this program",
		Long: `Print the version of this program, the Go release that built it, the system it was
built for, and the revision of its source if the build recorded one.`,
		Example: `  tokitai version
  tokitai version --json`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(c.OutOrStdout(), thisBuild())
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), thisBuild())
			return err
		},
	}
	jsonFlag(c, &asJSON)
	return c
}
