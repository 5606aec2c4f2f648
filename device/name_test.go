package device

import (
	"errors"
	"strings"
	"testing"
)

func TestParseName(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		index      int
	}{
		{"auto", "auto", 0},
		{"cpu", "cpu", 0},
		{"cuda:0", "cuda", 0},
		{"cuda", "cuda", 0},
		{"cuda:17", "cuda", 17},
		{"hip:3", "hip", 3},
		{"hip:65535", "hip", 65535},
		{"sim", "sim", 32},
		{"sim:32", "sim", 32},
		{"sim:64", "sim", 64},
	} {
		kind, index, err := ParseName(c.name)
		if kind != c.kind || index != c.index || err != nil {
			t.Errorf("ParseName(%q) = %q, %d, %v; want %q, %d", c.name, kind, index, err, c.kind, c.index)
		}
	}
}

func TestParseNameRefuses(t *testing.T) {
	for name, reason := range map[string]string{
		"":                          "unknown kind",
		"gpu":                       "unknown kind",
		"CUDA:0":                    "unknown kind",
		" cpu":                      "unknown kind",
		"cpu:0":                     "takes no number",
		"auto:":                     "takes no number",
		"cuda:":                     `"" is not a number`,
		"cuda:-1":                   `"-1" is not a number`,
		"cuda:+1":                   `"+1" is not a number`,
		"cuda:01":                   `"01" is not a number`,
		"cuda:0:1":                  `"0:1" is not a number`,
		"hip:x":                     `"x" is not a number`,
		"hip:65536":                 `"65536" is not a number`,
		"cuda:99999999999999999999": "is not a number",
		"sim:16":                    "warp width is 32 or 64",
		"sim:":                      `"" is not a number`,
	} {
		kind, index, err := ParseName(name)
		if kind != "" || index != 0 {
			t.Errorf("ParseName(%q) = %q, %d, want nothing beside the error", name, kind, index)
		}
		var none *NoDeviceError
		if !errors.Is(err, ErrNoDevice) || !errors.As(err, &none) || none.Name != name {
			t.Errorf("ParseName(%q): error %v is not a NoDeviceError of that name", name, err)
			continue
		}
		for _, part := range []string{reason, "cpu, cuda:<index>", "sim:64"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("ParseName(%q): error %q does not say %q", name, err, part)
			}
		}
	}
}
