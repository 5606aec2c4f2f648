package standin

import (
	"os"
	"strings"
	"testing"
)

// TestLoader runs this binary under the loader of a folder, and sees in the memory map of the
// process that it was.
func TestLoader(t *testing.T) {
	if os.Getenv("TOKITAI_TEST_LOADER") != "" {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", maps)
		return
	}
	for _, r := range NeedsROCm(t) {
		command := r.Command(t, "-test.run=^TestLoader$", "-test.v")
		command.Env = append(os.Environ(), "TOKITAI_TEST_LOADER=1")
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, file := range []string{"ld-linux-x86-64.so.2", "libc.so.6"} {
			if !strings.Contains(string(out), r.Libraries()+"/"+file) {
				t.Errorf("%s: the folder's %s is not used:\n%s", r.Folder, file, out)
			}
		}
	}
}
