// Package compile compiles source text for a device at run time: NVRTC for NVIDIA GPUs
// (OpenNVRTC), clang for AMD GPUs (OpenClang), and the host's g++ or clang++ for the
// simulator (OpenHost). A Cache keeps compiled programs.
//
// It knows nothing of kernels but their text, which comes with all of its headers. No
// other files are read, except system headers by the host's compiler.
//
// Start with Cache.Compile.
package compile

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Source is the complete text of a program. The compiler's messages refer to it by Name,
// unless a #line in the text says otherwise.
type Source struct {
	Name, Text string
	Headers    []Header // all files that the text includes, directly or not
	Units      []Header // files compiled separately and linked with the text; only Host links
}

// Header is a file that a source includes by name. The name has no folder: prelude.h.
type Header struct {
	Name, Text string
}

// Program is a compiled program.
type Program struct {
	Image     []byte // a CUBIN, a code object, or a shared library
	Log       string // the compiler's output
	Usage     []Usage
	FromCache bool
}

// Usage is the resource usage of a kernel, if the compiler reports it.
type Usage struct {
	Entry           string `json:"entry"`
	Registers       int    `json:"registers"` // per thread
	StackBytes      int    `json:"stack_bytes"`
	SpillStoreBytes int    `json:"spill_store_bytes"`
	SpillLoadBytes  int    `json:"spill_load_bytes"`
	SharedBytes     int    `json:"shared_bytes"` // static
	Barriers        int    `json:"barriers"`
	ScalarSpills    int    `json:"scalar_spills,omitzero"` // AMD: scalar registers kept in lanes of vector registers
}

// Compiler compiles programs.
type Compiler interface {
	// Identity identifies the compiler exactly: compilers with the same identity compile
	// a source with the same options to the same program.
	Identity() (Identity, error)

	// Options returns all options for an architecture.
	Options(architecture string) []string

	// Compile compiles s. If s does not compile, the error is an *Error with the
	// compiler's messages.
	Compile(architecture string, s Source) (*Program, error)
}

// Identity identifies a compiler.
type Identity struct {
	Name string            // "NVRTC 13.4", for people
	Hash [sha256.Size]byte // of its files
}

// Error reports a source that does not compile, with the first message and its position.
// Log has all messages.
type Error struct {
	Compiler string
	File     string
	Line     int // 0 if the compiler names none
	Message  string
	Log      string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

// messages matches the errors of NVRTC (file(12): error: text, with a number if it is a
// promoted warning) and of g++ and clang++ (file:12:5: error: text).
var messages = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^(.+?)\((\d+)\): (?:catastrophic |fatal )?error(?: #[\w-]+)?: (.*)$`),
	regexp.MustCompile(`(?m)^(.+?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$`),
}

// otherMessages matches errors without a line number, from ptxas and from linkers.
var otherMessages = regexp.MustCompile(`(?mi)^.*\berror\b[^\w\n]*(.*)$`)

// newError returns an Error with the first message in a log.
func newError(compiler string, s Source, log string) *Error {
	e := &Error{Compiler: compiler, File: s.Name, Log: log}
	first := len(log) + 1
	for _, pattern := range messages {
		if at := pattern.FindStringSubmatchIndex(log); at != nil && at[0] < first {
			first = at[0]
			part := func(i int) string { return log[at[2*i]:at[2*i+1]] }
			e.File = strings.TrimPrefix(part(1), "./") // clang's name for a header
			e.Line, _ = strconv.Atoi(part(2))
			e.Message = strings.TrimSpace(part(3))
		}
	}
	if e.Message != "" {
		return e
	}
	if found := otherMessages.FindString(log); found != "" {
		e.Message = strings.TrimSpace(found)
	} else if e.Message, _, _ = strings.Cut(strings.TrimSpace(log), "\n"); e.Message == "" {
		e.Message = compiler + " failed without a message"
	}
	return e
}

var (
	usageEntry     = regexp.MustCompile(`Compiling entry function '([^']+)'`)
	usageStack     = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	usageRegisters = regexp.MustCompile(`Used (\d+) registers`)
	usageBarriers  = regexp.MustCompile(`used (\d+) barriers`)
	usageShared    = regexp.MustCompile(`(\d+) bytes smem`)
)

// parseUsage returns the resource usage that ptxas -v prints, sorted by entry.
func parseUsage(log string) []Usage {
	var list []Usage
	number := func(p *regexp.Regexp, line string, into ...*int) {
		if m := p.FindStringSubmatch(line); m != nil {
			for i := range into {
				*into[i], _ = strconv.Atoi(m[i+1])
			}
		}
	}
	for line := range strings.Lines(log) {
		if m := usageEntry.FindStringSubmatch(line); m != nil {
			list = append(list, Usage{Entry: m[1]})
		}
		if len(list) == 0 {
			continue
		}
		u := &list[len(list)-1]
		number(usageStack, line, &u.StackBytes, &u.SpillStoreBytes, &u.SpillLoadBytes)
		number(usageRegisters, line, &u.Registers)
		number(usageBarriers, line, &u.Barriers)
		number(usageShared, line, &u.SharedBytes)
	}
	slices.SortFunc(list, func(a, b Usage) int { return strings.Compare(a.Entry, b.Entry) })
	return list
}
