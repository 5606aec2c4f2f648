package device

import (
	"fmt"
	"strconv"
	"strings"
)

// nameForms lists the names that ParseName accepts, for its error.
var nameForms = []string{"auto", "cpu", "cuda:<index>", "sim", "sim:32", "sim:64"}

// defaultSimWidth is the warp width of "sim" without a number.
const defaultSimWidth = 32

// ParseName splits a device name into its kind and its number. The number is
// the index of the device (cuda, hip; default 0) or the warp width (sim; default
// 32). auto and cpu take no number and return 0. ParseName does not check that
// the device exists. The error is a NoDeviceError.
func ParseName(name string) (kind string, index int, err error) {
	kind, digits, hasNumber := strings.Cut(name, ":")
	refuse := func(format string, args ...any) (string, int, error) {
		return "", 0, &NoDeviceError{Name: name, Known: nameForms, Reason: fmt.Sprintf(format, args...)}
	}
	switch kind {
	case "auto", "cpu":
		if hasNumber {
			return refuse("%s takes no number", kind)
		}
		return kind, 0, nil
	case "sim":
		if !hasNumber {
			return kind, defaultSimWidth, nil
		}
	case "cuda", "hip":
		if !hasNumber {
			return kind, 0, nil
		}
	default:
		return refuse("unknown kind")
	}

	index, err = strconv.Atoi(digits)
	if err != nil || strconv.Itoa(index) != digits || index < 0 || index > maxIndex {
		return refuse("%q is not a number from 0 to %d", digits, maxIndex)
	}
	if kind == "sim" && index != 32 && index != 64 {
		return refuse("the warp width is 32 or 64")
	}
	return kind, index, nil
}

// maxIndex is far above any machine's number of devices; it keeps an index
// within the 32 bits that drivers take.
const maxIndex = 65535
