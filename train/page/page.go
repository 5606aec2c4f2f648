// Package page shows runs in a browser while they train and afterwards, on one page without anything
// from elsewhere, and gives their last numbers to Prometheus.
//
// A Server reads the folders of runs, so that it shows runs of any process. Start with New; Write
// makes a file of finished runs.
package page

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"tokitai/train"
)

//go:embed page.html
var document []byte

// mark stands in the document where the data of a file go.
var mark = []byte("<!--data-->")

// MaxRuns is the largest number of runs on a page.
const MaxRuns = 2

// Server serves the page of one run or two:
//
//	/         the page
//	/events   the runs as server-sent events: everything so far, and then what is new
//	/metrics  the last numbers of each run, as text for Prometheus
type Server struct {
	mux http.ServeMux

	mu      sync.Mutex
	runs    []*run
	changed chan struct{} // closed when there is something new
}

// run is what is known of a run.
type run struct {
	name     string
	tail     train.Tail
	about    *train.Description
	anew     int // how often the lines have begun again
	lines    []train.Line
	steps    []train.Line // those of steps
	speeds   []speed
	lastTime time.Time // at which the newest step was seen
	lastStep int
	err      string
}

// speed is how fast the steps up to one were taken.
type speed struct {
	Step            int     `json:"step"`
	TokensPerSecond float64 `json:"tokens_per_second"`
}

// New returns a server for the runs in these folders, which need not have begun.
func New(folders ...string) (*Server, error) {
	if len(folders) < 1 || len(folders) > MaxRuns {
		return nil, fmt.Errorf("page: %d runs, want at least 1 and at most %d", len(folders), MaxRuns)
	}
	s := &Server{changed: make(chan struct{})}
	for _, folder := range folders {
		full, err := filepath.Abs(folder)
		if err != nil {
			return nil, err
		}
		s.runs = append(s.runs, &run{name: filepath.Base(full), tail: train.Tail{Folder: folder}})
	}
	if len(s.runs) == 2 && s.runs[0].name == s.runs[1].name {
		for i, folder := range folders {
			s.runs[i].name = filepath.ToSlash(folder)
		}
	}
	s.mux.HandleFunc("GET /{$}", s.page)
	s.mux.HandleFunc("GET /events", s.events)
	s.mux.HandleFunc("GET /metrics", s.metrics)
	s.refresh(time.Time{})
	return s, nil
}

// pause is the time between two looks at the folders.
const pause = 300 * time.Millisecond

// Watch looks for new lines in the folders until the context ends.
func (s *Server) Watch(ctx context.Context) {
	t := time.NewTicker(pause)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			s.refresh(now)
		case <-ctx.Done():
			return
		}
	}
}

// ServeHTTP serves the page.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	s.mux.ServeHTTP(w, r)
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(document)
}

// refresh reads what is new in the folders. Steps that were there when the server began have no speed.
func (s *Server) refresh(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isNew := false
	for _, r := range s.runs {
		isNew = r.refresh(now) || isNew
	}
	if isNew {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

func (r *run) refresh(now time.Time) (isNew bool) {
	if r.about == nil {
		if d, err := train.ReadDescription(r.tail.Folder); err == nil {
			r.about, isNew = d, true
		}
	}
	lines, isAnew, err := r.tail.Next()
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	isNew = isNew || isAnew || problem != r.err || len(lines) > 0
	r.err = problem
	if isAnew {
		r.anew++
		r.lines, r.steps, r.speeds, r.lastTime = nil, nil, nil, time.Time{}
	}
	r.lines = append(r.lines, lines...)
	for _, l := range lines {
		if l.Chain != "" {
			r.steps = append(r.steps, l)
		}
	}
	if r.about == nil || len(r.steps) == r.lastStep {
		return isNew
	}
	if taken := len(r.steps) - r.lastStep; !r.lastTime.IsZero() && taken > 0 {
		tokens := float64(taken * r.about.Settings.Rows())
		r.speeds = append(r.speeds, speed{len(r.steps), tokens / now.Sub(r.lastTime).Seconds()})
	}
	r.lastStep, r.lastTime = len(r.steps), now
	return isNew
}

// share returns the share of the device's peak that the newest steps had; 0 if it is not known.
func (r *run) share() float64 {
	if r.about == nil || len(r.speeds) == 0 {
		return 0
	}
	return r.about.Device.ShareOfPeak(r.speeds[len(r.speeds)-1].TokensPerSecond / float64(r.about.Settings.Rows()))
}

// view is a run as the page gets it. Lines and speeds are those behind what it had.
type view struct {
	Name   string             `json:"name"`
	About  *train.Description `json:"about,omitempty"`
	Anew   bool               `json:"anew,omitempty"` // forget the lines before
	Lines  []train.Line       `json:"lines,omitempty"`
	Speeds []speed            `json:"speeds,omitempty"`
	Error  string             `json:"error,omitempty"`
}

// state is what the page gets at once.
type state struct {
	IsLive  bool     `json:"live"`
	Runs    []view   `json:"runs"`
	Same    int      `json:"same"`          // steps from the first on that two runs have alike
	How     string   `json:"how,omitempty"` // how the next one differs
	Differs []string `json:"differs,omitempty"`
	OtherD  bool     `json:"other_data,omitempty"`
}

// place is how much of a run a page has.
type place struct{ anew, lines, speeds int }

// since returns what is behind the places, and moves them.
func (s *Server) since(places []place) (state, chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all state
	for i, r := range s.runs {
		p := &places[i]
		v := view{Name: r.name, About: r.about, Error: r.err}
		if p.anew != r.anew {
			*p, v.Anew = place{anew: r.anew}, true
		}
		v.Lines, v.Speeds = r.lines[p.lines:], r.speeds[p.speeds:]
		p.lines, p.speeds = len(r.lines), len(r.speeds)
		all.Runs = append(all.Runs, v)
	}
	if len(s.runs) == 2 {
		a, b := s.runs[0], s.runs[1]
		all.Same, all.How = train.Same(a.steps, b.steps)
		if a.about != nil && b.about != nil {
			all.Differs = a.about.Settings.Config.Differences(b.about.Settings.Config)
			all.OtherD = a.about.Origin.Data != b.about.Origin.Data
		}
	}
	return all, s.changed
}

func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	places := make([]place, len(s.runs))
	out := http.NewResponseController(w)
	for {
		all, changed := s.since(places)
		all.IsLive = true
		text, err := json.Marshal(all)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
			return
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// metrics writes the last numbers of each run in the text format of Prometheus.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range []struct {
		name, kind, help string
		of               func(r *run) (v float64, ok bool)
	}{
		{"tokitai_step", "gauge", "Steps that the run has taken.", func(r *run) (float64, bool) { return float64(len(r.steps)), true }},
		{"tokitai_steps", "gauge", "Steps that the run will take.", func(r *run) (float64, bool) {
			if r.about == nil {
				return 0, false
			}
			return float64(r.about.Settings.Steps), true
		}},
		{"tokitai_loss", "gauge", "Loss of the last step, in nats per token.", last(func(l *train.Line) *float32 { return l.Loss })},
		{"tokitai_validation_loss", "gauge", "Loss of the last validation, in nats per token.", func(r *run) (float64, bool) {
			for i := len(r.lines) - 1; i >= 0; i-- {
				if v := r.lines[i].Validation; v != nil {
					return *v, true
				}
			}
			return 0, false
		}},
		{"tokitai_gradient_norm", "gauge", "Norm of all gradients of the last step, before they were clipped.", last(func(l *train.Line) *float32 { return l.Norm })},
		{"tokitai_learning_rate", "gauge", "Learning rate of the last step.", func(r *run) (float64, bool) {
			if len(r.steps) == 0 || r.steps[len(r.steps)-1].Rate == nil {
				return 0, false
			}
			return *r.steps[len(r.steps)-1].Rate, true
		}},
		{"tokitai_tokens_total", "counter", "Tokens of all steps.", func(r *run) (float64, bool) {
			if len(r.steps) == 0 {
				return 0, true
			}
			return float64(r.steps[len(r.steps)-1].Tokens), true
		}},
		{"tokitai_tokens_per_second", "gauge", "Speed of the newest steps that were seen being taken.", func(r *run) (float64, bool) {
			if len(r.speeds) == 0 {
				return 0, false
			}
			return r.speeds[len(r.speeds)-1].TokensPerSecond, true
		}},
		{"tokitai_share_of_peak", "gauge", "Products added up in these steps, as a share of what the device could add up at its highest clock.", func(r *run) (float64, bool) {
			share := r.share()
			return share, share > 0
		}},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
		for _, r := range s.runs {
			if v, ok := m.of(r); ok {
				fmt.Fprintf(w, "%s{run=\"%s\"} %v\n", m.name, label.Replace(r.name), v)
			}
		}
	}
}

var label = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// last returns a number of the last step.
func last(of func(l *train.Line) *float32) func(r *run) (float64, bool) {
	return func(r *run) (float64, bool) {
		if len(r.steps) == 0 {
			return 0, false
		}
		v := of(&r.steps[len(r.steps)-1])
		if v == nil {
			return 0, false
		}
		return float64(*v), true
	}
}

// Write writes a page that shows the runs in folders and needs no server.
func Write(w io.Writer, folders ...string) error {
	s, err := New(folders...)
	if err != nil {
		return err
	}
	for _, r := range s.runs {
		if _, err := train.ReadDescription(r.tail.Folder); err != nil {
			return err
		}
		if r.err != "" {
			return errors.New(r.err)
		}
	}
	all, _ := s.since(make([]place, len(folders)))
	text, err := json.Marshal(all) // which escapes <, so that the script cannot end early
	if err != nil {
		return err
	}
	before, after, _ := bytes.Cut(document, mark)
	_, err = w.Write(bytes.Join([][]byte{before, text, after}, nil))
	return err
}
