package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"tokitai/data"
	"tokitai/engine"
	"tokitai/train"
)

// inferredRows is how many rows infer computes at once at most.
const inferredRows = 64

func newInfer() *cobra.Command {
	var device string
	c := &cobra.Command{
		Use:   "infer MODEL ROWS",
		Short: "compute the outputs of a network of features",
		Long: `Compute the outputs of a network of features, and print them: a line of JSON for each row, with
outputs and, of a mixture, router_weights, by which the outputs of its experts were added up; 0
for those that were not chosen.

MODEL is the folder of a run, whose newest checkpoint is taken, a checkpoint, a TKP1 file, or a
folder that 'tokitai export' wrote. ROWS is a file with a row in each line, such as
{"features": [1, 0.5]}; other members are left unread. What a row gives depends on no other row.`,
		Example: `  tokitai infer rows rows.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return wrongUse("%d arguments, want 2: a model and a file with rows", len(args))
			}
			return nil
		},
		ValidArgsFunction: completeFolders,
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkDevice(device); err != nil {
				return err
			}
			rows, err := data.ReadFeatures(args[1])
			if err != nil {
				return wrongUse("%v", err)
			}
			return withQueue(c, device, func(q *engine.Queue) error { return infer(c, q, args[0], rows) })
		},
	}
	deviceFlag(c.Flags(), &device, "auto", "compute on")
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func infer(c *cobra.Command, q *engine.Queue, path string, rows *data.Table) error {
	start, err := train.ReadStart(q.Device(), path)
	if err != nil {
		return err
	}
	p, err := train.NewPredictor(q, start, min(rows.Len(), inferredRows))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer p.Close()
	if rows.Inputs != start.Features.Inputs {
		return wrongUse("the rows have %d features, and %s wants %d", rows.Inputs, path, start.Features.Inputs)
	}
	list, err := p.Predict(rows.Features)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(c.OutOrStdout())
	for i := range list {
		if err := encoder.Encode(list[i]); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
	}
	return nil
}
