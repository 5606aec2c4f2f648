package compile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tokitai/internal/leftover"
)

// about is what a file says about its program, for people.
type about struct {
	Name         string  `json:"name"`
	Architecture string  `json:"architecture"`
	Compiler     string  `json:"compiler"`
	Log          string  `json:"log,omitempty"`
	Usage        []Usage `json:"usage,omitempty"`
}

type artifact struct {
	about about
	image []byte
}

func (a *artifact) program(fromCache bool) *Program {
	return &Program{Image: a.image, Log: a.about.Log, Usage: a.about.Usage, FromCache: fromCache}
}

const (
	suffix     = ".program"
	tempMiddle = ".tmp-"
)

func (c *Cache) path(key Key) string { return filepath.Join(c.dir, key.String()+suffix) }

// save writes a file under a temporary name, syncs it to disk, and renames it.
func (c *Cache) save(key Key, a *artifact) (err error) {
	// Remove what processes left that died while they wrote this key: the lock is ours.
	left, _ := filepath.Glob(filepath.Join(c.dir, key.String()+tempMiddle+"*"))
	for _, path := range left {
		os.Remove(path)
	}
	f, forget, err := createTemp(c.dir, key.String()+tempMiddle+"*")
	if err != nil {
		return err
	}
	defer forget()
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err = c.write(f, encode(key, a)); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.path(key))
}

// createTemp is os.CreateTemp for a file that is removed when the process ends, unless
// forget has been called.
func createTemp(dir, pattern string) (f *os.File, forget func(), err error) {
	forget, err = leftover.Make(func() (func(), error) {
		var err error
		f, err = os.CreateTemp(dir, pattern)
		return func() { os.Remove(f.Name()) }, err
	})
	return f, forget, err
}

// format is the first line of a file. The hash of all that follows is the second, then come
// the key, what the program is as one line of JSON, and the program.
const format = "tokitai program 1"

func encode(key Key, a *artifact) []byte {
	line, err := json.Marshal(a.about)
	if err != nil {
		panic("compile: " + err.Error()) // strings and numbers only
	}
	var content bytes.Buffer
	fmt.Fprintf(&content, "%s\n%s\n", key, line)
	content.Write(a.image)
	var file bytes.Buffer
	fmt.Fprintf(&file, "%s\n%x\n", format, sha256.Sum256(content.Bytes()))
	file.Write(content.Bytes())
	return file.Bytes()
}

func decode(key Key, data []byte) (*artifact, error) {
	line := func() string {
		text, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		return string(text)
	}
	if got := line(); got != format {
		return nil, fmt.Errorf("got %.40q, want %q", got, format)
	}
	want := line()
	if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != want {
		return nil, errors.New("the content does not have its hash")
	}
	if got := line(); got != key.String() {
		return nil, fmt.Errorf("it holds the program %.16s…", got)
	}
	var a artifact
	if err := json.Unmarshal([]byte(line()), &a.about); err != nil {
		return nil, err
	}
	a.image = bytes.Clone(data)
	return &a, nil
}
