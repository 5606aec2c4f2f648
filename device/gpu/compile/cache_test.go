package compile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tokitai/device/gpu/compile"
)

// echo is a compiler whose program is its source, and which tells how often it ran.
type echo struct {
	ran     func()
	options []string
	hash    byte
}

func (e *echo) Identity() (compile.Identity, error) {
	return compile.Identity{Name: "echo 1", Hash: [32]byte{e.hash}}, nil
}

func (e *echo) Options(string) []string { return e.options }

func (e *echo) Compile(architecture string, s compile.Source) (*compile.Program, error) {
	if e.ran != nil {
		e.ran()
	}
	if s.Text == "bad" {
		return nil, errors.New("does not compile")
	}
	return &compile.Program{Image: []byte(s.Text), Log: "said of " + s.Name, Usage: []compile.Usage{{Entry: "k", Registers: 7}}}, nil
}

// testCache has a folder of its own and collects its warnings.
func testCache(t *testing.T, dir string) (*compile.Cache, *[]string) {
	t.Helper()
	var warnings []string
	var mu sync.Mutex
	c := compile.NewCache(dir, func(message string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, message+" "+fmt.Sprint(args...))
	})
	return c, &warnings
}

func count(n *int) *echo { return &echo{ran: func() { *n++ }} }

func TestCacheKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	c, warnings := testCache(t, dir)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("the folder: %v, %v, want mode 0700", info.Mode(), err)
	}
	n := 0
	source := compile.Source{Name: "a.cu", Text: "some text"}
	for i := range 3 {
		if i == 2 {
			c, warnings = testCache(t, dir) // as another process would
		}
		p, err := c.Compile(count(&n), "sm_1", source)
		if err != nil || string(p.Image) != source.Text || p.Log != "said of a.cu" || len(p.Usage) != 1 || p.Usage[0].Registers != 7 || p.FromCache != (i > 0) {
			t.Fatalf("%d: %+v, %v", i, p, err)
		}
	}
	if n != 1 || len(*warnings) != 0 {
		t.Errorf("compiled %d times, warnings %q", n, *warnings)
	}
	// Whatever decides the program is in its key.
	for what, try := range map[string]func() (*compile.Program, error){
		"text": func() (*compile.Program, error) {
			return c.Compile(count(&n), "sm_1", compile.Source{Name: "a.cu", Text: "other"})
		},
		"name": func() (*compile.Program, error) {
			return c.Compile(count(&n), "sm_1", compile.Source{Name: "b.cu", Text: "some text"})
		},
		"header": func() (*compile.Program, error) {
			return c.Compile(count(&n), "sm_1", compile.Source{Name: "a.cu", Text: "some text", Headers: []compile.Header{{Name: "a.h"}}})
		},
		"unit": func() (*compile.Program, error) {
			return c.Compile(count(&n), "sm_1", compile.Source{Name: "a.cu", Text: "some text", Units: []compile.Header{{Name: "a.h"}}})
		},
		"split": func() (*compile.Program, error) {
			return c.Compile(count(&n), "sm_1", compile.Source{Name: "a.cus", Text: "ome text"})
		},
		"architecture": func() (*compile.Program, error) { return c.Compile(count(&n), "sm_2", source) },
		"options": func() (*compile.Program, error) {
			return c.Compile(&echo{func() { n++ }, []string{"-x"}, 0}, "sm_1", source)
		},
		"option": func() (*compile.Program, error) {
			return c.Compile(&echo{func() { n++ }, []string{"-", "x"}, 0}, "sm_1", source)
		},
		"compiler": func() (*compile.Program, error) { return c.Compile(&echo{func() { n++ }, nil, 1}, "sm_1", source) },
	} {
		n = 0
		if p, err := try(); err != nil || n != 1 || p.FromCache {
			t.Errorf("another %s: compiled %d times, %v", what, n, err)
		}
	}
	if _, err := c.Compile(count(&n), "sm_1", compile.Source{Name: "bad", Text: "bad"}); err == nil {
		t.Error("a source that does not compile gave a program")
	}
}

func TestCacheListAndClear(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	c, _ := testCache(t, dir)
	for _, name := range []string{"a.cu", "b.cu", "c.cu"} {
		if _, err := c.Compile(&echo{}, "sm_1", compile.Source{Name: name, Text: name}); err != nil {
			t.Fatal(err)
		}
	}
	damageOne(t, dir, func(b []byte) []byte { return b[:len(b)-1] })
	os.WriteFile(filepath.Join(dir, "somebody's"), []byte("else"), 0o600)
	list, err := c.List()
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	damaged := 0
	for _, e := range list {
		if e.IsDamaged {
			damaged++
		} else if e.Architecture != "sm_1" || e.Compiler != "echo 1" || !strings.HasSuffix(e.Name, ".cu") || e.Bytes == 0 || e.Modified.IsZero() {
			t.Errorf("%+v", e)
		}
	}
	if damaged != 1 {
		t.Errorf("%d damaged, want 1", damaged)
	}
	n, freed, err := c.Clear()
	if err != nil || n != 3 || freed < 300 {
		t.Errorf("cleared %d programs, %d bytes, %v", n, freed, err)
	}
	left, _ := os.ReadDir(dir)
	if len(left) != 1 || left[0].Name() != "somebody's" {
		t.Errorf("left: %v", left)
	}
}

func programs(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.program"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func damageOne(t *testing.T, dir string, change func([]byte) []byte) {
	t.Helper()
	file := programs(t, dir)[0]
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, change(slices.Clone(data)), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedProgramIsRebuilt(t *testing.T) {
	source := compile.Source{Name: "a.cu", Text: strings.Repeat("text ", 100)}
	for what, change := range map[string]func([]byte) []byte{
		"empty":       func([]byte) []byte { return nil },
		"cut":         func(b []byte) []byte { return b[:len(b)/2] },
		"longer":      func(b []byte) []byte { return append(b, 'x') },
		"one bit":     func(b []byte) []byte { b[len(b)-3] ^= 4; return b },
		"in the head": func(b []byte) []byte { b[3] ^= 1; return b },
		"another's": func(b []byte) []byte {
			// A whole file under the wrong name: swap the key and make the hash fit.
			lines := bytes.SplitN(b, []byte("\n"), 4)
			lines[2][0] ^= 1
			content := bytes.Join(lines[2:], []byte("\n"))
			lines[1] = fmt.Appendf(nil, "%x", sha256.Sum256(content))
			return bytes.Join(lines, []byte("\n"))
		},
	} {
		dir := t.TempDir()
		os.Chmod(dir, 0o700)
		c, warnings := testCache(t, dir)
		n := 0
		for i := range 3 {
			p, err := c.Compile(count(&n), "sm_1", source)
			if err != nil || string(p.Image) != source.Text {
				t.Fatalf("%s: %v", what, err)
			}
			if i == 0 {
				damageOne(t, dir, change)
			}
		}
		if n != 2 || len(*warnings) == 0 || !strings.Contains((*warnings)[0], "damaged") {
			t.Errorf("%s: compiled %d times, want once more; warnings %q", what, n, *warnings)
		}
	}
}

// A folder that cannot be used is told of once, and programs are kept in memory.
func degrades(t *testing.T, what string, c *compile.Cache, warnings *[]string) {
	t.Helper()
	n := 0
	for range 2 {
		for _, text := range []string{"one", "two"} {
			p, err := c.Compile(count(&n), "sm_1", compile.Source{Name: text, Text: text})
			if err != nil || string(p.Image) != text {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if n != 2 || len(*warnings) != 1 || !strings.Contains((*warnings)[0], "in memory only") || c.Dir() != "" {
		t.Errorf("%s: compiled %d times, want 2; warnings %q, want one", what, n, *warnings)
	}
}

func TestUnusableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	open := filepath.Join(t.TempDir(), "open")
	os.Mkdir(open, 0o755)
	for what, dir := range map[string]string{"a file": file, "below a file": filepath.Join(file, "x"), "open to others": open, "none": ""} {
		c, warnings := testCache(t, dir)
		degrades(t, what, c, warnings)
	}

	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	c, warnings := testCache(t, dir)
	c.SetWrite(func(f *os.File, b []byte) error {
		f.Write(b[:len(b)/2])
		return syscall.ENOSPC
	})
	degrades(t, "full", c, warnings)
	if left, _ := filepath.Glob(filepath.Join(dir, "*tmp*")); len(left) != 0 || len(programs(t, dir)) != 0 {
		t.Errorf("left by a full folder: %v", left)
	}
}

func TestReadOnlyFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	os.Mkdir(dir, 0o700)
	c, warnings := testCache(t, dir)
	os.Chmod(dir, 0o500)
	defer os.Chmod(dir, 0o700)
	if os.Geteuid() == 0 {
		// The superuser writes anywhere: give that up on this thread, for files only.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if !becomeNobody() {
			t.Skip("the superuser cannot be denied a folder here")
		}
		defer becomeRoot()
	}
	degrades(t, "read-only", c, warnings)
}

func TestLockTimeout(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	c, warnings := testCache(t, dir)
	source := compile.Source{Name: "a.cu", Text: "text"}
	if _, err := c.Compile(&echo{}, "sm_1", source); err != nil {
		t.Fatal(err)
	}
	key, _, _ := strings.Cut(filepath.Base(programs(t, dir)[0]), ".")
	os.Remove(programs(t, dir)[0])
	unlock, err := compile.LockFile(filepath.Join(dir, key+".lock"), 0)
	if err != nil {
		t.Fatal(err)
	}
	c.SetLockLimit(20 * time.Millisecond)
	p, err := c.Compile(&echo{}, "sm_1", source)
	if err != nil || string(p.Image) != "text" || len(*warnings) != 1 || !strings.Contains((*warnings)[0], "lock") {
		t.Errorf("%v, %v, warnings %q", p, err, *warnings)
	}
	if len(programs(t, dir)) != 0 {
		t.Error("wrote without the lock")
	}
	unlock()
	if _, err := c.Compile(&echo{}, "sm_1", source); err != nil || len(programs(t, dir)) != 1 {
		t.Errorf("with the lock free: %v", err)
	}
}

// The test's own binary is the other process.
const (
	childRole = "TOKITAI_TEST_CHILD"
	childDir  = "TOKITAI_TEST_DIR"
)

func child() {
	dir := os.Getenv(childDir)
	c := compile.NewCache(filepath.Join(dir, "cache"), nil)
	switch os.Getenv(childRole) {
	case "compile":
		compiler := &echo{ran: func() {
			f, _ := os.OpenFile(filepath.Join(dir, "ran"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			f.WriteString("x")
			f.Close()
			time.Sleep(100 * time.Millisecond)
		}}
		for os.Getenv("TOKITAI_TEST_START") != "" {
			if _, err := os.Stat(filepath.Join(dir, "start")); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		p, err := c.Compile(compiler, "sm_1", compile.Source{Name: "a.cu", Text: "text"})
		if err != nil || string(p.Image) != "text" {
			os.Exit(1)
		}
	case "write":
		// In pieces, so that there is time to die between them.
		c.SetWrite(func(f *os.File, b []byte) error {
			for piece := range slices.Chunk(b, 1<<13) {
				if _, err := f.Write(piece); err != nil {
					return err
				}
				time.Sleep(100 * time.Microsecond)
			}
			return nil
		})
		for i := uint32(0); ; i++ {
			c.Compile(&echo{}, "sm_1", killSource(i%16))
			if i%16 == 15 {
				c.Clear()
			}
		}
	}
}

// killSource is long enough that writing it takes a while.
func killSource(i uint32) compile.Source {
	return compile.Source{Name: fmt.Sprint(i), Text: strings.Repeat(string(binary.LittleEndian.AppendUint32(nil, i|0x20202020)), 1<<15)}
}

func startChild(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childRole+"="+role, childDir+"="+dir, "TOKITAI_TEST_START=1")
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	return command
}

func TestTwoProcessesCompileOnce(t *testing.T) {
	dir := t.TempDir()
	var children []*exec.Cmd
	for range 4 {
		children = append(children, startChild(t, "compile", dir))
	}
	time.Sleep(50 * time.Millisecond)
	os.WriteFile(filepath.Join(dir, "start"), nil, 0o600)
	for _, c := range children {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	if ran, err := os.ReadFile(filepath.Join(dir, "ran")); err != nil || len(ran) != 1 {
		t.Errorf("four processes compiled %d times, %v", len(ran), err)
	}
}

func TestGoroutinesCompileOnce(t *testing.T) {
	for _, dir := range []string{filepath.Join(t.TempDir(), "cache"), ""} {
		c, _ := testCache(t, dir)
		var all sync.WaitGroup
		n := 0
		for range 8 {
			all.Go(func() { c.Compile(count(&n), "sm_1", compile.Source{Name: "a", Text: "a"}) })
		}
		all.Wait()
		if n != 1 {
			t.Errorf("folder %q: compiled %d times", dir, n)
		}
	}
}

// A process that dies at any moment leaves a cache that works: whole programs, or none,
// and no lock.
func TestKilledProcess(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	for range 25 {
		c := startChild(t, "write", dir)
		time.Sleep(10*time.Millisecond + time.Duration(r.IntN(50_000))*time.Microsecond)
		c.Process.Kill()
		c.Wait()
	}
	c, warnings := testCache(t, filepath.Join(dir, "cache"))
	c.SetLockLimit(time.Second)
	list, err := c.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.IsDamaged {
			t.Errorf("%s is damaged", e.Key)
		}
	}
	for i := range uint32(16) {
		want := killSource(i)
		if p, err := c.Compile(&echo{}, "sm_1", want); err != nil || string(p.Image) != want.Text {
			t.Errorf("%d: %v", i, err)
		}
	}
	if len(*warnings) != 0 {
		t.Errorf("warnings %q", *warnings)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "cache", "*tmp*")); len(left) > 1 {
		t.Errorf("left: %v", left)
	}
	t.Logf("%d whole programs after 25 deaths", len(list))
}
