package hip

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/driver/clib/clibtest"
)

// TestMain keeps the user's own cache and settings out of the tests.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tokitai-cache-")
	if err != nil {
		panic(err)
	}
	os.Setenv("TOKITAI_CACHE", dir)
	for _, name := range []string{"TOKITAI_HIP", "TOKITAI_HIPRTC", "TOKITAI_CLANG", "ROCM_PATH", "HIP_PATH", "HSA_OVERRIDE_GFX_VERSION"} {
		os.Unsetenv(name)
	}
	os.Setenv(topologyVariable, filepath.Join(dir, "none"))
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// stub makes the library of testdata, with pairs of texts replaced, the one that is opened
// until the test ends.
func stub(t *testing.T, change ...string) (path string) {
	t.Helper()
	return stubAs(t, "libamdhip64.so.6", change...)
}

func stubAs(t *testing.T, name string, change ...string) (path string) {
	t.Helper()
	path = clibtest.Build(t, "testdata/libamdhip64.cc", name, change...)
	t.Setenv("TOKITAI_HIP", path)
	return path
}

func TestTable(t *testing.T) {
	path := stub(t)
	table, err := newTable()
	if err != nil {
		t.Fatal(err)
	}
	if table.Kind != "hip" || table.Version != "HIP 6.4.43484" || table.Path != path {
		t.Errorf("got %s %s of %s", table.Kind, table.Version, table.Path)
	}
	p, err := table.Properties(1)
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Properties{Name: "stub 1", Architecture: "gfx942", MemoryBytes: 1 << 37, Multiprocessors: 304, WarpWidth: 64, SharedBytes: 65536,
		ThreadsPerBlock: 1024, CacheBytes: 4 << 20, ClockHz: 2.1e9}
	if p != want {
		t.Errorf("properties %+v, want %+v", p, want)
	}
	if table.LaunchEarly != nil || table.EncodeTensorMap != nil {
		t.Error("HIP has neither early launches nor tensor maps")
	}
	clibtest.Run(t, table, clibtest.Names{Alloc: "hipMalloc", Error: "hipError2"})
	if err := table.Launch(9, [3]uint32{1 << 24, 1, 1}, [3]uint32{256, 1, 1}, 0, 5, nil); err == nil || !strings.Contains(err.Error(), "16777216 blocks of 256 threads, want fewer than 2^32") {
		t.Errorf("2^32 threads: %v", err)
	}
}

// TestLayouts: the name of the architecture is at another place before version 6.
func TestLayouts(t *testing.T) {
	stubAs(t, "libamdhip64.so.5", "VERSION 60443484", "VERSION 50731921", "hipGetDevicePropertiesR0600", "other", "WARP 64", "WARP 32")
	table, err := newTable()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := table.Properties(0); err != nil || p.Architecture != "gfx1101" || p.WarpWidth != 32 || table.Version != "HIP 5.7.31921" {
		t.Errorf("got %+v of %s, %v", p, table.Version, err)
	}
}

// TestErrors checks how error codes are classified, and the message for a code object that
// was compiled for another architecture.
func TestErrors(t *testing.T) {
	stub(t, "LOADED 0", "LOADED 209")
	table, err := newTable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = table.Load([]byte("image"))
	if err == nil || !strings.Contains(err.Error(), "hipModuleLoadData: description of 209: code object: ") || !strings.Contains(err.Error(), "(hipError209, code 209)") {
		t.Errorf("a program that is no code object: %v", err)
	}
	for code, want := range map[uint32]driver.Class{
		701: driver.Failed, 719: driver.Lost, 702: driver.Lost, 710: driver.Lost, 999: driver.Lost, 801: driver.Failed,
		1052: driver.OutOfMemory, 1053: driver.Lost,
	} {
		err := table.Launch(9, [3]uint32{code, 1, 1}, [3]uint32{1, 1, 1}, 0, 5, nil)
		if e, ok := errors.AsType[*driver.Error](err); !ok || e.Code != int(code) || e.Class != want {
			t.Errorf("code %d: %v, want class %d", code, err, want)
		}
	}
}

func TestNoDevice(t *testing.T) {
	for _, c := range []struct {
		change []string
		index  int
		text   string
	}{
		{nil, 2, `no device "hip:2": number of GPUs that HIP sees: 2; known: hip:0, hip:1`},
		{nil, -1, `no device "hip:-1"`},
		{[]string{"DEVICES 2", "DEVICES 0"}, 0, "HIP 6.4.43484 (LIBRARY) sees no GPU, and the kernel lists none"},
		{[]string{"DEVICES 2", "DEVICES -3"}, 0, "got -3 devices, want 0 to 4096"},
		{[]string{"INIT 0", "INIT 100"}, 0, "sees no GPU"},
		{[]string{"INIT 0", "INIT 101"}, 0, "sees no GPU"},
		{[]string{"INIT 0", "INIT 3"}, 0, "LIBRARY: hipInit: description of 3 (hipError3, code 3)"},
		{[]string{"VERSION 60443484", "VERSION 50232012"}, 0, "HIP is too old: got HIP 5.2.32012 (LIBRARY), want 5.7 or newer"},
		{[]string{"VERSION 60443484", "VERSION 80000000"}, 0, "got HIP 8.0.0 (LIBRARY), want 5.7 to 7: the interface of newer versions is not known"},
		{[]string{"VERSION 60443484", "VERSION 900"}, 0, "LIBRARY reports version 900, want a number such as 60443484 for 6.4.43484"},
		{[]string{"VERSION 60443484", "VERSION -1"}, 0, "LIBRARY reports version -1"},
		{[]string{"VERSION 60443484", "VERSION 70000000"}, 0, "LIBRARY reports HIP 7.0.0, want 6 as its name says"},
		{[]string{"hipEventRecord(", "hipEventRecordNot("}, 0, "HIP is too old or incomplete: LIBRARY has no hipEventRecord; want version 5.7 or newer"},
		{[]string{"hipInit(", "hipInitNot("}, 0, "not HIP: LIBRARY has no hipInit"},
		{[]string{`ARCH "gfx942:sramecc+:xnack-"`, `ARCH "gfx942 and more"`}, 0, `got "gfx942 and more" for an architecture, want a name such as gfx942`},
		{[]string{`ARCH "gfx942:sramecc+:xnack-"`, `ARCH ""`}, 0, `got "" for an architecture`},
		{[]string{"WARP 64", "WARP 32"}, 0, "got 32 threads in a warp of gfx942, want 64"},
		{[]string{"WARP 64", "WARP 1000000"}, 0, "got 1000000 threads in a warp, want 32 to 64"},
		{[]string{"MEMORY (1ull << 37)", "MEMORY 0"}, 0, "hipDeviceTotalMem: got 0 bytes, want 1 MiB to 1 PiB"},
		{[]string{"case 74:", "case 1074:"}, 0, "hipDeviceGetAttribute: description of 1"},
		{[]string{"*v = 304", "*v = -1"}, 0, "got -1 multiprocessors, want 1 to 16384"},
		{[]string{"hipGetDevicePropertiesR0600", "other", "hipGetDeviceProperties(", "another("}, 0, "there is no hipGetDeviceProperties to tell the architecture"},
	} {
		path := stub(t, c.change...)
		table, err := newTable()
		if err == nil {
			_, err = table.Properties(c.index)
		}
		if want := strings.ReplaceAll(c.text, "LIBRARY", path); !errors.Is(err, device.ErrNoDevice) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", c.change, err, want)
		}
	}
}

// TestMissing: without ROCm, the message names what was tried and what helps.
func TestMissing(t *testing.T) {
	t.Setenv("TOKITAI_HIP", filepath.Join(t.TempDir(), "libamdhip64.so.6"))
	_, err := newTable()
	if !errors.Is(err, device.ErrNoDevice) {
		t.Fatalf("got %v, want ErrNoDevice", err)
	}
	if _, ok := errors.AsType[*device.NoDeviceError](err); !ok {
		t.Fatalf("got %T", err)
	}
	for _, want := range []string{"HIP, AMD's library for GPUs", os.Getenv("TOKITAI_HIP"), "ROCm", "TOKITAI_HIP"} {
		if strings.Contains(err.Error(), "cannot open libraries") {
			t.Skip(err)
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

// TestTwoReleases: of two releases, the one that ROCM_PATH names is taken, even if it is the
// older one.
func TestTwoReleases(t *testing.T) {
	newer := releaseOf(t, stubAs(t, "libamdhip64.so.7", "VERSION 60443484", "VERSION 70000000"))
	older := releaseOf(t, stub(t))
	t.Setenv("TOKITAI_HIP", "")
	t.Setenv("ROCM_PATH", older)
	t.Setenv("HIP_PATH", newer)
	table, err := newTable()
	if err != nil {
		t.Fatal(err)
	}
	if table.Version != "HIP 6.4.43484" || table.Path != filepath.Join(older, "lib/libamdhip64.so.6") {
		t.Errorf("got %s of %s", table.Version, table.Path)
	}
}

// kernelLists makes the kernel list nodes, each a file of properties.
func kernelLists(t *testing.T, nodes ...string) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range nodes {
		folder := filepath.Join(dir, string(rune('0'+i)))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "properties"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(topologyVariable, dir)
}

const (
	processor = "cpu_cores_count 64\nsimd_count 0\nlocation_id 0\ndomain 0\ngfx_target_version 0\n"
	other     = "simd_count 96\nlocation_id 8976\ndomain 0\ngfx_target_version 110001\n"                                      // another domain
	first     = "simd_count 1216\nsimd_per_cu 4\nvendor_id 4098\nlocation_id 8977\ndomain 1\ngfx_target_version 90402\nrest"  // 0x23.2.1
	wrong     = "simd_count 1216\nsimd_per_cu 4\nvendor_id 4098\nlocation_id 8977\ndomain 1\ngfx_target_version 90010\n"      // gfx90a
	unknown   = "simd_count 1216\nsimd_per_cu 4\nvendor_id 4098\nlocation_id 8977\ndomain 1\ngfx_target_version 4000000000\n" // no version
)

func TestTopology(t *testing.T) {
	damaged := []string{`ARCH "gfx942:sramecc+:xnack-"`, `ARCH "\x5a\x5a"`}
	for _, c := range []struct {
		name     string
		nodes    []string
		override string
		change   []string
		want     string
		err      string
	}{
		{"both agree", []string{processor, other, first}, "", nil, "gfx942", ""},
		{"not listed", []string{processor, other}, "", nil, "gfx942", ""},
		{"unknown there", []string{unknown}, "", nil, "gfx942", ""},
		{"they differ", []string{processor, wrong}, "", nil, "", "HIP says that the device is gfx942, but the kernel lists it as gfx90a"},
		{"overridden", []string{processor, wrong}, "9.4.2", nil, "gfx942", ""},
		{"HIP is damaged", []string{processor, other, first}, "", damaged, "gfx942", ""},
		{"HIP is damaged and not listed", []string{processor, other}, "", damaged, "", `got "ZZ" for an architecture`},
		{"HIP is damaged and overridden", []string{first}, "9.4.2", damaged, "", `got "ZZ" for an architecture`},
	} {
		t.Run(c.name, func(t *testing.T) {
			kernelLists(t, c.nodes...)
			t.Setenv("HSA_OVERRIDE_GFX_VERSION", c.override)
			stub(t, c.change...)
			table, err := newTable()
			if err != nil {
				t.Fatal(err)
			}
			p, err := table.Properties(0)
			if c.err == "" && (err != nil || p.Architecture != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %s, %v; want %s %s", p.Architecture, err, c.want, c.err)
			}
		})
	}
	kernelLists(t, processor, first)
	stub(t, "INIT 0", "INIT 100")
	if _, err := newTable(); err == nil || !strings.Contains(err.Error(), "the kernel lists gfx942: may this user open /dev/kfd") {
		t.Errorf("a device that HIP does not see: %v", err)
	}
}

func TestTargetNames(t *testing.T) {
	for version, want := range map[uint64]string{90402: "gfx942", 90010: "gfx90a", 110001: "gfx1101", 120001: "gfx1201", 90006: "gfx906", 90500: "gfx950", 0: "", 1 << 60: "", 91602: ""} {
		if got := targetName(version); got != want {
			t.Errorf("%d: got %q, want %q", version, got, want)
		}
	}
	for name, want := range map[string]int{"gfx906": 64, "gfx90a": 64, "gfx942": 64, "gfx950": 64, "gfx1030": 32, "gfx1101": 32, "gfx1201": 32} {
		if got := warpWidth(name); got != want {
			t.Errorf("%s: got a width of %d, want %d", name, got, want)
		}
	}
}

func TestDisplayName(t *testing.T) {
	for text, want := range map[string]string{"AMD Radeon RX 7800 XT": "AMD Radeon RX 7800 XT", "": "AMD gfx1101", " \x01\x02 ": "AMD gfx1101", "Radeon\n": "Radeon"} {
		if got := displayName(text, "gfx1101"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
