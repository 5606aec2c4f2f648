package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// progress is one line that says what is going on, on a terminal that can erase it;
// elsewhere nothing. It has no colours, so that NO_COLOR changes nothing.
type progress struct{ w io.Writer }

func progressOn(w io.Writer) progress {
	if f, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())) {
		return progress{w}
	}
	return progress{io.Discard}
}

func (p progress) isShown() bool { return p.w != io.Discard }

const eraseLine = "\r\x1b[K"

func (p progress) say(format string, args ...any) {
	fmt.Fprintf(p.w, eraseLine+format, args...)
}

func (p progress) end() { io.WriteString(p.w, eraseLine) }
