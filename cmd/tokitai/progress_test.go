package main

import (
	"os"
	"strings"
	"testing"
)

// The line is shown on a terminal that can erase it, whatever NO_COLOR says.
func TestProgress(t *testing.T) {
	if progressOn(&strings.Builder{}).isTerminal {
		t.Error("it is shown where there is no terminal")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	defer terminal.Close()
	for _, row := range []struct {
		term, noColor string
		isShown       bool
	}{{"xterm", "", true}, {"xterm", "1", true}, {"", "", true}, {"dumb", "", false}, {"dumb", "1", false}} {
		t.Setenv("TERM", row.term)
		t.Setenv("NO_COLOR", row.noColor)
		if got := progressOn(terminal).isTerminal; got != row.isShown {
			t.Errorf("TERM=%s NO_COLOR=%s: shown is %t", row.term, row.noColor, got)
		}
	}
}
