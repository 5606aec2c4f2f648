package gpu

import (
	"encoding/binary"
	"errors"

	"tokitai/device/gpu/driver"
)

// Check lets a call's kernels refuse the call, by a 64-bit word in device memory. All bits
// of the word are set when the call begins. Any other value means that a kernel refused
// it; By interprets the value.
type Check struct {
	By    Checker
	Facts [4]int64 // about this call, passed to By
}

// Checker returns the error for the word of a refused call.
type Checker interface {
	Refusal(word uint64, facts [4]int64) error
}

const (
	checkWords = 1024 // capacity of the ring
	watchCalls = 16   // the host polls the words once in so many calls
	wordBytes  = 8
	passed     = ^uint64(0)
)

// checks holds the words of a queue's calls: a ring in device memory, copied to the host
// when somebody waits and every watchCalls calls. Words are numbered from the queue's
// first; word n is at index n modulo checkWords.
type checks struct {
	words  *block // nil before the first call with checks
	mirror []byte // the host's copy
	ring   []sentCheck

	first  uint64 // the oldest word that the host has not read
	copied uint64 // copies to the mirror are queued for the words before this one
	next   uint64 // the next word to allocate

	watch         driver.Event // recorded after the copy that pollChecks queued
	isWatching    bool         // watch is pending
	watchEnd      uint64       // the words before this one are in that copy
	watchSequence uint64
	calls         int // since the last poll

	refused error // refusals that Wait has not returned yet
}

// sentCheck is a check of a submitted call.
type sentCheck struct {
	Check
	call    uint64 // number of the call; only a call's first refusal is reported
	isDirty bool   // the word still has the value of an earlier call
}

// hasPending reports whether there are words that the host has not read.
func (c *checks) hasPending() bool { return c.first < c.next }

// allocChecks allocates consecutive words for a call, queues their initialization and
// returns their address. mu is held and the context is current.
func (q *Queue) allocChecks(list []Check) (driver.Pointer, error) {
	d, c := q.device, &q.checks
	at, err := q.takeWords(uint64(len(list)))
	if err != nil {
		return 0, err
	}
	for i := range list {
		s := &c.ring[c.next%checkWords]
		if s.isDirty {
			if err := d.table.Fill(at+driver.Pointer(i*wordBytes), 0xff, wordBytes, q.stream); err != nil {
				return 0, err
			}
		}
		*s = sentCheck{Check: list[i], call: q.submitted}
		c.next++
	}
	return at, nil
}

// sendChecks queues a copy of the words of a sequence that has just been launched to words
// of the queue. before is the number of the work before the launch.
func (q *Queue) sendChecks(s *sequence, before uint64) error {
	for from := 0; from < len(s.checks); {
		list := s.checks[from:min(from+checkWords/2, len(s.checks))] // and as many words may stay unused
		at, err := q.takeWords(uint64(len(list)))
		if err != nil {
			return err
		}
		words := s.words.pointer + driver.Pointer(from*wordBytes)
		if err := q.device.table.Copy(at, words, int64(len(list)*wordBytes), q.stream); err != nil {
			return err
		}
		c := &q.checks
		for i := range list {
			c.ring[c.next%checkWords] = sentCheck{Check: list[i].Check, call: before + 1 + uint64(list[i].launch)}
			c.next++
		}
		q.note("checks of a sequence")
		from += len(list)
	}
	return nil
}

// takeWords returns the address of the next n words of the ring, which are contiguous. It
// waits if the ring is full.
func (q *Queue) takeWords(n uint64) (driver.Pointer, error) {
	c := &q.checks
	if c.words == nil {
		if err := q.prepareChecks(); err != nil {
			return 0, err
		}
	}
	unused := uint64(0)
	if left := checkWords - c.next%checkWords; left < n {
		unused = left // a call's words are contiguous
	}
	if c.next+unused+n-c.first > checkWords {
		if err := q.syncChecks(); err != nil {
			return 0, err
		}
	}
	c.next += unused
	return c.words.pointer + driver.Pointer(c.next%checkWords*wordBytes), nil
}

func (q *Queue) prepareChecks() error {
	d, c := q.device, &q.checks
	words, err := d.takeBlock(checkWords * wordBytes)
	if err != nil {
		return err
	}
	if err = q.orderAfter(words, true); err == nil {
		err = d.table.Fill(words.pointer, 0xff, checkWords*wordBytes, q.stream)
	}
	var watch driver.Event
	if err == nil {
		q.note("words of checks")
		watch, err = d.takeEvent()
	}
	if err == nil {
		if c.mirror, err = d.table.AllocHost(checkWords * wordBytes); err != nil {
			d.putEvent(watch)
		}
	}
	if err != nil {
		d.memory.put(words)
		return err
	}
	c.watch = watch
	c.words, c.ring = words, make([]sentCheck, checkWords)
	return nil
}

// copyChecks queues a copy of the new words to the host; mu is held and the context is
// current.
func (q *Queue) copyChecks() error {
	c := &q.checks
	if c.copied == c.next {
		return nil
	}
	for from := c.copied; from < c.next; {
		at := from % checkWords
		n := min(c.next-from, checkWords-at)
		part := c.mirror[at*wordBytes:][:n*wordBytes]
		if err := q.device.table.CopyOut(part, c.words.pointer+driver.Pointer(at*wordBytes), q.stream); err != nil {
			return err
		}
		from += n
	}
	c.copied = c.next
	q.note("copy of checks")
	q.mark(c.words, true)
	return nil
}

// followChecks reads the words of calls that have been submitted: at once if the queue
// waits after each call, otherwise now and then.
func (q *Queue) followChecks() error {
	switch {
	case !q.checks.hasPending():
		return nil
	case q.isSync:
		return q.syncChecks()
	}
	return q.pollChecks()
}

// pollChecks checks every watchCalls calls, without waiting, whether a copy has arrived,
// so that refused calls are reported even if nobody waits. mu is held and the context is
// current.
func (q *Queue) pollChecks() error {
	c, d := &q.checks, q.device
	if c.calls++; c.calls < watchCalls {
		return nil
	}
	c.calls = 0
	if c.isWatching {
		isDone, err := d.table.EventDone(c.watch)
		if err != nil || !isDone {
			return err
		}
		c.isWatching = false
		q.complete(c.watchSequence)
		c.read(c.watchEnd)
	}
	if !c.hasPending() {
		return nil
	}
	if err := q.copyChecks(); err != nil {
		return err
	}
	if err := d.table.Record(c.watch, q.stream); err != nil {
		return err
	}
	c.isWatching, c.watchEnd, c.watchSequence = true, c.next, q.submitted
	return nil
}

// syncChecks waits for the queue's work and reads all words.
func (q *Queue) syncChecks() error {
	if err := q.copyChecks(); err != nil {
		return err
	}
	if err := q.device.table.SyncStream(q.stream); err != nil {
		return err
	}
	q.completed = q.submitted
	q.checks.read(q.checks.next)
	return nil
}

// read reads the words before end, which have been copied to the mirror, and collects
// refusals.
func (c *checks) read(end uint64) {
	reported := uint64(0)
	for ; c.first < end; c.first++ {
		s := &c.ring[c.first%checkWords]
		if s.By != nil {
			word := binary.LittleEndian.Uint64(c.mirror[c.first%checkWords*wordBytes:])
			if s.isDirty = word != passed; s.isDirty && reported != s.call {
				c.refused = join(c.refused, s.By.Refusal(word, s.Facts))
				reported = s.call
			}
		}
		s.Check = Check{}
	}
}

func join(first, next error) error {
	if first == nil {
		return next
	}
	return errors.Join(first, next)
}

// takeError returns the refusals found so far, and clears them.
func (c *checks) takeError() error {
	err := c.refused
	c.refused = nil
	return err
}

// free releases the memory of a closed queue.
func (c *checks) free(d *Device) error {
	if c.words == nil {
		return nil
	}
	d.memory.put(c.words)
	d.putEvent(c.watch)
	err := d.table.FreeHost(c.mirror)
	*c = checks{refused: c.refused}
	return err
}
