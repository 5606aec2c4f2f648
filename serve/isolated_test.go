package serve_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tokitai/answer"
	"tokitai/backend/cpu"
	"tokitai/internal/await"
	"tokitai/internal/testlevel"
	"tokitai/kernelprocess/spawn"
	"tokitai/serve"
)

// isChild has the program of these tests be the process of an Isolated.
const isChild = "TOKITAI_SERVE_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(isChild) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if url := os.Getenv(clientOf); url != "" {
		if err := askServer(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child serves the tiny model, and tells its process id.
func child() error {
	m, err := tinyModel()
	if err != nil {
		return err
	}
	e, err := answer.NewEngine(cpu.Queue(), m, answer.DefaultLimits)
	if err != nil {
		return err
	}
	listener, err := serve.Inherited(serve.ChildSocket)
	if err != nil {
		return err
	}
	s := serve.New(e, serve.DefaultOptions)
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pid" {
			fmt.Fprint(w, os.Getpid())
			return
		}
		s.ServeHTTP(w, r)
	}))
	fmt.Println("tiny on a socket")
	go s.Report(context.Background(), os.Stdout)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func isolate(t *testing.T) (*httptest.Server, *serve.Isolated) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("sockets are not inherited there")
	}
	program, err := spawn.Self()
	if err != nil {
		t.Fatal(err)
	}
	i, name, err := serve.Isolate(t.Context(), spawn.Spec{Program: program, Env: append(os.Environ(), isChild+"=1"), Stderr: os.Stderr}, serve.DefaultOptions)
	if err != nil || name != "tiny" {
		t.Fatalf("the process has the model %q: %v", name, err)
	}
	server := httptest.NewServer(i)
	t.Cleanup(func() {
		server.Close()
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return server, i
}

// kill kills the process that answers.
func kill(t *testing.T, url string) {
	t.Helper()
	_, text := get(t, url+"/pid")
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

// TestKilled kills the process under load, again and again. Requests that are under way get an error that says so, or
// their answer; later ones are answered with the same bits, and no descriptor is left.
func TestKilled(t *testing.T) {
	server, _ := isolate(t)
	const body = `{"prompt":"abc","seed":1,"max_tokens":90,"ignore_eos":true,"n":8`
	here, _, _ := start(t, answer.DefaultLimits, serve.DefaultOptions)
	want, _ := ask(t, here.URL, body, false)
	if got, code := ask(t, server.URL, body, false); got != want {
		t.Fatalf("%s %s, want %s", code, got, want)
	}
	descriptors := openDescriptors(t)
	ended := 0
	for range testlevel.Pick(1, 4) {
		var all sync.WaitGroup
		var mu sync.Mutex
		begun := make(chan struct{}, 8)
		for client := range 8 {
			all.Go(func() {
				isStream := client%2 == 0
				begun <- struct{}{}
				receipt, code := ask(t, server.URL, body, isStream)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case code == "process_ended":
					ended++
				case receipt != want:
					t.Errorf("%s %s, want %s or the end of the process", code, receipt, want)
				}
			})
		}
		for range 8 {
			<-begun
		}
		await.For(t, "answers are under way", func() bool {
			_, text := get(t, server.URL+"/stats")
			return strings.Contains(text, `"number":`)
		})
		kill(t, server.URL)
		if receipt, code := ask(t, server.URL, body, false); receipt != want && code != "process_ended" {
			t.Errorf("while the process ends: %s %s", code, receipt)
		}
		all.Wait()
		if receipt, code := ask(t, server.URL, body, true); receipt != want {
			t.Errorf("afterwards: %s %s, want %s", code, receipt, want)
		}
	}
	if ended == 0 {
		t.Error("no request was under way when the process was killed")
	}
	http.DefaultClient.CloseIdleConnections()
	await.For(t, "descriptors are closed", func() bool { return openDescriptors(t) <= descriptors })
}

// TestCountersOfProcesses: the counters of an isolated server go on where those of the process that was killed ended. They have
// every answer that a client got, and requests are counted as clients saw them.
func TestCountersOfProcesses(t *testing.T) {
	server, _ := isolate(t)
	const body = `{"prompt":"abc","seed":1,"max_tokens":9,"ignore_eos":true,"n":3`
	var last map[string]float64
	for round := range 3 {
		for _, isStream := range []bool{false, true} {
			if _, code := ask(t, server.URL, body, isStream); code != "" {
				t.Fatal(code)
			}
		}
		kill(t, server.URL)
		await.For(t, "the process has ended", func() bool { return countersOf(t, server.URL)["tokitai_cache_pages"] == 0 })
		now := countersOf(t, server.URL)
		answers := float64(6 * (round + 1))
		for name, want := range map[string]float64{
			"tokitai_sequences_finished_total": answers, "tokitai_output_tokens_total": 9 * answers,
			`tokitai_requests_total{path="/v1/completions",status="200"}`: answers / 3, `tokitai_request_seconds_count{path="/v1/completions"}`: answers / 3,
		} {
			if now[name] != want {
				t.Errorf("%d answers: %s is %v, want %v", int(answers), name, now[name], want)
			}
		}
		for name, v := range last {
			if now[name] < v {
				t.Errorf("%s was %v and is %v", name, v, now[name])
			}
		}
		last = now
		await.For(t, "another process is ready", func() bool {
			return countersOf(t, server.URL)["tokitai_process_starts_total"] == float64(round+2)
		})
		if status, text := get(t, server.URL+"/health"); status != http.StatusOK {
			t.Errorf("its health is %d %s", status, text)
		}
	}
}

// countersOf returns the counters of a server, and how many pages its cache has.
func countersOf(t *testing.T, url string) map[string]float64 {
	t.Helper()
	_, text := get(t, url+"/metrics")
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		name, number, ok := strings.Cut(strings.TrimSpace(line), " ")
		if name == "#" || !ok || !strings.Contains(name, "_total") && !strings.Contains(name, "seconds_") && name != "tokitai_cache_pages" {
			continue
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = v
	}
	return all
}

// ask returns the receipt of an answer, or the code of the error.
func ask(t *testing.T, url, body string, isStream bool) (receipt, code string) {
	var d *decoded
	if !isStream {
		status, text, _ := post(t, url+"/v1/completions", body+"}")
		if d = decode(t, text); d.Error != nil && status != http.StatusBadGateway {
			t.Errorf("status %d, want %d", status, http.StatusBadGateway)
		}
	} else {
		_, text, _ := post(t, url+"/v1/completions", body+`,"stream":true}`)
		lines := strings.Split(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "data: [DONE]")), "\n")
		d = decode(t, strings.TrimPrefix(lines[len(lines)-1], "data: "))
	}
	if d.Error != nil {
		return "", d.Error.Code
	}
	return bytesOf(t, d.Receipt), ""
}

// openDescriptors returns how many descriptors this process has, where the system tells it.
func openDescriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestDoesNotStart: a process that ends at once is an error with its last words.
func TestDoesNotStart(t *testing.T) {
	program, err := spawn.Self()
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = serve.Isolate(context.Background(), spawn.Spec{Program: program, Args: []string{"-test.run=^$", "-wrong"}}, serve.DefaultOptions)
	if err == nil || !strings.Contains(err.Error(), "wrong") {
		t.Errorf("the error is %v", err)
	}
}
