package hip

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"tokitai/device"
	"tokitai/device/gpu/compile"
	"tokitai/device/gpu/driver/clib"
	"tokitai/device/gpu/hip/standin"
	"tokitai/internal/dl"
	"tokitai/internal/testlevel"
	lowergpu "tokitai/lower/gpu"
	"tokitai/op/all"
)

// underROCm is set in a process that runs with AMD's libraries.
const underROCm = "TOKITAI_TEST_UNDER_ROCM"

// TestROCm runs TestUnderROCm with each version of AMD's libraries that there is.
func TestROCm(t *testing.T) {
	folders := standin.NeedsROCm(t)
	testlevel.Need(t, testlevel.Quick, "compiles for a minute")
	for _, r := range folders {
		t.Run(r.Name(), func(t *testing.T) {
			command := r.Command(t, "-test.run=^TestUnderROCm$", "-test.v", "-test.timeout=0")
			command.Env = append(os.Environ(), underROCm+"=1")
			out, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestUnderROCm ") {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

// TestUnderROCm opens AMD's libraries without a device: they are opened, report that there is
// none, and their compiler compiles. At level full it compiles a source of every operation, and
// at exhaustive all, for every architecture that it is proven for.
func TestUnderROCm(t *testing.T) {
	if os.Getenv(underROCm) == "" {
		t.Skip("is run by TestROCm")
	}
	_, err := Table()
	var missing *device.NoDeviceError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "sees no GPU") || !strings.Contains(err.Error(), "libamdhip64.so.") {
		t.Fatalf("got %v, want a NoDeviceError that names the library", err)
	}
	t.Logf("%v", err)

	opened, err := dl.Open(request())
	if err != nil {
		t.Fatal(err)
	}
	l := &library{path: opened.Path()}
	if err := clib.Fill(&l.api, opened); err != nil {
		t.Fatal(err)
	}
	if l.version, err = l.readVersion(); err != nil {
		t.Fatal(err)
	}
	rtc, err := compile.OpenHIPRTC(l.path, l.version.Major)
	if err != nil {
		t.Fatal(err)
	}
	version := versionOf(rtc, l)
	identity, err := rtc.Identity()
	t.Logf("%s: %s, %x, %v", rtc, rtc.Path(), identity.Hash[:8], err)
	architectures := proven[[2]int{version.Major, version.Minor}]
	if len(architectures) == 0 {
		t.Fatalf("hipRTC %v is proven for no architecture", version)
	}
	for _, architecture := range architectures {
		for _, s := range sources(t) {
			p, err := rtc.Compile(architecture, s)
			if err != nil {
				t.Errorf("%s for %s: %v", s.Name, architecture, err)
				continue
			}
			t.Logf("%s for %s: %d bytes", s.Name, architecture, len(p.Image))
		}
	}
	// Both releases abort.
	_, err = rtc.Compile("gfx9999", compile.Source{Name: "k.hip", Text: "extern \"C\" __global__ void k() {}\n"})
	if err == nil || !strings.Contains(err.Error(), "compile k.hip for gfx9999: the process of hipRTC") {
		t.Errorf("an architecture that hipRTC does not know: %v", err)
	}
	t.Logf("%v", err)
}

// sources returns sources of the shipped operations.
func sources(t *testing.T) []compile.Source {
	t.Helper()
	var list []compile.Source
	for _, o := range all.Operations {
		for _, d := range o.Definitions {
			formats := d.Formats()
			if testlevel.Current() < testlevel.Exhaustive {
				formats = formats[:1]
			}
			for _, dtypes := range formats {
				k, err := lowergpu.Compile(d, dtypes, lowergpu.Vector)
				if err != nil {
					t.Fatal(err)
				}
				name := d.Name
				for _, f := range dtypes {
					name += "." + f.String()
				}
				list = append(list, compile.Source{Name: name, Text: "#include \"prelude.h\"\n" + k.Source.Text,
					Headers: []compile.Header{{Name: "prelude.h", Text: lowergpu.Prelude}}})
			}
		}
	}
	if testlevel.Current() < testlevel.Full {
		few := []string{"gelu.forward.", "softmax.forward.", "gemm.forward.f"}
		list = slices.DeleteFunc(list, func(s compile.Source) bool {
			return !slices.ContainsFunc(few, func(prefix string) bool { return strings.HasPrefix(s.Name, prefix) })
		})
	}
	return list
}
