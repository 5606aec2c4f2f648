package standin

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
)

// openHost opens devices that are host memory, with one kernel, "add".
func openHost(architectures []string) (*server, error) {
	s := &server{
		compiler:  func() (compile.Compiler, error) { return hostCompiler{}, nil },
		arguments: func([]byte, string, string) ([]argument, error) { return []argument{{0, 24}}, nil },
	}
	for _, architecture := range architectures {
		s.devices = append(s.devices, hostDevice(architecture))
	}
	return s, nil
}

// hostDevice returns the driver of a device that is host memory. Its kernel adds two arrays of
// bytes to a third.
func hostDevice(architecture string) *driver.Table {
	const memoryBytes = 1 << 20
	var lock sync.Mutex
	memory, used, next := map[driver.Pointer][]byte{}, int64(0), uint64(1<<20)
	handle := func() uint64 {
		lock.Lock()
		defer lock.Unlock()
		next += 1 << 24
		return next
	}
	find := func(at driver.Pointer, bytes int64) ([]byte, error) {
		lock.Lock()
		defer lock.Unlock()
		for start, m := range memory {
			if at >= start && int64(at-start)+bytes <= int64(len(m)) {
				return m[at-start:][:bytes], nil
			}
		}
		return nil, &driver.Error{Call: "access", Name: "wild", Text: fmt.Sprintf("no memory at %#x", at), Class: driver.Lost}
	}
	move := func(to []byte, err1 error, from []byte, err2 error) error {
		if err1 != nil {
			return err1
		}
		if err2 == nil {
			copy(to, from)
		}
		return err2
	}
	events := map[driver.Event]time.Time{}
	return &driver.Table{
		Count: func() (int, error) { return 1, nil },
		Properties: func(int) (driver.Properties, error) {
			return driver.Properties{Name: "host " + architecture, Architecture: architecture, MemoryBytes: memoryBytes, Multiprocessors: 3,
				WarpWidth: 32, SharedBytes: 65536, ThreadsPerBlock: 1024, CacheBytes: 4096, ClockHz: 2e9}, nil
		},
		Retain:     func(i int) (driver.Context, error) { return driver.Context(i + 1), nil },
		Release:    func(int) error { return nil },
		SetCurrent: func(driver.Context) error { return nil },
		Alloc: func(bytes int64) (driver.Pointer, error) {
			at := driver.Pointer(handle())
			lock.Lock()
			defer lock.Unlock()
			if used+bytes > memoryBytes {
				return 0, &driver.Error{Call: "alloc", Class: driver.OutOfMemory}
			}
			used += bytes
			memory[at] = make([]byte, bytes)
			return at, nil
		},
		Free: func(p driver.Pointer) error {
			lock.Lock()
			defer lock.Unlock()
			used -= int64(len(memory[p]))
			delete(memory, p)
			return nil
		},
		MemoryInfo: func() (int64, int64, error) {
			lock.Lock()
			defer lock.Unlock()
			return memoryBytes - used, memoryBytes, nil
		},
		CopyIn: func(dst driver.Pointer, src []byte, _ driver.Stream) error {
			to, err := find(dst, int64(len(src)))
			return move(to, err, src, nil)
		},
		CopyOut: func(dst []byte, src driver.Pointer, _ driver.Stream) error {
			from, err := find(src, int64(len(dst)))
			return move(dst, nil, from, err)
		},
		Copy: func(dst, src driver.Pointer, bytes int64, _ driver.Stream) error {
			to, err1 := find(dst, bytes)
			from, err2 := find(src, bytes)
			return move(to, err1, from, err2)
		},
		Fill: func(dst driver.Pointer, value byte, bytes int64, _ driver.Stream) error {
			to, err := find(dst, bytes)
			for i := range to {
				to[i] = value
			}
			return err
		},
		NewStream:     func() (driver.Stream, error) { return driver.Stream(handle()), nil },
		DestroyStream: func(driver.Stream) error { return nil },
		SyncStream:    func(driver.Stream) error { return nil },
		StreamDone:    func(driver.Stream) (bool, error) { return true, nil },
		NewEvent:      func(bool) (driver.Event, error) { return driver.Event(handle()), nil },
		DestroyEvent:  func(driver.Event) error { return nil },
		Record: func(e driver.Event, _ driver.Stream) error {
			lock.Lock()
			defer lock.Unlock()
			events[e] = time.Now()
			return nil
		},
		SyncEvent: func(driver.Event) error { return nil },
		EventDone: func(e driver.Event) (bool, error) {
			lock.Lock()
			defer lock.Unlock()
			return !events[e].IsZero(), nil
		},
		WaitEvent: func(driver.Stream, driver.Event) error { return nil },
		Elapsed:   func(driver.Event, driver.Event) (float64, error) { return 2.5, nil },
		Load:      func([]byte) (driver.Module, error) { return driver.Module(handle()), nil },
		Unload:    func(driver.Module) error { return nil },
		Lookup: func(_ driver.Module, entry string) (driver.Function, error) {
			if entry != "add" {
				return 0, fmt.Errorf("no kernel %q", entry)
			}
			return driver.Function(handle()), nil
		},
		SetShared: func(driver.Function, int) error { return nil },
		Launch: func(_ driver.Function, grid, _ [3]uint32, _ uint32, _ driver.Stream, params []byte) error {
			if len(params) != 24 {
				return &driver.LaunchError{Entry: "add", Message: fmt.Sprintf("%d bytes of parameters", len(params))}
			}
			at := func(i int) ([]byte, error) {
				return find(driver.Pointer(binary.LittleEndian.Uint64(params[8*i:])), int64(grid[0]))
			}
			to, err := at(0)
			for i := 1; i < 3 && err == nil; i++ {
				var from []byte
				from, err = at(i)
				for k := range from {
					to[k] += from[k]
				}
			}
			return err
		},
	}
}

// hostCompiler compiles a source to its own text, after the header of an ELF file without
// sections.
type hostCompiler struct{ compile.Compiler }

func (hostCompiler) Compile(architecture string, s compile.Source) (*compile.Program, error) {
	if s.Text == "wrong" {
		return nil, &compile.Error{Log: "wrong.hip:1:1: error: " + architecture}
	}
	image := append([]byte("\x7fELF"), make([]byte, 60)...)
	image[40] = 64
	return &compile.Program{Image: append(image, s.Text+s.Headers[0].Text...)}, nil
}
