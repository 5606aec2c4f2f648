package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// FaultError reports work that failed on the device. A GPU does not say which work it
// was, so the error lists all calls not known to be complete.
type FaultError struct {
	Calls      []string // not known to be complete, oldest first; one of them failed
	HasEarlier bool     // there are earlier ones that are not listed
	Err        error    // the driver's
}

// IsExact reports whether it is known which call failed.
func (e *FaultError) IsExact() bool { return len(e.Calls) == 1 && !e.HasEarlier }

func (e *FaultError) Error() string {
	const after = "; the device stays lost in this process: run kernels that may fail in a separate process"
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
	return fmt.Sprintf("%v, caused by one of the calls not known to be complete, oldest first: %s; set TOKITAI_SYNC=1 to find out which%s", e.Err, list, after)
}

func (e *FaultError) Unwrap() error { return e.Err }

// remembered is the number of calls that a queue remembers.
const remembered = 64

// trail is a ring of a queue's latest work.
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

// fault returns a FaultError with the calls of all queues that are not known to be
// complete; mu is held.
func (d *Device) fault(err error) *FaultError {
	type call struct {
		sequence uint64
		what     string
	}
	var calls []call
	f := &FaultError{Err: err}
	for q := range d.queues {
		// The oldest remembered call is the next to be overwritten. If it may be
		// incomplete, so may the calls before it.
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
