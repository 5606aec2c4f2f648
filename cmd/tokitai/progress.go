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

// progress tells how far a command is, on standard error. On a terminal that can erase a
// line it is one line that changes. Elsewhere it is a plain line for a command that takes
// longer than a few seconds, and another one now and then, so that a log shows life. What
// is written to anything but a file, as by tests, has none. It has no colours, so that
// NO_COLOR changes nothing.
type progress struct {
	w          io.Writer
	command    string // before plain lines
	isTerminal bool

	mu    sync.Mutex
	clock func() time.Time
	began time.Time
	doing string
	done  float64 // work, in units of the command's own
	free  float64 // of this, what took no time
	total float64 // 0 where it is not known
	isEnd bool
	ended chan struct{}
}

// How long a command is silent where there is no terminal, and how often it then says
// something. Tests of what is printed set the first to 0: nothing.
var (
	plainFirst = 3 * time.Second
	plainPause = 30 * time.Second
)

// terminalPause is between changes of the line: a person reads no more than a few a second.
const terminalPause = 100 * time.Millisecond

// progressOn is the progress of no command in particular.
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

// startProgress is the progress of a command, told until it is ended.
func startProgress(c *cobra.Command) *progress {
	p := progressOn(c.ErrOrStderr())
	p.command = c.CommandPath()
	if p.w != io.Discard {
		go p.tell()
	}
	return p
}

func (p *progress) tell() {
	next := plainFirst
	if p.isTerminal {
		next = terminalPause
	}
	for {
		select {
		case <-p.ended:
			return
		case <-time.After(next):
		}
		if next = plainPause; p.isTerminal {
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
	if p.isTerminal {
		fmt.Fprintf(p.w, "%s%s", eraseLine, p.line())
	} else {
		fmt.Fprintf(p.w, "%s: %s\n", p.command, p.line())
	}
}

// line says what is being done, for how long, and how long it will yet take, if that can
// be known.
func (p *progress) line() string {
	elapsed := p.clock().Sub(p.began)
	text := fmt.Sprintf("%s, %v", cmp.Or(p.doing, "at work"), elapsed.Round(time.Second))
	if left, ok := p.left(elapsed); ok {
		text += ", about " + roughly(left) + " left"
	}
	return text
}

// left is how long the rest takes if it goes on as it went so far. Before there is
// something to go by, it is not known.
func (p *progress) left(elapsed time.Duration) (time.Duration, bool) {
	const leastTime, leastShare = 2 * time.Second, 0.01
	fresh := p.done - p.free
	if elapsed < leastTime || fresh < leastShare*p.total || fresh <= 0 || p.total <= p.done {
		return 0, false
	}
	return time.Duration(float64(elapsed) * (p.total - p.done) / fresh), true
}

// roughly reads 40 s, 3 min, 2 h.
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

// say sets what is being done.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing = fmt.Sprintf(format, args...)
}

// of sets how much work is done, how much of that took no time, and how much there is.
func (p *progress) of(done, free, total float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.free, p.total = done, free, total
}

// aside prints something else in the place of the line.
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

// end erases the line; nothing is told any more. It may be called twice.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isEnd {
		p.isEnd = true
		close(p.ended)
		p.erase()
	}
}
