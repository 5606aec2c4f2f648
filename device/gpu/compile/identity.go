package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// fileHash returns the SHA-256 of a file. Compilers have hundreds of megabytes, so the hash
// is kept by path, inode, size and time: in the process, and in the folder of the cache.
func fileHash(path string) ([sha256.Size]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	name := fmt.Sprintf("%s|%s|%d|%d", path, fileIdentity(info), info.Size(), info.ModTime().UnixNano())
	hashes.Lock()
	defer hashes.Unlock()
	if sum, ok := hashes.known[name]; ok {
		return sum, nil
	}
	memo := ""
	if dir := Default().Dir(); dir != "" {
		memo = filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256([]byte(name)))+memoSuffix)
		if text, err := os.ReadFile(memo); err == nil {
			if sum, ok := parseMemo(string(text), name); ok {
				hashes.known[name] = sum
				return sum, nil
			}
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return [sha256.Size]byte{}, err
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	hashes.known[name] = sum
	if memo != "" {
		writeMemo(memo, fmt.Sprintf("%x %s", sum, name))
	}
	return sum, nil
}

const memoSuffix = ".compiler"

var hashes = struct {
	sync.Mutex
	known map[string][sha256.Size]byte
}{known: map[string][sha256.Size]byte{}}

func parseMemo(text, name string) (sum [sha256.Size]byte, ok bool) {
	digits, rest, _ := strings.Cut(text, " ")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != len(sum) || rest != name {
		return sum, false
	}
	return [sha256.Size]byte(raw), true
}

// writeMemo keeps a hash for later processes. If it fails, they compute it again.
func writeMemo(path, text string) {
	f, forget, err := createTemp(filepath.Dir(path), filepath.Base(path)+tempMiddle+"*")
	if err != nil {
		return
	}
	defer forget()
	_, err = f.WriteString(text)
	if closed := f.Close(); err == nil && closed == nil && os.Rename(f.Name(), path) == nil {
		return
	}
	os.Remove(f.Name())
}
