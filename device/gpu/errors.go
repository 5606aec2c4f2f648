package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// FaultError is work that failed on the device. A GPU does not say which, so the calls
// not known to be complete are listed.
type FaultError struct {
	Calls      []string // not known complete, oldest first; one is the culprit
	HasEarlier bool     // there are more before those that are listed
	Err        error    // the driver's
}

// IsExact reports whether the culprit is known.
func (e *FaultError) IsExact() bool { return len(e.Calls) == 1 && !e.HasEarlier }

func (e *FaultError) Error() string {
	const after = "; the device stays lost in this process: run what may fail in a process of its own"
	switch {
	case len(e.Calls) == 0:
		return e.Err.Error() + after
	case e.IsExact():
		return fmt.Sprintf("%v, caused by %s%s", e.Err, e.Calls[0], after)
	}
	list := strings.Join(e.Calls, ", ")
	if e.HasEarlier {
		list = "…, " + list
	}
	return fmt.Sprintf("%v, caused by one of the calls not known complete, oldest first: %s; TOKITAI_SYNC=1 tells which%s", e.Err, list, after)
}

func (e *FaultError) Unwrap() error { return e.Err }

// remembered is how many calls a queue can list.
const remembered = 64

// trail is the latest work of a queue.
type trail struct {
	work [remembered]struct {
		sequence uint64
		what     string
	}
	count uint64
}

func (t *trail) add(sequence uint64, what string) {
	w := &t.work[t.count%remembered]
	w.sequence, w.what = sequence, what
	t.count++
}

// fault lists the calls of all queues that are not known complete; mu is held.
func (d *Device) fault(err error) *FaultError {
	type call struct {
		sequence uint64
		what     string
	}
	var calls []call
	f := &FaultError{Err: err}
	for q := range d.queues {
		// The oldest that the queue remembers is the next to be forgotten.
		if q.trail.count > remembered && q.trail.work[q.trail.count%remembered].sequence > q.completed {
			f.HasEarlier = true
		}
		for _, w := range q.trail.work {
			if w.sequence > q.completed {
				calls = append(calls, call{w.sequence, w.what})
			}
		}
	}
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.sequence, b.sequence) })
	for _, c := range calls {
		f.Calls = append(f.Calls, c.what)
	}
	return f
}
