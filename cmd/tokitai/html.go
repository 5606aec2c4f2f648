package main

import (
	"io"

	"github.com/spf13/cobra"

	"tokitai/evidence"
	page "tokitai/evidence/html"
	"tokitai/internal/newfile"
)

// htmlFlag adds the flag --html to a command.
func htmlFlag(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "html", "", "write the reports as one HTML page to `FILE`")
	c.MarkFlagFilename("html", "html")
}

// writePage writes reports as a page, unless there is no file to write to.
func writePage(path string, reports []*evidence.Report, extra page.Extra) error {
	if path == "" {
		return nil
	}
	return newfile.Write(path, func(w io.Writer) error { return page.Write(w, reports, extra) })
}
