package train

import (
	"testing"

	"tokitai/internal/testlevel"
)

// TestDividedExperts: a run whose experts are divided among ranks has the metrics, validations and samples included, and the
// checkpoints of one process, and goes on with other ranks, and with experts that are whole.
func TestDividedExperts(t *testing.T) {
	t.Parallel()
	two := balanced(1e-3)
	two.Mixture.Dense, two.SampleEvery, two.Prompt = "", 3, "a"
	for name, c := range map[string]struct {
		s     Settings
		ranks []int
	}{
		"f32": {two, testlevel.Pick([]int{2, 3}, []int{1, 2, 3, 4})},
	} {
		s := ranked(c.s)
		folder := t.TempDir()
		want, err := run(Team{}, folder, s, 0)
		if err != nil {
			t.Fatal(err)
		}
		state := stateOf(t, folder)
		for _, n := range c.ranks {
			folder := t.TempDir()
			var got string
			dividedTogether(t, n, s.Config, func(with Team) (err error) {
				got, err = run(with, folder, s, 0)
				return err
			})
			if got != want {
				t.Errorf("%s, %d ranks: metrics\n%s\nwant\n%s", name, n, got, want)
			}
			if got := stateOf(t, folder); got != state {
				t.Errorf("%s, %d ranks: checkpoint %s, want %s", name, n, got, state)
			}
		}
	}
}

// dividedTogether is together with experts that are divided.
func dividedTogether(t *testing.T, n int, c Config, lead func(with Team) error) {
	t.Helper()
	as(t, n, c, func(with Team) Team { with.DividesExperts = true; return with }, lead)
}
