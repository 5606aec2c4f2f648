package kernelprocess

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// Stats counts what has happened on a device of a pool.
type Stats struct {
	Device, Group string
	PID           int // 0 while there is no process
	Build         string
	Generation    uint64

	Requests int64 // calls, and uses of memory in the process, that are over
	Errors   int64 // among them
	Deaths   int64
	Restarts int64
	Retries  int64
	InFlight int

	QueueTime  time.Duration // calls waited for a slot, or for a process
	WireTime   time.Duration // from sending to the answer, less the time in kernels
	KernelTime time.Duration

	InlineBytes int64 // of tensors that were sent in frames
	SharedBytes int64 // of tensors in shared memory

	ArenaBytes int64 // of shared memory that is held
	HeldBytes  int64 // with the memory in the process
}

// counters are a device's own.
type counters struct {
	requests, errors, deaths, starts, retries atomic.Int64
	queueNS, wireNS, kernelNS                 atomic.Int64
	inlineBytes, sharedBytes                  atomic.Int64
}

// Stats returns the figures of all devices, by name and group.
func (p *Pool) Stats() []Stats {
	p.mu.Lock()
	var all []Stats
	for _, k := range p.cores {
		all = append(all, k.shared.Stats())
	}
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b Stats) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Group, b.Group))
	})
	return all
}

// Stats returns the figures of the device and its Resident.
func (d *Device) Stats() Stats {
	c := &d.stats
	s := Stats{
		Device: d.device, Group: d.group,
		Requests: c.requests.Load(), Errors: c.errors.Load(), Deaths: c.deaths.Load(), Restarts: max(0, c.starts.Load()-1), Retries: c.retries.Load(),
		QueueTime: time.Duration(c.queueNS.Load()), WireTime: time.Duration(c.wireNS.Load()), KernelTime: time.Duration(c.kernelNS.Load()),
		InlineBytes: c.inlineBytes.Load(), SharedBytes: c.sharedBytes.Load(),
	}
	s.ArenaBytes, s.HeldBytes = d.memory.usage()
	d.mu.Lock()
	process := d.child
	s.Build, s.Generation = d.description.Build, d.description.Generation
	d.mu.Unlock()
	if process != nil {
		s.PID, s.InFlight = process.process.PID(), process.conn.inFlight()
	}
	return s
}
