package optest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/reference"
	"tokitai/trial"
)

// MatchReference compares the typed call with the reference, bit for bit, for all choices of
// storage formats, all kinds of data and special values. For the first sizes it does so
// again with gaps between rows, and with each output in the place of each input that the
// contract allows. Memory around the operands and between their rows must not change.
func MatchReference(t testing.TB, s Subject, sizes ...map[string]int) {
	t.Helper()
	q := newQueue(t, 3, engine.WithAdmission(engine.Off)) // what a self-test compares is compared here
	for _, dtypes := range s.Definition.Formats() {
		for _, kind := range s.kinds() {
			for k, size := range sizes {
				m := matcher{q: q, s: &s, dtypes: dtypes, kind: kind, sizes: size}
				m.run(t)
				if k > 0 {
					continue
				}
				m.gap = 5
				m.run(t)
				for i := range s.Definition.Operands {
					for _, partner := range s.Definition.InPlacePartners(&s.Definition.Operands[i]) {
						m.out, m.partner = i, s.Definition.Operand(partner)
						if dtypes[m.out] == dtypes[m.partner] {
							m.run(t)
						}
					}
				}
			}
			if t.Failed() {
				return // one kind's failures tell enough
			}
		}
	}
}

// matcher is one comparison.
type matcher struct {
	q            *engine.Queue
	s            *Subject
	dtypes       []num.DType
	kind         op.Data
	sizes        map[string]int
	gap          int
	out, partner int // out takes the place of partner, if they differ
}

func (m *matcher) String() string {
	d := m.s.Definition
	var s strings.Builder
	fmt.Fprintf(&s, "%s: %s,", d.Name, m.kind.Name)
	for _, letter := range slices.Sorted(maps.Keys(m.sizes)) {
		fmt.Fprintf(&s, " %s=%d", letter, m.sizes[letter])
	}
	for i, o := range d.Operands {
		fmt.Fprintf(&s, ", %s %s", o.Name, m.dtypes[i])
	}
	if m.gap > 0 {
		fmt.Fprintf(&s, ", gaps of %d", m.gap)
	}
	if m.out != m.partner {
		fmt.Fprintf(&s, ", %s in the place of %s", d.Operands[m.out].Name, d.Operands[m.partner].Name)
	}
	return s.String()
}

func (m *matcher) run(t testing.TB) {
	t.Helper()
	d := m.s.Definition
	// The offset is one that no vector register likes.
	before := m.s.operands(m.dtypes, m.sizes, m.kind, trial.Layout{Offset: 3, Gap: m.gap}, gen.New(d.Name+"/"+m.kind.Name))
	if m.out != m.partner && !before.Replace(m.out, m.partner) {
		t.Fatalf("%s: the contract does not allow that", m)
	}
	placed, tensors := place(t, before, m.q.Device())
	defer placed.Close()
	if err := errors.Join(m.s.Call(m.q, tensors, engine.WithBadIndex(engine.Skip)), m.q.Wait()); err != nil {
		t.Errorf("%s: %v", m, err)
		return
	}
	after, err := placed.Read()
	OK(t, err)
	answer := before.Copies()
	if err := reference.Run(d, answer, reference.Options{Params: m.s.Params}); err != nil {
		t.Fatalf("%s: the reference refused: %v", m, err)
	}
	if b := after.Breach(before); b != nil {
		t.Errorf("%s: %s", m, b)
	}
	if f := after.Difference(answer); f != nil {
		t.Errorf("%s: %v", m, f)
	}
}
