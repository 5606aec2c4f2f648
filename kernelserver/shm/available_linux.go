package shm

import (
	"bufio"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"tokitai/device"
)

const deviceName = "shared memory"

func outOfMemory(asked int64) error {
	free, _ := available()
	return &device.OutOfMemoryError{Device: deviceName, Asked: asked, Free: free}
}

// available is how many bytes can be allocated without anything being killed for
// them: of the machine, and of the control groups that hold this process.
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
	for _, group := range controlGroups() {
		bytes = min(bytes, groupAvailable(group))
	}
	return max(bytes, 0), true
}

// controlGroups lists the directories of the groups that hold this process, from
// the innermost outwards. There are none without control groups of version 2.
func controlGroups() []string {
	const root = "/sys/fs/cgroup"
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		group, isVersion2 := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !isVersion2 {
			continue
		}
		var groups []string
		for folder := path.Join(root, group); strings.HasPrefix(folder, root); folder = path.Dir(folder) {
			groups = append(groups, folder)
		}
		return groups
	}
	return nil
}

// groupAvailable is the limit of a group less what is used in it. Files that are
// merely cached make room when they must.
func groupAvailable(group string) int64 {
	limit, err := number(path.Join(group, "memory.max"))
	if err != nil {
		return math.MaxInt64 // no limit: the file is absent, or says "max"
	}
	used, err := number(path.Join(group, "memory.current"))
	if err != nil {
		return math.MaxInt64
	}
	stat, err := fields(path.Join(group, "memory.stat"))
	if err != nil {
		return limit - used
	}
	return limit - used + stat["active_file"] + stat["inactive_file"]
}

func number(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// fields reads lines of a name and a number.
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
