package child

import (
	"io"
	"net"
	"sync"
)

const (
	// maxUnsent is how many bytes of unsent replies make the executor wait. One more reply of
	// any length may be added.
	maxUnsent = 1 << 20

	// maxCopied is the longest reply that is copied after the previous one.
	maxCopied = 64 << 10

	// maxDirect is the longest reply that is sent without the writing goroutine.
	maxDirect = 16 << 10
)

// writer keeps replies until they are sent.
type writer struct {
	to     io.Writer
	memory *account

	mu        sync.Mutex
	changed   sync.Cond // on mu
	full      net.Buffers
	tail      []byte // after the full ones; grows
	direct    []byte // belongs to add
	unsent    int    // bytes in them
	reserved  int64  // of the account, for them
	isSending bool
	isStopped bool
}

func (w *writer) init(to io.Writer, memory *account) {
	w.to, w.memory = to, memory
	w.changed.L = &w.mu
}

// add queues a reply: its beginning, which is copied, and its data, for which the given number
// of bytes of the account is held. It waits while the client does not read. A short reply
// with nothing after it is sent at once, without the writing goroutine, which finds any error
// later.
func (w *writer) add(start, data []byte, reserved int64, isLast bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.unsent > maxUnsent && !w.isStopped {
		w.changed.Wait()
	}
	if isLast && w.unsent == 0 && !w.isSending && !w.isStopped && len(start)+len(data) <= maxDirect {
		w.isSending = true
		w.mu.Unlock()
		w.direct = append(append(w.direct[:0], start...), data...)
		n, _ := w.to.Write(w.direct)
		w.memory.giveBack(forReply, reserved)
		w.mu.Lock()
		w.isSending = false
		w.tail = append(w.tail, w.direct[n:]...) // nothing, unless it failed
		w.unsent += len(w.direct) - n
		w.changed.Broadcast()
		return
	}
	if w.isStopped {
		w.memory.giveBack(forReply, reserved)
		return
	}
	w.tail = append(w.tail, start...)
	if len(data) <= maxCopied {
		w.tail = append(w.tail, data...)
	} else {
		w.full = append(w.full, w.tail, data)
		w.tail = nil
	}
	w.unsent += len(start) + len(data)
	w.reserved += reserved
	w.changed.Broadcast()
}

// flush waits until all replies are sent or the server has ended.
func (w *writer) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for (w.unsent > 0 || w.isSending) && !w.isStopped {
		w.changed.Wait()
	}
}

func (w *writer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isStopped = true
	w.changed.Broadcast()
}

// next waits for replies and takes them all.
func (w *writer) next(empty []byte) (full net.Buffers, tail []byte, reserved int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for (w.unsent == 0 || w.isSending) && !w.isStopped {
		w.changed.Wait()
	}
	full, tail, reserved = w.full, w.tail, w.reserved
	w.full, w.tail, w.unsent, w.reserved = nil, empty, 0, 0
	w.isSending = !w.isStopped
	w.changed.Broadcast()
	return full, tail, reserved, !w.isStopped
}

func (w *writer) sent(reserved int64) {
	w.memory.giveBack(forReply, reserved)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isSending = false
	w.changed.Broadcast()
}

// write sends replies until the server ends.
func (s *server) write() {
	w := &s.replies
	var empty []byte
	for {
		full, tail, reserved, ok := w.next(empty)
		if !ok {
			w.memory.giveBack(forReply, reserved)
			return
		}
		err := w.send(full, tail)
		w.sent(reserved)
		if err != nil {
			// Of a socket the reader tells how it ended.
			if s.socket == nil {
				s.finish(ExitTruncated, err)
			}
			w.stop()
			return
		}
		if empty = tail[:0]; cap(empty) > maxUnsent {
			empty = nil
		}
	}
}

func (w *writer) send(full net.Buffers, tail []byte) error {
	if len(full) == 0 {
		_, err := w.to.Write(tail)
		return err
	}
	full = append(full, tail)
	if socket, ok := w.to.(socketWriter); ok {
		return socket.writeBuffers(full)
	}
	_, err := full.WriteTo(w.to)
	return err
}
