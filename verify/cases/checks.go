package cases

import (
	"iter"
	"slices"
	"strings"

	"tokitai/def"
)

// BatchAxes lists the letters along which an output is independent of the rest.
func BatchAxes(d *def.Definition) []string {
	var letters []string
	for i := range d.Operands {
		if use, _ := d.BatchUse(i); d.Operands[i].IsOut && use != def.WholeBatch {
			letters = append(letters, d.BatchAxis())
			break
		}
	}
	for _, a := range d.Axes() {
		if a.Role == def.Batch {
			letters = append(letters, a.Letter)
		}
	}
	return letters
}

// batches lists numbers of rows at the edges of tiles: those right above an edge, or those
// around it.
func batches(most int, isAround bool) []int {
	list := []int{3}
	for edge := 8; edge <= 4096; edge *= 2 {
		if isAround {
			list = append(list, edge-1, edge)
		}
		list = append(list, edge+1)
	}
	return slices.DeleteFunc(list, func(n int) bool { return n > most })
}

// batch adds batches of many sizes, of short and long rows, and of rows of the sizes for which
// kernels have fast paths.
func (l *lister) batch() {
	d := l.t.Definition
	for _, letter := range BatchAxes(d) {
		name, most := "batch-"+letter, 4097
		if l.t.checkNamed(name) == nil {
			return
		}
		if letter != d.BatchAxis() {
			most = 9 // matrices
		}
		for _, rest := range l.fixed().batch {
			for _, n := range batches(most, l.p.pairs && !d.HasAxes()) {
				c := &Case{Check: name, Pattern: l.t.Patterns()[0].Name, Sizes: l.shape(append([]int{5}, rest...)...), Formats: l.usual}
				l.coarsen(c)
				for k := range c.Sizes {
					if c.Sizes[k].Letter == letter {
						c.Sizes[k].N = n // whatever the grain
					}
				}
				if l.isWithin(c) && c.Largest(d) <= 6*l.p.outputs {
					l.addAsIs(c)
				}
			}
		}
	}
}

// invariance has the cases of the checks that Request.Invariance adds.
func (l *lister) invariance(o *Request) {
	hasBatches := func(letter string) bool {
		return !o.OnlyInvariance && slices.ContainsFunc(l.t.checks(false), func(k Check) bool { return k.Name == "batch-"+letter })
	}
	for _, k := range l.t.checks(true) {
		if letter, ok := strings.CutPrefix(k.Name, "company-"); ok && hasBatches(letter) {
			continue // which batch-X does
		}
		if k.Name == "variants" && !o.HasVariants {
			continue
		}
		for i, sizes := range l.invarianceSizes(k.Name) {
			for n, f := range l.t.Formats {
				// Rounding to 16 bits hides most of what a sum does: another format of a product's
				// result may have more.
				if n == 0 || n == 1 && l.t.Definition.Multiplies() || i == 0 && l.p.checks > 1 {
					l.addInvariance(&Case{Check: k.Name, Pattern: l.invariancePattern(i), Sizes: sizes, Formats: f})
				}
			}
		}
		for _, shape := range l.shapes {
			c := &Case{Check: k.Name, Pattern: l.invariancePattern(0)}
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
	n, _ := c.Size(rows)
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
	if name := "cancellation"; i%2 == 1 && l.t.Pattern(name) != nil {
		return name
	}
	return l.t.Patterns()[0].Name
}

// invarianceSizes returns the sizes on which a check is run: many rows for those that leave
// rows out, one shape for the others, and a long one.
func (l *lister) invarianceSizes(check string) [][]Size {
	var list [][]Size
	add := func(n ...int) {
		if c := (&Case{Sizes: l.shape(n...)}); l.isWithin(c) && c.Largest(l.t.Definition) <= 6*l.p.outputs {
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
		add(l.fixed().usual[0]...)
		add(l.fixed().long...)
		if l.p.checks > 1 {
			add(l.fixed().usual[1]...)
			add(l.fixed().usual[3]...)
		}
		return list
	}
	for _, n := range l.fixed().rows {
		if l.t.Definition.Access() == def.OfProducts {
			n = l.inMatrix(n)
		}
		add(n...)
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

// Repeatable returns the factors of a product that have batch axes: all matrices of one may be the
// same memory.
func Repeatable(d *def.Definition) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range 2 {
			if d.Product() != nil && len(d.Operands[i].BatchDims()) > 0 && !yield(i) {
				return
			}
		}
	}
}

// withMatrices returns sizes with at least two matrices along every batch axis of the operand that a
// check repeats, whose name is repeat-A.
func withMatrices(d *def.Definition, check string, sizes []Size) []Size {
	for i := range Repeatable(d) {
		if check != "repeat-"+d.Operands[i].Name {
			continue
		}
		for k := range sizes {
			if slices.Contains(d.Operands[i].BatchDims(), sizes[k].Letter) {
				sizes[k].N = max(sizes[k].N, 2+k%2)
			}
		}
	}
	return sizes
}
