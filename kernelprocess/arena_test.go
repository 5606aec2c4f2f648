package kernelprocess

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tokitai/device"
)

// TestArenas takes and gives back at random: extents never share a byte, are zeros where
// that was asked for, and leave nothing behind.
func TestArenas(t *testing.T) {
	if !hasSharedMemory() {
		t.Skip("no shared memory here")
	}
	var dropped []uint32
	m := &memory{device: "test", limit: math.MaxInt64, drop: func(id uint32) { dropped = append(dropped, id) }}
	g := rand.New(rand.NewPCG(1, 2))
	type taken struct {
		extent
		bytes int64
		mark  byte
	}
	var live []taken
	for i := range 5000 {
		if len(live) > 0 && g.IntN(100) < 50 {
			k := g.IntN(len(live))
			for _, b := range live[k].slice(live[k].bytes) {
				if b != live[k].mark {
					t.Fatalf("step %d: an extent has another's bytes", i)
				}
			}
			m.giveBack(live[k].extent)
			live = slices.Delete(live, k, k+1)
			continue
		}
		bytes := int64(1 + g.IntN(10000))
		if g.IntN(500) == 0 {
			bytes = 3 << 20
		}
		wantsZeros := g.IntN(2) == 0
		e, err := m.take(bytes, wantsZeros)
		if err != nil {
			t.Fatal(err)
		}
		if e.offset%alignment != 0 {
			t.Fatalf("offset %d, want a multiple of %d", e.offset, alignment)
		}
		memory := e.slice(bytes)
		if wantsZeros && slices.ContainsFunc(memory, func(b byte) bool { return b != 0 }) {
			t.Fatalf("step %d: not all zeros", i)
		}
		x := taken{e, bytes, byte(1 + g.IntN(255))}
		for k := range memory {
			memory[k] = x.mark
		}
		live = append(live, x)
	}
	for _, x := range live {
		m.giveBack(x.extent)
	}
	arenas, used := m.usage()
	if arenas == 0 || arenas > keptBytes || used != arenas {
		t.Errorf("%d bytes are kept of %d, want some, and at most %d", arenas, used, keptBytes)
	}
	for _, a := range m.arenas {
		if a.users != 0 || len(a.free) != 1 || a.free[0].bytes != int64(len(a.bytes)) {
			t.Errorf("arena %d: got %d users and %v free, want one part", a.id, a.users, a.free)
		}
	}
	count := len(m.arenas)
	m.close()
	if arenas, used := m.usage(); arenas != 0 || used != 0 || len(dropped) < count {
		t.Errorf("got %d bytes and %d arenas dropped, want none and %d", used, len(dropped), count)
	}
	if _, err := m.take(1, false); !errors.Is(err, device.ErrClosed) {
		t.Errorf("got %v, want %v", err, device.ErrClosed)
	}
}

// Unused arenas beyond those that are kept are given back, and the process is told.
func TestArenasGivenBack(t *testing.T) {
	if !hasSharedMemory() {
		t.Skip("no shared memory here")
	}
	var dropped []uint32
	m := &memory{device: "test", limit: 200 << 20, drop: func(id uint32) { dropped = append(dropped, id) }}
	first, err := m.take(100<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	m.giveBack(first)
	second, err := m.take(150<<20, true) // needs the room of the first
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(dropped, []uint32{first.arena.id}) {
		t.Errorf("dropped %v, want %d", dropped, first.arena.id)
	}
	if err := m.reserve(100 << 20); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("got %v, want out of memory", err)
	}
	m.giveBack(second)
	if err := m.reserve(100 << 20); err != nil {
		t.Error(err)
	}
	m.close()
}
