package ledger

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"tokitai/internal/filelock"
	"tokitai/internal/readfile"
)

type testSigner ed25519.PrivateKey

func (s testSigner) Public() ed25519.PublicKey {
	return ed25519.PrivateKey(s).Public().(ed25519.PublicKey)
}
func (s testSigner) SignBytes(data []byte) ([]byte, error) {
	return ed25519.Sign(ed25519.PrivateKey(s), data), nil
}

func signer(b byte) testSigner {
	return testSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize)))
}

var (
	owner = signer(1)
	keys  = Keys{Public: []ed25519.PublicKey{owner.Public()}}
)

const origin = "example.org/test"

func envelopes(from, to int) (list []Envelope) {
	for i := from; i < to; i++ {
		list = append(list, Envelope{fmt.Appendf(nil, `{"payload":"%d"}`, i), []string{"k"}})
	}
	return list
}

// appended appends envelopes to a log and returns the log.
func appended(t *testing.T, dir string, list []Envelope) *Log {
	t.Helper()
	c, positions, err := Append(dir, origin, owner, keys, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(positions) != len(list) {
		t.Fatalf("%d positions for %d envelopes", len(positions), len(list))
	}
	l, err := Read(dir, keys)
	if err != nil || l.Checkpoint != c {
		t.Fatalf("the log cannot be read: %v; checkpoint %+v", err, c)
	}
	return l
}

// opened opens a log.
func opened(t *testing.T, dir string) *Tree {
	t.Helper()
	tree, err := Open(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// quickly makes writes fast for tests of large logs: they need not survive a crash.
func quickly(t *testing.T) {
	old := commit
	commit = func(path string, data []byte) error {
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, data, 0o666))
	}
	t.Cleanup(func() { commit = old })
}

// TestAppend: logs of all sizes around a tile's width can be read, continue each other, and have proofs
// that hold.
func TestAppend(t *testing.T) {
	quickly(t)
	dir := t.TempDir()
	var before *Log
	size := 0
	for _, to := range []int{0, 1, 2, 3, 255, 256, 257, 300, 513} {
		appended(t, dir, envelopes(size, to))
		size = to
		l, err := Read(dir, keys)
		if err != nil {
			t.Fatalf("%d entries: %v", size, err)
		}
		if l.Checkpoint.Size != int64(size) || l.Checkpoint.Origin != origin {
			t.Fatalf("checkpoint %+v, want %d entries", l.Checkpoint, size)
		}
		if before != nil {
			if err := l.CheckSince(before.Checkpoint); err != nil {
				t.Errorf("%d entries: %v", size, err)
			}
		}
		before = l
		tree := opened(t, dir)
		for _, at := range []int{0, size / 2, size - 1} {
			if size == 0 {
				continue
			}
			proof, err := tree.Prove(int64(at))
			if err != nil {
				t.Fatal(err)
			}
			e, position, c, err := CheckProof("p", proof, keys)
			if err != nil || position != int64(at) || c != l.Checkpoint || e.SHA256 != Digest(envelopes(at, at+1)[0].Data) {
				t.Errorf("proof of %d of %d: %v %d %+v %+v", at, size, err, position, c, e)
			}
		}
	}
	// What it has is not appended again.
	var asked []int64
	c, positions, err := Append(dir, "", owner, keys, append(envelopes(511, 514), envelopes(513, 514)...), func(_ int, at int64) error {
		asked = append(asked, at)
		return nil
	})
	if want := []int64{511, 512, 513, 513}; err != nil || c.Size != 514 || !slices.Equal(positions, want) || !slices.Equal(asked, want) {
		t.Errorf("%v %v %v %v", err, positions, asked, c)
	}
	digest, stranger := Digest(envelopes(77, 78)[0].Data), Digest([]byte("stranger"))
	if at, err := opened(t, dir).Find(digest, stranger); err != nil || at[digest] != 77 || len(at) != 1 {
		t.Errorf("envelope 77 is at %v, %v", at, err)
	}
	refused := errors.New("refused")
	if _, _, err := Append(dir, "", owner, keys, envelopes(600, 601), func(int, int64) error { return refused }); err != refused {
		t.Errorf("an envelope that is not accepted: %v", err)
	}
	if c := opened(t, dir).Checkpoint; c.Size != 514 {
		t.Errorf("it was appended: %+v", c)
	}
}

// TestEdited: every edit of every file is found and named.
func TestEdited(t *testing.T) {
	quickly(t)
	dir := t.TempDir()
	appended(t, dir, envelopes(0, 260))
	digest := Digest(envelopes(3, 4)[0].Data)
	flip := func(at int) func([]byte) []byte {
		return func(data []byte) []byte {
			if at < 0 {
				at += len(data)
			}
			data[at] ^= 1
			return data
		}
	}
	for _, test := range []struct {
		file   string
		change func([]byte) []byte
		want   string
	}{
		{"tile/entries/000", func(data []byte) []byte {
			return bytes.Replace(data, []byte(digest), []byte(Digest([]byte("forged"))), 1)
		}, "entry 3 was edited"},
		{"tile/entries/000", flip(3), "entry 0 was edited"},
		{"tile/entries/001.p/4", func(data []byte) []byte { return data[:len(data)-1] }, "entry 259 was cut off"},
		{"tile/entries/001.p/4", func(data []byte) []byte { return append(data, 0) }, "bytes after its entries"},
		{"tile/entries/000", func([]byte) []byte { return nil }, "entries 0 to 255 are missing"},
		{"tile/0/000", flip(5 * tlog.HashSize), "entry 5 was edited"},
		{"tile/0/001.p/4", flip(-1), "entry 259 was edited"},
		{"tile/1/000.p/1", flip(0), "tile/1/000.p/1 was edited"},
		{"tile/1/000.p/1", func([]byte) []byte { return nil }, "hashes are missing"},
		{"checkpoint", func(data []byte) []byte { return bytes.Replace(data, []byte("\n260\n"), []byte("\n259\n"), 1) }, "signature is wrong"},
		{"checkpoint", func(data []byte) []byte { return bytes.Replace(data, []byte("test\n"), []byte("text\n"), 1) }, "no key that counts"},
		{"checkpoint", func(data []byte) []byte { return data[:20] }, "is no signed checkpoint, or is truncated"},
		{"envelopes/" + digest + ".json", flip(0), "entry 3: its envelope was edited"},
		{"envelopes/" + digest + ".json", func([]byte) []byte { return nil }, "entry 3: its envelope is missing"},
	} {
		path := filepath.Join(dir, test.file)
		saved, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if data := test.change(bytes.Clone(saved)); data == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, data, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir, keys); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.file, err, test.want)
		}
		if err := os.WriteFile(path, saved, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read(dir, keys); err != nil {
		t.Fatal(err)
	}
	stranger := Keys{Public: []ed25519.PublicKey{signer(2).Public()}}
	if _, err := Read(dir, stranger); err == nil || !strings.Contains(err.Error(), "no key that counts") {
		t.Errorf("a stranger's log: %v", err)
	}
	retired := Keys{keys.Public, func(_ ed25519.PublicKey, size int64) bool { return size <= 259 }}
	if _, err := Read(dir, retired); err == nil || !strings.Contains(err.Error(), "no key that counts for a log of 260 entries") {
		t.Errorf("a retired key: %v", err)
	}
	if _, _, err := Append(dir, "", signer(2), Keys{append(keys.Public, signer(2).Public()), func(k ed25519.PublicKey, _ int64) bool { return !k.Equal(signer(2).Public()) }}, envelopes(300, 301), nil); err == nil || !strings.Contains(err.Error(), "does not count") {
		t.Errorf("a key that does not count appends: %v", err)
	}
}

// TestRewritten edits an entry and signs the whole ledger again. Only an older checkpoint reveals it.
func TestRewritten(t *testing.T) {
	quickly(t)
	honest, forked := t.TempDir(), t.TempDir()
	old := appended(t, honest, envelopes(0, 5)).Checkpoint
	list := envelopes(0, 9)
	list[2].Data = []byte("another")
	appended(t, forked, list)
	l, err := Read(forked, keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.CheckSince(old); err == nil || !strings.Contains(err.Error(), "fork: the first 5 entries") {
		t.Errorf("a fork: %v", err)
	}
	late := appended(t, t.TempDir(), append(envelopes(0, 5), list[5:]...)).Checkpoint
	if err := l.CheckSince(late); err == nil || !strings.Contains(err.Error(), "fork") {
		t.Errorf("a fork of the same size: %v", err)
	}
	short, err := Read(honest, keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := short.CheckSince(l.Checkpoint); err == nil || !strings.Contains(err.Error(), "entries were removed") {
		t.Errorf("a shorter log: %v", err)
	}
	// Entries and all their hashes are edited, but nobody signed that.
	same := appended(t, t.TempDir(), list[:5])
	note, err := os.ReadFile(filepath.Join(honest, checkpointFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(same.dir, checkpointFile), note, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(same.dir, keys); err == nil || !strings.Contains(err.Error(), "entries were edited, and their hashes with them") {
		t.Errorf("another log under the checkpoint: %v", err)
	}
	other := old
	other.Origin = "example.org/other"
	if err := short.CheckSince(other); err == nil || !strings.Contains(err.Error(), "the older checkpoint is of example.org/other") {
		t.Errorf("another origin: %v", err)
	}
}

// TestProof: a proof that was changed, truncated or made for another entry is refused.
func TestProof(t *testing.T) {
	quickly(t)
	dir := t.TempDir()
	l := appended(t, dir, envelopes(0, 7))
	tree := opened(t, dir)
	proof, err := tree.Prove(4)
	if err != nil {
		t.Fatal(err)
	}
	for n := range proof {
		if _, _, _, err := CheckProof("p", proof[:n], keys); err == nil {
			t.Fatalf("the first %d of %d bytes are a proof", n, len(proof))
		}
	}
	for i := range proof {
		changed := bytes.Clone(proof)
		changed[i] ^= 1
		if e, _, _, err := CheckProof("p", changed, keys); err == nil && e.SHA256 != l.Entries[4].SHA256 {
			t.Errorf("byte %d changed: another entry is accepted", i)
		}
	}
	entry := func(i int) []byte {
		raw, err := encodeEntry(envelopes(i, i+1)[0])
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	moved := bytes.Replace(proof, []byte("index 4"), []byte("index 5"), 1)
	if _, _, _, err := CheckProof("p", moved, keys); err == nil || !strings.Contains(err.Error(), "is not in the log") {
		t.Errorf("another position: %v", err)
	}
	forged := bytes.Replace(proof, []byte("extra "+base64.StdEncoding.EncodeToString(entry(4))), []byte("extra "+base64.StdEncoding.EncodeToString(entry(5))), 1)
	if _, _, _, err := CheckProof("p", forged, keys); err == nil || !strings.Contains(err.Error(), "is not in the log") {
		t.Errorf("another entry: %v", err)
	}
	if _, err := tree.Prove(7); err == nil {
		t.Error("a position after the end is proved")
	}
}

// TestCrash: whichever write fails, the log is as it was or as it will be, and the next append
// succeeds.
func TestCrash(t *testing.T) {
	quickly(t)
	whole := commit
	for n := 0; ; n++ {
		dir := t.TempDir()
		appended(t, dir, envelopes(0, 3))
		left := n
		commit = func(path string, data []byte) error {
			if left == 0 {
				return errors.New("power is off")
			}
			left--
			return whole(path, data)
		}
		_, _, err := Append(dir, "", owner, keys, envelopes(3, 5), nil)
		commit = whole
		l, readErr := Read(dir, keys)
		if readErr != nil {
			t.Fatalf("after %d writes: %v", n, readErr)
		}
		if err == nil {
			if n < 4 || l.Checkpoint.Size != 5 {
				t.Fatalf("%d writes, %d entries", n, l.Checkpoint.Size)
			}
			return
		}
		if l.Checkpoint.Size != 3 {
			t.Errorf("after %d writes the log has %d entries, want 3", n, l.Checkpoint.Size)
		}
		// Others are appended than those that were lost.
		if l := appended(t, dir, envelopes(4, 8)); l.Checkpoint.Size != 7 {
			t.Errorf("after %d writes: %+v", n, l.Checkpoint)
		}
		if _, err := Read(dir, keys); err != nil {
			t.Errorf("after %d writes: %v", n, err)
		}
	}
}

// TestLock: two processes do not append at once.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	appended(t, dir, envelopes(0, 1))
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if err == nil {
		err = filelock.Try(f)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Append(dir, "", owner, keys, envelopes(1, 2), nil); !errors.Is(err, filelock.ErrHeld) {
		t.Errorf("while it is held: %v", err)
	}
	f.Close()
	appended(t, dir, envelopes(1, 2))
	if _, _, err := Append(dir, "example.org/other", owner, keys, nil, nil); err == nil || !strings.Contains(err.Error(), "the ledger's origin is "+origin) {
		t.Errorf("another origin: %v", err)
	}
	for _, bad := range []string{"", "a b", "a+b", "a\nb"} {
		if _, _, err := Append(t.TempDir(), bad, owner, keys, nil, nil); err == nil {
			t.Errorf("origin %q is taken", bad)
		}
	}
}

// TestAppendReads: an append to a log of three levels of tiles reads the checkpoint, the last bundle of
// entries and the last tile of each level, and not one file more. So does a proof, beside the tiles above
// its entry.
func TestAppendReads(t *testing.T) {
	whole, read := commit, readRegular
	t.Cleanup(func() { commit, readRegular = whole, read })
	commit = func(path string, data []byte) error {
		if filepath.Base(filepath.Dir(path)) == envelopeFolder { // nobody reads them here
			return nil
		}
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, data, 0o666))
	}
	dir := t.TempDir()
	const size, levels = tileWidth*tileWidth + 2*tileWidth + 7, 3
	if _, _, err := Append(dir, origin, owner, keys, envelopes(0, size), nil); err != nil {
		t.Fatal(err)
	}
	files := map[string]bool{}
	readRegular = func(path string, n int64) ([]byte, error) {
		files[path] = true
		return readfile.Regular(path, n)
	}
	c, positions, err := Append(dir, "", owner, keys, envelopes(size, size+1), nil)
	if err != nil || c.Size != size+1 || positions[0] != size {
		t.Fatal(err, c, positions)
	}
	if len(files) != 2+levels {
		t.Errorf("an append reads %d files, want %d: %v", len(files), 2+levels, files)
	}
	clear(files)
	proof, err := opened(t, dir).Prove(3)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := CheckProof("p", proof, keys); err != nil {
		t.Error(err)
	}
	if most := 2 + 2*levels; len(files) > most {
		t.Errorf("a proof reads %d files, want at most %d: %v", len(files), most, files)
	}
	if _, err := open(dir, keys); err != nil {
		t.Error(err)
	}
}

// TestAppendToEdited: an append finds edits of what it builds on. It does not sign an edit elsewhere, which
// Read still names.
func TestAppendToEdited(t *testing.T) {
	quickly(t)
	const size = 260
	for file, want := range map[string]string{
		"tile/entries/001.p/4": "entry 259 was edited",
		"tile/0/001.p/4":       "not those that the checkpoint signs",
		"tile/1/000.p/1":       "not those that the checkpoint signs",
		"tile/entries/000":     "",
		"tile/0/000":           "",
	} {
		dir := t.TempDir()
		appended(t, dir, envelopes(0, size))
		path := filepath.Join(dir, file)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)-2] ^= 1
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		_, _, err = Append(dir, "", owner, keys, envelopes(size, size+1), nil)
		if want != "" {
			if _, isTampered := errors.AsType[*TamperedError](err); !isTampered || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", file, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if _, err := Read(dir, keys); err == nil || !strings.Contains(err.Error(), "entry 255 was edited") {
			t.Errorf("%s, after an append: %v", file, err)
		}
		if _, err := opened(t, dir).Prove(255); err == nil {
			t.Errorf("%s: the edited entry is proved", file)
		}
	}
}

// TestParts: the files of a partial tile are removed when the tile is full. A reader of an older checkpoint then uses the full tile.
func TestParts(t *testing.T) {
	quickly(t)
	dir := t.TempDir()
	appended(t, dir, envelopes(0, 201))
	old := opened(t, dir).Note()
	for size := 201; size < 258; size++ {
		if _, _, err := Append(dir, "", owner, keys, envelopes(size, size+1), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read(dir, keys); err != nil {
		t.Error(err)
	}
	for _, full := range []string{"tile/0/000", "tile/entries/000"} {
		if _, err := os.Stat(filepath.Join(dir, full+".p")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("parts of %s are there: %v", full, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, checkpointFile), old, 0o666); err != nil {
		t.Fatal(err)
	}
	if l, err := Read(dir, keys); err != nil || l.Checkpoint.Size != 201 {
		t.Errorf("by an older checkpoint: %v", err)
	}
}
