package serve_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tokitai/answer"
	"tokitai/answer/answertest"
	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/internal/alone"
	"tokitai/internal/await"
	"tokitai/internal/testlevel"
	"tokitai/serve"
)

// TestSoak has clients of all kinds ask two servers, for half an hour at level exhaustive:
//
//	TOKITAI_LEVEL=exhaustive go test -timeout 1h -run TestSoak ./serve
//
// One server guesses from what repeats and reuses prefixes, the other guesses with a draft. Their caches are too small for
// the answers that they compute together. Every answer has the bits that it has alone, without guesses, and receipts replay;
// whenever no request is under way, there are no more goroutines and open files than before; and in a soak of minutes, memory
// does not grow.
func TestSoak(t *testing.T) {
	if !alone.Process(t) {
		return
	}
	long := testlevel.Current() >= testlevel.Full
	duration := testlevel.Pick(0, 10*time.Second, 5*time.Minute, 30*time.Minute)
	s := newSoaking(t, long)
	goroutines, files := math.MaxInt, math.MaxInt // the fewest of any round
	var heap, resident []int
	began := time.Now()
	for round := 0; round < 3 || time.Since(began) < duration; round++ {
		s.round(t, uint64(round))
		s.awaitQuiet(t)
		await.For(t, fmt.Sprintf("at most %d goroutines", goroutines), func() bool { return runtime.NumGoroutine() <= goroutines })
		await.For(t, fmt.Sprintf("at most %d open files", files), func() bool { return openFiles(t) <= files })
		goroutines, files = min(goroutines, runtime.NumGoroutine()), min(files, openFiles(t))
		h, r := memory(t)
		heap, resident = append(heap, h), append(resident, r)
		if t.Failed() {
			break
		}
	}
	checkFlat(t, "heap", heap)
	checkFlat(t, "resident memory", resident)
	s.report(t)
	t.Logf("%d rounds in %v; %d goroutines and %d open files; heap of %d to %d KiB, resident %d to %d KiB",
		len(heap), time.Since(began).Round(time.Second), goroutines, files, slices.Min(heap)>>10, slices.Max(heap)>>10, slices.Min(resident)>>10, slices.Max(resident)>>10)
}

// settled is how many rounds it takes until steps of all sizes have occurred, whose recordings stay.
const settled = 200

// checkFlat fails if something grows from round to round.
func checkFlat(t *testing.T, what string, values []int) {
	t.Helper()
	if len(values) < settled {
		return
	}
	for i := 0; i < len(values); i += len(values) / 20 {
		t.Logf("%s after round %d: %d KiB", what, i, values[i]>>10)
	}
	if grows(values) {
		t.Errorf("the %s grows: %v", what, values)
	}
}

// grows reports whether all of the later half is above all of the former. Of n values that only fluctuate this is so once in
// n over n/2 times; of 24 values, less than once in a million.
func grows(values []int) bool {
	n := len(values)
	return slices.Min(values[n/2:]) > slices.Max(values[:n/2])
}

// TestGrows: a leak that is smaller than the noise is found in time, and what settles is none.
func TestGrows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var leaks, settles []int
	for i := range 2000 {
		noise := random.IntN(1000)
		leaks, settles = append(leaks, 9*i+noise), append(settles, 100*min(i, 500)+noise)
	}
	if !grows(append(leaks[:200:200], leaks[1800:]...)) || grows(settles) || grows(leaks[:200]) {
		t.Error("a leak is not told from noise")
	}
}

// memory returns the bytes of what is reachable, and those of the process.
func memory(t *testing.T) (heap, resident int) {
	t.Helper()
	runtime.GC() // pools keep what they have through one
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), new(int), &resident); err != nil {
		t.Fatal(err)
	}
	return int(m.HeapAlloc), resident * os.Getpagesize()
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// soaking is a soak that is under way.
type soaking struct {
	long    bool // clients may take their time
	servers []*soaked
	asked   []asked
	client  *http.Client
	told    []atomic.Int64 // what clients have done, by kind
	refused atomic.Int64
}

// soaked is a server.
type soaked struct {
	url, address string
	engine       *answer.Engine
}

// asked is a request with the answer that it has alone.
type asked struct{ path, body, want string }

// soakKinds are what clients do.
var soakKinds = []struct {
	name string
	do   func(*soaking, *testing.T, *soaked, *rand.Rand)
}{
	{"whole answers", (*soaking).askWhole},
	{"streams", (*soaking).askStream},
	{"streams that are left", (*soaking).leaveStream},
	{"answers that are replayed", (*soaking).replay},
	{"bad requests", (*soaking).askBadly},
	{"broken connections", (*soaking).breakOff},
	{"other paths", (*soaking).look},
}

func newSoaking(t *testing.T, long bool) *soaking {
	m, err := tinyModel()
	if err != nil {
		t.Fatal(err)
	}
	drafting := *m
	c := answertest.Config
	c.Layers = 1
	if drafting.Draft, err = answertest.Model(c, 1); err != nil {
		t.Fatal(err)
	}
	s := &soaking{long: long, told: make([]atomic.Int64, len(soakKinds)), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
	t.Run("alone", func(t *testing.T) { s.asked = soakRequests(t) })
	l := answer.Limits{Sequences: 7, Tokens: 40, Rows: 40, Pages: 12, PageSize: 16, Waiting: 12, Queued: time.Minute}
	s.start(t, m, l)
	l.NoReuse = true
	s.start(t, &drafting, l)
	return s
}

// start starts a server as the program does.
func (s *soaking) start(t *testing.T, m *answer.Model, l answer.Limits) {
	q, err := engine.NewQueue(cpu.Queue().Device())
	if err != nil {
		t.Fatal(err)
	}
	e, err := answer.NewEngine(q, m, l)
	if err != nil {
		t.Fatal(err)
	}
	o := serve.DefaultOptions
	o.MaxBody, o.Stall = 64<<10, 20*time.Second
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, ended := serve.Serve(serve.New(e, o), listener, 512, nil, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		server.Close()
		<-ended
		e.Close()
	})
	address := listener.Addr().String()
	s.servers = append(s.servers, &soaked{"http://" + address, address, e})
}

// soakRequests returns requests, each with the answer of a server that computes it alone and guesses nothing.
func soakRequests(t *testing.T) []asked {
	o := serve.DefaultOptions
	o.Guesses = 0
	server, _, _ := start(t, answer.Limits{Sequences: 2, Tokens: 96, Rows: 96, PageSize: 64, Waiting: 1, NoReuse: true}, o)
	random := rand.New(rand.NewPCG(1, 1))
	var list []asked
	for i := range 32 {
		parameters := fmt.Sprintf(`,"seed":%d,"n":%d,"max_tokens":%d,"temperature":%v,"frequency_penalty":%v,"ignore_eos":true`,
			i%7, 1+i%2, 5+random.IntN(30), []float64{0, 0.5, 1}[i%3], float64(i%8/6)/2)
		text := strings.Repeat("common ", random.IntN(6)) + fmt.Sprint(i%5)
		a := asked{path: "/v1/completions", body: `{"prompt":"` + text + `"` + parameters}
		switch i % 4 {
		case 1:
			a = asked{path: "/v1/chat/completions", body: `{"messages":[{"role":"user","content":"` + text + `"}]` + parameters + `,"logprobs":true,"top_logprobs":3`}
		case 2:
			a.body += `,"echo":true,"logprobs":2`
		case 3:
			a.body += `,"stop":["e","\n"],"top_k":9`
		}
		status, answered, _ := post(t, server.URL+a.path, a.body+"}")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", a.body, status, answered)
		}
		a.want = answered
		list = append(list, a)
	}
	return list
}

// round has clients ask, each a few times.
func (s *soaking) round(t *testing.T, number uint64) {
	var all sync.WaitGroup
	for client := range uint64(24) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(number, client))
			for range 4 {
				kind := random.IntN(len(soakKinds))
				soakKinds[kind].do(s, t, s.servers[random.IntN(len(s.servers))], random)
				s.told[kind].Add(1)
			}
		})
	}
	all.Wait()
}

// awaitQuiet waits until nothing is under way.
func (s *soaking) awaitQuiet(t *testing.T) {
	s.client.CloseIdleConnections()
	for _, x := range s.servers {
		await.For(t, "nothing is computed any more", func() bool {
			stats := x.engine.Stats()
			return stats.Active == 0 && stats.Waiting == 0 && stats.PagesUsed == 0
		})
	}
}

// report logs what has happened, and fails for what has not.
func (s *soaking) report(t *testing.T) {
	for i, kind := range soakKinds {
		n := s.told[i].Load()
		t.Logf("%6d %s", n, kind.name)
		if n == 0 {
			t.Errorf("no %s", kind.name)
		}
	}
	var all answer.Stats
	for i, x := range s.servers {
		v := x.engine.Stats()
		v.Slots = nil
		t.Logf("%+v", v)
		if v.Failed != 0 || (v.CachedTokens > 0) != (i == 0) {
			t.Errorf("server %d has failures, or reuses prefixes where the other does: %+v", i, v)
		}
		all.Add(&v)
	}
	if all.Preemptions == 0 || all.GuessedRight == 0 || all.GuessedRight == all.Guessed || all.Canceled == 0 {
		t.Errorf("there are no preemptions, right and wrong guesses, or answers that nobody wants any more: %+v", all)
	}
	t.Logf("%6d refused, since too many waited", s.refused.Load())
}

// send sends a request. It returns an empty text if the server refuses it because too many wait.
func (s *soaking) send(t *testing.T, url, body string) (text string) {
	response, err := s.client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	switch {
	case response.StatusCode == http.StatusTooManyRequests && response.Header.Get("Retry-After") != "":
		s.refused.Add(1)
		return ""
	case response.StatusCode != http.StatusOK:
		t.Errorf("%s: %s: %s", body, response.Status, all)
		return ""
	}
	return string(all)
}

func (s *soaking) choose(random *rand.Rand) asked { return s.asked[random.IntN(len(s.asked))] }

// lasting returns what every answer to the same request has in common.
func lasting(t *testing.T, text string) string {
	t.Helper()
	var x struct{ Choices, Receipt json.RawMessage }
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	return string(x.Choices) + string(x.Receipt)
}

// whole asks for a whole answer, compares it with the answer alone, and returns it.
func (s *soaking) whole(t *testing.T, x *soaked, random *rand.Rand) string {
	a := s.choose(random)
	text := s.send(t, x.url+a.path, a.body+"}")
	if text == "" {
		return ""
	}
	if got, want := lasting(t, text), lasting(t, a.want); got != want {
		t.Errorf("%s\ngives\n%s\nwant\n%s", a.body, got, want)
	}
	return text
}

func (s *soaking) askWhole(t *testing.T, x *soaked, random *rand.Rand) { s.whole(t, x, random) }

func (s *soaking) askStream(t *testing.T, x *soaked, random *rand.Rand) {
	a := s.choose(random)
	text := s.send(t, x.url+a.path, a.body+`,"stream":true}`)
	if text == "" {
		return
	}
	texts, last, finishes := streamed(t, text)
	want := decode(t, a.want)
	if bytesOf(t, last.Receipt) != bytesOf(t, want.Receipt) || finishes != len(want.Choices) {
		t.Errorf("the stream of %s ends with\n%s\nwant\n%s", a.body, last.Receipt, want.Receipt)
	}
	for _, c := range want.Choices {
		if got := texts[c.Index]; got != c.Text+c.Message.Content {
			t.Errorf("choice %d of the stream of %s is %q, want %q", c.Index, a.body, got, c.Text+c.Message.Content)
		}
	}
}

func (s *soaking) leaveStream(t *testing.T, x *soaked, random *rand.Rand) {
	a := s.choose(random)
	leave(t, s.client, x.url+a.path, a.body+`,"stream":true}`, random.IntN(6))
}

func (s *soaking) replay(t *testing.T, x *soaked, random *rand.Rand) {
	text := s.whole(t, x, random)
	if text == "" {
		return
	}
	if text = s.send(t, x.url+"/replay", text); text != "" && !strings.Contains(text, `"same":true`) {
		t.Errorf("the replay says %s", text)
	}
}

func (s *soaking) askBadly(t *testing.T, x *soaked, random *rand.Rand) {
	for _, bad := range []struct {
		body string
		want int
	}{
		{`{"prompt":`, 400}, {`{"prompt":7}`, 400}, {`{"prompt":"a","model":"gpt"}`, 404}, {`{"prompt":"a","temperature":-1}`, 400},
		{`{"prompt":[999]}`, 400}, {`{"prompt":"` + strings.Repeat("a", 200) + `"}`, 400}, {`{"prompt":"` + strings.Repeat("a", 1<<20) + `"}`, 413},
		{`{"prompt":["a","b","c"],"n":100}`, 400}, {strings.Repeat(`{"a":`, 9999), 400}, {"\xff\x00", 400},
	} {
		if random.IntN(3) > 0 {
			continue
		}
		response, err := s.client.Post(x.url+"/v1/completions", "application/json", strings.NewReader(bad.body))
		if err != nil {
			t.Error(err)
			return
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != bad.want || !bytes.Contains(text, []byte(`{"error":{`)) {
			t.Errorf("%.60s: %s %s %v, want %d", bad.body, response.Status, text, err, bad.want)
		}
	}
}

// breakOff opens connections that send too little.
func (s *soaking) breakOff(t *testing.T, x *soaked, random *rand.Rand) {
	const head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	for _, text := range []string{
		"", "GET", "\x16\x03\x01\x02\x00\x01\x00", head, head + "Content-Length: 99\r\n\r\n{", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		head + "Content-Length: 26\r\n\r\n" + `{"prompt":"a","stream":true`, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", x.address)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Error(err)
		}
		if s.long && strings.HasSuffix(text, "{") && random.IntN(1000) == 0 {
			if answered, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(answered, []byte("HTTP/1.1 408 ")) {
				t.Errorf("half a request gets %q, %v", answered, err)
			}
		}
	}
}

func (s *soaking) look(t *testing.T, x *soaked, random *rand.Rand) {
	paths := []string{"/", "/metrics", "/stats", "/health", "/healthz", "/v1/models", "/v1/models/tiny"}
	response, err := s.client.Get(x.url + paths[random.IntN(len(paths))])
	if err != nil {
		t.Error(err)
		return
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s: %s %v", response.Request.URL, response.Status, err)
	}
	s.send(t, x.url+"/tokenize", `{"prompt":"text"}`)
}
