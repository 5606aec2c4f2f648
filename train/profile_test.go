package train

import (
	"testing"

	"tokitai/backend/cpu"
)

// TestProfile: with a clock that always says a second, the calls of a kernel take as many parts of it as there are, and
// every call of a step counts once.
func TestProfile(t *testing.T) {
	t.Parallel()
	const repeat = 4
	tr := newTrainer(t, cpu.Queue(), tiny().Config)
	works := 0
	costs, err := tr.Profile(func(work func() error) (float64, error) { works++; return 1, work() }, repeat)
	if err != nil {
		t.Fatal(err)
	}
	program := tr.program
	if want := len(program.Calls) + 3; works != want {
		t.Errorf("%d measurements, want %d", works, want)
	}
	calls, products, parts := 0, 0.0, 0
	for i, c := range costs {
		if i > 0 && c.Seconds > costs[i-1].Seconds {
			t.Errorf("%+v stands behind %+v", c, costs[i-1])
		}
		want := float64(c.Calls) / repeat
		if c.Lowering == "" {
			parts++
			want = float64(c.Calls)
		} else {
			calls += c.Calls
			products += c.Products
			if c.Bytes <= 0 {
				t.Errorf("%+v moves nothing", c)
			}
		}
		if c.Seconds != want {
			t.Errorf("%+v: want %v s", c, want)
		}
	}
	if want := tr.config.Leaves * len(program.Calls); calls != want || parts != 3 {
		t.Errorf("%d calls and %d parts, want %d and 3", calls, parts, want)
	}
	if products != tr.Work() {
		t.Errorf("%v products, want those of a step: %v", products, tr.Work())
	}
}
