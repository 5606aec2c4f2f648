// Package cuda implements device/gpu's table of driver calls with libcuda, the library
// of NVIDIA's driver, which it opens at run time.
//
// Start with Table; api.go lists the functions of the library that are used.
package cuda

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
	"tokitai/internal/dl"
)

// minVersion is the oldest driver that runs code compiled by CUDA 12 and 13.
const minVersion = 12000

// library is libcuda. A process has one.
type library struct {
	api     api
	version int // 13000 is 13.0
	frames  sync.Pool
	graphs  graphs
}

// frame is the memory of one call: its arguments and what they point to. It is in the
// heap, since a stack may move.
type frame struct {
	args      [12]uintptr
	out       [4]uint64
	text      [256]byte
	list      [1]uintptr // of a kernel's parameters
	config    launchConfig
	attribute launchAttribute
	keep      unsafe.Pointer // the caller's memory that an argument points to

	node  kernelNode
	after []uintptr // nodes that one is added after
}

func (l *library) frame() *frame { return l.frames.Get().(*frame) }

// done makes f available for reuse.
func (l *library) done(f *frame) {
	f.keep = nil
	l.frames.Put(f)
}

func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// Table returns the table, and opens the library on first use. If that fails, the error
// is a NoDeviceError that says why, and the next call tries again.
func Table() (*driver.Table, error) {
	opened.Lock()
	defer opened.Unlock()
	if opened.table == nil {
		table, err := newTable()
		if err != nil {
			return nil, err
		}
		opened.table = table
	}
	return opened.table, nil
}

var opened struct {
	sync.Mutex
	table *driver.Table
}

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
	l := &library{frames: sync.Pool{New: func() any { return new(frame) }}}
	if err := l.api.fill(opened); err != nil {
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
	f := l.frame()
	defer l.done(f)
	f.args[0] = 0
	if err := l.call(&l.api.cuInit, f, 1); err != nil {
		return nil, noDevice("cuda", "%v", err)
	}
	return l.table(), nil
}

func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// call calls a function with the first n arguments of a frame. If it needs a context,
// that is current on this thread.
func (l *library) call(p *function, f *frame, n int) error {
	code := int32(p.proc.Call(f.args[:n]))
	if code != 0 {
		return l.failure(p.name, code)
	}
	return nil
}

// call1, call2, call3 are for functions of integers only.
func (l *library) call1(p *function, a uintptr) error {
	f := l.frame()
	f.args[0] = a
	err := l.call(p, f, 1)
	l.done(f)
	return err
}

func (l *library) call2(p *function, a, b uintptr) error {
	f := l.frame()
	f.args[0], f.args[1] = a, b
	err := l.call(p, f, 2)
	l.done(f)
	return err
}

func (l *library) call3(p *function, a, b, c uintptr) error {
	f := l.frame()
	f.args[0], f.args[1], f.args[2] = a, b, c
	err := l.call(p, f, 3)
	l.done(f)
	return err
}

// create calls a function that writes a handle through its first argument.
func (l *library) create(p *function, more ...uintptr) (uintptr, error) {
	f := l.frame()
	defer l.done(f)
	f.out[0] = 0
	f.args[0] = address(&f.out[0])
	copy(f.args[1:], more)
	err := l.call(p, f, 1+len(more))
	return uintptr(f.out[0]), err
}

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
func (l *library) text(p *function, code int32) string {
	f := l.frame()
	defer l.done(f)
	f.out[0] = 0
	f.args[0], f.args[1] = uintptr(uint32(code)), address(&f.out[0])
	if p.proc.Call(f.args[:2]) != 0 || f.out[0] == 0 {
		return ""
	}
	const most = 256
	text := unsafe.Slice((*byte)(pointer(f.out[0])), most)
	for i := range most {
		if text[i] == 0 {
			return string(text[:i])
		}
	}
	return string(text)
}

// pointer converts an address outside Go's memory.
func pointer(address uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

func (l *library) driverVersion() (int, error) {
	v, err := l.create(&l.api.cuDriverGetVersion)
	return int(int32(v)), err
}

func (l *library) count() (int, error) {
	n, err := l.create(&l.api.cuDeviceGetCount)
	var e *driver.Error
	if errors.As(err, &e) && e.Code == codeNoDevice {
		return 0, nil
	}
	return int(int32(n)), err
}

// handle returns the driver's handle of a device.
func (l *library) handle(index int) (uintptr, error) {
	handle, err := l.create(&l.api.cuDeviceGet, uintptr(index))
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
	f := l.frame()
	defer l.done(f)
	f.args[0], f.args[1], f.args[2] = address(&f.text[0]), uintptr(len(f.text)), handle
	if err := l.call(&l.api.cuDeviceGetName, f, 3); err != nil {
		return refuse(err)
	}
	text := cString(f.text[:])
	memory, err := l.create(&l.api.cuDeviceTotalMem, handle)
	if err != nil {
		return refuse(err)
	}
	attribute := func(which int) int {
		v, e := l.create(&l.api.cuDeviceGetAttribute, uintptr(which), handle)
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

// architecture returns the compiler's name of a compute capability. Hopper's matrix
// instructions need the architecture-specific target.
func architecture(major, minor int) string {
	if major == 9 && minor == 0 {
		return "sm_90a"
	}
	return fmt.Sprintf("sm_%d%d", major, minor)
}

func cString(text []byte) string {
	for i, c := range text {
		if c == 0 {
			return string(text[:i])
		}
	}
	return string(text)
}

func (l *library) table() *driver.Table {
	a := &l.api
	return &driver.Table{
		Kind:       "cuda",
		Name:       name,
		Version:    "CUDA " + versionText(l.version),
		Count:      l.count,
		Properties: l.properties,

		Retain: func(index int) (driver.Context, error) {
			handle, err := l.handle(index)
			if err != nil {
				return 0, err
			}
			c, err := l.create(&a.cuDevicePrimaryCtxRetain, handle)
			return driver.Context(c), err
		},
		Release: func(index int) error {
			handle, err := l.handle(index)
			if err != nil {
				return err
			}
			return l.call1(&a.cuDevicePrimaryCtxRelease, handle)
		},
		SetCurrent: func(c driver.Context) error { return l.call1(&a.cuCtxSetCurrent, uintptr(c)) },

		Compiler: l.compiler,
		Compile:  l.compile,

		Alloc: func(bytes int64) (driver.Pointer, error) {
			p, err := l.create(&a.cuMemAlloc, uintptr(bytes))
			return driver.Pointer(p), err
		},
		Free: func(p driver.Pointer) error { return l.call1(&a.cuMemFree, uintptr(p)) },
		MemoryInfo: func() (free, total int64, err error) {
			f := l.frame()
			defer l.done(f)
			f.args[0], f.args[1] = address(&f.out[0]), address(&f.out[1])
			err = l.call(&a.cuMemGetInfo, f, 2)
			return int64(f.out[0]), int64(f.out[1]), err
		},
		AllocHost: func(bytes int) ([]byte, error) {
			p, err := l.create(&a.cuMemAllocHost, uintptr(bytes))
			if err != nil {
				return nil, err
			}
			return unsafe.Slice((*byte)(pointer(uint64(p))), bytes), nil
		},
		FreeHost: func(memory []byte) error { return l.call1(&a.cuMemFreeHost, address(&memory[0])) },

		CopyIn:  l.copyIn,
		CopyOut: l.copyOut,
		Copy: func(dst, src driver.Pointer, bytes int64, s driver.Stream) error {
			f := l.frame()
			f.args[0], f.args[1], f.args[2], f.args[3] = uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s)
			err := l.call(&a.cuMemcpyDtoDAsync, f, 4)
			l.done(f)
			return err
		},
		Fill: func(dst driver.Pointer, value byte, bytes int64, s driver.Stream) error {
			f := l.frame()
			f.args[0], f.args[1], f.args[2], f.args[3] = uintptr(dst), uintptr(value), uintptr(bytes), uintptr(s)
			err := l.call(&a.cuMemsetD8Async, f, 4)
			l.done(f)
			return err
		},

		NewStream: func() (driver.Stream, error) {
			const nonBlocking = 1 // not ordered with the default stream, which is unused
			s, err := l.create(&a.cuStreamCreate, nonBlocking)
			return driver.Stream(s), err
		},
		DestroyStream: func(s driver.Stream) error { return l.call1(&a.cuStreamDestroy, uintptr(s)) },
		SyncStream:    func(s driver.Stream) error { return l.call1(&a.cuStreamSynchronize, uintptr(s)) },
		StreamDone:    func(s driver.Stream) (bool, error) { return l.query(&a.cuStreamQuery, uintptr(s)) },

		NewEvent: func(isTimed bool) (driver.Event, error) {
			const disableTiming = 2
			flags := uintptr(disableTiming)
			if isTimed {
				flags = 0
			}
			e, err := l.create(&a.cuEventCreate, flags)
			return driver.Event(e), err
		},
		DestroyEvent: func(e driver.Event) error { return l.call1(&a.cuEventDestroy, uintptr(e)) },
		Record: func(e driver.Event, s driver.Stream) error {
			return l.call2(&a.cuEventRecord, uintptr(e), uintptr(s))
		},
		SyncEvent: func(e driver.Event) error { return l.call1(&a.cuEventSynchronize, uintptr(e)) },
		EventDone: func(e driver.Event) (bool, error) { return l.query(&a.cuEventQuery, uintptr(e)) },
		WaitEvent: func(s driver.Stream, e driver.Event) error {
			return l.call3(&a.cuStreamWaitEvent, uintptr(s), uintptr(e), 0)
		},
		Elapsed: func(start, end driver.Event) (float64, error) {
			bits, err := l.create(&a.cuEventElapsedTime, uintptr(start), uintptr(end))
			ms := uint32(bits)
			return float64(*(*float32)(unsafe.Pointer(&ms))), err
		},

		Load: func(image []byte) (driver.Module, error) {
			f := l.frame()
			defer l.done(f)
			f.keep = unsafe.Pointer(&image[0])
			f.out[0] = 0
			f.args[0], f.args[1] = address(&f.out[0]), uintptr(f.keep)
			err := l.call(&a.cuModuleLoadData, f, 2)
			return driver.Module(f.out[0]), err
		},
		Unload: func(m driver.Module) error { return l.call1(&a.cuModuleUnload, uintptr(m)) },
		Lookup: func(m driver.Module, entry string) (driver.Function, error) {
			f := l.frame()
			defer l.done(f)
			text := append([]byte(entry), 0)
			f.keep = unsafe.Pointer(&text[0])
			f.out[0] = 0
			f.args[0], f.args[1], f.args[2] = address(&f.out[0]), uintptr(m), uintptr(f.keep)
			err := l.call(&a.cuModuleGetFunction, f, 3)
			if e, ok := errors.AsType[*driver.Error](err); ok && e.Code == codeNotFound {
				e.Text = fmt.Sprintf("the program has no kernel %q", entry)
			}
			return driver.Function(f.out[0]), err
		},
		SetShared: func(fn driver.Function, bytes int) error {
			const maxDynamicSharedBytes = 8
			return l.call3(&a.cuFuncSetAttribute, uintptr(fn), maxDynamicSharedBytes, uintptr(bytes))
		},
		Launch:      l.launch,
		LaunchEarly: l.earlyLaunches(),

		NewGraph:     l.newGraph,
		LaunchGraph:  l.launchGraph,
		DestroyGraph: l.destroyGraph,
		SetNode:      l.setNode,

		EncodeTensorMap: l.tensorMaps(),
	}
}

func (l *library) query(p *function, handle uintptr) (bool, error) {
	f := l.frame()
	f.args[0] = handle
	code := int32(p.proc.Call(f.args[:1]))
	l.done(f)
	switch code {
	case 0:
		return true, nil
	case codeNotReady:
		return false, nil
	}
	return false, l.failure(p.name, code)
}

func (l *library) copyIn(dst driver.Pointer, src []byte, s driver.Stream) error {
	f := l.frame()
	f.keep = unsafe.Pointer(&src[0])
	f.args[0], f.args[1], f.args[2], f.args[3] = uintptr(dst), uintptr(f.keep), uintptr(len(src)), uintptr(s)
	err := l.call(&l.api.cuMemcpyHtoDAsync, f, 4)
	l.done(f)
	return err
}

func (l *library) copyOut(dst []byte, src driver.Pointer, s driver.Stream) error {
	f := l.frame()
	f.keep = unsafe.Pointer(&dst[0])
	f.args[0], f.args[1], f.args[2], f.args[3] = uintptr(f.keep), uintptr(src), uintptr(len(dst)), uintptr(s)
	err := l.call(&l.api.cuMemcpyDtoHAsync, f, 4)
	l.done(f)
	return err
}

func (l *library) launch(fn driver.Function, grid, block [3]uint32, shared uint32, s driver.Stream, params []byte) error {
	f := l.frame()
	f.args = [12]uintptr{uintptr(fn), uintptr(grid[0]), uintptr(grid[1]), uintptr(grid[2]),
		uintptr(block[0]), uintptr(block[1]), uintptr(block[2]), uintptr(shared), uintptr(s), 0, 0}
	f.args[9] = f.listed(params)
	err := l.call(&l.api.cuLaunchKernel, f, 11)
	l.done(f)
	return err
}

// listed returns the address of the list of a kernel's one parameter, a struct; 0 if there
// is none. It is not one packed buffer: the driver knows where a struct with tensor maps
// begins, which is not at its first byte.
func (f *frame) listed(params []byte) uintptr {
	if len(params) == 0 {
		return 0
	}
	f.keep = unsafe.Pointer(&params[0])
	f.list[0] = uintptr(f.keep)
	return address(&f.list[0])
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
