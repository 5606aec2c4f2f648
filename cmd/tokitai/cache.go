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
		Short: "list or remove compiled kernels",
		Long: `Kernels for GPUs and for the simulator are compiled on first use and kept in a
folder: TOKITAI_CACHE, or tokitai in the user's cache folder. A compiled kernel is
identified by a hash of its source, its options and the compiler.`,
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
		Long:              `List the compiled kernels in the cache, oldest first.`,
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
				_, err = fmt.Fprintf(c.OutOrStdout(), "the cache is not used: %v\n", err)
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
		Long:              `Remove the compiled kernels from the cache. They are compiled again when needed.`,
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
