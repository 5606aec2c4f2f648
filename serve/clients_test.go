package serve_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/answer"
	"tokitai/internal/browser"
	"tokitai/internal/testlevel"
	"tokitai/internal/tool"
	"tokitai/serve"
)

// TestPageInBrowser has a browser ask for an answer and replay its receipt, as a person does with the page.
func TestPageInBrowser(t *testing.T) {
	_, s, _ := start(t, answer.DefaultLimits, serve.DefaultOptions)
	const script = `<script>
	(async () => {
		const until = async f => { while (!f()) await new Promise(r => setTimeout(r, 20)); };
		await until(() => model);
		$("text").value = "Hello"; $("max_tokens").value = 12; $("seed").value = 7;
		$("ask").requestSubmit();
		await until(() => chosen && !running);
		$("replay").click();
		await until(() => $("verdict").classList.length > 1);
		await until(() => $("totals").textContent);
		await fetch("report", {method: "POST", body: document.body.innerText});
	})();
	</script>`
	report := make(chan string, 1)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/report":
			text, _ := io.ReadAll(r.Body)
			report <- string(text)
		case "/":
			s.ServeHTTP(w, r)
			io.WriteString(w, script)
		default:
			s.ServeHTTP(w, r)
		}
	}))
	defer h.Close()
	c := browser.Command(t, "--remote-debugging-port=0", h.URL)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	defer func() { c.Process.Kill(); <-ended }()
	select {
	case text := <-report:
		for _, want := range []string{"tiny\n", "ready", "Hello", "12 tokens", "seed 7", "the same bits of all logits, and the same draws", "length"} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q:\n%s", want, text)
			}
		}
	case err := <-ended:
		ended <- err
		t.Fatal("the browser has ended:", err)
	}
}

// TestOpenAIClient runs OpenAI's own client for Python against the server.
func TestOpenAIClient(t *testing.T) {
	python := tool.Need(t, "python3")
	if out, err := exec.Command(python, "-c", "import openai").CombinedOutput(); err != nil {
		tool.Missing(t, "openai", string(out))
	}
	o := serve.DefaultOptions
	o.Keys = []string{"secret"}
	server, _, _ := start(t, answer.DefaultLimits, o)
	const script = `
import sys, openai
c = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="secret", max_retries=0)
x = {"ignore_eos": True}
assert [m.id for m in c.models.list()] == ["tiny"]
assert c.models.retrieve("tiny").owned_by == "tokitai"
r = c.completions.create(model="tiny", prompt="Hello", max_tokens=8, seed=3, logprobs=2, n=2, temperature=0.8, extra_body=x)
assert len(r.choices) == 2 and r.usage.completion_tokens == 16 and len(r.choices[0].logprobs.tokens) == 8, r
assert r.system_fingerprint.startswith("tk_") and r.receipt["receipt"] == 1
text = "".join(k.choices[0].text for k in c.completions.create(model="tiny", prompt="Hello", max_tokens=8, seed=3, temperature=0.8, stream=True, extra_body=x))
assert text == r.choices[0].text, (text, r)
m = [{"role": "system", "content": "x"}, {"role": "user", "content": "hi"}]
r = c.chat.completions.create(model="tiny", messages=m, max_completion_tokens=9, seed=5, logprobs=True, top_logprobs=2, extra_body=x)
assert r.choices[0].message.role == "assistant" and len(r.choices[0].logprobs.content) == 9 and r.choices[0].finish_reason == "length", r
chunks = list(c.chat.completions.create(model="tiny", messages=m, max_completion_tokens=9, seed=5, stream=True, stream_options={"include_usage": True}, extra_body=x))
text = "".join(k.choices[0].delta.content or "" for k in chunks if k.choices)
assert text == r.choices[0].message.content and chunks[-1].usage.total_tokens == r.usage.total_tokens, chunks
assert chunks[-1].receipt == r.receipt
with c.chat.completions.stream(model="tiny", messages=m, max_completion_tokens=9, seed=5, extra_body=x) as s:
    s.until_done()
    assert s.current_completion_snapshot.choices[0].message.content == text
for wrong, kind in [(dict(tools=[{"type": "function", "function": {"name": "f"}}]), openai.BadRequestError), (dict(model="gpt"), openai.NotFoundError)]:
    try:
        c.chat.completions.create(**{"model": "tiny", "messages": m, **wrong})
        assert False, wrong
    except kind as e:
        assert list(wrong)[0] in str(e), e
try:
    openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="no", max_retries=0).models.list()
    assert False
except openai.AuthenticationError:
    pass
print("done")
`
	out, err := exec.Command(python, "-c", script, server.URL).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "done") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestGoClient runs OpenAI's own client for Go against the server. The client is no dependency of this module: a module of its
// own has it.
func TestGoClient(t *testing.T) {
	testlevel.Need(t, testlevel.Quick, "the client takes seconds to be compiled")
	program := filepath.Join(t.TempDir(), "client")
	build := exec.CommandContext(t.Context(), tool.Need(t, "go"), "build", "-trimpath", "-o", program, ".")
	build.Dir, build.Env = filepath.Join("testdata", "goclient"), append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "dial tcp") || strings.Contains(string(out), "module lookup disabled") || strings.Contains(string(out), "no such host") {
			tool.Missing(t, "openai-go", string(out))
		}
		t.Fatalf("%v\n%s", err, out)
	}
	o := serve.DefaultOptions
	o.Keys = []string{"secret"}
	server, _, _ := start(t, answer.DefaultLimits, o)
	if out, err := exec.CommandContext(t.Context(), program, server.URL).CombinedOutput(); err != nil || string(out) != "done\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
