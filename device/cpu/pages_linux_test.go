package cpu

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"tokitai/device"
)

// A large buffer has asked for large pages, a small one has not changed anything.
func TestLargePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skipf("the system has no large pages: %v", err)
	}
	d, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b, err := d.Alloc(4 * hugePage)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	memory := b.(device.HostBuffer).Memory()
	if flags := flagsAt(t, uintptr(unsafe.Pointer(&memory[len(memory)/2]))); !strings.Contains(flags+" ", " hg ") {
		t.Errorf("a buffer of %d bytes has flags %q, want hg", len(memory), flags)
	}
	for n := range 3 * 64 {
		preferLargePages(make([]byte, n*hugePage/64)) // also less than a page
	}
}

// flagsAt returns the flags of the mapping that an address lies in.
func flagsAt(t *testing.T, address uintptr) string {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	isInside := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var low, high uintptr
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &low, &high); n == 2 {
			isInside = low <= address && address < high
		}
		if flags, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && isInside {
			return flags
		}
	}
	t.Skip("the system does not tell the flags of its mappings")
	return ""
}
