package cuda

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
	"tokitai/internal/dl"
)

// The tests run against a library with libcuda's functions whose device is the host: it
// checks how it is called, and gives errors where it is asked to.
func stub(t *testing.T, change ...string) {
	t.Helper()
	if _, err := dl.Open(dl.Request{What: "a library", Files: []string{"libc.so.6"}}); err != nil {
		t.Skipf("needs libraries: %v", err)
	}
	h, err := compile.OpenHost()
	if err != nil {
		t.Skipf("needs a C++ compiler for a library to call: %v", err)
	}
	text, err := os.ReadFile("testdata/libcuda.cc")
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.Compile("", compile.Source{Name: "libcuda.cc", Text: strings.NewReplacer(change...).Replace(string(text))})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(path, p.Image, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TOKITAI_CUDA", path)
}

func TestTable(t *testing.T) {
	stub(t)
	table, err := newTable()
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := table.Count(); n != 2 || err != nil || table.Kind != "cuda" || table.Version != "CUDA 13.0" || table.Name(1) != "cuda:1" {
		t.Errorf("%d devices, %v, %s", n, err, table.Version)
	}
	p, err := table.Properties(1)
	must(err)
	want := driver.Properties{Name: "stub 1", Architecture: "sm_90a", MemoryBytes: 1 << 37, Multiprocessors: 132, WarpWidth: 32, SharedBytes: 232448,
		ThreadsPerBlock: 1024, CacheBytes: 1 << 26, ClockHz: 2e9, MemoryBytesPerSec: 2 * 3e9 * 640, StartsEarly: true}
	if p != want {
		t.Errorf("properties %+v, want %+v", p, want)
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
	// The kernel writes grid, block, shared and the sum of the parameters' bytes to b.
	must(table.Launch(f, [3]uint32{1, 2, 3}, [3]uint32{4, 5, 6}, 70, s, []byte{1, 2, 3, 250}))
	must(table.CopyOut(memory, b, s))
	if !bytes.Equal(memory[:8], []byte{1, 2, 3, 4, 5, 6, 70, 0}) {
		t.Errorf("the launch arrived as % x", memory[:8])
	}
	must(table.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{1, 1, 1}, 0, s, nil))
	must(table.LaunchEarly(f, [3]uint32{3, 2, 1}, [3]uint32{6, 5, 4}, 7, s, []byte{1, 2, 3, 4}))
	must(table.CopyOut(memory, b, s))
	if !bytes.Equal(memory[:8], []byte{3, 2, 1, 6, 5, 4, 7, 10}) {
		t.Errorf("the early launch arrived as % x", memory[:8])
	}

	encoded := make([]byte, driver.TensorMapBytes+1)
	must(table.EncodeTensorMap(encoded, &driver.TensorMap{Address: 32, ElementBytes: 4, Rank: 3, Sizes: [5]uint64{5, 6, 7}, Strides: [4]uint64{16, 48}, Box: [5]uint32{32, 3, 1}}))
	if want := []byte{2, 3, 32, 0, 0, 0, 0, 0, 5, 6, 7, 0, 0, 0, 0, 0, 0, 16, 48, 0, 0, 0, 0, 0, 32, 3, 1}; !bytes.Equal(encoded[:len(want)], want) {
		t.Errorf("the tensor map arrived as % x", encoded[:len(want)])
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
	if e, ok := errors.AsType[*driver.Error](err); !ok || e.Class != driver.OutOfMemory || e.Name != "CUDA_ERROR_2" || e.Text != "description of 2" || e.Call != "cuMemAlloc" {
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
	testGraph(t, table, f, s, b, memory)
	must(errors.Join(table.DestroyEvent(start), table.DestroyEvent(end), table.Unload(m), table.DestroyStream(s), table.FreeHost(memory),
		table.Free(a), table.Free(b), table.Release(1)))
}

// testGraph launches a graph of three kernels, each of which writes what it was given to 16
// bytes at b.
func testGraph(t *testing.T, table *driver.Table, f driver.Function, s driver.Stream, b driver.Pointer, memory []byte) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := [3]uint32{1, 2, 3}
	nodes := []driver.Node{
		{Function: f, Grid: at, Block: at, Shared: 70, Params: []byte{1, 2, 0, 0}},
		{After: []int{0}, Function: f, Grid: at, Block: at, Params: []byte{3, 0, 0, 0}},
		{After: []int{1, 0}, Function: f, Grid: at, Block: at, Params: []byte{4, 5, 6, 0}},
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
	check([]byte{1, 2, 3, 1, 2, 3, 70, 3}, []byte{1, 2, 3, 1, 2, 3, 0, 3}, []byte{1, 2, 3, 1, 2, 3, 0, 15})
	must(table.SetNode(g, 1, &nodes[1]))
	check([]byte{1, 2, 3, 1, 2, 3, 70, 3}, []byte{1, 2, 3, 1, 2, 3, 0, 13}, []byte{1, 2, 3, 1, 2, 3, 0, 15})
	if n := testing.AllocsPerRun(100, func() {
		err = errors.Join(table.SetNode(g, 2, &nodes[2]), table.LaunchGraph(g, s))
	}); n != 0 && !isRace || err != nil {
		t.Errorf("a graph's launch allocates %v times, %v", n, err)
	}
	must(table.DestroyGraph(g))

	nodes[2].Grid[0] = 700
	if _, err := table.NewGraph(nodes); err == nil || !strings.Contains(err.Error(), "cuGraphAddKernelNode") {
		t.Errorf("a node that the driver refuses: %v", err)
	}
	if g, err = table.NewGraph(nodes[:2]); err != nil { // the stub counts graphs that are not destroyed
		t.Fatal(err)
	}
	must(errors.Join(table.LaunchGraph(g, s), table.DestroyGraph(g)))
}

func TestNoDevice(t *testing.T) {
	for _, c := range []struct {
		change []string
		index  int
		text   string
	}{
		{nil, 2, `no device "cuda:2": number of GPUs that the driver sees: 2; known: cuda:0, cuda:1`},
		{nil, -1, `no device "cuda:-1"`},
		{[]string{"DEVICES 2", "DEVICES 0"}, 0, "the driver sees no GPU"},
		{[]string{"VERSION 13000", "VERSION 11080"}, 0, "the driver is too old: got CUDA 11.8, want 12.0 or newer"},
		{[]string{"cuEventRecord(", "cuEventRecordNot("}, 0, "too old"},
		{[]string{"cuInit(", "cuInitNot("}, 0, "not a CUDA driver"},
		{[]string{"INIT 0", "INIT 803"}, 0, "CUDA_ERROR_803, code 803"},
		{[]string{"INIT 0", "INIT 100"}, 0, "CUDA_ERROR_100"},
	} {
		stub(t, c.change...)
		table, err := newTable()
		if err == nil {
			_, err = table.Properties(c.index)
		}
		if !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got %v, want %q", err, c.text)
		}
	}
}

func TestArchitecture(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		want         string
	}{{8, 0, "sm_80"}, {8, 9, "sm_89"}, {9, 0, "sm_90a"}, {10, 0, "sm_100"}, {12, 1, "sm_121"}} {
		if got := architecture(c.major, c.minor); got != c.want {
			t.Errorf("%d.%d: %s, want %s", c.major, c.minor, got, c.want)
		}
	}
}
