package serve

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tokitai/answer"
)

// metrics counts requests. What the engine counts is read when it is asked for.
type metrics struct {
	mu      *sync.Mutex
	counts  map[[2]string]int64 // by path and status
	seconds map[string]*histogram
}

type histogram struct {
	buckets [len(bounds)]int64
	count   int64
	sum     float64
}

// bounds are those of the histogram of times, in seconds.
var bounds = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}

func newMetrics() metrics {
	return metrics{new(sync.Mutex), map[[2]string]int64{}, map[string]*histogram{}}
}

func (m *metrics) count(path string, status int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[[2]string{path, fmt.Sprint(status)}]++
	h := m.seconds[path]
	if h == nil {
		h = new(histogram)
		m.seconds[path] = h
	}
	h.count++
	h.sum += took.Seconds()
	for i, bound := range bounds {
		if took.Seconds() <= bound {
			h.buckets[i]++
		}
	}
}

// serveMetrics writes the text format of Prometheus.
func (s *Server) serveMetrics(x *exchange) error {
	stats := s.engine.Stats()
	return s.writeMetrics(x, &stats)
}

// writeMetrics writes what an engine, if there is one, and the server have counted, and what else is given.
func (g *gate) writeMetrics(x *exchange, e *answer.Stats, others ...string) error {
	var b strings.Builder
	if e != nil {
		b.WriteString(engineMetrics(e))
	}
	b.WriteString(metric("uptime_seconds", "gauge", "Time since the server began.", time.Since(g.started).Seconds()))
	for _, other := range others {
		b.WriteString(other)
	}
	b.WriteString(g.metrics.text())
	x.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	x.WriteHeader(http.StatusOK)
	_, err := io.WriteString(x, b.String())
	return err
}

func metric(name, kind, help string, v any) string {
	return fmt.Sprintf("# HELP tokitai_%s %s\n# TYPE tokitai_%s %s\ntokitai_%s %v\n", name, help, name, kind, name, v)
}

func engineMetrics(e *answer.Stats) string {
	return metric("sequences_active", "gauge", "Sequences that are being computed.", e.Active) +
		metric("sequences_waiting", "gauge", "Sequences that wait.", e.Waiting) +
		metric("cache_pages", "gauge", "Pages of the cache.", e.Pages) +
		metric("cache_pages_used", "gauge", "Pages that sequences use.", e.PagesUsed) +
		metric("cache_pages_kept", "gauge", "Pages of prefixes that no sequence uses.", e.PagesKept) +
		metric("steps_total", "counter", "Steps of the engine.", e.Steps) +
		metric("step_seconds_total", "counter", "Time that steps have taken.", e.StepSeconds) +
		metric("prompt_tokens_total", "counter", "Tokens of prompts that were computed.", e.PromptTokens) +
		metric("prompt_tokens_reused_total", "counter", "Tokens of prompts whose keys were reused.", e.CachedTokens) +
		metric("output_tokens_total", "counter", "Tokens of answers.", e.OutputTokens) +
		metric("guessed_tokens_total", "counter", "Tokens that were guessed.", e.Guessed) +
		metric("guessed_right_tokens_total", "counter", "Tokens that were guessed right.", e.GuessedRight) +
		metric("preemptions_total", "counter", "Sequences that had to wait again because the cache was full.", e.Preemptions) +
		metric("sequences_finished_total", "counter", "Answers that have ended.", e.Finished) +
		metric("sequences_canceled_total", "counter", "Answers that nobody waited for any more.", e.Canceled) +
		metric("sequences_failed_total", "counter", "Answers that ended in an error.", e.Failed) +
		metric("sequences_refused_total", "counter", "Answers that were refused because too many wait.", e.Refused)
}

// text returns the requests in the text format of Prometheus.
func (m *metrics) text() string {
	var b strings.Builder
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprint(&b, "# HELP tokitai_requests_total Requests by path and status.\n# TYPE tokitai_requests_total counter\n")
	for _, key := range slices.SortedFunc(maps.Keys(m.counts), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		fmt.Fprintf(&b, "tokitai_requests_total{path=%q,status=%q} %d\n", key[0], key[1], m.counts[key])
	}
	fmt.Fprint(&b, "# HELP tokitai_request_seconds Time of requests by path.\n# TYPE tokitai_request_seconds histogram\n")
	for _, path := range slices.Sorted(maps.Keys(m.seconds)) {
		h := m.seconds[path]
		for i, bound := range bounds {
			fmt.Fprintf(&b, "tokitai_request_seconds_bucket{path=%q,le=\"%v\"} %d\n", path, bound, h.buckets[i])
		}
		fmt.Fprintf(&b, "tokitai_request_seconds_bucket{path=%q,le=\"+Inf\"} %d\ntokitai_request_seconds_sum{path=%q} %v\ntokitai_request_seconds_count{path=%q} %d\n", path, h.count, path, h.sum, path, h.count)
	}
	return b.String()
}
