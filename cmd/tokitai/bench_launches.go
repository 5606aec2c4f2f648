package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tokitai/bench"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/gelu"
	"tokitai/tensor"
)

// launchesFlags are the flags of bench launches.
type launchesFlags struct {
	device string
	calls  int
	json   bool
}

const maxLaunches = 10_000

func newBenchLaunches() *cobra.Command {
	var f launchesFlags
	c := &cobra.Command{
		Use:   "launches",
		Short: "measure what a small call costs, alone and recorded",
		Long: `Measure what a call on small tensors costs, made one by one and as part of a recording,
which a GPU runs as one graph (docs/gpu.md). Each sequence is measured both ways in
turns; a time is the median over 15 rounds of 20 runs, from the first call to the end of
the work, divided by the number of calls. Results are compared first: both ways must
give the same bits. The exit code is 3 if they do not.`,
		Example:           `  tokitai bench launches --device cpu --calls 5`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return f.run(c) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	deviceFlag(flags, &f.device, "auto", "measure on")
	flags.IntVar(&f.calls, "calls", 50, "make sequences of `N` calls")
	jsonFlag(c, &f.json)
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// launchesReport is the JSON output of bench launches.
type launchesReport struct {
	build
	Device  benchDevice      `json:"device"`
	Results []launchesResult `json:"results"`
}

type launchesResult struct {
	Sequence   string  `json:"sequence"`
	Calls      int     `json:"calls"`
	OneByOneUS float64 `json:"one_by_one_us"` // for each call, the median
	RecordedUS float64 `json:"recorded_us"`
	Ratio      float64 `json:"ratio"`
}

func (f *launchesFlags) run(c *cobra.Command) error {
	if f.calls < 1 || f.calls > maxLaunches {
		return wrongUse("--calls is %d, want 1 to %d", f.calls, maxLaunches)
	}
	dev, err := (&benchFlags{device: f.device}).open()
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), dev)
	q, err := engine.NewQueue(dev, engine.WithLog(warnings(io.Discard)))
	if err != nil {
		return err
	}
	defer closeUnlessInterrupted(c.Context(), q)
	sequences, err := launchSequences(q, f.calls)
	if err != nil {
		return err
	}
	report := launchesReport{build: thisBuild(), Device: newBenchReport(dev).Device}
	out := c.OutOrStdout()
	if !f.json {
		fmt.Fprintf(out, "%-54s  %10s  %10s  %5s\n", fmt.Sprintf("µs for each of %d calls", f.calls), "one by one", "recorded", "ratio")
	}
	for _, s := range sequences {
		measured := make(chan *bench.SequenceTimes, 1)
		err := untilInterrupted(c.Context(), func() error {
			times, err := bench.MeasureSequence(q, s)
			measured <- times
			return err
		})
		if wrong, ok := errors.AsType[*bench.WrongSequenceError](err); ok {
			isRejected.Store(true)
			return &verdictError{exitRejected, wrong}
		}
		if err != nil {
			return err
		}
		times := <-measured
		r := launchesResult{Sequence: s.Name, Calls: s.Calls, OneByOneUS: times.OneByOne * 1e6, RecordedUS: times.Recorded * 1e6, Ratio: times.OneByOne / times.Recorded}
		report.Results = append(report.Results, r)
		if !f.json {
			fmt.Fprintf(out, "%-54s  %10.2f  %10.2f  %5.2f\n", r.Sequence, r.OneByOneUS, r.RecordedUS, r.Ratio)
		}
	}
	if f.json {
		return printJSON(out, report)
	}
	return nil
}

// launchSequences returns what is measured: calls that depend on each other, calls that do
// not, and calls whose parameters change from run to run.
func launchSequences(q *engine.Queue, calls int) ([]*bench.Sequence, error) {
	var failure error
	matrix := func(dtype num.DType, rows, cols int) *tensor.Tensor {
		values := make([]float32, rows*cols)
		for i := range values {
			values[i] = float32(i%29)/8 - 1
		}
		x, err := tensor.FromFloat32(q.Device(), dtype, values, rows, cols)
		if err != nil && failure == nil {
			failure = err
		}
		return x
	}
	const rows, cols = 4, 1024
	a, b := matrix(num.F32, rows, cols), matrix(num.F32, rows, cols)
	chain := &bench.Sequence{Name: "gelu.forward, of the result of the one before", Calls: calls, Tensors: []*tensor.Tensor{a, b}}
	chain.Run = func(q *engine.Queue, _ int) error {
		for i := range calls {
			x, y := a, b
			if i%2 == 1 {
				x, y = b, a
			}
			if err := gelu.Forward(q, y, x); err != nil {
				return err
			}
		}
		return nil
	}
	apart := &bench.Sequence{Name: "gelu.forward, of tensors of its own", Calls: calls}
	for range calls {
		apart.Tensors = append(apart.Tensors, matrix(num.F32, rows, cols))
	}
	apart.Run = func(q *engine.Queue, _ int) error {
		for _, y := range apart.Tensors {
			if err := gelu.Forward(q, y, a); err != nil {
				return err
			}
		}
		return nil
	}
	steps := &bench.Sequence{Name: "adamw.step, with another rate and step in each run", Calls: calls}
	grad := matrix(num.BF16, rows, cols)
	var states []adamw.State
	for range calls {
		s := adamw.State{Weight: matrix(num.BF16, rows, cols), M: matrix(num.F32, rows, cols), V: matrix(num.F32, rows, cols)}
		states = append(states, s)
		steps.Tensors = append(steps.Tensors, s.Weight, s.M, s.V)
	}
	steps.Run = func(q *engine.Queue, number int) error {
		hyper := adamw.DefaultHyper
		hyper.LR = 1e-3 / float64(number)
		for i, s := range states {
			u := adamw.Update{Mode: adamw.Stochastic, State: s, Grad: grad, Hyper: hyper, T: number, Random: adamw.Random{Seed: 1, Tensor: int32(i)}}
			if err := adamw.Step(q, u); err != nil {
				return err
			}
		}
		return nil
	}
	steps.Change = steps.Run
	return []*bench.Sequence{chain, apart, steps}, failure
}
