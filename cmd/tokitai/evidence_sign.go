package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"tokitai/evidence"
	"tokitai/evidence/attest"
	"tokitai/internal/newfile"
	"tokitai/internal/readfile"
)

// signFlags are the keys that sign.
type signFlags struct {
	keys, agents []string
	passphrase   string
}

func (f *signFlags) register(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.keys, "key", nil, "sign with the private key in `FILE`, PKCS#8 in PEM; may be repeated")
	c.Flags().StringArrayVar(&f.agents, "agent", nil, "sign with the ssh-agent, with the key whose public key is in `FILE`; may be repeated")
	passphraseFlag(c, &f.passphrase)
}

func passphraseFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "passphrase-file", "", "read the passphrase of private keys from the first line of `FILE`; else a terminal is asked")
}

// signers returns the signers of the flags.
func (f *signFlags) signers(c *cobra.Command) ([]*attest.Signer, error) {
	var list []*attest.Signer
	for _, path := range f.keys {
		s, err := attest.ReadSigner(path, func() ([]byte, error) { return passphrase(c, f.passphrase, "passphrase of "+path) })
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	for _, path := range f.agents {
		public, err := attest.ReadPublic(path)
		if err != nil {
			return nil, err
		}
		s, err := attest.AgentSigner(attest.Socket(), public)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return nil, wrongUse("no key given: want --key or --agent")
	}
	return list, nil
}

// passphrase reads a passphrase from a file, or from the terminal.
func passphrase(c *cobra.Command, file, question string) ([]byte, error) {
	if file != "" {
		data, err := readfile.Regular(file, 1<<16)
		line, _, _ := bytes.Cut(data, []byte("\n"))
		return bytes.TrimSuffix(line, []byte("\r")), err
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, wrongUse("%s: standard input is no terminal, want --passphrase-file", question)
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s: ", question)
	defer fmt.Fprintln(c.ErrOrStderr())
	return term.ReadPassword(int(os.Stdin.Fd()))
}

func newEvidenceKey() *cobra.Command {
	var secret string
	var isPlain bool
	c := &cobra.Command{
		Use:   "key NAME",
		Short: "make a key to sign evidence with",
		Long: `Make an ed25519 key: the private key in NAME.key.pem (PKCS#8), which only its owner can
read, and the public key in NAME.pub.pem (SubjectPublicKeyInfo). Print the key's id, the
SHA-256 of the latter. The private key is encrypted with a passphrase, unless --plain
is given. Files that exist are not replaced. OpenSSL reads and makes such keys too.`,
		Example: `  tokitai evidence key mine --plain`,
		Args:    oneArgument("name"),
		RunE: func(c *cobra.Command, args []string) error {
			var phrase []byte
			if !isPlain {
				var err error
				if phrase, err = passphrase(c, secret, "passphrase of the new key"); err != nil {
					return err
				}
				if len(phrase) == 0 {
					return wrongUse("the passphrase is empty: want one, or --plain")
				}
			} else if secret != "" {
				return wrongUse("--plain and --passphrase-file are both given")
			}
			private, public, err := attest.NewKey(phrase)
			if err != nil {
				return err
			}
			if err := createFile(args[0]+".key.pem", private, 0o600); err != nil {
				return err
			}
			if err := createFile(args[0]+".pub.pem", public, 0o644); err != nil {
				return errors.Join(err, os.Remove(args[0]+".key.pem"))
			}
			key, err := attest.ReadPublic(args[0] + ".pub.pem")
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "key %s\nprivate: %s.key.pem\npublic: %s.pub.pem\n", attest.KeyID(key), args[0], args[0])
			return err
		},
	}
	c.Flags().BoolVar(&isPlain, "plain", false, "do not encrypt the private key")
	passphraseFlag(c, &secret)
	return c
}

// oneArgument accepts one argument, which is called what.
func oneArgument(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return wrongUse("no %s given", what)
		case 1:
			return nil
		}
		return wrongUse("unexpected argument %q", args[1])
	}
}

// createFile writes a file that does not exist yet.
func createFile(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func newEvidenceTrust() *cobra.Command {
	var from, to int64
	var threshold int
	c := &cobra.Command{
		Use:   "trust FILE NAME=KEY.pub.pem...",
		Short: "add public keys to a trust file",
		Long: `Add public keys, each with a name, to the trust file FILE, or make it. --from and --to say
for which positions of a ledger the keys count, the first being 0; no clock decides.
Without --to they count from there on, and for evidence that is in no ledger. With --to
and a name that the file has, its key is retired: it counts up to that position and no
further. --threshold says how many different keys must have signed.

The file is JSON (docs/signatures.md has its members): "tokitai evidence verify --trust"
reads it.`,
		Example: `  tokitai evidence trust others.json me=me.pub.pem`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return wrongUse("no trust file given")
			}
			for _, a := range args[1:] {
				if name, path, ok := strings.Cut(a, "="); !ok || name == "" || path == "" {
					return wrongUse("%q is no key, want NAME=KEY.pub.pem", a)
				}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			t, err := attest.ReadTrust(args[0])
			if errors.Is(err, fs.ErrNotExist) {
				t, err = &attest.Trust{Schema: attest.TrustSchema, Threshold: 1}, nil
			}
			if err != nil {
				return err
			}
			var end *int64
			if c.Flags().Changed("to") {
				end = &to
			}
			for _, a := range args[1:] {
				name, path, _ := strings.Cut(a, "=")
				public, err := attest.ReadPublic(path)
				if err != nil {
					return err
				}
				k := attest.Trusted(name, public, from, end)
				isKnown := false
				for i := range t.Keys {
					if t.Keys[i].ID == k.ID && t.Keys[i].Name == name {
						if !c.Flags().Changed("from") {
							k.From = t.Keys[i].From
						}
						t.Keys[i], isKnown = k, true
					}
				}
				if !isKnown {
					t.Keys = append(t.Keys, k)
				}
			}
			if threshold != 0 {
				t.Threshold = threshold
			}
			if err := t.Check(); err != nil {
				return wrongUse("%s: %v", args[0], err)
			}
			data, err := t.JSON()
			if err == nil {
				err = newfile.Write(args[0], func(w io.Writer) error { _, err := w.Write(data); return err })
			}
			if err == nil {
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s, %d must sign\n", args[0], counted(len(t.Keys), "key"), t.Threshold)
			}
			return err
		},
	}
	c.Flags().Int64Var(&from, "from", 0, "the first `POSITION` of a ledger for which the keys count")
	c.Flags().Int64Var(&to, "to", 0, "the last `POSITION` for which they count")
	c.Flags().IntVar(&threshold, "threshold", 0, "how many keys must sign: `N`")
	return c
}

func newEvidenceSign() *cobra.Command {
	var f signFlags
	var out, predicate, subjects string
	c := &cobra.Command{
		Use:   "sign EVIDENCE",
		Short: "sign reports",
		Long: `Sign evidence: the reports in a folder or archive of 'tokitai verify --out', 'tokitai check
--out' or 'tokitai run --report', the JSON file of one report or soak, the folder of a
training run, the JSON of an answer with its receipt, or the file of a campaign's shard.
Each becomes an in-toto statement in a DSSE envelope, signed with ed25519
(docs/signatures.md). Subjects of a report are the SHA-256 of the definition, of the
kernel and of the report's file. A file of envelopes, as this command writes it, gets
further signatures.

The private key is in a PEM file (--key), or an ssh-agent has it (--agent).
--predicate-type signs any JSON file as a predicate of that type, about the files whose
SHA-256 are in a file as sha256sum writes it.`,
		Example: `  tokitai evidence sign call --key me.key.pem`,
		Args:    oneArgument("folder, archive or file"),
		RunE: func(c *cobra.Command, args []string) error {
			signers, err := f.signers(c)
			if err != nil {
				return err
			}
			envelopes, err := f.sign(c, args[0], signers, predicate, subjects)
			if err != nil {
				return err
			}
			if out == "" {
				out = strings.TrimRight(args[0], "/")
				for _, suffix := range []string{attest.BundleSuffix, shardSuffix, ".zip", ".json"} {
					if base, ok := strings.CutSuffix(out, suffix); ok {
						out = base
						break
					}
				}
				out += attest.BundleSuffix
			}
			data, err := attest.Encode(envelopes)
			if err == nil {
				err = newfile.Write(out, func(w io.Writer) error { _, err := w.Write(data); return err })
			}
			if err == nil {
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s signed\n", out, counted(len(envelopes), "statement"))
			}
			return err
		},
	}
	f.register(c)
	c.Flags().StringVar(&out, "out", "", "write the envelopes to `FILE` (default EVIDENCE.intoto.jsonl)")
	c.Flags().StringVar(&predicate, "predicate-type", "", "sign a JSON file as a predicate of the type `URI`")
	c.Flags().StringVar(&subjects, "subjects", "", "what it is about: `FILE` has lines of sha256sum")
	return c
}

func (f *signFlags) sign(c *cobra.Command, path string, signers []*attest.Signer, predicate, subjects string) ([]*dsse.Envelope, error) {
	if (predicate == "") != (subjects == "") {
		return nil, wrongUse("--predicate-type and --subjects need each other")
	}
	if predicate != "" {
		s, err := givenStatement(path, predicate, subjects)
		if err != nil {
			return nil, err
		}
		e, err := attest.Sign(c.Context(), s, signers...)
		return []*dsse.Envelope{e}, err
	}
	if strings.HasSuffix(path, attest.BundleSuffix) {
		envelopes, err := readEnvelopes(path)
		for _, e := range envelopes {
			if err == nil {
				err = attest.AddSignatures(c.Context(), e, signers...)
			}
		}
		return envelopes, err
	}
	reports, err := signable(path)
	if err != nil {
		return nil, err
	}
	var envelopes []*dsse.Envelope
	for _, r := range reports {
		s, err := attest.NewStatement(evidenceKinds, r.name, r.data)
		if err != nil {
			return nil, err
		}
		e, err := attest.Sign(c.Context(), s, signers...)
		if err != nil {
			return nil, err
		}
		envelopes = append(envelopes, e)
	}
	return envelopes, nil
}

// givenStatement returns the statement whose predicate is a file and whose subjects are listed in another.
func givenStatement(path, predicate, subjects string) (*attest.Statement, error) {
	data, err := readfile.Regular(path, evidence.MaxReportBytes)
	if err != nil {
		return nil, err
	}
	if !json.Valid(data) {
		return nil, &attest.FormatError{Path: path, Reason: "is not JSON"}
	}
	list, err := readfile.Regular(subjects, evidence.MaxIndexBytes)
	if err != nil {
		return nil, err
	}
	s := &attest.Statement{Type: attest.StatementType, PredicateType: predicate, Predicate: data}
	for line := range strings.Lines(string(list)) {
		digest, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || len(digest) != 64 {
			return nil, &attest.FormatError{Path: subjects, Reason: fmt.Sprintf("%q is no line of sha256sum", readfile.Clip(line))}
		}
		s.Subject = append(s.Subject, attest.SHA256(name, digest))
	}
	if len(s.Subject) == 0 {
		return nil, &attest.FormatError{Path: subjects, Reason: "lists nothing"}
	}
	return s, nil
}

func readEnvelopes(path string) ([]*dsse.Envelope, error) {
	data, err := readfile.Regular(path, attest.MaxBytes)
	if err != nil {
		return nil, err
	}
	return attest.Decode(path, data)
}

// checkedEnvelope is one envelope in the JSON output of evidence verify.
type checkedEnvelope struct {
	About    string           `json:"about"`
	Signers  []string         `json:"signers"`
	Subjects []attest.Subject `json:"subjects"`
	Position *int64           `json:"position,omitempty"`
	Ignored  []string         `json:"ignored,omitempty"`
}

func newEvidenceVerify() *cobra.Command {
	var trust, blob, ledger string
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify ENVELOPES",
		Short: "check the signatures of evidence",
		Long: `Check every envelope in a file: that as many of the trusted keys as the trust file asks for
have signed it, that the report is consistent, and that the statement's subjects are
those of the report. With --blob, one of the statements must be about that file: its SHA-256
must be among the subjects. With --ledger, every envelope must be in that ledger, whose
checkpoint a trusted key must have signed, and its position decides which keys count;
'tokitai ledger verify' checks the rest of the ledger.

What was signed is what somebody states. 'tokitai evidence REPORTS --replay' computes it
again.

The exit code is 2 for files that are malformed, truncated or of a newer version; 3 if a
signature is wrong, its key is not trusted, retired or swapped with another, or the
signatures are too few, if a report contradicts itself, or if the ledger does not have
the envelope or its entry was edited.`,
		Example: `  tokitai evidence verify signed.intoto.jsonl --trust trust.json`,
		Args:    oneArgument("file of envelopes"),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := readTrust(trust)
			if err != nil {
				return err
			}
			envelopes, err := readEnvelopes(args[0])
			if err != nil {
				return err
			}
			digest := ""
			if blob != "" {
				data, err := readfile.Regular(blob, 1<<32)
				if err != nil {
					return err
				}
				digest = evidence.FingerprintOf(data)
			}
			positions, err := positionsOf(envelopes, ledger, t)
			if err != nil {
				return err
			}
			var list []checkedEnvelope
			isAbout := digest == ""
			for i, e := range envelopes {
				v, err := t.Verify(c.Context(), evidenceKinds, fmt.Sprintf("%s: line %d", args[0], i+1), e, positions[i])
				if err != nil {
					return rejectedEvidence(fmt.Sprintf("%s: envelope %d", args[0], i+1), err)
				}
				x := checkedEnvelope{About: v.About, Signers: v.Signers, Subjects: v.Statement.Subject, Ignored: v.Ignored}
				if positions[i] >= 0 {
					x.Position = &positions[i]
				}
				list = append(list, x)
				isAbout = isAbout || v.Statement.Has(digest)
			}
			if !isAbout {
				return &verdictError{exitRejected, fmt.Errorf("%s: no statement is about %s, whose SHA-256 is %s", args[0], blob, digest)}
			}
			w := c.OutOrStdout()
			if asJSON {
				return printJSON(w, list)
			}
			for _, x := range list {
				at := ""
				if x.Position != nil {
					at = fmt.Sprintf(", at position %d of the ledger", *x.Position)
				}
				fmt.Fprintf(w, "%s\n  signed by %s%s\n", oneLine(x.About), oneLine(strings.Join(x.Signers, ", ")), at)
				for _, reason := range x.Ignored {
					fmt.Fprintf(w, "  not counted: %s\n", oneLine(reason))
				}
			}
			_, err = fmt.Fprintf(w, "%s: the signatures of %s hold\n", args[0], counted(len(list), "envelope"))
			return err
		},
	}
	c.Flags().StringVar(&trust, "trust", "", "the trust `FILE`")
	c.Flags().StringVar(&blob, "blob", "", "a statement must be about this `FILE`")
	c.Flags().StringVar(&ledger, "ledger", "", "the envelopes must be in the ledger in `DIR`")
	jsonFlag(c, &asJSON)
	return c
}

// rejectedEvidence gives an error of package attest its exit code.
func rejectedEvidence(what string, err error) error {
	if _, ok := errors.AsType[*attest.FormatError](err); ok {
		return err
	}
	return &verdictError{exitRejected, fmt.Errorf("%s: %w", what, err)}
}

// positionsOf returns the positions of envelopes in a ledger, or NoPosition for each without one.
func positionsOf(envelopes []*dsse.Envelope, ledger string, t *attest.Trust) ([]int64, error) {
	positions := make([]int64, len(envelopes))
	for i := range positions {
		positions[i] = attest.NoPosition
	}
	if ledger == "" {
		return positions, nil
	}
	return positionsIn(envelopes, ledger, t)
}
