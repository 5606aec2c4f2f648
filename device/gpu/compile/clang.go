package compile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tokitai/internal/leftover"
)

// Clang compiles for AMD GPUs with clang. It needs neither a GPU nor AMD's libraries.
// Use OpenClang to open it. It is safe for concurrent use.
type Clang struct {
	path    string // of the program
	version string // first line of clang --version
	lines   bool

	identity      func() (Identity, error)
	architectures func() ([]string, error)
}

// ErrNoClang means that clang or its linker is not installed.
var ErrNoClang = errors.New("no clang for AMD GPUs")

// clangName is the version that the kernels are tested with.
const clangName = "clang-22"

// OpenClang finds the compiler: TOKITAI_CLANG, else clang-22.
func OpenClang() (*Clang, error) {
	name := os.Getenv("TOKITAI_CLANG")
	if name == "" {
		name = clangName
	}
	c, err := newClang(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; install %s and its lld, or set TOKITAI_CLANG", ErrNoClang, err, clangName)
	}
	return c, nil
}

func newClang(name string) (*Clang, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, err
	}
	versionText, err := exec.Command(path, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", path, err)
	}
	linker, err := exec.Command(path, "-print-prog-name=ld.lld").Output()
	if err != nil {
		return nil, fmt.Errorf("%s -print-prog-name=ld.lld: %w", path, err)
	}
	files := []string{path, strings.TrimSpace(string(linker))}
	for i := range files {
		if files[i], err = exec.LookPath(files[i]); err != nil {
			return nil, err
		}
		if files[i], err = filepath.EvalSymlinks(files[i]); err != nil {
			return nil, err
		}
	}
	c := &Clang{path: path}
	c.architectures = sync.OnceValues(c.listArchitectures)
	c.version, _, _ = strings.Cut(string(versionText), "\n")
	c.identity = sync.OnceValues(func() (Identity, error) {
		hash := sha256.New()
		hash.Write(versionText)
		for _, file := range files {
			sum, err := fileHash(file)
			if err != nil {
				return Identity{}, err
			}
			hash.Write(sum[:])
		}
		return Identity{Name: c.version, Hash: [sha256.Size]byte(hash.Sum(nil))}, nil
	})
	return c, nil
}

// String returns the compiler's name and version.
func (c *Clang) String() string { return c.version }

// Path returns the path of the compiler.
func (c *Clang) Path() string { return c.path }

// Architectures returns the AMD GPUs that the compiler knows, by name: gfx900, gfx906, …
func (c *Clang) Architectures() ([]string, error) { return c.architectures() }

// architectureName matches the lines of clang's list that name one GPU, not a family.
var architectureName = regexp.MustCompile(`(?m)^\s+(gfx[0-9a-f]+)$`)

func (c *Clang) listArchitectures() ([]string, error) {
	out, err := exec.Command(c.path, "--target=amdgcn-amd-amdhsa", "--print-supported-cpus").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s --print-supported-cpus: %w", c.path, err)
	}
	var list []string
	for _, m := range architectureName.FindAllStringSubmatch(string(out), -1) {
		list = append(list, m[1])
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s knows no AMD GPU", c.path)
	}
	return list, nil
}

// Identity returns the version and a hash of the compiler's files.
func (c *Clang) Identity() (Identity, error) { return c.identity() }

// WithLines returns the compiler, made to add tables of source lines to programs. They change
// no instruction.
func (c *Clang) WithLines() *Clang {
	with := *c
	with.lines = true
	return &with
}

// Options returns the compiler's options. They keep the bits equal on all devices and
// keep clang from looking for AMD's headers and libraries. Version 5 of code objects loads in
// every ROCm from 5.7 on; clang's own choice, version 6, needs ROCm 6.3.
func (c *Clang) Options(architecture string) []string {
	options := []string{"-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "--offload-arch=" + architecture,
		"-nogpuinc", "-nogpulib", "-mcode-object-version=5", "-O3", "-std=c++17", "-ffp-contract=off", "-fno-fast-math", "-Rpass-analysis=kernel-resource-usage"}
	if c.lines {
		options = append(options, "-gline-tables-only", "-fdebug-compilation-dir=.")
	}
	return options
}

// Compile compiles s to a code object.
func (c *Clang) Compile(architecture string, s Source) (*Program, error) {
	return c.compile(c.Options(architecture), s)
}

// Assemble compiles s to assembly text.
func (c *Clang) Assemble(architecture string, s Source) (*Program, error) {
	return c.compile(append(c.Options(architecture), "-S"), s)
}

func (c *Clang) compile(options []string, s Source) (*Program, error) {
	dir, remove, err := leftover.Folder("", "tokitai-compile-")
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", s.Name, err)
	}
	defer remove()
	for _, header := range s.Headers {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(header.Name)), []byte(header.Text), 0o600); err != nil {
			return nil, fmt.Errorf("compile %s: %w", s.Name, err)
		}
	}
	made := filepath.Join(dir, "made")
	var log bytes.Buffer
	err = runChild(c.path, dir, fmt.Sprintf("#line 1 %q\n%s", s.Name, s.Text), slices.Concat(options, []string{"-I.", "-", "-o", made}), &log)
	switch {
	case isRejected(err, &log):
		return nil, newError(c.version, s, log.String())
	case err != nil:
		return nil, fmt.Errorf("compile %s: %s: %w\n%s", s.Name, c.path, err, log.String())
	}
	image, err := os.ReadFile(made)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", s.Name, err)
	}
	return &Program{Image: image, Log: log.String(), Usage: parseRemarks(log.String())}, nil
}

var remark = regexp.MustCompile(`remark:\s+([^:]+): (\S+) \[-Rpass-analysis=kernel-resource-usage\]`)

// parseRemarks returns the resource usage that clang reports, sorted by entry.
func parseRemarks(log string) []Usage {
	var list []Usage
	for _, m := range remark.FindAllStringSubmatch(log, -1) {
		if m[1] == "Function Name" {
			list = append(list, Usage{Entry: m[2]})
			continue
		}
		if len(list) == 0 {
			continue
		}
		u := &list[len(list)-1]
		n, _ := strconv.Atoi(m[2])
		switch m[1] {
		case "VGPRs", "AGPRs":
			u.Registers += n
		case "ScratchSize [bytes/lane]":
			u.StackBytes = n
		case "VGPRs Spill":
			u.SpillStoreBytes, u.SpillLoadBytes = 4*n, 4*n
		case "SGPRs Spill":
			u.ScalarSpills = n
		case "LDS Size [bytes/block]":
			u.SharedBytes = n
		}
	}
	slices.SortFunc(list, func(a, b Usage) int { return strings.Compare(a.Entry, b.Entry) })
	return list
}
