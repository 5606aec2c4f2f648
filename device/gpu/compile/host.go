package compile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tokitai/internal/leftover"
)

// Host is the host's C++ compiler. Use OpenHost to open it. It is safe for concurrent
// use.
type Host struct {
	path    string // of the program
	version string // first line of --version
	isClang bool
	files   []string // the compiler's files, which Identity hashes

	identity func() (Identity, error)
}

// ErrNoHostCompiler means that no C++ compiler is installed.
var ErrNoHostCompiler = errors.New("no C++ compiler")

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
	versionText, err := ask("--version")
	if err != nil {
		return nil, err
	}
	h := &Host{path: path, isClang: strings.Contains(versionText, "clang")}
	h.version, _, _ = strings.Cut(versionText, "\n")
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	h.files = []string{resolved}
	if !h.isClang {
		// g++ is only a driver: cc1plus compiles.
		if inner, err := ask("-print-prog-name=cc1plus"); err == nil {
			if inner = strings.TrimSpace(inner); filepath.IsAbs(inner) {
				h.files = append(h.files, inner)
			}
		}
	}
	h.identity = sync.OnceValues(func() (Identity, error) {
		hash := sha256.New()
		hash.Write([]byte(versionText))
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

// String returns the compiler's name and version.
func (h *Host) String() string { return h.version }

// Path returns the path of the compiler.
func (h *Host) Path() string { return h.path }

// Identity returns the version and a hash of the compiler's files.
func (h *Host) Identity() (Identity, error) { return h.identity() }

// Races is the architecture of programs that report races: each memory access of the
// text, but not of the units, calls the hooks of ThreadSanitizer, which a unit defines.
const Races = "sim-races"

// Checked is the architecture of programs whose text was written elsewhere. It is that of
// Races, and the compiler checks indices of arrays, alignment and integer divisions, and that
// the simulator's stacks suffice; a unit defines what it calls.
const Checked = "sim-checked"

// Options returns the compiler's options. They keep the bits equal to a GPU's; 64-bit
// processors have no excess precision. The text is compiled with -O1, since compiling
// takes longer than most launches.
func (h *Host) Options(architecture string) []string {
	return slices.Concat(h.textOptions(architecture), h.unitOptions(), linkOptions)
}

func (h *Host) textOptions(architecture string) []string {
	options := append(h.commonOptions(), "-O1")
	if architecture == Checked {
		options = append(options, "-fsanitize=bounds,alignment,integer-divide-by-zero", "-Werror=frame-larger-than=49152")
	}
	if architecture == Races || architecture == Checked {
		options = append(options, "-fsanitize=thread", "-g1", "-gdwarf-4") // older binutils assign the lines of version 5 to the wrong file
	}
	return options
}

func (h *Host) unitOptions() []string { return append(h.commonOptions(), "-O2") }

func (h *Host) commonOptions() []string {
	options := []string{"-std=c++17", "-ffp-contract=off", "-fno-fast-math", "-fno-strict-aliasing", "-fPIC", "-pthread", "-DTOKITAI_SIM=1"}
	if h.isClang {
		return append(options, "-Wno-unknown-warning-option")
	}
	// Unique symbols would keep the library loaded after dlclose, and the next one
	// would bind to them.
	return append(options, "-fno-gnu-unique")
}

var linkOptions = []string{"-shared", "-pthread"}

// Compile compiles s to a shared library.
func (h *Host) Compile(architecture string, s Source) (*Program, error) {
	b := &hostBuild{host: h, source: s}
	defer b.close()
	if err := b.open(); err != nil {
		return nil, fmt.Errorf("compile %s: %w", s.Name, err)
	}
	objects := []string{"text.o"}
	if err := b.object(h.textOptions(architecture), Header{s.Name, s.Text}, "text.o"); err != nil {
		return nil, err
	}
	for i, unit := range s.Units {
		image, err := h.unit(b, unit)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("unit%d.o", i)
		if err := os.WriteFile(filepath.Join(b.dir, name), image, 0o600); err != nil {
			return nil, fmt.Errorf("compile %s: %w", s.Name, err)
		}
		objects = append(objects, name)
	}
	if err := b.run("", slices.Concat(objects, linkOptions, []string{"-o", "program"})...); err != nil {
		return nil, err
	}
	image, err := os.ReadFile(filepath.Join(b.dir, "program"))
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", s.Name, err)
	}
	return &Program{Image: image, Log: b.log.String()}, nil
}

// units holds the units compiled by this process, since many programs link the same one.
var units struct {
	sync.Mutex
	made map[Key][]byte
}

// unit returns a compiled unit. Concurrent calls wait, so that each unit is compiled once.
func (h *Host) unit(b *hostBuild, unit Header) ([]byte, error) {
	key := keyOf(Identity{}, append(h.unitOptions(), h.path), "", Source{Name: unit.Name, Text: unit.Text, Headers: b.source.Headers})
	units.Lock()
	defer units.Unlock()
	if image, ok := units.made[key]; ok {
		return image, nil
	}
	if err := b.object(h.unitOptions(), unit, "unit.o"); err != nil {
		return nil, err
	}
	image, err := os.ReadFile(filepath.Join(b.dir, "unit.o"))
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", unit.Name, err)
	}
	if units.made == nil {
		units.made = map[Key][]byte{}
	}
	units.made[key] = image
	return image, nil
}

// hostBuild is the build of one program in a temporary folder.
type hostBuild struct {
	host   *Host
	source Source
	dir    string
	remove func() // removes dir
	log    bytes.Buffer
}

// open creates the folder and writes the headers.
func (b *hostBuild) open() (err error) {
	if b.dir, b.remove, err = leftover.Folder("", "tokitai-compile-"); err != nil {
		return err
	}
	for _, header := range b.source.Headers {
		if header.Name != filepath.Base(header.Name) || filepath.Ext(header.Name) == ".o" || header.Name == "program" {
			return fmt.Errorf("got a header named %q, want a file name without a folder", header.Name)
		}
		if err := os.WriteFile(filepath.Join(b.dir, header.Name), []byte(header.Text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (b *hostBuild) close() {
	if b.remove != nil {
		b.remove()
	}
}

// object compiles one file to an object file.
func (b *hostBuild) object(options []string, text Header, out string) error {
	return b.run(fmt.Sprintf("#line 1 %q\n%s", text.Name, text.Text), slices.Concat(options, []string{"-I.", "-c", "-x", "c++", "-", "-o", out})...)
}

// run runs the compiler.
func (b *hostBuild) run(input string, arguments ...string) error {
	err := runChild(b.host.path, b.dir, input, arguments, &b.log)
	switch {
	case err == nil:
		return nil
	case isRejected(err, &b.log):
		return newError(b.host.version, b.source, b.log.String())
	}
	return fmt.Errorf("compile %s: %s: %w\n%s", b.source.Name, b.host.path, err, b.log.String())
}
