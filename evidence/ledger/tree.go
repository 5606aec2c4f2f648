package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"tokitai/internal/readfile"
)

// Tree reads only those files of a log that a question needs, and checks their content against the root that
// the checkpoint signs. It does not notice that other files were edited; Read does.
type Tree struct {
	Checkpoint Checkpoint

	dir    string
	note   []byte // nil for a log that has no checkpoint yet
	hashes *knownHashes
}

// Open reads and checks the checkpoint of a log.
func Open(dir string, keys Keys) (*Tree, error) {
	path := filepath.Join(dir, checkpointFile)
	note, err := readRegular(path, maxCheckpoint)
	if err != nil {
		return nil, err
	}
	c, err := parseCheckpoint(path, note, keys)
	if err != nil {
		return nil, err
	}
	return newTree(dir, c, note), nil
}

func newTree(dir string, c Checkpoint, note []byte) *Tree {
	signed := tlog.TileHashReader(tlog.Tree{N: c.Size, Hash: c.Root}, tiles(dir))
	return &Tree{c, dir, note, &knownHashes{map[int64]tlog.Hash{}, signed}}
}

// Note returns the signed checkpoint.
func (t *Tree) Note() []byte { return t.note }

// Find returns the positions of those envelopes, given by their SHA-256, that the log has; of several
// entries about one envelope the first. It reads the entries from the first one on until it has all.
func (t *Tree) Find(digests ...string) (map[string]int64, error) {
	wanted := map[string]bool{}
	for _, d := range digests {
		wanted[d] = true
	}
	found := map[string]int64{}
	var positions []int64
	var entries [][]byte
	for n := int64(0); n*tileWidth < t.Checkpoint.Size && len(wanted) > 0; n++ {
		bundle, path, err := readEntries(t.dir, n, t.Checkpoint.Size)
		if err != nil {
			return nil, err
		}
		for i, raw := range bundle {
			position := n*tileWidth + int64(i)
			e, err := parseEntry(raw)
			if err != nil {
				if edited := t.checkEntries([]int64{position}, [][]byte{raw}); edited != nil {
					return nil, edited
				}
				return nil, &Malformed{path, fmt.Sprintf("entry %d: %v", position, err)}
			}
			if wanted[e.SHA256] {
				delete(wanted, e.SHA256)
				found[e.SHA256] = position
				positions, entries = append(positions, position), append(entries, raw)
			}
		}
	}
	return found, t.checkEntries(positions, entries)
}

// entry returns the entry at a position as it is in the log.
func (t *Tree) entry(position int64) ([]byte, error) {
	bundle, _, err := readEntries(t.dir, position/tileWidth, t.Checkpoint.Size)
	if err != nil {
		return nil, err
	}
	raw := bundle[position%tileWidth]
	return raw, t.checkEntries([]int64{position}, [][]byte{raw})
}

// checkEntries returns a *TamperedError unless entries have the hashes at their positions in the tree.
func (t *Tree) checkEntries(positions []int64, entries [][]byte) error {
	if len(positions) == 0 {
		return nil
	}
	indexes := make([]int64, len(positions))
	for i, p := range positions {
		indexes[i] = tlog.StoredHashIndex(0, p)
	}
	hashes, err := t.hashes.ReadHashes(indexes)
	if err != nil {
		return err
	}
	for i, raw := range entries {
		if tlog.RecordHash(raw) != hashes[i] {
			return edited(positions[i])
		}
	}
	return nil
}

// knownHashes holds hashes of a tree by their index in package tlog: those that were read from the
// signed tree, and new ones.
type knownHashes struct {
	known  map[int64]tlog.Hash
	signed tlog.HashReader
}

// ReadHashes implements tlog.HashReader.
func (h *knownHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var missing []int64
	for _, x := range indexes {
		if _, ok := h.known[x]; !ok {
			missing = append(missing, x)
		}
	}
	if len(missing) > 0 {
		list, err := h.signed.ReadHashes(missing)
		if _, isNamed := errors.AsType[*TamperedError](err); err != nil && !isNamed {
			err = tampered("the hashes of the tree are not those that the checkpoint signs: %v", err)
		}
		if err != nil {
			return nil, err
		}
		for i, x := range missing {
			h.known[x] = list[i]
		}
	}
	list := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		list[i] = h.known[x]
	}
	return list, nil
}

// add adds the hashes that follow from a further leaf.
func (h *knownHashes) add(n int64, leaf tlog.Hash) error {
	more, err := tlog.StoredHashesForRecordHash(n, leaf, h)
	first := tlog.StoredHashIndex(0, n)
	for i, x := range more {
		h.known[first+int64(i)] = x
	}
	return err
}

// tiles reads the tiles of the log in a folder. It implements tlog.TileReader.
type tiles string

func (tiles) Height() int { return tileHeight }

func (dir tiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(list))
	for i, t := range list {
		var err error
		if data[i], err = readTile(string(dir), t); err != nil {
			return nil, err
		}
		if len(data[i]) != t.W*tlog.HashSize {
			return nil, tampered("%s was edited: it has %d bytes, want %d", fileOf(string(dir), pathOf(t)), len(data[i]), t.W*tlog.HashSize)
		}
	}
	return data, nil
}

func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

// readRegular reads a file of a log; tests count what is read.
var readRegular = readfile.Regular

// readPart reads the file of a tile. Where one that is not full is gone, because the log has grown since
// its checkpoint was read, it reads the full one: isFull says so.
func readPart(dir string, t tlog.Tile, most int64) (data []byte, isFull bool, err error) {
	data, err = readRegular(fileOf(dir, pathOf(t)), most)
	if isFull = t.W == tileWidth; !isFull && errors.Is(err, fs.ErrNotExist) {
		t.W, isFull = tileWidth, true
		if more, fullErr := readRegular(fileOf(dir, pathOf(t)), most); fullErr == nil {
			return more, true, nil
		}
	}
	return data, isFull, err
}

// readTile reads the hashes of a tile.
func readTile(dir string, t tlog.Tile) ([]byte, error) {
	data, _, err := readPart(dir, t, tileWidth*tlog.HashSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, tampered("hashes are missing: there is no %s", fileOf(dir, pathOf(t)))
	}
	return data[:min(len(data), t.W*tlog.HashSize)], err
}

// readEntries reads the n-th bundle of entries of a log, and returns its path too. It returns the entries
// before an error.
func readEntries(dir string, n, size int64) (list [][]byte, path string, err error) {
	t := lastTile(-1, n, size)
	path = fileOf(dir, pathOf(t))
	data, isFull, err := readPart(dir, t, tileWidth*(maxEntryBytes+2))
	first := n * tileWidth
	if errors.Is(err, fs.ErrNotExist) {
		return nil, path, tampered("entries %d to %d are missing: there is no %s", first, first+int64(t.W)-1, path)
	}
	if err != nil {
		return nil, path, err
	}
	for i := range t.W {
		if len(data) < 2 || len(data)-2 < int(binary.BigEndian.Uint16(data)) {
			return list, path, tampered("entry %d was cut off: %s is truncated", first+int64(i), path)
		}
		end := 2 + int(binary.BigEndian.Uint16(data))
		list, data = append(list, data[2:end]), data[end:]
	}
	if isGrown := isFull && t.W < tileWidth; len(data) > 0 && !isGrown {
		return list, path, tampered("%s has %d bytes after its entries", path, len(data))
	}
	return list, path, nil
}

// lastTile returns the n-th tile of a level of a log that has no more than size entries below it. Level -1
// are entries.
func lastTile(level int, n, size int64) tlog.Tile {
	return tlog.Tile{H: tileHeight, L: level, N: n, W: int(min(tileWidth, size-n*tileWidth))}
}

// pathOf returns the path of a tile. L is -1 for entries.
func pathOf(t tlog.Tile) string {
	path := strings.TrimPrefix(t.Path(), fmt.Sprintf("tile/%d/", tileHeight))
	return "tile/" + strings.Replace(path, "data/", "entries/", 1)
}

func envelopeFile(digest string) string { return envelopeFolder + "/" + digest + ".json" }

func fileOf(dir, name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
