package device

import (
	"errors"
	"strings"
	"testing"
)

func TestParseName(t *testing.T) {
	for _, c := range []struct{ name, kind, id string }{
		{"auto", "auto", ""},
		{"cpu", "cpu", ""},
		{"cuda:0", "cuda", "0"},
		{"cuda", "cuda", ""},
		{"cuda:-1", "cuda", "-1"},
		{"cuda:0:1", "cuda", "0:1"},
		{"abacus:brass", "abacus", "brass"},
	} {
		kind, id, err := ParseName(c.name)
		if kind != c.kind || id != c.id || err != nil {
			t.Errorf("ParseName(%q) = %q, %q, %v; want %q, %q", c.name, kind, id, err, c.kind, c.id)
		}
	}
}

func TestParseNameRefuses(t *testing.T) {
	for name, reason := range map[string]string{
		"":       "unknown kind",
		"CUDA:0": "unknown kind",
		" cpu":   "unknown kind",
		":0":     "unknown kind",
		":":      "unknown kind",
		"cuda:":  `nothing follows "cuda:"`,
	} {
		kind, id, err := ParseName(name)
		if kind != "" || id != "" {
			t.Errorf("ParseName(%q) = %q, %q, want nothing beside the error", name, kind, id)
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

func TestParseIndex(t *testing.T) {
	for id, want := range map[string]int{"": 0, "0": 0, "17": 17, "65535": 65535} {
		if got, err := ParseIndex(id); got != want || err != nil {
			t.Errorf("ParseIndex(%q) = %d, %v, want %d", id, got, err, want)
		}
	}
	for _, id := range []string{"-1", "+1", "01", "0:1", "x", " 0", "65536", "99999999999999999999"} {
		got, err := ParseIndex(id)
		if want := `"` + id + `" is not a number from 0 to 65535`; got != 0 || err == nil || err.Error() != want {
			t.Errorf("ParseIndex(%q) = %d, %v, want the error %q", id, got, err, want)
		}
	}
}

func TestCheckNoID(t *testing.T) {
	if err := CheckNoID("abacus", ""); err != nil {
		t.Error(err)
	}
	if err := CheckNoID("abacus", "0"); err == nil || err.Error() != "abacus takes no id" {
		t.Errorf("got %v, want an error that says so", err)
	}
}
