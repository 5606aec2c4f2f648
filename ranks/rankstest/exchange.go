// Package rankstest provides tests of groups of ranks, whatever moves their bytes.
package rankstest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"unsafe"

	"tokitai/ranks"
)

// Receivers of what goes to all ranks.
const (
	everyone = 99
	audience = 98
	equals   = 97 // who send as many bytes
)

// Exchange makes calls of every kind, and returns an error if other bytes arrive than were sent. Messages have up to so many bytes, and
// some have none.
func Exchange(g ranks.Group, rounds, longest int) error {
	for round := range rounds {
		if err := exchange(g, round, longest); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return g.Barrier()
}

func exchange(g ranks.Group, round, longest int) error {
	size, own := g.Size(), g.Rank()
	random := func(from, to int) *rand.Rand { return rand.New(rand.NewPCG(uint64(round), uint64(from<<8|to))) }
	fill := func(from, to, n int) []byte {
		data, source := make([]byte, n), random(from, to)
		for i := range data {
			data[i] = byte(source.Uint32())
		}
		return data
	}
	message := func(from, to int) []byte {
		lengths := random(to, from)
		return fill(from, to, lengths.IntN(3)*lengths.IntN(1+longest/2))
	}
	send, receive, whole, even := make([][]byte, size), make([][]byte, size), make([][]byte, size), make([][]byte, size)
	for r := range size {
		send[r], receive[r] = message(own, r), make([]byte, len(message(r, own)))
		whole[r], even[r] = make([]byte, len(message(r, everyone))), make([]byte, longest)
	}
	root := round % size
	data := make([]byte, len(message(root, audience)))
	if own == root {
		copy(data, message(root, audience))
	}
	for _, call := range []func() error{
		func() error { return g.AllToAllV(send, receive) },
		func() error { return g.AllGather(message(own, everyone), whole) },
		func() error { return g.AllGather(fill(own, equals, longest), even) },
		func() error { return g.Broadcast(root, data) },
	} {
		if err := call(); err != nil {
			return err
		}
	}
	for r := range size {
		if !bytes.Equal(receive[r], message(r, own)) || !bytes.Equal(whole[r], message(r, everyone)) || !bytes.Equal(even[r], fill(r, equals, longest)) {
			return fmt.Errorf("rank %d has other bytes from rank %d than were sent", own, r)
		}
	}
	if !bytes.Equal(data, message(root, audience)) {
		return fmt.Errorf("rank %d has other bytes from rank %d, the root, than were sent", own, root)
	}
	return nil
}

// Memory returns what joins a group of threads of this process as one of its ranks.
func Memory(size int, o ranks.Options) func(rank int) (*ranks.Memory, error) {
	n := ranks.MemoryBytes(size, 100)
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&make([]uint64, n/8)[0])), n)
	return func(rank int) (*ranks.Memory, error) { return ranks.Join(memory, rank, size, o) }
}
