package train

import (
	"fmt"
	"slices"
	"sync"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// term is what a level holds, or the sum of two terms.
type term struct {
	level       int
	left, right *term // nil for a level
}

// first returns the first level of a term, and count how many it has: they are neighbours.
func (t *term) first() int {
	for t.left != nil {
		t = t.left
	}
	return t.level
}

func (t *term) count() int {
	if t.left == nil {
		return 1
	}
	return t.left.count() + t.right.count()
}

// String returns the term as a formula.
func (t *term) String() string {
	return t.formula(func(level int) string { return fmt.Sprint(level) })
}

func (t *term) formula(name func(level int) string) string {
	if t.left == nil {
		return name(t.level)
	}
	return "(" + t.left.formula(name) + " + " + t.right.formula(name) + ")"
}

const (
	// waitingHeight is the height of the trees of leaves that wait, each in a level, until they can be added up in one pass over
	// memory: four leaves, of which a pass reads each once, where sums of two would read the first ones again.
	waitingHeight = 2

	// mostTerms is how many levels are added up at once.
	mostTerms = def.MaxOperands - 1
)

// leafPlan says which level takes the gradients of a leaf, and what is added up behind it, in this order: each sum goes into the
// first of its levels, and the others are free.
type leafPlan struct {
	leaf, level int
	sums        []*term
}

// planLeaves plans how the gradients of some leaves grow together, by the tree of all. It returns the sums that remain, which are in
// the levels from 0 on, and how many levels it takes.
func planLeaves(leaves int, some []int) (plan []leafPlan, nodes []node, levels int) {
	remaining, _ := sumsOf(leaves, some)
	t := tree{leaves: leaves}
	var terms []*term // of the nodes of t
	used := 0
	for _, leaf := range some {
		p := leafPlan{leaf: leaf, level: used}
		terms = append(terms, &term{level: used})
		used++
		levels = max(levels, used)
		addUp := func() {
			top := terms[len(terms)-1]
			if top.left == nil {
				return
			}
			p.sums = append(p.sums, top)
			used = top.first() + 1
			terms[len(terms)-1] = &term{level: top.first()}
		}
		t.push(node{0, leaf}, func(at int) error {
			if terms[at].count()+terms[at+1].count() > mostTerms {
				addUp()
			}
			terms = append(terms[:at], &term{left: terms[at], right: terms[at+1]})
			return nil
		})
		if top := t.nodes[len(t.nodes)-1]; top.height >= waitingHeight || slices.Contains(remaining, top) {
			addUp()
		}
		plan = append(plan, p)
	}
	return plan, t.nodes, levels
}

// moved returns the term for levels from at on.
func (t *term) moved(at int) *term {
	if t.left == nil {
		return &term{level: t.level + at}
	}
	return &term{left: t.left.moved(at), right: t.right.moved(at)}
}

// sumDefinitions has the definitions of sums by their formulas.
var sumDefinitions sync.Map

// definition returns the definition of the sum: the additions of model.Add, each rounded to binary32.
func (t *term) definition() *def.Definition {
	first := t.first()
	name := func(level int) string { return fmt.Sprintf("x%d", level-first) }
	formula := t.formula(name)
	if d, ok := sumDefinitions.Load(formula); ok {
		return d.(*def.Definition)
	}
	d, _ := sumDefinitions.LoadOrStore(formula, def.Must(def.Rowwise(fmt.Sprintf("train.sum%d", t.count()), func(b *def.Builder) {
		var sum func(t *term) def.Value
		sum = func(t *term) def.Value {
			if t.left == nil {
				return b.In(name(t.level), def.Only(num.F32))
			}
			left := sum(t.left)
			return left.Add(sum(t.right))
		}
		b.Out("y", sum(t), def.Only(num.F32))
		b.Formula("y = " + formula)
	})))
	return d.(*def.Definition)
}

// merge returns the calls that add up levels, into the first of them.
func (t *Trainer) merge(sum *term) (recorded, error) {
	if r, ok := t.merges[sum.String()]; ok {
		return r, nil
	}
	d, levels := sum.definition(), t.levels[sum.first():][:sum.count()]
	r, err := t.queue.Record(func(q *engine.Queue) error {
		call := func(of func(l *level) *tensor.Tensor) error {
			var operands []*tensor.Tensor
			for i := range levels {
				operands = append(operands, of(&levels[i]))
			}
			return engine.Call(q, d, append(operands, operands[0]), nil)
		}
		for i := range levels[0].grads {
			if err := call(func(l *level) *tensor.Tensor { return l.grads[i] }); err != nil {
				return err
			}
		}
		return call(func(l *level) *tensor.Tensor { return l.loss.Tensor })
	})
	if r, err = own(t, r, err); err != nil {
		return nil, err
	}
	t.merges[sum.String()] = r
	return r, nil
}

// eachSum calls do with the calls of each sum of a step, in order, over the leaves of this rank.
func (t *Trainer) eachSum(do func(merge recorded) error) error {
	plan, _, _ := planLeaves(t.config.Leaves, t.leaves)
	for _, p := range plan {
		for _, sum := range p.sums {
			merge, err := t.merge(sum)
			if err == nil {
				err = do(merge)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
