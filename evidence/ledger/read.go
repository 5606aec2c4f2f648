package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"

	"tokitai/internal/readfile"
)

// allHashes holds the hashes of a tree, in the order of package tlog.
type allHashes []tlog.Hash

func (h allHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
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
func (h *allHashes) add(n int64, leaf tlog.Hash) error {
	more, err := tlog.StoredHashesForRecordHash(n, leaf, *h)
	*h = append(*h, more...)
	return err
}

// Log is a log that was read and checked as a whole.
type Log struct {
	Checkpoint Checkpoint
	Entries    []Entry

	dir  string
	tree allHashes
}

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
		data, err := readfile.Regular(fileOf(dir, envelopeFile(e.SHA256)), maxEnvelope)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, tampered("entry %d: its envelope is missing from %s", i, filepath.Join(dir, envelopeFolder))
		}
		if err != nil {
			return nil, err
		}
		if Digest(data) != e.SHA256 {
			return nil, tampered("entry %d: its envelope was edited: %s has SHA-256 %s", i, fileOf(dir, envelopeFile(e.SHA256)), Digest(data))
		}
	}
	return l, nil
}

// open reads a log and checks it, but for the envelopes.
func open(dir string, keys Keys) (*Log, error) {
	t, err := Open(dir, keys)
	if err != nil {
		return nil, err
	}
	l := &Log{dir: dir, Checkpoint: t.Checkpoint}
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
	bundle, path, err := readEntries(l.dir, n, l.Checkpoint.Size)
	for _, raw := range bundle {
		position := int64(len(l.Entries))
		leaf := tlog.RecordHash(raw)
		if err := l.tree.add(position, leaf); err != nil {
			return err
		}
		e, err := parseEntry(raw)
		if err != nil {
			// An edited entry may be no JSON any more. Its hash says that it was edited.
			if stored, ok := l.storedLeaf(position); ok && stored != leaf {
				return edited(position)
			}
			return &Malformed{path, fmt.Sprintf("entry %d: %v", position, err)}
		}
		l.Entries = append(l.Entries, e)
	}
	return err
}

func edited(position int64) error {
	return tampered("entry %d was edited: the tree has another hash", position)
}

// storedLeaf returns the hash of an entry as the tiles have it.
func (l *Log) storedLeaf(position int64) (tlog.Hash, bool) {
	data, err := readTile(l.dir, lastTile(0, position/tileWidth, l.Checkpoint.Size))
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
	got, err := readTile(l.dir, t)
	if err != nil || bytes.Equal(got, want) {
		return err
	}
	if t.L == 0 {
		for i := range t.W {
			if at := i * tlog.HashSize; len(got) < at+tlog.HashSize || !bytes.Equal(got[at:at+tlog.HashSize], want[at:at+tlog.HashSize]) {
				return edited(t.N*tileWidth + int64(i))
			}
		}
	}
	return tampered("%s was edited: its hashes are not those of the entries", fileOf(l.dir, pathOf(t)))
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
