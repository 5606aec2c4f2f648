package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Cache keeps compiled programs in a folder, for all processes of a user.
//
// The key of a program is the hash of its source, the options and the compiler's own bytes.
// A file holds the hash of its content, which is checked at every load, and gets its name
// only when it is complete and on disk, so a process may die at any moment. The process that
// compiles holds a lock that the system frees when it dies; others wait for the lock, for
// a minute at most, and then compile without the cache. A damaged file is rebuilt. If the
// folder cannot be used, programs are kept in memory, with one warning.
//
// The build caches of other projects do not keep these promises. That of the go command
// (github.com/rogpeppe/go-internal/cache) writes files in place and without syncing them,
// takes a file that cannot be read for one that is missing, and has neither a list nor an
// owner's check; its locks (lockedfile) wait without a limit. What would be left to it is
// the content hash.
type Cache struct {
	dir  string
	warn func(message string, args ...any)

	mu     sync.Mutex
	broken error // why the folder is not used
	memory map[Key]*artifact
	busy   map[Key]*sync.Mutex

	lockLimit time.Duration
	write     func(f *os.File, data []byte) error
}

// Key identifies a program.
type Key [sha256.Size]byte

func (k Key) String() string { return hex.EncodeToString(k[:]) }

// lockLimit is how long to wait for another process that compiles the same program.
const lockLimit = 60 * time.Second

// NewCache returns a cache in a folder, which it creates if necessary. The folder must be the
// user's own, with mode 0700. Warnings go to warn, or to slog if warn is nil.
func NewCache(dir string, warn func(message string, args ...any)) *Cache {
	if warn == nil {
		warn = func(message string, args ...any) { slog.Warn(message, args...) }
	}
	c := &Cache{dir: dir, warn: warn, memory: map[Key]*artifact{}, busy: map[Key]*sync.Mutex{}, lockLimit: lockLimit}
	c.write = func(f *os.File, data []byte) error {
		_, err := f.Write(data)
		return err
	}
	if err := prepareDir(dir); err != nil {
		c.degrade(err)
	}
	return c
}

// Default returns the cache that all devices of the process share, in the folder of
// DefaultDir.
var Default = sync.OnceValue(func() *Cache {
	dir, err := DefaultDir()
	if err != nil {
		c := NewCache("", func(string, ...any) {})
		c.warn = func(message string, args ...any) { slog.Warn(message, args...) }
		c.warn("compiled programs are kept in memory only", "reason", err)
		return c
	}
	return NewCache(dir, nil)
})

// DefaultDir returns the folder that TOKITAI_CACHE names, or else the folder tokitai in the
// user's cache folder.
func DefaultDir() (string, error) {
	if dir := os.Getenv("TOKITAI_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "tokitai"), nil
}

// prepareDir creates a folder. It returns an error if other users could write to it.
func prepareDir(dir string) error {
	if dir == "" {
		return errors.New("no folder is given")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s has mode %04o: others may use it, want 0700", dir, mode)
	}
	if !isOurs(info) {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return nil
}

// Dir returns the folder, or "" if programs are kept in memory only.
func (c *Cache) Dir() string {
	if c.Problem() != nil {
		return ""
	}
	return c.dir
}

// degrade keeps programs in memory from now on, and warns once.
func (c *Cache) degrade(err error) {
	c.mu.Lock()
	isNew := c.broken == nil
	if isNew {
		c.broken = err
	}
	c.mu.Unlock()
	if isNew {
		c.warn("compiled programs are kept in memory only", "folder", c.dir, "reason", err)
	}
}

// Problem returns why programs are kept in memory only, or nil if they are kept in the
// folder.
func (c *Cache) Problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// Compile returns a program from the cache, or compiles it.
func (c *Cache) Compile(compiler Compiler, architecture string, s Source) (*Program, error) {
	identity, err := compiler.Identity()
	if err != nil {
		c.warn("compiling without the cache: the compiler cannot be identified", "reason", err)
		return compiler.Compile(architecture, s)
	}
	options := compiler.Options(architecture)
	key := keyOf(identity, options, architecture, s)
	about := about{Name: s.Name, Architecture: architecture, Compiler: identity.Name}
	return c.get(key, about, func() (*Program, error) { return compiler.Compile(architecture, s) })
}

// keyOf hashes everything that determines a program, each part with its length.
func keyOf(identity Identity, options []string, architecture string, s Source) Key {
	h := sha256.New()
	part := func(text string) { fmt.Fprintf(h, "%d:%s;", len(text), text) }
	part(format)
	part(string(identity.Hash[:]))
	part(architecture)
	fmt.Fprintf(h, "%d options;", len(options))
	for _, o := range options {
		part(o)
	}
	part(s.Name)
	part(s.Text)
	for _, header := range s.Headers {
		part(header.Name)
		part(header.Text)
	}
	fmt.Fprintf(h, "%d units;", len(s.Units))
	for _, unit := range s.Units {
		part(unit.Name)
		part(unit.Text)
	}
	return Key(h.Sum(nil))
}

// get returns a program from the cache, or builds it. Builds of one key take turns.
func (c *Cache) get(key Key, about about, build func() (*Program, error)) (*Program, error) {
	busy := c.busyOn(key)
	busy.Lock()
	defer busy.Unlock()

	if a := c.find(key); a != nil {
		return a.program(true), nil
	}
	if c.Problem() == nil {
		unlock, err := lockFile(filepath.Join(c.dir, key.String()+".lock"), c.lockLimit)
		switch {
		case errors.Is(err, errLockTimeout):
			c.warn("compiling without the cache: another process holds the lock", "program", about.Name, "waited", c.lockLimit)
			return build()
		case err != nil:
			c.degrade(err)
		default:
			defer unlock()
			if a := c.find(key); a != nil {
				return a.program(true), nil
			}
		}
	}
	program, err := build()
	if err != nil {
		return nil, err
	}
	about.Log, about.Usage = program.Log, program.Usage
	c.store(key, &artifact{about: about, image: program.Image})
	return program, nil
}

func (c *Cache) busyOn(key Key) *sync.Mutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.busy[key]
	if m == nil {
		m = new(sync.Mutex)
		c.busy[key] = m
	}
	return m
}

// find returns the program of a key, or nil if there is none or it is damaged.
func (c *Cache) find(key Key) *artifact {
	c.mu.Lock()
	a, broken := c.memory[key], c.broken
	c.mu.Unlock()
	if a != nil || broken != nil {
		return a
	}
	data, err := os.ReadFile(c.path(key))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.degrade(err)
		}
		return nil
	}
	a, err = decode(key, data)
	if err != nil {
		c.warn("a compiled program is damaged and is compiled again", "file", c.path(key), "reason", err)
		return nil
	}
	return a
}

// store keeps a program, in memory if the folder fails. The caller holds the key's lock.
func (c *Cache) store(key Key, a *artifact) {
	if c.Problem() == nil {
		err := c.save(key, a)
		if err == nil {
			return
		}
		c.degrade(err)
	}
	c.mu.Lock()
	c.memory[key] = a
	c.mu.Unlock()
}
