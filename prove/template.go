package prove

import (
	"sync"
	"text/template"
)

// lazily returns a function that parses a template when it is called first: a program that writes no
// proof starts faster.
func lazily(name, text string) func() *template.Template {
	return sync.OnceValue(func() *template.Template { return template.Must(template.New(name).Parse(text)) })
}
