package device

import (
	"fmt"
	"strconv"
	"strings"
)

// NoNumber is the number of a device whose name has none.
const NoNumber = -1

// maxNumber is far above any machine's number of devices, and fits in the 32 bits that
// drivers take.
const maxNumber = 65535

// ParseName splits a device name such as "cpu", "cuda:0" or "sim:64" into its kind and the
// number after the colon, or NoNumber. It does not check that the kind or the device
// exists. The error is a NoDeviceError.
func ParseName(name string) (kind string, number int, err error) {
	kind, digits, hasNumber := strings.Cut(name, ":")
	refuse := func(format string, args ...any) (string, int, error) {
		return "", 0, &NoDeviceError{Name: name, Reason: fmt.Sprintf(format, args...)}
	}
	if !isKind(kind) {
		return refuse("unknown kind")
	}
	if !hasNumber {
		return kind, NoNumber, nil
	}
	number, err = strconv.Atoi(digits)
	if err != nil || strconv.Itoa(number) != digits || number < 0 || number > maxNumber {
		return refuse("%q is not a number from 0 to %d", digits, maxNumber)
	}
	return kind, number, nil
}

// isKind reports whether s is spelled like a kind of device: lower-case letters.
func isKind(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == ""
}
