package wave

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"tokitai/amdgpu/valu"
)

// Launch is what the work groups of one launch share. Groups of a launch may run at the
// same time on several goroutines.
type Launch struct {
	Code        *Code
	CodeAddress uint64 // of the instruction at offset 0
	Memory      Memory
	Budget      *Budget // nil: no limit

	Threads   int // work items of a group
	Registers int // VGPRs of a wave; those that the code names are always there
	LDS       int // bytes of a group
	Private   int // bytes of a lane
	Mode      Mode

	// Seed determines the order in which waves run, what registers and LDS hold at the start,
	// and results that AMD documents only within an error. With 0, waves run in ascending
	// order and results are rounded correctly.
	Seed uint64

	atomics sync.Mutex // held by atomic instructions on global memory
}

// Budget limits the number of instructions that the waves of a launch execute.
type Budget struct {
	limit int64
	left  atomic.Int64
}

// NewBudget returns a budget of limit instructions.
func NewBudget(limit int64) *Budget {
	b := &Budget{limit: limit}
	b.left.Store(limit)
	return b
}

// Used returns the number of instructions that were executed. It is exact while no group runs.
func (b *Budget) Used() int64 { return b.limit - b.left.Load() }

// take takes up to n instructions.
func (b *Budget) take(n int64) int64 {
	left := b.left.Add(-n)
	if left >= 0 {
		return n
	}
	back := min(n, -left)
	b.left.Add(back)
	return n - back
}

// Group is a work group: its waves, and the memory that they share. It runs one work group
// after the other: Reset, then the initial registers, then Run.
type Group struct {
	ID    [3]uint32
	LDS   []byte
	Waves []*Wave

	launch  *Launch
	order   *rand.Rand
	initial Register
	junk    []byte
	isReset bool // and has not run
}

// quantum is the most instructions that a wave executes before the next one has its turn.
// It lets a wave wait for another in a loop.
const quantum = 1 << 14

// NewGroup returns a group that runs work groups of the launch, after Reset. It takes the memory
// of a group that was released, by this launch or by an earlier one.
func (l *Launch) NewGroup() (*Group, error) {
	if l.Code == nil || l.Memory == nil {
		return nil, fmt.Errorf("launch: has no code or no memory")
	}
	if g, ok := l.Code.groups.Get().(*Group); ok && g.fits(l) {
		g.launch = l
		return g, nil
	}
	lanes := l.Code.Family.Lanes()
	if l.Threads < 1 || l.LDS < 0 || l.Private < 0 {
		return nil, fmt.Errorf("launch: %d threads, %d bytes of LDS and %d of private memory; want at least 1, 0 and 0", l.Threads, l.LDS, l.Private)
	}
	g := &Group{launch: l, LDS: make([]byte, l.LDS), junk: make([]byte, (max(l.LDS, 4096)+7)&^7)}
	random := rand.NewPCG(l.Seed, 1)
	g.order = rand.New(random)
	for i := 0; i+8 <= len(g.junk); i += 8 {
		binary.LittleEndian.PutUint64(g.junk[i:], random.Uint64())
	}
	for i := range g.initial {
		g.initial[i] = uint32(random.Uint64())
	}
	registers := max(l.Registers, l.Code.registers, 3) // a wave starts with the work items' ids in the first three
	if l.Code.accumulators > 0 {
		registers = AccumulatorBase + l.Code.accumulators
	}
	for first := 0; first < l.Threads; first += lanes {
		w := &Wave{
			Lanes: lanes, All: ^uint64(0) >> (64 - lanes), Number: len(g.Waves), Group: g,
			V:          make([]Register, registers),
			S:          make([]uint32, ConstantsAt+len(l.Code.constants)),
			Private:    make([]byte, lanes*l.Private),
			broadcasts: make([]broadcast, l.Code.broadcasts),
		}
		w.call = valu.Call{Lanes: lanes, Seed: l.Seed}
		g.Waves = append(g.Waves, w)
	}
	return g, nil
}

// fits reports whether a group of another launch is as one of l would be.
func (g *Group) fits(l *Launch) bool {
	was := g.launch
	return was.Threads == l.Threads && was.Registers == l.Registers && was.LDS == l.LDS && was.Private == l.Private && was.Seed == l.Seed
}

// Release gives the group's memory to later launches of the same code. The group must not be
// used any more.
func (g *Group) Release() {
	l := g.launch
	g.isReset = false
	for _, w := range g.Waves {
		clear(w.blocks[:]) // so that freed memory is not kept
	}
	g.launch = &Launch{Threads: l.Threads, Registers: l.Registers, LDS: l.LDS, Private: l.Private, Seed: l.Seed}
	l.Code.groups.Put(g)
}

// Reset prepares the group to run the work group id. Registers and LDS hold arbitrary values
// that Seed determines; the lanes beyond the group's threads are off.
func (g *Group) Reset(id [3]uint32) {
	l := g.launch
	g.ID, g.isReset = id, true
	copy(g.LDS, g.junk)
	*g.order = *rand.New(rand.NewPCG(l.Seed, uint64(id[0])|uint64(id[1])<<24|uint64(id[2])<<48))
	for _, w := range g.Waves {
		for i := range w.V {
			w.V[i] = g.initial
		}
		for i := 0; i < len(w.Private); i += copy(w.Private[i:], g.junk) {
		}
		for i := range w.S[:ConstantsAt] {
			w.S[i] = g.initial[i%len(g.initial)]
		}
		clear(w.S[execAt:ConstantsAt])
		copy(w.S[ConstantsAt:], l.Code.constants)
		w.call.Mode, w.modeRest = l.Mode, 0
		w.PC, w.Done, w.SCC = 0, false, false
		w.stopped, w.isWaiting, w.fault = false, false, nil
		w.blocks = [len(w.blocks)]Block{}
		w.SetExec(w.All)
		if active := l.Threads - w.Number*w.Lanes; active < w.Lanes {
			w.SetExec(w.All >> (w.Lanes - active))
		}
	}
}

// Run executes the waves until all have ended. A wave that has ended counts as arrived at
// every barrier, as in hardware. The error of a wave is a *Fault.
func (g *Group) Run() error {
	if !g.isReset {
		return fmt.Errorf("group: Run without Reset")
	}
	g.isReset = false
	running := make([]*Wave, len(g.Waves))
	copy(running, g.Waves)
	for len(running) > 0 {
		if g.launch.Seed != 0 {
			g.order.Shuffle(len(running), func(i, j int) { running[i], running[j] = running[j], running[i] })
		}
		waiting := 0
		for _, w := range running {
			if w.isWaiting {
				waiting++
				continue
			}
			if err := w.run(); err != nil {
				return err
			}
			if w.isWaiting {
				waiting++
			}
		}
		kept := running[:0]
		for _, w := range running {
			if !w.Done {
				kept = append(kept, w)
			} else if w.isWaiting {
				waiting--
			}
		}
		running = kept
		if waiting == len(running) {
			for _, w := range running {
				w.isWaiting = false
			}
		}
	}
	return nil
}

// run executes instructions until the wave ends, waits at a barrier or has had its turn.
func (w *Wave) run() error {
	l := w.Group.launch
	n := int64(quantum)
	if l.Budget != nil {
		n = l.Budget.take(n)
	}
	steps := l.Code.Steps
	w.stopped = false
	left := n
	for ; left > 0 && !w.stopped; left-- {
		at := w.PC
		w.at = at
		w.PC = at + 1
		steps[at](w)
	}
	if l.Budget != nil {
		l.Budget.left.Add(left)
		if n < quantum && left == 0 && !w.stopped {
			w.at = w.PC
			w.fail(-1, &BudgetError{Limit: l.Budget.limit})
		}
	}
	if w.fault != nil {
		return w.fault
	}
	return nil
}
