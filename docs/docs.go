// Package docs embeds documents for the program.
package docs

import (
	_ "embed"
	"strings"
)

//go:embed accuracy.md
var accuracy string

// Accuracy returns the section of docs/accuracy.md about an operation, without its heading,
// or "" if there is none.
func Accuracy(operation string) string {
	_, section, ok := strings.Cut(accuracy, "\n## "+operation+"\n")
	if !ok {
		return ""
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return strings.TrimSpace(section) + "\n"
}
