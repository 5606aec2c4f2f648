// Package ledger keeps evidence in an append-only log: a Merkle tree in tiles, with a signed
// checkpoint, in plain files as c2sp.org/tlog-tiles describes them.
//
//	checkpoint                  origin, size and root of the tree, signed
//	tile/0/000, tile/0/000.p/7  hashes, 256 in a whole tile; .p/7 is one that has 7 so far
//	tile/entries/000.p/7        entries: each names an envelope by its SHA-256
//	envelopes/SHA256.json       the envelopes
//	lock                        held while a process appends
//
// Anyone finds an edited entry, since the checkpoint's root is the hash of all of them; whoever holds
// an older checkpoint finds a fork, in which entries before it are others. A position in the log
// takes the place of a date: it says which signing keys count.
//
// Read checks all of a log. Open reads of it what a question needs, some tiles for each level of the
// tree, and checks that against the signed root; Append does so too.
//
// It does not know what envelopes say. Start with Append, Open and Read.
package ledger

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"tokitai/internal/readfile"
)

// EntrySchema is the schema of entries.
const EntrySchema = "urn:tokitai:entry:1"

// Entry is an entry of the log.
type Entry struct {
	Schema string   `json:"schema"`
	SHA256 string   `json:"sha256"` // of the envelope
	Keys   []string `json:"keys"`   // that signed it
}

const (
	checkpointFile = "checkpoint"
	envelopeFolder = "envelopes"
	lockName       = "lock"
	tileHeight     = 8
	tileWidth      = 1 << tileHeight
	maxEntryBytes  = 1<<16 - 1
	maxSize        = 1 << 32
	maxCheckpoint  = 1 << 16
	maxEnvelope    = 256 << 20
)

// Checkpoint is the state of a log.
type Checkpoint struct {
	Origin string // the name of the log
	Size   int64
	Root   tlog.Hash
}

func (c Checkpoint) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, base64.StdEncoding.EncodeToString(c.Root[:]))
}

// TamperedError says that a log is not what its checkpoint signs: an entry was edited, or there are two
// logs of one origin.
type TamperedError struct{ Reason string }

func (e *TamperedError) Error() string { return e.Reason }

func tampered(format string, args ...any) error {
	return &TamperedError{fmt.Sprintf(format, args...)}
}

// Malformed is the error of files that are no checkpoint, proof or log.
type Malformed struct{ Path, Reason string }

func (e *Malformed) Error() string { return e.Path + ": " + e.Reason }

// CheckOrigin returns an error for a text that cannot name a log.
func CheckOrigin(origin string) error {
	if origin == "" || strings.ContainsAny(origin, " \t\r\n+") || len(origin) > 200 {
		return fmt.Errorf("the origin is %q, want a name without spaces and +, such as example.org/evidence", readfile.Clip(origin))
	}
	return nil
}

// Keys are the public keys that count for checkpoints. counts says for which sizes of the log: nil
// means for all.
type Keys struct {
	Public []ed25519.PublicKey
	Counts func(k ed25519.PublicKey, size int64) bool
}

func (k Keys) verifiers(origin string, size int64) (note.Verifiers, error) {
	var list []note.Verifier
	for _, public := range k.Public {
		if k.Counts != nil && !k.Counts(public, size) {
			continue
		}
		v, err := verifierOf(origin, public)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return note.VerifierList(list...), nil
}

func verifierOf(origin string, public ed25519.PublicKey) (note.Verifier, error) {
	key, err := note.NewEd25519VerifierKey(origin, public)
	if err != nil {
		return nil, err
	}
	return note.NewVerifier(key)
}

// parseCheckpoint reads a checkpoint and checks its signature.
func parseCheckpoint(path string, data []byte, keys Keys) (c Checkpoint, err error) {
	text, _, ok := strings.Cut(string(data), "\n\n")
	lines := strings.Split(text, "\n")
	if !ok || len(lines) < 3 {
		return c, &Malformed{path, "is no signed checkpoint, or is truncated"}
	}
	c.Origin = lines[0]
	size, sizeErr := strconv.ParseInt(lines[1], 10, 64)
	root, rootErr := base64.StdEncoding.DecodeString(lines[2])
	if CheckOrigin(c.Origin) != nil || sizeErr != nil || size < 0 || rootErr != nil || len(root) != tlog.HashSize {
		return c, &Malformed{path, "is no checkpoint: want an origin, a size and a root"}
	}
	if size > maxSize {
		return c, &Malformed{path, "has more than 2^32 entries"}
	}
	c.Size, c.Root = size, tlog.Hash(root)
	verifiers, err := keys.verifiers(c.Origin, size)
	if err != nil {
		return c, err
	}
	_, err = note.Open(data, verifiers)
	if _, isUnknown := errors.AsType[*note.UnverifiedNoteError](err); isUnknown {
		return c, tampered("%s: no key that counts for a log of %d entries has signed it", path, size)
	}
	if _, isWrong := errors.AsType[*note.InvalidSignatureError](err); isWrong {
		return c, tampered("%s: its signature is wrong: it was changed after it was signed", path)
	}
	if err != nil {
		return c, &Malformed{path, err.Error()}
	}
	return c, nil
}

// ReadCheckpoint reads a checkpoint from a file and checks its signature.
func ReadCheckpoint(path string, keys Keys) (Checkpoint, error) {
	data, err := readfile.Regular(path, maxCheckpoint)
	if err != nil {
		return Checkpoint{}, err
	}
	return parseCheckpoint(path, data, keys)
}

// Signer signs checkpoints.
type Signer interface {
	Public() ed25519.PublicKey
	SignBytes(data []byte) ([]byte, error)
}

// noteSigner is a Signer for notes.
type noteSigner struct {
	note.Verifier
	s Signer
}

func (n noteSigner) Sign(data []byte) ([]byte, error) { return n.s.SignBytes(data) }

func parseEntry(raw []byte) (e Entry, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, err
	}
	if e.Schema != EntrySchema {
		return e, fmt.Errorf("the entry is of schema %q, want %s: it may be of a newer version", readfile.Clip(e.Schema), EntrySchema)
	}
	if len(e.SHA256) != 64 || strings.Trim(e.SHA256, "0123456789abcdef") != "" {
		return e, errors.New("its sha256 is no hash")
	}
	return e, nil
}

// Digest returns the SHA-256 of an envelope as entries have it.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
