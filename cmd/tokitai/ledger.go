package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/spf13/cobra"

	"tokitai/evidence/attest"
	"tokitai/evidence/ledger"
	"tokitai/internal/newfile"
	"tokitai/internal/readfile"
)

func newLedger() *cobra.Command {
	c := &cobra.Command{
		Use:   "ledger",
		Short: "keep signed evidence in an append-only log",
		Long: `Keep signed evidence in an append-only log: a Merkle tree whose root is signed, in plain
files (docs/ledger.md). Anyone finds an entry that was edited. Whoever has an older
checkpoint finds a fork, a second log in the place of the first.`,
		Example: `  tokitai ledger append evidence.ledger signed.intoto.jsonl --key me.key.pem --trust trust.json --origin example.org/mine
  tokitai ledger verify ledger --trust trust.json`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return wrongUse("no command given: want append, prove or verify")
		},
	}
	c.AddCommand(newLedgerAppend(), newLedgerProve(), newLedgerVerify())
	return c
}

// ledgerKeys returns the keys of a trust file for checkpoints: a key counts for a log if it counts for
// its last position.
func ledgerKeys(t *attest.Trust) ledger.Keys {
	keys := ledger.Keys{}
	for i := range t.Keys {
		keys.Public = append(keys.Public, t.Keys[i].Public())
	}
	keys.Counts = func(public ed25519.PublicKey, size int64) bool {
		for i := range t.Keys {
			if t.Keys[i].Public().Equal(public) {
				return t.Keys[i].CountsAt(max(size-1, 0))
			}
		}
		return false
	}
	return keys
}

// ledgerError gives an error of package ledger its exit code.
func ledgerError(err error) error {
	if _, ok := errors.AsType[*ledger.TamperedError](err); ok {
		return &verdictError{exitRejected, err}
	}
	return err
}

// encodedEnvelope returns an envelope as the ledger keeps it.
func encodedEnvelope(e *dsse.Envelope) (ledger.Envelope, error) {
	data, err := json.Marshal(e)
	entry := ledger.Envelope{Data: data}
	for _, s := range e.Signatures {
		entry.Keys = append(entry.Keys, s.KeyID)
	}
	return entry, err
}

// checkpointSigner is a key that signs checkpoints.
type checkpointSigner struct{ *attest.Signer }

func (s checkpointSigner) SignBytes(data []byte) ([]byte, error) {
	return s.Sign(context.Background(), data)
}

func newLedgerAppend() *cobra.Command {
	var f signFlags
	var origin, trust string
	c := &cobra.Command{
		Use:   "append DIR ENVELOPES...",
		Short: "append signed evidence to a ledger",
		Long: `Append every envelope in the files to the ledger in DIR, and sign its new checkpoint with a
key, which may be the key of the evidence or another. Each envelope must have the signatures that the
trust file asks for at its position. An envelope that the ledger has is not appended again. Without
a ledger in DIR, one is made; --origin names it, as example.org/evidence.

A crash leaves the ledger as it was or as it will be; a lock keeps two processes from
appending at once. The exit code is 3 if the ledger was edited, or an envelope is not
accepted.`,
		Example: `  tokitai ledger append mine.ledger signed.intoto.jsonl --key me.key.pem --trust trust.json --origin example.org/mine`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return wrongUse("want the folder of a ledger, and files of envelopes")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			t, err := readTrust(trust)
			if err != nil {
				return err
			}
			signers, err := f.signers(c)
			if err != nil {
				return err
			}
			if len(signers) != 1 {
				return wrongUse("%s given: one signs the checkpoint", counted(len(signers), "key"))
			}
			if origin != "" {
				if err := ledger.CheckOrigin(origin); err != nil {
					return wrongUse("--origin: %v", err)
				}
			}
			if _, err := os.Stat(filepath.Join(args[0], "checkpoint")); errors.Is(err, fs.ErrNotExist) && origin == "" {
				return wrongUse("%s has no ledger: want --origin, the name of a new one", args[0])
			}
			var list []ledger.Envelope
			var checks []func(position int64) error // of each envelope
			for _, path := range args[1:] {
				envelopes, err := readEnvelopes(path)
				if err != nil {
					return err
				}
				for i, e := range envelopes {
					entry, err := encodedEnvelope(e)
					if err != nil {
						return err
					}
					list = append(list, entry)
					checks = append(checks, func(position int64) error {
						if _, err := t.Verify(c.Context(), evidenceKinds, path, e, position); err != nil {
							return rejectedEvidence(fmt.Sprintf("%s: envelope %d", path, i+1), err)
						}
						return nil
					})
				}
			}
			checkpoint, positions, err := ledger.Append(args[0], origin, checkpointSigner{signers[0]}, ledgerKeys(t), list, func(i int, at int64) error { return checks[i](at) })
			if err != nil {
				return ledgerError(err)
			}
			w := c.OutOrStdout()
			for i, at := range positions {
				fmt.Fprintf(w, "position %d: envelope %s\n", at, ledger.Digest(list[i].Data))
			}
			_, err = fmt.Fprintf(w, "%s: %s, %s\n", args[0], checkpoint.Origin, entries(checkpoint.Size))
			return err
		},
	}
	f.register(c)
	c.Flags().StringVar(&origin, "origin", "", "the `NAME` of a new ledger, or of the one that is there")
	c.Flags().StringVar(&trust, "trust", "", "the trust `FILE`: which keys count")
	return c
}

func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return strconv.FormatInt(n, 10) + " entries"
}

func newLedgerProve() *cobra.Command {
	var trust, out string
	c := &cobra.Command{
		Use:   "prove DIR POSITION|ENVELOPES",
		Short: "prove that evidence is in a ledger",
		Long: `Write a proof that the entry at a position, or a file's first envelope, is in the ledger in DIR. It has
the entry, the hashes that lead from it to the root, and the signed checkpoint, in the
form c2sp.org/tlog-proof. 'tokitai ledger verify --proof' checks it without the ledger.`,
		Example: `  tokitai ledger prove ledger 0 --trust trust.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return wrongUse("want the folder of a ledger, and a position or a file of envelopes")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			t, err := readTrust(trust)
			if err != nil {
				return err
			}
			log, err := ledger.Open(args[0], ledgerKeys(t))
			if err != nil {
				return ledgerError(err)
			}
			position, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				envelopes, err := readEnvelopes(args[1])
				if err != nil {
					return err
				}
				positions, err := findEnvelopes(log, envelopes[:1])
				if err != nil {
					return err
				}
				if position = positions[0]; position < 0 {
					return &verdictError{exitRejected, fmt.Errorf("%s is not in the ledger %s", args[1], args[0])}
				}
			}
			if n := log.Checkpoint.Size; position < 0 || position >= n {
				return wrongUse("the ledger has positions from 0 to %d, not %d", n-1, position)
			}
			proof, err := log.Prove(position)
			if err != nil {
				return ledgerError(err)
			}
			if out == "" {
				_, err = c.OutOrStdout().Write(proof)
				return err
			}
			if err := newfile.Write(out, func(w io.Writer) error { _, err := w.Write(proof); return err }); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: position %d of %s\n", out, position, log.Checkpoint.Origin)
			return err
		},
	}
	c.Flags().StringVar(&trust, "trust", "", "the trust `FILE`: which keys count")
	c.Flags().StringVar(&out, "out", "", "write the proof to `FILE` (default standard output)")
	return c
}

// readTrust reads the file of the flag --trust, which has to be given.
func readTrust(path string) (*attest.Trust, error) {
	if path == "" {
		return nil, wrongUse("no --trust given: want the file that says which keys count")
	}
	return attest.ReadTrust(path)
}

func newLedgerVerify() *cobra.Command {
	var trust, since, proof, envelopes string
	c := &cobra.Command{
		Use:   "verify [DIR]",
		Short: "check a ledger, or a proof",
		Long: `Check all of a ledger: the signature of its checkpoint, every entry, every hash, and that
every envelope is there, has its SHA-256 and the signatures that the trust file asks for at its
position. With --since, the ledger must continue the one whose checkpoint is in that file,
which is a copy of DIR/checkpoint from an earlier day: otherwise there are two ledgers of one
origin. With --proof and without DIR, check a proof, and with --envelope that it is about
that file's first envelope.

The exit code is 2 for files that are malformed or truncated; 3 if an entry was edited or
removed, at a fork, and for signatures that do not count.`,
		Example: `  tokitai ledger verify ledger --trust trust.json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return wrongUse("unexpected argument %q", args[1])
			case (len(args) == 1) == (proof != ""):
				return wrongUse("want the folder of a ledger, or --proof")
			case proof != "" && since != "":
				return wrongUse("--since and --proof are both given: a proof says nothing about other entries")
			case envelopes != "" && proof == "":
				return wrongUse("--envelope needs --proof; 'tokitai evidence verify --ledger' looks for envelopes in a ledger")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			t, err := readTrust(trust)
			if err != nil {
				return err
			}
			w := c.OutOrStdout()
			if proof != "" {
				return verifyProof(w, t, proof, envelopes)
			}
			log, err := ledger.Read(args[0], ledgerKeys(t))
			if err != nil {
				return ledgerError(err)
			}
			for i, entry := range log.Entries {
				path := filepath.Join(args[0], "envelopes", entry.SHA256+".json")
				list, err := readEnvelopes(path)
				if err != nil {
					return err
				}
				if _, err := t.Verify(c.Context(), evidenceKinds, path, list[0], int64(i)); err != nil {
					return rejectedEvidence(fmt.Sprintf("entry %d", i), err)
				}
			}
			if since != "" {
				old, err := ledger.ReadCheckpoint(since, ledgerKeys(t))
				if err == nil {
					err = log.CheckSince(old)
				}
				if err != nil {
					return ledgerError(err)
				}
				fmt.Fprintf(w, "it continues the ledger of %s in %s\n", entries(old.Size), since)
			}
			_, err = fmt.Fprintf(w, "%s: %s, %s, root %v: nothing was edited\n", args[0], log.Checkpoint.Origin, entries(log.Checkpoint.Size), log.Checkpoint.Root)
			return err
		},
	}
	c.Flags().StringVar(&trust, "trust", "", "the trust `FILE`: which keys count")
	c.Flags().StringVar(&since, "since", "", "the ledger must continue the one with the checkpoint in `FILE`")
	c.Flags().StringVar(&proof, "proof", "", "check the proof in `FILE`")
	c.Flags().StringVar(&envelopes, "envelope", "", "the proof must be about the first envelope in `FILE`")
	return c
}

// verifyProof checks a proof without its ledger.
func verifyProof(w io.Writer, t *attest.Trust, proof, envelopes string) error {
	data, err := readfile.Regular(proof, 1<<20)
	if err != nil {
		return err
	}
	entry, position, checkpoint, err := ledger.CheckProof(proof, data, ledgerKeys(t))
	if err != nil {
		return ledgerError(err)
	}
	if envelopes != "" {
		list, err := readEnvelopes(envelopes)
		if err != nil {
			return err
		}
		given, err := encodedEnvelope(list[0])
		if err != nil {
			return err
		}
		if ledger.Digest(given.Data) != entry.SHA256 {
			return &verdictError{exitRejected, fmt.Errorf("%s proves that envelope %s is in the ledger, not %s", proof, entry.SHA256, envelopes)}
		}
	}
	_, err = fmt.Fprintf(w, "%s: envelope %s is at position %d of %s\n", proof, entry.SHA256, position, checkpoint.Origin)
	return err
}

// positionsIn returns the positions of envelopes in a ledger.
func positionsIn(envelopes []*dsse.Envelope, dir string, t *attest.Trust) ([]int64, error) {
	log, err := ledger.Open(dir, ledgerKeys(t))
	if err != nil {
		return nil, ledgerError(err)
	}
	positions, err := findEnvelopes(log, envelopes)
	if i := slices.Index(positions, -1); i >= 0 {
		return nil, &verdictError{exitRejected, fmt.Errorf("envelope %d is not in the ledger %s", i+1, dir)}
	}
	return positions, err
}

// findEnvelopes returns the positions of envelopes in a ledger, -1 for those that it does not have.
func findEnvelopes(log *ledger.Tree, envelopes []*dsse.Envelope) ([]int64, error) {
	digests := make([]string, len(envelopes))
	for i, e := range envelopes {
		entry, err := encodedEnvelope(e)
		if err != nil {
			return nil, err
		}
		digests[i] = ledger.Digest(entry.Data)
	}
	found, err := log.Find(digests...)
	if err != nil {
		return nil, ledgerError(err)
	}
	positions := make([]int64, len(digests))
	for i, d := range digests {
		at, isThere := found[d]
		if !isThere {
			at = -1
		}
		positions[i] = at
	}
	return positions, nil
}
