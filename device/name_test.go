package device

import (
	"errors"
	"strings"
	"testing"
)

func TestParseName(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		number     int
	}{
		{"auto", "auto", NoNumber},
		{"cpu", "cpu", NoNumber},
		{"cuda:0", "cuda", 0},
		{"cuda", "cuda", NoNumber},
		{"cuda:17", "cuda", 17},
		{"hip:65535", "hip", 65535},
		{"abacus:48", "abacus", 48},
	} {
		kind, number, err := ParseName(c.name)
		if kind != c.kind || number != c.number || err != nil {
			t.Errorf("ParseName(%q) = %q, %d, %v; want %q, %d", c.name, kind, number, err, c.kind, c.number)
		}
	}
}

func TestParseNameRefuses(t *testing.T) {
	for name, reason := range map[string]string{
		"":                          "unknown kind",
		"CUDA:0":                    "unknown kind",
		" cpu":                      "unknown kind",
		":0":                        "unknown kind",
		"cuda:":                     `"" is not a number`,
		"cuda:-1":                   `"-1" is not a number`,
		"cuda:+1":                   `"+1" is not a number`,
		"cuda:01":                   `"01" is not a number`,
		"cuda:0:1":                  `"0:1" is not a number`,
		"hip:x":                     `"x" is not a number`,
		"hip:65536":                 `"65536" is not a number`,
		"cuda:99999999999999999999": "is not a number",
	} {
		kind, number, err := ParseName(name)
		if kind != "" || number != 0 {
			t.Errorf("ParseName(%q) = %q, %d, want nothing beside the error", name, kind, number)
		}
		var none *NoDeviceError
		if !errors.Is(err, ErrNoDevice) || !errors.As(err, &none) || none.Name != name {
			t.Errorf("ParseName(%q): error %v is not a NoDeviceError of that name", name, err)
			continue
		}
		if !strings.Contains(err.Error(), reason) {
			t.Errorf("ParseName(%q): error %q does not say %q", name, err, reason)
		}
	}
}
