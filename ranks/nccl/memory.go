package nccl

import (
	"errors"
	"runtime"
	"unsafe"

	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/driver/clib"
)

// Memory is what a library moves bytes from and to. Its methods are for one thread.
type Memory interface {
	// Alloc allocates memory that Close frees.
	Alloc(bytes int) (address uintptr, err error)

	// CopyIn copies bytes of the host to an address, before what is queued later. CopyOut copies bytes of an address to the host.
	CopyIn(to uintptr, from []byte) error
	CopyOut(to []byte, from uintptr) error

	// Stream is where the library queues its work. Done reports whether all of it is done.
	Stream() uintptr
	Done() (bool, error)

	Close() error
}

// hostMemory is memory of this process.
type hostMemory struct {
	pin    runtime.Pinner
	blocks [][]byte
}

func (m *hostMemory) Alloc(bytes int) (uintptr, error) {
	block := make([]byte, bytes)
	m.blocks = append(m.blocks, block)
	m.pin.Pin(&block[0])
	return uintptr(unsafe.Pointer(&block[0])), nil
}

func view(address uintptr, bytes int) []byte {
	return unsafe.Slice((*byte)(clib.Pointer(uint64(address))), bytes)
}

func (m *hostMemory) CopyIn(to uintptr, from []byte) error {
	copy(view(to, len(from)), from)
	return nil
}

func (m *hostMemory) CopyOut(to []byte, from uintptr) error {
	copy(to, view(from, len(to)))
	return nil
}

func (m *hostMemory) Stream() uintptr     { return 0 }
func (m *hostMemory) Done() (bool, error) { return true, nil }

func (m *hostMemory) Close() error {
	m.pin.Unpin()
	m.blocks = nil
	return nil
}

// deviceMemory is memory of a GPU. Bytes go through memory of the host that the GPU reaches.
type deviceMemory struct {
	table  *driver.Table
	index  int
	stream driver.Stream
	blocks []driver.Pointer
	staged []byte
}

// OnDevice returns the memory of a driver's device, which it makes current on this thread.
func OnDevice(table *driver.Table, index int) (Memory, error) {
	context, err := table.Retain(index)
	if err != nil {
		return nil, err
	}
	m := &deviceMemory{table: table, index: index}
	if err = table.SetCurrent(context); err == nil {
		m.stream, err = table.NewStream()
	}
	if err != nil {
		return nil, errors.Join(err, table.Release(index))
	}
	return m, nil
}

func (m *deviceMemory) Alloc(bytes int) (uintptr, error) {
	p, err := m.table.Alloc(int64(bytes))
	if err == nil {
		m.blocks = append(m.blocks, p)
	}
	return uintptr(p), err
}

// stage returns memory of the host that the GPU reaches. All work on it is done.
func (m *deviceMemory) stage(bytes int) ([]byte, error) {
	if err := m.table.SyncStream(m.stream); err != nil {
		return nil, err
	}
	if bytes <= len(m.staged) {
		return m.staged[:bytes], nil
	}
	if m.staged != nil {
		if err := m.table.FreeHost(m.staged); err != nil {
			return nil, err
		}
	}
	var err error
	m.staged, err = m.table.AllocHost(bytes)
	return m.staged, err
}

func (m *deviceMemory) CopyIn(to uintptr, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	staged, err := m.stage(len(from))
	if err != nil {
		return err
	}
	copy(staged, from)
	return m.table.CopyIn(driver.Pointer(to), staged, m.stream)
}

func (m *deviceMemory) CopyOut(to []byte, from uintptr) error {
	if len(to) == 0 {
		return nil
	}
	staged, err := m.stage(len(to))
	if err == nil {
		err = m.table.CopyOut(staged, driver.Pointer(from), m.stream)
	}
	if err == nil {
		err = m.table.SyncStream(m.stream)
	}
	copy(to, staged)
	return err
}

func (m *deviceMemory) Stream() uintptr     { return uintptr(m.stream) }
func (m *deviceMemory) Done() (bool, error) { return m.table.StreamDone(m.stream) }

func (m *deviceMemory) Close() error {
	var err error
	for _, p := range m.blocks {
		err = errors.Join(err, m.table.Free(p))
	}
	if m.staged != nil {
		err = errors.Join(err, m.table.FreeHost(m.staged))
	}
	return errors.Join(err, m.table.DestroyStream(m.stream), m.table.Release(m.index))
}
