package explain

import (
	"cmp"
	"slices"
	"strings"
)

// condition is a property that each example either has or lacks.
type condition struct {
	text  string
	cost  int // the simplest are preferred
	holds []bool

	letter string // the size that it is about, or ""
	bound  *bound // nil if it is none

	element func(row, col int) bool // of an element, whether it holds
}

// rule is a conjunction of conditions.
type rule struct {
	conditions []*condition
	failing    int // examples that meet it and fail
	passing    int // and those that meet it and pass
}

func (r *rule) meets(i int) bool {
	for _, c := range r.conditions {
		if !c.holds[i] {
			return false
		}
	}
	return true
}

func (r *rule) cost() (sum int) {
	for _, c := range r.conditions {
		sum += c.cost
	}
	return sum
}

func (r *rule) text() string {
	var texts []string
	for _, c := range r.conditions {
		texts = append(texts, c.text)
	}
	return strings.Join(texts, " and ")
}

// share returns the share of the examples that meet the rule and still pass.
func (r *rule) share() float64 { return float64(r.passing) / float64(r.passing+r.failing) }

// worthACondition is by how much a second condition must reduce the share. Under any condition some
// cases pass because of their values: with infinities, outputs are NaN whether a term is lost or not.
const worthACondition = 0.15

// less reports whether r explains the failures better than s: fewer of the examples that meet it
// pass. A rule with one more condition must be better by worthACondition.
func (r *rule) less(s *rule) bool {
	score := func(r *rule) float64 { return r.share() + worthACondition*float64(len(r.conditions)) }
	return cmp.Or(cmp.Compare(score(r), score(s)), cmp.Compare(r.cost(), s.cost()), cmp.Compare(s.failing, r.failing)) < 0
}

// separate returns the rule of at most two conditions that all failing examples meet and as
// few others as possible; nil if there is no condition that they all meet.
func separate(fails []bool, conditions []*condition) *rule {
	common := slices.DeleteFunc(slices.Clone(conditions), func(c *condition) bool {
		for i, f := range fails {
			if f && !c.holds[i] {
				return true
			}
		}
		return false
	})
	return bestRule(fails, common, (*rule).less)
}

// cover returns the rule of at most two conditions that almost only failing examples meet,
// and as many of them as possible; nil if there is none.
func cover(fails []bool, conditions []*condition) *rule {
	return bestRule(fails, conditions, func(r, s *rule) bool {
		isSure := func(r *rule) int {
			if r.share() <= mostNoise {
				return r.failing
			}
			return 0
		}
		return cmp.Or(cmp.Compare(isSure(s)/len(s.conditions), isSure(r)/len(r.conditions)), cmp.Compare(r.cost(), s.cost())) < 0
	})
}

func bestRule(fails []bool, conditions []*condition, less func(r, s *rule) bool) *rule {
	var best *rule
	try := func(of ...*condition) {
		if r := ruleOf(fails, of...); r.failing > 0 && (best == nil || less(r, best)) {
			best = r
		}
	}
	for i, c := range conditions {
		try(c)
		for _, d := range conditions[i+1:] {
			try(c, d)
		}
	}
	return best
}

// ruleOf returns a rule with the numbers of examples that meet it.
func ruleOf(fails []bool, of ...*condition) *rule {
	r := &rule{conditions: of}
	for i, f := range fails {
		switch {
		case !r.meets(i):
		case f:
			r.failing++
		default:
			r.passing++
		}
	}
	return r
}

func count(list []bool) (n int) {
	for _, is := range list {
		if is {
			n++
		}
	}
	return n
}

// isTrivial reports whether a condition holds for all examples or for none.
func (c *condition) isTrivial() bool {
	return !slices.Contains(c.holds, true) || !slices.Contains(c.holds, false)
}
