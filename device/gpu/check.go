package gpu

import (
	"encoding/binary"
	"errors"

	"tokitai/device/gpu/driver"
)

// Check is a word of eight bytes in the device's memory by which a call's kernels refuse
// the call: ones when the call begins, anything else once it is refused. What that means
// is By's to say.
type Check struct {
	By    Checker
	Facts [3]int64 // of this call, for By
}

// Checker makes an error of a word that is no longer ones.
type Checker interface {
	Refusal(word uint64, facts [3]int64) error
}

const (
	checkWords = 1024 // that the calls of a queue may have on their way
	watchCalls = 16   // after which the host asks, without waiting, what became of them
	wordBytes  = 8
	passed     = ^uint64(0)
)

// checks are the words of a queue's calls: a ring in the device's memory, which is copied
// to the host when somebody waits, and now and then. Words are counted from the queue's
// first on; a word's place in the ring is its number modulo checkWords.
type checks struct {
	words  *block // nil before the first call that is checked
	mirror []byte // the host's copy
	ring   []sentCheck

	first  uint64 // the oldest word whose value is not known to the host
	copied uint64 // up to here the words are on their way to the mirror
	next   uint64 // the next to be given

	watch         driver.Event // recorded after words that nobody may wait for
	isWatching    bool
	watchEnd      uint64 // up to which word
	watchSequence uint64
	calls         int // since it was last asked

	refused error // what was found and nobody has been told by Wait
}

// sentCheck is a check on its way.
type sentCheck struct {
	Check
	call  uint64 // counts the calls: of those refused by several checks, the first speaks
	isSet bool   // the word has a value of an earlier call
}

// isUnknown reports whether there are words that the host does not know.
func (c *checks) isUnknown() bool { return c.first < c.next }

// give hands out words for a call, which are ones in the order of the queue, and returns
// their address. It waits when there are too many on their way. mu is held and the
// context is current.
func (q *Queue) give(list []Check) (driver.Pointer, error) {
	d, c := q.device, &q.checks
	if c.words == nil {
		if err := q.prepareChecks(); err != nil {
			return 0, err
		}
	}
	n, unused := uint64(len(list)), uint64(0)
	if left := checkWords - c.next%checkWords; left < n {
		unused = left // a call's words are neighbours
	}
	if c.next+unused+n-c.first > checkWords {
		if err := q.learn(); err != nil {
			return 0, err
		}
	}
	c.next += unused
	at := c.words.pointer + driver.Pointer(c.next%checkWords*wordBytes)
	for i := range list {
		s := &c.ring[c.next%checkWords]
		if s.isSet {
			if err := d.table.Fill(at+driver.Pointer(i*wordBytes), 0xff, wordBytes, q.stream); err != nil {
				return 0, err
			}
		}
		*s = sentCheck{Check: list[i], call: q.submitted}
		c.next++
	}
	return at, nil
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

// sendChecks has the words that are not known copied to the host, at the present end of
// the queue; mu is held and the context is current.
func (q *Queue) sendChecks() error {
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

// look asks now and then whether words have arrived, so that calls of a queue that nobody
// waits for are told; mu is held and the context is current.
func (q *Queue) look() error {
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
	if !c.isUnknown() {
		return nil
	}
	if err := q.sendChecks(); err != nil {
		return err
	}
	if err := d.table.Record(c.watch, q.stream); err != nil {
		return err
	}
	c.isWatching, c.watchEnd, c.watchSequence = true, c.next, q.submitted
	return nil
}

// learn waits for all checks.
func (q *Queue) learn() error {
	if err := q.sendChecks(); err != nil {
		return err
	}
	if err := q.device.table.SyncStream(q.stream); err != nil {
		return err
	}
	q.completed = q.submitted
	q.checks.read(q.checks.next)
	return nil
}

// read takes notice of the words up to a number, which have been copied.
func (c *checks) read(end uint64) {
	told := uint64(0)
	for ; c.first < end; c.first++ {
		s := &c.ring[c.first%checkWords]
		if s.By != nil {
			word := binary.LittleEndian.Uint64(c.mirror[c.first%checkWords*wordBytes:])
			if s.isSet = word != passed; s.isSet && told != s.call {
				c.refused = join(c.refused, s.By.Refusal(word, s.Facts))
				told = s.call
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

// take returns what calls were refused for, once.
func (c *checks) take() error {
	err := c.refused
	c.refused = nil
	return err
}

// free gives the memory back, when the queue has ended.
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
