package cases

import (
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
)

// List lists the cases of a verification.
func (t *Target) List(o *Request) []*Case {
	l := &lister{t: t, p: plans[o.Level], seed: o.Seed, shapes: o.Shapes, usual: t.Formats[0], only: o.Restrict, seen: map[string]bool{}}
	if o.Outputs > 0 {
		l.p.outputs, l.p.edges = o.Outputs, int(o.Outputs)
	}
	if d := t.Definition; o.Level == Quick && d.Multiplies() && (d.HasAxes() || d.Accumulates()) {
		// The arithmetic of a single matrix is verified by the product without axes and old values.
		l.p.small, l.p.others, l.p.shapes, l.p.random, l.p.checks = 8, 600, 1, 40, 1
		l.p.area, l.p.factors = 1<<10, 1<<16
		if d.HasAxes() && d.Accumulates() { // and products with one of these verify the rest
			l.p.random, l.p.drawn = 20, 50
		}
	}
	l.patterns()
	l.sizes()
	l.pairs()
	l.specials()
	l.contenders()
	l.regions()
	l.inPlace()
	l.formats()
	l.params()
	l.random()
	l.drawn()
	l.long()
	l.counters()
	l.models()
	l.popular()
	l.farApart()
	l.slices()
	l.own()
	l.checks()
	l.batch()
	l.accuracy()
	l.wrapping()
	l.large()
	l.counting()
	if o.Invariance || o.OnlyInvariance {
		l.invariance(o)
	}
	if o.OnlyInvariance {
		return slices.DeleteFunc(l.list, func(c *Case) bool { return c.Check == "" || !l.t.checkNamed(c.Check).NeedsNoAnswer() })
	}
	return l.list
}

type lister struct {
	t      *Target
	p      plan
	seed   uint64
	shapes []Shape // of the user
	only   Restrictions
	usual  []num.DType
	list   []*Case
	seen   map[string]bool
	turn   int // of patterns
}

func (l *lister) add(c *Case) {
	if c.Formats == nil {
		c.Formats = l.usual
	}
	l.coarsen(c)
	l.addAsIs(c)
}

// addAsIs adds a case whose sizes need not be multiples of the lowering's grain.
func (l *lister) addAsIs(c *Case) {
	for i := range c.Sizes {
		c.Sizes[i].N = l.t.Definition.FitSize(c.Sizes[i].Letter, c.Sizes[i].N)
	}
	if len(l.only) > 0 && !l.only.Fit(c) {
		return
	}
	if name := c.Name(l.t); !l.seen[name] {
		l.seen[name] = true
		l.list = append(l.list, c)
	}
}

// coarsen rounds the sizes of matrices, gaps and offsets of a case up to multiples of the
// lowering's grain.
func (l *lister) coarsen(c *Case) {
	grain := max(l.t.Grain, 1)
	if grain == 1 {
		return
	}
	up := func(n int) int { return (n + grain - 1) / grain * grain }
	matrix := l.matrix()
	for i := range c.Sizes {
		if s := &c.Sizes[i]; slices.Contains(matrix, s.Letter) {
			s.N = up(s.N)
		}
	}
	c.Gap, c.Offset = c.Gap*grain, c.Offset*grain
}

// nextPattern returns the patterns that are worth another shape, one after another in turn.
func (l *lister) nextPattern() string {
	all := l.t.Patterns()
	for {
		p := all[l.turn%len(all)]
		if l.turn++; p.counts == 0 {
			return p.Name
		}
	}
}

// patterns tries every pattern in a few shapes.
func (l *lister) patterns() {
	shapes := l.fixed().usual
	for _, p := range l.t.Patterns() {
		if p.counts > 0 {
			continue
		}
		for _, n := range shapes[:min(l.p.shapes, len(shapes))] {
			l.add(&Case{Pattern: p.Name, Sizes: l.shape(n...)})
		}
		if c := (&Case{Pattern: p.Name, Sizes: l.shape(l.fixed().long...)}); p.IsGrid && l.isWithin(c) {
			l.add(c) // a sum that is long enough to show the fault
		}
		if n := l.fixed().indexed; p.isIndexed && n != nil {
			l.add(&Case{Pattern: p.Name, Sizes: l.shape(n...)})
		}
		if n := l.fixed().counted; p.isCounted && n != nil {
			l.add(&Case{Pattern: p.Name, Sizes: l.shape(n...)})
		}
	}
}

// sizes tries every small size of every axis, and every boundary.
func (l *lister) sizes() {
	letters := l.t.Definition.Sizes()
	for axis := range letters {
		lengths := make([]int, 0, l.p.small)
		for n := 1; n <= l.p.small; n++ {
			lengths = append(lengths, n)
		}
		most := l.p.others
		if axis == len(letters)-1 {
			most = l.p.edges
		}
		for _, n := range edges(most) {
			if n > l.p.small {
				lengths = append(lengths, n)
			}
		}
		for turn, n := range slices.Concat(lengths, lengths[:l.p.small]) {
			others := [...]int{1, 3, 2}[turn%3]
			if turn >= len(lengths) { // the small ones again, with other rows
				others = [...]int{2, 1, 5}[n%3]
			}
			if int64(3*n) > l.p.outputs {
				others = 1
			}
			c := &Case{Pattern: l.nextPattern()}
			for i, letter := range letters {
				s := Size{Letter: letter, N: others}
				if i == axis {
					s.N = n
				}
				c.Sizes = append(c.Sizes, s)
			}
			for i := range c.Sizes {
				if i != axis && !l.isWithin(c) {
					c.Sizes[i].N = 1
				}
			}
			if l.isWithin(c) {
				l.add(c)
			}
		}
	}
}

// pairs tries axes that are both long: for loops over both, and for stages that are only needed
// for many rows of many columns.
func (l *lister) pairs() {
	if !l.p.pairs {
		return
	}
	if name := "barely-above-a-tie"; l.t.Pattern(name) != nil {
		l.add(&Case{Pattern: name, Sizes: l.shape(8200, 1, 1)})
		for _, f := range l.t.Formats[1:] {
			l.add(&Case{Pattern: name, Sizes: l.shape(8200, 1, 1), Formats: f})
		}
	}
	for _, p := range l.t.Patterns() {
		if strings.HasPrefix(p.Name, "identity-") || p.Name == "graded" { // in square matrices
			l.add(&Case{Pattern: p.Name, Sizes: l.shape(24, 24, 24)})
		}
	}
	for i, n := range l.fixed().pairs {
		l.add(&Case{Pattern: l.t.Patterns()[0].Name, Sizes: l.shape(n...)})
		if i%2 == 0 {
			l.add(&Case{Pattern: l.nextPattern(), Sizes: l.shape(n...)})
		}
	}
	if name := "sums-of-every-size"; l.t.Pattern(name) != nil { // every logarithm, as far as the level allows
		l.add(&Case{Pattern: name, Sizes: l.shape(100, 2100)})
	}
	if l.t.Definition.Access() == def.AlongRows && l.t.Definition.Divisible() == "" { // sums over all: outputs are few
		l.add(&Case{Pattern: l.t.Patterns()[0].Name, Sizes: l.shape(600, 1030)})
	}
}

// specials puts extreme values at the ends of rows of every length, and every pair of
// them into every pair of inputs.
func (l *lister) specials() {
	d := l.t.Definition
	inputs := len(realInputs(d))
	if inputs == 0 {
		return
	}
	rows := 4 * len(extremes) * inputs
	widths := []int{9}
	if l.p.pairs {
		widths = nil
		for n := 1; n <= l.p.small; n++ {
			widths = append(widths, n)
		}
		widths = append(widths, 65, 129, 257, 520)
	}
	for _, n := range widths {
		if n > 16 || !l.p.pairs {
			rows = 4 * len(extremes) // the first input's alone
		}
		c := &Case{Pattern: "special-ends", Sizes: l.lines(rows, n)}
		if l.p.pairs || l.isWithin(c) {
			l.add(c)
		}
	}
	if l.p.pairs && d.Access() == def.AlongRows { // the largest of f16 in the last column
		c := &Case{Pattern: "special-ends", Sizes: l.shape(1, l.beyond16(l.drawing("special-ends")))}
		for i := range c.Sizes {
			if c.Sizes[i].Letter == "R" {
				c.Sizes[i].From = 4*slices.Index(extremes, 65504) + 1
			}
		}
		l.add(c)
	}
	l.specialsAlone()
	count := len(extremes) * len(extremes) * max(1, inputs*(inputs-1)/2)
	if d.Access() == def.AlongRows && (l.p.pairs || count <= 1000) {
		l.add(&Case{Pattern: "special-pairs", Sizes: l.shape(count, 1)})
		if !d.IsFlat() {
			l.add(&Case{Pattern: "special-pairs", Sizes: l.shape(count/2, 2)})
		}
	}
}

// specialsAlone has one value that is no number in a long sum: over rows, over all elements, of a
// product, or of a table. Rows have theirs from special-ends.
func (l *lister) specialsAlone() {
	d := l.t.Definition
	if d.Copies() || d.Access() == def.AlongRows && d.Divisible() != "" {
		return
	}
	g := l.drawing(specialAloneName)
	for i := range l.p.alone {
		n := 600<<g.Below(3) + g.Below(600)
		n += (i - n%len(alone) + len(alone)*len(alone)) % len(alone) // so that all of them occur
		few := 1 + g.Below(3)
		sizes := l.shape(few, n, 4-few)
		if !d.Multiplies() && g.Below(2) == 0 || d.Access() == def.ToIndex {
			sizes = l.shape(n, few, 4-few)
		}
		l.add(&Case{Pattern: specialAloneName, Sizes: sizes})
	}
}

// contenders has every contention of columns at every kind of place, in rows of every
// small length and around boundaries.
func (l *lister) contenders() {
	if l.t.Pattern("contenders") == nil {
		return
	}
	rows := 7 * len(contention)
	widths := []int{9}
	if l.p.pairs {
		widths = []int{65, 129, 257, 520, 1030, 2500}
		for n := 1; n <= l.p.small; n++ {
			widths = append(widths, n)
		}
	}
	for _, n := range widths {
		l.add(&Case{Pattern: "contenders", Sizes: l.shape(rows, n)})
	}
	if l.p.pairs {
		for _, n := range []int{8200, 66_000} { // at the ends of the row, and at boundaries in it
			for kind := range 2 {
				c := &Case{Pattern: "contenders", Sizes: l.shape(len(contention), n)}
				c.Sizes[slices.IndexFunc(c.Sizes, func(s Size) bool { return s.Letter == "R" })].From = kind * len(contention)
				l.add(c)
			}
		}
	}
}

// params varies the parameters.
func (l *lister) params() {
	d := l.t.Definition
	if len(d.Params) == 0 {
		return
	}
	usual := l.t.Patterns()[0].Name
	for n := 1; n <= l.p.params; n++ {
		name := usual
		if n%2 == 0 {
			name = l.nextPattern()
		}
		l.add(&Case{Pattern: name, Sizes: l.shape(9, 1+7*n%40, 5), Params: n})
		if n%3 == 2 && l.t.Pattern("special") != nil { // a parameter of 0 against values that are no numbers
			l.add(&Case{Pattern: "special", Sizes: l.shape(5, 33, 5), Params: n})
		}
	}
}

// inPlace puts each output into the place of each input that allows it.
func (l *lister) inPlace() {
	d := l.t.Definition
	for i := range d.Operands {
		for _, partner := range d.InPlacePartners(&d.Operands[i]) {
			if l.usual[i] != l.usual[d.Operand(partner)] {
				continue
			}
			where := d.Operands[i].Name + "=" + partner
			for k, n := range l.fixed().usual[:3] {
				l.add(&Case{Pattern: l.nextPattern(), Sizes: l.shape(n...), Gap: 3 * k, Offset: k, InPlace: where})
			}
			usual := l.t.Patterns()[0].Name
			for n := 1; n <= l.p.small; n++ {
				l.add(&Case{Pattern: usual, Sizes: l.shape(2, n), InPlace: where})
			}
			for _, n := range [][]int{{2, 23}, {2, 39}, {9, 70}, {13, 300}, {3, 5000}} {
				if c := (&Case{Pattern: usual, Sizes: l.shape(n...), InPlace: where}); l.isWithin(c) {
					l.add(c)
				}
			}
		}
	}
}

// formats tries the other choices of formats.
func (l *lister) formats() {
	for uneven := 1; uneven <= 2; uneven++ { // some operands with gaps, the others without
		for _, n := range l.fixed().usual[:2] {
			l.add(&Case{Pattern: l.t.Patterns()[0].Name, Sizes: l.shape(n...), Gap: 5, Offset: 3, Uneven: uneven})
		}
	}
	for _, f := range l.t.Formats[1:] {
		for k, n := range l.fixed().usual[:3] {
			if name := []string{"normal", "special", "rarely-special"}[k]; l.t.Pattern(name) != nil {
				l.add(&Case{Pattern: name, Sizes: l.shape(n...), Formats: f})
			}
			l.add(&Case{Pattern: l.nextPattern(), Sizes: l.shape(n...), Formats: f, Gap: k})
		}
		if l.t.Definition.Multiplies() {
			for _, p := range l.t.Patterns() { // rounding to 16 bits hides most of what a sum does
				if p.counts > 0 {
					continue
				}
				l.add(&Case{Pattern: p.Name, Sizes: l.shape(l.fixed().usual[0]...), Formats: f})
				if l.p.pairs && !l.t.Definition.HasAxes() {
					l.add(&Case{Pattern: p.Name, Sizes: l.shape(3, 300, 5), Formats: f})
				}
			}
		}
	}
}

// random tries random shapes, patterns, formats and layouts.
func (l *lister) random() {
	d := l.t.Definition
	g := gen.New(d.Name + "/" + l.t.DType.String())
	for range l.p.random {
		c := &Case{Pattern: l.nextPattern(), Formats: l.t.Formats[g.Below(len(l.t.Formats))]}
		for _, letter := range d.Sizes() {
			most := [...]int{9, 33, 70, 150, 9, 20, 600, 2000}[g.Below(8)]
			if l.p.outputs < 4000 {
				most = min(most, 33)
			}
			c.Sizes = append(c.Sizes, Size{Letter: letter, N: 1 + g.Below(most)})
		}
		if g.Below(2) == 0 {
			c.Gap = g.Below(20)
		}
		if g.Below(2) == 0 {
			c.Offset = g.Below(16)
		}
		if c.Gap+c.Offset > 0 {
			c.Uneven = g.Below(3)
		}
		if l.isWithin(c) {
			l.add(c)
		}
	}
}

// isWithin reports whether a case is small enough for the level.
func (l *lister) isWithin(c *Case) bool {
	d := l.t.Definition
	if !d.Multiplies() {
		return c.Outputs(d) <= l.p.outputs
	}
	stored := int64(0) // outputs of each element of the product
	for i := range d.Operands {
		if d.Operands[i].IsOut {
			stored++
		}
	}
	return c.Outputs(d) <= stored*l.p.outputs && work(c) <= l.p.macs
}

func work(c *Case) int64 {
	n := int64(1)
	for _, s := range c.Sizes {
		n *= int64(s.N)
	}
	return n
}

// checks tries every relation and invariance on a few shapes. Relations want values
// whose results are ordinary numbers: the first pattern is the operation's usual one.
func (l *lister) checks() {
	shapes := l.fixed().usual
	usual := l.t.Patterns()[0].Name
	for _, k := range l.t.checks(false) {
		if strings.HasPrefix(k.Name, "batch-") {
			continue // see batch
		}
		if k.Name == "endure" {
			l.add(&Case{Check: k.Name, Pattern: usual, Sizes: l.shape(2, 3, 2)})
			continue
		}
		if k.Name == Fresh {
			for i := range l.p.checks {
				l.add(&Case{Check: k.Name, Pattern: usual, Sizes: l.shape(shapes[i%len(shapes)]...)})
			}
			continue
		}
		if k.Sizes != nil {
			for _, n := range []int{5, 33, 66, 17, 130}[:1+min(l.p.checks, 4)] {
				l.add(&Case{Check: k.Name, Pattern: usual, Sizes: k.Sizes(n)})
			}
			continue
		}
		if l.p.pairs && slices.Contains([]string{"concurrent", "repeat", "late-change", "scratch", "cancel"}, k.Name) {
			l.add(&Case{Check: k.Name, Pattern: usual, Sizes: l.shape(l.fixed().long...)})
		}
		if k.Name == "concurrent" {
			if l.add(&Case{Check: k.Name, Pattern: usual, Sizes: l.shape(l.busyShape()...)}); !l.p.pairs {
				continue
			}
		}
		if k.Name == "late-change" { // more elements than a key of samples has
			l.add(&Case{Check: k.Name, Pattern: usual, Sizes: l.shape(l.fixed().sampled...)})
		}
		for i := range l.p.checks {
			n := shapes[i%len(shapes)]
			if isOften := k.Name == "late-change" || k.Name == "scratch" || k.Name == "cancel"; isOften && l.p.checks == 1 {
				n = []int{3, 9, 5} // level smoke is small, and these run dozens of times
			}
			l.add(&Case{Check: k.Name, Pattern: usual, Sizes: withMatrices(l.t.Definition, k.Name, l.shape(n...))})
		}
		if l.t.Definition.Access() == def.AlongRows && k.IsInvariance && (l.p.checks > 1 || k.Name == "workers") {
			rows, cols := 16, 9 // enough for several workers
			if l.p.checks > 1 {
				rows, cols = 40, 67
			}
			l.add(&Case{Check: k.Name, Pattern: usual, Sizes: l.shape(rows, cols)})
		}
		for _, f := range l.t.Formats[1:] {
			if l.t.Definition.Multiplies() && k.IsInvariance {
				l.add(&Case{Check: k.Name, Pattern: usual, Sizes: l.shape(3, 300, 5), Formats: f}) // rounding to 16 bits would hide another order
			}
			if l.p.checks > 1 {
				l.add(&Case{Check: k.Name, Pattern: usual, Sizes: withMatrices(l.t.Definition, k.Name, l.shape(shapes[0]...)), Formats: f})
			}
		}
	}
}

// accuracy compares the operation's kinds of data with the truth, in their own sizes
// and, if the level allows, in more rows.
func (l *lister) accuracy() {
	for _, data := range l.t.Data() {
		c := &Case{Pattern: Slug(data.Name), IsAccuracy: true, IsStatistics: true}
		for _, letter := range l.t.Definition.Sizes() {
			c.Sizes = append(c.Sizes, Size{Letter: letter, N: data.Sizes[letter]})
		}
		d := l.t.Definition
		grow := d.Divisible()
		for l.p.accuracy == 0 && (c.Outputs(d) > l.p.outputs || c.computed(d) > 4*l.p.outputs) && shorten(c, grow) {
		}
		for !d.Multiplies() && grow != "" && c.Outputs(d) < l.p.accuracy && c.Largest(d) < 4*l.p.accuracy { // outputs may be few for what is read
			for i := range c.Sizes {
				if c.Sizes[i].Letter == grow {
					c.Sizes[i].N *= 2
				}
			}
		}
		l.add(c)
		if l.t.Definition.Multiplies() { // with the accumulator in sight
			for _, f := range l.t.Formats[1:] {
				wide := c.Clone()
				wide.Formats, wide.IsAccuracy = f, false
				l.add(wide)
			}
		}
	}
}

// shorten halves an axis, or any other where that one has length 1.
func shorten(c *Case, letter string) bool {
	for _, want := range []bool{true, false} {
		for i := range c.Sizes {
			if s := &c.Sizes[i]; (s.Letter == letter) == want && s.N > 1 {
				s.N = (s.N + 1) / 2
				return true
			}
		}
	}
	return false
}

// wrapping has sums that do not fit into an int32: of more than 2^17 products of i8.
func (l *lister) wrapping() {
	if !l.t.Definition.Ring().IsExact() {
		return
	}
	for _, p := range l.t.Patterns() {
		if p.isLong {
			l.add(&Case{Pattern: p.Name, Sizes: l.shape(2, 1<<17+5, 3)})
		}
	}
}

// large adds one case of many outputs, which is judged tile by tile.
func (l *lister) large() {
	if l.p.large == 0 {
		return
	}
	usual := l.t.Patterns()[0].Name
	n := int(l.p.large)
	switch l.t.Definition.Access() {
	case def.OfSequence:
		l.add(&Case{Pattern: usual, Sizes: l.shape(65, 1027, 33)})
	case def.OfProducts:
		side := 1
		for int64(8*side*side*side) <= l.p.macs*4 {
			side *= 2
		}
		l.add(&Case{Pattern: usual, Sizes: l.shape(side+1, side+3, side-1)})
		if name := "graded"; l.t.Pattern(name) != nil && !l.t.Definition.HasAxes() { // halves of halves, where an algorithm of fewer products begins
			l.add(&Case{Pattern: name, Sizes: l.shape(side, side, side)})
		}
		if many := n/4099 + 1; l.p.large >= 1<<24 && !l.t.Definition.HasAxes() { // of few products each
			l.add(&Case{Pattern: usual, Sizes: l.shape(many, 2, 4099)})
		}
	case def.FromIndex:
		l.add(&Case{Pattern: usual, Sizes: l.shape(n/256, 5003, 256)})
	case def.ToIndex:
		l.add(&Case{Pattern: usual, Sizes: l.shape(4*n/256, n/256, 256)})
		for _, p := range l.t.Patterns() {
			if most := 1<<23 + 70; n > most && (p.Name == usual || p.isLong) { // more terms than one machine word adds exactly
				l.add(&Case{Pattern: p.Name, Sizes: l.shape(most, 1, 2)})
			}
		}
	default:
		l.add(&Case{Pattern: usual, Sizes: l.shape(n/1024, 1024)})
		l.add(&Case{Pattern: usual, Sizes: l.shape(n/4099+1, 4099), Gap: 5})
	}
}

// counting runs through all bit patterns of the first input: 2^16 of them in one case, 2^32
// in 256 cases. The count continues from row to row.
func (l *lister) counting() {
	d := l.t.Definition
	if d.Access() != def.AlongRows {
		return
	}
	inputs := 0
	for i := range d.Operands {
		if d.Operands[i].IsIn {
			inputs++
		}
	}
	bits := 8 * l.usual[0].Size()
	if l.p.every && bits == 16 {
		cols := 4096
		if !d.IsFlat() {
			cols = 16 // few, so that a NaN spoils few results
		}
		l.add(&Case{Pattern: "every", Sizes: l.shape(1<<16/cols, cols), IsAccuracy: d.IsFlat()})
	}
	if !l.p.all || inputs > 2 || !d.IsFlat() {
		return
	}
	name := "every"
	if bits == 16 && inputs == 2 {
		name = "every-pair"
	}
	if name == "every-pair" || bits == 32 {
		const cols, pieces = 4096, 256
		rows := 1 << 32 / cols / pieces
		for i := range pieces {
			c := &Case{Pattern: name, Sizes: l.shape(rows, cols)}
			for k := range c.Sizes {
				if c.Sizes[k].Letter == "R" {
					c.Sizes[k].From = i * rows
				}
			}
			l.add(c)
		}
	}
}

// exampleCase returns a valid name of a case, for messages.
func (t *Target) exampleCase() string { return t.caseNames()[0] }

// quickNames lists the names of the quick cases under seed 0.
func (t *Target) quickNames() []string {
	var names []string
	for _, c := range t.List(&Request{Level: Quick}) {
		names = append(names, c.Name(t))
	}
	return names
}
