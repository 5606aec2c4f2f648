package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tokitai/answer"
	"tokitai/engine"
	"tokitai/evidence/attest"
	"tokitai/internal/readfile"
)

// replayed is the JSON output of replay for an answer.
type replayed struct {
	Same       bool               `json:"same"`
	Tokens     int                `json:"tokens"` // that were compared, and are the same
	Choices    int                `json:"choices"`
	Device     string             `json:"device"`
	Difference *answer.Difference `json:"difference,omitempty"`
}

// replayAnswer computes the answer of a file again.
func replayAnswer(c *cobra.Command, device, path, model string, asJSON bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := readfile.Whole(path, file, maxPrompt)
	if err != nil {
		return err
	}
	if strings.HasSuffix(path, attest.BundleSuffix) {
		if text, err = signedReceipts(path); err != nil {
			return err
		}
	}
	receipts, err := answer.ReadReceipts(text)
	switch {
	case err != nil:
		return wrongUse("%s: %v", path, err)
	case len(receipts) == 0:
		return wrongUse("%s: it has no receipt, want the JSON of an answer", path)
	case model == "":
		return wrongUse("--model is missing, want the model that gave the answer")
	}
	f := modelFlags{device: device, rule: receipts[0].Identity.Rule}
	return f.withModel(c, model, func(q *engine.Queue, m *answer.Model) error {
		l := answer.DefaultLimits
		l.Sequences = 1
		e, err := answer.NewEngine(q, m, l)
		if err != nil {
			return err
		}
		defer e.Close()
		progress := startProgress(c)
		defer progress.end()
		all, choices := 0, 0
		for _, r := range receipts {
			choices += len(r.Choices)
			for i := range r.Choices {
				all += len(r.Choices[i].Output)
			}
		}
		n := 0
		for _, r := range receipts {
			var more int
			more, err = answer.Replay(c.Context(), e, r, func(more int) {
				progress.say("%d of %d tokens compared", n+more, all)
				progress.of(float64(n+more), 0, float64(all))
			})
			if n += more; err != nil {
				break
			}
		}
		progress.end()
		d, isDifferent := errors.AsType[*answer.Difference](err)
		if err != nil && !isDifferent {
			return err
		}
		w := c.OutOrStdout()
		switch {
		case asJSON:
			err = printJSON(w, replayed{!isDifferent, n, choices, q.Device().Name(), d})
		case isDifferent:
			fmt.Fprintf(w, "%d tokens are the same; %v\n", n, d)
		default:
			fmt.Fprintf(w, "%d tokens on %s: the same bits of all logits, and the same draws\n", n, q.Device().Name())
		}
		if isDifferent {
			return &verdictError{exitRejected, d}
		}
		return err
	})
}
