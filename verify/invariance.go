package verify

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
)

// With Options.Invariance, results are also checked for properties that need no reference: a row
// has the same bits as alone, and a call the same bits as before. Kernels that promise bits have
// most of them anyway. For a kernel that leaves its order of sums open, they show whether the order
// depends on anything but the lengths of the sums.
//
// Every property has checks, and these have cases, such as rows-M:normal/M=65,K=512,N=64. Some
// checks are part of every verification (check.go, callers.go) and count here too.

// Variant is another way to run a target's kernel, with the same bits: in a fresh process, or
// with another number of threads.
type Variant struct {
	Name     string // as messages state it: with OMP_NUM_THREADS=1
	Lowering *engine.Lowering
}

// property is a property of results that does not depend on the answer.
type property struct {
	name, text string
	checks     []string // names; those that end in a dash are followed by a letter
}

var properties = []property{
	{"rows", "a row has the bits that it has alone: among any number of rows, whatever they hold, at any place", []string{"rows-", "company-", "batch-", "split-", "reverse-"}},
	{"elements", "an element has the same bits at any place in its row", []string{"place-"}},
	{"reruns", "a call gives the same bits again", []string{"rerun", "repeat", "endure"}},
	{"memory", "the memory around operands, old contents of outputs, alignment and strides do not matter", []string{"around", "layout"}},
	{"state", "earlier calls do not matter, whatever their sizes and values", []string{"between", "late-change", "cancel"}},
	{"queues", "the queue or stream of a call does not matter, nor what runs on another", []string{"queues"}},
	{"callers", "calls at the same time do not matter", []string{"concurrent", "scratch"}},
	{"threads", "the number of workers or threads does not matter", []string{"workers", "variants"}},
}

// has reports whether a check is about the property.
func (p *property) has(d *def.Definition, check string) bool {
	return slices.ContainsFunc(p.checks, func(name string) bool {
		if !strings.HasSuffix(name, "-") {
			return check == name
		}
		letter, ok := strings.CutPrefix(check, name)
		if !ok || !slices.Contains(d.Sizes(), letter) {
			return false
		}
		isRows := slices.Contains(batchAxes(d), letter)
		return isRows == (p.name == "rows")
	})
}

// propertyOf returns the property that a check is about, or nil.
func (t *Target) propertyOf(check string) *property {
	for i := range properties {
		if properties[i].has(t.Definition, check) {
			return &properties[i]
		}
	}
	return nil
}

// invarianceChecks lists the checks that Options.Invariance adds.
func (t *Target) invarianceChecks() []*check { return t.invarianceList.get(t.makeInvarianceChecks) }

func (t *Target) makeInvarianceChecks() []*check {
	var list []*check
	add := func(name string, run func(*trialRun) (int64, *finding, error)) {
		list = append(list, &check{name: name, tier: evidence.Invariance, run: run})
	}
	d := t.Definition
	for _, letter := range batchAxes(d) {
		add("rows-"+letter, rowsAlone(letter))
		add("company-"+letter, func(x *trialRun) (int64, *finding, error) { return x.inCompany(letter, evidence.Invariance) })
	}
	for _, letter := range placeAxes(d) {
		add("place-"+letter, shifted(letter))
	}
	add("rerun", rerun)
	add("around", surrounded)
	add("between", betweenOthers)
	add("queues", onQueues)
	add("variants", asVariants)
	return list
}

// placeAxes lists the letters, besides those of a batch, along which elements of outputs depend
// neither on each other nor on their place.
func placeAxes(d *def.Definition) []string {
	if d.Access() != def.AlongRows {
		return slices.DeleteFunc(d.Independent(), func(l string) bool { return slices.Contains(batchAxes(d), l) })
	}
	if !d.IsFlat() || d.Divisible() == "" {
		return nil
	}
	return []string{"C"}
}

// isInvariance reports whether a check can run without judging outputs.
func isInvariance(k *check) bool { return k.tier == evidence.Invariance && k.name != "late-change" }

// invariance has the cases of the checks that Options.Invariance adds.
func (l *lister) invariance(o *Options) {
	hasBatches := func(letter string) bool {
		return !o.OnlyInvariance && slices.ContainsFunc(l.t.checks(), func(k *check) bool { return k.name == "batch-"+letter })
	}
	for _, k := range l.t.invarianceChecks() {
		if letter, ok := strings.CutPrefix(k.name, "company-"); ok && hasBatches(letter) {
			continue // which batch-X does
		}
		if k.name == "variants" && len(l.t.Variants) == 0 {
			continue
		}
		for i, sizes := range l.invarianceSizes(k.name) {
			for n, f := range l.t.formats() {
				// Rounding to 16 bits hides most of what a sum does: another format of a product's
				// result may have more.
				if n == 0 || n == 1 && l.t.Definition.Multiplies() || i == 0 && l.p.checks > 1 {
					l.addInvariance(&Case{Check: k.name, Pattern: l.invariancePattern(i), Sizes: sizes, Formats: f})
				}
			}
		}
		for _, shape := range l.shapes {
			c := &Case{Check: k.name, Pattern: l.invariancePattern(0)}
			for _, letter := range l.t.Definition.Sizes() {
				c.Sizes = append(c.Sizes, Size{Letter: letter, N: shape[letter]})
			}
			l.addInvariance(c)
		}
	}
}

// addInvariance adds a case, its sizes rounded to the lowering's grain, but for the number of
// rows that is swept.
func (l *lister) addInvariance(c *Case) {
	if c.Formats == nil {
		c.Formats = l.usual
	}
	rows, isSwept := strings.CutPrefix(c.Check, "rows-")
	n, _ := c.size(rows)
	l.coarsen(c)
	for i := range c.Sizes {
		if isSwept && c.Sizes[i].Letter == rows {
			c.Sizes[i].N = n
		}
	}
	l.addAsIs(c)
}

// invariancePattern returns the pattern of the operation's usual values or, for every second shape,
// one whose sums cancel, if there is one: it shows other orders best.
func (l *lister) invariancePattern(i int) string {
	if name := "cancellation"; i%2 == 1 && l.t.pattern(name) != nil {
		return name
	}
	return l.t.patterns()[0].name
}

// invarianceSizes returns the sizes on which a check is run: many rows for those that leave
// rows out, one shape for the others, and a long one.
func (l *lister) invarianceSizes(check string) [][]Size {
	var list [][]Size
	add := func(n ...int) {
		if c := (&Case{Sizes: l.shape(n...)}); l.isWithin(c) && c.largest(l.t.Definition) <= 6*l.p.outputs {
			list = append(list, c.Sizes)
		}
	}
	letter, isRows := strings.CutPrefix(check, "rows-")
	if !isRows {
		letter, isRows = strings.CutPrefix(check, "company-")
	}
	if isRows && letter != l.t.Definition.BatchAxis() { // matrices of a stack
		for _, n := range []int{3, 9, 17} {
			c := &Case{Sizes: l.shape(5, 37, 7)}
			for i := range c.Sizes {
				if c.Sizes[i].Letter == letter {
					c.Sizes[i].N = n
				}
			}
			list = append(list, c.Sizes)
		}
		return list
	}
	if !isRows {
		add(l.usualShapes()[0]...)
		add(l.longShape()...)
		if l.p.checks > 1 {
			add(l.usualShapes()[1]...)
			add(l.usualShapes()[3]...)
		}
		return list
	}
	switch l.t.Definition.Access() {
	case def.OfProducts:
		for _, n := range [][]int{{17, 37, 7}, {65, 64, 16}, {65, 512, 48}, {33, 4096, 8}, {257, 100, 24}, {1025, 64, 16}, {129, 4096, 64}, {1025, 512, 64}, {4097, 128, 64}} {
			add(l.inMatrix(n)...)
		}
	case def.FromIndex:
		for _, n := range [][]int{{17, 9, 7}, {65, 33, 64}, {257, 100, 40}, {1025, 33, 8}, {4097, 1000, 256}} {
			add(n...)
		}
	default:
		for _, n := range [][]int{{17, 33}, {65, 67}, {33, 1030}, {257, 130}, {1025, 33}, {9, 4099}, {1025, 1024}, {4097, 257}, {65, 16_400}} {
			add(n...)
		}
	}
	return list
}

// inMatrix orders rows of the batch, length and columns of a product as its definition does: the
// batch of a gradient's left operand may be its second or third size.
func (l *lister) inMatrix(n []int) []int {
	d := l.t.Definition
	ordered := make([]int, 0, 3)
	for _, letter := range l.matrix() {
		switch letter {
		case d.BatchAxis():
			ordered = append(ordered, n[0])
		case d.SummedOver():
			ordered = append(ordered, n[1])
		default:
			ordered = append(ordered, n[2])
		}
	}
	return ordered
}

// whyNot says why a property is not checked for the target's outputs, or for some of them. It
// returns "" if it is checked for all.
func (t *Target) whyNot(p *property) string {
	d := t.Definition
	var reasons []string
	switch p.name {
	case "rows":
		for i := range d.Operands {
			if use, why := d.BatchUse(i); d.Operands[i].IsOut && use == def.WholeBatch && len(batchAxes(d)) == 0 {
				reasons = append(reasons, fmt.Sprintf("%s %s", d.Operands[i].Name, why))
			} else if d.Operands[i].IsOut && use != def.OwnRow {
				reasons = append(reasons, fmt.Sprintf("%s %s", d.Operands[i].Name, why))
			}
		}
	case "elements":
		if len(placeAxes(d)) == 0 {
			reasons = append(reasons, "an element depends on others, or on its place")
		}
	case "threads":
		if t.Lowering.Device != "cpu" && len(t.Variants) == 0 {
			reasons = append(reasons, "the device has no number of workers to choose")
		}
	}
	return strings.Join(reasons, "; ")
}

// setProperties reports whether every property holds.
func (s *verification) setProperties(r *evidence.Report) {
	if !s.o.Invariance {
		return
	}
	for i := range properties {
		p := &properties[i]
		e := evidence.Property{Name: p.name, Text: p.text}
		for k := range s.done {
			c := &s.done[k]
			parsed, err := s.t.parseCase(c.Name)
			if err != nil || s.t.propertyOf(parsed.Check) != p {
				continue
			}
			e.Cases++
			e.Runs += c.Runs
			e.Checks += c.Extra
			if c.Check == nil {
				continue
			}
			if e.Failed++; e.Counterexample == nil {
				e.Counterexample = s.t.load(parsed, s.o.Seed).pair(c)
			}
		}
		why := s.t.whyNot(p)
		switch {
		case e.Cases == 0 && why != "":
			e.Note = "does not apply: " + why
		case e.Cases == 0:
			e.Note = "nothing of this kind was run"
		case why != "" && p.name == "rows":
			e.Note = "asked as far as rows do not depend on others or on their place: " + why
		}
		r.Properties = append(r.Properties, e)
	}
}

// pair returns the two results of a case that differ.
func (l *loaded) pair(c *caseResult) *evidence.Pair {
	fail := l.failureOf(c.Check)
	return &evidence.Pair{Case: c.Name, Place: fail.Place, Got: fail.Got, Want: fail.Want, Text: c.Check.Message, When: c.Check.When}
}
