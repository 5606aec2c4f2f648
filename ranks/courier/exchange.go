package courier

import (
	"encoding/binary"
	"fmt"

	"tokitai/ranks"
)

// AllToAllV implements [ranks.Group].
func (g *Group) AllToAllV(send, receive [][]byte) error { return g.exchange(allToAll, send, receive) }

// AllGather implements [ranks.Group].
func (g *Group) AllGather(send []byte, receive [][]byte) error {
	return g.exchange(allGather, [][]byte{send}, receive)
}

// Barrier implements [ranks.Group]. There is nothing to move.
func (g *Group) Barrier() error { return g.AllGather(nil, make([][]byte, g.Size())) }

// Words of a head: what a rank says to all others before the bytes of a call are moved. The lengths of what it sends, for each rank or
// one for all, follow.
const (
	callWord  = iota // kind and number
	turnsWord        // in which its bytes are sent
	lengthWords
)

// head returns the head of the next call.
func (g *Group) head(kind, turns int, send [][]byte) []byte {
	g.calls++
	words := []uint64{uint64(kind)<<56 | g.calls, uint64(turns)}
	for r := range g.Size() {
		words = append(words, uint64(len(send[min(r, len(send)-1)])))
	}
	var head []byte
	for _, w := range words {
		head = binary.LittleEndian.AppendUint64(head, w)
	}
	return head
}

// word returns a word of a head.
func word(head []byte, at int) uint64 { return binary.LittleEndian.Uint64(head[8*at:]) }

// turnsOf returns in how many pieces of a size n bytes are moved.
func turnsOf(n, size int) int { return (n + size - 1) / size }

// piece returns the k-th piece of data that is cut into pieces of a size.
func piece(data []byte, k, size int) []byte {
	return data[min(k*size, len(data)):min((k+1)*size, len(data))]
}

// align is what parts of a window begin at multiples of.
const align = 64

// check returns an error unless a rank makes the same call, and sends as many bytes as are expected.
func (g *Group) check(from int, theirs, ours []byte, want int) error {
	problem := ""
	if got, own := word(theirs, callWord), word(ours, callWord); got != own {
		problem = fmt.Sprintf("makes call %d, %s, and rank %d call %d, %s", got<<8>>8, kinds[min(got>>56, closeRequest)], g.Rank(), own<<8>>8, kinds[own>>56])
	} else if got := word(theirs, lengthWords+g.Rank()); got != uint64(want) {
		problem = fmt.Sprintf("sends %d bytes where rank %d expects %d", got, g.Rank(), want)
	}
	if problem == "" {
		return nil
	}
	return g.broken(&ranks.PeerError{Rank: from, Problem: problem})
}

// broken makes the group one that cannot go on, and tells the others.
func (g *Group) broken(because *ranks.PeerError) error {
	g.failure = because
	g.control.Fail(because)
	return because
}

// fail makes the group one that cannot go on because of an error of control, which has told the others.
func (g *Group) fail(err error) error {
	g.failure = err
	return err
}

// exchange sends send, one piece of memory for each rank or one for all.
func (g *Group) exchange(kind int, send, receive [][]byte) error {
	if g.failure != nil {
		return g.failure
	}
	size := g.Size()
	room := len(g.send) / size &^ (align - 1)
	turns := 0
	for r, data := range send {
		if len(send) == 1 || r != g.Rank() { // what a rank sends itself is copied here
			turns = max(turns, turnsOf(len(data), room))
		}
	}
	head := g.head(kind, turns, send)
	heads := make([][]byte, size)
	for r := range heads {
		heads[r] = make([]byte, len(head))
	}
	if err := g.control.AllGather(head, heads); err != nil {
		return g.fail(err)
	}
	for r, theirs := range heads {
		if err := g.check(r, theirs, head, len(receive[r])); err != nil {
			return err
		}
		turns = max(turns, int(word(theirs, turnsWord)))
	}
	copy(receive[g.Rank()], send[min(g.Rank(), len(send)-1)])
	if size == 1 {
		return nil
	}
	for k := range turns {
		q := &request{Kind: kind, Room: room, Sent: make([]int, len(send)), Received: make([]int, size)}
		for r, data := range send {
			if len(send) == 1 || r != g.Rank() {
				q.Sent[r] = copy(g.send[r*room:], piece(data, k, room))
			}
		}
		for r, data := range receive {
			if len(send) == 1 || r != g.Rank() {
				q.Received[r] = len(piece(data, k, room))
			}
		}
		if _, err := g.do(q); err != nil {
			return err
		}
		for r, n := range q.Received {
			if r != g.Rank() {
				copy(piece(receive[r], k, room), g.receive[r*room:][:n])
			}
		}
	}
	return nil
}

// Broadcast implements [ranks.Group]. It waits for the head of root as long as root lives.
func (g *Group) Broadcast(root int, data []byte) error {
	if g.failure != nil {
		return g.failure
	}
	head := g.head(broadcast, turnsOf(len(data), len(g.send)), [][]byte{data})
	theirs := append([]byte(nil), head...)
	if err := g.control.Broadcast(root, theirs); err != nil {
		return g.fail(err)
	}
	if err := g.check(root, theirs, head, len(data)); err != nil {
		return err
	}
	if g.Size() == 1 {
		return nil
	}
	for k := range turnsOf(len(data), len(g.send)) {
		part := piece(data, k, len(g.send))
		if g.Rank() == root {
			copy(g.send, part)
		}
		if _, err := g.do(&request{Kind: broadcast, Root: root, Sent: []int{len(part)}}); err != nil {
			return err
		}
		copy(part, g.send)
	}
	return nil
}
