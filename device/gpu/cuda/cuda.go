// Package cuda implements device/gpu's table of driver calls with libcuda, the library
// of NVIDIA's driver, which it opens at run time.
//
// Start with Table; api.go lists the functions of the library that are used.
package cuda

import (
	"errors"
	"fmt"

	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/driver/clib"
	"tokitai/internal/dl"
)

// minVersion is the oldest driver that runs code compiled by CUDA 12 and 13.
const minVersion = 12000

// library is libcuda. A process has one.
type library struct {
	clib.Library[structs]
	api     api
	path    string
	version int // 13000 is 13.0
	graphs  graphs
}

type frame = clib.Frame[structs]

// structs are what arguments point to.
type structs struct {
	config    launchConfig
	attribute launchAttribute
	node      kernelNode
	after     []uintptr // nodes that one is added after
	boxes     boxes
}

// Table returns the table, and opens the library on first use. If that fails, the error
// is a NoDeviceError that says why, and the next call tries again.
func Table() (*driver.Table, error) { return opened.Table(newTable) }

var opened clib.Once

func noDevice(name, format string, args ...any) error {
	return &device.NoDeviceError{Name: name, Reason: fmt.Sprintf(format, args...)}
}

func newTable() (*driver.Table, error) {
	opened, err := dl.Open(dl.Request{
		What:  "the CUDA driver",
		Env:   "TOKITAI_CUDA",
		Files: []string{"libcuda.so.1", "libcuda.so"},
		Dirs:  dl.CUDADirs(),
		Hint:  "it comes with NVIDIA's driver for the GPU, in Debian libcuda1",
	})
	if err != nil {
		return nil, noDevice("cuda", "%v", err)
	}
	if _, err := opened.Proc("cuInit"); err != nil {
		return nil, noDevice("cuda", "not a CUDA driver: %v", err)
	}
	l := &library{path: opened.Path()}
	l.Failure, l.NotReady = l.failure, codeNotReady
	if err := clib.Fill(&l.api, opened); err != nil {
		var missing *dl.SymbolError
		if errors.As(err, &missing) {
			return nil, noDevice("cuda", "the driver is too old: %v; want one for CUDA %s or newer", err, versionText(minVersion))
		}
		return nil, noDevice("cuda", "%v", err)
	}
	if l.version, err = l.driverVersion(); err != nil {
		return nil, noDevice("cuda", "%v", err)
	}
	if l.version < minVersion {
		return nil, noDevice("cuda", "the driver is too old: got CUDA %s, want %s or newer", versionText(l.version), versionText(minVersion))
	}
	f := l.Frame()
	defer l.Done(f)
	f.Args[0] = 0
	if err := l.Call(&l.api.cuInit, f, 1); err != nil {
		return nil, noDevice("cuda", "%v", err)
	}
	return l.table(), nil
}

func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// Error codes with a special meaning.
const (
	codeOutOfMemory   = 2
	codeDeinitialized = 4
	codeNoDevice      = 100
	codeNotFound      = 500
	codeNotReady      = 600
)

// lostCodes are the errors after which the context or the device cannot be used.
var lostCodes = map[int32]bool{
	codeDeinitialized: true,
	46:                true, // CUDA_ERROR_DEVICE_UNAVAILABLE
	214:               true, // CUDA_ERROR_ECC_UNCORRECTABLE
	220:               true, // CUDA_ERROR_NVLINK_UNCORRECTABLE
	226:               true, // CUDA_ERROR_CONTAINED
	700:               true, // CUDA_ERROR_ILLEGAL_ADDRESS
	702:               true, // CUDA_ERROR_LAUNCH_TIMEOUT
	709:               true, // CUDA_ERROR_CONTEXT_IS_DESTROYED
	710:               true, // CUDA_ERROR_ASSERT
	714:               true, // CUDA_ERROR_HARDWARE_STACK_ERROR
	715:               true, // CUDA_ERROR_ILLEGAL_INSTRUCTION
	716:               true, // CUDA_ERROR_MISALIGNED_ADDRESS
	717:               true, // CUDA_ERROR_INVALID_ADDRESS_SPACE
	718:               true, // CUDA_ERROR_INVALID_PC
	719:               true, // CUDA_ERROR_LAUNCH_FAILED
	721:               true, // CUDA_ERROR_TENSOR_MEMORY_LEAK
	999:               true, // CUDA_ERROR_UNKNOWN
}

func (l *library) failure(call string, code int32) error {
	e := &driver.Error{Call: call, Code: int(code), Name: l.text(&l.api.cuGetErrorName, code), Text: l.text(&l.api.cuGetErrorString, code)}
	switch {
	case code == codeOutOfMemory:
		e.Class = driver.OutOfMemory
	case lostCodes[code]:
		e.Class = driver.Lost
	}
	return e
}

// text returns the name or the description of an error code.
func (l *library) text(p *clib.Function, code int32) string {
	f := l.Frame()
	defer l.Done(f)
	f.Out[0] = 0
	f.Args[0], f.Args[1] = uintptr(uint32(code)), clib.Address(&f.Out[0])
	if l.Code(p, f, 2) != 0 {
		return ""
	}
	return clib.CString(f.Out[0])
}

func (l *library) driverVersion() (int, error) {
	v, err := l.Create(&l.api.cuDriverGetVersion)
	return int(int32(v)), err
}

func (l *library) count() (int, error) {
	n, err := l.Create(&l.api.cuDeviceGetCount)
	var e *driver.Error
	if errors.As(err, &e) && e.Code == codeNoDevice {
		return 0, nil
	}
	return int(int32(n)), err
}

// handle returns the driver's handle of a device.
func (l *library) handle(index int) (uintptr, error) {
	handle, err := l.Create(&l.api.cuDeviceGet, uintptr(index))
	return uintptr(uint32(handle)), err
}

// Attributes of cuDeviceGetAttribute.
const (
	attributeThreadsPerBlock = 1
	attributeSharedPerBlock  = 8
	attributeWarpSize        = 10
	attributeClockKHz        = 13
	attributeMultiprocessors = 16
	attributeMemoryClockKHz  = 36
	attributeMemoryBusBits   = 37
	attributeCacheBytes      = 38
	attributeMajor           = 75
	attributeMinor           = 76
	attributeSharedOptIn     = 97
)

func name(index int) string { return fmt.Sprintf("cuda:%d", index) }

func (l *library) properties(index int) (driver.Properties, error) {
	refuse := func(err error) (driver.Properties, error) {
		return driver.Properties{}, noDevice(name(index), "%v", err)
	}
	n, err := l.count()
	switch {
	case err != nil:
		return refuse(err)
	case n == 0:
		return driver.Properties{}, noDevice(name(index), "the driver sees no GPU")
	case index < 0 || index >= n:
		known := make([]string, n)
		for i := range known {
			known[i] = name(i)
		}
		return driver.Properties{}, &device.NoDeviceError{Name: name(index), Known: known, Reason: fmt.Sprintf("number of GPUs that the driver sees: %d", n)}
	}
	handle, err := l.handle(index)
	if err != nil {
		return refuse(err)
	}
	text, err := l.Name(&l.api.cuDeviceGetName, handle)
	if err != nil {
		return refuse(err)
	}
	memory, err := l.Create(&l.api.cuDeviceTotalMem, handle)
	if err != nil {
		return refuse(err)
	}
	attribute := func(which int) int {
		v, e := l.Create(&l.api.cuDeviceGetAttribute, uintptr(which), handle)
		if err == nil {
			err = e
		}
		return int(int32(v))
	}
	p := driver.Properties{
		Name:              text,
		Architecture:      architecture(attribute(attributeMajor), attribute(attributeMinor)),
		StartsEarly:       attribute(attributeMajor) >= 9,
		MemoryBytes:       int64(memory),
		Multiprocessors:   attribute(attributeMultiprocessors),
		WarpWidth:         attribute(attributeWarpSize),
		SharedBytes:       attribute(attributeSharedOptIn),
		ThreadsPerBlock:   attribute(attributeThreadsPerBlock),
		CacheBytes:        attribute(attributeCacheBytes),
		ClockHz:           1e3 * float64(attribute(attributeClockKHz)),
		MemoryBytesPerSec: 2 * 1e3 * float64(attribute(attributeMemoryClockKHz)) * float64(attribute(attributeMemoryBusBits)/8),
	}
	if err != nil {
		return refuse(err)
	}
	return p, nil
}

// busID returns the address of a device on the PCI bus: "0000:1b:00.0".
func (l *library) busID(index int) (string, error) {
	if l.api.cuDeviceGetPCIBusId.IsMissing {
		return "", errors.New("the driver does not tell where the GPU is")
	}
	handle, err := l.handle(index)
	if err != nil {
		return "", err
	}
	return l.Name(&l.api.cuDeviceGetPCIBusId, handle)
}

// architecture returns the compiler's name of a compute capability. Hopper's matrix
// instructions need the architecture-specific target.
func architecture(major, minor int) string {
	if major == 9 && minor == 0 {
		return "sm_90a"
	}
	return fmt.Sprintf("sm_%d%d", major, minor)
}

func (l *library) table() *driver.Table {
	a := &l.api
	t := &driver.Table{
		Kind:       "cuda",
		Name:       name,
		Version:    "CUDA " + versionText(l.version),
		Path:       l.path,
		Count:      l.count,
		Properties: l.properties,
		BusID:      l.busID,

		Retain: func(index int) (driver.Context, error) {
			handle, err := l.handle(index)
			if err != nil {
				return 0, err
			}
			c, err := l.Create(&a.cuDevicePrimaryCtxRetain, handle)
			return driver.Context(c), err
		},
		Release: func(index int) error {
			handle, err := l.handle(index)
			if err != nil {
				return err
			}
			return l.Call1(&a.cuDevicePrimaryCtxRelease, handle)
		},
		SetCurrent: func(c driver.Context) error { return l.Call1(&a.cuCtxSetCurrent, uintptr(c)) },

		Compiler: func(int) (compile.Compiler, error) { return l.compiler() },
		Compile:  l.compile,

		SetShared: func(fn driver.Function, bytes int) error {
			const maxDynamicSharedBytes = 8
			return l.Call3(&a.cuFuncSetAttribute, uintptr(fn), maxDynamicSharedBytes, uintptr(bytes))
		},
		LaunchEarly: l.earlyLaunches(),

		NewGraph:     l.newGraph,
		LaunchGraph:  l.launchGraph,
		DestroyGraph: l.destroyGraph,
		SetNode:      l.setNode,

		EncodeTensorMap: l.tensorMaps(),
	}
	// A launch lists its one parameter and packs no buffer: the driver knows where a struct
	// with tensor maps begins, which is not at its first byte.
	l.Fill(t, clib.Calls{
		Alloc: &a.cuMemAlloc, Free: &a.cuMemFree, MemoryInfo: &a.cuMemGetInfo,
		AllocHost: &a.cuMemAllocHost, FreeHost: &a.cuMemFreeHost,
		CopyIn: &a.cuMemcpyHtoDAsync, CopyOut: &a.cuMemcpyDtoHAsync, Copy: &a.cuMemcpyDtoDAsync, Fill: &a.cuMemsetD8Async,
		NewStream: &a.cuStreamCreate, DestroyStream: &a.cuStreamDestroy, SyncStream: &a.cuStreamSynchronize,
		StreamDone: &a.cuStreamQuery, WaitEvent: &a.cuStreamWaitEvent,
		NewEvent: &a.cuEventCreate, DestroyEvent: &a.cuEventDestroy, Record: &a.cuEventRecord, SyncEvent: &a.cuEventSynchronize,
		EventDone: &a.cuEventQuery, Elapsed: &a.cuEventElapsedTime,
		Load: &a.cuModuleLoadData, Unload: &a.cuModuleUnload, Lookup: &a.cuModuleGetFunction, NotFound: codeNotFound,
		Launch: &a.cuLaunchKernel,
	})
	return t
}

// compiler returns the NVRTC that fits the driver.
func (l *library) compiler() (compile.Compiler, error) {
	c, err := compile.OpenNVRTC(l.version / 1000)
	if err != nil {
		return nil, err // not a nil *NVRTC in an interface
	}
	return c, nil
}

// compile compiles for a device's architecture.
func (l *library) compile(index int, s compile.Source) (*compile.Program, error) {
	p, err := l.properties(index)
	if err != nil {
		return nil, err
	}
	compiler, err := l.compiler()
	if err != nil {
		return nil, err
	}
	return compile.Default().Compile(compiler, p.Architecture, s)
}
