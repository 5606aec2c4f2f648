package train

import (
	"errors"
	"regexp"
	"slices"
	"sync"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/model"
	"tokitai/ranks"
	"tokitai/tensor"
)

// flip flips the lowest bit of the last element of a tensor.
func flip(x *tensor.Tensor) error {
	raw, err := x.Bytes()
	if err != nil {
		return err
	}
	raw[len(raw)-x.DType().Size()] ^= 1
	return x.SetBytes(raw)
}

// otherInput is a task that gives a network other examples in one of its calls: what is computed from them is wrong
// from the first activation on.
type otherInput struct {
	task
	left int // calls before that one
}

func (o *otherInput) put(in *model.Instance, examples []int) error {
	if o.left--; o.left == -1 {
		examples = slices.Clone(examples)
		examples[0] = (examples[0] + 1) % 20
	}
	return o.task.put(in, examples)
}

// faultyGroup flips a bit of what arrives with the n-th AllToAllV or AllGather.
type faultyGroup struct {
	ranks.Group
	toAll, gathers int
}

func (g *faultyGroup) AllToAllV(send, receive [][]byte) error {
	err := g.Group.AllToAllV(send, receive)
	if g.toAll--; g.toAll == 0 {
		receive[0][0] ^= 1
	}
	return err
}

func (g *faultyGroup) AllGather(send []byte, receive [][]byte) error {
	err := g.Group.AllGather(send, receive)
	if g.gathers--; g.gathers == 0 {
		receive[0][0] ^= 1
	}
	return err
}

// TestAudit: an audit finds nothing in a run without faults, whose chain it does not change. A bit that is flipped on one rank is
// found in that step, and all ranks name rank, tensor and step.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := ranked(bf16(tiny()))
	want := take(t, newTrainer(t, cpu.Queue(), s.Config), 3)
	state := func(part int) func(tr *Trainer) error {
		return func(tr *Trainer) error {
			for i := range tr.names {
				if x := tr.parts(i)[part].tensor; x != nil {
					return flip(x)
				}
			}
			return errors.New("the rank has no part of a weight")
		}
	}
	const name = `[a-z0-9_.]+`
	for fault, c := range map[string]struct {
		plant func(tr *Trainer) error // on rank 2 of 3, between steps 2 and 3
		want  string
	}{
		"none":           {},
		"weight":         {state(0), "^step 3: rank 2 has other bits of " + name + " than behind the step before$"},
		"moment":         {state(1), `^step 3: rank 2 has other bits of optimizer\.m\.` + name + " than behind the step before$"},
		"second moment":  {state(2), `^step 3: rank 2 has other bits of optimizer\.v\.` + name + " than behind the step before$"},
		"copy of weight": {func(tr *Trainer) error { return flip(tr.working[0]) }, "^step 3: rank 2 has other bits of what programs read of " + name + " than behind the step before$"},
		"activation": {func(tr *Trainer) error {
			tr.task = &otherInput{task: tr.task, left: 1}
			return nil
		}, "^step 3: rank 2 computes other bits of the gradient of " + name + " in leaf 5 than rank 0; rank 1 was asked too$"},
		"gradient of another": {func(tr *Trainer) error {
			tr.task = &otherInput{task: tr.task, left: 3} // it has three leaves of its own
			return nil
		}, "^step 3: rank 2 computes other bits of the gradient of " + name + " in leaf 2 than rank 1; rank 0 was asked too$"},
		"message": {func(tr *Trainer) error {
			tr.team.Group = &faultyGroup{Group: tr.team.Group, toAll: 1}
			return nil
		}, "^step 3: rank 0 has sent other bits of the gradient of " + name + " than have arrived at rank 2$"},
		"gathered weight": {func(tr *Trainer) error {
			// state, leaves, messages, rows, notes, digests, and then the weights
			tr.team.Group = &faultyGroup{Group: tr.team.Group, gathers: 7}
			return nil
		}, "^step 3: rank 2 has other bits of " + name + " than the ranks that sent it$"},
	} {
		const n = 3
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
				got, err := auditedSteps(Team{Group: g, Audit: 1}, s.Config, c.plant)
				switch {
				case c.want == "" && (err != nil || r == 0 && got != want):
					t.Errorf("%s: rank %d: %+v, want %+v; %v", fault, r, got, want, err)
				case c.want != "" && (err == nil || !regexp.MustCompile(c.want).MatchString(err.Error())):
					t.Errorf("%s: rank %d: error %v, want %s", fault, r, err, c.want)
				}
			})
		}
		wait.Wait()
	}
}

// auditedSteps takes three steps as one of several ranks. On rank 2 it calls plant before the last.
func auditedSteps(with Team, c Config, plant func(tr *Trainer) error) (last Result, err error) {
	tr, err := prepare(cpu.Queue(), with, c, text())
	if err != nil {
		return last, err
	}
	defer tr.Close()
	if with.Group.Rank() > 0 {
		for {
			o, err := tr.nextOrder()
			if err != nil || o.Command == endCommand {
				return last, err
			}
			if o.Step == 2 && o.Command == stepCommand && with.Group.Rank() == 2 && plant != nil {
				if err := plant(tr); err != nil {
					return last, err
				}
			}
			if err := tr.obey(o); err != nil {
				return last, err
			}
		}
	}
	if err := tr.begin(func(w *model.Value) ([]float32, error) { return tr.task.initial(w), nil }); err != nil {
		return last, err
	}
	for range 3 {
		if last, err = tr.Step(); err != nil {
			return last, err
		}
	}
	return last, nil
}
