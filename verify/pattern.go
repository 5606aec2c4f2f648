package verify

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/trial"
)

// pattern fills operands. element and index may be nil, then bits is not.
type pattern struct {
	name   string
	params []float64
	isGrid bool
	isLong bool
	value  func(o *def.Operand) op.Element
	ints   map[string]op.Integer // by operand, instead of value
	index  func(o *def.Operand) op.Index
	counts int  // how many inputs run through all patterns of their formats, as a counter does
	isRaw  bool // inputs are random bits: every exponent, every NaN; some fractions of f32 are all ones: a carry leaves them, of a NaN too

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

// pattern finds a pattern by name: one of the operation's kinds of data, one of its
// own patterns, or a generic one; nil if there is none.
func (t *Target) pattern(name string) *pattern {
	for _, p := range t.patterns() {
		if p.name == name {
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

// patterns lists the patterns of the target, each name once.
func (t *Target) patterns() []*pattern { return t.patternList.get(t.makePatterns) }

func (t *Target) makePatterns() []*pattern {
	var list []*pattern
	seen := map[string]bool{}
	add := func(p *pattern) {
		if !seen[p.name] {
			seen[p.name] = true
			list = append(list, p)
		}
	}
	for _, data := range t.data() {
		add(t.newPattern(slug(data.Name), data.Params, data.Values, nil))
	}
	if o := t.Operation; o != nil {
		for _, p := range o.Patterns {
			if p.Definition == t.Definition {
				made := t.newPattern(p.Name, p.Params, p.Values, p.Index)
				made.isGrid, made.isLong, made.ints = p.IsGrid, p.IsLong, p.Integers
				add(made)
			}
		}
	}
	for _, g := range generic {
		values := map[string]op.Element{}
		for i := range t.Definition.Operands {
			if in := &t.Definition.Operands[i]; in.IsIn && !in.IsIndex && (g.all || !t.isPositive(in.Name)) {
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
	raw.isRaw = true
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
		counting.counts = i + 1
		add(counting)
	}
	return list
}

// data are the operation's kinds of data for the definition.
func (t *Target) data() []op.Data {
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

func (t *Target) newPattern(name string, params []float64, values map[string]op.Element, index map[string]op.Index) *pattern {
	if params == nil {
		params = t.usualParams()
	}
	return &pattern{
		name: name, params: params,
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
	}
}

// usualValue returns the values of an operand in the operation's first kind of data, or nil if it
// does not name the operand. A definition without data of its own uses the operation's.
func (t *Target) usualValue(operand string) op.Element {
	if list := t.data(); len(list) > 0 {
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

// usualParams are those of the definition's first kind of data, or first pattern, or
// numbers that differ from each other.
func (t *Target) usualParams() []float64 {
	for _, data := range t.data() {
		return data.Params
	}
	if t.Operation != nil {
		for _, p := range t.Operation.Patterns {
			if p.Definition == t.Definition && p.Params != nil {
				return p.Params
			}
		}
	}
	var params []float64
	for i := range t.Definition.Params {
		params = append(params, t.Definition.Params[i].Usual(float64(i+1)*0.171875))
	}
	return params
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
	g := gen.New(c.sizesText())
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

// hasColumnOfExtreme reports whether a definition has an arg-max or arg-min.
func hasColumnOfExtreme(d *def.Definition) bool {
	return slices.ContainsFunc(d.Exec().Nodes, func(n *def.Node) bool { return n.Op == def.OpRowArgMax || n.Op == def.OpRowArgMin })
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

// params are the parameters of a case: those that are fixed, and otherwise those of its pattern or
// a variation.
func (t *Target) params(c *Case) []float64 {
	usual := t.pattern(c.Pattern).params
	if len(t.fixed.settings) > 0 {
		usual = t.derived(t.fixed.settings, usual)
	}
	if c.Params > 0 {
		usual = t.variation(c.Params, usual)
	}
	return t.fixed.apply(usual)
}

// variation returns parameters each of which is kept, scaled, negated, made tiny, huge, or
// something between 0 and 1, as far as the definition allows it. A kernel that promises no bits may
// rely on how parameters depend on each other, so the parameters that users set are varied for it;
// and so they are where some of them are fixed.
func (t *Target) variation(n int, usual []float64) []float64 {
	if t.hasSettings() {
		settings := t.settings(n)
		maps.Copy(settings, t.fixed.given)
		return t.derived(settings, usual)
	}
	var g gen.Generator
	varied := slices.Clone(usual)
	for i, p := range t.Definition.Params {
		g.Place(gen.New(p.Name).Next(), n, i)
		if p.IsInt {
			integers := [...]float64{0, 1, 2, 3, 7, 127, 128, 255, 256, 300, 65535, 65537, 1 << 24, math.MaxInt32, -1, -2, -100, math.MinInt32, usual[i]}
			varied[i] = p.Nearest(integers[g.Below(len(integers))], usual[i])
			continue
		}
		fraction := float64(g.Uniform(0, 1))
		choices := [...]float64{usual[i], usual[i], usual[i] * (0.5 + fraction), -usual[i], fraction, 1 - fraction*0x1p-6, 1, 0, 1e-40, 3e7 * (1 + fraction), -fraction}
		varied[i] = p.Nearest(choices[g.Below(len(choices))], usual[i])
		if math.Abs(varied[i]) < 0x1p-126 && t.Lowering.Promise.Declares.Flushes() {
			varied[i] = p.Nearest(0, usual[i]) // as the kernel takes it, or as usual if it may not be 0
		}
	}
	return varied
}

// hasSettings reports whether the parameters that users set are varied.
func (t *Target) hasSettings() bool {
	return t.Operation != nil && t.Operation.Settings != nil && (!t.Lowering.Promise.IsBits() || len(t.fixed.settings) > 0)
}

// derived returns the definition's parameters for given parameters of users. Parameters that users
// do not set, or that cannot be set together, have their usual values.
func (t *Target) derived(given engine.Params, usual []float64) []float64 {
	params, err := t.derive(given, usual)
	if err != nil {
		return slices.Clone(usual)
	}
	return params
}

// derive is like derived, and returns an error for parameters that cannot be set together.
func (t *Target) derive(given engine.Params, usual []float64) ([]float64, error) {
	given = maps.Clone(given)
	for i, p := range t.Definition.Params {
		if _, isSet := given[p.Name]; p.IsInt && !isSet {
			given[p.Name] = usual[i]
		}
	}
	derived, err := t.Operation.Derive(t.Definition, given)
	if err != nil {
		return nil, err
	}
	var params []float64
	for _, p := range t.Definition.Params {
		params = append(params, derived[p.Name])
	}
	return params, nil
}

// fill writes the inputs of a case. Each value depends on the seed, the operand's name
// and the place alone, so that a part of a tensor keeps its values.
func (t *Target) fill(c *Case, seed uint64, operands []num.Array) {
	p := t.pattern(c.Pattern)
	counted, shift := 0, 0
	for i := range t.Definition.Operands {
		o, a := &t.Definition.Operands[i], operands[i]
		if !o.IsIn {
			continue
		}
		key := gen.New(c.Pattern+"/"+o.Name).Next() ^ gen.Seeded(seed).Next()
		var g gen.Generator
		rowFrom, colFrom := c.origin(o)
		switch {
		case o.IsOffsets:
			size, _ := c.size(o.Bound)
			fillOffsets(a, key, size)
		case o.IsIndex:
			index := p.index(o)
			bound, _ := c.size(o.Bound)
			except := t.params(c)
			trial.FillBits(a, func(r, col int) uint32 {
				g.Place(key, r+rowFrom, col+colFrom)
				if c.Params > 0 && o.Except != "" && (r%3 == 1 || c.Params%16 == 5) { // now and then all of them
					return uint32(int32(except[t.Definition.Param(o.Except)]))
				}
				return uint32(int32(index(&g, r+rowFrom, bound)))
			})
		case counted < p.counts:
			bits := 8 * a.DType.Size()
			trial.FillBits(a, func(r, col int) uint64 {
				count := uint64(r+rowFrom)*uint64(a.Cols) + uint64(col+colFrom)
				return count >> shift & (1<<bits - 1)
			})
			counted, shift = counted+1, shift+bits
		case p.isRaw || p.ints[o.Name] != nil:
			row, integer := uint64(0), p.ints[o.Name]
			trial.FillBits(a, func(r, col int) uint64 {
				if col == 0 {
					row = gen.Row(c.matrixKey(o, a, key, r), a.RowIn(r)+rowFrom)
				}
				g.PlaceIn(row, col+colFrom)
				if integer != nil {
					return uint64(integer(&g, a.RowIn(r)+rowFrom, col+colFrom))
				}
				bits := g.Next()
				if a.DType == num.F32 && g.Below(16) == 0 {
					bits |= 1<<23 - 1
				}
				return bits
			})
		default:
			t.fillFloats(c, seed, o, a, p.value(o), key)
		}
	}
	if p.place != nil {
		p.place(t.Definition, c, operands)
	}
	if c.IsInside {
		t.bringInside(c, operands)
	}
}

// bringInside replaces indices outside of their tables by others inside.
func (t *Target) bringInside(c *Case, operands []num.Array) {
	d := t.Definition
	for i := range d.Operands {
		o, a := &d.Operands[i], operands[i]
		if !o.IsIndex || !o.IsIn || o.IsOffsets {
			continue
		}
		bound, _ := c.size(o.Bound)
		for r := range a.Rows {
			for col := range a.Cols {
				v := int(a.Int(r, col))
				if o.Except != "" && v == int(t.params(c)[d.Param(o.Except)]) {
					continue
				}
				a.SetBits64(r, col, uint64((v%bound+bound)%bound))
			}
		}
	}
}

// fillFloats fills an operand with values, each rounded once to its format.
func (t *Target) fillFloats(c *Case, seed uint64, o *def.Operand, a num.Array, value op.Element, key uint64) {
	rowFrom, colFrom := c.origin(o)
	var g gen.Generator
	set := func(r int, values []float32) {
		at := a.RowIn(r) + rowFrom
		row := gen.Row(c.matrixKey(o, a, key, r), at)
		for col := range values {
			g.PlaceIn(row, col+colFrom)
			values[col] = value(&g, at, col+colFrom)
		}
	}
	name := fmt.Sprintf("%s/%s/%s/%d", c.Pattern, c.sizesText(), o.Name, seed)
	all := t.shared.valuesOf(name, a.Rows*a.Cols, func() []float32 {
		all := make([]float32, a.Rows*a.Cols)
		for r := range a.Rows {
			set(r, all[r*a.Cols:][:a.Cols])
		}
		return all
	})
	if row, ok := a.AsRow(); ok && all != nil {
		row.SetFloats(0, all)
		return
	}
	row := make([]float32, a.Cols)
	for r := range a.Rows {
		if all != nil {
			row = all[r*a.Cols:][:a.Cols]
		} else {
			set(r, row)
		}
		a.SetFloats(r, row)
	}
}

// origin is where an operand's first element lies.
func (c *Case) origin(o *def.Operand) (row, col int) {
	switch {
	case len(o.Dims) >= 2: // of a matrix
		_, row = c.size(o.Dims[len(o.Dims)-2])
		_, col = c.size(o.Dims[len(o.Dims)-1])
	case len(o.Dims) == 1 && o.Extent == def.PerColumn:
		_, col = c.size(o.Dims[0])
	case len(o.Dims) == 1:
		_, row = c.size(o.Dims[0])
	}
	return row, col
}

// slug makes a name of a kind of data: "normal, 64 summed" is normal-64-summed.
func slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "-")
}
