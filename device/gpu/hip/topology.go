package hip

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// topologyVariable names another folder than /sys/class/kfd/kfd/topology/nodes, with a
// folder per device in which the file properties has lines of a name and a number.
const topologyVariable = "TOKITAI_KFD_TOPOLOGY"

const topologyFolder = "/sys/class/kfd/kfd/topology/nodes"

// node is a GPU in the kernel's list of devices.
type node struct {
	architecture string // "gfx90a"; "" if the kernel does not know
	domain       uint64 // of PCI
	location     uint64 // bus, device and function: bus<<8 | device<<3 | function
}

// readTopology returns the GPUs that the kernel lists; none if it has no driver for them.
func readTopology() []node {
	folder := os.Getenv(topologyVariable)
	if folder == "" {
		folder = topologyFolder
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var nodes []node
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name(), "properties"))
		if err != nil {
			continue // users may list some devices only
		}
		if n, isGPU := parseNode(string(text)); isGPU {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// parseNode parses the properties of a node. A processor is a node too, without SIMDs.
func parseNode(text string) (n node, isGPU bool) {
	for line := range strings.Lines(text) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		value, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "simd_count":
			isGPU = value > 0
		case "gfx_target_version":
			n.architecture = targetName(value)
		case "domain":
			n.domain = value
		case "location_id":
			n.location = value
		}
	}
	return n, isGPU
}

// targetName returns the compiler's name of a version: 90010, for 9.0.10, is gfx90a.
func targetName(version uint64) string {
	major, minor, stepping := version/10000, version/100%100, version%100
	if major < 1 || major > 99 || minor > 15 || stepping > 15 {
		return ""
	}
	return fmt.Sprintf("gfx%d%x%x", major, minor, stepping)
}

// architectureAt returns the architecture of the device at a place on the PCI bus, "" if the
// kernel does not list it. Partitions of a device share its place up to the function.
func architectureAt(nodes []node, domain, bus, device int) string {
	for _, n := range nodes {
		if n.domain == uint64(domain) && n.location>>3 == uint64(bus)<<5|uint64(device) {
			return n.architecture
		}
	}
	return ""
}

// unseen says which GPUs the kernel lists, for a library that sees none.
func unseen() string {
	var names []string
	for _, n := range readTopology() {
		names = append(names, n.architecture)
	}
	if len(names) == 0 {
		return ", and the kernel lists none"
	}
	return fmt.Sprintf("; the kernel lists %s: may this user open /dev/kfd and /dev/dri (groups render and video), and do ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES allow it?",
		strings.Join(names, ", "))
}
