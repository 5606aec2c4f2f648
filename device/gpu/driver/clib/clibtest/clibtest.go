// Package clibtest tests driver tables over C libraries, against stub libraries whose device
// is the host: they check how they are called, and give errors where they are asked to.
package clibtest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
	"tokitai/internal/dl"
	"tokitai/internal/tool"
)

// Build compiles a stub library from its source, with pairs of texts replaced, to a file of
// the given name, and returns the path.
func Build(t testing.TB, source, name string, change ...string) string {
	t.Helper()
	if _, err := dl.Open(dl.Request{What: "a library", Files: []string{"libc.so.6"}}); err != nil {
		t.Skipf("needs libraries: %v", err)
	}
	h, err := compile.OpenHost()
	if err != nil {
		tool.Missing(t, "g++", err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(change); i += 2 {
		if !strings.Contains(string(text), change[i]) {
			t.Fatalf("%s has no %q to replace", source, change[i])
		}
	}
	path := filepath.Join(t.TempDir(), name)
	image := built.image(t, h, compile.Source{Name: filepath.Base(source), Text: strings.NewReplacer(change...).Replace(string(text))})
	if err := os.WriteFile(path, image, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// libraries holds libraries by their sources, so that each is compiled once.
type libraries struct {
	mu     sync.Mutex
	images map[string][]byte
}

var built = libraries{images: map[string][]byte{}}

func (l *libraries) image(t testing.TB, h *compile.Host, s compile.Source) []byte {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if image, ok := l.images[s.Text]; ok {
		return image
	}
	p, err := h.Compile("", s)
	if err != nil {
		t.Fatal(err)
	}
	l.images[s.Text] = p.Image
	return p.Image
}

// Names are what differs between libraries in errors.
type Names struct {
	Alloc string // the function
	Error string // of code 2
}

// Run calls every function of a table that clib implements, and those of graphs. Two devices
// are expected, of which the second is used. A launch of the stub's only kernel writes seven
// bytes, grid, block and shared memory, and the sum of the four bytes of its parameter, to
// the memory allocated last, at 16 times the last byte. A grid of 700 or more is answered
// with that code.
func Run(t *testing.T, table *driver.Table, names Names) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := table.Count(); n != 2 || err != nil {
		t.Errorf("%d devices, %v", n, err)
	}
	if got, want := table.Name(1), table.Kind+":1"; got != want {
		t.Errorf("the second device is %s, want %s", got, want)
	}
	context, err := table.Retain(1)
	must(err)
	must(table.SetCurrent(context))

	a, err := table.Alloc(64)
	must(err)
	b, err := table.Alloc(64)
	must(err)
	free, total, err := table.MemoryInfo()
	if free != 1<<36 || total != 1<<37 || err != nil {
		t.Errorf("memory %d of %d, %v", free, total, err)
	}
	memory, err := table.AllocHost(64)
	must(err)
	s, err := table.NewStream()
	must(err)
	for i := range memory {
		memory[i] = byte(i)
	}
	must(table.CopyIn(a, memory, s))
	must(table.Copy(b+16, a, 48, s))
	must(table.Fill(b, 7, 16, s))
	must(table.CopyOut(memory, b, s))
	if memory[15] != 7 || memory[16] != 0 || memory[63] != 47 {
		t.Errorf("after the copies: % x", memory)
	}

	m, err := table.Load([]byte("image"))
	must(err)
	f, err := table.Lookup(m, "kernel")
	must(err)
	if _, err := table.Lookup(m, "other"); err == nil || !strings.Contains(err.Error(), `no kernel "other"`) {
		t.Errorf("a kernel that is not there: %v", err)
	}
	must(table.SetShared(f, 100000))
	must(table.Launch(f, [3]uint32{1, 2, 3}, [3]uint32{4, 5, 6}, 70, s, []byte{1, 2, 253, 0}))
	must(table.CopyOut(memory, b, s))
	if !bytes.Equal(memory[:8], []byte{1, 2, 3, 4, 5, 6, 70, 0}) {
		t.Errorf("the launch arrived as % x", memory[:8])
	}
	must(table.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}, 0, s, nil))
	if table.LaunchEarly != nil {
		must(table.LaunchEarly(f, [3]uint32{3, 2, 1}, [3]uint32{6, 5, 4}, 7, s, []byte{1, 2, 7, 0}))
		must(table.CopyOut(memory, b, s))
		if !bytes.Equal(memory[:8], []byte{3, 2, 1, 6, 5, 4, 7, 10}) {
			t.Errorf("the early launch arrived as % x", memory[:8])
		}
	}

	start, err := table.NewEvent(true)
	must(err)
	end, err := table.NewEvent(false)
	must(err)
	must(errors.Join(table.Record(start, s), table.Record(end, s), table.WaitEvent(s, end), table.SyncEvent(end), table.SyncStream(s)))
	if done, err := table.EventDone(start); !done || err != nil {
		t.Errorf("the timed event: %v, %v", done, err)
	}
	if done, err := table.EventDone(end); done || err != nil {
		t.Errorf("the untimed event, which is never done: %v, %v", done, err)
	}
	if done, err := table.StreamDone(s); !done || err != nil {
		t.Errorf("the stream: %v, %v", done, err)
	}
	if ms, err := table.Elapsed(start, end); ms != 1.5 || err != nil {
		t.Errorf("elapsed %v, %v", ms, err)
	}

	_, err = table.Alloc(1 << 40)
	if e, ok := errors.AsType[*driver.Error](err); !ok || e.Class != driver.OutOfMemory || e.Name != names.Error || e.Text != "description of 2" || e.Call != names.Alloc {
		t.Errorf("out of memory: %#v", err)
	}
	err = table.Launch(f, [3]uint32{700, 1, 1}, [3]uint32{1, 1, 1}, 0, s, nil)
	if e, ok := errors.AsType[*driver.Error](err); !ok || e.Class != driver.Lost || e.Code != 700 {
		t.Errorf("illegal address: %v", err)
	}
	err = table.Launch(f, [3]uint32{701, 1, 1}, [3]uint32{1, 1, 1}, 0, s, nil)
	if e, ok := errors.AsType[*driver.Error](err); !ok || e.Class != driver.Failed {
		t.Errorf("out of resources: %v", err)
	}
	if n := testing.AllocsPerRun(100, func() {
		err = errors.Join(table.SetCurrent(context), table.Launch(f, [3]uint32{1, 2, 3}, [3]uint32{4, 5, 6}, 70, s, memory[:4]), table.Record(end, s), table.WaitEvent(s, end))
	}); n != 0 && !isRace || err != nil {
		t.Errorf("a launch allocates %v times, %v", n, err)
	}
	runGraph(t, table, f, s, b, memory)
	must(errors.Join(table.DestroyEvent(start), table.DestroyEvent(end), table.Unload(m), table.DestroyStream(s), table.FreeHost(memory),
		table.Free(a), table.Free(b), table.Release(1)))
}

// runGraph launches a graph of three kernels, each of which writes what it was given to 16
// bytes at b.
func runGraph(t *testing.T, table *driver.Table, f driver.Function, s driver.Stream, b driver.Pointer, memory []byte) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := [3]uint32{1, 2, 3}
	nodes := []driver.Node{
		{Function: f, Grid: at, Block: at, Shared: 70, Params: []byte{1, 2, 0, 0}},
		{After: []int{0}, Function: f, Grid: at, Block: at, Params: []byte{3, 0, 0, 1}},
		{After: []int{1, 0}, Function: f, Grid: at, Block: at, Params: []byte{4, 5, 6, 2}},
	}
	g, err := table.NewGraph(nodes)
	must(err)
	for i := range nodes {
		nodes[i].Params[0] += 10 // the graph has a copy
	}
	check := func(want ...[]byte) {
		t.Helper()
		must(table.Fill(b, 0, 64, s))
		must(table.LaunchGraph(g, s))
		must(table.CopyOut(memory, b, s))
		for i, w := range want {
			if got := memory[16*i:][:8]; !bytes.Equal(got, w) {
				t.Errorf("node %d arrived as %v, want %v", i, got, w)
			}
		}
	}
	check([]byte{1, 2, 3, 1, 2, 3, 70, 3}, []byte{1, 2, 3, 1, 2, 3, 0, 4}, []byte{1, 2, 3, 1, 2, 3, 0, 17})
	must(table.SetNode(g, 1, &nodes[1]))
	check([]byte{1, 2, 3, 1, 2, 3, 70, 3}, []byte{1, 2, 3, 1, 2, 3, 0, 14}, []byte{1, 2, 3, 1, 2, 3, 0, 17})
	if n := testing.AllocsPerRun(100, func() {
		err = errors.Join(table.SetNode(g, 2, &nodes[2]), table.LaunchGraph(g, s))
	}); n != 0 && !isRace || err != nil {
		t.Errorf("a graph's launch allocates %v times, %v", n, err)
	}
	must(table.DestroyGraph(g))

	nodes[2].Grid[0] = 700
	g, err = table.NewGraph(nodes)
	if err == nil {
		err = table.LaunchGraph(g, s)
		must(table.DestroyGraph(g))
	}
	if e, ok := errors.AsType[*driver.Error](err); !ok || e.Code != 700 {
		t.Errorf("a node that the driver refuses: %v", err)
	}
	if g, err = table.NewGraph(nodes[:2]); err != nil { // CUDA's stub counts graphs that are not destroyed
		t.Fatal(err)
	}
	must(errors.Join(table.LaunchGraph(g, s), table.DestroyGraph(g)))
}
