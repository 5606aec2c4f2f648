package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"tokitai/docs"
	"tokitai/evidence"
	page "tokitai/evidence/html"
	"tokitai/internal/newfile"
)

// htmlFlag adds the flag --html to a command.
func htmlFlag(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "html", "", "write the reports as one HTML page to `FILE`")
	c.MarkFlagFilename("html", "html")
}

// preparePage checks that a page can be written, before anything is computed.
func preparePage(path string) error {
	if path == "" {
		return nil
	}
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return wrongUse("--html is %s, which is not a regular file", path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	probe, err := os.CreateTemp(filepath.Dir(path), ".probe-*")
	if err != nil {
		return fmt.Errorf("--html is %s, which cannot be written: %w", path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// writePage writes reports as a page, unless there is no file to write to.
func writePage(path string, reports []*evidence.Report, extra page.Extra) error {
	if path == "" {
		return nil
	}
	extra.Mutants = mutantsOf(reports)
	return newfile.Write(path, func(w io.Writer) error { return page.Write(w, reports, extra) })
}

// extra returns what the page of a run says beside the reports.
func (v *verification) extra(c *cobra.Command) page.Extra {
	x := page.Extra{Command: replayAll(c, v.options.Seed)}
	for _, r := range v.results {
		x.Replays = append(x.Replays, r.Replay)
	}
	x.Notes = v.judgeFaults()
	for _, text := range v.origins() {
		x.Notes = append(x.Notes, "The kernel is "+oneLine(text)+".")
	}
	return x
}

// replayAll returns the command line of a run, with its seed.
func replayAll(c *cobra.Command, seed uint64) string {
	text := replayOf(c, results)
	if text != "" && !c.Flags().Changed("seed") {
		text += fmt.Sprintf(" --seed %d", seed)
	}
	return text
}

// mutantsOf returns how many wrong kernels of the reports' operations are found, where
// docs/mutants.md says it.
func mutantsOf(reports []*evidence.Report) (list []page.Mutants) {
	for _, r := range reports {
		if slices.ContainsFunc(list, func(m page.Mutants) bool { return m.Op == r.Definition.Name }) {
			continue
		}
		if m := docs.Mutants(r.Definition.Name); m.Wrong > 0 {
			list = append(list, page.Mutants{Op: r.Definition.Name, Of: m.Wrong, Found: m.Rejected, AllClose: m.RejectedByAllClose})
		}
	}
	return list
}
