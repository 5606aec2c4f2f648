package compile

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"tokitai/internal/leftover"
)

// HIPRTC is AMD's run-time compiler. Use OpenHIPRTC to open it. It is safe for concurrent
// use.
//
// The library is never loaded into this process: some versions abort for an architecture
// that they do not know. Each program is compiled by a child process, this program started
// again (hiprtc_child.go).
type HIPRTC struct {
	path  string   // of the library
	files []string // of the compiler, which Identity hashes

	identity func() (Identity, error)
}

// ErrNoHIPRTC means that hipRTC is not installed or cannot be used.
var ErrNoHIPRTC = errors.New("no hipRTC")

var hiprtcs struct {
	sync.Mutex
	opened map[string]*HIPRTC
}

// OpenHIPRTC opens the compiler of the ROCm to which a runtime library belongs,
// libamdhip64, by its path and major version. Some releases have the compiler in that
// library. The environment variable TOKITAI_HIPRTC may name its file or folder. If there is
// none, the error is an ErrNoHIPRTC.
func OpenHIPRTC(runtime string, major int) (*HIPRTC, error) {
	hiprtcs.Lock()
	defer hiprtcs.Unlock()
	key := fmt.Sprintf("%s|%s|%d", os.Getenv(hiprtcVariable), runtime, major)
	if c, ok := hiprtcs.opened[key]; ok {
		return c, nil
	}
	answer, err := askHIPRTC("hipRTC", &hiprtcRequest{Runtime: runtime, Major: major})
	if err == nil && answer.Failure != "" {
		err = errors.New(answer.Failure)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoHIPRTC, err)
	}
	c := &HIPRTC{path: answer.Path, files: answer.Files}
	c.identity = sync.OnceValues(func() (Identity, error) {
		hash := sha256.New()
		for _, path := range c.files {
			h, err := fileHash(path)
			if err != nil {
				return Identity{}, fmt.Errorf("hipRTC: %w", err)
			}
			hash.Write(h[:])
		}
		return Identity{Name: c.String(), Hash: [sha256.Size]byte(hash.Sum(nil))}, nil
	})
	if hiprtcs.opened == nil {
		hiprtcs.opened = map[string]*HIPRTC{}
	}
	hiprtcs.opened[key] = c
	return c, nil
}

// hiprtcVariable names the library, or its folder.
const hiprtcVariable = "TOKITAI_HIPRTC"

// String returns the compiler's name and the version in its file's name.
func (c *HIPRTC) String() string {
	if version := c.Version(); version != "" {
		return "hipRTC " + version
	}
	return "hipRTC"
}

// Version returns the version in the name of the library's file, 6.4.43484 for
// libhiprtc.so.6.4.43484; "" if there is none. What the library itself reports means
// nothing: releases 5.2 to 6.3 all report 9.0.
func (c *HIPRTC) Version() string {
	path, err := filepath.EvalSymlinks(c.path)
	if err != nil {
		return ""
	}
	_, version, _ := strings.Cut(filepath.Base(path), ".so.")
	return version
}

// Path returns the path of the library.
func (c *HIPRTC) Path() string { return c.path }

// Identity returns the version and a hash of the compiler's files: hipRTC, the code object
// manager and LLVM, as far as they are libraries of their own.
func (c *HIPRTC) Identity() (Identity, error) { return c.identity() }

// Options returns the compiler's options. They keep the bits equal on all devices.
func (c *HIPRTC) Options(architecture string) []string {
	return []string{"--offload-arch=" + architecture, "-O3", "-std=c++17", "-ffp-contract=off", "-fno-fast-math"}
}

// Compile compiles s to a code object.
func (c *HIPRTC) Compile(architecture string, s Source) (*Program, error) {
	p, _, err := c.CompileNamed(architecture, s, c.Options(architecture), nil)
	return p, err
}

// CompileNamed compiles s to a code object with the given options instead of c's own.
// Expressions name kernels of the source as C++ does, such as softmax<float>; the names are
// theirs in the program, in the same order.
func (c *HIPRTC) CompileNamed(architecture string, s Source, options, expressions []string) (p *Program, names []string, err error) {
	answer, err := askHIPRTC(s.Name, &hiprtcRequest{Library: c.path, Options: options, Source: &s, Expressions: expressions})
	if err != nil {
		return nil, nil, fmt.Errorf("compile %s for %s: %w", s.Name, architecture, err)
	}
	if answer.Failure != "" {
		log := answer.Log
		if strings.TrimSpace(log) == "" {
			log = answer.Failure
		}
		return nil, nil, newError(c.String(), s, log)
	}
	if !bytes.HasPrefix(answer.image, []byte("\x7fELF")) {
		return nil, nil, fmt.Errorf("compile %s for %s: %s made %d bytes that are not a code object", s.Name, architecture, c, len(answer.image))
	}
	return &Program{Image: answer.image, Log: answer.Log}, answer.Names, nil
}

// hiprtcRequest is what the child is asked, in the file hiprtcAsked: to find the library of a
// runtime, or to compile a source with a library.
type hiprtcRequest struct {
	Runtime string
	Major   int

	Library     string
	Options     []string
	Source      *Source
	Expressions []string // kernels whose names are asked for
}

// hiprtcAnswer is the child's answer, in the file hiprtcAnswered. The program is in the file
// hiprtcMade.
type hiprtcAnswer struct {
	Failure string // why there is no library, or no program
	Path    string
	Files   []string
	Log     string
	Names   []string // of the expressions

	image []byte
}

const (
	hiprtcAsked    = "asked.json"
	hiprtcAnswered = "answered.json"
	hiprtcMade     = "made"
)

// askHIPRTC has a child process do a request. An error means that the child could not be
// started or did not end as it should.
func askHIPRTC(what string, request *hiprtcRequest) (*hiprtcAnswer, error) {
	dir, remove, err := leftover.Folder("", "tokitai-compile-")
	if err != nil {
		return nil, err
	}
	defer remove()
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, hiprtcAsked), text, 0o600); err != nil {
		return nil, err
	}
	path, arguments, err := startAgain()
	if err != nil {
		return nil, fmt.Errorf("start this program again: %w", err)
	}
	var log bytes.Buffer
	err = runChild(path, dir, "", append(arguments, hiprtcArgument, dir), &log, hiprtcMark+"=1", "GOTRACEBACK=none")
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && !exit.Exited() {
			return nil, fmt.Errorf("the process of hipRTC died (%w)%s", err, firstLines(log.String()))
		}
		return nil, fmt.Errorf("the process of hipRTC failed (%w)%s", err, firstLines(log.String()))
	}
	text, err = os.ReadFile(filepath.Join(dir, hiprtcAnswered))
	if err != nil {
		return nil, fmt.Errorf("the process of hipRTC, %s, did not answer: is it a Go program that links tokitai/device/gpu/compile?%s", path, firstLines(log.String()))
	}
	answer := &hiprtcAnswer{}
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, fmt.Errorf("the answer of hipRTC's process: %w", err)
	}
	answer.image, err = os.ReadFile(filepath.Join(dir, hiprtcMade))
	if err != nil && request.Source != nil && answer.Failure == "" {
		return nil, err
	}
	return answer, nil
}

// firstLines returns the beginning of a process's output, to be appended to a message: a
// process that aborts says why and then prints its state.
func firstLines(log string) string {
	const most = 3
	lines := strings.SplitN(strings.TrimSpace(log), "\n", most+1)
	if lines[0] == "" {
		return ""
	}
	return ": " + strings.Join(lines[:min(len(lines), most)], "; ")
}
