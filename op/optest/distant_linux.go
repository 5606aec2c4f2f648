package optest

import (
	"syscall"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/device"
	"tokitai/num"
	"tokitai/tensor"
)

// Distant returns a view of 33 rows, the last of which begins more than 2³¹ elements after
// the first. The pages between the rows are never touched and take no memory.
func Distant(t testing.TB, d num.DType, cols int) *tensor.Tensor {
	t.Helper()
	const rows, stride = 33, 1<<26 + 4
	whole, err := tensor.New(sparse{cpu.Queue().Device()}, d, rows, stride)
	if err != nil {
		t.Skip(err) // the host has not even the addresses
	}
	t.Cleanup(func() { OK(t, whole.Close()) })
	x, err := whole.Slice(0, rows, 0, cols)
	OK(t, err)
	if last := int64((rows - 1) * stride); last <= 1<<31 {
		t.Fatalf("the last row begins at element %d", last)
	}
	return x
}

// sparse is a device that allocates addresses only. Its buffers belong to the embedded
// device, so that its queues accept them.
type sparse struct{ device.Device }

func (s sparse) Alloc(bytes int64) (device.Buffer, error) {
	memory, err := syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	return &mapping{device: s.Device, memory: memory}, nil
}

// mapping is a device.HostBuffer, for one goroutine at a time.
type mapping struct {
	device device.Device
	memory []byte
}

func (m *mapping) Device() device.Device { return m.device }
func (m *mapping) Bytes() int64          { return int64(len(m.memory)) }
func (m *mapping) Memory() []byte        { return m.memory }
func (m *mapping) Closed() bool          { return m.memory == nil }

func (m *mapping) CopyIn(offset int64, src []byte) error {
	copy(m.memory[offset:], src)
	return nil
}

func (m *mapping) CopyOut(offset int64, dst []byte) error {
	copy(dst, m.memory[offset:])
	return nil
}

func (m *mapping) Close() error {
	memory := m.memory
	m.memory = nil
	if memory == nil {
		return nil
	}
	return syscall.Munmap(memory)
}
