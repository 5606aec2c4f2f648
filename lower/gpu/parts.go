package gpu

import (
	"regexp"
	"strings"
)

// kernelLine matches the first line of a kernel. A kernel ends on that line, or with the
// next line that is a closing brace.
var kernelLine = regexp.MustCompile(`^KERNEL(?:_BLOCKS|_ALONE)?\((\w+),`)

// Parts splits a source into sources of one kernel each, in the order of Entries, so that
// they can be compiled at the same time. Lines keep their numbers: a compiler's messages
// fit the whole.
func (s Source) Parts() []Source {
	lines := strings.Split(s.Text, "\n")
	owner := make([]string, len(lines)) // the kernel of each line; "" belongs to every part
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
		parts[k] = Source{Name: s.Name, Text: strings.Join(kept, "\n"), Entries: []string{entry}, NeedsTensorCores: s.NeedsTensorCores}
	}
	return parts
}
