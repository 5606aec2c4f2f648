// Package machine runs code that was generated for this processor: it says which
// instruction sets there are, holds code in executable memory, and calls it.
//
// Pages with code are never writable and executable at once. Generated code is a leaf
// that the Go runtime does not know: it cannot be preempted, and the garbage collector
// waits for it. A call should therefore return within about a millisecond. Signals, those
// of preemption and profiling among them, may interrupt it at any instruction.
//
// The conventions of generated code:
//
//	amd64  The argument is in RDI. RSP, RBP and R14 keep their values. At most 256 bytes
//	       of stack. VZEROUPPER before RET if vector registers were used.
//	arm64  The argument is in X0, the return address in X30. X18, X28, X29 and SP keep
//	       their values.
//
// Start with [Available] and [Load].
package machine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// Set is an instruction set.
type Set uint8

const (
	// Plain is what the Go compiler makes: no generated code.
	Plain Set = iota
	// NEON is the Advanced SIMD of arm64.
	NEON
	// AVX2 stands for AVX2, FMA and F16C.
	AVX2
	// AVX512 stands for the foundation with BW, DQ and VL.
	AVX512
)

var setNames = [...]string{Plain: "plain", NEON: "neon", AVX2: "avx2", AVX512: "avx512"}

func (s Set) String() string { return setNames[s] }

// Variable names the environment variable that limits the instruction sets: the named one
// is the best that is used.
const Variable = "TOKITAI_CPU"

// choice is what this process may use.
type choice struct {
	sets []Set
	err  error // the variable's value is unknown or cannot be had
	note string
}

var choose = sync.OnceValue(func() choice { return chooseSets(os.Getenv(Variable), supported(), tryMemory()) })

// chooseSets returns the sets to use, given the variable's value, what the processor
// supports, best first, and why executable memory is refused.
func chooseSets(limit string, sets []Set, refused error) choice {
	all := append(sets[:len(sets):len(sets)], Plain)
	if limit != "" {
		at := -1
		for i, s := range all {
			if s.String() == limit {
				at = i
			}
		}
		if at < 0 {
			var names []string
			for _, s := range all {
				names = append(names, s.String())
			}
			return choice{sets: all, err: fmt.Errorf("%s: got %q, want one of %s on this processor", Variable, limit, strings.Join(names, ", "))}
		}
		all = all[at:]
	}
	c := choice{sets: all}
	switch {
	case all[0] == Plain && limit != "":
		c.note = "no code is generated: " + Variable + "=" + limit
	case all[0] == Plain:
		c.note = "no code is generated: nothing generates it for this processor"
	case refused != nil:
		c = choice{sets: []Set{Plain}, note: "no code is generated, and kernels are slower: " + refused.Error()}
	}
	return c
}

// Available returns the instruction sets that code may be generated for, best first. It
// always ends in Plain. Do not change the result.
func Available() []Set { return choose().sets }

// Check returns an error if the environment variable asks for a set that is not there.
func Check() error { return choose().err }

// Note returns why no code is generated; it is empty where code is.
func Note() string { return choose().note }

// HasVNNI reports whether code for AVX512 may use the instructions that multiply neighbouring bytes
// and add up their products.
func HasVNNI() bool { return cpu.X86.HasAVX512VNNI }

// tryMemory reports whether the system lets this process execute what it has written.
func tryMemory() error {
	if len(supported()) == 0 {
		return nil
	}
	c, err := Load(emptyFunction)
	if err != nil {
		return err
	}
	c.Call(0, nil)
	return nil
}

// Code is a piece of code in executable memory. Its memory is given back when it is no
// longer referenced.
type Code struct {
	memory []byte
}

// Load copies code into executable memory.
func Load(code []byte) (*Code, error) {
	if len(code) == 0 {
		return nil, errors.New("machine: load: no code")
	}
	memory, err := executable(code)
	if err != nil {
		return nil, fmt.Errorf("machine: executable memory: %w", err)
	}
	c := &Code{memory}
	runtime.AddCleanup(c, release, memory)
	return c, nil
}

// Bytes returns the code. It cannot be written to.
func (c *Code) Bytes() []byte { return c.memory }

// Call calls the function at an offset of the code. The frame is its argument. It must be
// of the type that the code expects: nothing checks that.
func (c *Code) Call(offset int, frame unsafe.Pointer) {
	call(unsafe.Pointer(&c.memory[offset]), frame)
	runtime.KeepAlive(c)
}
