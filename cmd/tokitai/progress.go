package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// progress prints the progress of a command on standard error. On a terminal it updates
// one line. Elsewhere it prints a plain line if a command takes longer than a few seconds,
// and another one from time to time. If standard error is not a file, as in tests, it
// prints nothing. It uses no colours, so NO_COLOR has no effect. With --progress-file, which is for
// programs that show the progress themselves, lines go to that file, several a second.
type progress struct {
	w          io.Writer
	command    string // before plain lines
	isTerminal bool
	isAsked    bool // by --progress-file

	mu    sync.Mutex
	clock func() time.Time
	began time.Time
	doing string
	done  float64 // work, in units of the command's own
	free  float64 // part of done that took no time
	total float64 // 0 if unknown
	isEnd bool
	ended chan struct{}
}

// The delay before the first plain line, and the pause between plain lines. Tests set the
// first to 0, which means no lines.
var (
	plainFirst = 3 * time.Second
	plainPause = 30 * time.Second
)

// terminalPause is the pause between updates of the line on a terminal.
const terminalPause = 100 * time.Millisecond

// progressOn returns a progress that prints to w.
func progressOn(w io.Writer) *progress {
	p := &progress{w: io.Discard, clock: time.Now, ended: make(chan struct{})}
	p.began = p.clock()
	f, ok := w.(*os.File)
	if !ok {
		return p
	}
	p.isTerminal = os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
	if p.isTerminal || plainFirst > 0 {
		p.w = w
	}
	return p
}

const progressFlag = "progress-file"

// registerProgress adds the hidden flag --progress-file to a command.
func registerProgress(c *cobra.Command) {
	c.Flags().String(progressFlag, "", "append lines of progress to `FILE`, which exists")
	c.Flags().MarkHidden(progressFlag)
}

// startProgress starts printing the progress of a command, until end is called.
func startProgress(c *cobra.Command) *progress {
	p := progressOn(c.ErrOrStderr())
	p.command = c.CommandPath()
	if name, err := c.Flags().GetString(progressFlag); err == nil && name != "" {
		if f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			p.w, p.isAsked, p.isTerminal = f, true, false
		}
	}
	if p.w != io.Discard {
		go p.tell()
	}
	return p
}

func (p *progress) tell() {
	next := plainFirst
	if p.isTerminal || p.isAsked {
		next = terminalPause
	}
	for {
		select {
		case <-p.ended:
			return
		case <-time.After(next):
		}
		if next = plainPause; p.isTerminal || p.isAsked {
			next = terminalPause
		}
		p.mu.Lock()
		if !p.isEnd {
			p.print()
		}
		p.mu.Unlock()
	}
}

const eraseLine = "\r\x1b[K"

// print writes the line.
func (p *progress) print() {
	switch {
	case p.isTerminal:
		fmt.Fprintf(p.w, "%s%s", eraseLine, p.line())
	case p.isAsked:
		fmt.Fprintln(p.w, p.line())
	default:
		fmt.Fprintf(p.w, "%s: %s\n", p.command, p.line())
	}
}

// line returns the current activity, the elapsed time and, if known, the remaining time.
func (p *progress) line() string {
	elapsed := p.clock().Sub(p.began)
	text := fmt.Sprintf("%s, %v", cmp.Or(p.doing, "working"), elapsed.Round(time.Second))
	if left, ok := p.left(elapsed); ok {
		text += ", about " + roughly(left) + " left"
	}
	return text
}

// left estimates the remaining time from the speed so far. It returns false if too little
// is done for an estimate.
func (p *progress) left(elapsed time.Duration) (time.Duration, bool) {
	const leastTime, leastShare = 2 * time.Second, 0.01
	fresh := p.done - p.free
	if elapsed < leastTime || fresh < leastShare*p.total || fresh <= 0 || p.total <= p.done {
		return 0, false
	}
	return time.Duration(float64(elapsed) * (p.total - p.done) / fresh), true
}

// roughly formats a duration as 40 s, 3 min or 2 h.
func roughly(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds())+1)
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()/10)*10+10)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes())+1)
	}
	return fmt.Sprintf("%d h", int(d.Hours())+1)
}

// say sets the current activity.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing = fmt.Sprintf(format, args...)
}

// of sets the amount of work done, the part of it that took no time, and the total.
func (p *progress) of(done, free, total float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.free, p.total = done, free, total
}

// aside erases the line and calls print, so that the two do not mix.
func (p *progress) aside(print func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	print()
}

func (p *progress) erase() {
	if p.isTerminal {
		io.WriteString(p.w, eraseLine)
	}
}

// end erases the line and stops printing. It may be called twice.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isEnd {
		p.isEnd = true
		close(p.ended)
		p.erase()
	}
}
