package gputest

import (
	"errors"
	"fmt"

	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
)

// NoOp returns a driver of kind cuda with an H200's properties whose device does nothing:
// it compiles and runs no kernel, and all memory reads as 0xff. It serves to measure the
// host's own work.
func NoOp() *driver.Table {
	next := uintptr(0)
	handle := func() uintptr {
		next++
		return next
	}
	address := driver.Pointer(1 << 40)
	return &driver.Table{
		Kind: "cuda", Name: func(i int) string { return fmt.Sprintf("cuda:%d", i) }, Version: "none",
		Count: func() (int, error) { return 1, nil },
		Properties: func(int) (driver.Properties, error) {
			return driver.Properties{Name: "none", Architecture: "sm_90a", MemoryBytes: 140 << 30, Multiprocessors: 132, WarpWidth: 32,
				SharedBytes: 227 << 10, ThreadsPerBlock: 1024}, nil
		},
		Retain:     func(int) (driver.Context, error) { return 1, nil },
		Release:    nothing[int],
		SetCurrent: nothing[driver.Context],
		Compiler:   func(int) (compile.Compiler, error) { return nil, errors.New("no compiler") },
		Compile: func(_ int, s compile.Source) (*compile.Program, error) {
			return &compile.Program{Image: []byte(s.Text)}, nil
		},
		Alloc: func(bytes int64) (driver.Pointer, error) {
			at := address
			address += driver.Pointer(bytes+255) / 256 * 256
			return at, nil
		},
		Free:       nothing[driver.Pointer],
		MemoryInfo: func() (int64, int64, error) { return 140 << 30, 140 << 30, nil },
		AllocHost:  func(bytes int) ([]byte, error) { return make([]byte, bytes), nil },
		FreeHost:   nothing[[]byte],
		CopyIn:     func(driver.Pointer, []byte, driver.Stream) error { return nil },
		CopyOut: func(dst []byte, _ driver.Pointer, _ driver.Stream) error {
			for i := range dst {
				dst[i] = 0xff
			}
			return nil
		},
		Copy:          func(driver.Pointer, driver.Pointer, int64, driver.Stream) error { return nil },
		Fill:          func(driver.Pointer, byte, int64, driver.Stream) error { return nil },
		NewStream:     func() (driver.Stream, error) { return driver.Stream(handle()), nil },
		DestroyStream: nothing[driver.Stream],
		SyncStream:    nothing[driver.Stream],
		StreamDone:    func(driver.Stream) (bool, error) { return true, nil },
		NewEvent:      func(bool) (driver.Event, error) { return driver.Event(handle()), nil },
		DestroyEvent:  nothing[driver.Event],
		Record:        func(driver.Event, driver.Stream) error { return nil },
		SyncEvent:     nothing[driver.Event],
		EventDone:     func(driver.Event) (bool, error) { return true, nil },
		WaitEvent:     func(driver.Stream, driver.Event) error { return nil },
		Elapsed:       func(driver.Event, driver.Event) (float64, error) { return 0, nil },
		Load:          func([]byte) (driver.Module, error) { return driver.Module(handle()), nil },
		Unload:        nothing[driver.Module],
		Lookup:        func(driver.Module, string) (driver.Function, error) { return driver.Function(handle()), nil },
		SetShared:     func(driver.Function, int) error { return nil },
		Launch: func(driver.Function, [3]uint32, [3]uint32, uint32, driver.Stream, []byte) error {
			return nil
		},
		NewGraph:     func([]driver.Node) (driver.Graph, error) { return driver.Graph(handle()), nil },
		LaunchGraph:  func(driver.Graph, driver.Stream) error { return nil },
		DestroyGraph: nothing[driver.Graph],
		SetNode:      func(driver.Graph, int, *driver.Node) error { return nil },
	}
}

func nothing[T any](T) error { return nil }
