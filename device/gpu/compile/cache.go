package compile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tokitai/internal/leftover"
)

// Cache keeps programs in a folder, for all processes of a user.
//
// A program's key is the hash of its source, the options and the compiler's own bytes. A
// file holds the hash of its content, which is checked whenever it is read, and gets its
// name when it is whole and on the disk, so a process may die at any moment. Whoever
// compiles holds a lock that dies with its process; others wait for it, for a minute at
// most. A folder that cannot be used makes this a cache in memory, with one warning.
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

// Key names a program.
type Key [sha256.Size]byte

func (k Key) String() string { return hex.EncodeToString(k[:]) }

// lockLimit is how long to wait for another process that compiles the same.
const lockLimit = 60 * time.Second

// NewCache uses a folder, which is made if need be and must be the user's own. Warnings
// go to warn, or to the log if that is nil.
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

// Default is the cache that all devices of the process share: in the folder that
// TOKITAI_CACHE names, else in the user's cache folder.
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

// DefaultDir is the folder of Default.
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

// prepareDir makes a folder, or refuses one into which others could put programs.
func prepareDir(dir string) error {
	if dir == "" {
		return errors.New("no folder is named")
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

// Dir is the folder; empty when programs are kept in memory only.
func (c *Cache) Dir() string {
	if c.Problem() != nil {
		return ""
	}
	return c.dir
}

// degrade leaves the folder alone from now on, and says so once.
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

// Problem is why programs are kept in memory only; nil if they are kept in the folder.
func (c *Cache) Problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// Compile finds a program or makes it.
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

// keyOf hashes all that decides a program. Each part goes in with its length.
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

// about is what a file tells people of its program.
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

// get finds a program or builds it, once at a time for each key.
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

// find reads a program; nil where there is none, or a damaged one.
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
		c.warn("a compiled program is damaged and is made anew", "file", c.path(key), "reason", err)
		return nil
	}
	return a
}

// store keeps a program, in memory where the folder fails. The key's lock is held.
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

const (
	suffix     = ".program"
	tempMiddle = ".tmp-"
)

func (c *Cache) path(key Key) string { return filepath.Join(c.dir, key.String()+suffix) }

// save writes a file under another name, sees it on the disk, and renames it.
func (c *Cache) save(key Key, a *artifact) (err error) {
	// What others left of this key when they died; nobody else writes it now.
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

// createTemp is os.CreateTemp for a file that does not outlive the process, until it is
// forgotten.
func createTemp(dir, pattern string) (f *os.File, forget func(), err error) {
	forget, err = leftover.Make(func() (func(), error) {
		var err error
		f, err = os.CreateTemp(dir, pattern)
		return func() { os.Remove(f.Name()) }, err
	})
	return f, forget, err
}

// A file is: the format, the hash of all that follows, the key, what it is about as one
// line of JSON, the program.
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

// Entry is a file of the cache.
type Entry struct {
	Key          string
	Name         string // of the source; empty where the file is damaged
	Architecture string
	Compiler     string
	Bytes        int64
	Modified     time.Time
	IsDamaged    bool
}

// List reads every program in the folder, oldest first.
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

// Clear removes what the cache has put into its folder, and nothing else. It returns the
// number of programs and the bytes of all files.
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

// fileHash is a file's SHA-256. Compilers have hundreds of megabytes, so it is remembered
// by path, identity, size and time: in the process, and in the cache's folder.
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

// writeMemo saves work for later processes; failing that, they do it again.
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
