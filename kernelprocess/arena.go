package kernelprocess

import (
	"math"
	"slices"
	"sync"

	"tokitai/device"
	"tokitai/kernelprocess/shm"
)

const (
	// alignment of extents, in bytes: a cache line, and an AVX-512 register.
	alignment = 64

	minArenaBytes = 1 << 20
	maxArenaBytes = 64 << 20

	// keptBytes is how much free memory is kept for later requests.
	keptBytes = 256 << 20
)

// memory allocates the shared memory of a device: extents of arenas. It also accounts for the
// memory in the process.
type memory struct {
	device string
	limit  int64
	drop   func(arena uint32) // tells the process that an arena is gone

	mu       sync.Mutex
	arenas   []*arena
	lastID   uint32
	used     int64 // by arenas and handles
	isClosed bool
}

// arena is one region of shared memory.
type arena struct {
	id     uint32
	region *shm.Region
	bytes  []byte
	free   []span // by offset, never touching each other
	fresh  int64  // from here on nothing has ever been written
	users  int    // extents, and announcements under way
}

// span is a part of an arena.
type span struct{ offset, bytes int64 }

// extent is an allocated span.
type extent struct {
	arena *arena
	span
}

func (e extent) isNone() bool { return e.arena == nil }

// slice returns the first bytes of the extent.
func (e extent) slice(bytes int64) []byte { return e.arena.bytes[e.offset:][:bytes:bytes] }

// take allocates an extent, and adds an arena if necessary. Its content is zero if zeros are
// asked for, and otherwise whatever an earlier user left.
func (m *memory) take(bytes int64, wantsZeros bool) (extent, error) {
	if bytes > math.MaxInt64-maxArenaBytes {
		return extent{}, m.exhausted(bytes)
	}
	e, used, err := m.cut((bytes + alignment - 1) / alignment * alignment)
	if err == nil && wantsZeros && used > 0 {
		clear(e.slice(used))
	}
	return e, err
}

// cut allocates an extent, and returns how many of its bytes were allocated before.
func (m *memory) cut(bytes int64) (e extent, used int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosed {
		return extent{}, 0, device.ErrClosed
	}
	e, ok := m.find(bytes)
	if !ok {
		a, err := m.grow(bytes)
		if err != nil {
			return extent{}, 0, err
		}
		e = a.cut(0, bytes)
	}
	used = min(e.offset+bytes, e.arena.fresh) - e.offset
	e.arena.fresh = max(e.arena.fresh, e.offset+bytes)
	return e, used, nil
}

func (m *memory) find(bytes int64) (extent, bool) {
	for _, a := range m.arenas {
		for i := range a.free {
			if a.free[i].bytes >= bytes {
				return a.cut(i, bytes), true
			}
		}
	}
	return extent{}, false
}

// cut takes the beginning of a free span of the arena.
func (a *arena) cut(i int, bytes int64) extent {
	s := &a.free[i]
	e := extent{a, span{s.offset, bytes}}
	s.offset += bytes
	s.bytes -= bytes
	if s.bytes == 0 {
		a.free = slices.Delete(a.free, i, i+1)
	}
	a.users++
	return e
}

// grow adds an arena. It doubles the total, within bounds, so that much memory needs few
// arenas.
func (m *memory) grow(bytes int64) (*arena, error) {
	var total int64
	for _, a := range m.arenas {
		total += int64(len(a.bytes))
	}
	size := max(bytes, min(max(total, minArenaBytes), maxArenaBytes))
	if size > m.limit-m.used {
		m.shrink(0)
	}
	if size = max(bytes, min(size, m.limit-m.used)); size > m.limit-m.used {
		return nil, m.exhaustedLocked(bytes)
	}
	region, err := shm.Create(size)
	if err != nil {
		return nil, err
	}
	memory := region.Bytes()
	m.lastID++
	a := &arena{id: m.lastID, region: region, bytes: memory, free: []span{{0, int64(len(memory))}}}
	m.used += int64(len(memory))
	m.arenas = append(m.arenas, a)
	return a, nil
}

// giveBack frees an extent.
func (m *memory) giveBack(e extent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := e.arena
	i, _ := slices.BinarySearchFunc(a.free, e.offset, func(s span, offset int64) int { return int(s.offset - offset) })
	a.free = slices.Insert(a.free, i, e.span)
	if i+1 < len(a.free) && e.offset+e.bytes == a.free[i+1].offset {
		a.free[i].bytes += a.free[i+1].bytes
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].offset+a.free[i-1].bytes == e.offset {
		a.free[i-1].bytes += a.free[i].bytes
		a.free = slices.Delete(a.free, i, i+1)
	}
	m.leave(a)
}

// hold keeps an arena that has extents from being released.
func (m *memory) hold(a *arena) {
	m.mu.Lock()
	a.users++
	m.mu.Unlock()
}

func (m *memory) letGo(a *arena) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave(a)
}

func (m *memory) leave(a *arena) {
	a.users--
	switch {
	case a.users > 0:
	case m.isClosed:
		m.shrink(0)
	default:
		m.shrink(keptBytes)
	}
}

// shrink releases free arenas until they hold at most kept bytes.
func (m *memory) shrink(kept int64) {
	m.arenas = slices.DeleteFunc(m.arenas, func(a *arena) bool {
		size := int64(len(a.bytes))
		if a.users > 0 {
			return false
		}
		if size <= kept {
			kept -= size
			return false
		}
		m.used -= size
		a.region.Close()
		m.drop(a.id)
		return true
	})
}

// close releases free arenas. The others are released when their extents are: they may still
// be in use.
func (m *memory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isClosed = true
	m.shrink(0)
}

// reserve accounts for memory in the process.
func (m *memory) reserve(bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes > m.limit-m.used {
		m.shrink(0)
	}
	if bytes > m.limit-m.used {
		return m.exhaustedLocked(bytes)
	}
	m.used += bytes
	return nil
}

func (m *memory) unreserve(bytes int64) {
	m.mu.Lock()
	m.used -= bytes
	m.mu.Unlock()
}

func (m *memory) exhausted(bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.exhaustedLocked(bytes)
}

func (m *memory) exhaustedLocked(bytes int64) error {
	return &device.OutOfMemoryError{Device: m.device, Asked: bytes, Free: m.limit - m.used}
}

// usage returns the bytes of arenas, and of all memory.
func (m *memory) usage() (arenas, all int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.arenas {
		arenas += int64(len(a.bytes))
	}
	return arenas, m.used
}
