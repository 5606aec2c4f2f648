package gpu

import (
	"regexp"
	"strings"
)

// kernelLine begins a kernel. One that does not end on its line ends before the next line
// that is a brace alone.
var kernelLine = regexp.MustCompile(`^KERNEL(?:_BLOCKS)?\((\w+),`)

// Parts divides a source into sources of one kernel each, in the order of Entries, which
// can be compiled at the same time. Every line stays where it is, so that a compiler's
// messages are those of the whole.
func (s Source) Parts() []Source {
	lines := strings.Split(s.Text, "\n")
	owner := make([]string, len(lines)) // the kernel that a line belongs to; "" is every part's
	name := ""
	for i, line := range lines {
		isWhole := false
		if m := kernelLine.FindStringSubmatch(line); m != nil {
			name, isWhole = m[1], strings.HasSuffix(line, "}")
		}
		if owner[i] = name; isWhole || line == "}" {
			name = ""
		}
	}
	parts := make([]Source, len(s.Entries))
	for k, entry := range s.Entries {
		kept := make([]string, len(lines))
		for i, line := range lines {
			if owner[i] == "" || owner[i] == entry {
				kept[i] = line
			}
		}
		parts[k] = Source{Name: s.Name, Text: strings.Join(kept, "\n"), Entries: []string{entry}}
	}
	return parts
}
