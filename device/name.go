package device

import (
	"fmt"
	"strconv"
	"strings"
)

// nameForms are the names ParseName takes, as an error lists them.
var nameForms = []string{"auto", "cpu", "cuda:<index>", "sim", "sim:32", "sim:64"}

// defaultSimWidth is the warp width of "sim" without a number.
const defaultSimWidth = 32

// ParseName splits a device's name into its kind and the number behind it:
// which device of a kind (cuda, hip; the first when left out) or the warp width (sim, 32 when left out).
// auto and cpu take no number and give 0. A well-formed name need not lead to a
// device that is there. The error is a NoDeviceError.
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
