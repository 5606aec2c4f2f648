package train

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/model"
	"tokitai/ranks"
	"tokitai/tensor"
)

// flip flips the highest bit of the exponent of the last element of a tensor: a change that no rounding hides.
func flip(x *tensor.Tensor) error {
	raw, err := x.Bytes()
	if err != nil {
		return err
	}
	raw[len(raw)-1] ^= 0x40
	return x.SetBytes(raw)
}

// flipFirst does so for the first tensor of a list that there is.
func flipFirst(list []*tensor.Tensor) error {
	for _, x := range list {
		if x != nil {
			return flip(x)
		}
	}
	return errors.New("the rank has no part of a weight")
}

// faultyCalls makes calls, and causes one fault before or after one of them.
type faultyCalls struct {
	recorded
	left          int // runs before that one
	before, after func() error
}

func (f *faultyCalls) Run(q *engine.Queue) error {
	if f.left--; f.left != -1 {
		return f.recorded.Run(q)
	}
	for _, do := range []func() error{f.before, func() error { return f.recorded.Run(q) }, q.Wait, f.after} {
		if do == nil {
			continue
		}
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// otherActivation is the calls of a leaf. The first time it makes them one by one, and flips a bit of the result of the first.
type otherActivation struct {
	recorded
	t    *Trainer
	leaf *model.Instance
	done bool
}

func (o *otherActivation) Run(q *engine.Queue) error {
	if o.done {
		return o.recorded.Run(q)
	}
	o.done = true
	for i := range o.t.program.Calls {
		if err := o.leaf.RunCall(q, i, o.t.variables(1, 0)); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		if err := q.Wait(); err != nil {
			return err
		}
		list := o.leaf.Operands(i)
		if err := flip(list[len(list)-1]); err != nil {
			return err
		}
	}
	return q.Wait()
}

// faultyGroup flips a bit of what arrives with the n-th AllToAllV or AllGather.
type faultyGroup struct {
	ranks.Group
	toAll, gathers int
}

func (g *faultyGroup) flip(receive [][]byte) {
	for r, b := range receive {
		if r != g.Rank() && len(b) > 0 {
			b[0] ^= 1
			return
		}
	}
}

func (g *faultyGroup) AllToAllV(send, receive [][]byte) error {
	err := g.Group.AllToAllV(send, receive)
	if g.toAll--; g.toAll == 0 {
		g.flip(receive)
	}
	return err
}

func (g *faultyGroup) AllGather(send []byte, receive [][]byte) error {
	err := g.Group.AllGather(send, receive)
	if g.gathers--; g.gathers == 0 {
		g.flip(receive)
	}
	return err
}

// A fault is planted on one rank, between two steps.
type fault func(tr *Trainer) error

func faultyMessage(toAll, gathers int) fault {
	return func(tr *Trainer) error {
		tr.team.Group = &faultyGroup{tr.team.Group, toAll, gathers}
		return nil
	}
}

// faultyUpdate flips a bit of a part of the state, behind the next update.
func faultyUpdate(part func(s *shard) []*tensor.Tensor) fault {
	return func(tr *Trainer) error {
		tr.advance = &faultyCalls{recorded: tr.advance, after: func() error { return flipFirst(part(&tr.shard)) }}
		return nil
	}
}

// TestAudit: an audit finds nothing in a run without faults, whose chain it does not change. A bit that is flipped on one rank is
// found in that step, and all ranks name rank, tensor and step; one in what a rank alone has got, that rank.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := ranked(bf16(tiny()))
	s.Dropout = 0 // so that otherActivation may make the calls of a leaf
	want := take(t, newTrainer(t, cpu.Queue(), s.Config), 3)
	const name = `[a-z0-9_.]+`
	for title, c := range map[string]struct {
		plant  fault // between steps 2 and 3, on rank 2 of 3
		onZero bool  // no, on rank 0: rank 1 has no weights
		want   string
		alone  bool // no other rank knows it
	}{
		"none": {},

		"weight":         {plant: func(tr *Trainer) error { return flipFirst(tr.weights) }, want: "has other bits of " + name + " than behind the step before$"},
		"m":              {plant: func(tr *Trainer) error { return flipFirst(tr.m) }, want: `has other bits of optimizer\.m\.` + name + " than behind the step before$"},
		"v":              {plant: func(tr *Trainer) error { return flipFirst(tr.v) }, want: `has other bits of optimizer\.v\.` + name + " than behind the step before$"},
		"copy of weight": {plant: func(tr *Trainer) error { return flip(tr.working[0]) }, want: "has other bits of what programs read of " + name + " than behind the step before$"},

		"activation": {plant: func(tr *Trainer) error {
			l := &tr.levels[0]
			l.recording = &otherActivation{recorded: l.recording, t: tr, leaf: l.leaf}
			return nil
		}, want: "computes other bits of the gradient of " + name + " in leaf 4 than rank 0; rank 1 was asked too$"},
		"gradient of a leaf": {plant: func(tr *Trainer) error {
			l := &tr.levels[1]
			l.recording = &faultyCalls{recorded: l.recording, after: func() error { return flip(l.grads[1]) }}
			return nil
		}, want: "computes other bits of the gradient of " + name + " in leaf 5 than rank 0; rank 1 was asked too$"},
		"loss of a leaf": {plant: func(tr *Trainer) error {
			l := &tr.levels[0]
			l.recording = &faultyCalls{recorded: l.recording, after: func() error { return flip(l.loss.Tensor) }}
			return nil
		}, want: "computes other bits of the loss in leaf 4 than rank 0; rank 1 was asked too$"},
		"gradient of an audited leaf": {plant: func(tr *Trainer) error {
			l := &tr.levels[len(tr.team.nodes[2])]
			// behind the second leaf of its own comes the first of rank 1
			l.recording = &faultyCalls{recorded: l.recording, left: 1, after: func() error { return flip(l.grads[1]) }}
			return nil
		}, want: "computes other bits of the gradient of " + name + " in leaf 2 than rank 1; rank 0 was asked too$"},
		"gradient between leaves": {plant: func(tr *Trainer) error {
			const sum = "((0 + 1) + 2)"
			tr.merges[sum] = &faultyCalls{recorded: tr.merges[sum], before: func() error { return flip(tr.levels[0].grads[0]) }}
			return nil
		}, want: "computes other bits of the gradient of " + name + " in the sum of leaves 4 to 6 than rank 0; rank 1 was asked too$"},
		"gradient of all leaves": {plant: func(tr *Trainer) error {
			tr.team.measure = &faultyCalls{recorded: tr.team.measure, before: func() error { return flipFirst(tr.sums) }}
			return nil
		}, want: "computes other bits of the sum of the gradient of " + name + " than rank 0; rank 1 was asked too$"},
		"square sums": {plant: func(tr *Trainer) error {
			tr.team.measure = &faultyCalls{recorded: tr.team.measure, after: func() error { return flipFirst(tr.rows) }}
			return nil
		}, want: "computes other bits of the square sums of the gradient of " + name + " than rank 0; rank 1 was asked too$"},
		"norm": {plant: func(tr *Trainer) error {
			tr.measure = &faultyCalls{recorded: tr.measure, after: func() error { return flip(tr.norm.Tensor) }}
			return nil
		}, want: "has another norm of the gradients than rank 0, as 2 of 3 ranks have it$"},

		"update of a weight": {plant: faultyUpdate(func(s *shard) []*tensor.Tensor { return s.weights }), want: "computes other bits of the update of " + name + " than rank 0; rank 1 was asked too$"},
		"update of m":        {plant: faultyUpdate(func(s *shard) []*tensor.Tensor { return s.m }), want: `computes other bits of the update of optimizer\.m\.` + name + " than rank 0; rank 1 was asked too$"},
		"update of v":        {plant: faultyUpdate(func(s *shard) []*tensor.Tensor { return s.v }), want: `computes other bits of the update of optimizer\.v\.` + name + " than rank 0; rank 1 was asked too$"},
		"update by an auditor": {plant: func(tr *Trainer) error {
			tr.advance = &faultyCalls{recorded: tr.advance, after: func() error { return flipFirst(tr.team.audit.other.m) }}
			return nil
		}, want: `computes other bits of the update of .*optimizer\.m\.` + name + ".* than rank 2; rank 1 was asked too$", onZero: true},
		"gradient at the update": {plant: func(tr *Trainer) error {
			tr.advance = &faultyCalls{recorded: tr.advance, before: func() error { return flipFirst(tr.sums) }}
			return nil
		}, want: "computes other bits of the update of .*optimizer.m." + name + ".* than rank 0; rank 1 was asked too$"},

		"message with gradients":            {plant: faultyMessage(1, 0), want: "^step 3: rank 0 has sent other bits of the gradient of " + name + " than have arrived at rank 2$"},
		"message with gradients to auditor": {plant: faultyMessage(2, 0), onZero: true, want: "^step 3: rank 1 has sent other bits of the gradient of " + name + " than have arrived at rank 0$"},
		"message with state to auditor":     {plant: faultyMessage(3, 0), onZero: true, want: "^step 3: rank 2 had other bits of " + name + " behind the step before than have arrived at rank 0$"},
		// state, messages, sums, rows, shards, losses, scalars, state of others, digests, and then the weights
		"message with square sums": {plant: faultyMessage(0, 4), want: "^step 3: rank 0 has sent other square sums than have arrived at rank 2$", alone: true},
		"message with losses":      {plant: faultyMessage(0, 6), want: "^step 3: rank 0 has sent other losses and counts of tokens than have arrived at rank 2$", alone: true},
		"message with weights":     {plant: faultyMessage(0, 10), want: "^step 3: rank 2 has other bits of " + name + " than the ranks that sent it$"},
	} {
		on := 2
		if c.onZero {
			on = 0
		}
		if c.want != "" && !strings.HasPrefix(c.want, "^") {
			c.want = fmt.Sprintf("^step 3: rank %d %s", on, c.want)
		}
		got, errs := auditedSteps(t, 3, Team{Audit: 1}, s.Config, 3, on, c.plant)
		for r, err := range errs {
			switch {
			case c.want == "" && (err != nil || r == 0 && got != want):
				t.Errorf("%s: rank %d: %+v, want %+v; %v", title, r, got, want, err)
			case c.want == "" || c.alone && r < 2 && err != nil:
			case err == nil || !regexp.MustCompile(c.want).MatchString(err.Error()):
				t.Errorf("%s: rank %d: error %v, want %s", title, r, err, c.want)
			}
		}
	}
}

// auditedSteps takes steps with several ranks, and returns the last one and the error of each rank. On one rank it calls plant
// before the last step.
func auditedSteps(t *testing.T, n int, with Team, c Config, steps, on int, plant fault) (last Result, errs []error) {
	t.Helper()
	if plant == nil {
		on = -1
	}
	memory, errs := alignedMemory(ranks.MemoryBytes(n, 1<<10)), make([]error, n)
	var wait sync.WaitGroup
	for r := range n {
		wait.Go(func() {
			g, err := ranks.Join(memory, r, n, ranks.Options{})
			if err != nil {
				errs[r] = err
				return
			}
			defer g.Close()
			with := with
			if with.Group = g; r > 0 {
				errs[r] = followFaulty(with, c, func(tr *Trainer, o order) error {
					if r != on || o.Command != stepCommand || int(o.Step) != steps-1 {
						return nil
					}
					return plant(tr)
				})
				return
			}
			tr, err := NewRanked(cpu.Queue(), with, c, text())
			if err != nil {
				errs[r] = err
				return
			}
			defer tr.Close()
			for step := range steps {
				if r == on && step == steps-1 {
					if errs[r] = plant(tr); errs[r] != nil {
						return
					}
				}
				if last, errs[r] = tr.Step(); errs[r] != nil {
					return
				}
			}
		})
	}
	wait.Wait()
	return last, errs
}

// followFaulty is Follow, with faults in front of the orders of rank 0.
func followFaulty(with Team, c Config, plant func(tr *Trainer, o order) error) error {
	tr, err := prepare(cpu.Queue(), with, c, text())
	if err != nil {
		return err
	}
	defer tr.Close()
	for {
		o, err := tr.nextOrder()
		if err != nil || o.Command == endCommand {
			return err
		}
		if err := plant(tr, o); err != nil {
			return err
		}
		if err := tr.obey(o); err != nil {
			return err
		}
	}
}

// TestAuditOthers: an audit is right about runs of other kinds too: with SGD, with routers, and with weights that are divided among ranks.
func TestAuditOthers(t *testing.T) {
	t.Parallel()
	momentum := bf16(balanced(1e-3))
	momentum.Optimizer, momentum.Decay = "sgd", 0.1
	for title, c := range map[string]struct {
		s     Settings
		ranks int
		plant fault // on rank 1
		want  string
	}{
		"sgd, mixture": {s: momentum, ranks: 3},
		"counts of tokens": {s: momentum, ranks: 3, want: "rank 1 computes other bits of model.layers.1.mlp.sort.counts in leaf 2 than rank 2", plant: func(tr *Trainer) error {
			l := &tr.levels[0]
			l.recording = &faultyCalls{recorded: l.recording, after: func() error {
				x := l.leaf.Tensor(tr.network.Routers[0].Counts)
				counts, err := x.Int32s()
				if err != nil {
					return err
				}
				counts = slices.Clone(counts)
				counts[0] ^= 1
				return x.SetInt32s(counts)
			}}
			return nil
		}},
		"parts of weights": {s: wide(), ranks: 3, want: "rank 1 computes other bits of the update of optimizer.m.", plant: faultyUpdate(func(s *shard) []*tensor.Tensor { return s.m })},
	} {
		s := ranked(c.s)
		want := take(t, newTrainer(t, cpu.Queue(), s.Config), 2)
		got, errs := auditedSteps(t, c.ranks, Team{Audit: 1}, s.Config, 2, 1, c.plant)
		for r, err := range errs {
			if c.want == "" && (err != nil || r == 0 && got != want) || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "step 2: "+c.want)) {
				t.Errorf("%s: rank %d: %+v, want %+v; error %v, want %s", title, r, got, want, err, c.want)
			}
		}
	}
}

// TestAuditJudge: a third opinion comes from a third rank, from another device if there is one, or else, with two ranks, from the
// first once more; the rank that is wrong is named all the same, also if it is the auditor.
func TestAuditJudge(t *testing.T) {
	t.Parallel()
	s := ranked(tiny())
	other := queueWith(t, 1)
	update := faultyUpdate(func(s *shard) []*tensor.Tensor { return s.m })
	for _, c := range []struct {
		ranks int
		judge *engine.Queue
		want  string
	}{
		{2, nil, "than rank 0; rank 1 was asked too"},
		{2, other, "than rank 0; rank 1 was asked too, on cpu"},
		{3, other, "than rank 0; rank 1 was asked too, on cpu"},
	} {
		_, errs := auditedSteps(t, c.ranks, Team{Audit: 1, Judge: c.judge}, s.Config, 2, c.ranks-1, update)
		for r, err := range errs {
			if want := fmt.Sprintf("rank %d computes other bits of the update of optimizer.m.", c.ranks-1); err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("%d ranks: rank %d: error %v, want %s… %s", c.ranks, r, err, want, c.want)
			}
		}
	}
}

// TestAuditShare: a word of 32 bits draws a step with the stated chance exactly, rounded up to a multiple of 2^-32; words that are
// drawn are about as many as that says; and a fault in an update is found if and only if its step is drawn.
func TestAuditShare(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0x1p-32, 0.05, 0.1, 0.5, 1} {
		if n := uint64(math.Ceil(share * (1 << 32))); !isDrawn(share, 0) || !isDrawn(share, uint32(n-1)) || n < 1<<32 && isDrawn(share, uint32(n)) {
			t.Errorf("share %v: want the words below %d", share, n)
		}
	}
	s := ranked(tiny())
	const n = 20_000
	for _, share := range []float64{0.05, 0.5} {
		count := 0
		tr := &Trainer{config: s.Config, team: &team{audit: audit{share: share}}}
		for step := range n {
			if tr.isAudited(step + 1) {
				count++
			}
		}
		// Hoeffding: fair draws are off by more with a chance below 2 exp(-2 n d^2) = 2^-30.
		if d := math.Sqrt(31 * math.Ln2 / (2 * n)); math.Abs(float64(count)/n-share) > d {
			t.Errorf("share %v: %d of %d steps are drawn", share, count, n)
		}
	}
	var found []bool
	for seed := range uint64(6) {
		s.Seed = seed
		tr := &Trainer{config: s.Config, team: &team{audit: audit{share: 0.5}}}
		_, errs := auditedSteps(t, 2, Team{Audit: 0.5}, s.Config, 1, 1, faultyUpdate(func(s *shard) []*tensor.Tensor { return s.v }))
		isFound := errs[0] != nil
		if isFound != tr.isAudited(1) {
			t.Errorf("seed %d: the step is drawn: %v, and the errors are %v", seed, tr.isAudited(1), errs)
		}
		found = append(found, isFound)
	}
	if !slices.Contains(found, true) || !slices.Contains(found, false) {
		t.Errorf("of the steps %v are drawn, want some and others not", found)
	}
}

// TestAuditedRun: a bit of a moment that is flipped between the last step and its checkpoint does not get into that, and the rank
// that had it is named. The run goes on from the checkpoint before, with any number of ranks, to the chain of a run without faults.
func TestAuditedRun(t *testing.T) {
	t.Parallel()
	s := ranked(tiny())
	s.ValidateEvery = 0
	alone := t.TempDir()
	want, err := run(Team{}, alone, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, n := range []int{3, 2} {
		memory := alignedMemory(ranks.MemoryBytes(n, 1<<10))
		var wait sync.WaitGroup
		for r := range n {
			wait.Go(func() {
				g, err := ranks.Join(memory, r, n, ranks.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				defer g.Close()
				with := Team{Group: g, Audit: 1}
				if r > 0 {
					err := followFaulty(with, s.Config, func(tr *Trainer, o order) error {
						if n == 3 && r == 2 && o.Command == saveCommand && o.Step == 4 {
							return flipFirst(tr.v)
						}
						return nil
					})
					if err != nil && n == 2 {
						t.Errorf("rank %d: %v", r, err)
					}
					return
				}
				got, err := run(with, folder, s, 0)
				if n == 2 && (err != nil || got != want) {
					t.Errorf("metrics\n%s\nwant\n%s\n%v", got, want, err)
				}
				const named = "rank 2 has other bits of optimizer.v."
				if e, isPeer := errors.AsType[*ranks.PeerError](err); n == 3 && (!isPeer || e.Rank != 2 || !strings.HasPrefix(e.Error(), named)) {
					t.Errorf("error %v, want %s…", err, named)
				}
			})
		}
		wait.Wait()
		if list, err := Checkpoints(folder); n == 3 && (err != nil || len(list) != 1 || list[0].Step != 2) {
			t.Errorf("checkpoints %v, want one behind step 2; %v", list, err)
		}
	}
	if got, want := stateOf(t, folder), stateOf(t, alone); got != want {
		t.Errorf("checkpoint %s, want %s", got, want)
	}
}
