package truth

import (
	"math"
	"math/bits"
	"slices"
	"sort"

	"tokitai/def"
	"tokitai/num/ball"
)

// stretch holds the least and the greatest place that a value may have on the line on which rows are
// ordered: the real numbers, and above all of them NaN.
type stretch struct{ lo, hi float64 }

// aboveAll stands for NaN. Infinities are at ±math.MaxFloat64, beyond all values of binary32.
var aboveAll = math.Inf(1)

// stretches returns where the elements of a row may be.
func (e *evaluator[T]) stretches(n *def.Node) []stretch {
	x := e.values[n.ID].x
	c := certainty[T]{e: e, seen: map[certainKey]float64{}}
	all := make([]stretch, len(x))
	for j := range x {
		if x[j].Known() {
			lo, hi := x[j].Bounds()
			if e.slack > 0 {
				lo -= e.slack*math.Abs(lo) + tiny
				hi += e.slack*math.Abs(hi) + tiny
			}
			all[j] = stretch{max(lo, -math.MaxFloat64), min(hi, math.MaxFloat64)}
			continue
		}
		switch v := c.of(n, j); {
		case v == 0:
			all[j] = stretch{-math.MaxFloat64, aboveAll}
		case v != v:
			all[j] = stretch{aboveAll, aboveAll}
		default:
			all[j] = stretch{math.Copysign(math.MaxFloat64, v), math.Copysign(math.MaxFloat64, v)}
		}
	}
	return all
}

// precedence tells which elements of a row come before others, certainly or possibly.
type precedence struct {
	stretches []stretch
	byLo      []int // columns, by the lower end descending, then by column
	byHi      []int
	certainly []int // by column: how many certainly come before it
	possibly  []int
}

// precedences compares all elements of a row. j comes before i if it is larger, or equal and j < i:
// certainly if that holds for its lower end and the upper end of i, possibly if it does for the other ends.
func (e *evaluator[T]) precedences(n *def.Node) *precedence {
	p := &precedence{stretches: e.stretches(n)}
	cols := len(p.stretches)
	p.byLo, p.byHi = upTo(cols), upTo(cols)
	p.certainly, p.possibly = make([]int, cols), make([]int, cols)
	sortBy := func(columns []int, end func(stretch) float64) {
		slices.SortFunc(columns, func(a, b int) int {
			switch x, y := end(p.stretches[a]), end(p.stretches[b]); {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return a - b
		})
	}
	lo, hi := func(s stretch) float64 { return s.lo }, func(s stretch) float64 { return s.hi }
	sortBy(p.byLo, lo)
	sortBy(p.byHi, hi)
	before := func(columns []int, end func(stretch) float64, v float64, i int) int {
		return sort.Search(len(columns), func(k int) bool {
			x := end(p.stretches[columns[k]])
			return !(x > v || x == v && columns[k] < i)
		})
	}
	for i, s := range p.stretches {
		p.certainly[i] = before(p.byLo, lo, s.hi, i)
		p.possibly[i] = before(p.byHi, hi, s.lo, i)
		if s.hi > s.lo { // it does not come before itself
			p.possibly[i]--
		}
	}
	return p
}

// ranks returns the ranks that each element may have.
func (e *evaluator[T]) ranks(n *def.Node) []set {
	p := e.precedences(n.Args[0])
	all := make([]int32, len(p.stretches))
	for i := range all {
		all[i] = int32(i)
	}
	sets := make([]set, len(all))
	for i := range sets {
		sets[i] = setOf(all[p.certainly[i] : p.possibly[i]+1])
	}
	return sets
}

// kth returns the columns that may have one of the given ranks.
func (e *evaluator[T]) kth(n *def.Node) set {
	p := e.precedences(n.Args[0])
	cols := len(p.stretches)
	isWanted := make([]int, cols+1) // then: how many wanted ranks are below
	for _, k := range e.values[n.Args[1].ID].i[0].values() {
		isWanted[max(0, min(int(k), cols-1))+1] = 1
	}
	for k := range cols {
		isWanted[k+1] += isWanted[k]
	}
	var may []int32
	for i := range cols {
		if isWanted[p.possibly[i]+1] > isWanted[p.certainly[i]] {
			may = append(may, int32(i))
		}
	}
	return setOf(may)
}

// nucleus returns the columns that may hold the last element of the nucleus: those before which there
// may be less mass than the limit, and with which there may be at least the limit.
func (e *evaluator[T]) nucleus(n *def.Node) set {
	p := e.precedences(n.Args[0])
	cols := len(p.stretches)
	least, most := make([]uint64, cols), make([]uint64, cols)
	var totalLeast, totalMost uint64
	c := certainty[T]{e: e, seen: map[certainKey]float64{}}
	masses := func(x T, arg int, j int, unit float64) (lo, hi uint64) {
		if x.Known() {
			a, b := x.Bounds()
			return massOf(a, unit), massOf(b, unit)
		}
		switch v := c.of(n.Args[arg], j); {
		case v != v || v < 0:
			return 0, 0
		case v > 0:
			return uint64(unit), uint64(unit)
		}
		return 0, uint64(unit)
	}
	for j := range cols {
		least[j], most[j] = masses(at(e.values[n.Args[1].ID].x, j), 1, j, 1<<30)
		totalLeast += least[j]
		totalMost += most[j]
	}
	low, high := masses(e.values[n.Args[2].ID].x[0], 2, 0, 1<<31)
	limitLeast, limitMost := limitOf(totalLeast, low), limitOf(totalMost, high)

	beforeLeast, beforeMost := sumsIn(p.byLo, least), sumsIn(p.byHi, most)
	var may []int32
	for i := range cols {
		less := beforeLeast[p.certainly[i]]
		more := beforeMost[p.possibly[i]]
		if s := p.stretches[i]; s.hi > s.lo { // the possible ones include it
			more = beforeMost[p.possibly[i]+1] - most[i]
		}
		switch {
		case less < limitMost && more+most[i] >= limitLeast,
			totalLeast == 0 && p.possibly[i] == cols-1: // no mass: all are kept
			may = append(may, int32(i))
		}
	}
	return setOf(may)
}

// sumsIn returns the sums of the first masses in an order of columns.
func sumsIn(columns []int, mass []uint64) []uint64 {
	sums := make([]uint64, len(columns)+1)
	for k, c := range columns {
		sums[k+1] = sums[k] + mass[c]
	}
	return sums
}

func limitOf(total, share uint64) uint64 {
	hi, lo := bits.Mul64(total, share)
	return max(hi<<33|lo>>31, 1)
}

// massOf returns a share of a unit, rounded; it is monotonic, so the ends of a ball suffice.
func massOf(x, unit float64) uint64 { return uint64(math.RoundToEven(max(0, min(x, 1)) * unit)) }

// pack encloses the values of slots: a slot may hold the value of every column before which there may be
// as many that are kept.
func (e *evaluator[T]) pack(n *def.Node) {
	keep, x, out := e.values[n.Args[0].ID].claim, e.values[n.Args[1].ID], e.values[n.ID]
	slots := max(len(out.x), len(out.i))
	isSet := make([]bool, slots)
	put := func(s int, c int) {
		switch {
		case n.Type == def.Float && isSet[s]:
			out.x[s] = out.x[s].Hull(x.x[c])
		case n.Type == def.Float:
			out.x[s] = x.x[c]
		case isSet[s]:
			out.i[s] = out.i[s].union(x.i[c])
		default:
			out.i[s] = x.i[c]
		}
		isSet[s] = true
	}
	least, most := 0, 0 // that are kept so far
	for c, k := range keep {
		if k == ball.No {
			continue
		}
		for s := least; s <= min(most, slots-1); s++ {
			put(s, c)
		}
		if most++; k == ball.Yes {
			least++
		}
	}
	for s := least; s < slots; s++ { // it may be empty
		switch {
		case n.Type == def.Float && isSet[s]:
			out.x[s] = out.x[s].Hull(e.zero)
		case n.Type == def.Float:
			out.x[s] = e.zero
		case isSet[s]:
			out.i[s] = out.i[s].union(only(-1))
		default:
			out.i[s] = only(-1)
		}
	}
}

// unpack encloses the slots that elements may have.
func (e *evaluator[T]) unpack(n *def.Node) {
	keep, x, out := e.values[n.Args[0].ID].claim, e.values[n.Args[1].ID], e.values[n.ID]
	least, most := 0, 0
	for c, k := range keep {
		var v T
		i, isSet := only(0), false
		put := func(x T, k set) {
			if isSet && n.Type == def.Float {
				x = v.Hull(x)
			} else if isSet {
				k = i.union(k)
			}
			v, i, isSet = x, k, true
		}
		if k != ball.No {
			for s := least; s <= most; s++ {
				switch {
				case s >= e.slots:
					put(e.zero, only(0))
				case n.Type == def.Float:
					put(x.x[s], only(0))
				default:
					put(e.zero, x.i[s])
				}
			}
		}
		if k != ball.Yes {
			put(e.zero, only(0))
		}
		if n.Type == def.Float {
			out.x[c] = v
		} else {
			out.i[c] = i
		}
		if k != ball.No {
			most++
		}
		if k == ball.Yes {
			least++
		}
	}
}
