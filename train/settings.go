package train

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tokitai/data"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/model"
	"tokitai/num"
)

// Config is all that decides the bits of a run, besides its data. The network is a decoder, or, if there are Features, that of
// these; then the decoder's settings are zero.
type Config struct {
	model.Config
	Features model.Features `json:"features,omitzero"`

	Batch     int     `json:"batch"`           // sequences of a step, or rows of features
	Leaves    int     `json:"leaves"`          // into which they are divided
	Shift     bool    `json:"shift,omitempty"` // blocks of tokens begin at other places in every epoch
	Steps     int     `json:"steps"`           // of the whole run
	Optimizer string  `json:"optimizer"`       // adamw or sgd
	Rate      float64 `json:"rate"`            // the highest learning rate
	Rates     string  `json:"rates"`           // factors by group: PART=FACTOR,… for weights whose names have the part; the last one counts
	MinRate   float64 `json:"min_rate"`        // that of the last step
	Warmup    int     `json:"warmup"`          // steps in which the rate rises
	Schedule  string  `json:"schedule"`        // cosine, linear or constant
	Decay     float64 `json:"decay"`           // of weights, on matrices alone
	Beta1     float64 `json:"beta1"`
	Beta2     float64 `json:"beta2"`
	AdamEps   float64 `json:"adam_eps"`
	Momentum  float64 `json:"momentum"` // of sgd
	Clip      float64 `json:"clip"`     // the largest norm of the gradients; 0 for any
	Seed      uint64  `json:"seed"`
	Sums      string  `json:"sums,omitempty"` // the rule by which products of bf16 are added up: fma if it is "", or that of a tensor core, such as mma(16,25)
}

// HasFeatures reports whether the network is one of features, and not a decoder.
func (c *Config) HasFeatures() bool { return c.Features != model.Features{} }

// Rows returns how many rows the network computes in a step: tokens, or rows of features.
func (c *Config) Rows() int { return c.Batch * c.exampleRows() }

// RowName returns what rows are called: tokens or rows.
func (c *Config) RowName() string {
	if c.HasFeatures() {
		return "rows"
	}
	return "tokens"
}

// exampleRows returns how many rows an example has: those of a block, or one.
func (c *Config) exampleRows() int { return max(1, c.Block) }

// FastSums stands for the rule of the tensor cores of the device that begins a run.
const FastSums = "fast"

// settle names the rule that FastSums stands for.
func (c *Config) settle(q *engine.Queue) error {
	if c.Sums != FastSums {
		return nil
	}
	rule, err := model.FastRule(q, c.Format())
	if c.Sums = rule.String(); rule == def.FMAChain {
		c.Sums = ""
	}
	return err
}

// Rule returns the rule of the products' sums. Check has accepted it.
func (c *Config) Rule() def.Accum {
	m, _ := def.ParseAccum(cmp.Or(c.Sums, def.FMAChain.String()))
	return m
}

// Options say when a run writes files. They decide no bit.
type Options struct {
	CheckpointEvery int     `json:"checkpoint_every"` // steps between checkpoints; 0 for one at the end
	ValidateEvery   int     `json:"validate_every"`   // steps between validations; 0 for one at the end
	Keep            int     `json:"keep"`             // newest checkpoints that stay, besides the best; 0 for all
	SampleEvery     int     `json:"sample_every"`     // steps between samples of text; 0 for none
	Prompt          string  `json:"prompt"`           // that samples begin with
	Temperature     float64 `json:"temperature"`      // of samples; 0 for the likeliest tokens
}

// Source says which tokens the data have, and where initial weights are from. What decides bits of it, the tokenizer and the
// weights themselves, is in the origin by its digest.
type Source struct {
	Tokenizer string `json:"tokenizer"` // bytes; bpe, which is trained on the data; or the path of a tokenizer.json
	Start     string `json:"start"`     // the folder of a run or of transformers, a checkpoint or a TKP1 file, whose weights are the initial ones
	Moments   string `json:"moments"`   // whether its moments are the initial ones too: start if they are, zero if not; by default only those of a TKP1 file
}

// Settings are what a configuration file has.
type Settings struct {
	Config
	Source
	Options
}

// Default returns the settings of a small decoder of bytes: four layers of 128.
func Default() Settings {
	return Settings{
		Config{
			Config: model.DefaultConfig, Batch: 12, Leaves: 1, Steps: 2000, Optimizer: "adamw", Rate: 1e-3, MinRate: 1e-4, Warmup: 100,
			Schedule: "cosine", Decay: 0.1, Beta1: 0.9, Beta2: 0.99, AdamEps: 1e-8, Momentum: 0.9, Clip: 1, Seed: 1,
		},
		Source{Tokenizer: "bytes"},
		Options{CheckpointEvery: 250, ValidateEvery: 250, Keep: 3, Temperature: 1},
	}
}

// DefaultFeatures returns the settings of a small network of features.
func DefaultFeatures() Settings {
	s := Default()
	s.Config.Config, s.Tokenizer = model.Config{}, ""
	s.Features, s.Batch, s.Steps, s.Warmup = model.FeatureSizes["nano"], 128, 1000, 5
	s.Rates, s.Decay, s.Beta2 = "router=0.1", 0.01, 0.999
	return s
}

// ForSteps returns default settings for a run of so many steps: its rate rises in a twentieth of them, unless s has a
// shorter warm-up. Those 100 steps that Default has are a twentieth of its 2,000.
func (s Settings) ForSteps(steps int) Settings {
	s.Warmup = max(0, min(s.Warmup, steps/20))
	return s
}

// ReadSettings reads a configuration file: a JSON object. Settings that it lacks are those of s.
func ReadSettings(path string, s Settings) (Settings, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := s.decode(text); err != nil {
		return s, badInput("%s: %w", path, err)
	}
	return s, nil
}

func (s *Settings) decode(text []byte) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return badInput("no JSON object: %w", err)
	}
	for name := range given {
		if !slices.Contains(Names(), name) {
			return unknown(name)
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields() // of mixture and rope too
	err := d.Decode(s)
	if s.Storage == num.F32.String() { // what is there without saying so, so that runs with the same bits have the same settings
		s.Storage = ""
	}
	if s.Sums == def.FMAChain.String() {
		s.Sums = ""
	}
	if e, isType := err.(*json.UnmarshalTypeError); isType {
		return badInput("setting %s is %s, want %s", e.Field[strings.LastIndexByte(e.Field, '.')+1:], e.Value, e.Type)
	}
	if err != nil {
		return badInput("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func unknown(name string) error {
	if strings.Contains(name, "expert") || strings.Contains(name, "router") || name == "balance" {
		return badInput("unknown setting %q; the setting mixture describes experts", name)
	}
	return badInput("unknown setting %q, want one of %s", name, strings.Join(Names(), ", "))
}

// Corpus returns documents as the tokens that the settings say.
func (s *Settings) Corpus(d data.Documents) (c *data.Corpus, err error) {
	t := data.Bytes
	switch s.Tokenizer {
	case "bytes":
	case "bpe":
		t, err = d.TrainTokenizer(s.Vocabulary)
	default:
		t, err = data.ReadTokenizer(s.Tokenizer)
	}
	if err != nil {
		return nil, badInput("tokenizer: %w", err)
	}
	if c, err = d.Corpus(t); err != nil {
		return nil, badInput("%w", err)
	}
	return c, nil
}

// Set sets one setting by name.
func (s *Settings) Set(assignment string) error {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return badInput("setting %q, want NAME=VALUE", assignment)
	}
	if !json.Valid([]byte(value)) {
		value = strconv.Quote(value)
	}
	return s.decode([]byte("{" + strconv.Quote(name) + ":" + value + "}"))
}

// Names lists the names of all settings, in order, but for fp8: a network with weights in FP8 is not trained.
func Names() []string {
	var names []string
	eachField(reflect.ValueOf(Default()), func(name string, _ any) {
		if name != "fp8" {
			names = append(names, name)
		}
	})
	return names
}

// Differences lists the settings in which two configurations differ: NAME is A, not B.
func (c Config) Differences(other Config) []string {
	var list []string
	values := map[string]any{}
	eachField(reflect.ValueOf(other), func(name string, v any) { values[name] = v })
	eachField(reflect.ValueOf(c), func(name string, v any) {
		if v != values[name] {
			list = append(list, fmt.Sprintf("%s is %v, not %v", name, v, values[name]))
		}
	})
	return list
}

func eachField(v reflect.Value, f func(name string, value any)) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			eachField(v.Field(i), f)
		} else {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			f(name, v.Field(i).Interface())
		}
	}
}

// Check returns an error for settings that no run can have.
func (s *Settings) Check() error {
	if err := s.checkNetwork(); err != nil {
		return err
	}
	if err := s.checkPrecision(); err != nil {
		return err
	}
	share := func(v float64) bool { return v >= 0 && v < 1 }
	size := func(v float64) bool { return v >= 0 && v <= math.MaxFloat32 }
	switch {
	case s.FP8.IsUsed():
		return badInput("fp8 is set, and weights in FP8 have no gradients: nothing can be trained")
	case s.HasFeatures() && s.Shift:
		return badInput("shift is true: rows of features are not cut into blocks")
	case s.HasFeatures() && (s.Tokenizer != "" || s.SampleEvery != 0):
		return badInput("tokenizer is %q and sample_every %d: a network of features has neither tokens nor samples of text", s.Tokenizer, s.SampleEvery)
	case s.Tokenizer == "bytes" && s.Vocabulary != data.Vocabulary:
		return badInput("vocabulary is %d, want %d: the tokens are bytes, and one that begins documents", s.Vocabulary, data.Vocabulary)
	case s.Batch < 1 || s.Leaves < 1 || s.Batch%s.Leaves != 0:
		return badInput("leaves is %d for a batch of %d, want a divisor of it", s.Leaves, s.Batch)
	case s.Batch/s.Leaves > model.MaxLeafTokens/s.exampleRows():
		return badInput("leaves is %d, want more: a leaf of %d tokens or rows is longer than %d", s.Leaves, s.Rows()/s.Leaves, model.MaxLeafTokens)
	case s.Batch > 1<<24/s.exampleRows():
		return badInput("batch is %d, want at most 2^24 tokens or rows in a step", s.Batch)
	case s.Mixture.Balance > 0 && s.Batch*s.Block > math.MaxInt32/s.Mixture.PerToken:
		return badInput("batch is %d, want less: the experts of a step are counted in 32 bits, %d for each token", s.Batch, s.Mixture.PerToken)
	case s.Steps < 1 || s.Steps > math.MaxInt32/s.Leaves:
		return badInput("steps is %d, want at least 1, and at most 2^31-1 leaves in all", s.Steps)
	case s.Warmup < 0 || s.Warmup > s.Steps:
		return badInput("warmup is %d, want at least 0 and at most steps, %d", s.Warmup, s.Steps)
	case !size(s.Rate) || !(s.MinRate >= 0 && s.MinRate <= s.Rate):
		return badInput("rate is %v and min_rate %v, want 0 <= min_rate <= rate", s.Rate, s.MinRate)
	case s.Optimizer != "adamw" && s.Optimizer != "sgd":
		return badInput("optimizer is %q, want adamw or sgd", s.Optimizer)
	case !size(s.Momentum) || s.Momentum >= 1:
		return badInput("momentum is %v, want at least 0 and less than 1", s.Momentum)
	case !slices.Contains([]string{"cosine", "linear", "constant"}, s.Schedule):
		return badInput("schedule is %q, want cosine, linear or constant", s.Schedule)
	case !size(s.Decay) || !share(s.Beta1) || !share(s.Beta2):
		return badInput("decay is %v, beta1 %v and beta2 %v, want decay at least 0, and the others at least 0 and less than 1", s.Decay, s.Beta1, s.Beta2)
	case !size(s.AdamEps) || float32(s.AdamEps) == 0:
		return badInput("adam_eps is %v, want more than 0", s.AdamEps)
	case !size(s.Clip) || s.Clip != 0 && float32(s.Clip) == 0:
		return badInput("clip is %v, want more than 0, or 0 for none", s.Clip)
	case s.CheckpointEvery < 0 || s.ValidateEvery < 0 || s.Keep < 0:
		return badInput("checkpoint_every is %d, validate_every %d and keep %d, want at least 0", s.CheckpointEvery, s.ValidateEvery, s.Keep)
	case !slices.Contains([]string{"", takeMoments, zeroMoments}, s.Moments):
		return badInput("moments is %q, want %s or %s", s.Moments, takeMoments, zeroMoments)
	case s.Moments == takeMoments && s.Start == "":
		return badInput("moments is %s, and start is not set", takeMoments)
	case s.SampleEvery < 0 || !(s.Temperature >= 0 && s.Temperature <= math.MaxFloat32):
		return badInput("sample_every is %d and temperature %v, want at least 0", s.SampleEvery, s.Temperature)
	}
	_, err := s.groups()
	return err
}

// checkNetwork returns an error for a network that there is not, and for settings of a decoder that a network of features
// would ignore.
func (c *Config) checkNetwork() error {
	if !c.HasFeatures() {
		if err := c.Config.Check(); err != nil {
			return badInput("%w", err)
		}
		return nil
	}
	none := *c
	none.Config = model.Config{}
	if list := c.Differences(none); len(list) > 0 {
		return badInput("%s: it is for decoders, and features describes the network", list[0])
	}
	if err := c.Features.Check(); err != nil {
		return badInput("%w", err)
	}
	return nil
}

// checkPrecision returns an error for formats in which nothing is trained, and rules that add up nothing.
func (c *Config) checkPrecision() error {
	sums := c.Sums
	if sums == FastSums {
		sums = ""
	}
	switch m, err := def.ParseAccum(cmp.Or(sums, def.FMAChain.String())); {
	case c.Format() == num.F16:
		return badInput("precision is f16, want f32 or bf16: most gradients are too small for f16")
	case err != nil:
		return badInput("sums is %q: %w", c.Sums, err)
	case m != def.FMAChain && c.Format() == num.F32:
		return badInput("sums is %q, and precision f32, want bf16: tensor cores multiply 16 bits", c.Sums)
	case m != def.MMA(m.L, m.F):
		return badInput("sums is %q, want fma or a rule mma(L,F): attention has no panels, and results of fewer bits are for fp8", c.Sums)
	}
	return nil
}

// group is a factor of the rate of weights whose names have a part.
type group struct {
	part   string
	factor float64
}

func (c *Config) groups() (list []group, err error) {
	if c.Rates == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(c.Rates, ",") {
		part, text, _ := strings.Cut(one, "=")
		factor, err := strconv.ParseFloat(text, 64)
		if part == "" || err != nil || !(factor >= 0 && factor <= math.MaxFloat32) {
			return nil, badInput("rates is %q, want PART=FACTOR, such as router=0.1; several are separated by commas", c.Rates)
		}
		list = append(list, group{part, factor})
	}
	return list, nil
}
