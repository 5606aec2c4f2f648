package foreign

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"tokitai/device"
	"tokitai/kernelprocess/protocol"
)

const (
	// Kernels share processes that take sharedStart to start, or sharedFirst until their first call
	// is answered, in which many compile something. sharedAfter are started nevertheless.
	sharedStart = 100 * time.Millisecond
	sharedFirst = 500 * time.Millisecond
	sharedAfter = 6
)

// pool has the processes of one program.
type pool struct {
	program string // path
	command []string
	options Options

	kind   string // of the lowering check.KIND
	name   string // of the kernel, in messages
	source string // what it is, for reports

	mu        sync.Mutex
	sessions  []*session        // that run, least recently used first
	nursery   *session          // the process that forks others, which itself computes nothing; nil for none
	most      int               // that run without being needed at the moment
	started   int               // so far
	startTime time.Duration     // of the last one
	firstTime time.Duration     // from the start to the answer of the first call, of the last one that has answered
	seeds     *rand.Rand        // of TOKITAI_SEED
	welcome   *protocol.Welcome // of the first one
	isClosed  bool
	ending    sync.WaitGroup
}

func newPool(program string, command []string, o Options) *pool {
	return &pool{
		program: program, command: command, options: o, kind: "process", name: command[0], source: strings.Join(command, " "),
		seeds: rand.New(rand.NewPCG(o.Seed, 0)), most: max(2, runtime.GOMAXPROCS(0)),
	}
}

// acquire returns a process for a call of a kernel: the one that it had, or a new one.
func (p *pool) acquire(k *processKernel) (*session, error) {
	p.mu.Lock()
	if p.isClosed {
		p.mu.Unlock()
		return nil, device.ErrClosed
	}
	if n := k.session; n != nil && slices.Contains(p.sessions, n) && n.owner == k && !n.isBusy && !k.isRenewed {
		n.isBusy = true
		p.mu.Unlock()
		return n, nil
	}
	if i := slices.IndexFunc(p.sessions, func(n *session) bool { return !n.isBusy && !apart(n, k) && p.mayShare(n, k) }); i >= 0 {
		n := p.sessions[i]
		n.isBusy, n.owner = true, k
		p.mu.Unlock()
		return n, nil
	}
	for !k.isRenewed && len(p.sessions) >= p.most { // the least recently used that is idle
		i := slices.IndexFunc(p.sessions, func(n *session) bool { return !n.isBusy })
		if i < 0 {
			break
		}
		p.drop(p.sessions[i], endWait)
	}
	p.mu.Unlock()
	n, err := p.start()
	if err == nil {
		n.owner = k
	}
	return n, err
}

// mayShare reports whether a kernel without a process can have one that runs: one that has
// computed nothing, or where processes take long to start, any.
func (p *pool) mayShare(n *session, k *processKernel) bool {
	isSlow := p.startTime > sharedStart || p.firstTime > sharedFirst
	return n.owner == nil || !k.isRenewed && isSlow && p.started >= sharedAfter
}

// apart reports whether a kernel must not have a process that another one has used, because one of
// them is to be alone.
func apart(n *session, k *processKernel) bool {
	return n.owner != nil && n.owner != k && (k.isAlone || n.owner.isAlone)
}

// noteFirst notes how long a process took until its first call was answered.
func (p *pool) noteFirst(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.firstTime = took
}

// release gives a process back, or ends one that cannot go on or was for one call.
func (p *pool) release(n *session, isSound, isForOne bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n.isBusy = false
	i := slices.Index(p.sessions, n)
	switch {
	case i < 0: // the pool is closed
	case isSound && isForOne:
		p.drop(n, endWait)
	case isSound:
		p.sessions = append(slices.Delete(p.sessions, i, i+1), n)
	default:
		p.drop(n, 0)
	}
}

// drop ends a process in the background. The caller holds the mutex.
func (p *pool) drop(n *session, grace time.Duration) {
	p.sessions = slices.DeleteFunc(p.sessions, func(m *session) bool { return m == n })
	p.ending.Go(func() { n.end(grace) })
}

// start starts a process that has the definition. It is busy.
func (p *pool) start() (*session, error) {
	p.mu.Lock()
	if p.isClosed {
		p.mu.Unlock()
		return nil, device.ErrClosed
	}
	p.started++
	seed := p.seeds.Uint64()
	began := time.Now()
	n, err := p.fork(seed)
	if n == nil {
		n, err = p.open(seed)
	}
	if err != nil {
		p.mu.Unlock()
		return nil, err
	}
	n.isBusy = true
	p.sessions = append(p.sessions, n)
	p.mu.Unlock()

	if err = n.meet(p.options.deadline()); err == nil {
		err = n.offers(p.options.Definition)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isClosed {
		return nil, device.ErrClosed
	}
	if err != nil {
		p.drop(n, 0)
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	p.startTime = time.Since(began)
	if p.welcome == nil {
		p.welcome = &n.welcome
	}
	return n, nil
}

// close ends all processes, also one that computes.
func (p *pool) close() error {
	p.mu.Lock()
	p.isClosed = true
	if p.nursery != nil {
		p.drop(p.nursery, endWait)
	}
	for _, n := range slices.Clone(p.sessions) {
		grace := endWait
		if n.isBusy {
			grace = 0
		}
		p.drop(n, grace)
	}
	p.mu.Unlock()
	p.ending.Wait()
	return nil
}
