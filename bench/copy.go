package bench

import (
	"context"
	"time"

	"tokitai/device"
	"tokitai/device/cpu"
)

// copier copies memory on a device, from one place to another.
type copier interface {
	// copy moves everything once.
	copy() error
	// traffic is the number of bytes that it reads and writes.
	traffic() int64
}

func newCopier(dev device.Device, bytes int) (copier, error) {
	host, ok := dev.(*cpu.Device)
	if !ok {
		return nil, &device.NoDeviceError{Name: dev.Name(), Known: []string{cpu.Name}, Reason: "there is no copy to compare with"}
	}
	c := &hostCopier{pool: host.Pool(), from: make([]byte, bytes), to: make([]byte, bytes)}
	for i := range c.from {
		c.from[i] = byte(i) // memory that was never written may all be one page
	}
	return c, nil
}

// hostCopier copies with the workers that calls use. Pieces are large, so that Go's
// own copy writes past the caches where it knows how to.
type hostCopier struct {
	pool     *cpu.Pool
	from, to []byte
}

const pieceBytes = 4 << 20

func (c *hostCopier) copy() error {
	return c.pool.Run(context.Background(), (len(c.from)+pieceBytes-1)/pieceBytes, c)
}

func (c *hostCopier) traffic() int64 { return int64(len(c.from)) + int64(len(c.to)) }

// Do implements cpu.Task.
func (c *hostCopier) Do(_, item int) {
	lo := item * pieceBytes
	hi := min(lo+pieceBytes, len(c.from))
	copy(c.to[lo:hi], c.from[lo:hi])
}

// timed is how long work takes, in seconds.
func timed(work func() error) (float64, error) {
	start := time.Now()
	err := work()
	return time.Since(start).Seconds(), err
}
