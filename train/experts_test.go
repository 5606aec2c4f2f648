package train

import (
	"errors"
	"math"
	"net"
	"strings"
	"sync"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/internal/testlevel"
	"tokitai/model"
	"tokitai/ranks"
)

// dividing has a team divide the experts.
func dividing(with Team) Team {
	with.DividesExperts = true
	return with
}

// large returns settings for a mixture in which an expert's matrix ends within a flat row, and three matrices take two flat rows.
func large() Settings {
	s := tiny()
	s.Width, s.Heads, s.KVHeads, s.Mixture = 200, 2, 1, model.Mixture{Experts: 3, PerToken: 2, Hidden: 200}
	return s
}

// TestDividedExperts: a run whose experts are divided among ranks has the metrics, validations and samples included, and the
// checkpoints of one process.
func TestDividedExperts(t *testing.T) {
	t.Parallel()
	two := balanced(1e-3)
	two.Mixture.Dense, two.SampleEvery, two.Prompt = "", 3, "a"
	other := bf16(balanced(0))
	other.FeedForward, other.Optimizer = "geglu", "sgd"
	for name, c := range map[string]struct {
		s     Settings
		steps int
		ranks []int
	}{
		"f32":               {two, 5, testlevel.Pick([]int{3}, []int{1, 2, 3, 4})},
		"bf16":              {other, 5, testlevel.Pick([]int{4}, []int{2, 3, 4})},
		"large":             {large(), 1, []int{2, 3}},
		"one leaf for each": {two, 2, []int{4}},
	} {
		s := ranked(c.s)
		if s.Steps, s.Warmup = c.steps, min(s.Warmup, c.steps); name == "one leaf for each" {
			s.Batch, s.Leaves = 4, 4
		}
		folder := t.TempDir()
		want, err := run(Team{}, folder, s, 0)
		if err != nil {
			t.Fatal(err)
		}
		state := stateOf(t, folder)
		for _, n := range c.ranks {
			folder := t.TempDir()
			var got string
			as(t, n, s.Config, dividing, func(with Team) (err error) {
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

// TestDividedExpertsResume: a run goes on with another number of ranks, and with experts that are whole.
func TestDividedExpertsResume(t *testing.T) {
	t.Parallel()
	s, folder := ranked(balanced(1e-3)), t.TempDir()
	want, err := run(Team{}, t.TempDir(), s, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for i, x := range []struct {
		ranks int
		set   func(with Team) Team
	}{{2, dividing}, {3, func(with Team) Team { return with }}, {4, dividing}} {
		as(t, x.ranks, s.Config, x.set, func(with Team) (err error) {
			got, err = run(with, folder, s, []int{1, 3, 0}[i])
			return err
		})
	}
	if got != want {
		t.Errorf("metrics\n%s\nwant\n%s", got, want)
	}
}

// TestDividedExpertsNotFinite: the error of a step that is not finite names the call and the tensor that one process names, also if
// only another rank has them.
func TestDividedExpertsNotFinite(t *testing.T) {
	t.Parallel()
	for _, weight := range []string{"model.layers.0.mlp.experts.up_proj.weight", "model.layers.0.post_attention_layernorm.weight"} {
		s := ranked(balanced(0))
		s.Mixture.Dense = ""
		message := func(with Team) string {
			tr, err := NewRanked(cpu.Queue(), with, s.Config, text())
			if err != nil {
				return err.Error()
			}
			defer tr.Close()
			err = tr.begin(0, func(p part) ([]float32, error) {
				list, err := tr.initial(p)
				if p.name == weight {
					list[len(list)-1] = float32(math.Inf(1)) // of the last expert
				}
				return list, err
			})
			if err == nil {
				_, err = tr.Step()
			}
			if _, isNotFinite := errors.AsType[*NotFiniteError](err); !isNotFinite {
				t.Errorf("error %v, want one of a step that is not finite", err)
				return ""
			}
			return err.Error()
		}
		want := message(Team{})
		as(t, 2, s.Config, dividing, func(with Team) error {
			if got := message(with); got != want {
				t.Errorf("error %s, want %s", got, want)
			}
			return nil
		})
	}
}

// TestDividedExpertsMemory: each of n ranks has about an n-th of the state of experts, and what it sends in a step follows from the rows:
// each goes to its expert and back, with its gradient too.
func TestDividedExpertsMemory(t *testing.T) {
	t.Parallel()
	s := ranked(large())
	s.Leaves, s.Batch = 3, 3
	state := func(tr *Trainer) (n int) {
		for i, name := range tr.names {
			if !strings.Contains(name, ".experts.") {
				continue
			}
			for _, p := range tr.parts(i) {
				n += p.tensor.Len()
			}
		}
		return n
	}
	alone := newTrainer(t, cpu.Queue(), s.Config)
	as(t, 3, s.Config, dividing, func(with Team) error {
		tr, err := NewRanked(cpu.Queue(), with, s.Config, text())
		if err != nil {
			return err
		}
		defer tr.Close()
		if got, want := 3*state(tr), state(alone); got != want {
			t.Errorf("a third of the experts has %d elements, of all %d", got/3, want)
		}
		take(t, tr, 1)
		sizes, err := tr.Sizes()
		if err != nil {
			return err
		}
		var sent, rows int64
		for _, x := range sizes {
			sent += x.Rows
			if x.Memory >= alone.Bytes() {
				t.Errorf("a rank has %d bytes, and one process %d", x.Memory, alone.Bytes())
			}
		}
		for leaf := range s.Leaves { // rank r has leaf r and expert r
			for e, n := range tr.routed.counts[3*leaf : 3*leaf+3] {
				if e != leaf {
					rows += int64(n)
				}
			}
		}
		if want := rows * 4 * 4 * int64(s.Width); sent != want {
			t.Errorf("the ranks have sent %d bytes, want %d for %d rows", sent, want, rows)
		}
		return nil
	})
}

// TestDividedExpertsMessages: rows that arrive with other bits are named, with the rank that has sent them.
func TestDividedExpertsMessages(t *testing.T) {
	t.Parallel()
	s := ranked(balanced(0))
	memory := alignedMemory(ranks.MemoryBytes(2, 1<<10))
	var errs [2]error
	var wait sync.WaitGroup
	for r := range errs {
		wait.Go(func() {
			g, err := ranks.Join(memory, r, 2, ranks.Options{})
			if err != nil {
				errs[r] = err
				return
			}
			defer g.Close()
			if r == 1 {
				errs[r] = Follow(cpu.Queue(), dividing(Team{Group: g}), s.Config, text())
				return
			}
			tr, err := NewRanked(cpu.Queue(), dividing(Team{Group: g}), s.Config, text())
			if err != nil {
				errs[r] = err
				return
			}
			tr.team.Group = &faultyGroup{tr.team.Group, 1, 0}
			_, errs[r] = tr.Step()
			tr.Close()
		})
	}
	wait.Wait()
	if want := "rank 1 has sent other rows of model.layers.1.mlp.rows.rows than have arrived at rank 0"; errs[0] == nil || !strings.Contains(errs[0].Error(), want) {
		t.Errorf("error %v, want one with %q", errs[0], want)
	}
}

// TestDividedExpertsRefused: what cannot be divided is refused by all ranks.
func TestDividedExpertsRefused(t *testing.T) {
	t.Parallel()
	audited := func(with Team) Team {
		with.Audit, with.DividesExperts = 1, true
		return with
	}
	for _, x := range []struct {
		s     Settings
		ranks int
		set   func(with Team) Team
		want  string
	}{
		{ranked(balanced(0)), 5, dividing, "5 ranks for 4 experts, want at most as many ranks as experts, if they are divided"},
		{ranked(tiny()), 2, dividing, "experts are to be divided among ranks, and the network has no mixture"},
		{ranked(balanced(0)), 2, audited, "experts are to be divided among ranks, and steps audited, want one of them"},
	} {
		memory := alignedMemory(ranks.MemoryBytes(x.ranks, 1<<10))
		for r := range x.ranks {
			g, err := ranks.Join(memory, r, x.ranks, ranks.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if r == 0 {
				_, err = NewRanked(cpu.Queue(), x.set(Team{Group: g}), x.s.Config, text())
			} else {
				err = Follow(cpu.Queue(), x.set(Team{Group: g}), x.s.Config, text())
			}
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("rank %d of %d: error %v, want one with %q", r, x.ranks, err, x.want)
			}
			g.Close()
		}
	}
}

// TestDividedExpertsNetwork: ranks that exchange their rows over TCP have the chain of one process.
func TestDividedExpertsNetwork(t *testing.T) {
	t.Parallel()
	s := ranked(balanced(0))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	var chain Entry
	var errs [3]error
	var wait sync.WaitGroup
	for r := range errs {
		wait.Go(func() {
			g, err := ranks.Connect(ranks.Place{Rank: r, Size: len(errs), Address: address, Secret: []byte("only for this test")}, ranks.Options{})
			if err != nil {
				errs[r] = err
				return
			}
			defer g.Close()
			if r > 0 {
				errs[r] = Follow(cpu.Queue(), dividing(Team{Group: g}), s.Config, text())
				return
			}
			tr, err := NewRanked(cpu.Queue(), dividing(Team{Group: g}), s.Config, text())
			if err != nil {
				errs[r] = err
				return
			}
			defer tr.Close()
			take(t, tr, 2)
			chain = tr.Chain()
		})
	}
	wait.Wait()
	alone := newTrainer(t, cpu.Queue(), s.Config)
	take(t, alone, 2)
	if chain != alone.Chain() || errors.Join(errs[:]...) != nil {
		t.Errorf("chain %v, want %v; %v", chain, alone.Chain(), errors.Join(errs[:]...))
	}
}
