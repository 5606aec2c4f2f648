package machine

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"
)

// permissions returns what the process may do with the page at an address; empty if it is
// not mapped.
func permissions(t *testing.T, address uintptr) string {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(maps) {
		var first, end uintptr
		var mode string
		if _, err := fmt.Sscanf(string(line), "%x-%x %s", &first, &end, &mode); err == nil && first <= address && address < end {
			return mode
		}
	}
	return ""
}

func TestPages(t *testing.T) {
	c := loadAdd(t)
	address := uintptr(unsafe.Pointer(&c.Bytes()[0]))
	if got := permissions(t, address); got != "r-xp" {
		t.Errorf("code lies in pages with %q, want r-xp", got)
	}
	runtime.KeepAlive(c)
	c = nil
	for limit := time.Now().Add(time.Minute); permissions(t, address) == "r-xp"; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the memory of code that nothing references is never given back")
		}
		runtime.GC()
	}
}
