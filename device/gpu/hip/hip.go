// Package hip implements device/gpu's table of driver calls with libamdhip64, the library
// of AMD's ROCm, which it opens at run time. Versions 5.7 to 7 will do.
//
// Nothing that the library says of itself is believed unchecked: a version that contradicts
// the file's name, a property that no device has, or an architecture that contradicts the
// kernel's own list of devices is an error, never a crash.
//
// Start with Table; api.go lists the functions of the library that are used, properties.go
// describes devices, topology.go reads the kernel's list, and compiler.go chooses the
// compiler.
package hip

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"

	"tokitai/amdgpu/codeobject"
	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/compile/folds"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/driver/clib"
	"tokitai/internal/dl"
)

// Kind is the kind of the devices.
const Kind = "hip"

// library is libamdhip64. A process has one.
type library struct {
	clib.Library[struct{}]
	api       api
	path      string
	version   Version
	compilers compilers
}

// Table returns the table, and opens the library on first use. If that fails, the error
// is a NoDeviceError that says why, and the next call tries again.
func Table() (*driver.Table, error) { return opened.Table(newTable) }

var opened clib.Once

func noDevice(name, format string, args ...any) error {
	return &device.NoDeviceError{Name: name, Reason: fmt.Sprintf(format, args...)}
}

// request describes the library. ROCm installs each release in a folder of its own.
func request() dl.Request {
	return dl.Request{
		What:  "HIP, AMD's library for GPUs",
		Env:   "TOKITAI_HIP",
		First: dl.ROCmChosen(),
		Files: []string{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
		Dirs:  dl.ROCmDirs(),
		Hint:  "it comes with ROCm, in Debian libamdhip64-5 or libamdhip64-6",
	}
}

func newTable() (*driver.Table, error) {
	l, err := openLibrary()
	if err != nil {
		return nil, err
	}
	// Without a device, version 5 answers that the device is invalid.
	err = l.Call1(&l.api.hipInit, 0)
	if e, ok := errors.AsType[*driver.Error](err); ok && (e.Code == codeNoDevice || e.Code == codeInvalidDevice) {
		return nil, noDevice(Kind, "%s (%s) sees no GPU%s", l.version, l.path, unseen())
	}
	if err != nil {
		return nil, noDevice(Kind, "%s: %v", l.path, err)
	}
	return l.table(), nil
}

// openLibrary opens the library, whether or not there is a device.
func openLibrary() (*library, error) {
	opened, err := dl.Open(request())
	if err != nil {
		return nil, noDevice(Kind, "%v", err)
	}
	l := &library{path: opened.Path()}
	l.Failure, l.NotReady = l.failure, codeNotReady
	if _, err := opened.Proc("hipInit"); err != nil {
		return nil, noDevice(Kind, "not HIP: %v", err)
	}
	if err := clib.Fill(&l.api, opened); err != nil {
		return nil, noDevice(Kind, "HIP is too old or incomplete: %v; want version %s or newer", err, oldest)
	}
	if l.version, err = l.readVersion(); err != nil {
		return nil, noDevice(Kind, "%v", err)
	}
	return l, nil
}

// Version is a version of HIP. The third number counts AMD's builds: ROCm 6.4.3 has HIP
// 6.4.43484.
type Version struct{ Major, Minor, Build int }

func (v Version) String() string { return fmt.Sprintf("HIP %d.%d.%d", v.Major, v.Minor, v.Build) }

// oldest is the oldest version that will do, and newestMajor the newest whose interface is
// known.
const (
	oldest      = "5.7"
	newestMajor = 7
)

// soname matches the name of a library's file: libamdhip64.so.6, libhiprtc.so.6.4.43484.
var soname = regexp.MustCompile(`\.so\.(\d+)(?:\.(\d+)(?:\.(\d+))?)?`)

// readVersion returns the library's version.
func (l *library) readVersion() (Version, error) {
	number, err := l.Create(&l.api.hipRuntimeGetVersion)
	if err != nil {
		return Version{}, fmt.Errorf("%s: %w", l.path, err)
	}
	n := int(int32(number))
	v := Version{n / 10_000_000, n / 100_000 % 100, n % 100_000}
	switch {
	case v.Major < 1:
		return v, fmt.Errorf("%s reports version %d, want a number such as 60443484 for 6.4.43484", l.path, n)
	case v.Major < 5 || v.Major == 5 && v.Minor < 7:
		return v, fmt.Errorf("HIP is too old: got %s (%s), want %s or newer", v, l.path, oldest)
	case v.Major > newestMajor:
		return v, fmt.Errorf("got %s (%s), want %s to %d: the interface of newer versions is not known", v, l.path, oldest, newestMajor)
	}
	if found := soname.FindStringSubmatch(filepath.Base(l.path)); found != nil {
		if major, _ := strconv.Atoi(found[1]); major != v.Major {
			return v, fmt.Errorf("%s reports %s, want %d as its name says", l.path, v, major)
		}
	}
	return v, nil
}

// Error codes with a special meaning.
const (
	codeOutOfMemory   = 2
	codeNoDevice      = 100
	codeInvalidDevice = 101
	codeInvalidImage  = 200
	codeNoBinary      = 209
	codeNotFound      = 500
	codeNotReady      = 600
)

// lostCodes are the errors after which the device cannot be used.
var lostCodes = map[int32]bool{
	4:    true, // hipErrorDeinitialized
	53:   true, // hipErrorPriorLaunchFailure
	214:  true, // hipErrorECCNotCorrectable
	700:  true, // hipErrorIllegalAddress
	702:  true, // hipErrorLaunchTimeOut
	709:  true, // hipErrorContextIsDestroyed
	710:  true, // hipErrorAssert
	719:  true, // hipErrorLaunchFailure
	999:  true, // hipErrorUnknown
	1053: true, // hipErrorRuntimeOther: a call of the runtime below HIP failed
}

// outOfMemoryCodes are the errors of a device that has too little free memory; 1052 is
// hipErrorRuntimeMemory, of the runtime below HIP.
var outOfMemoryCodes = map[int32]bool{codeOutOfMemory: true, 1052: true}

func (l *library) failure(call string, code int32) error {
	argument := uintptr(uint32(code))
	e := &driver.Error{Call: call, Code: int(code),
		Name: clib.CString(l.Result(&l.api.hipGetErrorName, argument)), Text: clib.CString(l.Result(&l.api.hipGetErrorString, argument))}
	switch {
	case outOfMemoryCodes[code]:
		e.Class = driver.OutOfMemory
	case lostCodes[code]:
		e.Class = driver.Lost
	}
	return e
}

func name(index int) string { return fmt.Sprintf("%s:%d", Kind, index) }

// The number of a device is also what HIP takes for a device. A context of 0 would be none.
func contextOf(index int) driver.Context { return driver.Context(index + 1) }

func (l *library) table() *driver.Table {
	a := &l.api
	setDevice := func(index int) error { return l.Call1(&a.hipSetDevice, uintptr(index)) }
	t := &driver.Table{
		Kind:       Kind,
		Name:       name,
		Version:    l.version.String(),
		Path:       l.path,
		Count:      l.count,
		Properties: l.properties,

		// HIP keeps a device's context as long as the process lives.
		Retain:     func(index int) (driver.Context, error) { return contextOf(index), setDevice(index) },
		Release:    func(int) error { return nil },
		SetCurrent: func(c driver.Context) error { return setDevice(int(c) - 1) },

		Compiler: l.compiler,
		Compile:  l.compile,

		SetShared: func(driver.Function, int) error { return nil }, // all that a block may have needs no permission
	}
	l.Fill(t, clib.Calls{
		Alloc: &a.hipMalloc, Free: &a.hipFree, MemoryInfo: &a.hipMemGetInfo,
		AllocHost: &a.hipHostMalloc, HostFlags: []uintptr{0}, FreeHost: &a.hipHostFree,
		CopyIn: &a.hipMemcpyHtoDAsync, CopyOut: &a.hipMemcpyDtoHAsync, Copy: &a.hipMemcpyDtoDAsync, Fill: &a.hipMemsetD8Async,
		NewStream: &a.hipStreamCreateWithFlags, DestroyStream: &a.hipStreamDestroy, SyncStream: &a.hipStreamSynchronize,
		StreamDone: &a.hipStreamQuery, WaitEvent: &a.hipStreamWaitEvent,
		NewEvent: &a.hipEventCreateWithFlags, DestroyEvent: &a.hipEventDestroy, Record: &a.hipEventRecord, SyncEvent: &a.hipEventSynchronize,
		EventDone: &a.hipEventQuery, Elapsed: &a.hipEventElapsedTime,
		Load: &a.hipModuleLoadData, Unload: &a.hipModuleUnload, Lookup: &a.hipModuleGetFunction, NotFound: codeNotFound,
		Launch: &a.hipModuleLaunchKernel, LastOption: 3,
	})
	t.Load, t.Launch, t.LaunchPacked = explainedLoad(t.Load), checkedLaunch(t.Launch), checkedLaunch(t.LaunchPacked)
	// HIP's own graphs gain nothing before version 6.2, which began to keep their launches
	// ready for the device. Since then every change of a node's parameters takes memory that
	// is freed only with the graph, and version 7.2 crashes when there is none left.
	driver.ReplayGraphs(t)
	return t
}

// explainedLoad says of a program that HIP refuses what it is for.
func explainedLoad(load func(image []byte) (driver.Module, error)) func(image []byte) (driver.Module, error) {
	return func(image []byte) (driver.Module, error) {
		m, err := load(image)
		e, ok := errors.AsType[*driver.Error](err)
		if !ok || e.Code != codeNoBinary && e.Code != codeInvalidImage {
			return m, err
		}
		_, reason := codeobject.Read(image, "")
		if object, ok := errors.AsType[*codeobject.ArchitectureError](reason); ok {
			e.Text += ": the program is compiled for " + object.Got
		} else if reason != nil {
			e.Text += ": " + reason.Error()
		}
		return m, err
	}
}

// launcher is the type of Table.Launch.
type launcher = func(f driver.Function, grid, block [3]uint32, shared uint32, s driver.Stream, params []byte) error

// checkedLaunch refuses launches with more threads than HIP counts, in 32 bits for each
// dimension.
func checkedLaunch(launch launcher) launcher {
	return func(f driver.Function, grid, block [3]uint32, shared uint32, s driver.Stream, params []byte) error {
		for i := range grid {
			if uint64(grid[i])*uint64(block[i]) > 1<<32-1 {
				return fmt.Errorf("hipModuleLaunchKernel: got %d blocks of %d threads, want fewer than 2^32 threads in a dimension", grid[i], block[i])
			}
		}
		return launch(f, grid, block, shared, s, params)
	}
}

// compile compiles for a device's architecture, and refuses code in which the compiler has
// changed a result.
func (l *library) compile(index int, s compile.Source) (*compile.Program, error) {
	p, err := l.properties(index)
	if err != nil {
		return nil, err
	}
	compiler, err := l.compilers.open(l, p.Architecture)
	if err != nil {
		return nil, err
	}
	program, err := compile.Default().Compile(compiler, p.Architecture, s)
	if err != nil {
		return nil, err
	}
	if err := folds.Check(program.Image, p.Architecture); err != nil {
		return nil, fmt.Errorf("%s: %v: %w", s.Name, compiler, err)
	}
	return program, nil
}
