package verify

import (
	"fmt"

	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/trial"
	"tokitai/verify/cases"
)

// The memory around operands, and the contents of outputs before they are written, must not
// affect a result, and no kernel should be able to recognise a verification by them. So both are
// drawn from the case's name and the seed: a replay draws the same.

// around describes the memory around the operands of a case.
type around struct {
	guards trial.Guards
	key    uint64
}

// surroundings draws the memory around the operands: NaNs in half of the cases, otherwise the guard
// byte, inside or outside of the kernel's buffers, or ordinary numbers.
func (t *Target) surroundings(c *cases.Case, seed uint64) around {
	bare := c
	if c.Guards != "" {
		bare = c.Clone()
		bare.Guards = ""
	}
	g := gen.Seeded(gen.New("around "+bare.Name(t.Cases())).Next() ^ gen.Seeded(seed).Next())
	a := around{key: g.Next()}
	a.guards = [...]trial.Guards{
		trial.GuardsOfNaN, trial.GuardsOfNaN, trial.GuardsOfNaN, trial.GuardsOfNaN,
		trial.GuardsOfBytes, trial.GuardsOfBytes, trial.GuardsOfNumbers, trial.HiddenGuards,
	}[g.Below(8)]
	if c.Guards != "" {
		a.guards, _ = trial.ParseGuards(c.Guards) // which parseCase has checked
	}
	return a
}

// of adds the surroundings of an operand to its layout.
func (a around) of(l trial.Layout, operand int) trial.Layout {
	l.Guards, l.Key = a.guards, a.key+uint64(operand)
	return l
}

// layout returns the layout of an operand of a case.
func (t *Target) layout(c *cases.Case, operand int) trial.Layout {
	l := c.Layout(operand)
	if l.Gap/max(t.Lowering.Grain, 1)%2 == 1 {
		l = interleaved(l, &t.Definition.Operands[operand])
	}
	return l
}

// pinned returns the case with the guards that it draws under a seed in its name, so that
// smaller cases keep them.
func (t *Target) pinned(c *cases.Case, seed uint64) *cases.Case {
	p := c.Clone()
	p.Guards = t.surroundings(c, seed).guards.String()
	return p
}

// hasRoom returns an error if the operands of a case whose rows are far apart would take more
// than a quarter of a device's memory. Memory of the host is only taken where it is touched.
func (b *bench) hasRoom(l *loaded) error {
	_, isSparse := b.device.(trial.Adopter)
	most := b.device.Describe().MemoryBytes / 4
	if n := l.operands.DeviceBytes(); l.c.Far > 0 && !isSparse && n > most {
		return fmt.Errorf("%s has room for %d bytes of them, want %d", b.device.Name(), most, n)
	}
	return nil
}

// tooFar returns the error that a case is left out because its rows are too far apart.
func (l *loaded) tooFar(err error) error {
	return &engine.UnsuitedError{Lowering: l.target.ID(), Cause: fmt.Errorf("rows that lie 2^%d elements apart: %w", l.c.Far, err)}
}

// outOfReach returns the limits of what such cases can show.
func (s *verification) outOfReach() []string {
	list := []string{
		"a kernel that recognises the verifier itself, as by the stack of its callers, the clock or the name of the program, may compute otherwise elsewhere",
	}
	if s.unwatched != "" {
		list = append(list, "an input that is written and restored before the kernel returns shows only if callers at the same time read it meanwhile: "+s.unwatched)
	}
	if text := s.leftOut(); text != "" {
		list = append(list, text)
	}
	return list
}

// leftOut says how many cases the kernel does not take, and why.
func (s *verification) leftOut() string {
	if only := s.o.Restrict; len(only) > 0 {
		text := fmt.Sprintf("shapes other than %s were left out: the kernel is declared for these alone", only)
		if s.unsuited > 0 {
			text += fmt.Sprintf("; so were %d cases that need others", s.unsuited)
		}
		return text
	}
	if s.unsuited == 0 {
		return ""
	}
	return fmt.Sprintf("%d cases were left out, the last because: %v", s.unsuited, s.whyUnsuited)
}
