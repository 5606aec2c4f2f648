package compile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Host is the host's C++ compiler. Make it with OpenHost; it is safe from any goroutine.
type Host struct {
	path    string // of the program
	version string // first line of what it says
	isClang bool
	files   []string // whose bytes decide what it makes

	identity func() (Identity, error)
}

// ErrNoHostCompiler is a machine without a C++ compiler.
var ErrNoHostCompiler = errors.New("no C++ compiler")

// hostCompileLimit ends a compiler that hangs.
const hostCompileLimit = 10 * time.Minute

var host struct {
	sync.Mutex
	byName map[string]*Host
}

// OpenHost finds the compiler: TOKITAI_CXX, else g++, else clang++.
func OpenHost() (*Host, error) {
	names := []string{"g++", "clang++"}
	named := os.Getenv("TOKITAI_CXX")
	if named != "" {
		names = []string{named}
	}
	host.Lock()
	defer host.Unlock()
	if h, ok := host.byName[named]; ok {
		return h, nil
	}
	var failed []string
	for _, name := range names {
		h, err := newHost(name)
		if err == nil {
			if host.byName == nil {
				host.byName = map[string]*Host{}
			}
			host.byName[named] = h
			return h, nil
		}
		failed = append(failed, err.Error())
	}
	return nil, fmt.Errorf("%w: %s; install g++, or set TOKITAI_CXX", ErrNoHostCompiler, strings.Join(failed, "; "))
}

func newHost(name string) (*Host, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, err
	}
	ask := func(arguments ...string) (string, error) {
		out, err := exec.Command(path, arguments...).Output()
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", path, strings.Join(arguments, " "), err)
		}
		return string(out), nil
	}
	said, err := ask("--version")
	if err != nil {
		return nil, err
	}
	h := &Host{path: path, isClang: strings.Contains(said, "clang")}
	h.version, _, _ = strings.Cut(said, "\n")
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	h.files = []string{resolved}
	if !h.isClang {
		// g++ only calls what compiles.
		if inner, err := ask("-print-prog-name=cc1plus"); err == nil {
			if inner = strings.TrimSpace(inner); filepath.IsAbs(inner) {
				h.files = append(h.files, inner)
			}
		}
	}
	h.identity = sync.OnceValues(func() (Identity, error) {
		hash := sha256.New()
		hash.Write([]byte(said))
		for _, file := range h.files {
			sum, err := fileHash(file)
			if err != nil {
				return Identity{}, err
			}
			hash.Write(sum[:])
		}
		return Identity{Name: h.version, Hash: [sha256.Size]byte(hash.Sum(nil))}, nil
	})
	return h, nil
}

// String is the compiler with its version.
func (h *Host) String() string { return h.version }

// Path is the program's file.
func (h *Host) Path() string { return h.path }

// Identity hashes the compiler's files.
func (h *Host) Identity() (Identity, error) { return h.identity() }

// Options are those without which bits would differ from a GPU's. Floating point has no
// excess precision on 64-bit processors. The architecture is the simulator's and changes
// nothing here.
func (h *Host) Options(string) []string {
	options := []string{"-O2", "-std=c++17", "-ffp-contract=off", "-fno-fast-math", "-fno-strict-aliasing",
		"-fPIC", "-shared", "-pthread", "-DTOKITAI_SIM=1"}
	if !h.isClang {
		// Otherwise the loader keeps a library for ever, and takes the next for it.
		options = append(options, "-fno-gnu-unique")
	}
	return options
}

// Compile makes a shared library.
func (h *Host) Compile(architecture string, s Source) (*Program, error) {
	return h.CompileWith(h.Options(architecture), s)
}

// CompileWith makes what other options ask for: an executable, one with sanitizers.
func (h *Host) CompileWith(options []string, s Source) (*Program, error) {
	dir, err := os.MkdirTemp("", "tokitai-compile-")
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", s.Name, err)
	}
	defer os.RemoveAll(dir)
	for _, header := range s.Headers {
		if header.Name != filepath.Base(header.Name) || header.Name == "program" {
			return nil, fmt.Errorf("compile %s: got a header named %q, want a single word", s.Name, header.Name)
		}
		if err := os.WriteFile(filepath.Join(dir, header.Name), []byte(header.Text), 0o600); err != nil {
			return nil, fmt.Errorf("compile %s: %w", s.Name, err)
		}
	}
	made := filepath.Join(dir, "program")
	ctx, cancel := context.WithTimeout(context.Background(), hostCompileLimit)
	defer cancel()
	command := exec.CommandContext(ctx, h.path, slices.Concat(options, []string{"-I.", "-x", "c++", "-", "-o", made})...)
	command.Dir = dir
	command.Env = append(os.Environ(), "LC_ALL=C", "TMPDIR="+dir)
	command.Stdin = strings.NewReader(fmt.Sprintf("#line 1 %q\n%s", s.Name, s.Text))
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	if err := command.Run(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok || log.Len() == 0 || ctx.Err() != nil {
			return nil, fmt.Errorf("compile %s: %s: %w\n%s", s.Name, h.path, err, log.String())
		}
		return nil, newError(h.version, s, log.String())
	}
	image, err := os.ReadFile(made)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", s.Name, err)
	}
	return &Program{Image: image, Log: log.String()}, nil
}
