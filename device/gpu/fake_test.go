package gpu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
)

// fake is a driver whose device is as lazy as the rules allow: work runs only when
// somebody waits for it, and then nothing else runs that need not. Whatever is not
// ordered runs in the wrong order.
type fake struct {
	mu       sync.Mutex
	next     uintptr
	contexts int
	memory   map[driver.Pointer][]byte
	limit    int64
	used     int64
	hosts    int
	streams  map[driver.Stream]*fakeStream
	events   map[driver.Event]fakePlace
	modules  map[driver.Module]bool
	graphs   map[driver.Graph][]driver.Node
	fail     map[string]error // by name of the table's function
	broken   []string         // what no caller may do

	isLenient bool // the device is lost: streams end with their work undone
}

type fakeStream struct {
	work []func()
	done int
}

// fakePlace is where an event was recorded.
type fakePlace struct {
	stream   *fakeStream
	position int
}

func newFake() *fake {
	return &fake{limit: 1 << 30, memory: map[driver.Pointer][]byte{}, streams: map[driver.Stream]*fakeStream{},
		events: map[driver.Event]fakePlace{}, modules: map[driver.Module]bool{},
		graphs: map[driver.Graph][]driver.Node{}, fail: map[string]error{}}
}

func (f *fake) handle() uintptr {
	f.next++
	return f.next
}

// runTo runs a stream's work up to a position.
func (s *fakeStream) runTo(position int) {
	for s.done < position {
		s.done++
		s.work[s.done-1]()
	}
}

func (f *fake) bytes(p driver.Pointer, n int64) []byte {
	for start, m := range f.memory {
		if p >= start && uint64(p-start)+uint64(n) <= uint64(len(m)) {
			return m[p-start:][:n]
		}
	}
	f.broken = append(f.broken, fmt.Sprintf("%d bytes at %#x are used, which are not allocated", n, uint64(p)))
	return make([]byte, n)
}

func (f *fake) queue(s driver.Stream, work func()) {
	stream := f.streams[s]
	if stream == nil {
		f.broken = append(f.broken, "work for a stream that is none")
		return
	}
	stream.work = append(stream.work, work)
}

func (f *fake) enter(name string) error {
	f.mu.Lock()
	return f.fail[name]
}

// mix is the kernel: dst[i] = 31·dst[i] + src[i] + k. Its parameters are the two
// addresses, the count and k.
func mixParams(dst, src uint64, n, k int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, dst)
	b = binary.LittleEndian.AppendUint64(b, src)
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	return binary.LittleEndian.AppendUint64(b, uint64(k))
}

func mix(dst, src []byte, k byte) {
	for i := range dst {
		dst[i] = 31*dst[i] + src[i] + k
	}
}

func (f *fake) table() *driver.Table {
	return &driver.Table{
		Kind: "cuda", Name: func(i int) string { return fmt.Sprintf("cuda:%d", i) }, Version: "fake",
		Count: func() (int, error) { return 2, nil },
		Properties: func(int) (driver.Properties, error) {
			return driver.Properties{Name: "fake", Architecture: "sm_00", MemoryBytes: f.limit, Multiprocessors: 2, WarpWidth: 32,
				SharedBytes: 100 << 10, ThreadsPerBlock: 1024}, nil
		},
		Retain: func(int) (driver.Context, error) {
			defer f.mu.Unlock()
			if err := f.enter("Retain"); err != nil {
				return 0, err
			}
			f.contexts++
			return 1, nil
		},
		Release: func(int) error {
			defer f.mu.Unlock()
			f.contexts--
			return f.enter("Release")
		},
		SetCurrent: func(driver.Context) error { return nil },
		Compiler:   func(int) (compile.Compiler, error) { return nil, errors.New("no compiler") },
		Compile: func(_ int, s compile.Source) (*compile.Program, error) {
			return &compile.Program{Image: []byte(s.Text)}, nil
		},
		Alloc: func(n int64) (driver.Pointer, error) {
			defer f.mu.Unlock()
			if err := f.enter("Alloc"); err != nil {
				return 0, err
			}
			if f.used+n > f.limit {
				return 0, &driver.Error{Call: "alloc", Class: driver.OutOfMemory}
			}
			f.used += n
			p := driver.Pointer(f.handle()) << 32
			m := make([]byte, n)
			for i := range m {
				m[i] = 0xa5
			}
			f.memory[p] = m
			return p, nil
		},
		Free: func(p driver.Pointer) error {
			defer f.mu.Unlock()
			if err := f.enter("Free"); err != nil {
				return err
			}
			f.used -= int64(len(f.memory[p]))
			delete(f.memory, p)
			return nil
		},
		MemoryInfo: func() (int64, int64, error) { return f.limit - f.used, f.limit, nil },
		AllocHost: func(n int) ([]byte, error) {
			defer f.mu.Unlock()
			f.hosts++
			return make([]byte, n), f.enter("AllocHost")
		},
		FreeHost: func([]byte) error {
			defer f.mu.Unlock()
			f.hosts--
			return f.enter("FreeHost")
		},
		CopyIn: func(dst driver.Pointer, src []byte, s driver.Stream) error {
			defer f.mu.Unlock()
			err := f.enter("CopyIn")
			f.queue(s, func() { copy(f.bytes(dst, int64(len(src))), src) })
			return err
		},
		CopyOut: func(dst []byte, src driver.Pointer, s driver.Stream) error {
			defer f.mu.Unlock()
			err := f.enter("CopyOut")
			f.queue(s, func() { copy(dst, f.bytes(src, int64(len(dst)))) })
			return err
		},
		Copy: func(dst, src driver.Pointer, n int64, s driver.Stream) error {
			defer f.mu.Unlock()
			err := f.enter("Copy")
			f.queue(s, func() { copy(f.bytes(dst, n), f.bytes(src, n)) })
			return err
		},
		Fill: func(dst driver.Pointer, v byte, n int64, s driver.Stream) error {
			defer f.mu.Unlock()
			err := f.enter("Fill")
			f.queue(s, func() {
				m := f.bytes(dst, n)
				for i := range m {
					m[i] = v
				}
			})
			return err
		},
		NewStream: func() (driver.Stream, error) {
			defer f.mu.Unlock()
			if err := f.enter("NewStream"); err != nil {
				return 0, err
			}
			s := driver.Stream(f.handle())
			f.streams[s] = &fakeStream{}
			return s, nil
		},
		DestroyStream: func(s driver.Stream) error {
			defer f.mu.Unlock()
			err := f.enter("DestroyStream")
			if stream := f.streams[s]; stream.done < len(stream.work) && !f.isLenient {
				f.broken = append(f.broken, "a stream with work to do is destroyed")
			}
			delete(f.streams, s)
			return err
		},
		SyncStream: func(s driver.Stream) error {
			defer f.mu.Unlock()
			if err := f.enter("SyncStream"); err != nil {
				return err
			}
			f.streams[s].runTo(len(f.streams[s].work))
			return nil
		},
		StreamDone: func(s driver.Stream) (bool, error) {
			defer f.mu.Unlock()
			return f.streams[s].done == len(f.streams[s].work), f.enter("StreamDone")
		},
		NewEvent: func(bool) (driver.Event, error) {
			defer f.mu.Unlock()
			if err := f.enter("NewEvent"); err != nil {
				return 0, err
			}
			e := driver.Event(f.handle())
			f.events[e] = fakePlace{}
			return e, nil
		},
		DestroyEvent: func(e driver.Event) error {
			defer f.mu.Unlock()
			delete(f.events, e)
			return f.enter("DestroyEvent")
		},
		Record: func(e driver.Event, s driver.Stream) error {
			defer f.mu.Unlock()
			if err := f.enter("Record"); err != nil {
				return err
			}
			f.events[e] = fakePlace{f.streams[s], len(f.streams[s].work)}
			return nil
		},
		SyncEvent: func(e driver.Event) error {
			defer f.mu.Unlock()
			if err := f.enter("SyncEvent"); err != nil {
				return err
			}
			if at := f.events[e]; at.stream != nil {
				at.stream.runTo(at.position)
			}
			return nil
		},
		EventDone: func(e driver.Event) (bool, error) {
			defer f.mu.Unlock()
			err := f.enter("EventDone")
			at := f.events[e]
			return at.stream == nil || at.stream.done >= at.position, err
		},
		WaitEvent: func(s driver.Stream, e driver.Event) error {
			defer f.mu.Unlock()
			err := f.enter("WaitEvent")
			at := f.events[e]
			f.queue(s, func() { at.stream.runTo(at.position) })
			return err
		},
		Elapsed: func(start, end driver.Event) (float64, error) {
			defer f.mu.Unlock()
			return float64(f.events[end].position - f.events[start].position), f.enter("Elapsed")
		},
		Load: func([]byte) (driver.Module, error) {
			defer f.mu.Unlock()
			if err := f.enter("Load"); err != nil {
				return 0, err
			}
			m := driver.Module(f.handle())
			f.modules[m] = true
			return m, nil
		},
		Unload: func(m driver.Module) error {
			defer f.mu.Unlock()
			delete(f.modules, m)
			return f.enter("Unload")
		},
		Lookup: func(m driver.Module, entry string) (driver.Function, error) {
			defer f.mu.Unlock()
			if entry == "absent" {
				f.enter("")
				return 0, &driver.Error{Call: "lookup", Text: "no such kernel"}
			}
			return driver.Function(f.handle()), f.enter("Lookup")
		},
		SetShared: func(driver.Function, int) error {
			defer f.mu.Unlock()
			return f.enter("SetShared")
		},
		Launch: func(_ driver.Function, _, _ [3]uint32, _ uint32, s driver.Stream, params []byte) error {
			defer f.mu.Unlock()
			if err := f.enter("Launch"); err != nil {
				return err
			}
			f.queue(s, f.work(params))
			return nil
		},
		NewGraph: func(nodes []driver.Node) (driver.Graph, error) {
			defer f.mu.Unlock()
			if err := f.enter("NewGraph"); err != nil {
				return 0, err
			}
			g := driver.Graph(f.handle())
			f.graphs[g] = slices.Clone(nodes)
			for i := range nodes {
				f.graphs[g][i].Params = slices.Clone(nodes[i].Params)
			}
			return g, nil
		},
		LaunchGraph: func(g driver.Graph, s driver.Stream) error {
			defer f.mu.Unlock()
			if err := f.enter("LaunchGraph"); err != nil {
				return err
			}
			nodes := f.graphs[g]
			work := make([]func(), len(nodes))
			for i := range nodes {
				work[i] = f.work(nodes[i].Params)
			}
			f.queue(s, func() { runNodes(nodes, work) })
			return nil
		},
		DestroyGraph: func(g driver.Graph) error {
			defer f.mu.Unlock()
			delete(f.graphs, g)
			return f.enter("DestroyGraph")
		},
		SetNode: func(g driver.Graph, number int, n *driver.Node) error {
			defer f.mu.Unlock()
			if err := f.enter("SetNode"); err != nil {
				return err
			}
			f.graphs[g][number].Params = slices.Clone(n.Params)
			return nil
		},
	}
}

// work returns what a kernel does that is given params.
func (f *fake) work(params []byte) func() {
	if len(params) == 0 {
		return func() {}
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(params[8*i:]) }
	dst, src, n, k := driver.Pointer(at(0)), driver.Pointer(at(1)), int64(at(2)), byte(at(3))
	return func() { mix(f.bytes(dst, n), f.bytes(src, n), k) }
}

// runNodes runs the nodes of a graph in the order that is farthest from their own: of those
// that may run next, the last.
func runNodes(nodes []driver.Node, work []func()) {
	isDone := make([]bool, len(nodes))
	for range nodes {
		for i := len(nodes) - 1; i >= 0; i-- {
			if !isDone[i] && !slices.ContainsFunc(nodes[i].After, func(k int) bool { return !isDone[k] }) {
				isDone[i] = true
				work[i]()
				break
			}
		}
	}
}

func (f *fake) set(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[name] = err
}

// check reports what callers did that they must not.
func (f *fake) check(t testing.TB) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.broken {
		t.Error(b)
	}
}

// checkEmpty reports what has not been given back.
func (f *fake) checkEmpty(t testing.TB) {
	t.Helper()
	f.check(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.contexts != 0 || len(f.memory) != 0 || f.hosts != 0 || len(f.streams) != 0 || len(f.events) != 0 || len(f.modules) != 0 || len(f.graphs) != 0 {
		t.Errorf("not given back: %d contexts, %d blocks, %d host blocks, %d streams, %d events, %d modules, %d graphs",
			f.contexts, len(f.memory), f.hosts, len(f.streams), len(f.events), len(f.modules), len(f.graphs))
	}
}
