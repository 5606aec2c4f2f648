package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	"tokitai/train"
)

// FeatureServer answers requests with a network of features: POST /infer, and GET /health, /healthz and /metrics.
type FeatureServer struct {
	gate
	name      string
	inputs    int
	mu        sync.Mutex // held while the predictor computes
	predictor *train.Predictor
}

// NewFeatures returns a server of a network with so many features, which it does not close.
func NewFeatures(name string, p *train.Predictor, inputs int, o Options) *FeatureServer {
	s := &FeatureServer{gate: newGate(o), name: name, inputs: inputs, predictor: p}
	s.handle(map[string]func(*exchange) error{
		"POST /infer":  s.serveInfer,
		"GET /metrics": s.serveMetrics,
		"GET /health":  s.serveHealth,
		"GET /healthz": s.serveHealth,
		"/":            s.serveUnknown,
	})
	return s
}

func (s *FeatureServer) serveHealth(x *exchange) error { return s.health(x, s.name) }

func (s *FeatureServer) serveUnknown(x *exchange) error {
	return newError(http.StatusNotFound, badRequest, "unknown_url", "there is no %s %s: a network of features has POST /infer and GET /healthz", x.request.Method, x.request.URL.Path)
}

// End ends nothing: what is under way is short.
func (s *FeatureServer) End() {}

// inferRequest is a request for one row, or for several.
type inferRequest struct {
	Features []float32   `json:"features"`
	Batch    [][]float32 `json:"batch"`
}

// inferred is what one row gives.
type inferred struct {
	Logits  []float32 `json:"logits"`
	Weights []float32 `json:"router_weights,omitempty"`
}

// inferredBatch is what several rows give.
type inferredBatch struct {
	Logits  [][]float32 `json:"logits"`
	Weights [][]float32 `json:"router_weights,omitempty"`
}

// parseInfer reads a request.
func parseInfer(body []byte) (*inferRequest, error) {
	bad := func(format string, args ...any) error {
		return newError(http.StatusBadRequest, badRequest, "", format, args...)
	}
	var r inferRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, bad("the request: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, bad("something stands behind the object of the request")
	}
	if (r.Features == nil) == (r.Batch == nil) {
		return nil, bad("want either features, a row of numbers, or batch, a list of rows")
	}
	return &r, nil
}

func (s *FeatureServer) serveInfer(x *exchange) error {
	r, err := parseInfer(x.body)
	if err != nil {
		return err
	}
	rows := r.Batch
	if r.Features != nil {
		rows = [][]float32{r.Features}
	}
	var all []float32
	for i, row := range rows {
		if len(row) != s.inputs {
			return newError(http.StatusBadRequest, badRequest, "", "row %d has %d features, want %d", i, len(row), s.inputs)
		}
		all = append(all, row...)
	}
	s.mu.Lock()
	list, err := s.predictor.Predict(all)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if r.Features != nil {
		return writeJSON(x, http.StatusOK, inferred{list[0].Outputs, list[0].Weights})
	}
	batch := inferredBatch{Logits: [][]float32{}}
	for _, p := range list {
		batch.Logits = append(batch.Logits, p.Outputs)
		if p.Weights != nil {
			batch.Weights = append(batch.Weights, p.Weights)
		}
	}
	return writeJSON(x, http.StatusOK, batch)
}

// serveMetrics writes what requests there were, in the text format of Prometheus.
func (s *FeatureServer) serveMetrics(x *exchange) error {
	return s.writeMetrics(x, nil)
}
