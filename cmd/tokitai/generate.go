package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tokitai/answer"
	"tokitai/answer/openai"
	"tokitai/chat/jinja"
	"tokitai/engine"
	"tokitai/internal/readfile"
)

// generateFlags are the flags of generate.
type generateFlags struct {
	modelFlags
	sampling                    answer.Sampling
	most, top, choices, guesses int
	bias, stops                 []string
	noEnd, isChat, isEcho, json bool
	system, date, file, batch   string
	together                    int // answers
}

func newGenerate() *cobra.Command {
	var f generateFlags
	c := &cobra.Command{
		Use:   "generate MODEL [PROMPT]",
		Short: "answer a prompt with a model, with the same bits on every device and in every batch",
		Long: `Answer a prompt with a model. MODEL is a folder as the library transformers keeps models
(config.json, safetensors, tokenizer.json), the folder of a run of 'tokitai train', whose
newest checkpoint is taken, or a checkpoint. Without PROMPT, the prompt is what --file or
standard input has.

Tokens are printed as they come. The answer follows from the model, the prompt, the seed and
the other parameters alone: not from the device, the batch, or --guess. A seed that is not
given is drawn, and printed on standard error. With --json the answer has a receipt, from
which 'tokitai replay' computes it again.

Sums of products are rounded by a rule, which the receipt names. Rule fma is the same on
every device and slow on GPUs; --rule fast takes that of this device's tensor cores, for a
model of 16 bits. CPUs compute that one too, so that a replay anywhere gives the same bits.

What no flag says of temperature, top-k, top-p, min-p, the repetition penalty, stops and the
number of tokens is as the generation_config.json of MODEL says. Of the parameters, repetition,
frequency and presence penalties and then biases change the logits; temperature, top-k, top-p
and min-p choose among them, one after another. Logprobs are those of the logits as the model
gives them.

--batch reads JSON objects, one in a line, each with "prompt" (a text, or an array of
tokens) or "messages" (a conversation, for a model with a chat template), and the other
members that 'tokitai serve' takes, such as "temperature", "max_tokens" or "ignore_eos". What
is missing is as the flags say. It prints a line of JSON for each, in their order.`,
		Example: `  tokitai generate run "It was" --max-tokens 40
  tokitai generate run --file prompt.txt --temperature 0 --json
  tokitai generate run --batch prompts.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return wrongUse("no model given, want a folder or a checkpoint")
			}
			return noMore(args[min(2, len(args)):])
		},
		ValidArgsFunction: oneFile,
		RunE:              func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.sampling = answer.DefaultSampling
	flags.StringVar(&f.file, "file", "", "read the prompt from `FILE`")
	flags.StringVar(&f.batch, "batch", "", "answer the prompts of `FILE`, a JSON object in each line; - for standard input")
	flags.BoolVar(&f.isChat, "chat", false, "write the prompt as a message to the model's chat template")
	flags.StringVar(&f.system, "system", "", "with --chat, a message of the system in front: `TEXT`")
	flags.StringVar(&f.date, "date", "", "with --chat, `DATE` such as 2026-11-19, for templates that show it")
	flags.IntVar(&f.most, "max-tokens", 256, "end after `N` tokens")
	flags.Float64Var(&f.sampling.Temperature, "temperature", 1, "divide logits by `X`; 0 takes the largest")
	flags.IntVar(&f.sampling.TopK, "top-k", 0, "keep the `N` likeliest tokens; 0 for all")
	flags.Float64Var(&f.sampling.TopP, "top-p", 1, "keep the fewest likeliest tokens with a share `P` of the probability")
	flags.Float64Var(&f.sampling.MinP, "min-p", 0, "keep tokens that are at least `P` times as likely as the likeliest")
	flags.Float64Var(&f.sampling.Repetition, "repetition-penalty", 1, "divide positive logits of tokens that have occurred by `X`, multiply negative ones")
	flags.Float64Var(&f.sampling.Frequency, "frequency-penalty", 0, "subtract `X` from a logit for each time that its token is in the answer")
	flags.Float64Var(&f.sampling.Presence, "presence-penalty", 0, "subtract `X` from the logits of tokens in the answer")
	flags.StringArrayVar(&f.bias, "logit-bias", nil, "add to the logit of a token: `TOKEN=X`; may be repeated")
	flags.StringArrayVar(&f.stops, "stop", nil, "end in front of `TEXT`; may be repeated")
	flags.BoolVar(&f.noEnd, "ignore-end", false, "go on behind tokens that end an answer")
	flags.Uint64Var(&f.sampling.Seed, "seed", 0, "draw with seed `N` (default: one that is drawn)")
	flags.IntVarP(&f.choices, "choices", "n", 1, "compute `N` answers")
	flags.IntVar(&f.top, "logprobs", -1, "with --json, tell logprobs, and those of the `N` likeliest tokens")
	flags.BoolVar(&f.isEcho, "echo", false, "with --json, tell logprobs of the prompt too")
	flags.IntVar(&f.guesses, "guess", 4, "guess `N` tokens at a time, by --draft or from what the prompt and the answer repeat; changes no bit")
	flags.IntVar(&f.together, "sequences", answer.DefaultLimits.Sequences, "compute at most `N` answers together; changes no bit")
	f.modelFlags.add(c)
	jsonFlag(c, &f.json)
	registerProgress(c)
	return c
}

// maxPrompt is the size of the largest prompt that is read.
const maxPrompt = 1 << 26

func (f *generateFlags) run(c *cobra.Command, args []string) error {
	hasPrompt := len(args) > 1
	switch {
	case hasPrompt && f.file != "" || (hasPrompt || f.file != "") && f.batch != "":
		return wrongUse("more than one prompt is given, want PROMPT, --file, --batch or standard input")
	case f.system != "" && !f.isChat || f.date != "" && !f.isChat && f.batch == "":
		return wrongUse("--system and --date are for --chat")
	case f.choices < 1 || f.choices > 1024:
		return wrongUse("-n is %d, want 1 to 1024", f.choices)
	case f.together < 1 || f.together > 4096:
		return wrongUse("--sequences is %d, want 1 to 4096", f.together)
	case f.most < 1:
		return wrongUse("--max-tokens is %d, want at least 1", f.most)
	case (f.top >= 0 || f.isEcho) && !f.json && f.batch == "":
		return wrongUse("--logprobs and --echo need --json")
	case f.date != "" && !isDate(f.date):
		return wrongUse("--date is %q, want a date such as 2026-11-19", f.date)
	case f.top > answer.MostLikely:
		return wrongUse("--logprobs is %d, want at most %d", f.top, answer.MostLikely)
	}
	for _, b := range f.bias {
		token, value, _ := strings.Cut(b, "=")
		id, err := strconv.ParseInt(token, 10, 32)
		v, err2 := strconv.ParseFloat(value, 64)
		if err != nil || err2 != nil {
			return wrongUse("--logit-bias %q, want TOKEN=X: the number of a token and a number", b)
		}
		f.sampling.Bias = append(f.sampling.Bias, answer.Bias{Token: int32(id), Value: v})
	}
	return f.withModel(c, args[0], func(q *engine.Queue, m *answer.Model) error {
		f.take(c.Flags(), m)
		if f.batch != "" {
			return f.runBatch(c, q, m)
		}
		text, err := f.prompt(c, args)
		if err != nil {
			return err
		}
		return f.one(c, q, m, text)
	})
}

// take takes what the model's folder says where no flag does.
func (f *generateFlags) take(flags *pflag.FlagSet, m *answer.Model) {
	of, to := m.Sampling(), &f.sampling
	for name, take := range map[string]func(){
		"temperature":        func() { to.Temperature = of.Temperature },
		"top-k":              func() { to.TopK = of.TopK },
		"top-p":              func() { to.TopP = of.TopP },
		"min-p":              func() { to.MinP = of.MinP },
		"repetition-penalty": func() { to.Repetition = of.Repetition },
		"stop":               func() { f.stops = m.Stops() },
		"max-tokens":         func() { f.most = cmp.Or(m.Most(), f.most) },
	} {
		if !flags.Changed(name) {
			take()
		}
	}
}

// prompt returns the text of the prompt.
func (f *generateFlags) prompt(c *cobra.Command, args []string) (string, error) {
	if len(args) > 1 {
		return args[1], nil
	}
	name, from := "standard input", c.InOrStdin()
	if f.file != "" {
		file, err := os.Open(f.file)
		if err != nil {
			return "", err
		}
		defer file.Close()
		name, from = f.file, file
	}
	var text []byte
	err := untilInterrupted(c.Context(), func() (err error) {
		text, err = readfile.Whole(name, from, maxPrompt)
		return err
	})
	return string(text), err
}

// defaults are the parameters that the flags give.
func (f *generateFlags) defaults() openai.Defaults {
	hasLogprobs := f.top >= 0 || f.isEcho
	base := answer.Request{Sampling: f.sampling, Most: f.most, Stops: f.stops, NoEnd: f.noEnd, Logprobs: hasLogprobs, Top: max(0, f.top), Echo: f.isEcho, Guesses: f.guesses}
	return openai.Defaults{Base: base, Choices: f.choices, Date: f.date}
}

// request returns the request for a prompt.
func (f *generateFlags) request(m *answer.Model, text string) (*openai.Request, error) {
	d := f.defaults()
	if !f.isChat { // not as JSON, which has no text that is not UTF-8
		prompt, err := m.Vocabulary.Encode(text, true)
		d.Base.Prompt = prompt
		return &openai.Request{Base: d.Base, Choices: d.Choices}, asUse(err)
	}
	line, err := json.Marshal(map[string]string{"prompt": text})
	if err != nil {
		return nil, err
	}
	r, err := f.batchRequest(m, line)
	return r, asUse(err)
}

// batchRequest reads a line of --batch. Members that are missing have the values of the flags.
func (f *generateFlags) batchRequest(m *answer.Model, line []byte) (*openai.Request, error) {
	members, err := openai.Parse(line)
	if err != nil {
		return nil, err
	}
	if members.Has("prompt") && members.Has("messages") {
		return nil, errors.New("want prompt or messages")
	}
	if f.isChat {
		if err := members.Converse(f.system); err != nil {
			return nil, err
		}
	}
	read := members.Completion
	if members.Has("messages") {
		read = members.Conversation
	}
	r, err := read(m, f.defaults())
	if errors.Is(err, jinja.ErrNoDate) {
		return nil, fmt.Errorf("%w: use --date", err)
	}
	if err != nil {
		return nil, err
	}
	if n := len(r.Prompts); n > 1 {
		return nil, fmt.Errorf("prompt: %d prompts, want one in each line", n)
	}
	r.Base.Prompt = r.Prompts[0].Tokens
	if r.Echo {
		r.Base.Logprobs, r.Base.Echo = true, true
	}
	return r, nil
}

func isDate(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

func asUse(err error) error {
	if err == nil {
		return nil
	}
	return wrongUse("%v", err)
}

// generated is the JSON output of generate.
type generated struct {
	Model   string            `json:"model"`
	Device  string            `json:"device"`
	Choices []generatedChoice `json:"choices"`
	Prompt  int               `json:"prompt_tokens"`
	Output  int               `json:"output_tokens"`
	Seconds float64           `json:"seconds"`
	Receipt *answer.Receipt   `json:"receipt"`
}

type generatedChoice struct {
	Index    int                `json:"index"`
	Text     string             `json:"text"`
	Finish   string             `json:"finish"`
	Logprobs []generatedLogprob `json:"logprobs,omitempty"`
}

type generatedLogprob struct {
	Token   int32          `json:"token"`
	Text    string         `json:"text"`
	Logprob *float32       `json:"logprob"` // null for the first token of a prompt
	Top     []answerLikely `json:"top,omitempty"`
}

type answerLikely struct {
	Token   int32   `json:"token"`
	Text    string  `json:"text"`
	Logprob float32 `json:"logprob"`
}

// generatedOf returns the output for answers.
func generatedOf(q *engine.Queue, m *answer.Model, r *answer.Request, list []answer.Completed, receipt *answer.Receipt, took time.Duration) *generated {
	g := &generated{Model: m.Name, Device: q.Device().Name(), Prompt: len(r.Prompt), Seconds: took.Seconds(), Receipt: receipt}
	piece := func(id int32) string { s, _ := m.Vocabulary.Piece(id); return s }
	for i := range list {
		one := generatedChoice{Index: i, Text: list[i].Text, Finish: list[i].Finish}
		for _, e := range list[i].Events {
			if !e.IsPrompt {
				g.Output++
			}
			if !r.Logprobs {
				continue
			}
			l := generatedLogprob{Token: e.Token, Text: piece(e.Token)}
			if e.HasRow {
				l.Logprob = &e.Logprob
			}
			for _, t := range e.Top {
				l.Top = append(l.Top, answerLikely{t.Token, piece(t.Token), t.Logprob})
			}
			one.Logprobs = append(one.Logprobs, l)
		}
		g.Choices = append(g.Choices, one)
	}
	return g
}

// limits returns those of an engine for n answers at a time.
func (f *generateFlags) limits(n int) answer.Limits {
	l := answer.DefaultLimits
	l.Sequences = min(n, f.together)
	l.Waiting = max(n, f.choices, l.Waiting)
	l.Widen()
	return l
}

func (f *generateFlags) one(c *cobra.Command, q *engine.Queue, m *answer.Model, text string) error {
	if !c.Flags().Changed("seed") {
		f.sampling.Seed = answer.Seed()
	}
	r, err := f.request(m, text)
	if err != nil {
		return err
	}
	e, err := answer.NewEngine(q, m, f.limits(f.choices))
	if err != nil {
		return err
	}
	defer e.Close()
	w, began := c.OutOrStdout(), time.Now()
	var tell func(int, *answer.Event, string) error
	if !f.json && f.choices == 1 {
		tell = func(_ int, event *answer.Event, _ string) error {
			_, err := io.WriteString(w, event.Text)
			flush(w)
			return err
		}
	}
	list, receipt, err := complete(c.Context(), e, r, tell)
	if err != nil {
		if errors.Is(err, context.Canceled) && tell != nil {
			fmt.Fprintln(w)
		}
		return err
	}
	took := time.Since(began)
	if f.json {
		return printJSON(w, generatedOf(q, m, &r.Base, list, receipt, took))
	}
	tokens := 0
	for i := range list {
		tokens += len(receipt.Choices[i].Output)
		if tell == nil {
			fmt.Fprintf(w, "--- %d\n%s", i, list[i].Text)
		}
		if !strings.HasSuffix(list[i].Text, "\n") {
			fmt.Fprintln(w)
		}
	}
	fmt.Fprintf(c.ErrOrStderr(), "seed %d, %d tokens\n", r.Base.Sampling.Seed, tokens)
	return nil
}

// complete computes the answers to a request.
func complete(ctx context.Context, e *answer.Engine, r *openai.Request, tell func(int, *answer.Event, string) error) ([]answer.Completed, *answer.Receipt, error) {
	list, receipt, err := e.Complete(ctx, r.Base, r.Choices, tell)
	if receipt != nil {
		receipt.Date = r.Date
	}
	return list, receipt, err
}

// runBatch answers the prompts of a file, as many at a time as an engine computes together.
func (f *generateFlags) runBatch(c *cobra.Command, q *engine.Queue, m *answer.Model) error {
	from := c.InOrStdin()
	if f.batch != "-" {
		file, err := os.Open(f.batch)
		if err != nil {
			return err
		}
		defer file.Close()
		from = file
	}
	var jobs []*openai.Request
	err := untilInterrupted(c.Context(), func() error {
		lines := bufio.NewScanner(from)
		lines.Buffer(nil, maxPrompt)
		for n := 1; lines.Scan(); n++ {
			if len(strings.TrimSpace(lines.Text())) == 0 {
				continue
			}
			if !c.Flags().Changed("seed") {
				f.sampling.Seed = answer.Seed()
			}
			r, err := f.batchRequest(m, lines.Bytes())
			if err != nil {
				return wrongUse("--batch: line %d: %v", n, err)
			}
			jobs = append(jobs, r)
		}
		return lines.Err()
	})
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		return wrongUse("--batch: %s has no prompts", f.batch)
	}
	l := f.limits(f.together)
	for _, j := range jobs {
		l.Waiting += j.Choices
	}
	e, err := answer.NewEngine(q, m, l)
	if err != nil {
		return err
	}
	defer e.Close()
	progress := startProgress(c)
	defer progress.end()
	began := time.Now()
	results, errs := make([]*generated, len(jobs)), make([]error, len(jobs))
	ended := make([]chan struct{}, len(jobs))
	ctx, cancel := context.WithCancel(c.Context())
	var all sync.WaitGroup
	for i := range jobs {
		ended[i] = make(chan struct{})
		all.Go(func() {
			defer close(ended[i])
			list, receipt, err := complete(ctx, e, jobs[i], nil)
			if errs[i] = err; err == nil {
				results[i] = generatedOf(q, m, &jobs[i].Base, list, receipt, time.Since(began))
			}
		})
	}
	defer all.Wait()
	defer cancel()
	encoder := json.NewEncoder(c.OutOrStdout())
	encoder.SetEscapeHTML(false)
	tokens := 0
	for i := range jobs {
		<-ended[i]
		if errs[i] != nil {
			return fmt.Errorf("prompt %d of --batch: %w", i+1, errs[i])
		}
		tokens += results[i].Output
		progress.of(float64(i+1), 0, float64(len(jobs)))
		progress.say("%d of %d prompts, %.0f tokens/s", i+1, len(jobs), float64(tokens)/time.Since(began).Seconds())
		progress.aside(func() { err = encoder.Encode(results[i]); flush(c.OutOrStdout()) })
		if err != nil {
			return err
		}
	}
	return nil
}
