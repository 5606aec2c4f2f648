package answer_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tokitai/answer"
	"tokitai/answer/answertest"
	"tokitai/backend/cpu"
	"tokitai/internal/await"
	"tokitai/model"
	"tokitai/model/huggingface"
	"tokitai/tensor"
)

// TestReplay: a receipt that went through JSON is computed again, by an engine of another shape, and everything in it
// that is changed is found where it is.
func TestReplay(t *testing.T) {
	m := tinyOrFail(t)
	e := start(t, m, answer.DefaultLimits)
	r := requests(5, 7)[3]
	r.Most, r.Guesses = 20, 3
	_, receipt, err := e.Complete(context.Background(), r, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := start(t, m, answer.Limits{Sequences: 1, Tokens: 7, Rows: 3, PageSize: 32, Waiting: 1})
	replay := func(change func(*answer.Receipt)) (int, error) {
		text, err := json.Marshal(map[string]any{"id": 1, "receipt": receipt})
		if err != nil {
			t.Fatal(err)
		}
		list, err := answer.ReadReceipts(text)
		if err != nil || len(list) != 1 {
			t.Fatal(err, len(list))
		}
		change(list[0])
		return answer.Replay(context.Background(), other, list[0], nil)
	}
	if n, err := replay(func(*answer.Receipt) {}); n != 40 || err != nil {
		t.Fatalf("%d tokens are the same (%v), want 40", n, err)
	}
	first := len(r.Prompt)
	for name, x := range map[string]struct {
		change   func(*answer.Receipt)
		position int
		what     string
	}{
		"a token":     {func(r *answer.Receipt) { r.Choices[1].Output[4]++ }, first + 4, "token"},
		"a checksum":  {func(r *answer.Receipt) { r.Choices[0].Checksums[3]++ }, first + 3, "logits"},
		"the prompt":  {func(r *answer.Receipt) { r.Prompt[0]-- }, first, "logits"},
		"the choice":  {func(r *answer.Receipt) { r.Choices[1].Index = 5 }, -1, "token"},
		"the seed":    {func(r *answer.Receipt) { r.Sampling.Seed++ }, -1, "token"},
		"a bias":      {func(r *answer.Receipt) { r.Sampling.Bias = nil }, -1, "token"},
		"the end":     {func(r *answer.Receipt) { r.Choices[0].Finish = "stop" }, first + 20, "end"},
		"an end more": {func(r *answer.Receipt) { r.Most = 10 }, first + 10, "end"},
	} {
		_, err := replay(x.change)
		d, ok := errors.AsType[*answer.Difference](err)
		if !ok || d.What != x.what || x.position >= 0 && d.Position != x.position {
			t.Errorf("with %s changed: %v, want a difference of the %s at %d", name, err, x.what, x.position)
		}
	}
	_, err = replay(func(r *answer.Receipt) { r.Identity.Program = "x" })
	if !errors.Is(err, tensor.ErrBadArgument) || !strings.Contains(err.Error(), "program is") {
		t.Errorf("another program: %v", err)
	}
	for _, text := range []string{"{", `{"receipt":2,"prompt":[1]}`, `{"receipt":1}`, `{"receipt":1,"prompt":[1],"choices":[{"output":[1]}]}`, `{"receipts":[null]}`, `{"receipt":1,"prompt":[1],"choices":[{"output":[1],"checksums":["zz"]}]}`} {
		if list, err := answer.ReadReceipts([]byte(text)); err == nil {
			t.Errorf("%s is accepted: %v", text, list)
		}
	}
}

// TestStops: a stop ends the text in front of it, wherever tokens divide it, and an end of a document ends an answer.
func TestStops(t *testing.T) {
	m := tinyOrFail(t)
	e := start(t, m, answer.DefaultLimits)
	for _, r := range requests(5, 3) {
		r.Stops, r.Echo = nil, false
		full := answerTo(t, e, r)
		if len(full.Text) < 6 {
			continue
		}
		runes := []rune(full.Text)
		stop := string(runes[len(runes)/2 : len(runes)/2+2])
		want, _, _ := strings.Cut(full.Text, stop)
		r.Stops = []string{"never there", stop}
		if got := answerTo(t, e, r); got.Text != want || got.Finish != answer.FinishStop {
			t.Errorf("stop %q: %q, %s, want %q of %q", stop, got.Text, got.Finish, want, full.Text)
		}
	}
	r := answer.Request{Prompt: []int32{256, 'a'}, Sampling: answer.DefaultSampling, Most: 50}
	r.Sampling.Bias = []answer.Bias{{Token: 256, Value: 100}}
	if got := answerTo(t, e, r); got.Finish != answer.FinishStop || len(got.Events) != 1 || got.Text != "" {
		t.Errorf("an end at once: %+v", got)
	}
	if r.NoEnd = true; answerTo(t, e, r).Finish != answer.FinishLength {
		t.Error("an end that is ignored ends the answer")
	}
}

// TestCancel: answers that nobody wants any more leave no pages, waiting ones included, and others go on.
func TestCancel(t *testing.T) {
	m := tinyOrFail(t)
	e := start(t, m, answer.Limits{Sequences: 2, Tokens: 16, Rows: 4, PageSize: 16, Waiting: 10, NoReuse: true})
	r := answer.Request{Prompt: []int32{256, 'a'}, Sampling: answer.DefaultSampling, Most: 90, NoEnd: true}
	want := answerTo(t, e, r)
	var answers []*answer.Answer
	for range 9 {
		a, err := e.Start(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	for i, a := range answers {
		if i%2 == 0 {
			a.Cancel()
		}
	}
	for i, a := range answers {
		got, err := collect(a)
		if i%2 == 1 && (err != nil || !slices.EqualFunc(got.Events, want.Events, func(a, b answer.Event) bool { return a.Token == b.Token && a.Checksum == b.Checksum })) {
			t.Errorf("answer %d is another one: %v", i, err)
		}
	}
	await.For(t, "the pages are free", func() bool { s := e.Stats(); return s.PagesUsed == 0 && s.Active == 0 && s.Waiting == 0 })
}

// TestSalt: prefixes are found by requests of the same salt alone, and by every part of a page.
func TestSalt(t *testing.T) {
	e := start(t, tinyOrFail(t), answer.Limits{Sequences: 1, Tokens: 64, Rows: 4, PageSize: 16, Waiting: 1})
	r := answer.Request{Prompt: slices.Repeat([]int32{'a', 'b', 'c'}, 12), Sampling: answer.DefaultSampling, Most: 1}
	for i, x := range []struct {
		salt   string
		change int // token of the prompt that is another one; 0 for none
		cached int64
	}{{"one", 0, 0}, {"one", 0, 32}, {"two", 0, 0}, {"two", 0, 32}, {"one", 35, 32}, {"one", 17, 16}, {"one", 15, 0}} {
		before := e.Stats().CachedTokens
		q := r
		q.Salt, q.Prompt = x.salt, slices.Clone(r.Prompt)
		if x.change > 0 {
			q.Prompt[x.change] = 'z'
		}
		answerTo(t, e, q)
		if got := e.Stats().CachedTokens - before; got != x.cached {
			t.Errorf("request %d: %d tokens are reused, want %d", i, got, x.cached)
		}
	}
}

// TestRefused: requests that cannot be answered, too many of them, and an engine that is closed.
func TestRefused(t *testing.T) {
	m := tinyOrFail(t)
	e, err := answer.NewEngine(cpu.Queue(), m, answer.Limits{Sequences: 1, Tokens: 16, Rows: 4, PageSize: 16, Waiting: 1})
	if err != nil {
		t.Fatal(err)
	}
	good := answer.Request{Prompt: []int32{256, 'a'}, Sampling: answer.DefaultSampling, Most: 90, NoEnd: true}
	for name, change := range map[string]func(*answer.Request){
		"no prompt":        func(r *answer.Request) { r.Prompt = nil },
		"a token":          func(r *answer.Request) { r.Prompt = []int32{257} },
		"a token below 0":  func(r *answer.Request) { r.Prompt = []int32{-1} },
		"a long prompt":    func(r *answer.Request) { r.Prompt = make([]int32, 97) },
		"no room":          func(r *answer.Request) { r.Prompt = make([]int32, 96) },
		"an empty stop":    func(r *answer.Request) { r.Stops = []string{""} },
		"a temperature":    func(r *answer.Request) { r.Sampling.Temperature = math.NaN() },
		"a top_p":          func(r *answer.Request) { r.Sampling.TopP = 1.5 },
		"a top_k":          func(r *answer.Request) { r.Sampling.TopK = -1 },
		"a bias":           func(r *answer.Request) { r.Sampling.Bias = []answer.Bias{{Token: 300, Value: 1}} },
		"a large bias":     func(r *answer.Request) { r.Sampling.Bias = []answer.Bias{{Token: 3, Value: 1e9}} },
		"a wrong answer":   func(r *answer.Request) { r.Given = []int32{999} },
		"a repetition":     func(r *answer.Request) { r.Sampling.Repetition = 0 },
		"guesses below 0":  func(r *answer.Request) { r.Guesses = -1 },
		"too many likely":  func(r *answer.Request) { r.Top = 258 },
		"tokens below 0":   func(r *answer.Request) { r.Most = -1 },
		"a long answer":    func(r *answer.Request) { r.Given = make([]int32, 96) },
		"a min_p below 0":  func(r *answer.Request) { r.Sampling.MinP = -1 },
		"a frequency of 3": func(r *answer.Request) { r.Sampling.Frequency = 3 },
	} {
		r := good
		if change(&r); !errorIs(e, r, tensor.ErrBadArgument) {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := e.StartAll(context.Background(), slices.Repeat([]answer.Request{good}, 3)); !errors.Is(err, answer.ErrBusy) {
		t.Errorf("three at once: %v, want %v", err, answer.ErrBusy)
	}
	a, err := e.Start(context.Background(), good)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := collect(a); !errors.Is(err, answer.ErrClosed) {
		t.Errorf("an answer of an engine that was closed: %v, want %v", err, answer.ErrClosed)
	}
	if !errorIs(e, good, answer.ErrClosed) {
		t.Error("a closed engine takes requests")
	}
	for _, l := range []answer.Limits{{}, {Sequences: 4, Tokens: 3, Rows: 4, PageSize: 16}, {Sequences: 1, Tokens: 1, Rows: 1, PageSize: 24}, {Sequences: 1, Tokens: 1, Rows: 1, PageSize: 16, Pages: 2}} {
		if _, err := answer.NewEngine(cpu.Queue(), m, l); !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("limits %+v: %v, want an error", l, err)
		}
	}
}

func errorIs(e *answer.Engine, r answer.Request, want error) bool {
	_, err := e.Start(context.Background(), r)
	return errors.Is(err, want)
}

// TestNoNumber: a model whose logits are no numbers gives an error that says so, and the engine goes on.
func TestNoNumber(t *testing.T) {
	m, err := answertest.Model(tiny, 2)
	if err != nil {
		t.Fatal(err)
	}
	w := m.Weights["model.norm.weight"]
	values, _ := w.Float32s()
	e := start(t, m, answer.DefaultLimits)
	r := answer.Request{Prompt: []int32{256, 'a'}, Sampling: answer.DefaultSampling, Most: 4}
	want := answerTo(t, e, r)
	bad := slices.Clone(values)
	bad[7] = float32(math.NaN())
	if err := w.SetFloat32s(bad); err != nil {
		t.Fatal(err)
	}
	a, err := e.Start(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collect(a); !errors.Is(err, answer.ErrNoNumber) {
		t.Errorf("logits that are NaN: %v, want %v", err, answer.ErrNoNumber)
	}
	if err := w.SetFloat32s(values); err != nil {
		t.Fatal(err)
	}
	if got := answerTo(t, e, r); got.Text != want.Text {
		t.Errorf("afterwards %q, want %q", got.Text, want.Text)
	}
}

// fromFolder writes a model as a folder of transformers, loads it and starts an engine for it.
func fromFolder(t *testing.T, m *answer.Model) (folder string, read *answer.Model, e *answer.Engine) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "tiny")
	err := huggingface.Write(folder, m.Config, func(w *model.Value) ([]byte, error) { return m.Weights[w.Name].Bytes() }, huggingface.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if read, err = answer.Load(cpu.Queue(), folder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close() }) // after the engine
	return folder, read, start(t, read, answer.DefaultLimits)
}

// TestFolder: a model that was written as a folder of transformers is the same one, to its digests and answers.
func TestFolder(t *testing.T) {
	m := tinyOrFail(t)
	_, read, e := fromFolder(t, m)
	if read.Identity != m.Identity {
		t.Errorf("the folder is %+v, want %+v", read.Identity, m.Identity)
	}
	_, receipt, err := e.Complete(context.Background(), requests(3, 5)[2], 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := answer.Replay(context.Background(), start(t, m, answer.DefaultLimits), receipt, nil); err != nil {
		t.Error(err)
	}
}

// TestChanged: once somebody has written the file of the weights, no answer claims to be of them any more.
func TestChanged(t *testing.T) {
	folder, _, e := fromFolder(t, tinyOrFail(t))
	_, receipt, err := e.Complete(context.Background(), requests(3, 5)[2], 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	underWay, err := e.Start(context.Background(), requests(3, 5)[2])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "model.safetensors")
	during := func(int, *answer.Event, string) error { return os.Chtimes(file, time.Time{}, time.Unix(1, 0)) }
	if _, _, err := e.Complete(context.Background(), requests(3, 5)[2], 1, during); !errors.Is(err, huggingface.ErrChanged) {
		t.Errorf("an answer that is under way: %v, want %v", err, huggingface.ErrChanged)
	}
	if _, err := collect(underWay); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 1); err != nil { // what is not there any more must not be read
		t.Fatal(err)
	}
	if _, _, err := e.Complete(context.Background(), requests(3, 5)[2], 1, nil); !errors.Is(err, huggingface.ErrChanged) || !strings.Contains(err.Error(), file) {
		t.Errorf("an answer: %v, want %v", err, huggingface.ErrChanged)
	}
	if _, err := answer.Replay(context.Background(), e, receipt, nil); !errors.Is(err, huggingface.ErrChanged) {
		t.Errorf("a replay: %v, want %v", err, huggingface.ErrChanged)
	}
}
