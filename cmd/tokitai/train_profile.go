package main

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tokitai/bench"
	"tokitai/engine"
	"tokitai/train"
)

// profileRepeats is how many times in a row each call of a step is measured.
const profileRepeats = 8

// profiled is the JSON output of train --profile.
type profiled struct {
	Device     string       `json:"device"`
	Step       float64      `json:"step_seconds"` // as --dry-run measures it
	Tokens     int          `json:"tokens"`       // of a step
	CopySpeed  float64      `json:"copy_bytes_per_second"`
	Peak       float64      `json:"peak,omitempty"` // products per second; 0 if that is not known
	Costs      []train.Cost `json:"costs"`
	SumSeconds float64      `json:"sum_seconds"` // of the costs
}

// limit returns the share of a cost in which a copy would move its bytes, or the device at its peak add up its
// products: the larger of both; 0 if neither is known.
func (p *profiled) limit(c *train.Cost) float64 {
	least := c.Bytes / p.CopySpeed
	if p.Peak > 0 {
		least = max(least, c.Products/p.Peak)
	}
	return least / c.Seconds
}

// tellCosts prints where the time of a step goes.
func (f *trainFlags) tellCosts(c *cobra.Command, q *engine.Queue, s train.Settings, content train.Data) error {
	progress := startProgress(c)
	defer progress.end()
	progress.say("measuring %d steps", measuredSteps)
	clock, err := bench.NewClock(q)
	if err != nil {
		return err
	}
	defer clock.Close()
	t, err := train.NewStarted(q, train.Team{}, &s, content)
	if err != nil {
		return err
	}
	defer t.Close()
	step, _, err := timeSteps(c, t, s.Steps)
	if err != nil {
		return err
	}
	p := profiled{Device: q.Device().Name(), Step: step, Tokens: s.Rows(), Peak: t.Device().Peak}
	if p.CopySpeed, err = clock.CopySpeed(); err != nil {
		return err
	}
	progress.say("measuring %d calls", len(t.Network().Program.Calls))
	timed := func(work func() error) (float64, error) {
		if err := c.Context().Err(); err != nil {
			return 0, err
		}
		return clock.Time(work)
	}
	if p.Costs, err = t.Profile(timed, profileRepeats); err != nil {
		return err
	}
	progress.end()
	for i := range p.Costs {
		p.SumSeconds += p.Costs[i].Seconds
	}
	w := c.OutOrStdout()
	if f.json {
		return printJSON(w, p)
	}
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ms\tof all\tcalls\tGB/s\tTFLOP/s\tof limit\t\x00name")
	for i := range p.Costs {
		k := &p.Costs[i]
		speed, products, limit := "-", "-", "-"
		if k.Bytes > 0 {
			speed, limit = fmt.Sprintf("%.0f", k.Bytes/k.Seconds*1e-9), fmt.Sprintf("%.2f", p.limit(k))
		}
		if k.Products > 0 {
			products = fmt.Sprintf("%.1f", 2*k.Products/k.Seconds*1e-12)
		}
		fmt.Fprintf(table, "%.3f\t%.1f %%\t%d\t%s\t%s\t%s\t\x00%s\n", 1e3*k.Seconds, 100*k.Seconds/p.SumSeconds, k.Calls, speed, products, limit, strings.TrimSpace(k.Name+"  "+k.Lowering))
	}
	table.Flush()
	for line := range strings.Lines(text.String()) {
		fmt.Fprint(w, strings.Replace(line, "\x00", "  ", 1))
	}
	peak := ""
	if p.Peak > 0 {
		peak = fmt.Sprintf("; peak %.0f TFLOP/s", 2e-12*p.Peak)
	}
	fmt.Fprintf(w, "\n%s: %.3f ms a step of %d %s, %.3f ms if its calls are measured one by one; copies of memory: %.1f GB/s%s\n", p.Device, 1e3*p.Step, p.Tokens, s.RowName(), 1e3*p.SumSeconds, p.CopySpeed*1e-9, peak)
	return nil
}
