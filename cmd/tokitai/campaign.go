package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/evidence/attest"
	page "tokitai/evidence/html"
	"tokitai/verify"
	"tokitai/verify/origin"
)

// shardFlags is --shard.
type shardFlags struct {
	text string
	k, n int // 0 without --shard
}

// mostShards bounds N, far beyond any campaign.
const mostShards = 1 << 20

func (f *shardFlags) parse() error {
	if f.text == "" {
		return nil
	}
	k, n, ok := strings.Cut(f.text, "/")
	var errs [2]error
	f.k, errs[0] = strconv.Atoi(k)
	f.n, errs[1] = strconv.Atoi(n)
	if !ok || errors.Join(errs[:]...) != nil || f.k < 1 || f.k > f.n || f.n > mostShards {
		return wrongUse("--shard is %q, want K/N with 1 ≤ K ≤ N, such as 3/8", f.text)
	}
	return nil
}

func (f *shardFlags) isSet() bool { return f.n > 0 }

// notOfCampaign are the flags of verify that do not change which results a campaign has.
var notOfCampaign = []string{"out", "resume", "shard", "device", "deadline"}

// campaignArgs returns the arguments by which a merge knows what was verified.
func campaignArgs(c *cobra.Command, kind string, names []string) (args []string, err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(notOfCampaign, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			args = append(args, "--"+f.Name+"="+v)
		}
	})
	args = append(args, "--device="+kind, "--")
	for _, name := range names {
		if isDefinitionFile(name) {
			if name, err = filepath.Abs(name); err != nil {
				return nil, err
			}
		}
		args = append(args, name)
	}
	return args, nil
}

// runShard runs one shard of a campaign.
func (f *verifyFlags) runShard(c *cobra.Command, v *verification, dev engine.Device, names []string) error {
	switch {
	case f.out == "" || evidence.IsArchive(f.out):
		return wrongUse("--shard needs --out, a folder for the files of the shards")
	case f.only != "" || f.budget > 0:
		return wrongUse("--shard does not go with --case or --budget: a shard has the cases that the cut gives it")
	case f.json || f.html != "":
		return wrongUse("--shard does not go with --json or --html: 'tokitai evidence merge' writes the reports")
	}
	var err error
	if v.options.Program, err = programSHA256(); err != nil {
		return err
	}
	undo, err := prepareFolder(f.out)
	if err != nil {
		return err
	}
	defer undo()
	args, err := campaignArgs(c, dev.Kind(), names)
	if err != nil {
		return err
	}
	verify.Share(v.targets)
	options := func(t *verify.Target) verify.Options { return v.terms.options(v.options, t) }
	v.options.Part = func(string) bool { return true } // which a journal's keys depend on
	all, cut := v.targets, verify.CutCases(v.targets, options, f.shard.n)
	path := filepath.Join(f.out, (&verify.Shard{K: f.shard.k, N: f.shard.n}).FileName())
	if _, err := os.Stat(path); f.resume && err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "there is no %s to resume from: starting from the beginning\n", path)
	}
	journal, err := verify.OpenJournal(path, f.resume)
	if err != nil {
		return err
	}
	about := dev.Describe()
	head := &verify.Shard{
		Schema: verify.ShardSchema, K: f.shard.k, N: f.shard.n, Tool: toolName, Version: version, Program: v.options.Program,
		Device: dev.Kind(), Machine: strings.Join([]string{about.Name, about.Architecture, about.Driver}, ", "), Level: v.options.Level.String(), Seed: v.options.Seed, Cut: cut.Hash(all), Args: args, Host: origin.Host(v.options.Program),
	}
	if err := journal.BeginShard(head); err != nil {
		journal.Close()
		return wrongUse("%v", err)
	}
	v.options.Journal = journal
	v.targets, v.parts = nil, nil
	for i, t := range all {
		own := map[string]bool{}
		for name, k := range cut[i] {
			if k == f.shard.k {
				own[name] = true
			}
		}
		if len(own) > 0 {
			v.targets, v.parts = append(v.targets, t), append(v.parts, own)
		}
	}
	progress := v.newProgress(c)
	err = v.run(c.Context(), progress, func(r *verify.Result) {
		if r.Report.Verdict == evidence.Rejected {
			isRejected.Store(true)
		}
	})
	progress.end()
	if err = errors.Join(err, journal.Close()); err != nil {
		return err
	}
	if taken := journal.Taken(); taken > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "%s resumed from %s\n", counted(taken, "case"), path)
	}
	v.warn(c.ErrOrStderr())
	return f.shardVerdict(c, v, all, options, cut, path)
}

// shardVerdict says what a shard found, and whether all of its cases have a result.
func (f *verifyFlags) shardVerdict(c *cobra.Command, v *verification, all []*verify.Target, options func(*verify.Target) verify.Options, cut verify.Cut, path string) error {
	results, err := verify.ReadShard(path)
	if err != nil {
		return err
	}
	w := c.OutOrStdout()
	cases := 0
	for _, own := range v.parts {
		cases += len(own)
	}
	fmt.Fprintf(w, "shard %d/%d: %s of %d lowerings and formats\n", f.shard.k, f.shard.n, counted(cases, "case"), len(v.targets))
	for _, r := range v.reports() {
		if r.Verdict == evidence.Rejected {
			fmt.Fprintf(w, "rejected: %s\n", oneLine(r.Reason))
		}
	}
	fmt.Fprintf(w, "results: %s\n", path)
	if faults := v.judgeFaults(); len(faults) > 0 {
		return &verdictError{exitRejected, errors.New(faults[0])}
	}
	if n := v.count(evidence.Rejected); n > 0 {
		return &verdictError{exitRejected, fmt.Errorf("%d of %d are rejected", n, len(v.targets))}
	}
	for _, m := range verify.FindMissing(all, options, cut, []*verify.ShardResults{results}) {
		if m.Shard == f.shard.k {
			return &verdictError{exitUndecided, errors.New(m.String())}
		}
	}
	return nil
}

func newEvidenceMerge() *cobra.Command {
	var out, htmlFile, trust string
	var asJSON bool
	c := &cobra.Command{
		Use:   "merge --out DIR SHARD...",
		Short: "put the shards of a campaign together",
		Long: `Put the results of all shards of 'tokitai verify --shard' together and write the reports that
one run would have written. No kernel runs, and no device is needed. Every case must have a
result, in the shard that the cut gives it to; a case that ran twice counts once and must have
given the same. Shards of another version, program, level, seed or cut are refused, and so is a
shard that is given twice. The reports say the SHA-256 of the list of the shards' files.

With --trust, every shard must be signed: the envelope that 'tokitai evidence sign SHARD'
writes must be beside it, with the signatures that the trust file asks for. Envelopes
among the arguments are left out, so that shard-*.jsonl names the shards.

The exit code is 0 if all are accepted, 2 for files that are no shards of one campaign or no
envelopes, 3 if a kernel is rejected or the signature of a shard does not count, and 4 if
shards or cases are missing: each shard is named, and no report is written.`,
		Example: `  tokitai evidence merge --out merged shards/shard-1-of-2.jsonl shards/shard-2-of-2.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return wrongUse("no shards given")
			case out == "":
				return wrongUse("no --out given: want the folder or archive for the reports")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			undo, err := prepareReports(out)
			if err != nil {
				return err
			}
			defer undo()
			args = slices.DeleteFunc(slices.Clone(args), func(path string) bool { return strings.HasSuffix(path, attest.BundleSuffix) })
			v, shards, err := merged(c.Context(), args)
			if err != nil {
				return err
			}
			signers := ""
			if trust != "" {
				if signers, err = shardSigners(c.Context(), shards, trust); err != nil {
					return err
				}
			}
			w := c.OutOrStdout()
			if asJSON {
				err = v.printJSON(w)
			} else {
				table := newVerdictTable(w, v.targets)
				table.head()
				for _, r := range v.reports() {
					if v.isTold(r) {
						table.row(r)
					}
				}
				v.print(w, out)
			}
			if err == nil {
				err = evidence.Write(out, v.reports())
			}
			if err == nil {
				err = writePage(htmlFile, v.reports(), page.Extra{})
			}
			if err != nil {
				return err
			}
			if !asJSON {
				if signers != "" {
					fmt.Fprintf(w, "shards signed by %s\n", oneLine(signers))
				}
				fmt.Fprintf(w, "reports: %s\n", reportsPath(out))
				if err := v.printEnd(w); err != nil {
					return err
				}
			}
			return v.verdict()
		},
	}
	c.Flags().StringVar(&out, "out", "", "write the reports to the folder `DIR`, or to the archive NAME.zip")
	c.Flags().StringVar(&trust, "trust", "", "every shard must be signed by keys that this trust `FILE` has")
	htmlFlag(c, &htmlFile)
	jsonFlag(c, &asJSON)
	return c
}

// shardSigners checks the envelopes beside the files of shards, and returns who signed how many.
func shardSigners(ctx context.Context, shards []*verify.ShardResults, trust string) (string, error) {
	t, err := readTrust(trust)
	if err != nil {
		return "", err
	}
	signed := map[string]int{}
	for _, r := range shards {
		path := strings.TrimSuffix(r.Path, shardSuffix) + attest.BundleSuffix
		envelopes, err := readEnvelopes(path)
		if err != nil {
			return "", fmt.Errorf("shard %s: %w", r.Shard.Name(), err)
		}
		v, err := t.Verify(ctx, evidenceKinds, path, envelopes[0], attest.NoPosition)
		switch {
		case err != nil:
			return "", rejectedEvidence(fmt.Sprintf("shard %s: %s", r.Shard.Name(), path), err)
		case v.Statement.PredicateType != shardFileSchema || !v.Statement.Has(r.SHA256):
			return "", &verdictError{exitRejected, fmt.Errorf("%s is not about %s as it is now, whose SHA-256 is %s", path, r.Path, r.SHA256)}
		}
		for _, name := range v.Signers {
			signed[name]++
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(signed)) {
		list = append(list, fmt.Sprintf("%s (%d)", name, signed[name]))
	}
	return strings.Join(list, ", "), nil
}

// merged returns the verification that shards make together, and the shards.
func merged(ctx context.Context, paths []string) (*verification, []*verify.ShardResults, error) {
	var shards []*verify.ShardResults
	for _, path := range paths {
		r, err := verify.ReadShard(path)
		if err != nil {
			return nil, nil, err
		}
		shards = append(shards, r)
	}
	if err := verify.CheckShards(shards); err != nil {
		return nil, nil, err
	}
	head := shards[0].Shard
	program, err := programSHA256()
	if err != nil {
		return nil, nil, err
	}
	switch {
	case head.Version != version:
		return nil, nil, wrongUse("%s is of version %s, and this program is %s: merge with that version", paths[0], head.Version, version)
	case head.Program != program:
		return nil, nil, wrongUse("%s was made by another build of the program (SHA-256 %s), this one is %s: merge with that build", paths[0], head.Program, program)
	}
	var f verifyFlags
	command := f.command()
	if err := command.ParseFlags(head.Args); err != nil {
		return nil, nil, wrongUse("%s: %v", paths[0], err)
	}
	options, terms, err := f.judgeFlags.parse()
	if err != nil {
		return nil, nil, err
	}
	names := command.Flags().Args()
	targets, _, err := f.targets(backendOf(head.Device), names)
	if err == nil {
		targets, err = terms.apply(targets)
	}
	if err != nil {
		return nil, nil, err
	}
	options.Device, options.InterpretAll = head.Device, f.interpret == "all"
	options.Program, options.Part = head.Program, func(string) bool { return true }
	v := &verification{targets: targets, terms: terms, options: options}
	v.isTold = func(r *evidence.Report) bool { return f.lowering != "" || r.Verdict != evidence.Skipped }
	verify.Share(targets)
	each := func(t *verify.Target) verify.Options { return terms.options(options, t) }
	cut := verify.CutCases(targets, each, head.N)
	if cut.Hash(targets) != head.Cut {
		return nil, nil, wrongUse("%s: the shards were cut from other cases than this program has for %s: a definition has changed", paths[0], strings.Join(head.Args, " "))
	}
	if missing := verify.FindMissing(targets, each, cut, shards); len(missing) > 0 {
		return nil, nil, &missingError{missing, head.N}
	}
	for i, t := range targets {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		r, err := verify.Glue(t, each(t), cut[i], shards)
		if err != nil {
			return nil, nil, err
		}
		r.Report.Host = head.Host
		v.results = append(v.results, r)
	}
	return v, shards, nil
}

// missingError says which shards lack results.
type missingError struct {
	missing []verify.Missing
	n       int
}

func (e *missingError) Error() string {
	cases := 0
	for _, m := range e.missing {
		cases += m.Cases
	}
	return fmt.Sprintf("%d of %d shards lack %s: nothing is decided", len(e.missing), e.n, counted(cases, "case"))
}

// Detail names the shards.
func (e *missingError) Detail() string {
	var b strings.Builder
	for _, m := range e.missing {
		fmt.Fprintln(&b, m)
	}
	return b.String()
}

var _ detailed = (*missingError)(nil)

func isMissing(err error) bool {
	_, ok := errors.AsType[*missingError](err)
	return ok
}
