package gpu

import (
	"fmt"

	"tokitai/device"
)

// Launch runs one kernel. No other queue may use its memory, and its buffers must stay
// open until Wait has returned.
func (q *Queue) Launch(f *Function, grid, block [3]uint32, shared uint32, params []byte) error {
	launches := [1]Launch{{Function: f, Grid: grid, Block: block, Shared: shared, Params: params}}
	return q.Run(&Call{Launches: launches[:]}, nil)
}

func (q *Queue) launch(launches []Launch) error {
	d := q.device
	for i := range launches {
		l := &launches[i]
		if err := d.permitShared(l); err != nil {
			return err
		}
		q.note(l.Function.entry)
		launch := d.table.Launch
		if l.IsEarly && i > 0 && d.properties.StartsEarly && d.table.LaunchEarly != nil {
			launch = d.table.LaunchEarly
		}
		if l.IsPacked && d.table.LaunchPacked != nil {
			launch = d.table.LaunchPacked
		}
		if err := launch(l.Function.handle, l.Grid, l.Block, l.Shared, q.stream, l.Params); err != nil {
			return err
		}
		if err := q.maybeSync(); err != nil {
			return err
		}
	}
	return nil
}

// permitShared permits a kernel the dynamic shared memory of a launch.
func (d *Device) permitShared(l *Launch) error {
	f := l.Function
	if int(l.Shared) <= f.shared {
		return nil
	}
	if err := d.table.SetShared(f.handle, int(l.Shared)); err != nil {
		return err
	}
	f.shared = int(l.Shared)
	return nil
}

// maybeSync waits for the work just submitted if the queue has Sync set.
func (q *Queue) maybeSync() error {
	if !q.isSync {
		return nil
	}
	if err := q.device.table.SyncStream(q.stream); err != nil {
		return err
	}
	q.completed = q.submitted
	return nil
}

// maxParams is the size of parameters that every driver accepts, in bytes.
const maxParams = 4096

// checkCall returns an error for buffers and launches that the device cannot run; mu is
// held.
func (d *Device) checkCall(uses []Use, launches []Launch) error {
	for i := range uses {
		b := uses[i].Buffer
		switch {
		case b == nil:
			return d.badLaunch("a nil buffer", "one of the device's")
		case b.device != d:
			return d.badLaunch("a buffer of "+b.device.name, "one of the device's own")
		case b.isGone():
			return fmt.Errorf("%s: launch: buffer %w", d.name, device.ErrClosed)
		}
	}
	p := &d.properties
	for i := range launches {
		l := &launches[i]
		f := l.Function
		switch {
		case f == nil:
			return d.badLaunch("a nil function", "one of a loaded module's")
		case f.module.device != d:
			return d.badLaunch("a function of "+f.module.device.name, "one of the device's own")
		case f.module.isClosed:
			return fmt.Errorf("%s: launch %s: module %w", d.name, f.entry, device.ErrClosed)
		case l.Grid[0] == 0 || l.Grid[1] == 0 || l.Grid[2] == 0 || l.Grid[0] > 1<<31-1 || l.Grid[1] > 65535 || l.Grid[2] > 65535:
			return d.badLaunch(fmt.Sprintf("%s with a grid of %v", f.entry, l.Grid), "1 to 2147483647, 65535, 65535 blocks")
		case l.Block[0] == 0 || l.Block[1] == 0 || l.Block[2] == 0 ||
			uint64(l.Block[0])*uint64(l.Block[1])*uint64(l.Block[2]) > uint64(p.ThreadsPerBlock) || l.Block[0]|l.Block[1]|l.Block[2] > 1<<20:
			return d.badLaunch(fmt.Sprintf("%s with blocks of %v", f.entry, l.Block), fmt.Sprintf("1 to %d threads", p.ThreadsPerBlock))
		case int64(l.Shared) > int64(p.SharedBytes):
			return d.badLaunch(fmt.Sprintf("%s with %d bytes of shared memory", f.entry, l.Shared), fmt.Sprintf("at most %d", p.SharedBytes))
		case len(l.Params) > maxParams:
			return d.badLaunch(fmt.Sprintf("%s with %d bytes of parameters", f.entry, len(l.Params)), fmt.Sprintf("at most %d", maxParams))
		}
	}
	return nil
}

func (d *Device) badLaunch(got, want string) error {
	return &device.ArgumentError{Op: d.name + ": launch", Got: got, Want: want}
}
