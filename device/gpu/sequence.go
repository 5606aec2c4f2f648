package gpu

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// Sequence is a list of calls that is checked once and run any number of times, each time by
// launching one graph. It has scratch memory and check words of its own. Calls of which
// neither writes what the other uses may run at the same time.
type Sequence struct {
	*sequence
	cleanup runtime.Cleanup
}

var (
	_ device.Sequencer = (*Queue)(nil)
	_ device.Sequence  = (*Sequence)(nil)
)

// sequence is what a Sequence holds; Device.mu guards it.
type sequence struct {
	device   *Device
	isClosed bool
	steps    []int // the first call of each, and the end
	calls    []recordedCall
	uses     []Use // by all calls, one for each buffer
	launches []Launch
	checks   []recordedCheck
	scratch  *block // nil if no call needs any
	words    *block // of the checks; nil if there are none

	graph     driver.Graph
	nodes     []driver.Node // as launches
	changed   []int         // nodes whose parameters the graph does not have yet
	isChanged []bool        // likewise, by node

	updating  sync.Mutex // one update at a time; taken before Device.mu
	collector Queue      // takes the calls of steps
}

// recordedCall is a call of a sequence.
type recordedCall struct {
	uses             []Use
	launch, launches int // the first, and how many, without a check that an earlier call does
	check, checks    int // words, of that call if there is one
	checker          int // the call that does the check; -1 if it is this one, or there is none
	hasCheck         bool
	scratchBytes     int64
	table            *table // nil if it has none
	content          []byte // of the table
}

type recordedCheck struct {
	Check
	launch int // the first of its call
}

// collection says what becomes of the calls that a queue collects for a sequence.
type collection struct {
	sequence *sequence
	isMade   bool // calls give new parameters to those of the sequence; otherwise they are added
	call     int  // the next, if so
	end      int
}

// NewSequence makes a sequence of the calls that submit runs on the queue that it is given.
func (q *Queue) NewSequence(n int, submit func(step int, to device.Queue) error) (device.Sequence, error) {
	d := q.device
	s := &sequence{device: d}
	s.collector = Queue{device: d, collects: &collection{sequence: s}}
	for i := range n {
		s.steps = append(s.steps, len(s.calls))
		if err := submit(i, &s.collector); err != nil {
			return nil, err
		}
	}
	s.steps = append(s.steps, len(s.calls))
	if err := d.submitLocked("new sequence", s.allocate); err != nil {
		return nil, err
	}
	*s.collector.collects = collection{sequence: s, isMade: true, end: len(s.calls)}
	for i := range n { // again: now the memory has addresses
		if err := submit(i, &s.collector); err != nil {
			d.closeSequence(s)
			return nil, err
		}
	}
	if err := d.submitLocked("new sequence", s.makeGraph); err != nil {
		d.closeSequence(s)
		return nil, err
	}
	outer := &Sequence{sequence: s}
	outer.cleanup = runtime.AddCleanup(outer, d.closeSequence, s)
	return outer, nil
}

// submitLocked is submit for callers that do not hold mu. Running out of memory is not
// wrapped.
func (d *Device) submitLocked(what string, f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.submit(what, f)
	if oom, ok := errors.AsType[*device.OutOfMemoryError](err); ok {
		return oom
	}
	return err
}

// update gives the next call of a made sequence the parameters of c; mu is held.
func (c *collection) update(call *Call, p Placer) error {
	if c.call == c.end {
		return c.sequence.otherWork()
	}
	c.call++
	return c.sequence.update(c.call-1, call, p)
}

// add adds a call.
func (s *sequence) add(c *Call) {
	call := recordedCall{
		uses: slices.Clone(c.Uses), launch: len(s.launches), launches: len(c.Launches),
		check: len(s.checks), checks: len(c.Checks), checker: s.checkerOf(c), hasCheck: len(c.Indices) > 0,
		scratchBytes: c.ScratchBytes, content: make([]byte, c.TableBytes),
	}
	if call.checker >= 0 {
		call.launches, call.check = len(c.Launches)-1, s.calls[call.checker].check
	} else {
		for _, check := range c.Checks {
			s.checks = append(s.checks, recordedCheck{check, len(s.launches)})
		}
	}
	s.calls = append(s.calls, call)
	for _, l := range c.Launches[len(c.Launches)-call.launches:] {
		l.Params = slices.Clone(l.Params)
		s.launches = append(s.launches, l)
	}
	for _, u := range c.Uses {
		if i := slices.IndexFunc(s.uses, func(v Use) bool { return v.Buffer == u.Buffer }); i >= 0 {
			s.uses[i].IsWrite = s.uses[i].IsWrite || u.IsWrite
		} else {
			s.uses = append(s.uses, u)
		}
	}
}

// checkerOf returns the earlier call that has the same check on indices that nothing has written since, or -1.
func (s *sequence) checkerOf(c *Call) int {
	if len(c.Indices) == 0 {
		return -1
	}
	isWritten := func(uses []Use) bool {
		return slices.ContainsFunc(uses, func(u Use) bool {
			return u.IsWrite && slices.ContainsFunc(c.Indices, func(b *Buffer) bool { return b.lease.block == u.Buffer.lease.block })
		})
	}
	for i := len(s.calls) - 1; i >= 0; i-- {
		other := &s.calls[i]
		if isWritten(other.uses) {
			return -1
		}
		if other.hasCheck && other.checker < 0 && other.checks == len(c.Checks) && s.isSameCheck(other, c) {
			return i
		}
	}
	return -1
}

// isSameCheck compares the checks of calls whose parameters have no addresses of words yet.
func (s *sequence) isSameCheck(x *recordedCall, c *Call) bool {
	for k := range c.Checks {
		if s.checks[x.check+k].Check != c.Checks[k] {
			return false
		}
	}
	a, b := &s.launches[x.launch], &c.Launches[0]
	return a.Function == b.Function && a.Grid == b.Grid && a.Block == b.Block && a.Shared == b.Shared && bytes.Equal(a.Params, b.Params)
}

// allocate allocates the sequence's own memory; mu is held and the context is current.
func (s *sequence) allocate() error {
	d := s.device
	var scratchBytes int64
	for i := range s.calls {
		scratchBytes = max(scratchBytes, s.calls[i].scratchBytes)
	}
	s.changed, s.isChanged = make([]int, 0, len(s.launches)), make([]bool, len(s.launches))
	d.sequences[s] = struct{}{}
	var err error
	for i := range s.calls {
		c := &s.calls[i]
		if n := int64(len(c.content)); n > 0 && err == nil {
			var memory *block
			if memory, err = d.takeBlock(n); err == nil {
				c.table = &table{memory: memory, last: -1}
			}
		}
	}
	if scratchBytes > 0 && err == nil {
		s.scratch, err = d.takeBlock(scratchBytes)
	}
	if n := len(s.checks); n > 0 && err == nil {
		s.words, err = d.takeBlock(int64(n * wordBytes))
	}
	if err != nil {
		delete(d.sequences, s)
		return errors.Join(err, s.free())
	}
	return nil
}

// makeGraph makes the graph, when all parameters are complete; mu is held and the context is
// current.
func (s *sequence) makeGraph() error {
	d := s.device
	s.changed = s.changed[:0]
	clear(s.isChanged)
	s.nodes = make([]driver.Node, len(s.launches))
	for i := range s.launches {
		l := &s.launches[i]
		if err := d.permitShared(l); err != nil {
			return err
		}
		s.nodes[i] = driver.Node{Function: l.Function.handle, Grid: l.Grid, Block: l.Block, Shared: l.Shared, Params: l.Params}
	}
	for i, after := range s.order() {
		c := &s.calls[i]
		for k := 1; k < c.launches; k++ {
			s.nodes[c.launch+k].After = []int{c.launch + k - 1}
		}
		for _, before := range after {
			n := &s.nodes[c.launch]
			n.After = append(n.After, s.calls[before].launch+s.calls[before].launches-1)
		}
		if c.checker >= 0 && c.launches > 0 {
			n := &s.nodes[c.launch]
			if check := s.calls[c.checker].launch; !slices.Contains(n.After, check) {
				n.After = append(n.After, check)
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

// Update gives the calls of a step new parameters. Runs before it keep the old ones. It
// allocates nothing.
func (s *Sequence) Update(step int, submit func(to device.Queue) error) error {
	if step < 0 || step >= len(s.steps)-1 {
		return s.device.badLaunch(fmt.Sprintf("an update of step %d", step), fmt.Sprintf("one of the sequence's %d", len(s.steps)-1))
	}
	s.updating.Lock()
	defer s.updating.Unlock()
	c := s.collector.collects
	c.call, c.end = s.steps[step], s.steps[step+1]
	if err := submit(&s.collector); err != nil {
		return err
	}
	if c.call != c.end {
		return s.otherWork()
	}
	return nil
}

// update gives a call the parameters of c; mu is held.
func (s *sequence) update(call int, c *Call, p Placer) error {
	if s.isClosed {
		return fmt.Errorf("%s: sequence %w", s.device.name, device.ErrClosed)
	}
	old := &s.calls[call]
	launches := c.Launches
	if old.checker >= 0 && len(launches) > 0 {
		launches = launches[1:]
	}
	if !slices.Equal(c.Uses, old.uses) || len(launches) != old.launches || (len(c.Indices) > 0) != old.hasCheck || len(c.Checks) != old.checks || c.ScratchBytes != old.scratchBytes || c.TableBytes != len(old.content) {
		return s.otherWork()
	}
	for k := range launches {
		from, to := &launches[k], &s.launches[old.launch+k]
		if from.Function != to.Function || from.Grid != to.Grid || from.Block != to.Block || from.Shared != to.Shared || len(from.Params) != len(to.Params) {
			return s.otherWork()
		}
	}
	if p != nil {
		var scratch, words driver.Pointer
		if c.ScratchBytes > 0 {
			scratch = s.scratch.pointer
		}
		if len(c.Checks) > 0 {
			words = s.words.pointer + driver.Pointer(old.check*wordBytes)
		}
		p.Place(uint64(scratch), uint64(words))
	}
	if old.table != nil {
		placer, ok := p.(TablePlacer)
		if !ok || copy(old.content, placer.PlaceTable(uint64(old.table.memory.pointer))) != len(old.content) {
			return s.otherWork()
		}
	}
	for k := range c.Checks {
		s.checks[old.check+k].Check = c.Checks[k]
	}
	for k := range launches {
		n := old.launch + k
		if from, to := launches[k].Params, s.launches[n].Params; !bytes.Equal(from, to) {
			copy(to, from)
			if !s.isChanged[n] {
				s.changed, s.isChanged[n] = append(s.changed, n), true
			}
		}
	}
	return nil
}

func (s *sequence) otherWork() error {
	return s.device.badLaunch("an update of a sequence with other memory or other kernels", "the same work with other parameters")
}

// Run submits all calls. They are ordered with the work of other queues on their buffers
// like calls that are run one by one, and refused like these. It allocates nothing.
func (s *Sequence) Run(on device.Queue) error {
	q, ok := on.(*Queue)
	if !ok || q.device != s.device {
		return s.device.badLaunch("a queue of another device", "one of "+s.device.name)
	}
	d := q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	defer runtime.KeepAlive(s)
	if err := q.usable("launch"); err != nil {
		return err
	}
	if s.isClosed {
		return fmt.Errorf("%s: launch: sequence %w", d.name, device.ErrClosed)
	}
	if err := d.checkCall(s.uses, s.launches); err != nil {
		return err
	}
	return q.submitRun(func() error { return q.runSequence(s.sequence) })
}

// runSequence is Sequence.Run with mu held, on a usable queue; the context is current.
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
	for i := range s.calls {
		if c := &s.calls[i]; c.table != nil {
			if err := q.refreshTable(c.table, c.content); err != nil {
				return err
			}
		}
	}
	for n := len(s.changed); n > 0; n = len(s.changed) {
		node := s.changed[n-1]
		if err := d.table.SetNode(s.graph, node, &s.nodes[node]); err != nil {
			return err
		}
		s.changed, s.isChanged[node] = s.changed[:n-1], false
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

// Close releases the sequence's graph and memory.
func (s *Sequence) Close() error {
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
	for i := range s.calls {
		if t := s.calls[i].table; t != nil {
			for k := range t.copies {
				err = errors.Join(err, t.copies[k].wait(s.device))
			}
			err = errors.Join(err, t.free(s.device))
			s.calls[i].table = nil
		}
	}
	for b := range s.own() {
		s.device.memory.put(b)
	}
	s.graph, s.scratch, s.words, s.uses = 0, nil, nil, nil
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
		for i := range s.calls {
			if t := s.calls[i].table; t != nil && !yield(t.memory) {
				return
			}
		}
	}
}
