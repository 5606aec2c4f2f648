package serve_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/internal/newfile"
	"tokitai/model"
	"tokitai/model/tkp1"
	"tokitai/serve"
	"tokitai/train"
)

// featureServer serves a network of three features with initial weights.
func featureServer(t *testing.T) (s *serve.FeatureServer, p *train.Predictor) {
	t.Helper()
	f := model.Features{Inputs: 3, Outputs: 2, Hidden: 4, Layers: 1, Experts: 2, PerRow: 1}
	n, err := model.NewFeatures(f, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	file, err := tkp1.New(f, 0, func(name string) (w, m, v []float32, err error) {
		return f.Initial(n.Program.Value(name), 1), nil, nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.tkp1")
	if err := newfile.Write(path, file.Write); err != nil {
		t.Fatal(err)
	}
	start, err := train.ReadStart(cpu.Queue().Device(), path)
	if err != nil || !train.IsOfFeatures(path) {
		t.Fatalf("%s is of features: %v, error %v", path, train.IsOfFeatures(path), err)
	}
	if p, err = train.NewPredictor(cpu.Queue(), start, 2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	o := serve.DefaultOptions
	o.MaxBody = 200
	return serve.NewFeatures("small", p, f.Inputs, o), p
}

// TestInfer: one row and several have the outputs of the network, and what is wrong with a request is said.
func TestInfer(t *testing.T) {
	t.Parallel()
	s, p := featureServer(t)
	ask := func(method, path, body string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		text, _ := io.ReadAll(w.Body)
		return w.Code, string(text)
	}
	want, err := p.Predict([]float32{1, 0, 0.5, -1, 2, 0, 0, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	type row = struct {
		Logits  []float32
		Weights []float32 `json:"router_weights"`
	}
	var one row
	code, text := ask("POST", "/infer", `{"features":[1,0,0.5]}`)
	if err := json.Unmarshal([]byte(text), &one); err != nil || code != http.StatusOK || !reflect.DeepEqual(one, row{want[0].Outputs, want[0].Weights}) {
		t.Errorf("one row: %d %s, error %v, want %+v", code, text, err, want[0])
	}
	var several struct {
		Logits  [][]float32
		Weights [][]float32 `json:"router_weights"`
	}
	code, text = ask("POST", "/infer", `{"batch":[[1,0,0.5],[-1,2,0],[0,0,1]]}`)
	if err := json.Unmarshal([]byte(text), &several); err != nil || code != http.StatusOK || len(several.Logits) != 3 || !reflect.DeepEqual(several.Logits[2], want[2].Outputs) || !reflect.DeepEqual(several.Weights[1], want[1].Weights) {
		t.Errorf("three rows: %d %s, error %v", code, text, err)
	}
	if code, text = ask("POST", "/infer", `{"batch":[]}`); code != http.StatusOK || text != "{\"logits\":[]}\n" {
		t.Errorf("no rows: %d %s", code, text)
	}
	for body, want := range map[string]string{
		`{"features":[1,2]}`:              "row 0 has 2 features, want 3",
		`{"batch":[[1,2,3],[1,2,3,4]]}`:   "row 1 has 4 features, want 3",
		`{}`:                              "want either features",
		`{"features":[1,2,3],"batch":[]}`: "want either features",
		`{"features":[1,2,3],"other":1}`:  "unknown field",
		`{"features":[1,2,1e39]}`:         "cannot unmarshal number 1e39",
		`{"features":[1,2,3]} {}`:         "something stands behind",
		`[`:                               "the request: ",
		`{"features":[` + strings.Repeat("1,", 200) + `1]}`: "has more than 200 bytes",
	} {
		if code, text := ask("POST", "/infer", body); code < 400 || code > 499 || !strings.Contains(text, want) {
			t.Errorf("%.40s: %d %s, want %q", body, code, text, want)
		}
	}
	if code, text := ask("GET", "/healthz", ""); code != http.StatusOK || !strings.Contains(text, `"status":"ok"`) {
		t.Errorf("health: %d %s", code, text)
	}
	if code, text := ask("GET", "/metrics", ""); code != http.StatusOK || !strings.Contains(text, `tokitai_requests_total{path="/infer",status="200"} 3`) {
		t.Errorf("metrics: %d %s", code, text)
	}
	if code, text := ask("GET", "/v1/models", ""); code != http.StatusNotFound || !strings.Contains(text, "POST /infer") {
		t.Errorf("another path: %d %s", code, text)
	}
	s.Stop()
	for _, path := range []string{"/healthz", "/infer"} {
		method := map[string]string{"/healthz": "GET", "/infer": "POST"}[path]
		if code, _ := ask(method, path, `{"features":[1,0,0.5]}`); code != http.StatusServiceUnavailable {
			t.Errorf("%s of a server that stops: %d", path, code)
		}
	}
}
