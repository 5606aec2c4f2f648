package main

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tokitai/bench/peers"
	"tokitai/internal/newfile"
)

// peersFlags are the flags of bench that belong to --peers.
type peersFlags struct {
	isSet bool
	with  []string
	out   string
}

func (f *peersFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.BoolVar(&f.isSet, "peers", false, "measure PyTorch, NumPy and gonum beside it, where they are installed")
	flags.StringSliceVar(&f.with, "peer", nil, "with --peers, measure only `PEER`: "+strings.Join(peers.Names(), ", ")+"; may be repeated")
	flags.StringVar(&f.out, "out", "", "with --peers, write peers.json and peers.md into `FOLDER`")
	c.RegisterFlagCompletionFunc("peer", cobra.FixedCompletions(peers.Names(), cobra.ShellCompDirectiveNoFileComp))
}

// peersReport is the JSON output of bench --peers.
type peersReport struct {
	build
	*peers.Report
}

// runPeers measures beside peers.
func (f *benchFlags) runPeers(c *cobra.Command, names []string) error {
	cases, err := f.peersCases(names)
	if err != nil {
		return err
	}
	for _, name := range f.peers.with {
		if !slices.Contains(peers.Names(), name) {
			return unknownName("peer", name, peers.Names())
		}
	}
	options := peers.Options{Peers: f.peers.with, Log: warnings(c.ErrOrStderr())}
	for _, n := range f.workers {
		if n == 0 {
			n = runtime.GOMAXPROCS(0)
		}
		options.Workers = append(options.Workers, n)
	}
	if f.quick {
		options.Rounds, options.Turn = 3, 20*time.Millisecond
	}
	ctx := c.Context()
	progress := startProgress(c)
	defer progress.end()
	progress.say("starting peers")
	runner, err := peers.NewRunner(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() == nil {
			runner.Close()
		}
	}()
	run := &peersRun{runner: runner, report: runner.Report(), out: c.OutOrStdout(), isJSON: f.json}
	for _, p := range run.report.Peers {
		if p.Problem != "" {
			progress.aside(func() {
				fmt.Fprintf(c.ErrOrStderr(), "%s is not measured: not installed: %s\n", p.Name, oneLine(p.Problem))
			})
		}
	}
	failure := untilInterrupted(ctx, func() error { return run.all(c, progress, cases) })
	progress.end()
	run.mu.Lock() // from now on nothing is added
	if ctx.Err() != nil {
		failure = &verdictError{exitUndecided, fmt.Errorf("interrupted: %d of %d were measured", run.measured, len(cases))}
	}
	run.report.Partial = run.report.Partial || failure != nil
	if err := run.end(f.peers.out, &f.page); err != nil && failure == nil {
		return err
	}
	return failure
}

// peersCases returns the cases to measure.
func (f *benchFlags) peersCases(names []string) ([]*peers.Case, error) {
	dtypes, err := parseDTypes(f.dtypes)
	if err != nil {
		return nil, err
	}
	operations, err := chosenOperations(names)
	if err != nil {
		return nil, err
	}
	sizes, err := parseSizes(f.shape, operations)
	if err != nil {
		return nil, err
	}
	cases, err := peers.Cases(operations, peers.Filter{DTypes: dtypes, Sizes: sizes})
	if err == nil && len(cases) == 0 {
		return nil, wrongUse("no peer computes %s in the wanted formats; 'tokitai bench' without --peers measures it", strings.Join(names, ", "))
	}
	return cases, err
}

// peersRun is a run and what it has measured so far.
type peersRun struct {
	runner *peers.Runner
	out    io.Writer
	isJSON bool

	mu       sync.Mutex
	report   *peers.Report
	measured int
}

// all measures every case, then the first calls of their definitions.
func (r *peersRun) all(c *cobra.Command, progress *progress, cases []*peers.Case) error {
	var failure error
	for i, one := range cases {
		progress.say("%v (%d of %d)", one, i+1, len(cases))
		progress.of(float64(i), 0, float64(len(cases)))
		rows, err := r.runner.Measure(c.Context(), one)
		r.mu.Lock()
		r.report.Rows = append(r.report.Rows, rows...)
		r.measured++
		if !r.isJSON {
			progress.aside(func() {
				for i := range rows {
					fmt.Fprintln(r.out, rows[i].Line())
				}
				flush(r.out)
			})
		}
		r.mu.Unlock()
		switch {
		case c.Context().Err() != nil:
			return c.Context().Err()
		case err != nil:
			fmt.Fprintln(c.ErrOrStderr(), oneLine(err.Error()))
			failure = err
		}
	}
	progress.say("first calls")
	for _, one := range peers.OnePerOperation(cases) {
		first, err := r.runner.Compile(c.Context(), one)
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.report.Compile = append(r.report.Compile, *first)
		r.mu.Unlock()
	}
	return failure
}

// end prints what comes after the rows, and writes the files.
func (r *peersRun) end(folder string, page *speedsPage) error {
	report := peersReport{thisBuild(), r.report}
	if len(r.report.Rows) > 0 {
		if err := page.write(report); err != nil {
			return err
		}
	}
	if folder != "" {
		if err := newfile.Write(filepath.Join(folder, "peers.json"), func(w io.Writer) error { return printJSON(w, report) }); err != nil {
			return err
		}
		if err := newfile.Write(filepath.Join(folder, "peers.md"), func(w io.Writer) error {
			_, err := io.WriteString(w, r.report.Markdown())
			return err
		}); err != nil {
			return err
		}
	}
	if r.isJSON {
		return printJSON(r.out, report)
	}
	for i := range r.report.Rows {
		for _, o := range r.report.Rows[i].Peers {
			if o.Error != "" {
				fmt.Fprintf(r.out, "%s failed at %s %s %s: %s\n", o.Peer, r.report.Rows[i].Op, r.report.Rows[i].DType, r.report.Rows[i].Shape, oneLine(o.Error))
			}
		}
	}
	for _, first := range r.report.Compile {
		fmt.Fprintln(r.out, first.Line())
	}
	for _, workers := range r.report.Host.Workers {
		for i, s := range r.report.Summaries(workers) {
			if i == 0 {
				fmt.Fprintf(r.out, "\n%d threads\n", workers)
			}
			fmt.Fprintln(r.out, s.String())
		}
	}
	return nil
}
