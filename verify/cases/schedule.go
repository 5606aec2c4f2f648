package cases

import (
	"cmp"
	"fmt"
	"slices"

	"tokitai/internal/gen"
)

// Schedule holds the cases of a verification in the order in which they run.
type Schedule struct {
	Cases   []*Case
	Smoke   int // if there is a budget, the number of cases of level smoke, which come first
	LeftOut int // cases of the level that are beyond the budget of work
}

// Schedule lists the cases of a verification.
func (t *Target) Schedule(o *Request) Schedule {
	list := t.List(o)
	if !o.IsTimed && o.WorkBudget <= 0 {
		return Schedule{Cases: list}
	}
	least := *o
	least.Level, least.Shapes = Smoke, nil
	first := t.List(&least)
	at := make(map[string]int, len(first))
	for i, c := range first {
		at[c.Name(t)] = i
	}
	type drawn struct {
		c   *Case
		key uint64
	}
	var rest []drawn
	for _, c := range list {
		name := c.Name(t)
		if i, ok := at[name]; ok {
			first[i] = c // with what the level asks of it
			continue
		}
		rest = append(rest, drawn{c, gen.New(fmt.Sprintf("budget %d %s", o.Seed, name)).Next()})
	}
	slices.SortStableFunc(rest, func(a, b drawn) int { return cmp.Compare(a.key, b.key) })
	slices.SortStableFunc(first, func(a, b *Case) int { return cmp.Compare(newProcesses(a), newProcesses(b)) })
	s := Schedule{Cases: first, Smoke: len(first)}
	for _, d := range rest {
		s.Cases = append(s.Cases, d.c)
	}
	if o.WorkBudget > 0 {
		s.cut(t, o)
	}
	return s
}

// cut leaves out the cases beyond the budget of work: those after the one that reaches it. What
// comes next in the drawn order is never passed over for a smaller case, so that large cases
// have the same chance as small ones.
func (s *Schedule) cut(t *Target, o *Request) {
	work := 0.0
	for i, c := range s.Cases {
		if i >= s.Smoke && work >= o.WorkBudget {
			s.LeftOut, s.Cases = len(s.Cases)-i, s.Cases[:i]
			return
		}
		work += t.WorkOf(c, o)
	}
}

// WorkBudgets divides an amount of work among verifications, given the work of each: every one gets
// the same amount, but for those that need less, whose rest the others share. 0 means no limit.
func WorkBudgets(total float64, works []float64) []float64 {
	shares := make([]float64, len(works))
	order := make([]int, len(works))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(works[a], works[b]) })
	for n, i := range order {
		if share := total / float64(len(order)-n); works[i] > share {
			shares[i] = share
			total -= share
			continue
		}
		total -= works[i]
	}
	return shares
}

// newProcesses returns how many processes a case starts.
func newProcesses(c *Case) int {
	if c.Check == Fresh {
		return 1
	}
	return 0
}

// WorkOf estimates the time that a case takes, in units of about the time it takes to judge
// one output. Reports of progress depend on it, and which cases fit into a budget of work.
func (t *Target) WorkOf(c *Case, o *Request) float64 {
	const launch, truth, multiplyAdds = 300, 8, 12
	d := t.Definition
	once := float64(c.computed(d))
	if d.Multiplies() {
		once += float64(work(c)) / multiplyAdds
	}
	judged := once
	if c.IsAccuracy || !t.IsBits {
		judged *= truth
	}
	launches := 1.0
	switch c.Check {
	case "":
	case "endure":
		launches += float64(o.Endurance())
	case "repeat":
		launches += Repeats
	case "concurrent", "scratch":
		launches += 36
	case "rerun":
		launches += 1.5 * float64(plans[o.Level].reruns)
	case "late-change":
		launches += 6 * float64(len(d.Operands))
		judged *= 3 * float64(len(d.Operands))
	case "cancel":
		launches += 20
	default:
		launches += 4
	}
	return judged + launches*(launch+once/4)
}

// Fresh is the check that runs a kernel again in a new process.
const Fresh = "fresh"

// Repeats is more than ten: a known kernel went wrong after ten calls.
const Repeats = 14

// Endurance returns how often a kernel is rerun on a tiny case. It is smaller under a budget, where
// this case must be done.
func (o *Request) Endurance() int {
	if o.IsTimed {
		return plans[Smoke].endurance
	}
	return plans[o.Level].endurance
}
