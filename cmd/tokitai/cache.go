package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tokitai/device/gpu/compile"
)

func newCache() *cobra.Command {
	c := &cobra.Command{
		Use:   "cache COMMAND",
		Short: "compiled kernels that are kept",
		Long: `Kernels for GPUs, and for the simulator, are compiled when they are first needed, and
kept in a folder: TOKITAI_CACHE, or tokitai in the user's folder of caches. A program
is found again by the hash of its source, its options and the compiler.`,
		Example: `  tokitai cache list
  tokitai cache clear`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			c.SetOut(c.ErrOrStderr())
			c.Help()
			return wrongUse("no command given")
		},
	}
	c.AddCommand(newCacheList(), newCacheClear())
	return c
}

// cachedProgram is a program in the JSON output of cache list.
type cachedProgram struct {
	Key          string    `json:"key"`
	Name         string    `json:"name"`
	Architecture string    `json:"architecture"`
	Compiler     string    `json:"compiler"`
	Bytes        int64     `json:"bytes"`
	Time         time.Time `json:"time"`
	Damaged      bool      `json:"damaged"`
}

func newCacheList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:               "list",
		Short:             "list compiled kernels",
		Long:              `The compiled kernels that are kept, oldest first.`,
		Example:           `  tokitai cache list --json`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			cache := compile.Default()
			entries, err := cache.List()
			if err != nil {
				return err
			}
			programs := []cachedProgram{}
			bytes := int64(0)
			for _, e := range entries {
				programs = append(programs, cachedProgram{e.Key, e.Name, e.Architecture, e.Compiler, e.Bytes, e.Modified.UTC(), e.IsDamaged})
				bytes += e.Bytes
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), map[string]any{"folder": cache.Dir(), "programs": programs})
			}
			table := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, p := range programs {
				if p.Damaged {
					p.Name = "damaged"
				}
				fmt.Fprintf(table, "%.12s\t%s\t%s\t%s\t%.1f KiB\n", p.Key, p.Name, p.Architecture, p.Compiler, float64(p.Bytes)/(1<<10))
			}
			if err := table.Flush(); err != nil {
				return err
			}
			if err := cache.Problem(); err != nil {
				_, err = fmt.Fprintf(c.OutOrStdout(), "no program is kept: %v\n", err)
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s, %.1f MiB in %s\n", counted(len(programs), "program"), float64(bytes)/(1<<20), cache.Dir())
			return err
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

func newCacheClear() *cobra.Command {
	return &cobra.Command{
		Use:               "clear",
		Short:             "remove compiled kernels",
		Long:              `Remove the compiled kernels that are kept. They are compiled again when needed.`,
		Example:           `  tokitai cache clear`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			programs, bytes, err := compile.Default().Clear()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "removed %s, %.1f MiB\n", counted(programs, "program"), float64(bytes)/(1<<20))
			return err
		},
	}
}
