package optest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/reference"
)

// MatchReference compares the typed call with the reference, bit for bit, on all
// choices of storage formats, all kinds of data and special values. On the first
// sizes it does so again with gaps between rows, and with each output in the
// place of each input that the contract allows. Memory around and between the
// operands' rows keeps its bits.
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
	g := gen.New(d.Name + "/" + m.kind.Name)
	places := make([]place, len(d.Operands))
	for i := range places {
		places[i] = newPlace(t, m.q.Device(), m.dtypes[i], shapeOf(d, i, m.sizes), m.gap)
		fill(t, d, i, places[i], m.kind, m.sizes, g)
	}
	places[m.out] = places[m.partner]
	memory := make([][]byte, len(places))
	for i, p := range places {
		memory[i] = slices.Clone(memoryOf(t, p.whole))
	}
	memory[m.out] = memory[m.partner]
	arrays := make([]num.Array, len(places))
	for i, p := range places {
		arrays[i] = p.array(d, i, memory[i])
	}
	if err := m.s.Call(m.q, tensors(places), engine.WithBadIndex(engine.Skip)); err != nil {
		t.Errorf("%s: %v", m, err)
		return
	}
	if err := reference.Run(d, arrays, reference.Options{Params: m.s.Params}); err != nil {
		t.Fatalf("%s: the reference refused: %v", m, err)
	}
	for i, p := range places {
		m.compare(t, d, i, p, memory[i])
	}
}

// compare looks at all of an operand's memory: what lies between and around the
// rows counts as much as the results.
func (m *matcher) compare(t testing.TB, d *def.Definition, i int, p place, want []byte) {
	t.Helper()
	dtype := p.tensor.DType()
	n := p.whole.Len()
	x := num.Array{DType: dtype, Rows: 1, Cols: n, Stride: n, Data: memoryOf(t, p.whole)}
	y := num.Array{DType: dtype, Rows: 1, Cols: n, Stride: n, Data: want}
	differences := 0
	for k := range n {
		a, b := x.Bits(0, k), y.Bits(0, k)
		if d.Kind != def.KindGather {
			a, b = num.Canonical(dtype, a), num.Canonical(dtype, b)
		}
		if a == b {
			continue
		}
		if differences++; differences > shownDifferences {
			return
		}
		t.Errorf("%s: %s is %s at element %d of its memory, the reference has %s", m, d.Operands[i].Name, show(dtype, a), k, show(dtype, b))
	}
}
