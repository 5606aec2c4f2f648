package ranks

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Memory is a group over memory that all ranks have mapped. Each rank has a head, which the others
// read, and a window, through which its bytes go.
//
// An exchange goes in turns. In a turn a rank fills its window once all have taken what was in it before, publishes
// the number of the turn, and takes from the windows of the others once they have published theirs.
type Memory struct {
	rank    int
	options Options
	heads   []head
	windows [][]byte
	turn    uint64
	calls   uint64

	seen   []sign // of life, of each rank
	fates  []string
	mu     sync.Mutex // of fates
	ending chan struct{}
	ended  sync.WaitGroup
	once   sync.Once
}

// Options are limits of a group. A limit that is 0 is that of [DefaultOptions].
type Options struct {
	Silence time.Duration // without a sign of life from another process
	Limit   time.Duration // for which a rank that lives may keep others waiting
}

// DefaultOptions are for ranks that share a machine with other work.
var DefaultOptions = Options{Silence: 30 * time.Second, Limit: 10 * time.Minute}

func (o *Options) setDefaults() {
	o.Silence, o.Limit = cmp.Or(o.Silence, DefaultOptions.Silence), cmp.Or(o.Limit, DefaultOptions.Limit)
}

// sign is the last change of a rank's beat, and when it was seen.
type sign struct {
	beat uint64
	at   time.Time
}

// beatEvery is how often a rank shows that its process runs.
const beatEvery = 100 * time.Millisecond

// Words of a head, in front of the lengths of the bytes for each rank.
const (
	beatWord  = iota // changes while the process runs
	stateWord        // away, here, left or lost, and why it left
	turnWord         // that is published
	takenWord        // the last turn in which all was taken from the windows of others
	callWord         // kind and number of the call
	turnsWord        // that the call needs for the bytes of this rank
	lengthWords
)

// States of a rank. One that left because of rank r has the state left + leftFor*(r+1).
const (
	away = iota
	here
	left
	lost
	leftFor = 8
)

// Kinds of calls.
const (
	allToAll = iota + 1
	allGather
	broadcast
)

var kinds = [...]string{allToAll: "AllToAllV", allGather: "AllGather", broadcast: "Broadcast"}

// head is the words of a rank that the others read.
type head []uint64

func (h head) load(word int) uint64     { return atomic.LoadUint64(&h[word]) }
func (h head) store(word int, v uint64) { atomic.StoreUint64(&h[word], v) }

// line is the size to which heads and windows are rounded, so that ranks do not write to the same line of a cache.
const line = 128

func headBytes(size int) int { return (8*(lengthWords+size) + line - 1) / line * line }

// MemoryBytes returns the size of the memory of a group whose ranks have windows of at least so many bytes.
func MemoryBytes(size, window int) int {
	return size * (headBytes(size) + (window+size*8+line-1)/line*line)
}

// Join joins a group of size ranks over memory, which is zero before the first joins, and which all
// of them have in the same length, aligned to 8 bytes. Every rank joins once.
func Join(memory []byte, rank, size int, o Options) (*Memory, error) {
	if size < 1 || rank < 0 || rank >= size {
		return nil, fmt.Errorf("rank %d of %d, want one from 0 on and below their number", rank, size)
	}
	heads := headBytes(size)
	window := (len(memory)/size - heads) / line * line
	if window < 8*size || uintptr(unsafe.Pointer(&memory[0]))%8 != 0 {
		return nil, fmt.Errorf("%d bytes of memory for %d ranks, want at least %d, aligned to 8", len(memory), size, MemoryBytes(size, 0))
	}
	o.setDefaults()
	g := &Memory{rank: rank, options: o, fates: make([]string, size), ending: make(chan struct{})}
	for r := range size {
		words := unsafe.Slice((*uint64)(unsafe.Pointer(&memory[r*heads])), heads/8)
		g.heads = append(g.heads, words)
		g.windows = append(g.windows, memory[size*heads+r*window:][:window:window])
		g.seen = append(g.seen, sign{at: time.Now()})
	}
	if g.own().load(stateWord) != away {
		return nil, fmt.Errorf("rank %d has joined before", rank)
	}
	g.own().store(stateWord, here)
	g.ended.Go(g.beat)
	return g, nil
}

func (g *Memory) own() head { return g.heads[g.rank] }

// Rank returns the number of this rank.
func (g *Memory) Rank() int { return g.rank }

// Size returns the number of ranks.
func (g *Memory) Size() int { return len(g.heads) }

// beat shows that this process runs, until the group is closed.
func (g *Memory) beat() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			atomic.AddUint64(&g.own()[beatWord], 1)
		case <-g.ending:
			return
		}
	}
}

// Lose tells all ranks that one has ended, with what is known of it: whoever has started the ranks
// sees it first.
func (g *Memory) Lose(rank int, problem string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fates[rank] == "" {
		g.fates[rank] = problem
	}
	g.heads[rank].store(stateWord, lost)
}

// Close leaves the group. The memory may be unmapped afterwards.
func (g *Memory) Close() error {
	g.once.Do(func() {
		close(g.ending)
		g.ended.Wait()
		if g.own().load(stateWord) == here {
			g.own().store(stateWord, left)
		}
	})
	return nil
}

// AllToAllV implements [Group]. Each rank's window has a piece for each other rank.
func (g *Memory) AllToAllV(send, receive [][]byte) error {
	return g.exchange(allToAll, send, receive, g.options.Limit)
}

// AllGather implements [Group].
func (g *Memory) AllGather(send []byte, receive [][]byte) error {
	return g.exchange(allGather, [][]byte{send}, receive, g.options.Limit)
}

// Broadcast implements [Group].
func (g *Memory) Broadcast(root int, data []byte) error {
	send, receive := [][]byte{nil}, make([][]byte, g.Size())
	if receive[root] = data; g.rank == root {
		send[0] = data
	}
	return g.exchange(broadcast, send, receive, 0)
}

// Barrier implements [Group].
func (g *Memory) Barrier() error { return g.AllGather(nil, make([][]byte, g.Size())) }

// Watch implements [Watched].
func (g *Memory) Watch() error {
	var others []int // that have not left
	for r := range g.heads {
		if g.heads[r].load(stateWord) != left {
			others = append(others, r)
		}
	}
	return g.look(others, turnWord, 0, time.Now())
}

// Fail implements [Watched].
func (g *Memory) Fail(because *PeerError) { g.leave(because) }

// piece returns the k-th piece of data that is cut into pieces of a size.
func piece(data []byte, k, size int) []byte {
	return data[min(k*size, len(data)):min((k+1)*size, len(data))]
}

// exchange sends the pieces of send, one for each rank or one for all, in as many turns as the longest of any rank
// needs.
func (g *Memory) exchange(kind uint64, send, receive [][]byte, limit time.Duration) error {
	g.calls++
	own, call := g.own(), kind<<56|g.calls
	room := len(g.windows[0]) / len(send) &^ 7
	turns := 1
	for _, data := range send {
		turns = max(turns, (len(data)+room-1)/room)
	}
	for k := 0; k < turns; k++ {
		if err := g.await(takenWord, g.turn, limit, nil); err != nil {
			return err
		}
		for i, data := range send {
			copy(g.windows[g.rank][i*room:], piece(data, k, room))
		}
		g.turn++
		if k == 0 {
			own.store(callWord, call)
			own.store(turnsWord, uint64(turns))
			for i, data := range send {
				own.store(lengthWords+i, uint64(len(data)))
			}
		}
		own.store(turnWord, g.turn)
		at := 0
		if len(send) > 1 {
			at = g.rank
		}
		err := g.await(turnWord, g.turn, limit, func(from int) error {
			theirs := g.heads[from]
			if k == 0 {
				if err := g.check(theirs, from, call, at, len(receive[from])); err != nil {
					return err
				}
				turns = max(turns, int(theirs.load(turnsWord)))
			}
			copy(piece(receive[from], k, room), g.windows[from][at*room:][:room])
			return nil
		})
		if err != nil {
			return err
		}
		own.store(takenWord, g.turn)
	}
	return nil
}

// check returns an error unless a rank makes the same call, and sends as many bytes as are expected.
func (g *Memory) check(theirs head, from int, call uint64, at, want int) error {
	if got := theirs.load(callWord); got != call {
		return &PeerError{from, otherCall(got, call)}
	}
	if got := theirs.load(lengthWords + at); got != uint64(want) {
		return &PeerError{from, otherLength(got, want)}
	}
	return nil
}

// otherCall says that a rank makes another call than this one, otherLength that it sends another number of bytes than are expected.
func otherCall(theirs, ours uint64) string {
	name := func(call uint64) string {
		kind := "an unknown call"
		if k := call >> 56; k < uint64(len(kinds)) {
			kind = kinds[k]
		}
		return fmt.Sprintf("call %d, %s", call<<8>>8, kind)
	}
	return fmt.Sprintf("makes %s, and another rank %s", name(theirs), name(ours))
}

func otherLength(theirs uint64, want int) string {
	return fmt.Sprintf("sends %d bytes where %d are expected", theirs, want)
}

// await waits until a word of every rank has reached a value, and calls use, if it is not nil, with each rank as soon as its
// word has. Without a limit it waits as long as all ranks live.
func (g *Memory) await(word int, value uint64, limit time.Duration, use func(rank int) error) error {
	waiting := make([]int, 0, g.Size())
	for i := range g.Size() { // not all begin with the same one
		waiting = append(waiting, (g.rank+i)%g.Size())
	}
	began := time.Time{}
	for polls := 0; ; polls++ {
		rest := waiting[:0]
		for _, r := range waiting {
			if g.heads[r].load(word) < value {
				rest = append(rest, r)
				continue
			}
			if use == nil {
				continue
			}
			if err := use(r); err != nil {
				return g.leave(err)
			}
		}
		if waiting = rest; len(waiting) == 0 {
			return nil
		}
		if polls < 64 {
			runtime.Gosched()
			continue
		}
		now := time.Now()
		if began.IsZero() {
			began = now
		}
		if err := g.look(waiting, word, value, now); err != nil {
			return g.leave(err)
		}
		if limit > 0 && now.Sub(began) > limit {
			return g.leave(&PeerError{waiting[0], fmt.Sprintf("has kept rank %d waiting for %v", g.rank, limit)})
		}
		time.Sleep(min(time.Duration(polls)*time.Microsecond/2, time.Millisecond))
	}
}

// look returns an error if a rank is gone, or silent, and this rank waits for it.
func (g *Memory) look(waiting []int, word int, value uint64, now time.Time) error {
	for r := range g.heads {
		beat, state := g.heads[r].load(beatWord), g.heads[r].load(stateWord)
		if s := &g.seen[r]; beat != s.beat {
			*s = sign{beat, now}
		}
		switch {
		case state == lost:
			return &PeerError{r, cmp.Or(g.fate(r), "has ended")}
		case state == left && g.heads[r].load(word) < value:
			return &PeerError{r, "has left"}
		case state > leftFor:
			cause := int(state/leftFor) - 1
			return &PeerError{cause, cmp.Or(g.fate(cause), fmt.Sprintf("has failed, as rank %d says", r))}
		}
	}
	for _, r := range waiting {
		if silent := now.Sub(g.seen[r].at); r != g.rank && silent > g.options.Silence {
			return &PeerError{r, fmt.Sprintf("has not shown a sign of life for %v", silent.Round(time.Second))}
		}
	}
	return nil
}

// fate returns what is known of the end of a rank; "" for nothing.
func (g *Memory) fate(rank int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fates[rank]
}

// leave tells the others why this rank does not go on.
func (g *Memory) leave(err error) error {
	if e, isPeer := err.(*PeerError); isPeer {
		g.own().store(stateWord, uint64(left+leftFor*(e.Rank+1)))
	}
	return err
}
