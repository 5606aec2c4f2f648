package hip

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver"
	"tokitai/device/gpu/driver/clib/clibtest"
)

func open(t *testing.T) *driver.Table {
	t.Helper()
	table, err := newTable()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestHIPRTC: the stub's compiler, which is in the library as in release 5, makes what it is
// given, in another process.
func TestHIPRTC(t *testing.T) {
	path := stub(t)
	table := open(t)
	c, err := table.Compiler(1)
	if err != nil {
		t.Fatal(err)
	}
	rtc, ok := c.(*compile.HIPRTC)
	if !ok || rtc.Path() != path || rtc.String() != "hipRTC 6" {
		t.Fatalf("got %v, want hipRTC of %s", c, path)
	}
	again, err := table.Compiler(0)
	if err != nil || again != c {
		t.Errorf("another compiler at the second time: %v, %v", again, err)
	}
	source := compile.Source{Name: "k.hip", Text: "text, ", Headers: []compile.Header{{Name: "first.h", Text: "first"}, {Name: "last.h", Text: "last"}}}
	for _, isCached := range []bool{false, true} {
		p, err := table.Compile(1, source)
		if err != nil || string(p.Image) != "\x7fELFtext, last" || p.FromCache != isCached {
			t.Errorf("got %+v, %v, want the text and the last header, from the cache: %v", p, err, isCached)
		}
	}
	for text, want := range map[string]string{
		"wrong":   "k.hip:2: unknown type name 'wrong'",
		"silent":  "hiprtcCompileProgram: HIPRTC_ERROR_11",
		"bundled": "not a code object",
	} {
		if _, err := table.Compile(1, compile.Source{Name: "k.hip", Text: text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	_, err = table.Compile(1, compile.Source{Name: "k.hip", Text: "wrong"})
	if e, ok := errors.AsType[*compile.Error](err); !ok || e.Line != 2 {
		t.Errorf("got %#v, want a compile.Error", err)
	}
	p, err := table.Compile(1, compile.Source{Name: "k.hip", Text: "warned"})
	if err != nil || !strings.Contains(p.Log, "careful") {
		t.Errorf("got %+v, %v, want the warning", p, err)
	}
}

// TestAborts: a compiler that aborts ends its process and not this one.
func TestAborts(t *testing.T) {
	path := stub(t, `ARCH "gfx942:sramecc+:xnack-"`, `ARCH "gfx9999"`, "WARP 64", "WARP 32")
	t.Setenv("TOKITAI_HIPRTC", path) // used for any architecture
	table := open(t)
	_, err := table.Compile(0, compile.Source{Name: "k.hip", Text: "text"})
	if err == nil || !strings.Contains(err.Error(), "compile k.hip for gfx9999: the process of hipRTC") || !strings.Contains(err.Error(), "free(): invalid pointer") {
		t.Errorf("got %v", err)
	}
}

// TestHalfROCm: without hipRTC and clang, the message says what there is none of.
func TestHalfROCm(t *testing.T) {
	path := stub(t, "hiprtcCompileProgram(", "another(")
	t.Setenv("PATH", t.TempDir())
	table := open(t)
	_, err := table.Compiler(0)
	for _, want := range []string{"no compiler for gfx942: no hipRTC: hipRTC, the compiler for AMD GPUs: not found", "libhiprtc.so.6", "not hipRTC: " + path + " has no hiprtcCompileProgram",
		"no clang for AMD GPUs", "install clang-22"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	t.Setenv("TOKITAI_HIPRTC", filepath.Join(t.TempDir(), "libhiprtc.so"))
	if _, err := table.Compiler(0); !errors.Is(err, compile.ErrNoHIPRTC) || !strings.Contains(err.Error(), os.Getenv("TOKITAI_HIPRTC")) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// releaseOf moves a library to a folder such as ROCm's releases have, and returns the folder.
func releaseOf(t *testing.T, library string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "lib"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(library, filepath.Join(root, "lib", filepath.Base(library))); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestBesideRuntime: hipRTC in the runtime's folder is taken before the one in its library,
// and has the version of its file's name.
func TestBesideRuntime(t *testing.T) {
	runtime := stub(t, `ARCH "gfx942:sramecc+:xnack-"`, `ARCH "gfx1201"`, "WARP 64", "WARP 32")
	file := filepath.Join(filepath.Dir(runtime), "libhiprtc.so.6.3.1")
	if err := os.Rename(clibtest.Build(t, "testdata/libamdhip64.cc", "libhiprtc.so"), file); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(filepath.Dir(runtime), "libhiprtc.so.6")
	if err := os.Symlink(filepath.Base(file), link); err != nil {
		t.Fatal(err)
	}
	rtc, err := compile.OpenHIPRTC(runtime, 6)
	if err != nil || rtc.Path() != link || rtc.String() != "hipRTC 6.3.1" {
		t.Fatalf("got %v of %s, %v", rtc, rtc.Path(), err)
	}

	// What another release has comes last.
	alone := stub(t)
	t.Setenv("ROCM_PATH", releaseOf(t, clibtest.Build(t, "testdata/libamdhip64.cc", "libhiprtc.so.6")))
	if inside, err := compile.OpenHIPRTC(alone, 6); err != nil || inside.Path() != alone {
		t.Errorf("got %v, %v, want the compiler inside the library", inside, err)
	}
	without := stub(t, "hiprtcCompileProgram(", "another(")
	if elsewhere, err := compile.OpenHIPRTC(without, 6); err != nil || elsewhere.Path() != filepath.Join(os.Getenv("ROCM_PATH"), "lib/libhiprtc.so.6") {
		t.Errorf("got %v, %v, want the compiler of another release", elsewhere, err)
	}

	l := &library{path: runtime, version: Version{6, 4, 43484}}
	if v := versionOf(rtc, l); v != (Version{6, 3, 1}) || isProven(v, "gfx1201") {
		t.Errorf("got version %v, want that of the file, for which nothing is proven", v)
	}
	if !isProven(Version{6, 4, 43484}, "gfx1201") || isProven(Version{5, 7, 31921}, "gfx1201") {
		t.Error("gfx1201 is proven for 6.4 and not for 5.7")
	}
}
