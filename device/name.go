package device

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseName splits a device name such as "cpu", "cuda:0" or "sim:64" into its kind and the
// id after the colon, which is empty if there is no colon. It does not check that the kind
// or the device exists: what an id is depends on the kind. The error is a NoDeviceError.
func ParseName(name string) (kind, id string, err error) {
	kind, id, hasID := strings.Cut(name, ":")
	if !isKind(kind) {
		return "", "", &NoDeviceError{Name: name, Reason: "unknown kind"}
	}
	if hasID && id == "" {
		return "", "", &NoDeviceError{Name: name, Reason: fmt.Sprintf("nothing follows %q", kind+":")}
	}
	return kind, id, nil
}

// isKind reports whether s is spelled like a kind of device: lower-case letters.
func isKind(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == ""
}

// maxIndex is far above any machine's number of devices, and fits in the 32 bits that
// drivers take.
const maxIndex = 65535

// ParseIndex returns the number that an id is, for a kind whose devices are numbered. An
// empty id is the first device, 0.
func ParseIndex(id string) (int, error) {
	if id == "" {
		return 0, nil
	}
	index, err := strconv.Atoi(id)
	if err != nil || strconv.Itoa(index) != id || index < 0 || index > maxIndex {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", id, maxIndex)
	}
	return index, nil
}

// CheckNoID returns an error if an id is not empty, for a kind with one device.
func CheckNoID(kind, id string) error {
	if id != "" {
		return fmt.Errorf("%s takes no id", kind)
	}
	return nil
}
