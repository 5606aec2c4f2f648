package soak

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// allowedCores lists the cores that this process may use.
func allowedCores() (cores []int, isPlaced bool) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return workers(), false
	}
	for core := range len(set) * 64 {
		if set.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores, len(cores) > 0
}

// pin keeps this thread on a core.
func pin(core int) error {
	var set unix.CPUSet
	set.Set(core)
	return unix.SchedSetaffinity(0, &set)
}

// watchProcessor samples temperatures, and counts what the kernel counts of throttling and of errors of
// the memory.
func watchProcessor() *monitor {
	m := &monitor{stop: make(chan struct{})}
	h := Health{Source: "the kernel's files"}
	sensors := glob("/sys/class/hwmon/hwmon*/temp*_input")
	before := counters()
	if len(sensors) == 0 && len(before) == 0 {
		m.fill = func(to *Health) {
			to.NotTold = "the kernel has no files of temperatures, throttling or errors of memory here"
		}
		return m
	}
	m.every(func() {
		h.Samples++
		var hottest *float64
		for _, path := range sensors {
			if n, ok := readNumber(path); ok && (hottest == nil || float64(n)/1000 > *hottest) {
				hottest = new(float64(n) / 1000)
			}
		}
		add(&h.Celsius, hottest)
	})
	m.fill = func(to *Health) {
		for i, c := range counters() {
			if i < len(before) && before[i].Name == c.Name {
				h.Errors = append(h.Errors, Counter{c.Name, before[i].After, c.After})
			}
		}
		*to = h
	}
	return m
}

// counters sums the counters of each kind.
func counters() (list []Counter) {
	for _, kind := range []struct{ name, pattern string }{
		{"times a core was throttled", "/sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count"},
		{"memory errors corrected", "/sys/devices/system/edac/mc/mc*/ce_count"},
		{"memory errors not corrected", "/sys/devices/system/edac/mc/mc*/ue_count"},
	} {
		sum, isTold := int64(0), false
		for _, path := range glob(kind.pattern) {
			if n, ok := readNumber(path); ok {
				sum, isTold = sum+n, true
			}
		}
		if isTold {
			list = append(list, Counter{Name: kind.name, After: sum})
		}
	}
	return list
}

func glob(pattern string) []string {
	list, _ := filepath.Glob(pattern) // the patterns are valid
	return list
}

func readNumber(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}
