package standin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/hip"
)

func TestMain(m *testing.M) {
	mainWith(openHost)
	if os.Getenv(untidyVariable) != "" {
		if err := beUntidy(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// untidyVariable makes this binary a process that frees nothing before it ends.
const untidyVariable = "TOKITAI_TEST_UNTIDY"

func beUntidy() error {
	table, err := hip.Table()
	if err != nil {
		return err
	}
	if _, err := table.Retain(0); err != nil {
		return err
	}
	_, err1 := table.Alloc(1 << 18)
	_, err2 := table.AllocHost(1 << 12)
	_, err3 := table.NewStream()
	return errors.Join(err1, err2, err3)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestForward makes every call that package hip makes, on devices of another process.
func TestForward(t *testing.T) {
	server := Forward(t, "gfx1100", "gfx942")
	table, err := hip.Table()
	must(t, err)
	if n, err := table.Count(); n != 2 || err != nil {
		t.Errorf("got %d devices, %v, want 2", n, err)
	}
	p, err := table.Properties(0)
	must(t, err)
	if want := (driver.Properties{Name: "host gfx1100", Architecture: "gfx1100", MemoryBytes: 1 << 20, Multiprocessors: 3, WarpWidth: 32, SharedBytes: 65536,
		ThreadsPerBlock: 1024, CacheBytes: 4096, ClockHz: 2e9}); p != want {
		t.Errorf("properties %+v, want %+v", p, want)
	}
	c, err := table.Retain(0)
	must(t, err)
	must(t, table.SetCurrent(c))
	s, err := table.NewStream()
	must(t, err)

	a, err := table.Alloc(1 << 10)
	must(t, err)
	b, err := table.Alloc(1 << 10)
	must(t, err)
	if free, total, err := table.MemoryInfo(); free != 1<<20-2<<10 || total != 1<<20 || err != nil {
		t.Errorf("got %d of %d bytes free, %v", free, total, err)
	}
	untidy := exec.Command("/proc/self/exe")
	untidy.Env = append(os.Environ(), untidyVariable+"=1")
	if out, err := untidy.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for free := int64(0); free != 1<<20-2<<10; { // it becomes known a moment later that the process has ended
		free, _, err = table.MemoryInfo()
		must(t, err)
	}
	host, err := table.AllocHost(1 << 10)
	must(t, err)
	for i := range host {
		host[i] = byte(i)
	}
	pageable := bytes.Clone(host)
	must(t, errors.Join(table.CopyIn(a, host, s), table.CopyIn(b, pageable, s), table.Fill(b+1<<9, 3, 1<<9, s), table.Copy(a+1<<9, a, 1<<8, s)))

	image := append([]byte("\x7fELF"), make([]byte, 60)...)
	image[40] = 64 // no sections: the file is its header
	m, err := table.Load(image)
	must(t, err)
	if _, err := table.Lookup(m, "subtract"); err == nil || !strings.Contains(err.Error(), `no kernel "subtract"`) {
		t.Errorf("a kernel that is not there: %v", err)
	}
	f, err := table.Lookup(m, "add")
	must(t, err)
	parameters := func(to, x, y driver.Pointer) (list []byte) {
		for _, p := range []driver.Pointer{to, x, y} {
			list = binary.LittleEndian.AppendUint64(list, uint64(p))
		}
		return list
	}
	start, err := table.NewEvent(true)
	must(t, err)
	end, err := table.NewEvent(false)
	must(t, err)
	if done, err := table.EventDone(start); done || err != nil {
		t.Errorf("an event that is not recorded: %v, %v", done, err)
	}
	must(t, errors.Join(table.Record(start, s), table.Launch(f, [3]uint32{1 << 10, 1, 1}, [3]uint32{1, 1, 1}, 0, s, parameters(a, b, b)),
		table.Record(end, s), table.WaitEvent(s, end), table.SyncEvent(end), table.SyncStream(s)))
	if done, err := table.EventDone(start); !done || err != nil {
		t.Errorf("an event that is done: %v, %v", done, err)
	}
	if ms, err := table.Elapsed(start, end); ms != 2.5 || err != nil {
		t.Errorf("elapsed %v ms, %v", ms, err)
	}
	want := make([]byte, 1<<10)
	for i := range want {
		switch {
		case i < 1<<9:
			want[i] = 3 * byte(i)
		default:
			want[i] = byte(i) + 6
		}
	}
	must(t, table.CopyOut(host, a, s))
	must(t, table.CopyOut(pageable, a, s))
	if !bytes.Equal(host, want) || !bytes.Equal(pageable, want) {
		t.Errorf("the kernel's result arrived as % x…, % x…, want % x…", host[500:530], pageable[500:530], want[500:530])
	}

	if _, err := table.Alloc(1 << 20); !isClass(err, driver.OutOfMemory) {
		t.Errorf("more memory than there is: %v", err)
	}
	if err := table.DestroyEvent(driver.Event(s)); err == nil || !strings.Contains(err.Error(), "hipErrorInvalidHandle, code 400") {
		t.Errorf("a stream destroyed as an event: %v", err)
	}
	must(t, errors.Join(table.DestroyEvent(start), table.DestroyEvent(end), table.DestroyStream(s), table.Unload(m), table.Free(a), table.Free(b), table.FreeHost(host)))

	if err := table.Fill(1, 0, 1, s); !isClass(err, driver.Lost) {
		t.Errorf("memory that is not there: %v", err)
	}
	server.Kill()
	if _, err := table.Alloc(1); !isClass(err, driver.Lost) {
		t.Errorf("after the process has ended: %v", err)
	}
}

func isClass(err error, class driver.Class) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Class == class
}

// TestForwardCompile compiles with the other process's compiler.
func TestForwardCompile(t *testing.T) {
	Forward(t, "gfx1100")
	t.Setenv("TOKITAI_HIPRTC", os.Getenv(LibraryVariable))
	c, err := compile.OpenHIPRTC("", 6)
	must(t, err)
	p, err := c.Compile("gfx1100", compile.Source{Name: "a.hip", Text: "text", Headers: []compile.Header{{Name: "b.h", Text: " and header"}}})
	must(t, err)
	if !bytes.HasPrefix(p.Image, []byte("\x7fELF")) || !bytes.HasSuffix(p.Image, []byte("text and header")) {
		t.Errorf("compiled to %q", p.Image)
	}
	_, err = c.Compile("gfx1100", compile.Source{Name: "wrong.hip", Text: "wrong"})
	if e, ok := errors.AsType[*compile.Error](err); !ok || e.Line != 1 || e.Message != "gfx1100" {
		t.Errorf("a source that does not compile: %v", err)
	}
}
