package cases

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
)

// Pattern fills operands. element and index may be nil, then bits is not.
type Pattern struct {
	Name      string
	params    []float64
	IsGrid    bool
	isLong    bool
	value     func(o *def.Operand) op.Element
	ints      map[string]op.Integer // by operand, instead of value
	index     func(o *def.Operand) op.Index
	offset    func(o *def.Operand) op.Index // nil where sizes are divided at random
	isIndexed bool                          // it has indices of its own
	isCounted bool                          // it has integers of its own
	isSaved   func(name string) bool        // which inputs are computed by another definition; nil for none
	counts    int                           // how many inputs run through all patterns of their formats, as a counter does
	isRaw     bool                          // inputs are random bits: every exponent, every NaN; some fractions of f32 are all ones: a carry leaves them, of a NaN too

	// place, if not nil, writes values that depend on the sizes, after all others.
	place func(d *def.Definition, c *Case, operands []num.Array)
}

// generic are the patterns of every definition. Those with all set fill every
// input; the others leave inputs alone whose usual values are never below zero.
var generic = []struct {
	name  string
	all   bool
	value op.Element
}{
	{"normal", false, op.Normal},
	{"wide", false, op.Wide},
	{"special", true, func(g *gen.Generator, _, _ int) float32 { return g.Special() }},
	{"rarely-special", false, rarelySpecial},
	{"one-special", false, oneSpecial},
	{"subnormal", false, subnormal},
	{"tiny", false, func(g *gen.Generator, _, _ int) float32 { return g.Exponents(-78, -60) }},
	{"large", false, func(g *gen.Generator, _, _ int) float32 { return g.Exponents(12, 18) }},
	{"extreme", true, func(g *gen.Generator, _, _ int) float32 { return g.Exponents(100, 128) }},
	{"zeros", true, func(g *gen.Generator, _, _ int) float32 { return signed(g, 0) }},
	{"ones", true, func(*gen.Generator, int, int) float32 { return 1 }},
	{"constant-rows", false, constantRows},
	{"integers", false, func(g *gen.Generator, _, _ int) float32 { return float32(g.Below(17) - 8) }},
}

func rarelySpecial(g *gen.Generator, _, _ int) float32 {
	if g.Below(24) == 0 {
		return g.Special()
	}
	return g.Ordinary()
}

// oneSpecial has at most one special value in a row, at a column that changes with it:
// first, last of a lane, inside a chunk.
func oneSpecial(g *gen.Generator, r, c int) float32 {
	if c == r*7%31 {
		return g.Special()
	}
	return g.Normal()
}

// subnormal is small in every format: the exponents reach below the normal numbers of
// f16, and every sixteenth value below those of binary32.
func subnormal(g *gen.Generator, _, _ int) float32 {
	if g.Below(16) == 0 {
		return g.Exponents(-126, -120) * 0x1p-12
	}
	return g.Exponents(-26, -13)
}

func constantRows(_ *gen.Generator, r, _ int) float32 {
	g := gen.Seeded(uint64(r))
	return g.Normal()
}

func signed(g *gen.Generator, x float32) float32 {
	if g.Next()&1 == 0 {
		return -x
	}
	return x
}

// Pattern finds a pattern by name: one of the operation's kinds of data, one of its
// own patterns, or a generic one; nil if there is none.
func (t *Target) Pattern(name string) *Pattern {
	for _, p := range t.Patterns() {
		if p.Name == name {
			return p
		}
	}
	if name == specialAloneName {
		p := t.newPattern(name, nil, nil, nil)
		p.place = specialAlone
		return p
	}
	return t.regionPattern(name)
}

// Patterns lists the patterns of the target, each name once.
func (t *Target) Patterns() []*Pattern { return t.patternList() }

func (t *Target) makePatterns() []*Pattern {
	var list []*Pattern
	seen := map[string]bool{}
	add := func(p *Pattern) {
		if !seen[p.Name] {
			seen[p.Name] = true
			list = append(list, p)
		}
	}
	for _, data := range t.Data() {
		add(t.newPattern(Slug(data.Name), data.Params, data.Values, data.Index))
	}
	if o := t.Operation; o != nil {
		for _, p := range o.Patterns {
			if p.Definition == t.Definition {
				made := t.newPattern(p.Name, p.Params, p.Values, p.Index)
				made.IsGrid, made.isLong = p.IsGrid, p.IsLong
				maps.Copy(made.ints, p.Integers)
				made.isCounted = len(p.Integers) > 0
				add(made)
			}
		}
	}
	for _, g := range generic {
		values := map[string]op.Element{}
		for i := range t.Definition.Operands {
			if in := &t.Definition.Operands[i]; in.IsIn && !in.IsIndex && !holdsInt32(t.Definition, in) && (g.all || !t.isPositive(in.Name)) {
				values[in.Name] = g.value
			}
		}
		if len(values) == 0 && g.name != "normal" {
			continue // every input has values of its own
		}
		p := t.newPattern(g.name, nil, values, nil)
		if g.all {
			p.index = func(*def.Operand) op.Index { return anyIndex }
		}
		add(p)
	}
	raw := t.newPattern("any-bits", nil, nil, nil)
	raw.isRaw, raw.isSaved = true, nil
	add(raw)
	for _, placed := range []struct {
		name  string
		place func(*def.Definition, *Case, []num.Array)
	}{{"special-ends", specialEnds}, {"special-pairs", specialPairs}, {"zero-lines", zeroLines}, {"contenders", contenders}} {
		if placed.name == "contenders" && !hasColumnOfExtreme(t.Definition) {
			continue
		}
		p := t.newPattern(placed.name, nil, nil, nil)
		p.place = placed.place
		add(p)
	}
	for i, name := range []string{"every", "every-pair"} {
		counting := t.newPattern(name, nil, nil, nil)
		counting.counts, counting.isSaved = i+1, nil
		add(counting)
	}
	return list
}

// Data are the operation's kinds of data for the definition.
func (t *Target) Data() []op.Data {
	var list []op.Data
	if t.Operation != nil {
		for _, data := range t.Operation.Data {
			if data.Definition == t.Definition {
				list = append(list, data)
			}
		}
	}
	return list
}

func (t *Target) newPattern(name string, params []float64, values map[string]op.Element, index map[string]op.Index) *Pattern {
	if params == nil {
		params = t.UsualParams()
	}
	ints := map[string]op.Integer{}
	for i := range t.Definition.Operands {
		if o := &t.Definition.Operands[i]; o.IsIn && holdsInt32(t.Definition, o) && values[o.Name] == nil && t.usualValue(o.Name) == nil {
			ints[o.Name] = op.AnyInt32
		}
	}
	p := &Pattern{
		Name: name, params: params, ints: ints,
		value: func(o *def.Operand) op.Element {
			if e := values[o.Name]; e != nil {
				return e
			}
			if e := t.usualValue(o.Name); e != nil {
				return e
			}
			return op.Normal
		},
		index: func(o *def.Operand) op.Index {
			if i := index[o.Name]; i != nil {
				return i
			}
			return uniformIndex
		},
		offset:    func(o *def.Operand) op.Index { return index[o.Name] },
		isIndexed: len(index) > 0,
	}
	saved := t.Operation.SavedBy(t.Definition)
	isSaved := func(name string) bool {
		return saved.Has(name) && values[name] == nil && t.usualValue(name) == nil
	}
	for i := range t.Definition.Operands {
		if isSaved(t.Definition.Operands[i].Name) {
			p.isSaved = isSaved
		}
	}
	return p
}

// holdsInt32 reports whether an operand of a rowwise definition holds int32 that are no indices.
func holdsInt32(d *def.Definition, o *def.Operand) bool {
	return d.Expression() != nil && o.IsInt() && !o.IsIndex
}

// usualValue returns the values of an operand in the operation's first kind of data, or nil if it
// does not name the operand. A definition without data of its own uses the operation's.
func (t *Target) usualValue(operand string) op.Element {
	if list := t.Data(); len(list) > 0 {
		return list[0].Values[operand]
	}
	if t.Operation != nil && len(t.Operation.Data) > 0 {
		return t.Operation.Data[0].Values[operand]
	}
	return nil
}

// isPositive reports whether an operand's usual values are never below zero, as a
// variance or a probability: then generic values would only lead to NaN.
func (t *Target) isPositive(operand string) bool {
	usual := t.usualValue(operand)
	if usual == nil {
		return false
	}
	var g gen.Generator
	for i := range 64 {
		if g.Place(0, i, i); usual(&g, i, i) < 0 {
			return false
		}
	}
	return true
}

func uniformIndex(g *gen.Generator, _, bound int) int { return g.Below(bound) }

// anyIndex returns mostly valid indices, and otherwise ones just out of range, far out of range, or
// often used as markers.
func anyIndex(g *gen.Generator, _, bound int) int {
	outside := [...]int{-1, bound, -100, math.MaxInt32, math.MinInt32, -bound}
	if i := g.Below(4 * len(outside)); i < len(outside) {
		return outside[i]
	}
	return g.Below(bound)
}

// extremes are the values around which formats and functions have their limits.
var extremes = []float32{
	0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
	0x1p-149, -0x1p-149, 0x1p-133, 0x1.8p-127, -0x1.8p-128, 0x1p-126, -0x1p-126, 0x1p-24, -0x1p-24, 0x1.ff8p-15, 0x1p-14, -0x1p-14,
	1, -1, 65504, -65504, 65520, 0x1p127, -0x1p127, math.MaxFloat32, -math.MaxFloat32, 88, -88, -104, 11,
}

// realInputs returns the inputs that are not indices.
func realInputs(d *def.Definition) []int {
	var list []int
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsIn && !o.IsIndex {
			list = append(list, i)
		}
	}
	return list
}

// specialEnds has one extreme value in a row of one input: in the first column, the
// last, the last but one, or in the middle; every value and place, row after row.
func specialEnds(d *def.Definition, c *Case, operands []num.Array) {
	inputs := realInputs(d)
	for _, i := range inputs {
		a := operands[i]
		from, _ := c.origin(&d.Operands[i])
		for r := range a.Rows {
			n := r + from
			at := [...]int{0, a.Cols - 1, a.Cols / 2, max(a.Cols-2, 0)}[n%4]
			n /= 4
			value := extremes[n%len(extremes)]
			if n /= len(extremes); a.Rows == 1 || inputs[n%len(inputs)] == i {
				a.Set(r, at, value)
			}
		}
	}
}

// specialAloneName names the pattern of specialAlone, which specials asks for: it belongs to long sums.
const specialAloneName = "special-alone"

// specialAlone has one value in one input that is no number, or so large that its square is none:
// what is lost of it is not made good by another. Which value and which input follows from the
// longest size, where from all sizes.
func specialAlone(d *def.Definition, c *Case, operands []num.Array) {
	longest := 0
	for _, s := range c.Sizes {
		longest = max(longest, s.N)
	}
	inputs := realInputs(d)
	a := operands[inputs[longest/len(alone)%len(inputs)]]
	g := gen.New(c.SizesText())
	a.Set(g.Below(a.Rows), g.Below(a.Cols), alone[longest%len(alone)])
}

var alone = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32}

// specialPairs has every pair of extreme values in every pair of inputs, element after
// element; the other inputs keep their values.
func specialPairs(d *def.Definition, c *Case, operands []num.Array) {
	inputs := realInputs(d)
	var pairs [][2]int
	for i, first := range inputs {
		for _, second := range inputs[i+1:] {
			pairs = append(pairs, [2]int{first, second})
		}
	}
	if len(pairs) == 0 && len(inputs) > 0 {
		pairs = [][2]int{{inputs[0], inputs[0]}}
	}
	n := len(extremes)
	for k, pair := range pairs {
		for side, i := range pair {
			a := operands[i]
			from, _ := c.origin(&d.Operands[i])
			first := from * a.Cols // the place of the first element, of all that there are
			end := first + a.Rows*a.Cols
			for turn := k * n * n; turn < end; turn += len(pairs) * n * n { // n * n elements are of this pair
				for at := max(turn, first); at < min(turn+n*n, end); at++ {
					value := [2]int{at / n % n, at % n}[side]
					a.Set((at-first)/a.Cols, (at-first)%a.Cols, extremes[value])
				}
			}
		}
	}
}

// zeroLines has rows of zeros in the first input, among ordinary ones, and a few extreme values in
// the other inputs, so that zeros are multiplied by NaN and infinities.
func zeroLines(d *def.Definition, _ *Case, operands []num.Array) {
	for n, i := range realInputs(d) {
		a := operands[i]
		for r := range a.Rows {
			for c := range a.Cols {
				switch {
				case n == 0 && r%2 == 0:
					a.Set(r, c, 0)
				case n > 0 && (5*r+3*c)%11 == 0:
					a.Set(r, c, extremes[(r+c)%len(extremes)])
				}
			}
		}
	}
}

// hasColumnOfExtreme reports whether a definition has an arg-max or arg-min, or another ordering.
func hasColumnOfExtreme(d *def.Definition) bool {
	return slices.ContainsFunc(d.Exec().Nodes, func(n *def.Node) bool { return n.Op == def.OpRowArgMax || n.Op == def.OpRowArgMin || n.Op.IsOrdering() })
}

// contention lists pairs of values of a row that compete for the extreme, with the range of the
// values between them.
var contention = []struct{ first, second, lowest, highest float32 }{
	{2, 2, -1, 1}, {-2, -2, -1, 1}, // the first of equals
	{minusZero, 0, -2, -1}, {0, minusZero, -2, -1}, {minusZero, 0, 1, 2}, {0, minusZero, 1, 2}, // zeros are equal
	{nan, nan, -1, 1}, {inf, nan, -1, 1}, {nan, inf, -1, 1}, {-inf, nan, -1, 1}, {nan, -inf, -1, 1}, // the first NaN
	{inf, inf, -1, 1}, {-inf, -inf, -1, 1}, {inf, -inf, 1, 1}, {math.MaxFloat32, inf, -inf, -inf},
	{0, 0, 0, 0}, {1, 1, 1, 1}, {-inf, -inf, -inf, -inf}, {inf, inf, inf, inf}, {nan, nan, nan, nan}, // nothing but equals
	{inf, 1, -inf, -inf}, {-inf, 1, inf, inf}, {1 + 0x1p-7, 1, -1, 1}, {-1 - 0x1p-7, -1, -1, 1},
}

var (
	inf, nan  = float32(math.Inf(1)), float32(math.NaN())
	minusZero = float32(math.Copysign(0, -1))
)

// contenders has rows in which two columns contend for the largest and the smallest
// value: the first and the last, neighbours, those around a boundary of lanes, chunks or
// threads, and others.
func contenders(d *def.Definition, c *Case, operands []num.Array) {
	for _, i := range realInputs(d) {
		if d.Operands[i].Extent != def.PerElement {
			continue
		}
		a := operands[i]
		from, _ := c.origin(&d.Operands[i])
		for r := range a.Rows {
			n := r + from
			k := contention[n%len(contention)]
			g := gen.Seeded(uint64(n))
			edge := 8 << g.Below(14) // 8 to 65,536
			at := [...][2]int{
				{0, a.Cols - 1}, {edge - 1, edge}, {g.Below(a.Cols), g.Below(a.Cols)}, {a.Cols - 2, a.Cols - 1}, {0, 1}, {edge, a.Cols - 1}, {0, edge},
			}[n/len(contention)%7]
			for col := range a.Cols {
				v := k.lowest
				if k.highest > k.lowest {
					v += float32(g.Uniform(0, 1) * (k.highest - k.lowest)) // rounded: not fused
				}
				a.Set(r, col, v)
			}
			clamp := func(col int) int { return max(0, min(col, a.Cols-1)) }
			a.Set(r, clamp(max(at[0], at[1])), k.second)
			a.Set(r, clamp(min(at[0], at[1])), k.first)
		}
	}
}

// Slug makes a name of a kind of data: "normal, 64 summed" is normal-64-summed.
func Slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "-")
}
