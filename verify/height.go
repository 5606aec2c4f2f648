package verify

import (
	"math"
	"strings"

	"tokitai/def"
	"tokitai/num"
)

// lengths describes the sums that an output depends on.
type lengths struct {
	longest int // terms
	sums    int // that are independent of each other, at least
}

// lengthsOf returns the lengths of the sums that an output of a tile depends on.
func (s *stable) lengthsOf(operand int) lengths {
	d, a := s.v.target.Definition, s.v.got[operand]
	if d.Access() != def.AlongRows {
		return lengths{s.forms.MostHeight() + 1, a.Rows * a.Cols}
	}
	rows, cols := lengthOf(d, s.v.inputs, "R"), lengthOf(d, s.v.inputs, "C")
	z := lengths{sums: a.Rows * a.Cols}
	seen := map[*def.Node]bool{}
	var walk func(n *def.Node)
	walk = func(n *def.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		switch n.Op {
		case def.OpRowSum:
			z = lengths{max(z.longest, cols), min(z.sums, rows)}
		case def.OpColSum:
			z = lengths{max(z.longest, rows), min(z.sums, cols)}
		case def.OpTotalSum:
			z = lengths{max(z.longest, rows*cols), 1}
		}
		for _, arg := range n.Args {
			walk(arg)
		}
	}
	for _, form := range s.v.target.forms() {
		for _, o := range form.Math().Outputs {
			if o.Operand == operand {
				walk(o.Value)
			}
		}
	}
	return z
}

// isInferred reports whether the heights of an output's sums are found from its values.
func (s *stable) isInferred(operand int) bool {
	return s.v.target.Lowering.Promise.Order == (def.Order{}) && s.v.got[operand].DType != num.I32
}

// heightOf returns the height of sums at which an output's sets are taken: the least that admits
// every element that the largest height admits, which is that of the declared order, and that does
// not contradict its row.
func (s *stable) heightOf(operand int) int {
	most := s.forms.MostHeight()
	if s.v.got[operand].DType == num.I32 {
		return most
	}
	h := 0
	s.each(operand, func(r, c int, x uint64) bool {
		if !s.widest().Admits(operand, r, c, h, uint32(x)) {
			if _, isOutlier := s.outliers[operand][r*s.v.got[operand].Cols+c]; isOutlier {
				return true
			}
			if least, ok := s.widest().Height(operand, r, c, uint32(x)); ok {
				h = max(h, least)
			}
		}
		return h < most
	})
	return h
}

// each calls do with the elements of an output that may have more than one value, until it
// returns false.
func (s *stable) each(operand int, do func(r, c int, x uint64) bool) {
	got := s.v.got[operand]
	for r := range got.Rows {
		for c := range got.Cols {
			if !s.v.isOne(operand, r, c) && !do(r, c, got.Bits64(r, c)) {
				return
			}
		}
	}
}

// mostSpread is the length up to which the rounding errors of sums of normally distributed terms
// have hardly a preferred sign. A longer sum loses terms that are below half a unit in its last
// place more often than it rounds them up.
const mostSpread = 1 << 14

// isRandom reports whether the values of a case are normally distributed, so that the rounding
// errors of sums have no preferred sign.
func (l *loaded) isRandom() bool {
	return l.c.Pattern == "normal" || strings.HasPrefix(l.c.Pattern, "normal-")
}

// spread returns the heights that elements need, in units of the average need of honest sums of
// their length. Rounding errors of additions are at most u times the partial sum, and have no
// preferred sign: a sum whose terms go through at most h additions has an error of variance at
// most h/3·(u·Σ|x|)², since the partial sums of equal depth add up to at most Σ|x|. Height 1 is
// u·Σ|x|. So the mean square of the needed heights beyond 1 is at most h/3.
func (s *stable) spread(operand int) (m moments) {
	most := s.forms.MostHeight()
	if most == 0 || s.v.got[operand].DType == num.I32 {
		return m
	}
	deviation := math.Sqrt(float64(most) / 3)
	s.each(operand, func(r, c int, x uint64) bool {
		if s.widest().Admits(operand, r, c, 1, uint32(x)) {
			m.count(0)
		} else if least, ok := s.widest().Height(operand, r, c, uint32(x)); ok {
			m.count(float64(least-1) / deviation)
		}
		return true
	})
	return m
}

func (s *stable) describe(operand int, t *tally) {
	z := s.lengthsOf(operand)
	if s.isInferred(operand) && z.longest > 1 && !s.v.l.isGrid() {
		t.Length, t.Height = z.longest, s.heights[operand]
	}
	if s.v.l.isRandom() && z.longest > 1 && z.longest <= mostSpread {
		t.Spread, t.Sums = s.spread(operand), z.sums
	}
}
