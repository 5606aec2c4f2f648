package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tokitai/fn"
	"tokitai/prove"
)

func newProve() *cobra.Command {
	var emit, asJSON bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "prove [FUNCTION]...",
		Short: "prove the largest errors of functions with Coq",
		Long: `Write the proof of a function's largest error from the function's own nodes and
constants, and have Coq check it: for every argument of the domain, how far the result is
from the exact one, in units in the last place. Each proof names the SHA-256 of the
function's text. Without FUNCTION, all functions are listed with what is proved about them;
the others are checked over all 2^32 arguments by the tests only (docs/proofs.md).

Coq 8.16 to 8.20 is needed, with the libraries Flocq and Interval. If it is missing, of
another version or out of time, nothing is decided: exit code 4. A proof that fails is exit code 3. With
--emit, print the Coq file instead; it imports functions/Binary32.v and
Patterns.v, in the folder proofs, and the files there of the functions that it is made of.`,
		Example: `  tokitai prove
  tokitai prove recip_bounded
  tokitai prove exp_bounded --emit`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return provedNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				if emit {
					return wrongUse("--emit needs a function")
				}
				return listProofs(c.OutOrStdout(), asJSON)
			}
			if timeout <= 0 {
				return wrongUse("--timeout %s: want a time above 0", timeout)
			}
			var scripts []string
			for _, name := range args {
				s, ok := prove.StatusOf(name)
				if !ok {
					return unknownProof(name)
				}
				script, err := prove.Script(s.Function)
				if err != nil {
					return err
				}
				scripts = append(scripts, script)
			}
			if emit {
				for _, script := range scripts {
					if _, err := io.WriteString(c.OutOrStdout(), script); err != nil {
						return err
					}
				}
				return nil
			}
			return checkProofs(c, args, scripts, timeout, asJSON)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&emit, "emit", false, "print the Coq file, and prove nothing")
	flags.DurationVar(&timeout, "timeout", 10*time.Minute, "stop Coq after `TIME`")
	jsonFlag(c, &asJSON)
	return c
}

func provedNames() (names []string) {
	for _, s := range prove.All() {
		if s.Proved != "" {
			names = append(names, s.Function.Name)
		}
	}
	return names
}

// unknownProof returns the error for a function about which nothing is proved.
func unknownProof(name string) error {
	for _, f := range fn.All {
		if f.Name == name {
			return wrongUse("function %s: nothing is proved about it; its error is checked over all arguments (go test ./fn)", name)
		}
	}
	return unknownName("function", name, provedNames())
}

// proofStatus is a function in the JSON output of prove.
type proofStatus struct {
	Function string  `json:"function"`
	SHA256   string  `json:"sha256"` // of its text
	ULPs     float64 `json:"ulps"`   // promised
	Proved   string  `json:"proved,omitempty"`
	Checked  bool    `json:"checked,omitempty"` // by Coq, now
}

func statusOf(s prove.Status) proofStatus {
	return proofStatus{Function: s.Function.Name, SHA256: prove.Hash(s.Function), ULPs: s.Function.ULPs, Proved: s.Proved}
}

func listProofs(w io.Writer, asJSON bool) error {
	if asJSON {
		var list []proofStatus
		for _, s := range prove.All() {
			list = append(list, statusOf(s))
		}
		return printJSON(w, map[string]any{"functions": list})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "function\tpromise\tproved")
	for _, s := range prove.All() {
		text := s.Proved
		if text == "" {
			text = "checked over all 2^32 arguments only"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", s.Function.Name, s.Function.Within(), text)
	}
	return t.Flush()
}

// checkProofs has Coq check scripts, and prints what is proved.
func checkProofs(c *cobra.Command, names, scripts []string, timeout time.Duration, asJSON bool) error {
	ctx, cancel := context.WithTimeout(c.Context(), timeout)
	defer cancel()
	version, err := prove.FindProver(ctx)
	if err != nil {
		return proofError(err)
	}
	progress := startProgress(c)
	err = prove.Check(ctx, names, scripts, func(name string, done, total int) {
		progress.say("proving %s", name)
		progress.of(float64(done), 0, float64(total))
	})
	progress.end()
	if err != nil {
		return proofError(err)
	}
	var list []proofStatus
	for _, name := range names {
		s, _ := prove.StatusOf(name)
		status := statusOf(s)
		status.Checked = true
		list = append(list, status)
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), map[string]any{"prover": "Coq " + version, "functions": list})
	}
	for _, s := range list {
		fmt.Fprintf(c.OutOrStdout(), "%s %s\n  %s\n  proved by Coq %s\n", s.Function, s.SHA256, s.Proved, version)
	}
	return nil
}

// proofError gives an error of the prover its exit code.
func proofError(err error) error {
	switch {
	case errors.Is(err, prove.ErrNotProved):
		return &verdictError{exitRejected, err}
	case errors.Is(err, prove.ErrNoProver), errors.Is(err, prove.ErrOutOfTime):
		return &verdictError{exitUndecided, err}
	}
	return err
}
