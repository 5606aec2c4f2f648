package verify

import (
	"fmt"

	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/trial"
)

// What lies around operands, and what outputs hold before they are written, must not reach
// a result, and no kernel should be able to tell a verification by it. So both are drawn by
// the case's name and the seed: a replay draws the same.

// around is what lies around the operands of a case.
type around struct {
	guards trial.Guards
	key    uint64
}

// around draws what lies around the operands: in half of the cases NaNs, otherwise the guard
// byte, there or hidden, or ordinary numbers.
func (c *Case) around(t *Target, seed uint64) around {
	bare := c
	if c.Guards != "" {
		bare = c.clone()
		bare.Guards = ""
	}
	g := gen.Seeded(gen.New("around "+bare.name(t)).Next() ^ gen.Seeded(seed).Next())
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

// of adds what lies around an operand to its layout.
func (a around) of(l trial.Layout, operand int) trial.Layout {
	l.Guards, l.Key = a.guards, a.key+uint64(operand)
	return l
}

// layout returns the layout of an operand of a case.
func (t *Target) layout(c *Case, operand int) trial.Layout {
	l := c.layout(operand)
	if l.Gap/max(t.Lowering.Grain, 1)%2 == 1 {
		l = interleaved(l, &t.Definition.Operands[operand])
	}
	return l
}

// pinned returns the case with the guards that it draws under a seed in its name, so that
// smaller cases keep them.
func (c *Case) pinned(t *Target, seed uint64) *Case {
	p := c.clone()
	p.Guards = c.around(t, seed).guards.String()
	return p
}

// hasRoom returns an error if the operands of a case whose rows lie far apart would take more
// than a quarter of a device's memory. The host's takes room only where it is used.
func (b *bench) hasRoom(l *loaded) error {
	_, isSparse := b.device.(trial.Adopter)
	most := b.device.Describe().MemoryBytes / 4
	if n := l.operands.DeviceBytes(); l.c.Far > 0 && !isSparse && n > most {
		return fmt.Errorf("%s has room for %d bytes of them, want %d", b.device.Name(), most, n)
	}
	return nil
}

// tooFar says that a case is left out because its rows lie too far apart.
func (l *loaded) tooFar(err error) error {
	return &engine.UnsuitedError{Lowering: l.target.ID(), Cause: fmt.Errorf("rows that lie 2^%d elements apart: %w", l.c.Far, err)}
}

// outOfReach returns what no number of such cases shows.
func (s *verification) outOfReach() []string {
	list := []string{
		"a kernel that recognises the verifier itself, as by the stack of its callers, the clock or the name of the program, may compute otherwise elsewhere",
	}
	if s.device != nil {
		if err := canWatch(s.device); err != nil {
			list = append(list, fmt.Sprintf("an input that is written and restored before the kernel returns shows only if callers at the same time read it meanwhile: %v", err))
		}
	}
	if text := s.leftOut(); text != "" {
		list = append(list, text)
	}
	return list
}

// leftOut says how many cases the kernel does not take, and why.
func (s *verification) leftOut() string {
	if s.unsuited == 0 {
		return ""
	}
	return fmt.Sprintf("%d cases were left out, the last because: %v", s.unsuited, s.whyUnsuited)
}
