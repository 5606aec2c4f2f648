package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tokitai/internal/browser"
	"tokitai/train"
)

// folder writes the folder of a run that has taken n steps; from step odd on, if it is not 0, its weights are
// others.
func folder(t *testing.T, name string, n, odd int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	d := train.Description{Settings: train.Default(), DataPath: "</script>"}
	d.Settings.Steps = 40
	d.Device = &train.Device{Name: "a GPU", Peak: 40, Work: 4}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "run.json"), text, 0o666); err != nil {
		t.Fatal(err)
	}
	add(t, path, 1, n, odd)
	return path
}

// add appends the lines of steps, and a validation after each tenth.
func add(t *testing.T, folder string, from, to, odd int) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(folder, "metrics.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for step := from; step <= to; step++ {
		weights := fmt.Sprintf("%064x", step*977)
		if odd != 0 && step >= odd {
			weights = fmt.Sprintf("%064x", step*978)
		}
		fmt.Fprintf(f, `{"step":%d,"loss":%v,"loss_bits":"%08x","norm":0.5,"norm_bits":"3f000000","rate":0.001,"tokens":%d,"weights":"%s","chain":"%064x"}`+"\n", step, 4-float64(step)/16, step, step*768, weights, step)
		if step%10 == 0 {
			fmt.Fprintf(f, `{"step":%d,"validation":%v}`+"\n", step, 4.25-float64(step)/16)
		}
	}
}

func serve(t *testing.T, folders ...string) (*Server, *httptest.Server) {
	t.Helper()
	s, err := New(folders...)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h
}

func get(t *testing.T, url string) (text string, header http.Header, code int) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		t.Fatal(err)
	}
	return b.String(), r.Header, r.StatusCode
}

// TestEvents: a page gets everything so far, then what is new, and begins again when a run is resumed from an
// earlier step.
func TestEvents(t *testing.T) {
	t.Parallel()
	a := folder(t, "a", 12, 0)
	s, h := serve(t, a)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	request, err := http.NewRequestWithContext(ctx, "GET", h.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if got := r.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	events := bufio.NewScanner(r.Body)
	events.Buffer(nil, 1<<20)
	next := func() view {
		t.Helper()
		for events.Scan() {
			if text, isData := strings.CutPrefix(events.Text(), "data: "); isData {
				var all state
				if err := json.Unmarshal([]byte(text), &all); err != nil {
					t.Fatal(err)
				}
				if !all.IsLive {
					t.Error("a page that is served is not live")
				}
				return all.Runs[0]
			}
		}
		t.Fatal("the events have ended")
		return view{}
	}
	if v := next(); v.Name != "a" || v.About == nil || v.About.Settings.Steps != 40 || len(v.Lines) != 13 || len(v.Speeds) != 0 {
		t.Errorf("first %+v", v)
	}
	began := time.Now()
	add(t, a, 13, 14, 0)
	s.refresh(began)
	if v := next(); v.Anew || len(v.Lines) != 2 || v.Lines[1].Step != 14 || len(v.Speeds) != 0 {
		t.Errorf("two steps later %+v", v)
	}
	add(t, a, 15, 18, 0)
	s.refresh(began.Add(2 * time.Second))
	if v := next(); len(v.Lines) != 4 || len(v.Speeds) != 1 || v.Speeds[0] != (speed{18, 4 * 768 / 2}) {
		t.Errorf("four steps in two seconds: %+v", v)
	}
	// Two steps a second, of 4 products each, where the device could add up 40.
	if text, _, _ := get(t, h.URL+"/metrics"); !strings.Contains(text, "tokitai_share_of_peak{run=\"a\"} 0.2\n") {
		t.Errorf("no share of the peak, or another one than 0.2, in\n%s", text)
	}
	if err := os.WriteFile(filepath.Join(a, "metrics.jsonl"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	add(t, a, 1, 3, 0)
	s.refresh(began.Add(3 * time.Second))
	if v := next(); !v.Anew || len(v.Lines) != 3 {
		t.Errorf("begun again: %+v", v)
	}
	s.refresh(began.Add(4 * time.Second)) // nothing new, and no event
	add(t, a, 4, 4, 0)
	s.refresh(began.Add(5 * time.Second))
	if v := next(); len(v.Lines) != 1 || v.Lines[0].Step != 4 {
		t.Errorf("one more step: %+v", v)
	}
}

// TestPages: the addresses, and what nobody may do.
func TestPages(t *testing.T) {
	t.Parallel()
	a, b := folder(t, "a", 30, 0), folder(t, `b"`, 25, 21)
	_, h := serve(t, a, b)
	text, header, code := get(t, h.URL)
	if code != 200 || text != string(document) || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("the page: %d, %v", code, header)
	}
	if strings.Contains(text, "http://") || strings.Contains(text, "https://") {
		t.Error("the page names an address elsewhere")
	}
	text, _, _ = get(t, h.URL+"/metrics")
	for _, want := range []string{
		"# TYPE tokitai_step gauge\ntokitai_step{run=\"a\"} 30\ntokitai_step{run=\"b\\\"\"} 25\n", "tokitai_steps{run=\"a\"} 40\n", "tokitai_loss{run=\"a\"} 2.125\n",
		"tokitai_validation_loss{run=\"b\\\"\"} 3\n", "tokitai_gradient_norm{run=\"a\"} 0.5\n", "tokitai_learning_rate{run=\"a\"} 0.001\n",
		"# TYPE tokitai_tokens_total counter\ntokitai_tokens_total{run=\"a\"} 23040\n", "# TYPE tokitai_tokens_per_second gauge\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %q:\n%s", want, text)
		}
	}
	if _, _, code := get(t, h.URL+"/run.json"); code != 404 {
		t.Errorf("another path: %d", code)
	}
	r, err := http.Post(h.URL+"/", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", r.StatusCode)
	}
	if _, err := New(); err == nil {
		t.Error("a page of no runs")
	}
}

// TestWrite: a file has the runs, and where they part.
func TestWrite(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := Write(&out, folder(t, "a", 30, 0), folder(t, "b", 25, 21)); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(out.String())
	var all state
	if err := json.Unmarshal([]byte(found[1]), &all); err != nil {
		t.Fatal(err)
	}
	if all.IsLive || len(all.Runs) != 2 || all.Same != 20 || all.How != "loss and norm are the same, the weights after the step are others" || all.Runs[0].About.DataPath != "</script>" {
		t.Errorf("the file has %+v", all)
	}
	if err := Write(&out, t.TempDir()); err == nil {
		t.Error("a folder without a run is written")
	}
	broken := folder(t, "c", 3, 0)
	if err := os.WriteFile(filepath.Join(broken, "metrics.jsonl"), []byte("{]\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Write(&out, broken); err == nil || !strings.Contains(err.Error(), "metrics.jsonl") {
		t.Errorf("damaged metrics: %v", err)
	}
}

func lacks(page string, want ...string) string {
	for _, w := range want {
		if !strings.Contains(page, w) {
			return w
		}
	}
	return ""
}

// TestFileInBrowser opens a page that was written, and reads what the browser made of it.
func TestFileInBrowser(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.html")
	c := browser.Command(t, "--virtual-time-budget=5000", "--dump-dom", "file://"+file)
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(f, folder(t, "a", 30, 0), folder(t, "b", 40, 21)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	difference := "Steps 1 to 20 have the same loss, norm and weights. First difference, step 21: loss and norm are the same"
	if w := lacks(string(out), "<title>a and b", "step 30 of 40", ">finished<", difference, fmt.Sprintf("%064x", 40)); w != "" {
		t.Errorf("the page lacks %q", w)
	}
}

// TestLiveInBrowser opens a page of a run that goes on.
func TestLiveInBrowser(t *testing.T) {
	t.Parallel()
	a := folder(t, "a", 30, 0)
	s, err := New(a)
	if err != nil {
		t.Fatal(err)
	}
	// A script in the page says again and again what the browser has made of it.
	reports := make(chan string)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			text, _ := io.ReadAll(r.Body)
			select {
			case reports <- string(text):
			case <-t.Context().Done():
			}
			return
		}
		s.ServeHTTP(w, r)
		if r.URL.Path == "/" {
			io.WriteString(w, "<script>setInterval(() => fetch('report', {method: 'POST', body: document.documentElement.outerHTML}), 100)</script>")
		}
	}))
	t.Cleanup(h.CloseClientConnections)
	c := browser.Command(t, "--remote-debugging-port=0", h.URL)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	shows := func(want ...string) {
		t.Helper()
		for {
			select {
			case page := <-reports:
				if lacks(page, want...) == "" {
					return
				}
			case err := <-ended:
				t.Fatalf("the browser has ended: %v", err)
			}
		}
	}
	shows("<title>a ", "step 30 of 40", ">not training now<", "best 2.375 at step 30", fmt.Sprintf("%064x", 30), "Connected")
	now := time.Now()
	s.refresh(now)
	add(t, a, 31, 35, 0)
	s.refresh(now.Add(time.Second))
	add(t, a, 36, 39, 0)
	s.refresh(now.Add(2 * time.Second))
	shows("step 39 of 40", ">training<", ">3072<", "40.0 % of the peak of a GPU")
	add(t, a, 40, 40, 0)
	s.refresh(now.Add(3 * time.Second))
	shows("step 40 of 40", ">finished<")
	c.Process.Kill()
	<-ended
}
