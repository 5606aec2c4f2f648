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
// It does not know what envelopes say. Start with Append and Read.
package ledger

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"tokitai/internal/filelock"
	"tokitai/internal/newfile"
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

// hashes holds the hashes of a tree, in the order of package tlog.
type hashes []tlog.Hash

func (h hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x < 0 || x >= int64(len(h)) {
			return nil, fmt.Errorf("ledger: no hash %d", x)
		}
		list[i] = h[x]
	}
	return list, nil
}

// add appends the hashes that follow from a further leaf.
func (h *hashes) add(n int64, leaf tlog.Hash) error {
	more, err := tlog.StoredHashesForRecordHash(n, leaf, *h)
	*h = append(*h, more...)
	return err
}

// Log is a log that was read.
type Log struct {
	Checkpoint Checkpoint
	Entries    []Entry

	dir    string
	leaves []tlog.Hash
	tree   hashes
	raw    [][]byte
	note   []byte
}

// pathOf returns the path of a tile. L is -1 for entries.
func pathOf(t tlog.Tile) string {
	path := strings.TrimPrefix(t.Path(), fmt.Sprintf("tile/%d/", tileHeight))
	return "tile/" + strings.Replace(path, "data/", "entries/", 1)
}

func (l *Log) file(name string) string { return filepath.Join(l.dir, filepath.FromSlash(name)) }

// Read reads a log and checks all of it: the checkpoint's signature, every entry, every tile, the
// root, and that every envelope is there and has its SHA-256. A *TamperedError names what was edited.
func Read(dir string, keys Keys) (*Log, error) {
	l, err := open(dir, keys)
	if err != nil {
		return nil, err
	}
	if l.Checkpoint.Size == 0 {
		return l, nil
	}
	for i, e := range l.Entries {
		data, err := readfile.Regular(l.file(envelopeFolder+"/"+e.SHA256+".json"), maxEnvelope)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, tampered("entry %d: its envelope is missing from %s", i, filepath.Join(dir, envelopeFolder))
		}
		if err != nil {
			return nil, err
		}
		if Digest(data) != e.SHA256 {
			return nil, tampered("entry %d: its envelope was edited: %s has SHA-256 %s", i, l.file(envelopeFolder+"/"+e.SHA256+".json"), Digest(data))
		}
	}
	return l, nil
}

// open reads a log and checks it, but for the envelopes.
func open(dir string, keys Keys) (*Log, error) {
	l := &Log{dir: dir}
	var err error
	if l.note, err = readfile.Regular(l.file(checkpointFile), maxCheckpoint); err != nil {
		return nil, err
	}
	if l.Checkpoint, err = parseCheckpoint(l.file(checkpointFile), l.note, keys); err != nil {
		return nil, err
	}
	if l.Checkpoint.Size > 1<<32 {
		return nil, &Malformed{l.file(checkpointFile), "has more than 2^32 entries"}
	}
	for n := int64(0); n*tileWidth < l.Checkpoint.Size; n++ {
		if err := l.readBundle(n); err != nil {
			return nil, err
		}
	}
	root, err := tlog.TreeHash(l.Checkpoint.Size, l.tree)
	if err != nil {
		return nil, err
	}
	for _, t := range tlog.NewTiles(tileHeight, 0, l.Checkpoint.Size) {
		if err := l.checkTile(t); err != nil {
			return nil, err
		}
	}
	if root != l.Checkpoint.Root {
		return nil, tampered("the %d entries have root %v, the checkpoint signs %v: entries were edited, and their hashes with them", l.Checkpoint.Size, root, l.Checkpoint.Root)
	}
	return l, nil
}

// readBundle reads up to 256 entries.
func (l *Log) readBundle(n int64) error {
	width := min(tileWidth, l.Checkpoint.Size-n*tileWidth)
	path := l.file(pathOf(tlog.Tile{H: tileHeight, L: -1, N: n, W: int(width)}))
	data, err := readfile.Regular(path, tileWidth*(maxEntryBytes+2))
	if errors.Is(err, fs.ErrNotExist) {
		return tampered("entries %d to %d are missing: there is no %s", n*tileWidth, n*tileWidth+width-1, path)
	}
	if err != nil {
		return err
	}
	for range width {
		position := int64(len(l.raw))
		if len(data) < 2 || len(data)-2 < int(binary.BigEndian.Uint16(data)) {
			return tampered("entry %d was cut off: %s is truncated", position, path)
		}
		size := int(binary.BigEndian.Uint16(data))
		raw := data[2 : 2+size]
		data = data[2+size:]
		leaf := tlog.RecordHash(raw)
		l.raw, l.leaves = append(l.raw, raw), append(l.leaves, leaf)
		if err := l.tree.add(position, leaf); err != nil {
			return err
		}
		e, err := parseEntry(raw)
		if err != nil {
			// An edited entry may be no JSON any more. Its hash says that it was edited.
			if stored, ok := l.storedLeaf(position); ok && stored != leaf {
				return tampered("entry %d was edited: the tree has another hash", position)
			}
			return &Malformed{path, fmt.Sprintf("entry %d: %v", position, err)}
		}
		l.Entries = append(l.Entries, e)
	}
	if len(data) > 0 {
		return tampered("%s has %d bytes after its entries", path, len(data))
	}
	return nil
}

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

// storedLeaf returns the hash of an entry as the tiles have it.
func (l *Log) storedLeaf(position int64) (tlog.Hash, bool) {
	n := position / tileWidth
	t := tlog.Tile{H: tileHeight, L: 0, N: n, W: int(min(tileWidth, l.Checkpoint.Size-n*tileWidth))}
	data, err := readfile.Regular(l.file(pathOf(t)), tileWidth*tlog.HashSize)
	at := int(position%tileWidth) * tlog.HashSize
	if err != nil || len(data) < at+tlog.HashSize {
		return tlog.Hash{}, false
	}
	return tlog.Hash(data[at:]), true
}

// checkTile compares a tile with the entries.
func (l *Log) checkTile(t tlog.Tile) error {
	want, err := tlog.ReadTileData(t, l.tree)
	if err != nil {
		return err
	}
	path := l.file(pathOf(t))
	got, err := readfile.Regular(path, tileWidth*tlog.HashSize)
	if errors.Is(err, fs.ErrNotExist) {
		return tampered("hashes are missing: there is no %s", path)
	}
	if err != nil {
		return err
	}
	if bytes.Equal(got, want) {
		return nil
	}
	if t.L == 0 {
		for i := range t.W {
			if at := i * tlog.HashSize; len(got) < at+tlog.HashSize || !bytes.Equal(got[at:at+tlog.HashSize], want[at:at+tlog.HashSize]) {
				return tampered("entry %d was edited: the tree has another hash", t.N*tileWidth+int64(i))
			}
		}
	}
	return tampered("%s was edited: its hashes are not those of the entries", path)
}

// CheckSince returns a *TamperedError unless the log continues the one of an older checkpoint.
func (l *Log) CheckSince(old Checkpoint) error {
	now := l.Checkpoint
	switch {
	case old.Origin != now.Origin:
		return fmt.Errorf("the older checkpoint is of %s, this log is %s", readfile.Clip(old.Origin), now.Origin)
	case old.Size > now.Size:
		return tampered("the log has %d entries, the older checkpoint %d: entries were removed, or the log is an earlier copy", now.Size, old.Size)
	}
	root, err := tlog.TreeHash(old.Size, l.tree)
	if err != nil {
		return err
	}
	if root != old.Root {
		return tampered("fork: the first %d entries have root %v, the older checkpoint signs %v: there are two ledgers of origin %s", old.Size, root, old.Root, now.Origin)
	}
	return nil
}

// Find returns the position of an envelope, or -1.
func (l *Log) Find(envelope []byte) int64 {
	digest := Digest(envelope)
	return int64(slices.IndexFunc(l.Entries, func(e Entry) bool { return e.SHA256 == digest }))
}

// Append appends envelopes to the log in a folder and signs the new checkpoint. It makes the log if the
// folder has none; origin, which may be empty for a log that exists, names it. The checkpoint that is
// there must be signed by a key of keys. Envelopes that the log has are not appended again. It returns
// the positions of all of them.
//
// A crash leaves the log as it was before or as it is after: files are written under temporary names
// and renamed, the checkpoint last.
func Append(dir, origin string, signer Signer, keys Keys, envelopes []Envelope) (*Log, []int64, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, nil, err
	}
	held, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, nil, err
	}
	defer held.Close()
	if err := filelock.Try(held); err != nil {
		return nil, nil, fmt.Errorf("%s: the ledger is in use: %w", held.Name(), err)
	}
	l, err := open(dir, keys)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(dir, "tile")); err == nil {
			return nil, nil, tampered("%s has entries and no checkpoint", dir)
		}
		if err := CheckOrigin(origin); err != nil {
			return nil, nil, err
		}
		l = &Log{dir: dir, Checkpoint: Checkpoint{Origin: origin}}
	case err != nil:
		return nil, nil, err
	case origin != "" && origin != l.Checkpoint.Origin:
		return nil, nil, fmt.Errorf("%s: the ledger's origin is %s, not %s", dir, l.Checkpoint.Origin, readfile.Clip(origin))
	}
	if keys.Counts != nil && !keys.Counts(signer.Public(), l.Checkpoint.Size+int64(len(envelopes))) {
		return nil, nil, tampered("the key that would sign the checkpoint does not count for a log of %d entries", l.Checkpoint.Size+int64(len(envelopes)))
	}
	positions, err := l.append(signer, envelopes, commit)
	return l, positions, err
}

// Envelope is what an entry names.
type Envelope struct {
	Data []byte
	Keys []string
}

// commit writes a file; tests make it fail.
var commit = func(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if err := newfile.Write(path, func(w io.Writer) error { _, err := w.Write(data); return err }); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder waits until the names in a folder are on disk, where the system can do that.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	f.Sync() // an error says that the system cannot
	return f.Close()
}

func (l *Log) append(signer Signer, envelopes []Envelope, write func(path string, data []byte) error) ([]int64, error) {
	before := l.Checkpoint.Size
	var positions []int64
	for _, e := range envelopes {
		at := l.Find(e.Data)
		if at < 0 {
			at = int64(len(l.Entries))
			entry := Entry{EntrySchema, Digest(e.Data), slices.Compact(slices.Sorted(slices.Values(e.Keys)))}
			raw, err := json.Marshal(entry)
			if err != nil {
				return nil, err
			}
			if len(raw) > maxEntryBytes {
				return nil, fmt.Errorf("ledger: an entry has %d bytes, at most %d are possible", len(raw), maxEntryBytes)
			}
			leaf := tlog.RecordHash(raw)
			l.Entries, l.raw, l.leaves = append(l.Entries, entry), append(l.raw, raw), append(l.leaves, leaf)
			if err := l.tree.add(at, leaf); err != nil {
				return nil, err
			}
			if err := write(l.file(envelopeFolder+"/"+entry.SHA256+".json"), e.Data); err != nil {
				return nil, err
			}
		}
		positions = append(positions, at)
	}
	return positions, l.write(signer, before, write)
}

// write writes the entries from a position on, the tiles that change, and the checkpoint.
func (l *Log) write(signer Signer, before int64, write func(path string, data []byte) error) error {
	after := int64(len(l.Entries))
	if after == before && l.note != nil {
		return nil
	}
	for n := before / tileWidth; n*tileWidth < after; n++ {
		width := min(tileWidth, after-n*tileWidth)
		var data []byte
		for _, raw := range l.raw[n*tileWidth : n*tileWidth+width] {
			data = append(binary.BigEndian.AppendUint16(data, uint16(len(raw))), raw...)
		}
		if err := write(l.file(pathOf(tlog.Tile{H: tileHeight, L: -1, N: n, W: int(width)})), data); err != nil {
			return err
		}
	}
	for _, t := range tlog.NewTiles(tileHeight, before, after) {
		data, err := tlog.ReadTileData(t, l.tree)
		if err == nil {
			err = write(l.file(pathOf(t)), data)
		}
		if err != nil {
			return err
		}
	}
	root, err := tlog.TreeHash(after, l.tree)
	if err != nil {
		return err
	}
	l.Checkpoint.Size, l.Checkpoint.Root = after, root
	v, err := verifierOf(l.Checkpoint.Origin, signer.Public())
	if err != nil {
		return err
	}
	if l.note, err = note.Sign(&note.Note{Text: l.Checkpoint.text()}, noteSigner{v, signer}); err != nil {
		return err
	}
	return write(l.file(checkpointFile), l.note)
}

// Note returns the signed checkpoint.
func (l *Log) Note() []byte { return l.note }

// proofHead begins proofs: c2sp.org/tlog-proof.
const proofHead = "c2sp.org/tlog-proof@v1\n"

// Prove returns a proof that an entry is in the log, which can be checked without the log. It has the
// entry, the hashes beside its path to the root, and the checkpoint.
func (l *Log) Prove(position int64) ([]byte, error) {
	if position < 0 || position >= l.Checkpoint.Size {
		return nil, fmt.Errorf("the ledger has positions from 0 to %d, not %d", l.Checkpoint.Size-1, position)
	}
	proof, err := tlog.ProveRecord(l.Checkpoint.Size, position, l.tree)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%sextra %s\nindex %d\n", proofHead, base64.StdEncoding.EncodeToString(l.raw[position]), position)
	for _, h := range proof {
		fmt.Fprintf(&b, "%v\n", h)
	}
	b.WriteByte('\n')
	b.Write(l.note)
	return b.Bytes(), nil
}

// CheckProof checks a proof and returns the entry, its position, and the checkpoint.
func CheckProof(path string, data []byte, keys Keys) (e Entry, position int64, c Checkpoint, err error) {
	head, checkpoint, ok := strings.Cut(string(data), "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || !strings.HasPrefix(head, proofHead) || len(lines) < 3 {
		return e, 0, c, &Malformed{path, "is no proof, or is truncated"}
	}
	extra, isExtra := strings.CutPrefix(lines[1], "extra ")
	index, isIndex := strings.CutPrefix(lines[2], "index ")
	raw, rawErr := base64.StdEncoding.DecodeString(extra)
	position, indexErr := strconv.ParseInt(index, 10, 64)
	if !isExtra || !isIndex || rawErr != nil || indexErr != nil {
		return e, 0, c, &Malformed{path, "is no proof of this program: want an entry and its index"}
	}
	var proof tlog.RecordProof
	for _, line := range lines[3:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return e, 0, c, &Malformed{path, "has a line that is no hash"}
		}
		proof = append(proof, h)
	}
	if c, err = parseCheckpoint(path, []byte(checkpoint), keys); err != nil {
		return e, 0, c, err
	}
	if position < 0 || position >= c.Size {
		return e, 0, c, &Malformed{path, fmt.Sprintf("proves position %d of a log of %d entries", position, c.Size)}
	}
	if err := tlog.CheckRecord(proof, c.Size, c.Root, position, tlog.RecordHash(raw)); err != nil {
		return e, 0, c, tampered("%s: entry %d is not in the log that the checkpoint signs", path, position)
	}
	if e, err = parseEntry(raw); err != nil {
		return e, 0, c, &Malformed{path, err.Error()}
	}
	return e, position, c, nil
}

// Digest returns the SHA-256 of an envelope as entries have it.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
