package ledger

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"tokitai/internal/filelock"
	"tokitai/internal/newfile"
	"tokitai/internal/readfile"
)

// Envelope is what an entry names.
type Envelope struct {
	Data []byte
	Keys []string
}

// Append appends envelopes to the log in a folder and signs the new checkpoint. It makes the log if the
// folder has none; origin, which may be empty for a log that exists, names it. The checkpoint that is
// there must be signed by a key of keys. Envelopes that the log has are not appended again. It returns
// the new checkpoint and the positions of all envelopes.
//
// check is called for each envelope with the position that it has or will have, before anything is
// written; an error of it ends Append. nil accepts all.
//
// Append reads the last entries and, for each level of the tree, the last tile. It checks them against the root
// that is signed, from which the new one follows: an edit elsewhere is not signed with it. Only for an envelope
// whose file is there already are the entries searched.
//
// A crash leaves the log as it was before or as it is after: files are written under temporary names
// and renamed, the checkpoint last.
func Append(dir, origin string, signer Signer, keys Keys, envelopes []Envelope, check func(i int, position int64) error) (Checkpoint, []int64, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return Checkpoint{}, nil, err
	}
	held, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	defer held.Close()
	if err := filelock.Try(held); err != nil {
		return Checkpoint{}, nil, fmt.Errorf("%s: the ledger is in use: %w", held.Name(), err)
	}
	t, err := openOrNew(dir, origin, keys)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	positions, more, err := t.place(envelopes, check)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	if len(more) == 0 && t.note != nil {
		return t.Checkpoint, positions, nil
	}
	if size := t.Checkpoint.Size + int64(len(more)); keys.Counts != nil && !keys.Counts(signer.Public(), size) {
		return Checkpoint{}, nil, tampered("the key that would sign the checkpoint does not count for a log of %d entries", size)
	}
	err = t.grow(signer, more, commit)
	return t.Checkpoint, positions, err
}

// openOrNew opens the log in a folder, or begins one.
func openOrNew(dir, origin string, keys Keys) (*Tree, error) {
	t, err := Open(dir, keys)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Join(dir, "tile")); err == nil {
			return nil, tampered("%s has entries and no checkpoint", dir)
		}
		return newTree(dir, Checkpoint{Origin: origin}, nil), CheckOrigin(origin)
	case err != nil:
		return nil, err
	case origin != "" && origin != t.Checkpoint.Origin:
		return nil, fmt.Errorf("%s: the ledger's origin is %s, not %s", dir, t.Checkpoint.Origin, readfile.Clip(origin))
	}
	return t, nil
}

// place returns the positions of envelopes, and those of them that the log does not have.
func (t *Tree) place(envelopes []Envelope, check func(i int, position int64) error) (positions []int64, more []Envelope, err error) {
	digests := make([]string, len(envelopes))
	var present []string
	for i, e := range envelopes {
		digests[i] = Digest(e.Data)
		if _, err := os.Lstat(fileOf(t.dir, envelopeFile(digests[i]))); err == nil {
			present = append(present, digests[i])
		}
	}
	at, err := t.Find(present...)
	if err != nil {
		return nil, nil, err
	}
	for i, e := range envelopes {
		position, isThere := at[digests[i]]
		if !isThere {
			position = t.Checkpoint.Size + int64(len(more))
			at[digests[i]] = position
			more = append(more, e)
		}
		if check != nil {
			if err := check(i, position); err != nil {
				return nil, nil, err
			}
		}
		positions = append(positions, position)
	}
	return positions, more, nil
}

// grow writes further envelopes, the bundles and tiles that change, and the checkpoint.
func (t *Tree) grow(signer Signer, more []Envelope, write func(path string, data []byte) error) error {
	before := t.Checkpoint.Size
	after := before + int64(len(more))
	first := before / tileWidth * tileWidth // of the bundle that more entries go into
	var entries [][]byte
	if before > first {
		var err error
		if entries, err = t.lastEntries(); err != nil {
			return err
		}
	}
	for i, e := range more {
		raw, err := encodeEntry(e)
		if err == nil {
			entries = append(entries, raw)
			err = t.hashes.add(before+int64(i), tlog.RecordHash(raw))
		}
		if err == nil {
			err = write(fileOf(t.dir, envelopeFile(Digest(e.Data))), e.Data)
		}
		if err != nil {
			return err
		}
	}
	var full []tlog.Tile
	written := func(tile tlog.Tile, data []byte) error {
		if tile.W == tileWidth {
			full = append(full, tile)
		}
		return write(fileOf(t.dir, pathOf(tile)), data)
	}
	for n := first / tileWidth; n*tileWidth < after; n++ {
		tile := lastTile(-1, n, after)
		var data []byte
		for _, raw := range entries[n*tileWidth-first:][:tile.W] {
			data = append(binary.BigEndian.AppendUint16(data, uint16(len(raw))), raw...)
		}
		if err := written(tile, data); err != nil {
			return err
		}
	}
	for _, tile := range tlog.NewTiles(tileHeight, before, after) {
		data, err := tlog.ReadTileData(tile, t.hashes)
		if err == nil {
			err = written(tile, data)
		}
		if err != nil {
			return err
		}
	}
	if err := t.sign(signer, after, write); err != nil {
		return err
	}
	for _, tile := range full { // readers take the full tile in place of its parts
		os.RemoveAll(fileOf(t.dir, pathOf(tile)) + ".p")
	}
	return nil
}

// lastEntries returns the entries of the last bundle.
func (t *Tree) lastEntries() ([][]byte, error) {
	n := (t.Checkpoint.Size - 1) / tileWidth
	entries, _, err := readEntries(t.dir, n, t.Checkpoint.Size)
	if err != nil {
		return nil, err
	}
	positions := make([]int64, len(entries))
	for i := range positions {
		positions[i] = n*tileWidth + int64(i)
	}
	return entries, t.checkEntries(positions, entries)
}

// sign writes the checkpoint of a log that has grown.
func (t *Tree) sign(signer Signer, size int64, write func(path string, data []byte) error) error {
	root, err := tlog.TreeHash(size, t.hashes)
	if err != nil {
		return err
	}
	c := Checkpoint{t.Checkpoint.Origin, size, root}
	v, err := verifierOf(c.Origin, signer.Public())
	if err != nil {
		return err
	}
	text, err := note.Sign(&note.Note{Text: c.text()}, noteSigner{v, signer})
	if err != nil {
		return err
	}
	t.Checkpoint, t.note = c, text
	return write(filepath.Join(t.dir, checkpointFile), text)
}

func encodeEntry(e Envelope) ([]byte, error) {
	raw, err := json.Marshal(Entry{EntrySchema, Digest(e.Data), slices.Compact(slices.Sorted(slices.Values(e.Keys)))})
	if err == nil && len(raw) > maxEntryBytes {
		err = fmt.Errorf("ledger: an entry has %d bytes, at most %d are possible", len(raw), maxEntryBytes)
	}
	return raw, err
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
