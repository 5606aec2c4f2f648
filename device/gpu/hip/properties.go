package hip

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"tokitai/device"
	"tokitai/device/gpu/driver"
)

// Attributes of hipDeviceGetAttribute. Their numbers are the same in all versions from 5.0
// to 7.
const (
	attributeClockKHz        = 5
	attributeCacheBytes      = 19
	attributeThreadsPerBlock = 56
	attributeMultiprocessors = 63
	attributeBus             = 67
	attributeDevice          = 68
	attributeDomain          = 69
	attributeSharedPerBlock  = 74
	attributeWarpSize        = 87
)

// hipDeviceProp_t has 792 bytes before version 6 and 1472 since then. The name of the
// architecture is all that no attribute tells.
const (
	propertyBytes    = 16 << 10
	archNameAt5      = 396
	archNameAt6      = 1160
	archNameCapacity = 256
)

func (l *library) count() (int, error) {
	n, err := l.Create(&l.api.hipGetDeviceCount)
	if e, ok := errors.AsType[*driver.Error](err); ok && e.Code == codeNoDevice {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	const most = 4096 // device files of a kernel
	if count := int(int32(n)); count >= 0 && count <= most {
		return count, nil
	}
	return 0, fmt.Errorf("hipGetDeviceCount: got %d devices, want 0 to %d", int32(n), most)
}

func (l *library) properties(index int) (driver.Properties, error) {
	refuse := func(err error) (driver.Properties, error) {
		return driver.Properties{}, noDevice(name(index), "%s: %v", l.path, err)
	}
	n, err := l.count()
	switch {
	case err != nil:
		return refuse(err)
	case n == 0:
		return driver.Properties{}, noDevice(name(index), "%s (%s) sees no GPU%s", l.version, l.path, unseen())
	case index < 0 || index >= n:
		known := make([]string, n)
		for i := range known {
			known[i] = name(i)
		}
		return driver.Properties{}, &device.NoDeviceError{Name: name(index), Known: known, Reason: fmt.Sprintf("number of GPUs that HIP sees: %d", n)}
	}
	architecture, err := l.architecture(index)
	if err != nil {
		return refuse(err)
	}
	text, err := l.Name(&l.api.hipDeviceGetName, uintptr(index))
	if err != nil {
		return refuse(err)
	}
	memory, err := l.Create(&l.api.hipDeviceTotalMem, uintptr(index))
	if err != nil {
		return refuse(err)
	}
	p := driver.Properties{Name: displayName(text, architecture), Architecture: architecture, MemoryBytes: int64(memory)}
	if p.MemoryBytes < 1<<20 || p.MemoryBytes > 1<<50 {
		return refuse(fmt.Errorf("hipDeviceTotalMem: got %d bytes, want 1 MiB to 1 PiB", p.MemoryBytes))
	}
	for _, a := range []struct {
		to            *int
		number        uintptr
		name          string
		least, utmost int
	}{
		{&p.Multiprocessors, attributeMultiprocessors, "multiprocessors", 1, 1 << 14},
		{&p.WarpWidth, attributeWarpSize, "threads in a warp", 32, 64},
		{&p.SharedBytes, attributeSharedPerBlock, "bytes of shared memory", 16 << 10, 1 << 20},
		{&p.ThreadsPerBlock, attributeThreadsPerBlock, "threads in a block", 256, 1 << 14},
	} {
		value, err := l.attribute(index, a.number)
		if err != nil {
			return refuse(err)
		}
		if value < a.least || value > a.utmost {
			return refuse(fmt.Errorf("hipDeviceGetAttribute: got %d %s, want %d to %d", value, a.name, a.least, a.utmost))
		}
		*a.to = value
	}
	if want := warpWidth(architecture); p.WarpWidth != want {
		return refuse(fmt.Errorf("hipDeviceGetAttribute: got %d threads in a warp of %s, want %d", p.WarpWidth, architecture, want))
	}
	// These are for people: what cannot be had is 0, for unknown.
	if bytes, err := l.attribute(index, attributeCacheBytes); err == nil && bytes > 0 {
		p.CacheBytes = bytes
	}
	if kHz, err := l.attribute(index, attributeClockKHz); err == nil && kHz > 0 {
		p.ClockHz = 1e3 * float64(kHz)
	}
	return p, nil
}

func (l *library) attribute(index int, number uintptr) (int, error) {
	v, err := l.Create(&l.api.hipDeviceGetAttribute, number, uintptr(index))
	return int(int32(v)), err
}

// displayName returns a device's name for people. HIP has none for devices that its list of
// products lacks.
func displayName(name, architecture string) string {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == '\u007f' || r == '\ufffd' {
			return -1
		}
		return r
	}, name))
	if name == "" {
		return "AMD " + architecture
	}
	return name
}

// target matches the name of an architecture and its settings: gfx942:sramecc+:xnack-. Code
// that is compiled without settings runs with any.
var target = regexp.MustCompile(`^(gfx[1-9][0-9a-f]{2,4})(?::[a-z0-9]+[+-])*$`)

// warpWidth returns the number of threads in a warp of kernels that compilers make for an
// architecture: 64 up to gfx9, 32 since gfx10.
func warpWidth(architecture string) int {
	if len(architecture) == len("gfx942") {
		return 64
	}
	return 32
}

// architecture returns the architecture that code for a device is compiled for, as HIP and
// the kernel tell it.
func (l *library) architecture(index int) (string, error) {
	told, failed := l.reportedArchitecture(index)
	listed := l.listedArchitecture(index)
	override := os.Getenv("HSA_OVERRIDE_GFX_VERSION")
	switch {
	case failed == nil && (listed == "" || listed == told || override != ""):
		return told, nil // with an override, code for the device's own architecture would not load
	case failed == nil:
		return "", fmt.Errorf("HIP says that the device is %s, but the kernel lists it as %s", told, listed)
	case listed != "" && override == "":
		return listed, nil
	}
	return "", failed
}

// reportedArchitecture returns the architecture that HIP reports.
func (l *library) reportedArchitecture(index int) (string, error) {
	call, at := &l.api.hipGetDevicePropertiesR0600, archNameAt6
	if call.IsMissing {
		call, at = &l.api.hipGetDeviceProperties, archNameAt5
	}
	if call.IsMissing {
		return "", errors.New("there is no hipGetDeviceProperties to tell the architecture")
	}
	f := l.Frame()
	defer l.Done(f)
	properties := make([]byte, propertyBytes)
	f.Args[0], f.Args[1] = f.Hold(properties), uintptr(index)
	if err := l.Call(call, f, 2); err != nil {
		return "", err
	}
	text, _, _ := strings.Cut(string(properties[at:at+archNameCapacity]), "\x00")
	found := target.FindStringSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s: got %q for an architecture, want a name such as gfx942", call.Name, text)
	}
	return found[1], nil
}

// listedArchitecture returns the architecture that the kernel lists for a device, "" if it
// does not.
func (l *library) listedArchitecture(index int) string {
	domain, err1 := l.attribute(index, attributeDomain)
	bus, err2 := l.attribute(index, attributeBus)
	device, err3 := l.attribute(index, attributeDevice)
	if errors.Join(err1, err2, err3) != nil {
		return ""
	}
	return architectureAt(readTopology(), domain, bus, device)
}
