package shm

import (
	"bufio"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"tokitai/device"
)

const deviceName = "shared memory"

func outOfMemory(asked int64) error {
	free, _ := available()
	return &device.OutOfMemoryError{Device: deviceName, Asked: asked, Free: free}
}

// available returns the number of bytes that can be allocated before the system starts to
// kill processes: the minimum over the machine and the control groups of this process.
func available() (bytes int64, isKnown bool) {
	meminfo, err := fields("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	kibibytes, isKnown := meminfo["MemAvailable:"]
	if !isKnown {
		return 0, false
	}
	bytes = (kibibytes + meminfo["SwapFree:"]) << 10
	if cgroup, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		for _, group := range controlGroups(string(cgroup)) {
			bytes = min(bytes, group.available())
		}
	}
	return max(bytes, 0), true
}

// groupFiles are the file names of a version of control groups.
type groupFiles struct {
	limit, used string
	cached      []string // fields of memory.stat
}

var (
	version1 = groupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", []string{"total_active_file", "total_inactive_file"}}
	version2 = groupFiles{"memory.max", "memory.current", []string{"active_file", "inactive_file"}}
)

// group is a control group that limits memory.
type group struct {
	folder string
	files  groupFiles
}

// controlGroups returns the control groups of this process, given the text of
// /proc/self/cgroup: of both versions, innermost first. Some of the folders may not
// exist.
func controlGroups(cgroup string) []group {
	var groups []group
	for line := range strings.Lines(cgroup) {
		// number:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		root, files := "/sys/fs/cgroup", version2
		if slices.Contains(strings.Split(parts[1], ","), "memory") {
			root, files = "/sys/fs/cgroup/memory", version1
		} else if parts[1] != "" {
			continue
		}
		for folder := path.Join(root, parts[2]); strings.HasPrefix(folder, root); folder = path.Dir(folder) {
			groups = append(groups, group{folder, files})
		}
	}
	return groups
}

// available returns the unused part of a group's limit. Cached files count as unused,
// since the system evicts them when needed.
func (g group) available() int64 {
	limit, err := number(path.Join(g.folder, g.files.limit))
	if err != nil {
		return math.MaxInt64 // no limit: the file is absent, or says "max"
	}
	used, err := number(path.Join(g.folder, g.files.used))
	if err != nil {
		return math.MaxInt64
	}
	bytes := limit - used
	if stat, err := fields(path.Join(g.folder, "memory.stat")); err == nil {
		for _, name := range g.files.cached {
			bytes += stat[name]
		}
	}
	return bytes
}

func number(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// fields reads a file of lines with a name and a number.
func fields(file string) (map[string]int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	values := map[string]int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		if value, err := strconv.ParseInt(words[1], 10, 64); err == nil {
			values[words[0]] = value
		}
	}
	return values, lines.Err()
}
