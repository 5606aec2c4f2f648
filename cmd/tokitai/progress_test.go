package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// With --progress-file, lines go to that file, without the command's name, and nothing to standard error.
func TestProgressFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "progress")
	if err := os.WriteFile(name, []byte("before\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	c, errors := newCheck(), &strings.Builder{}
	c.SetErr(errors)
	if err := c.Flags().Set(progressFlag, name); err != nil {
		t.Fatal(err)
	}
	p := startProgress(c)
	p.say("ten cases")
	p.mu.Lock()
	p.clock = func() time.Time { return p.began }
	p.print()
	p.mu.Unlock()
	p.end()
	got, err := os.ReadFile(name)
	if want := "before\nten cases, 0s\n"; err != nil || !strings.HasPrefix(string(got), want) || errors.Len() > 0 {
		t.Errorf("got %q and %q on standard error, want %q: %v", got, errors, want, err)
	}
}
