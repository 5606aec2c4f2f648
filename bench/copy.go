package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"tokitai/backend/cpu"
	backendgpu "tokitai/backend/gpu"
	"tokitai/device"
	host "tokitai/device/cpu"
	"tokitai/device/gpu"
	"tokitai/engine"
	"tokitai/internal/gen"
)

// track times work on a device, and the copy that it is compared with.
type track interface {
	// time returns how long the device takes for the work, in seconds, with caches that
	// hold none of its operands. A device that works while the host prepares more is kept
	// busy for as long as the host may take for so many calls.
	time(work func() error, calls int) (float64, error)

	// copying returns a copy of memory to compare with work that moves the given number of
	// bytes in all, and the number of bytes that the copy moves.
	copying(bytes int64) (work func() error, moves int64, err error)

	// move copies a whole buffer to another of the same size.
	move(to, from device.Buffer) error

	close()
}

// Clock times work on the device of a queue by the device's own clock, if it has one.
type Clock struct{ track track }

// clockCopyBytes is how much of the memory of a processor a clock copies.
const clockCopyBytes = 64 << 20

// NewClock returns a clock for a queue. The caller closes it.
func NewClock(q *engine.Queue) (*Clock, error) {
	t, err := newTrack(q, clockCopyBytes)
	return &Clock{t}, err
}

// Time returns how long the device takes for the work, in seconds. The work begins with caches that hold other data.
func (c *Clock) Time(work func() error) (float64, error) { return c.track.time(work, 1) }

// CopySpeed returns how many bytes a copy of memory reads and writes in a second: the median of five.
func (c *Clock) CopySpeed() (float64, error) {
	var speeds []float64
	for range 5 {
		work, moves, err := c.track.copying(16 * clockCopyBytes)
		if err != nil {
			return 0, err
		}
		seconds, err := c.track.time(work, 1)
		if err != nil {
			return 0, err
		}
		speeds = append(speeds, rate(float64(moves), seconds))
	}
	return median(speeds), nil
}

// Close frees the clock's memory.
func (c *Clock) Close() { c.track.close() }

func newTrack(q *engine.Queue, copyBytes int) (track, error) {
	switch dev := q.Device().(type) {
	case *cpu.Device:
		return newHostTrack(q, dev, copyBytes), nil
	case *backendgpu.Device:
		return newGPUTrack(q, dev.Device)
	default:
		return nil, fmt.Errorf("bench cannot measure %s: it has no copy of memory to compare with on devices of kind %s", dev.Name(), dev.Kind())
	}
}

// hostTrack copies with the workers that calls use, always an amount that exceeds most
// caches. The copy before a call also fills the caches with other data. Pieces are large,
// so that Go's copy bypasses the caches where it can.
type hostTrack struct {
	queue    *engine.Queue
	pool     *host.Pool
	from, to []byte
}

const pieceBytes = 4 << 20

func newHostTrack(q *engine.Queue, dev *cpu.Device, bytes int) *hostTrack {
	h := &hostTrack{queue: q, pool: dev.Pool(), from: make([]byte, bytes), to: make([]byte, bytes)}
	for i := range h.from {
		h.from[i] = byte(i) // memory that was never written may all be one page
	}
	return h
}

func (h *hostTrack) time(work func() error, _ int) (float64, error) {
	start := time.Now()
	err := work()
	if err == nil {
		err = h.queue.Wait()
	}
	return time.Since(start).Seconds(), err
}

func (h *hostTrack) copying(int64) (work func() error, moves int64, err error) {
	return h.copy, int64(len(h.from)) + int64(len(h.to)), nil
}

func (h *hostTrack) copy() error {
	return h.pool.Run(context.Background(), (len(h.from)+pieceBytes-1)/pieceBytes, h)
}

// Do implements cpu.Task.
func (h *hostTrack) Do(_, item int) {
	lo := item * pieceBytes
	hi := min(lo+pieceBytes, len(h.from))
	copy(h.to[lo:hi], h.from[lo:hi])
}

func (h *hostTrack) move(to, from device.Buffer) error {
	copy(to.(device.HostBuffer).Memory(), from.(device.HostBuffer).Memory())
	return nil
}

func (h *hostTrack) close() {}

// gpuTrack times with the device's own clock. Filling a buffer larger than the caches
// evicts the operands, and keeps the device busy while the host prepares the work.
type gpuTrack struct {
	queue    *gpu.Queue
	timer    *gpu.Timer
	flush    *gpu.Buffer
	from, to *gpu.Buffer // nil until there is something to copy
}

const flushBytes = 256 << 20

// callsPerFill is how many calls the host prepares at least while flushBytes are filled.
const callsPerFill = 16

func newGPUTrack(q *engine.Queue, dev *gpu.Device) (*gpuTrack, error) {
	g := &gpuTrack{queue: q.DeviceQueue().(*gpu.Queue)}
	var err error
	if g.timer, err = g.queue.NewTimer(); err != nil {
		return nil, err
	}
	if g.flush, err = alloc(dev, flushBytes); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func alloc(dev *gpu.Device, bytes int64) (*gpu.Buffer, error) {
	b, err := dev.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	return b.(*gpu.Buffer), nil
}

func (g *gpuTrack) time(work func() error, calls int) (float64, error) {
	for range 1 + calls/callsPerFill {
		if err := g.queue.Fill(g.flush, 0, flushBytes, 0x5a); err != nil {
			return 0, err
		}
	}
	if err := g.timer.Start(); err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	if err := g.timer.Stop(); err != nil {
		return 0, err
	}
	elapsed, err := g.timer.Elapsed(context.Background())
	return elapsed.Seconds(), err
}

// copying copies half of the bytes: reading and writing both count.
func (g *gpuTrack) copying(bytes int64) (work func() error, moves int64, err error) {
	half := max(bytes/2, 1)
	if g.from == nil || g.from.Bytes() < half {
		if err := g.grow(half); err != nil {
			return nil, 0, err
		}
	}
	return func() error { return g.queue.Copy(g.to, 0, g.from, 0, half) }, 2 * half, nil
}

// grow allocates memory for a copy of that many bytes and fills it with random numbers:
// equal bytes might be copied faster.
func (g *gpuTrack) grow(bytes int64) error {
	dev := g.queue.Device().(*backendgpu.Device).Device
	g.closeCopies()
	var err error
	if g.from, err = alloc(dev, bytes); err != nil {
		return err
	}
	if g.to, err = alloc(dev, bytes); err != nil {
		return err
	}
	pattern := make([]byte, min(bytes, 16<<20))
	words := gen.New("bench/copy")
	for i := 0; i+8 <= len(pattern); i += 8 {
		binary.LittleEndian.PutUint64(pattern[i:], words.Next())
	}
	if err := g.from.CopyIn(0, pattern); err != nil {
		return err
	}
	for done := int64(len(pattern)); done < bytes; done *= 2 {
		if err := g.queue.Copy(g.from, done, g.from, 0, min(done, bytes-done)); err != nil {
			return err
		}
	}
	return nil
}

func (g *gpuTrack) move(to, from device.Buffer) error {
	return g.queue.Copy(to.(*gpu.Buffer), 0, from.(*gpu.Buffer), 0, from.Bytes())
}

func (g *gpuTrack) closeCopies() {
	for _, b := range []*gpu.Buffer{g.from, g.to} {
		if b != nil {
			b.Close()
		}
	}
	g.from, g.to = nil, nil
}

func (g *gpuTrack) close() {
	g.closeCopies()
	if g.flush != nil {
		g.flush.Close()
	}
	g.timer.Close()
}
