package main

import (
	"fmt"

	"github.com/spf13/cobra"

	backends "tokitai/backend/all"
	"tokitai/evidence"
	page "tokitai/evidence/html"
	"tokitai/verify"
)

// evidenceFlags are the flags of evidence.
type evidenceFlags struct {
	device string
	replay int
	html   string
	json   bool
}

func newEvidence() *cobra.Command {
	var f evidenceFlags
	c := &cobra.Command{
		Use:   "evidence REPORTS",
		Short: "check the reports of verify",
		Long: `Check the reports in a folder or archive written by 'tokitai verify --out' or 'tokitai
run --report', on this machine or another: every report must have the SHA-256 that the
index gives, no report may contradict itself, and the index must agree with the
reports. Only regular files are read, archives of at most 64 MiB, reports of at most
64 MiB each and 1 GiB in all, unpacked. Keys that verify does not write are errors, and
so are files in an archive that the index does not list.

With --replay N, N cases spread over the reports run again here, and must give the
same results to the last bit. This works on any device: a kernel that promises exact
bits gives the same ones everywhere, so reports from a GPU can be checked without one.
What a GPU's matrix instructions computed is computed by the report's model instead.
Reports of definitions that have changed since, of kernels that do not promise exact
bits, and of a caller's own data are not replayed. Nor are cases whose inputs another
version of the program made differently, and cases of more than 2^28 elements: they are
counted apart, with the reason.

With --html, the reports are also written as one HTML page, as verify --html does; what
was replayed is not on it.

After an interrupt, the results so far are printed. The exit code is 1 if the reports
cannot be read or contradict themselves, 3 if a replayed case gives other results, and 4
if none of the cases could be replayed, or after an interrupt.`,
		Example: `  tokitai verify relu2.forward --dtype f16 --level smoke --out relu2.zip
  tokitai evidence relu2.zip --replay 3`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return wrongUse("no folder or archive given")
			case len(args) > 1:
				return wrongUse("unexpected argument %q", args[1])
			case f.replay < 0:
				return wrongUse("--replay is %d, want a number of cases", f.replay)
			case f.replay == 0 && c.Flags().Changed("device"):
				return wrongUse("--device needs --replay: without it nothing runs")
			}
			return checkDevice(f.device)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return []cobra.Completion{"zip"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	c.Flags().IntVar(&f.replay, "replay", 0, "run `N` of the cases again")
	deviceFlag(c.Flags(), &f.device, "cpu", "replay on")
	htmlFlag(c, &f.html)
	jsonFlag(c, &f.json)
	c.RegisterFlagCompletionFunc("device", cobra.FixedCompletions(deviceNames, cobra.ShellCompDirectiveNoFileComp))
	c.RegisterFlagCompletionFunc("replay", cobra.NoFileCompletions)
	c.AddCommand(newEvidenceKey(), newEvidenceTrust(), newEvidenceSign(), newEvidenceVerify(), newEvidenceMerge())
	return c
}

// checkedEvidence is the JSON output of evidence.
type checkedEvidence struct {
	Reports     string                 `json:"reports"` // the folder or archive
	Counts      evidence.VerdictCounts `json:"counts"`
	Totals      evidence.Totals        `json:"totals"`
	Replayed    int                    `json:"replayed"`
	Differ      []string               `json:"differ"`       // cases that gave different results
	NotReplayed []notReplayed          `json:"not_replayed"` // cases that cannot be compared
	Interrupted bool                   `json:"interrupted"`  // before all cases were replayed
}

// notReplayed is a case that cannot be compared.
type notReplayed struct {
	Case   string `json:"case"`
	Reason string `json:"reason"`
}

func (f *evidenceFlags) run(c *cobra.Command, path string) error {
	index, reports, err := evidence.ReadRun(path)
	if err != nil {
		return err
	}
	if err := writePage(f.html, reports, page.Extra{}); err != nil {
		return err
	}
	result := checkedEvidence{Reports: path, Counts: index.Counts, Totals: index.Totals, Differ: []string{}, NotReplayed: []notReplayed{}}
	w := c.OutOrStdout()
	if !f.json {
		fmt.Fprintf(w, "%s of %s %s: %s\n", counted(index.Totals.Reports, "report"), index.Tool, index.Version, index.Counts)
		fmt.Fprintf(w, "%s, %s outputs compared, %s\n", counted(index.Totals.Cases, "case"), rounded(index.Totals.Elements), counted(int(index.Totals.Mismatches), "mismatch"))
		fmt.Fprintf(w, "every report has the SHA-256 in the index, and is consistent\n")
		flush(w)
	}
	if f.replay > 0 {
		if err := f.replayCases(c, reports, &result); err != nil {
			return err
		}
	}
	if f.json {
		if err := printJSON(w, result); err != nil {
			return err
		}
	} else if f.replay > 0 {
		for _, x := range result.NotReplayed {
			fmt.Fprintf(w, "not replayed: %s: %s\n", x.Case, x.Reason)
		}
		for _, name := range result.Differ {
			fmt.Fprintf(w, "differs: %s\n", name)
		}
		fmt.Fprintf(w, "%s run again on %s: %d with the same results", counted(result.Replayed, "case"), f.device, result.Replayed-len(result.Differ))
		if n := len(result.NotReplayed); n > 0 {
			fmt.Fprintf(w, "; %d not replayed", n)
		}
		fmt.Fprintln(w)
		flush(w)
	}
	return f.verdict(&result)
}

// verdict returns the error that decides the exit code.
func (f *evidenceFlags) verdict(result *checkedEvidence) error {
	switch n := len(result.Differ); {
	case n > 0:
		return &verdictError{exitRejected, fmt.Errorf("%d of %d cases gave different results", n, result.Replayed)}
	case result.Interrupted:
		return &verdictError{exitUndecided, fmt.Errorf("interrupted: %d of %d cases were run again", result.Replayed, f.replay)}
	case f.replay > 0 && result.Replayed == 0:
		return &verdictError{exitUndecided, fmt.Errorf("none of %s could be replayed", counted(len(result.NotReplayed), "case"))}
	}
	return nil
}

// replayCases runs cases again, equally many of each report.
func (f *evidenceFlags) replayCases(c *cobra.Command, reports []*evidence.Report, result *checkedEvidence) error {
	dev, err := backends.Open(f.device)
	if err != nil {
		return err
	}
	f.device = dev.Name()
	dev.Close()
	targets := verifyTargets(dev.Backend())
	type replay struct {
		target *verify.Target // nil for the probe of an instruction
		report *evidence.Report
	}
	var list []replay
	for _, r := range reports {
		if t := targetOf(targets, r); t != nil || verify.IsProbe(r) && len(r.CaseList) > 0 {
			list = append(list, replay{t, r})
		}
	}
	if len(list) == 0 {
		return &verdictError{exitUndecided, fmt.Errorf("none of %s can be replayed: their data are the caller's own, their definitions have changed, or they promise no bits", counted(len(reports), "report"))}
	}
	progress := startProgress(c)
	defer progress.end()
	for i := range f.replay {
		x := list[i%len(list)]
		rounds := (f.replay + len(list) - 1) / len(list)
		at := x.report.CaseList[(2*(i/len(list))+1)*len(x.report.CaseList)/(2*rounds)]
		progress.say("%d of %d cases run again", i, f.replay)
		progress.of(float64(i), 0, float64(f.replay))
		var again verify.Replayed
		err := untilInterrupted(c.Context(), func() (err error) {
			again, err = verify.Replay(c.Context(), x.target, x.report, at, verify.Options{
				Device: f.device, Open: backends.Open, Tool: toolName, Version: version, IsNamed: true,
			})
			return err
		})
		if c.Context().Err() != nil {
			result.Interrupted = true
			return nil
		}
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s %s %s", x.report.Lowering, x.report.DType, at.Name)
		if !again.IsCompared() {
			result.NotReplayed = append(result.NotReplayed, notReplayed{name, again.Reason})
			continue
		}
		if result.Replayed++; again.Comparison != evidence.SameResults {
			result.Differ = append(result.Differ, name)
			isRejected.Store(true)
		}
	}
	return nil
}

// targetOf returns the target that computes a report's definition by its accumulation rule: the report's
// own lowering, where the device has it, otherwise the first. It returns nil if there is none.
func targetOf(targets []*verify.Target, r *evidence.Report) *verify.Target {
	if r.Generator.Seed == nil || r.Contract != evidence.ContractBits || len(r.CaseList) == 0 {
		return nil
	}
	given, names, err := parseParams(r.Params)
	if err != nil {
		return nil
	}
	var first *verify.Target
	for _, t := range targets {
		if len(names) > 0 {
			if t.Operation == nil || t.Operation.Name != r.Op || !hasAll(t.FixableParams(), names) {
				continue
			}
			if t, err = t.Fix(given); t == nil || err != nil {
				continue
			}
		}
		if t.Definition.Hash() == r.Definition.SHA256 && t.DType.String() == r.DType && (t.Lowering.Promise.AccumFor != nil || t.Lowering.Promise.Accum.String() == r.Model) {
			if t.ID() == r.Lowering {
				return t
			}
			if first == nil {
				first = t
			}
		}
	}
	return first
}
