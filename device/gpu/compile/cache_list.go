package compile

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Entry describes a file of the cache.
type Entry struct {
	Key          string
	Name         string // of the source; empty if the file is damaged
	Architecture string
	Compiler     string
	Bytes        int64
	Modified     time.Time
	IsDamaged    bool
}

// List returns the programs in the folder, oldest first.
func (c *Cache) List() ([]Entry, error) {
	files, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a folder that was removed holds nothing
		return nil, err
	}
	var list []Entry
	for _, file := range files {
		name, ok := strings.CutSuffix(file.Name(), suffix)
		if !ok {
			continue
		}
		info, err := file.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // cleared meanwhile
		} else if err != nil {
			return nil, err
		}
		e := Entry{Key: name, Bytes: info.Size(), Modified: info.ModTime(), IsDamaged: true}
		if key, err := hex.DecodeString(name); err == nil && len(key) == len(Key{}) {
			if data, err := os.ReadFile(filepath.Join(c.dir, file.Name())); err == nil {
				if a, err := decode(Key(key), data); err == nil {
					e.Name, e.Architecture, e.Compiler, e.IsDamaged = a.about.Name, a.about.Architecture, a.about.Compiler, false
				}
			}
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Entry) int {
		if n := a.Modified.Compare(b.Modified); n != 0 {
			return n
		}
		return strings.Compare(a.Key, b.Key)
	})
	return list, nil
}

// Clear removes the files of the cache from its folder, and no others. It returns the number
// of programs and the bytes of all files that it removed.
func (c *Cache) Clear() (programs int, freed int64, err error) {
	c.mu.Lock()
	clear(c.memory)
	c.mu.Unlock()
	files, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	} else if err != nil {
		return 0, 0, err
	}
	for _, file := range files {
		name := file.Name()
		isProgram := strings.HasSuffix(name, suffix)
		if !isProgram && !strings.HasSuffix(name, ".lock") && !strings.HasSuffix(name, memoSuffix) && !strings.Contains(name, tempMiddle) {
			continue
		}
		info, err := file.Info()
		if err != nil {
			continue
		}
		if err := os.Remove(filepath.Join(c.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return programs, freed, err
		}
		freed += info.Size()
		if isProgram {
			programs++
		}
	}
	return programs, freed, nil
}
