package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tokitai/answer"
	"tokitai/answer/answertest"
	"tokitai/backend/cpu"
	"tokitai/internal/await"
	"tokitai/internal/testlevel"
	"tokitai/model"
	"tokitai/model/huggingface"
	"tokitai/serve"
)

// tinyModel has a chat template, in which messages are lines.
var tinyModel = sync.OnceValues(func() (*answer.Model, error) {
	return answertest.ChatModel("{% for m in messages %}{{ m.role[0] }}:{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}a:{% endif %}")
})

func start(t testing.TB, l answer.Limits, o serve.Options) (*httptest.Server, *serve.Server, *answer.Engine) {
	t.Helper()
	m, err := tinyModel()
	if err != nil {
		t.Fatal(err)
	}
	e, err := answer.NewEngine(cpu.Queue(), m, l)
	if err != nil {
		t.Fatal(err)
	}
	s := serve.New(e, o)
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.Close()
		e.Close()
	})
	return server, s, e
}

// post sends JSON and returns the status and the body.
func post(t testing.TB, url, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	return send(t, http.MethodPost, url, strings.NewReader(body), append(header, "Content-Type", "application/json"))
}

func get(t testing.TB, url string, header ...string) (int, string) {
	t.Helper()
	status, text, _ := send(t, http.MethodGet, url, nil, header)
	return status, text
}

func send(t testing.TB, method, url string, body io.Reader, header []string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

// decoded is what tests read of responses.
type decoded struct {
	Object      string
	Fingerprint string `json:"system_fingerprint"`
	Choices     []struct {
		Index    int
		Text     string
		Message  struct{ Role, Content string }
		Delta    struct{ Role, Content string }
		Finish   *string `json:"finish_reason"`
		Logprobs *struct {
			Tokens  []string
			Values  []*float32           `json:"token_logprobs"`
			Top     []map[string]float32 `json:"top_logprobs"`
			Offsets []int                `json:"text_offset"`
			Content []struct {
				Token string
				Bytes []int
				Top   []struct{ Token string } `json:"top_logprobs"`
			}
		}
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	Receipt  json.RawMessage
	Receipts []json.RawMessage
	Error    *struct {
		Message, Code string
		Param         *string
	}
}

func decode(t testing.TB, text string) *decoded {
	t.Helper()
	d := new(decoded)
	if err := json.Unmarshal([]byte(text), d); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return d
}

// streamed puts the chunks of a stream together.
func streamed(t testing.TB, text string) (texts map[int]string, last *decoded, finishes int) {
	t.Helper()
	texts = map[int]string{}
	isDone := false
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		switch {
		case !ok:
			continue
		case isDone:
			t.Errorf("behind [DONE]: %s", line)
		case data == "[DONE]":
			isDone = true
			continue
		}
		last = decode(t, data)
		for _, c := range last.Choices {
			texts[c.Index] += c.Text + c.Delta.Content
			if c.Finish != nil {
				finishes++
			}
		}
	}
	if !isDone {
		t.Errorf("the stream has no end: %s", text)
	}
	return texts, last, finishes
}

// TestCompletions: answers, streams of them, several prompts and choices, echoes with logprobs, and receipts that replay.
func TestCompletions(t *testing.T) {
	server, _, _ := start(t, answer.DefaultLimits, serve.DefaultOptions)
	const body = `{"model":"tiny","prompt":[[256,97,98],[256,97,98]],"n":2,"seed":5,"max_tokens":9,"top_p":0.9,"tools":[],"response_format":{"type":"text"},"suffix":null,"user":"x"`
	status, text, _ := post(t, server.URL+"/v1/completions", body+"}")
	d := decode(t, text)
	if status != 200 || len(d.Choices) != 4 || d.Usage.Prompt != 6 || d.Object != "text_completion" {
		t.Fatalf("%d: %s", status, text)
	}
	for i := range 2 { // the prompts are the same tokens
		if a, b := d.Choices[i], d.Choices[i+2]; a.Index != i || b.Index != i+2 || a.Text != b.Text || *a.Finish != *b.Finish {
			t.Errorf("choices %d and %d are %+v and %+v", i, i+2, a, b)
		}
	}
	if d.Choices[0].Text == d.Choices[1].Text {
		t.Errorf("both choices are %q", d.Choices[0].Text)
	}
	if status, text, _ := post(t, server.URL+"/replay", text); status != 200 || !strings.Contains(text, `"same":true`) {
		t.Errorf("replay of the answer: %d %s", status, text)
	}
	_, stream, header := post(t, server.URL+"/v1/completions", body+`,"stream":true,"stream_options":{"include_usage":true}}`)
	texts, last, finishes := streamed(t, stream)
	if header.Get("Content-Type") != "text/event-stream" || finishes != 4 || last.Usage == nil || *last.Usage != *d.Usage || len(last.Receipts) != 2 || len(last.Choices) != 0 {
		t.Errorf("the stream ends with %+v after %d ends", last, finishes)
	}
	for i, c := range d.Choices {
		if texts[i] != c.Text {
			t.Errorf("choice %d of the stream is %q, want %q", i, texts[i], c.Text)
		}
	}
	if a, b := bytesOf(t, last.Receipts), bytesOf(t, d.Receipts); a != b {
		t.Errorf("the receipts of the stream are\n%s\nwant\n%s", a, b)
	}

	// What lm-eval asks for: logprobs of a prompt that is given as tokens.
	_, text, _ = post(t, server.URL+"/v1/completions", `{"prompt":[[256,97,98,99]],"echo":true,"logprobs":1,"max_tokens":1,"temperature":0,"seed":1234}`)
	d = decode(t, text)
	l := d.Choices[0].Logprobs
	if len(l.Tokens) != 5 || l.Values[0] != nil || l.Values[1] == nil || len(l.Top[4]) != 1 || l.Tokens[1] != "a" || l.Offsets[2] != l.Offsets[1]+1 || !strings.HasPrefix(d.Choices[0].Text, "abc") {
		t.Errorf("echo: %s", text)
	}
	if top := l.Top[4][l.Tokens[4]]; top != *l.Values[4] {
		t.Errorf("the token taken has the logprob %v, and as the likeliest %v", *l.Values[4], top)
	}
	const unicode = `{"prompt":"Übung 日","echo":true,"logprobs":1,"max_tokens":3,"seed":1,"ignore_eos":true`
	_, text, _ = post(t, server.URL+"/v1/completions", unicode+"}")
	_, stream, _ = post(t, server.URL+"/v1/completions", unicode+`,"stream":true}`)
	if texts, _, _ := streamed(t, stream); texts[0] != decode(t, text).Choices[0].Text || !strings.HasPrefix(texts[0], "Übung 日") {
		t.Errorf("the echo of a stream is %q, and %s", texts[0], text)
	}
	_, zero, _ := post(t, server.URL+"/v1/completions", `{"prompt":[256,97,98,99],"echo":true,"logprobs":1,"max_tokens":0}`)
	if z := decode(t, zero).Choices[0].Logprobs; len(z.Values) != 4 || *z.Values[3] != *l.Values[3] {
		t.Errorf("echo alone: %s", zero)
	}
}

func bytesOf(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	json.Compact(&b, text)
	return b.String()
}

// TestChat: a conversation, whole and streamed, with logprobs, and what the template makes of it.
func TestChat(t *testing.T) {
	server, _, _ := start(t, answer.DefaultLimits, serve.DefaultOptions)
	const body = `{"messages":[{"role":"system","content":"x"},{"role":"user","content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}],"seed":2,"max_completion_tokens":8,"logprobs":true,"top_logprobs":2,"stop":"zz"`
	status, text, _ := post(t, server.URL+"/v1/chat/completions", body+"}")
	d := decode(t, text)
	if status != 200 || d.Object != "chat.completion" || d.Choices[0].Message.Role != "assistant" || len(d.Choices[0].Logprobs.Content) != 8 || len(d.Choices[0].Logprobs.Content[0].Top) != 2 {
		t.Fatalf("%d: %s", status, text)
	}
	_, direct, _ := post(t, server.URL+"/v1/completions", `{"prompt":[115,58,120,10,117,58,104,105,10,97,58],"seed":2,"max_tokens":8}`)
	if want := decode(t, direct).Choices[0].Text; d.Choices[0].Message.Content != want {
		t.Errorf("the answer is %q, and to the same tokens %q", d.Choices[0].Message.Content, want)
	}
	_, text, _ = post(t, server.URL+"/v1/chat/completions", body+`,"logit_bias":{"255":100}}`)
	if c := decode(t, text).Choices[0].Logprobs.Content[0]; c.Token != "<0xFF>" || !slices.Equal(c.Bytes, []int{255}) {
		t.Errorf("a byte that is no character is %+v", c)
	}
	_, stream, _ := post(t, server.URL+"/v1/chat/completions", body+`,"stream":true}`)
	texts, last, _ := streamed(t, stream)
	if texts[0] != d.Choices[0].Message.Content || bytesOf(t, last.Receipt) != bytesOf(t, d.Receipt) || last.Usage != nil || last.Object != "chat.completion.chunk" {
		t.Errorf("the stream has %q and ends with %+v", texts[0], last)
	}
}

// TestBadInput: everything that cannot be answered is an error that names what is wrong.
func TestBadInput(t *testing.T) {
	o := serve.DefaultOptions
	o.MaxBody = 4096
	server, _, _ := start(t, answer.DefaultLimits, o)
	const completions, chats = "/v1/completions", "/v1/chat/completions"
	for _, x := range []struct {
		path, body string
		status     int
		want       string
	}{
		{completions, `{`, 400, "no JSON object"},
		{completions, `[]`, 400, "no JSON object"},
		{completions, `null`, 400, "not one JSON object"},
		{completions, `{"prompt":"a"} {}`, 400, "not one JSON object"},
		{completions, `{}`, 400, "prompt: is missing"},
		{completions, `{"prompt":7}`, 400, "prompt: want a text"},
		{completions, `{"prompt":["a",[1]]}`, 400, "prompt: want a text"},
		{completions, `{"prompt":[]}`, 400, "prompt: want a text"},
		{completions, `{"prompt":[[]]}`, 400, "the prompt is empty"},
		{completions, `{"prompt":[257]}`, 400, "token 0 of the prompt is 257"},
		{completions, `{"prompt":[1.5]}`, 400, "prompt: want a text"},
		{completions, `{"prompt":"a","max_tokens":"many"}`, 400, "max_tokens: is a string, want an integer"},
		{completions, `{"prompt":"a","max_tokens":1.5}`, 400, "max_tokens: is number 1.5, want an integer"},
		{completions, `{"prompt":"a","stream":"yes"}`, 400, "stream: is a string, want true or false"},
		{completions, "{\"prompt\":\"\xff\"}", 400, "the body is not UTF-8"},
		{completions, `{"prompt":"a","max_tokens":-1}`, 400, "max_tokens: is -1"},
		{completions, `{"prompt":"a","max_tokens":0}`, 400, "max_tokens: is 0"},
		{completions, `{"prompt":"a","temperature":-1}`, 400, "temperature is -1"},
		{completions, `{"prompt":"a","temperature":1e999}`, 400, "temperature"},
		{completions, `{"prompt":"a","n":0}`, 400, "n: is 0, want 1 to 128"},
		{completions, `{"prompt":"a","n":1000000}`, 400, "n: is 1000000"},
		{completions, `{"prompt":["a","a","a"],"n":128}`, 400, "384 answers are asked for in one request, want at most 272"},
		{completions, `{"prompt":"a","logprobs":21}`, 400, "logprobs: is 21"},
		{completions, `{"prompt":"a","stop":[""]}`, 400, "stop: a text of 0 bytes"},
		{completions, `{"prompt":"a","stop":7}`, 400, "stop: want a text"},
		{completions, `{"prompt":"a","logit_bias":{"x":1}}`, 400, "logit_bias: "},
		{completions, `{"prompt":"a","logit_bias":{"900":1}}`, 400, "logit_bias has the token 900"},
		{completions, `{"prompt":"a","seed":"x"}`, 400, "seed: is a string, want an integer of 64 bits"},
		{completions, `{"prompt":"a","suffix":"x"}`, 400, "suffix: is not supported"},
		{completions, `{"prompt":"a","best_of":3}`, 400, "best_of: is not supported"},
		{completions, `{"prompt":"a","guided_json":{"a":1}}`, 400, "guided_json: is not supported"},
		{completions, `{"prompt":"a","stream_options":{"include_usage":true}}`, 400, "stream_options: want stream"},
		{completions, `{"prompt":"a","model":"gpt"}`, 404, `the model \"gpt\" does not exist`},
		{completions, `{"prompt":"` + strings.Repeat("a", 200) + `"}`, 400, "too many tokens"},
		{completions, `{"prompt":"` + strings.Repeat("a", 5000) + `"}`, 413, "the request has more than 4096 bytes"},
		{chats, `{"messages":[]}`, 400, "messages: want an array"},
		{chats, `{"messages":[{"content":"x"}]}`, 400, "message 0: it has no role"},
		{chats, `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, 400, "type image_url is not supported"},
		{chats, `{"messages":[{"role":"user"}]}`, 400, "content: want a text"},
		{chats, `{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]}`, 400, "tools: is not supported"},
		{chats, `{"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema"}}`, 400, "response_format: is not supported"},
		{chats, `{"messages":[{"role":"user","content":"x"}],"top_logprobs":3}`, 400, "top_logprobs: want logprobs"},
		{"/tokenize", `{}`, 400, "prompt: is missing"},
		{"/detokenize", `{"tokens":[999]}`, 400, "no token has the id 999"},
		{"/replay", `{}`, 400, "no receipt"},
		{"/replay", `{"receipt":{"receipt":1,"identity":{"rule":"fma"},"prompt":[1],"choices":[]}}`, 400, "another model"},
		{"/replay", `{"receipt":{"receipt":1,"identity":{"rule":"any"},"prompt":[1],"choices":[]}}`, 400, `accumulation rule \"any\"`},
		{"/v1/responses", `{}`, 404, "not supported by this server"},
		{"/nothing", `{}`, 404, "there is no"},
	} {
		status, text, _ := post(t, server.URL+x.path, x.body)
		if d := decode(t, text); status != x.status || d.Error == nil || !strings.Contains(text, x.want) {
			t.Errorf("%s %.60s: %d %s, want %d with %q", x.path, x.body, status, text, x.status, x.want)
		}
	}
	const form = "application/x-www-form-urlencoded"
	for _, x := range []struct {
		method, path string
		header       []string
		status       int
		want         string
	}{
		{"POST", completions, []string{"Content-Type", form}, 415, "want application/json"},
		{"POST", completions, []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, 415, `the content encoding is \"gzip\"`},
		{"GET", completions, nil, 405, "GET /v1/completions: want POST"},
		{"DELETE", "/v1/models/tiny", nil, 405, "want GET"},
		{"POST", "/health", []string{"Content-Type", "application/json"}, 405, "want GET"},
		{"GET", "/nothing", nil, 404, "there is no GET /nothing"},
	} {
		status, text, header := send(t, x.method, server.URL+x.path, strings.NewReader("{}"), x.header)
		if status != x.status || !strings.Contains(text, x.want) || (header.Get("Allow") != "") != (status == http.StatusMethodNotAllowed) {
			t.Errorf("%s %s: %d %s, want %d with %q", x.method, x.path, status, text, x.status, x.want)
		}
	}
}

// TestBadBodies: bodies that are no HTTP, too large or do not come get an answer, also where the client sends all of it
// first.
func TestBadBodies(t *testing.T) {
	o := serve.DefaultOptions
	o.Keys = []string{"secret"}
	patient, _, _ := start(t, answer.DefaultLimits, o)
	o.Stall = 300 * time.Millisecond
	impatient, _, _ := start(t, answer.DefaultLimits, o)
	const key = "Authorization: Bearer secret\r\n"
	for _, x := range []struct {
		name, header, body, want string
	}{
		{"half of it", key + "Content-Length: 100", `{"prompt":`, "HTTP/1.1 408 "},
		{"half of it, without a key", "Content-Length: 100", `{"prompt":`, "HTTP/1.1 401 "},
		{"too large", key + "Content-Length: 10000000", strings.Repeat("a", 10000000), "HTTP/1.1 413 "},
		{"too large, and not sent", key + "Content-Length: 10000000\r\nExpect: 100-continue", "", "HTTP/1.1 413 "},
		{"a chunk", key + "Transfer-Encoding: chunked", "zz\r\n", "HTTP/1.1 400 "},
	} {
		server := patient
		if strings.HasPrefix(x.name, "half") {
			server = impatient
		}
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n\r\n%s", x.header, x.body); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, x.want) {
			t.Errorf("%s: %q, %v, want %q", x.name, line, err, x.want)
		}
	}
}

// TestKeys: with keys, whoever has none gets nothing but the page and the health.
func TestKeys(t *testing.T) {
	o := serve.DefaultOptions
	o.Keys = []string{"one", "two"}
	server, s, _ := start(t, answer.DefaultLimits, o)
	for _, path := range []string{"/v1/models", "/v1/models/tiny", "/metrics", "/stats"} {
		for key, want := range map[string]int{"": 401, "Bearer three": 401, "Bearer one": 200, "Bearer two": 200} {
			if status, text := get(t, server.URL+path, "Authorization", key); status != want {
				t.Errorf("%s with %q: %d %s, want %d", path, key, status, text, want)
			}
		}
	}
	for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize", "/replay"} {
		if status, _, _ := post(t, server.URL+path, `{}`); status != 401 {
			t.Errorf("%s without a key: %d", path, status)
		}
	}
	for _, path := range []string{"/", "/health", "/healthz"} {
		if status, text := get(t, server.URL+path); status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if status, _ := get(t, server.URL+"/v1/models/other", "Authorization", "Bearer one"); status != 404 {
		t.Errorf("another model: %d", status)
	}
	_, text, _ := post(t, server.URL+"/tokenize", `{"prompt":"aé"}`, "Authorization", "Bearer one")
	if !strings.Contains(text, `"tokens":[256,97,195,169]`) {
		t.Errorf("tokens: %s", text)
	}
	if _, text, _ := post(t, server.URL+"/detokenize", `{"tokens":[256,97,195,169]}`, "Authorization", "Bearer one"); !strings.Contains(text, `"aé"`) {
		t.Errorf("text: %s", text)
	}
	s.Stop()
	if status, _ := get(t, server.URL+"/health"); status != 503 {
		t.Errorf("the health of a server that stops: %d", status)
	}
	if status, _, header := post(t, server.URL+"/v1/completions", `{"prompt":"a"}`, "Authorization", "Bearer one"); status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("a request to a server that stops: %d", status)
	}
	_, text = get(t, server.URL+"/metrics", "Authorization", "Bearer one")
	if !strings.Contains(text, `tokitai_requests_total{path="/v1/models",status="401"} 2`) || !strings.Contains(text, `tokitai_request_seconds_count{path="/health"} 2`) {
		t.Errorf("metrics: %s", text)
	}
}

// TestChangedFile: a server whose model has been written over answers nothing, and its health says why.
func TestChangedFile(t *testing.T) {
	m, err := tinyModel()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "tiny")
	err = huggingface.Write(folder, m.Config, func(w *model.Value) ([]byte, error) { return m.Weights[w.Name].Bytes() }, huggingface.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = answer.Load(cpu.Queue(), folder); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	e, err := answer.NewEngine(cpu.Queue(), m, answer.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	server := httptest.NewServer(serve.New(e, serve.DefaultOptions))
	defer server.Close()
	if status, text := get(t, server.URL+"/health"); status != 200 {
		t.Fatal(text)
	}
	if err := os.Chtimes(filepath.Join(folder, "model.safetensors"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if status, text := get(t, server.URL+"/health"); status != 503 || !strings.Contains(text, "has changed since it was loaded") {
		t.Errorf("the health is %d %s", status, text)
	}
	if status, text, _ := post(t, server.URL+"/v1/completions", `{"prompt":"a"}`); status != 500 || !strings.Contains(text, "has changed since it was loaded") {
		t.Errorf("a request gets %d %s", status, text)
	}
}

// TestBusy: too many requests are refused with the time after which to ask again, and those that wait are answered.
func TestBusy(t *testing.T) {
	server, _, e := start(t, answer.Limits{Sequences: 1, Tokens: 16, Rows: 4, PageSize: 16, Waiting: 1}, serve.DefaultOptions)
	const body = `{"prompt":"a","max_tokens":94,"ignore_eos":true,"seed":1,"stream":true}`
	var all sync.WaitGroup
	results := make([]int, 12)
	for i := range results {
		all.Go(func() {
			status, text, header := post(t, server.URL+"/v1/completions", body)
			results[i] = status
			if status == 429 && (header.Get("Retry-After") == "" || decode(t, text).Error == nil) {
				t.Errorf("a refusal has %v %s", header, text)
			}
		})
	}
	all.Wait()
	counts := map[int]int{}
	for _, status := range results {
		counts[status]++
	}
	if counts[200] == 0 || counts[429] == 0 || counts[200]+counts[429] != len(results) {
		t.Errorf("statuses %v, want 200 and 429", counts)
	}
	if n := e.Stats().Refused; n != int64(counts[429]) {
		t.Errorf("%d refused, want %d", n, counts[429])
	}
}

// TestManyClients: clients of all kinds at once, some of which go away in the middle; every answer has the bits that
// it has alone, prefixes reused or not, and nothing is left behind.
func TestManyClients(t *testing.T) {
	clients := testlevel.Pick(24, 64, 64)
	rounds := testlevel.Pick(1, 4, 16)
	l := answer.Limits{Sequences: 1, Tokens: 128, Rows: 64, PageSize: 256, Waiting: 1, NoReuse: true}
	alone, _, _ := start(t, l, serve.DefaultOptions)
	random := rand.New(rand.NewPCG(1, 1))
	bodies, want := make([]string, 24), make([]string, 24)
	for i := range bodies {
		bodies[i] = fmt.Sprintf(`"prompt":"%s%d","seed":%d,"n":%d,"max_tokens":%d,"temperature":%v,"frequency_penalty":%v`,
			strings.Repeat("common ", random.IntN(6)), i%5, i%7, 1+i%2, 5+random.IntN(40), float64(i%3)/2, float64(i%4)/4)
		status, text, _ := post(t, alone.URL+"/v1/completions", "{"+bodies[i]+"}")
		if want[i] = bytesOf(t, decode(t, text).Receipt); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	for _, noReuse := range []bool{false, true} {
		server, _, e := start(t, answer.Limits{Sequences: 7, Tokens: 40, Rows: 24, Pages: 20, PageSize: 16, Waiting: 999, NoReuse: noReuse}, serve.DefaultOptions)
		var all sync.WaitGroup
		for client := range clients {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(client), 2))
				for range rounds {
					i := r.IntN(len(bodies))
					switch body := "{" + bodies[i]; r.IntN(3) {
					case 0:
						_, text, _ := post(t, server.URL+"/v1/completions", body+"}")
						if got := bytesOf(t, decode(t, text).Receipt); got != want[i] {
							t.Errorf("%s\ngives\n%s\nwant\n%s", body, got, want[i])
						}
					case 1:
						_, text, _ := post(t, server.URL+"/v1/completions", body+`,"stream":true}`)
						if _, last, _ := streamed(t, text); bytesOf(t, last.Receipt) != want[i] {
							t.Errorf("the stream of %s ends with\n%s\nwant\n%s", body, last.Receipt, want[i])
						}
					case 2:
						leave(t, http.DefaultClient, server.URL+"/v1/completions", body+`,"stream":true}`, r.IntN(4))
					}
				}
			})
		}
		all.Wait()
		await.For(t, "nothing is computed any more", func() bool {
			s := e.Stats()
			return s.Active == 0 && s.Waiting == 0 && s.PagesUsed == 0
		})
		if s := e.Stats(); s.Failed != 0 || (s.CachedTokens > 0) == noReuse {
			t.Errorf("without reuse %v: %+v", noReuse, s)
		}
	}
}

// leave sends a request, reads some lines of the answer, and goes away.
func leave(t *testing.T, client *http.Client, url, body string, lines int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return
	}
	defer response.Body.Close()
	scanner := bufio.NewScanner(response.Body)
	for range lines {
		scanner.Scan()
	}
}
