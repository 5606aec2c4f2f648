package gpu_test

import (
	"regexp"
	"strings"
	"testing"

	"tokitai/lower/gpu"
)

// TestParts: each part has one kernel and everything that is no kernel, line for line;
// together they are the whole.
func TestParts(t *testing.T) {
	entry := regexp.MustCompile(`(?m)^KERNEL(?:_BLOCKS)?\((\w+),`)
	for _, d := range shipped {
		for _, dtypes := range d.Formats() {
			for _, v := range variants {
				k, err := gpu.Compile(d, dtypes, v)
				if err != nil {
					t.Fatal(err)
				}
				whole := strings.Split(k.Source.Text, "\n")
				parts := k.Source.Parts()
				if len(parts) != len(k.Source.Entries) {
					t.Fatalf("%s: %d parts, want %d", d.Name, len(parts), len(k.Source.Entries))
				}
				kept := make([]int, len(whole)) // parts that have a line
				for i, p := range parts {
					found := entry.FindAllStringSubmatch(p.Text, -1)
					if len(found) != 1 || found[0][1] != k.Source.Entries[i] || len(p.Entries) != 1 || p.Entries[0] != k.Source.Entries[i] {
						t.Errorf("%s: part %d has kernels %v and entries %v, want %s", d.Name, i, found, p.Entries, k.Source.Entries[i])
					}
					if open, closed := strings.Count(p.Text, "{"), strings.Count(p.Text, "}"); open != closed {
						t.Errorf("%s: part %d opens %d braces and closes %d", d.Name, i, open, closed)
					}
					lines := strings.Split(p.Text, "\n")
					if len(lines) != len(whole) {
						t.Fatalf("%s: part %d has %d lines, want %d", d.Name, i, len(lines), len(whole))
					}
					for n, line := range lines {
						switch line {
						case whole[n]:
							kept[n]++
						case "":
						default:
							t.Fatalf("%s: part %d, line %d: %q, want %q or nothing", d.Name, i, n+1, line, whole[n])
						}
					}
				}
				for n, count := range kept {
					if count != 1 && count != len(parts) && whole[n] != "" {
						t.Fatalf("%s: %d of %d parts have line %d, %q", d.Name, count, len(parts), n+1, whole[n])
					}
				}
			}
		}
	}
}
