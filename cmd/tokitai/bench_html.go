package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"tokitai/bench/chart"
	"tokitai/internal/newfile"
)

// speedsPage is the page of bench --html.
type speedsPage struct {
	path string // "" if there is none
	from string // a file of bench --json to show, instead of measuring
}

func (p *speedsPage) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&p.path, "html", "", "write a page with the speeds over the sizes to `FILE`")
	flags.StringVar(&p.from, "from", "", "measure nothing: with --html, show `FILE`, which --json wrote")
	c.MarkFlagFilename("html", "html")
	c.MarkFlagFilename("from", "json")
}

// write writes the page of a report, if one is wanted.
func (p *speedsPage) write(report any) error {
	if p.path == "" {
		return nil
	}
	data, err := json.Marshal(report)
	if err != nil {
		return err
	}
	return p.draw(data)
}

func (p *speedsPage) draw(data []byte) error {
	record, err := chart.Parse(data)
	if err != nil {
		return err
	}
	return newfile.Write(p.path, record.WritePage)
}

// show writes the page of the file from.
func (p *speedsPage) show(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrongUse("--from shows all of %s: want no operations", p.from)
	}
	if err := preparePage(p.path); err != nil {
		return err
	}
	data, err := os.ReadFile(p.from)
	if err != nil {
		return err
	}
	if err := p.draw(data); err != nil {
		return fmt.Errorf("%s: %w", p.from, err)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "page: %s\n", p.path)
	return err
}
