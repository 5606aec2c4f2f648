package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// Sequence is a list of calls that is checked once and run any number of times, each time
// by launching one graph. It has scratch memory and check words of its own. Calls of which
// neither writes what the other uses may run at the same time.
type Sequence struct {
	*sequence
	cleanup runtime.Cleanup
}

// sequence is what a Sequence holds; Device.mu guards it.
type sequence struct {
	device   *Device
	isClosed bool
	calls    []recordedCall
	uses     []Use // by all calls, one for each block
	launches []Launch
	checks   []recordedCheck
	scratch  *block // nil if no call needs any
	words    *block // of the checks; nil if there are none

	graph   driver.Graph
	nodes   []driver.Node // as launches
	changed []int         // nodes whose parameters the graph does not have yet
}

// recordedCall is a call of a sequence.
type recordedCall struct {
	uses          []Use
	launch, check int // the first
	launches      int
	checks        int
	scratchBytes  int64
}

type recordedCheck struct {
	Check
	launch int // the first of its call
}

// Step is a call of a sequence. Its Placer may be nil, as for [Queue.Run].
type Step struct {
	Call   *Call
	Placer Placer
}

// NewSequence makes a sequence of calls. It keeps their buffers, and no other reference to
// its arguments. A buffer that is closed later makes [Queue.RunSequence] fail, and nothing
// runs then.
func (d *Device) NewSequence(steps []Step) (*Sequence, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable("new sequence"); err != nil {
		return nil, err
	}
	s := &sequence{device: d}
	for i := range steps {
		if steps[i].Call == nil {
			return nil, d.badLaunch("a nil call", "one with launches")
		}
		if err := d.checkCall(steps[i].Call.Uses, steps[i].Call.Launches); err != nil {
			return nil, err
		}
		s.add(steps[i].Call)
	}
	err := d.submit("new sequence", func() error { return s.make(steps) })
	if err != nil {
		d.call(s.free)
		if oom, ok := errors.AsType[*device.OutOfMemoryError](err); ok {
			return nil, oom
		}
		return nil, err
	}
	d.sequences[s] = struct{}{}
	outer := &Sequence{sequence: s}
	outer.cleanup = runtime.AddCleanup(outer, d.closeSequence, s)
	return outer, nil
}

// add adds a call that has been checked.
func (s *sequence) add(c *Call) {
	s.calls = append(s.calls, recordedCall{
		uses: slices.Clone(c.Uses), launch: len(s.launches), launches: len(c.Launches),
		check: len(s.checks), checks: len(c.Checks), scratchBytes: c.ScratchBytes,
	})
	for _, check := range c.Checks {
		s.checks = append(s.checks, recordedCheck{check, len(s.launches)})
	}
	s.launches = append(s.launches, c.Launches...)
	for _, u := range c.Uses {
		if i := slices.IndexFunc(s.uses, func(v Use) bool { return v.Buffer == u.Buffer }); i >= 0 {
			s.uses[i].IsWrite = s.uses[i].IsWrite || u.IsWrite
		} else {
			s.uses = append(s.uses, u)
		}
	}
}

// make allocates the sequence's memory and makes its graph; mu is held and the context is
// current.
func (s *sequence) make(steps []Step) error {
	d := s.device
	var scratchBytes int64
	for i := range s.calls {
		scratchBytes = max(scratchBytes, s.calls[i].scratchBytes)
	}
	var err error
	if scratchBytes > 0 {
		if s.scratch, err = d.takeBlock(scratchBytes); err != nil {
			return err
		}
	}
	if n := len(s.checks); n > 0 {
		if s.words, err = d.takeBlock(int64(n * wordBytes)); err != nil {
			return err
		}
	}
	for i := range steps {
		s.place(i, steps[i].Placer)
	}
	s.nodes = make([]driver.Node, len(s.launches))
	s.changed = make([]int, 0, len(s.launches))
	after := s.order()
	for i := range s.calls {
		c := &s.calls[i]
		for k := range c.launches {
			n := c.launch + k
			l := &s.launches[n]
			l.Params = slices.Clone(l.Params)
			if err := d.permitShared(l); err != nil {
				return err
			}
			s.nodes[n] = driver.Node{Function: l.Function.handle, Grid: l.Grid, Block: l.Block, Shared: l.Shared, Params: l.Params}
			if k > 0 {
				s.nodes[n].After = []int{n - 1}
				continue
			}
			for _, before := range after[i] {
				s.nodes[n].After = append(s.nodes[n].After, s.calls[before].launch+s.calls[before].launches-1)
			}
		}
	}
	if len(s.nodes) == 0 {
		return nil
	}
	return d.retryAfterTrim(0, func() (err error) {
		s.graph, err = d.table.NewGraph(s.nodes)
		return err
	})
}

// place completes the parameters of call i.
func (s *sequence) place(i int, p Placer) {
	if p == nil {
		return
	}
	var scratch, words driver.Pointer
	if c := &s.calls[i]; c.scratchBytes > 0 {
		scratch = s.scratch.pointer
	}
	if c := &s.calls[i]; c.checks > 0 {
		words = s.words.pointer + driver.Pointer(c.check*wordBytes)
	}
	p.Place(uint64(scratch), uint64(words))
}

// Update gives call i new parameters, in which alone c may differ from the call that it
// replaces. Runs before it keep the old ones. It allocates nothing.
func (s *Sequence) Update(i int, c *Call, p Placer) error {
	d := s.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if i < 0 || i >= len(s.calls) {
		return d.badLaunch(fmt.Sprintf("an update of call %d", i), fmt.Sprintf("one of the sequence's %d", len(s.calls)))
	}
	old := &s.calls[i]
	if !slices.Equal(c.Uses, old.uses) || len(c.Launches) != old.launches || len(c.Checks) != old.checks || c.ScratchBytes != old.scratchBytes {
		return s.badUpdate(i)
	}
	for k := range c.Launches {
		to, from := &s.launches[old.launch+k], &c.Launches[k]
		if from.Function != to.Function || from.Grid != to.Grid || from.Block != to.Block || from.Shared != to.Shared || len(from.Params) != len(to.Params) {
			return s.badUpdate(i)
		}
	}
	s.place(i, p)
	for k := range c.Checks {
		s.checks[old.check+k].Check = c.Checks[k]
	}
	for k := range c.Launches {
		n := old.launch + k
		if from, to := c.Launches[k].Params, s.launches[n].Params; !bytes.Equal(from, to) {
			copy(to, from)
			if !slices.Contains(s.changed, n) {
				s.changed = append(s.changed, n)
			}
		}
	}
	return nil
}

func (s *sequence) badUpdate(i int) error {
	return s.device.badLaunch(fmt.Sprintf("an update of call %d with other memory or other kernels", i), "other parameters only: record it again")
}

// usable returns an error for a sequence that cannot be used; mu is held.
func (s *sequence) usable() error {
	if err := s.device.usable("sequence"); err != nil {
		return err
	}
	if s.isClosed {
		return fmt.Errorf("%s: sequence %w", s.device.name, device.ErrClosed)
	}
	return nil
}

// RunSequence submits all calls of a sequence. They are ordered with the work of other
// queues on their buffers like calls that are run one by one, and refused like these. It
// allocates nothing.
func (q *Queue) RunSequence(s *Sequence) error {
	d := q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	defer runtime.KeepAlive(s)
	switch {
	case s == nil:
		return d.badLaunch("a nil sequence", "one that NewSequence made")
	case s.device != d:
		return d.badLaunch("a sequence of "+s.device.name, "one of the device's own")
	}
	if err := q.usable("launch"); err != nil {
		return err
	}
	if err := s.usable(); err != nil {
		return err
	}
	if err := d.checkCall(s.uses, s.launches); err != nil {
		return err
	}
	return q.submitRun(func() error { return q.runSequence(s.sequence) })
}

// runSequence is RunSequence with mu held, on a usable queue; the context is current.
func (q *Queue) runSequence(s *sequence) error {
	d := q.device
	for i := range s.uses {
		if err := q.orderAfter(s.uses[i].Buffer.lease.block, s.uses[i].IsWrite); err != nil {
			return err
		}
	}
	for b := range s.own() {
		if err := q.orderAfter(b, true); err != nil {
			return err
		}
	}
	if s.words != nil {
		if err := d.table.Fill(s.words.pointer, 0xff, int64(len(s.checks)*wordBytes), q.stream); err != nil {
			return err
		}
	}
	for n := len(s.changed); n > 0; n = len(s.changed) {
		node := s.changed[n-1]
		if err := d.table.SetNode(s.graph, node, &s.nodes[node]); err != nil {
			return err
		}
		s.changed = s.changed[:n-1]
	}
	before := q.submitted
	err := q.launchSequence(s)
	if err == nil && s.words != nil {
		err = q.sendChecks(s, before)
	}
	// Kernels launched before an error use the memory too.
	for i := range s.uses {
		q.mark(s.uses[i].Buffer.lease.block, s.uses[i].IsWrite)
	}
	for b := range s.own() {
		q.mark(b, true)
	}
	if q.checks.words != nil {
		q.mark(q.checks.words, true)
	}
	if err != nil {
		return err
	}
	return q.followChecks()
}

// launchSequence launches the graph or, where the queue waits after each call, one kernel
// after another.
func (q *Queue) launchSequence(s *sequence) error {
	if q.isSync {
		return q.launch(s.launches)
	}
	for i := range s.launches {
		q.note(s.launches[i].Function.entry)
	}
	if len(s.launches) == 0 {
		return nil
	}
	return q.device.table.LaunchGraph(s.graph, q.stream)
}

// Close releases the sequence's graph and scratch memory, once runs that are under way are
// done. Closing twice is allowed.
func (s *Sequence) Close() error {
	if s == nil {
		return nil
	}
	s.cleanup.Stop()
	s.device.closeSequence(s.sequence)
	return nil
}

func (d *Device) closeSequence(s *sequence) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.isClosed || d.isClosed.Load() {
		return
	}
	delete(d.sequences, s)
	d.submit("close sequence", s.free) // after a failure the device is lost
}

// free releases what the sequence holds. Later work on its memory is ordered after the
// runs that use it now. mu is held and the context is current.
func (s *sequence) free() error {
	s.isClosed = true
	var err error
	if s.graph != 0 {
		err = s.device.table.DestroyGraph(s.graph)
	}
	for b := range s.own() {
		s.device.memory.put(b)
	}
	s.graph, s.scratch, s.words, s.uses, s.calls = 0, nil, nil, nil, nil
	return err
}

// own lists the sequence's own memory.
func (s *sequence) own() iter.Seq[*block] {
	return func(yield func(*block) bool) {
		for _, b := range [...]*block{s.scratch, s.words} {
			if b != nil && !yield(b) {
				return
			}
		}
	}
}
