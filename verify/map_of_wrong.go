package verify

import (
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/trial"
)

// mapOf returns a map of the wrong elements of a finding's output, or nil if they are not
// known or the output has only one element.
func (l *loaded) mapOf(f *finding, name string) *evidence.Map {
	if f.Operand < 0 || f.Row < 0 || len(f.places) == 0 {
		return nil
	}
	if l = l.callOf(f); l == nil {
		return nil
	}
	o, a := &l.target.Definition.Operands[f.Operand], l.array(f.Operand)
	if a.Rows*a.Cols <= 1 {
		return nil
	}
	b, seen := evidence.NewMap(a.Rows, a.Cols), map[trial.Place]bool{}
	for _, p := range f.places {
		if p.Operand == f.Operand && !seen[p] {
			seen[p] = true
			b.Add(p.Row, p.Col)
		}
	}
	m := b.Map()
	m.Case, m.Output, m.IsPart = name, o.Name, len(f.places) >= mostPlaces
	m.RowAxis, m.ColAxis = axesOf(o)
	return m
}

// axesOf returns the letters of the axes along the rows and the columns of an operand's matrix.
func axesOf(o *def.Operand) (rows, cols string) {
	switch n := len(o.Dims); {
	case n == 0:
		return "", ""
	case n == 1 && o.Extent == def.PerColumn:
		return "", o.Dims[0]
	case n == 1:
		return o.Dims[0], ""
	default:
		return strings.Join(o.Dims[:n-1], "·"), o.Dims[n-1]
	}
}

// maps returns maps of the failure in the original case and in the smallest, if that looks
// different.
func (s *verification) maps(f *shrunk) (list []evidence.Map) {
	if f.origin != nil {
		list = append(list, *f.origin)
	}
	if name := f.c.Name(s.t.Cases()); f.origin == nil || name != f.origin.Case {
		m := s.t.load(f.c, s.o.Seed).mapOf(f.found, name)
		isSame := m != nil && f.origin != nil && m.Rows == f.origin.Rows && m.Cols == f.origin.Cols && slices.Equal(m.Cells, f.origin.Cells)
		if m != nil && !isSame {
			list = append(list, *m)
		}
	}
	return list
}
