package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"tokitai/data"
	"tokitai/engine"
	"tokitai/train"
)

// dataOf reads the data of a run: from path, or where the run has read them.
func dataOf(folder, path, suffix string) (train.Data, error) {
	d, err := train.ReadDescription(folder)
	if err != nil {
		return nil, err
	}
	if path == "" {
		path, suffix = d.DataPath, d.Suffix
	}
	content, err := readAs(d, folder, path, suffix)
	if err != nil {
		return nil, err
	}
	if content.Identity() != d.Origin.Data {
		return nil, wrongUse("%s: the run was on data with the digest %s, and %s has %s", folder, d.Origin.Data, path, content.Identity())
	}
	return content, nil
}

// readAs reads data as a run does: with its tokenizer, if it has one.
func readAs(d *train.Description, folder, path, suffix string) (train.Data, error) {
	return readData(path, suffix, &d.Settings, func(list data.Documents) (*data.Corpus, error) {
		t, err := d.Tokenizer(folder)
		if err != nil {
			return nil, err
		}
		return list.Corpus(t)
	})
}

// runArguments returns an error unless there are n runs.
func runArguments(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return wrongUse("%d arguments, want %d: the folder of a run each", len(args), n)
		}
		return nil
	}
}

func newReplay() *cobra.Command {
	var device, path, suffix, from string
	var first, steps int
	var asJSON bool
	c := &cobra.Command{
		Use:   "replay RUN|ANSWER",
		Short: "compute steps of a training run or an answer again, and compare every bit",
		Long: `Compute what was computed before again, on any device, and compare it. The exit code is 3 if
it differs.

RUN is the folder of a training run. Of the --steps steps behind step --from, the chain is
compared: loss, norm and weights after each step. Computing begins with the newest
checkpoint up to step --from, or with the initial weights. The run itself is not changed.
The data are read where 'tokitai train' read them, or from --data.

ANSWER is a JSON file with the receipt of an answer: the output of 'tokitai generate --json',
or an answer of 'tokitai serve'. It may also be a file of envelopes with receipts, as
'tokitai evidence sign' writes it, whose signatures 'tokitai evidence verify' checks.
--model names the model. The row of logits of every token is compared, by its checksum,
and the token that is drawn from it.`,
		Example: `  tokitai replay run --from 100 --steps 20 --device cpu
  tokitai replay answer.json --model run`,
		Args:              runArguments(1),
		ValidArgsFunction: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkDevice(device); err != nil {
				return err
			}
			info, err := os.Stat(args[0])
			if err != nil {
				return err
			}
			if !info.IsDir() {
				for _, name := range []string{"from", "steps", "data", "suffix"} {
					if c.Flags().Changed(name) {
						return wrongUse("--%s is for runs, and %s is a file", name, args[0])
					}
				}
				return replayAnswer(c, device, args[0], from, asJSON)
			}
			if from != "" {
				return wrongUse("--model is for answers, and %s is a folder", args[0])
			}
			content, err := dataOf(args[0], path, suffix)
			if err != nil {
				return err
			}
			return withQueue(c, device, func(q *engine.Queue) error { return replay(c, q, args[0], first, steps, content, asJSON) })
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.IntVar(&first, "from", 0, "of a run, the step `N` behind which to begin")
	flags.IntVar(&steps, "steps", 20, "of a run, how many steps to compare")
	dataFlags(c, &path, &suffix, "read the run's data from")
	flags.StringVar(&from, "model", "", "of an answer, the `MODEL` that gave it")
	deviceFlag(flags, &device, "auto", "compute on")
	jsonFlag(c, &asJSON)
	registerProgress(c)
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func dataFlags(c *cobra.Command, path, suffix *string, verb string) {
	c.Flags().StringVar(path, "data", "", verb+" `PATH`, a file or a folder")
	c.Flags().StringVar(suffix, "suffix", "", "of a folder, read only files whose names end in `SUFFIX`")
}

func replay(c *cobra.Command, q *engine.Queue, folder string, from, steps int, content train.Data, asJSON bool) error {
	w := c.OutOrStdout()
	progress := startProgress(c)
	defer progress.end()
	progress.say("preparing")
	first := 0
	r, err := train.Replay(c.Context(), q, folder, from, steps, content, func(r train.Result) {
		first = cmp.Or(first, r.Step)
		progress.say("step %d of %d computed again", r.Step, from+steps)
		progress.of(float64(r.Step), float64(first-1), float64(from+steps))
	})
	progress.end()
	_, isDifferent := errors.AsType[*train.DifferenceError](err)
	switch {
	case err != nil && !isDifferent:
		return err
	case asJSON:
		err = printJSON(w, r)
	case isDifferent:
		fmt.Fprintf(w, "steps %d to %d on %s: step %d differs\n", r.Start+1, r.To, q.Device().Name(), r.Differs)
	default:
		fmt.Fprintf(w, "steps %d to %d on %s: the same bits\nstep %d  chain %s\n", r.Start+1, r.To, q.Device().Name(), r.To, r.Chain)
	}
	if isDifferent {
		return &verdictError{exitRejected, &train.DifferenceError{Replayed: *r}}
	}
	return err
}

func newDiff() *cobra.Command {
	var device string
	var asJSON bool
	c := &cobra.Command{
		Use:   "diff RUN RUN",
		Short: "find the first step, call and element in which two training runs differ",
		Long: `Compare the loss, the norm and the weights that two runs have recorded for each step. For
the first step that differs, compute both runs again, from their last common checkpoint or
their initial weights on, and print the first call, in the order of the program, whose
result differs, with the tensor, row and column. The exit code is 3 if they differ.`,
		Example:           `  tokitai diff run other`,
		Args:              runArguments(2),
		ValidArgsFunction: completeFolders,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkDevice(device); err != nil {
				return err
			}
			var contents [2]train.Data
			for i := range contents {
				var err error
				if contents[i], err = dataOf(args[i], "", ""); err != nil {
					return err
				}
			}
			return withQueue(c, device, func(q *engine.Queue) error {
				progress := startProgress(c)
				defer progress.end()
				progress.say("comparing")
				d, err := train.Diff(c.Context(), q, [2]string{args[0], args[1]}, contents)
				progress.end()
				if err != nil {
					return err
				}
				if asJSON {
					err = printJSON(c.OutOrStdout(), d)
				} else {
					printDifference(c, d)
				}
				if d.Step > 0 {
					return &verdictError{exitRejected, fmt.Errorf("step %d differs", d.Step)}
				}
				return err
			})
		},
	}
	deviceFlag(c.Flags(), &device, "auto", "compute on")
	jsonFlag(c, &asJSON)
	registerProgress(c)
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func printDifference(c *cobra.Command, d *train.Difference) {
	w := c.OutOrStdout()
	for _, s := range d.Settings {
		fmt.Fprintf(w, "setting %s\n", s)
	}
	if d.Data {
		fmt.Fprintln(w, "the data differ")
	}
	fmt.Fprintf(w, "%d steps have the same loss, norm and weights, of %d and %d\n", d.Same, d.Steps[0], d.Steps[1])
	if d.Step == 0 {
		return
	}
	fmt.Fprintf(w, "step %d: %s\n", d.Step, d.How)
	if d.Wrong != "" {
		fmt.Fprintln(w, d.Wrong)
	}
	if d.Call != "" {
		fmt.Fprintf(w, "first difference, computed again from step %d: %s\n", d.Start, d.Call)
	}
	if d.Tensor != "" {
		fmt.Fprintf(w, "tensor %s, row %d, column %d: %s, not %s\n", d.Tensor, d.Row, d.Column, d.A, d.B)
	}
}

func newEval() *cobra.Command {
	var device, path, suffix string
	var asJSON bool
	c := &cobra.Command{
		Use:   "eval RUN",
		Short: "compute the loss of a run's newest checkpoint on other data",
		Long: `Compute the mean loss, in nats per token, of the newest checkpoint of a run on all whole
blocks of a text, without dropout; of a network of features, the mean of the squares of all
differences. Without --data, the data are what the run keeps for validation.`,
		Example:           `  tokitai eval run --data text.txt`,
		Args:              runArguments(1),
		ValidArgsFunction: completeFolders,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkDevice(device); err != nil {
				return err
			}
			own, err := dataOf(args[0], "", "")
			if err != nil {
				return err
			}
			return withQueue(c, device, func(q *engine.Queue) error {
				t, err := train.Load(q, args[0], own)
				if err != nil {
					return err
				}
				defer t.Close()
				var given train.Data // nil for what the run keeps
				if path != "" {
					d, err := train.ReadDescription(args[0])
					if err != nil {
						return err
					}
					if given, err = readAs(d, args[0], path, suffix); err != nil {
						return err
					}
				}
				e, err := t.NewEvaluator()
				if err != nil {
					return err
				}
				loss, rows, err := e.Loss(given, c.Context().Err)
				if err != nil {
					return err
				}
				settings := t.Origin().Config
				name := settings.RowName()
				if asJSON {
					return printJSON(c.OutOrStdout(), map[string]any{"step": t.Steps(), "loss": loss, name: rows})
				}
				fmt.Fprintf(c.OutOrStdout(), "step %d  loss %.4f on %d %s\n", t.Steps(), loss, rows, name)
				return nil
			})
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	dataFlags(c, &path, &suffix, "compute the loss of")
	deviceFlag(flags, &device, "auto", "compute on")
	jsonFlag(c, &asJSON)
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func completeFolders(_ *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
