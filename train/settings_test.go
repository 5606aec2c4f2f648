package train

import (
	"errors"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tokitai/tensor"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	s := Default()
	for _, one := range []string{"layers=2", "norm=layer", "tied=true", "rate=2e-3", "seed=18446744073709551615", "keep=0"} {
		if err := s.Set(one); err != nil {
			t.Errorf("%s: %v", one, err)
		}
	}
	if s.Layers != 2 || s.Norm != "layer" || !s.Tied || s.Rate != 2e-3 || s.Seed != math.MaxUint64 || s.Keep != 0 || s.Width != Default().Width {
		t.Errorf("settings %+v", s)
	}
	for assignment, want := range map[string]string{
		"layers": "want NAME=VALUE", "layer=2": "unknown setting", "layers=two": "setting layers is string, want int",
		"experts=8": "the setting mixture describes experts", "balance=0.1": "the setting mixture describes experts", "seed=-1": "setting seed",
	} {
		if err := s.Set(assignment); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, tensor.ErrBadArgument) {
			t.Errorf("%s: error %v, want one with %q", assignment, err, want)
		}
	}
	path := filepath.Join(t.TempDir(), "config.json")
	for text, want := range map[string]string{
		`{"layers": 3, "batch": 4}`: "", `{"layers": 3`: "no JSON object", `{"lairs": 3}`: "unknown setting", `[1]`: "no JSON object",
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := ReadSettings(path, Default())
		if want == "" && (err != nil || got.Layers != 3 || got.Batch != 4 || got.Steps != Default().Steps) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, error %v, want %q", text, got, err, want)
		}
	}
	for want, change := range map[string]func(s *Settings){
		"vocabulary is 300": func(s *Settings) { s.Vocabulary = 300 }, "leaves is 5": func(s *Settings) { s.Leaves = 5 },
		"leaves is 1, want more": func(s *Settings) { s.Batch, s.Block = 1024, 64 }, "warmup is 3000": func(s *Settings) { s.Warmup = 3000 },
		"min_rate <= rate": func(s *Settings) { s.MinRate = 1 }, "schedule is": func(s *Settings) { s.Schedule = "step" },
		"beta1 1": func(s *Settings) { s.Beta1 = 1 }, "adam_eps is 1e-50": func(s *Settings) { s.AdamEps = 1e-50 },
		"clip is -1": func(s *Settings) { s.Clip = -1 }, "keep -1": func(s *Settings) { s.Keep = -1 }, "steps is 0": func(s *Settings) { s.Steps = 0 },
		"rates is \"mlp\"": func(s *Settings) { s.Rates = "mlp" }, "optimizer is": func(s *Settings) { s.Optimizer = "adam" }, "momentum is 1": func(s *Settings) { s.Momentum = 1 },
		"temperature -1": func(s *Settings) { s.Temperature = -1 }, "layers is 0": func(s *Settings) { s.Layers = 0 },
	} {
		s := Default()
		change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	for steps, want := range map[int]int{1: 0, 60: 3, 1990: 99, 2000: 100, 100000: 100} {
		s := Default().ForSteps(steps)
		if s.Steps = steps; s.Warmup != want || s.Check() != nil {
			t.Errorf("%d steps have a warm-up of %d, want %d; %v", steps, s.Warmup, want, s.Check())
		}
	}
	if s := DefaultFeatures(); s.ForSteps(s.Steps).Warmup != s.Warmup {
		t.Errorf("networks of features have a warm-up of %d, want %d", s.ForSteps(s.Steps).Warmup, s.Warmup)
	}
	other := Default().Config
	other.Rate, other.Heads = 1, 8
	if got := strings.Join(other.Differences(Default().Config), "; "); got != "heads is 8, not 4; rate is 1, not 0.001" {
		t.Errorf("differences %q", got)
	}
}

// TestRate holds rates to what is known of them without computing a cosine: the ends, the middle, and that
// two steps equally far from the middle have rates that add up to those of the ends, up to the two
// roundings.
func TestRate(t *testing.T) {
	t.Parallel()
	c := Default().Config
	c.Warmup, c.Steps, c.Rate, c.MinRate = 10, 110, 0.1, 0.003
	sum := new(big.Rat).Add(rational(c.Rate), rational(c.MinRate))
	exactly := func(step int, want *big.Rat) {
		t.Helper()
		if v, _ := want.Float64(); c.RateAt(step) != v {
			t.Errorf("%s: step %d has the rate %v, want %v", c.Schedule, step, c.RateAt(step), v)
		}
	}
	for _, c.Schedule = range []string{"cosine", "linear"} {
		for step := 1; step <= 10; step++ {
			exactly(step, new(big.Rat).Mul(rational(c.Rate), big.NewRat(int64(step), 10)))
		}
		exactly(60, new(big.Rat).Mul(sum, big.NewRat(1, 2)))
		exactly(110, rational(c.MinRate))
		for step := 11; step <= 110; step++ {
			a, b := c.RateAt(step), c.RateAt(120-step)
			if step < 110 {
				gap := new(big.Rat).Sub(new(big.Rat).Add(rational(a), rational(b)), sum)
				limit := (math.Nextafter(max(a, b), 1) - max(a, b)) // half a unit of each
				if v, _ := gap.Float64(); math.Abs(v) > limit {
					t.Errorf("%s: rates %v and %v of steps %d and %d: their sum is %v off", c.Schedule, a, b, step, 120-step, v)
				}
			}
			if a >= c.RateAt(step-1) {
				t.Errorf("%s: the rate of step %d is %v, that before it %v", c.Schedule, step, a, c.RateAt(step-1))
			}
		}
	}
	c.Schedule = "cosine"
	third := new(big.Rat).Sub(rational(c.Rate), rational(c.MinRate))
	c.Steps = 310 // step 110 is a third of the way, where the cosine is 1/2
	exactly(110, third.Mul(third, big.NewRat(3, 4)).Add(third, rational(c.MinRate)))
	c.Schedule = "constant"
	exactly(300, rational(c.Rate))
	c.Warmup = 0
	exactly(1, rational(c.Rate))
}
