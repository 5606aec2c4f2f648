package cases

import (
	"fmt"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/internal/gen"
)

// The lists of list.go are the same in every verification, so a kernel could be right on those
// shapes only. The shapes here are drawn from the seed, named by the user, or those of well-known
// models.

// drawing returns the generator for a part of the list, which depends on the seed.
func (l *lister) drawing(part string) *gen.Generator {
	return gen.Seeded(gen.New(part+" "+l.t.Definition.Name+"/"+l.t.DType.String()).Next() ^ gen.Seeded(l.seed).Next())
}

// drawPattern draws a pattern that is worth another shape.
func (l *lister) drawPattern(g *gen.Generator) string {
	all := l.t.Patterns()
	for {
		if p := all[g.Below(len(all))]; p.counts == 0 {
			return p.Name
		}
	}
}

// drawLayout draws a layout, one of the choices of formats, and now and then a variation of
// the parameters.
func (l *lister) drawLayout(g *gen.Generator, c *Case) {
	formats := l.t.Formats
	if c.Formats = formats[0]; g.Below(3) == 0 {
		c.Formats = formats[g.Below(len(formats))]
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
	if len(l.t.Definition.Params) > 0 && g.Below(4) == 0 {
		c.Params = 1 + g.Below(1000)
	}
}

// places lists the possible values of InPlace, given the formats of a case.
func (l *lister) places(c *Case) []string {
	d := l.t.Definition
	var list []string
	for i := range d.Operands {
		for _, partner := range d.InPlacePartners(&d.Operands[i]) {
			if c.Formats[i] == c.Formats[d.Operand(partner)] {
				list = append(list, d.Operands[i].Name+"="+partner)
			}
		}
	}
	return list
}

// drawn has shapes that the seed draws, each axis on a logarithmic scale, in drawn patterns
// and layouts, some of the outputs in the place of inputs; and each check on drawn shapes.
func (l *lister) drawn() {
	g := l.drawing("drawn")
	for range l.p.drawn {
		c := &Case{Pattern: l.drawPattern(g), Sizes: l.drawSizes(g, l.p.area)}
		l.drawLayout(g, c)
		if places := l.places(c); len(places) > 0 && g.Below(4) == 0 {
			c.InPlace = places[g.Below(len(places))]
		}
		l.add(c)
	}
	for _, k := range l.t.checks(false) {
		if k.Name == "endure" || k.Name == Fresh || k.Sizes != nil || strings.HasPrefix(k.Name, "batch-") {
			continue // they have thousands of runs, start processes, or have sizes of their own
		}
		if l.p.checks == 1 && k.IsInvariance {
			continue // level smoke is small
		}
		for range l.p.checks {
			l.add(&Case{Check: k.Name, Pattern: l.t.Patterns()[0].Name, Sizes: withMatrices(l.t.Definition, k.Name, l.drawSizes(g, min(l.p.area, 1<<10)))})
		}
	}
}

// drawSizes draws a length for every axis. The octaves of an area, which no output exceeds,
// are divided among the axes, so that long axes are as frequent as short ones.
func (l *lister) drawSizes(g *gen.Generator, area int64) []Size {
	d, matrix := l.t.Definition, l.matrix()
	for {
		c := &Case{}
		for _, letter := range d.Sizes() {
			c.Sizes = append(c.Sizes, Size{Letter: letter, N: 1 + g.Below(4)}) // of a batch axis, or the number of groups
		}
		octaves := 0
		for n := area; n > 1; n /= 2 {
			octaves++
		}
		if d.Access() != def.AlongRows {
			octaves += octaves / 2 // for the axis that the output lacks
		}
		order := make([]int, len(c.Sizes))
		for i := range order {
			k := g.Below(i + 1)
			order[i], order[k] = order[k], i
		}
		for _, i := range order {
			if s := &c.Sizes[i]; slices.Contains(matrix, s.Letter) {
				e := g.Below(octaves + 1)
				s.N = 1<<e + g.Below(1<<e)
				octaves -= e
			}
		}
		l.coarsen(c)
		if c.Outputs(d) <= area && c.Largest(d) <= 4*area && (!d.Multiplies() || work(c) <= min(16*area, l.p.macs)) {
			return c.Sizes
		}
	}
}

// long has every pattern on a long axis, which the seed draws: rows that no cache holds,
// sums over many rows, long lists of indices.
func (l *lister) long() {
	if !l.p.pairs {
		return
	}
	g := l.drawing("long")
	for _, p := range l.t.Patterns() {
		if p.counts > 0 {
			continue
		}
		c := &Case{Pattern: p.Name, Sizes: l.longSizes(g)}
		if g.Below(3) == 0 {
			c.Gap, c.Offset = g.Below(8), g.Below(8)
		}
		l.add(c)
	}
}

// longSizes draws the length of one axis, from 4096 to 70,000 (of a product's sum to
// 20,000), the longest rarely; the others are short. Where the definition sums, it does so
// along that axis.
func (l *lister) longSizes(g *gen.Generator) []Size {
	d := l.t.Definition
	most := 70_000
	if d.Multiplies() {
		most = 20_000
	}
	n := 4096 << min(g.Below(5), g.Below(5), g.Below(5))
	n += g.Below(n)
	for n > most {
		n = n*2/3 + 1
	}
	few := 1 + g.Below(3)
	switch d.Access() {
	case def.OfProducts, def.OfSequence:
		sizes := l.shape(few, n, 4-few)
		for i, s := range sizes { // of many matrices, one is as long as the next
			if !slices.Contains(l.matrix(), s.Letter) {
				sizes[i].N = min(s.N, 1+i%2)
			}
			if s.Letter == d.AxisOf(def.Slot) { // of a table of pages, which hold so many of the keys
				sizes[i].N = 1 + n/d.FitSize(d.AxisOf(def.Summed), n)
			}
		}
		return sizes
	case def.ToIndex:
		return l.shape(n, few, 4-few)
	case def.FromIndex:
		if g.Below(2) == 0 {
			return l.shape(few, n, 4-few)
		}
		return l.shape(n, few, 1)
	}
	if d.Divisible() == "" && g.Below(2) == 0 { // sums over rows
		return l.shape(n, 1)
	}
	return l.shape(1, n)
}

// beyond16 draws a length that exceeds all 16-bit integers.
func (l *lister) beyond16(g *gen.Generator) int { return 1<<16 + 1 + g.Below(1<<12) }

// counters adds axes too long for 16-bit integers, with the other axes as short as possible: rows,
// columns, terms, queries, rows of a table; on the usual values and, if terms are added, also on a
// grid, where a single lost term shows.
func (l *lister) counters() {
	d := l.t.Definition
	if !l.p.pairs {
		return
	}
	g := l.drawing("counters")
	if d.HasAxes() { // the arithmetic of a matrix is verified without axes
		l.manyMatrices(g)
		return
	}
	names := []string{l.t.Patterns()[0].Name}
	for _, p := range l.t.Patterns() {
		if p.IsGrid && p.counts == 0 {
			names = append(names, p.Name)
			break
		}
	}
	add := func(names []string, shape func(n int) []int) {
		for _, name := range names {
			l.add(&Case{Pattern: name, Sizes: l.shape(shape(l.beyond16(g))...)})
		}
	}
	switch d.Access() {
	case def.OfProducts:
		add(names[:1], func(n int) []int { return []int{n, 1, 1} })
		add(names, func(n int) []int { return []int{1, n, 1} })
		add(names[:1], func(n int) []int { return []int{1, 1, n} })
	case def.FromIndex:
		add(names[:1], func(n int) []int { return []int{n, 3, 1} })
		add(names[:1], func(n int) []int { return []int{300, n + 1<<15, 1} }) // a third of the rows are beyond 2^16, and some of 300 queries ask for them
		add(names[:1], func(n int) []int { return []int{2, 3, n} })
	case def.ToIndex:
		add(names, func(n int) []int { return []int{n, 1, 1} })
		add(names[:1], func(n int) []int { return []int{300, n + 1<<15, 1} }) // a third of the rows are beyond 2^16, and some of 300 queries ask for them
		add(names[:1], func(n int) []int { return []int{3, 1, n} })
	default: // pairs has the usual values
		for _, p := range l.t.Patterns() {
			if p.isLong {
				add([]string{p.Name}, func(n int) []int { return []int{2, n} })
			}
		}
		if d.Divisible() == "" {
			add(names[1:], func(n int) []int { return []int{n, 1} })
		}
		add(names[1:], func(n int) []int { return []int{1, n} })
		if d.AxisOf(def.Indexed) != "" { // rows of a table
			add(names[:1], func(n int) []int { return []int{300, 1, n + 1<<15} })
		}
	}
}

// manyMatrices has more matrices than blocks of a grid have threads, and more than 16 bits count.
func (l *lister) manyMatrices(g *gen.Generator) {
	for _, n := range []int{1025 + g.Below(100), l.beyond16(g)} {
		c := &Case{Pattern: l.t.Patterns()[0].Name, Sizes: l.shape(1, 1+g.Below(2), 1)}
		isFirst := true
		for i, s := range c.Sizes {
			if !slices.Contains(l.matrix(), s.Letter) {
				if c.Sizes[i].N = 1; isFirst {
					c.Sizes[i].N, isFirst = n, false
				}
			}
		}
		if l.t.Definition.Accumulates() && n > 1<<16 {
			continue // as without old values
		}
		l.add(c)
	}
}

// The widths of well-known models, their vocabularies, lengths of sequences, and lengths that axes
// have together.
var (
	hidden       = []int{768, 1024, 2048, 3072, 4096, 5120, 8192, 11008, 14336}
	vocabularies = []int{32000, 50257, 128256}
	sequences    = []int{128, 512, 1024, 2048, 4096}
	longAxes     = []int{256, 512, 768, 1024, 2048, 4096}
)

// models adds the shapes of well-known models, with as many rows, and for products as much of the
// other widths, as the level allows.
func (l *lister) models() {
	d, g := l.t.Definition, l.drawing("models")
	most := l.p.outputs
	if l.p.pairs && d.Access() == def.AlongRows {
		most = max(most, int64(slices.Max(vocabularies)))
	}
	add := func(n ...int) {
		c := &Case{Pattern: l.drawPattern(g), Sizes: l.shape(n...)}
		if c.Outputs(d) <= most && c.Largest(d) <= 4*most && (!d.Multiplies() || work(c) <= l.p.macs) {
			l.add(c)
		}
	}
	rows := func() int { return 1 + g.Below(5) }
	fits := func(room int64, width int) int { return max(1, int(room)/width) } // how many rows of a width
	switch d.Access() {
	case def.OfSequence: // heads of usual widths: a token, and a prompt
		for _, width := range []int{64, 96, 128, 256} {
			add(1, sequences[g.Below(3)]+1-g.Below(3), width)
			add(8, 8+g.Below(30), width)
		}
	case def.OfProducts:
		room := l.p.factors
		for _, h := range slices.Concat(hidden, vocabularies) {
			others := min(h, fits(room, h))
			add(1, h, others)
			add(1, others, h)
		}
		if l.p.pairs && !d.HasAxes() && !d.Accumulates() { // a token of a decoder, by whole tiles of columns
			l.add(&Case{Pattern: l.t.Patterns()[0].Name, Sizes: l.shape(1, 4096, 128)})
		}
		for _, n := range sequences { // attention, of heads of 64 columns
			add(min(n, fits(room, 64*n)), 64, n)
			add(min(n, fits(room, 64*n)), n, 64)
		}
	case def.FromIndex, def.ToIndex:
		for _, h := range hidden {
			add(rows(), 1+g.Below(40), h)
		}
		for _, v := range vocabularies {
			add(sequences[g.Below(3)], v, 1+g.Below(3))
		}
	default:
		for _, h := range slices.Concat(hidden, vocabularies) {
			add(min(rows(), fits(l.p.outputs/4, h)), h)
		}
		for _, n := range sequences {
			add(n, 1+g.Below(min(64, fits(l.p.outputs/4, n))))
		}
	}
}

// farApart adds rows whose offsets, in elements or in bytes, exceed 2^24, the range of integers
// that binary32 holds, or 2^32; at aligned and at other addresses.
func (l *lister) farApart() {
	g := l.drawing("far")
	for _, far := range l.p.far {
		for odd := range 2 {
			c := &Case{Pattern: l.t.Patterns()[0].Name, Sizes: l.shape(3+g.Below(4), 3+g.Below(30), 3+g.Below(9)), Far: far, Gap: 3 * odd, Offset: odd}
			l.add(c)
		}
	}
}

// slices adds rows that are parts of wider ones: one of two, three or four matrices side by side,
// as queries, keys and values are stored; and rows that begin at multiples of a power of two.
func (l *lister) slices() {
	if !l.p.pairs {
		return
	}
	g := l.drawing("slices")
	few := func() int { return 2 + g.Below(7) }
	for i := range 5 * l.p.checks {
		n := 1 << g.Below(12)
		n += g.Below(n)
		c := &Case{Pattern: l.drawPattern(g), Sizes: l.shape(few(), n, few()), Offset: g.Below(3) * n}
		if a := l.t.Definition.Access(); a == def.FromIndex || a == def.ToIndex {
			c.Sizes = l.shape(few(), few(), n)
		}
		if l.t.Definition.Multiplies() && i%5 == 0 { // both operands have rows of the same length, and so of the same distance
			n = min(n, 64+n%64)
			c.Sizes = l.shape(few(), n, n)
		}
		begin := 64 << g.Below(8)
		width := n
		if i/5%2 == 1 { // that of a product's other operands
			width = c.Sizes[len(c.Sizes)-1].N
		}
		c.Gap = [...]int{n, 2 * n, 3 * n, (width/begin+1)*begin - width, begin}[i%5]
		l.add(c)
	}
}

// own has the shapes that the user names: every pattern, once plain and once in a drawn
// layout, every choice of formats and of outputs in the place of inputs, and every check.
func (l *lister) own() {
	usual := l.t.Patterns()[0].Name
	for _, s := range l.shapes {
		var sizes []Size
		for _, letter := range l.t.Definition.Sizes() {
			sizes = append(sizes, Size{Letter: letter, N: s[letter]})
		}
		add := func(c *Case) {
			if c.Sizes = slices.Clone(sizes); c.Formats == nil {
				c.Formats = l.usual
			}
			l.addAsIs(c)
		}
		g := l.drawing(fmt.Sprintf("own %v", s))
		for _, p := range l.t.Patterns() {
			if p.counts > 0 {
				continue
			}
			add(&Case{Pattern: p.Name})
			varied := &Case{Pattern: p.Name}
			l.drawLayout(g, varied)
			add(varied)
		}
		for _, f := range l.t.Formats[1:] {
			add(&Case{Pattern: usual, Formats: f})
		}
		for _, where := range l.places(&Case{Formats: l.usual}) {
			add(&Case{Pattern: usual, InPlace: where})
		}
		for _, k := range l.t.checks(false) {
			if k.Name != "endure" && k.Name != Fresh && k.Sizes == nil {
				add(&Case{Check: k.Name, Pattern: usual})
			}
		}
	}
}

// popular adds shapes that people run: all axes as long as those of well-known models. Kernels have
// other paths for them than for long axes beside short ones. Level quick draws one of the smallest,
// level full some of those that it has the time for.
func (l *lister) popular() {
	if !l.p.pairs {
		return
	}
	d, g := l.t.Definition, l.drawing("popular")
	usual := l.t.Patterns()[0].Name
	add := func(n ...int) { l.add(&Case{Pattern: usual, Sizes: l.shape(n...)}) }
	one := func(of ...int) int { return of[g.Below(len(of))] }
	if l.p.popular == 0 {
		switch d.Access() {
		case def.OfSequence:
			add(one(64, 96), one(128, 200), one(64, 128))
		case def.OfProducts:
			if !d.HasAxes() && !d.Accumulates() { // the arithmetic of a matrix is verified without these
				add(256, one(256, 257, 264), one(256, 260))
			}
		case def.FromIndex, def.ToIndex:
			add(256, one(256, 512, 768), 256)
		default:
			add(256, one(256, 257, 384), 256) // and rows of a table
		}
		return
	}
	var shapes [][]int
	switch d.Access() {
	case def.OfSequence:
		add(256, 256, 128)
		add(1, 4096, 128)
		return
	case def.OfProducts:
		if d.HasAxes() || d.Accumulates() {
			add(256, 256, 256)
			return
		}
		add(1, 4096, 4096) // a token of a decoder
		add(4096, 16, 4096)
		for _, m := range longAxes {
			for _, k := range longAxes {
				for _, n := range longAxes {
					shapes = append(shapes, []int{m, k, n})
				}
			}
		}
	case def.FromIndex, def.ToIndex:
		for _, q := range sequences {
			for _, v := range slices.Concat(longAxes, vocabularies) {
				for _, h := range longAxes {
					shapes = append(shapes, []int{q, v, h})
				}
			}
		}
	default:
		add(4096, 4096)
		for _, r := range longAxes {
			for _, h := range slices.Concat(longAxes, hidden, vocabularies) {
				shapes = append(shapes, []int{r, h})
			}
		}
	}
	fits := slices.DeleteFunc(shapes, func(n []int) bool {
		c := &Case{Sizes: l.shape(n...)}
		return c.Largest(d) > 4*l.p.outputs || d.Multiplies() && work(c) > 4*l.p.macs
	})
	for range min(l.p.popular, len(fits)) {
		at := g.Below(len(fits))
		add(fits[at]...)
		fits = slices.Delete(fits, at, at+1)
	}
}
