package main

import (
	"fmt"
	"io"
)

// printPromises prints what became of the promises other than bits: two answers, and how sharp
// the question was.
func (v *verification) printPromises(w io.Writer) {
	for _, r := range v.reports() {
		answers := r.Answers()
		if answers == "" || r.Elements == 0 {
			continue
		}
		promise := r.Promise
		if r.Profile != "" {
			promise += "/" + r.Profile
		}
		fmt.Fprintf(w, "\n%s, %s, %s\n  %s\n", r.Lowering, r.DType, promise, answers)
		if text := r.Sharpness(); text != "" {
			fmt.Fprintf(w, "  %s\n", text)
		}
		for _, line := range r.Departures() {
			fmt.Fprintf(w, "  %s\n", oneLine(line))
		}
	}
}
