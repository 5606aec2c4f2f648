package hip

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"tokitai/device"
	"tokitai/device/gpu/compile"
)

// proven lists, by major and minor version, the architectures for which hipRTC has compiled a
// source of every shipped operation (TestROCm). For any other, some releases abort, and others
// have never been tried: clang compiles then.
var proven = map[[2]int][]string{
	{5, 7}: {"gfx942", "gfx1100", "gfx1101"},
	{6, 4}: {"gfx90a", "gfx942", "gfx1100", "gfx1101", "gfx1201"},
}

// compilers holds the compilers of a library's devices. The environment is read each time.
type compilers struct {
	mu     sync.Mutex
	opened map[choice]compile.Compiler
}

// choice is what the compiler depends on.
type choice struct{ architecture, hiprtc, clang string }

// compiler returns the compiler for a device.
func (l *library) compiler(index int) (compile.Compiler, error) {
	p, err := l.properties(index)
	if err != nil {
		return nil, err
	}
	return l.compilers.open(l, p.Architecture)
}

// open returns the compiler for an architecture: hipRTC if TOKITAI_HIPRTC names one, else clang
// if TOKITAI_CLANG names one, else hipRTC for what it is proven to compile, else clang.
func (c *compilers) open(l *library, architecture string) (compile.Compiler, error) {
	key := choice{architecture, os.Getenv("TOKITAI_HIPRTC"), os.Getenv("TOKITAI_CLANG")}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.opened[key]; ok {
		return known, nil
	}
	found, err := choose(l, key)
	if err != nil {
		return nil, err
	}
	if c.opened == nil {
		c.opened = map[choice]compile.Compiler{}
	}
	c.opened[key] = found
	return found, nil
}

func choose(l *library, key choice) (compile.Compiler, error) {
	whyNot := error(nil) // hipRTC
	if key.hiprtc != "" || key.clang == "" {
		rtc, err := l.hiprtc(key)
		if err == nil {
			return rtc, nil
		}
		if key.hiprtc != "" {
			return nil, err
		}
		whyNot = err
	}
	clang, err := openClang(key.architecture)
	switch {
	case err == nil:
		return clang, nil
	case whyNot != nil:
		return nil, fmt.Errorf("no compiler for %s: %w; %w; TOKITAI_HIPRTC makes hipRTC compile for any architecture", key.architecture, whyNot, err)
	}
	return nil, fmt.Errorf("no compiler for %s: %w", key.architecture, err)
}

// hiprtc returns the library's hipRTC, or the one that TOKITAI_HIPRTC names.
func (l *library) hiprtc(key choice) (*compile.HIPRTC, error) {
	rtc, err := compile.OpenHIPRTC(l.path, l.version.Major)
	if err == nil && key.hiprtc == "" && !isProven(versionOf(rtc, l), key.architecture) {
		return nil, fmt.Errorf("%s (%s) is not known to compile for %s", rtc, rtc.Path(), key.architecture)
	}
	return rtc, err
}

// RuntimeCompiler returns hipRTC for an architecture, whether or not there is a device: the one
// of the HIP that is installed, or the one that TOKITAI_HIPRTC names.
func RuntimeCompiler(architecture string) (*compile.HIPRTC, error) {
	key := choice{architecture: architecture, hiprtc: os.Getenv("TOKITAI_HIPRTC")}
	l, err := openLibrary()
	switch {
	case err == nil:
	case key.hiprtc != "":
		l = &library{}
	default:
		if missing, ok := errors.AsType[*device.NoDeviceError](err); ok {
			err = errors.New(missing.Reason) // it is the compiler that is missing
		}
		return nil, fmt.Errorf("%w: %w", compile.ErrNoHIPRTC, err)
	}
	rtc, err := l.hiprtc(key)
	if err != nil && !errors.Is(err, compile.ErrNoHIPRTC) {
		err = fmt.Errorf("%w: %w; TOKITAI_HIPRTC makes it compile for any architecture", compile.ErrNoHIPRTC, err)
	}
	return rtc, err
}

// openClang returns clang if its list of targets has the architecture.
func openClang(architecture string) (*compile.Clang, error) {
	clang, err := compile.OpenClang()
	if err != nil {
		return nil, err
	}
	known, err := clang.Architectures()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(known, architecture) {
		return nil, fmt.Errorf("%s (%s) does not know %s: its list of targets has %d GPUs, none of this architecture; a newer clang may, which TOKITAI_CLANG can name",
			clang, clang.Path(), architecture, len(known))
	}
	return clang, nil
}

// isProven reports whether hipRTC of a version compiles for an architecture.
func isProven(v Version, architecture string) bool {
	return slices.Contains(proven[[2]int{v.Major, v.Minor}], architecture)
}

// versionOf returns the version of hipRTC: that of its file's name, or the library's if they
// are in the same folder; else the zero version, for unknown.
func versionOf(rtc *compile.HIPRTC, l *library) Version {
	if found := soname.FindStringSubmatch(".so." + rtc.Version()); found != nil && found[2] != "" {
		number := func(i int) int {
			n, _ := strconv.Atoi(found[i])
			return n
		}
		return Version{number(1), number(2), number(3)}
	}
	if filepath.Dir(rtc.Path()) == filepath.Dir(l.path) {
		return l.version
	}
	return Version{}
}
