package stdio

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"tokitai/op/adamw"
)

// The table of docs/stdio.md says what the table of kernels says.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/stdio.md")
	if err != nil {
		t.Fatal(err)
	}
	for i := range kernels {
		k := &kernels[i]
		var lists, codes, keys []string
		choice := slices.IndexFunc(k.checks, func(c check) bool { return strings.Contains("OP MODE ID", c.names) })
		for _, c := range k.checks {
			codes = append(codes, fmt.Sprintf("%d %s", c.code, c.names))
		}
		chosen := func(name string, value int64) form {
			return k.form(func(of string) int {
				if of == name {
					return int(value)
				}
				return 1
			}, adamw.Hyper{})
		}
		listed := func(when string, f form) {
			var all []string
			for _, l := range f.lists {
				all = append(all, fmt.Sprintf("%s %d", l.name, l.code))
			}
			lists = append(lists, when+strings.Join(all, ", "))
			text := "DEVICE_NAME GFX"
			if f.first.key != "" {
				text = f.first.key + " " + text
			}
			for _, l := range f.lines {
				text += " " + l.key
			}
			text += " KERNEL_TIME_MS"
			for _, r := range f.results {
				text += " " + r.name
			}
			switch n := len(keys); {
			case n == 0 && len(k.further) == 0, n > 0 && keys[n-1] == text:
				keys = []string{text}
			default:
				keys = append(keys, when+text)
			}
		}
		header := "`" + k.header + "`"
		if choice < 0 {
			listed("", chosen("", 0))
		} else {
			for c, v := k.checks[choice], k.checks[choice].min; v <= c.max; v++ {
				when := fmt.Sprintf("%s %d: ", c.names, v)
				listed(when, chosen(c.names, v))
				if further := k.further[v]; further != "" {
					header += "; " + when + "then `" + further + "`"
				}
			}
		}
		between := map[byte]string{' ': "space", ',': "comma"}[k.separator]
		row := fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", k.name, header, strings.Join(lists, "; "), strings.Join(codes, ", "), strings.Join(keys, "; "), between)
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/stdio.md has no row\n%s", row)
		}
	}
	for reason, code := range binaryReasons {
		if !strings.Contains(string(text), "`ERR "+reason+"`") || !strings.Contains(string(text), fmt.Sprintf("\n| %d | ", code)) {
			t.Errorf("docs/stdio.md does not name %q", reason)
		}
	}
}
