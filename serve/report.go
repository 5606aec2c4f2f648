package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"tokitai/answer"
)

// A process that an Isolated has started tells it what its engine has counted, on its standard output, so that the counts
// outlive it: before a client gets the end of an answer, and every second.

// reportInterval is how long a count is not told at most.
const reportInterval = time.Second

// reporter tells what an engine has counted, in lines of JSON.
type reporter struct {
	mu   sync.Mutex
	w    io.Writer
	last []byte
}

// tell writes the counts of an engine, unless they are the last that it wrote.
func (r *reporter) tell(e *answer.Engine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stats := e.Stats()
	stats.Slots = nil
	line, err := json.Marshal(stats)
	if err != nil {
		panic(err) // numbers
	}
	if bytes.Equal(line, r.last) {
		return
	}
	r.last = line
	r.w.Write(append(line, '\n')) // an Isolated that has gone ends this process
}

// Report writes the engine's counters to w, one line of JSON whenever they have changed, until the context ends. An Isolated
// reads them. The caller has already written the line that says that the process is ready.
func (s *Server) Report(ctx context.Context, w io.Writer) {
	r := &reporter{w: w}
	s.reporter.Store(r)
	ticker := time.NewTicker(reportInterval)
	defer ticker.Stop()
	for {
		r.tell(s.engine)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// counts are those of the engines of all processes that there have been.
type counts struct {
	mu      sync.Mutex
	starts  int64
	ended   answer.Stats  // of processes that have ended
	current *answer.Stats // of the one that runs; nil before its first report
	isKnown bool          // some process has reported
}

// begin counts a process.
func (c *counts) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starts++
}

// follow reads the reports of a process until it ends.
func (c *counts) follow(r *bufio.Reader) {
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			break
		}
		stats := new(answer.Stats)
		if json.Unmarshal(line, stats) == nil {
			c.mu.Lock()
			c.current, c.isKnown = stats, true
			c.mu.Unlock()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		c.ended.Add(c.current)
		c.current = nil
	}
}

// stats returns what all engines have counted and what the one that runs does, nil if there is no engine, and how many
// processes were started.
func (c *counts) stats() (all *answer.Stats, starts int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isKnown {
		return nil, c.starts
	}
	all = new(answer.Stats)
	if c.current != nil {
		*all = *c.current
	}
	all.Add(&c.ended)
	return all, c.starts
}
