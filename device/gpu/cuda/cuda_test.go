package cuda

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/driver/clib/clibtest"
)

// stub makes the library of testdata, with pairs of texts replaced, the one that is opened
// until the test ends.
func stub(t *testing.T, change ...string) {
	t.Helper()
	t.Setenv("TOKITAI_CUDA", clibtest.Build(t, "testdata/libcuda.cc", "libcuda.so.1", change...))
}

func TestTable(t *testing.T) {
	stub(t)
	table, err := newTable()
	if err != nil {
		t.Fatal(err)
	}
	if table.Kind != "cuda" || table.Version != "CUDA 13.0" || table.Path != os.Getenv("TOKITAI_CUDA") {
		t.Errorf("got %s %s of %s", table.Kind, table.Version, table.Path)
	}
	p, err := table.Properties(1)
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Properties{Name: "stub 1", Architecture: "sm_90a", MemoryBytes: 1 << 37, Multiprocessors: 132, WarpWidth: 32, SharedBytes: 232448,
		ThreadsPerBlock: 1024, CacheBytes: 1 << 26, ClockHz: 2e9, MemoryBytesPerSec: 2 * 3e9 * 640, StartsEarly: true}
	if p != want {
		t.Errorf("properties %+v, want %+v", p, want)
	}
	clibtest.Run(t, table, clibtest.Names{Alloc: "cuMemAlloc", Error: "CUDA_ERROR_2"})

	encoded := make([]byte, driver.TensorMapBytes+1)
	if err := table.EncodeTensorMap(encoded, &driver.TensorMap{Address: 32, ElementBytes: 4, Rank: 3, Sizes: [5]uint64{5, 6, 7}, Strides: [4]uint64{16, 48}, Box: [5]uint32{32, 3, 1}}); err != nil {
		t.Fatal(err)
	}
	if want := []byte{2, 3, 32, 0, 0, 0, 0, 0, 5, 6, 7, 0, 0, 0, 0, 0, 0, 16, 48, 0, 0, 0, 0, 0, 32, 3, 1}; !bytes.Equal(encoded[:len(want)], want) {
		t.Errorf("the tensor map arrived as % x", encoded[:len(want)])
	}
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
