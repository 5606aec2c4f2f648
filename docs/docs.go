// Package docs embeds documents for the program.
package docs

import (
	_ "embed"
	"strings"
)

//go:embed accuracy.md
var accuracy string

// Accuracy is what docs/accuracy.md says of an operation: its section, without the
// heading, or "" if it has none.
func Accuracy(operation string) string {
	_, section, ok := strings.Cut(accuracy, "\n## "+operation+"\n")
	if !ok {
		return ""
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return strings.TrimSpace(section) + "\n"
}
