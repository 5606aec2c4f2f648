package cases

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/reference"
	"tokitai/trial"
)

// A kernel may have a shortcut for tensors whose elements all lie where a function saturates: a
// GELU that returns its input, a softmax that is one-hot. Most patterns mix such elements with
// others. The patterns here have all elements of one input in one region, and the regions are found
// from the definition's own answers, so that every definition has them.

// region is a pattern: all elements of an input are in [low, high), or one element of every row is,
// and the others are close to zero.
type region struct {
	operand   string
	isPeak    bool
	low, high float32
}

// nearZero bounds the other elements of a row with a peak.
const nearZero = 0x1p-4

func (r region) name() string {
	kind := "region"
	if r.isPeak {
		kind = "peak"
	}
	return fmt.Sprintf("%s-%s-%s..%s", kind, r.operand, float32Text(r.low), float32Text(r.high))
}

func float32Text(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }

// parseRegion returns the region of a pattern's name, such as region-x-3.25..3.5 or
// peak-x--20..-16.
func (t *Target) parseRegion(name string) (region, bool) {
	kind, rest, _ := strings.Cut(name, "-")
	operand, ends, _ := strings.Cut(rest, "-")
	low, high, ok := strings.Cut(ends, "..")
	if !ok || kind != "region" && kind != "peak" {
		return region{}, false
	}
	from, errFrom := strconv.ParseFloat(low, 32)
	to, errTo := strconv.ParseFloat(high, 32)
	isInput := slices.ContainsFunc(realInputs(t.Definition), func(i int) bool { return t.Definition.Operands[i].Name == operand })
	r := region{operand, kind == "peak", float32(from), float32(to)}
	return r, errFrom == nil && errTo == nil && isInput && r.low < r.high && r.name() == name
}

// value draws an element of the region.
func (r region) value(g *gen.Generator, row, col int) float32 {
	if r.isPeak && col != peakColumn(row) {
		return nearZero * g.Uniform(-1, 1)
	}
	width := float64(r.high) - float64(r.low)
	return min(float32(float64(r.low)+float64(float64(g.Uniform(0, 1))*width)), r.high)
}

// peakColumn is the column of a row's peak: all rows have one where there are at least four columns.
func peakColumn(row int) int { return row % 4 }

func (t *Target) regionPattern(name string) *Pattern {
	r, ok := t.parseRegion(name)
	if !ok {
		return nil
	}
	return t.newPattern(name, nil, map[string]op.Element{r.operand: r.value}, nil)
}

// The magnitudes at which a definition is evaluated: eight in an octave.
const (
	leastOctave, octaves = -12, 23
	stepsPerOctave       = 8
)

func magnitudes() []float32 {
	var list []float32
	for e := range octaves {
		for k := range stepsPerOctave {
			list = append(list, float32(math.Ldexp(1+float64(k)/stepsPerOctave, leastOctave+e)))
		}
	}
	return list
}

// border is where the answers of a definition change their kind: from one that depends on the
// input in no simple way to zero, to a constant, to the input itself, to an infinity or NaN.
type border struct{ before, at, after region }

// mostBorders is the number of borders of an input and a sign that have cases.
const mostBorders = 2

// signs returns the regions of one sign each.
func (t *Target) signs() []region {
	var list []region
	for _, i := range realInputs(t.Definition) {
		o := &t.Definition.Operands[i]
		if t.Definition.Copies() || o.IsInt() || t.Definition.Ring().IsExact() {
			continue
		}
		list = append(list, region{o.Name, false, 0.5, 2})
		if !t.isPositive(o.Name) {
			list = append(list, region{o.Name, false, -2, -0.5})
		}
	}
	return list
}

func (t *Target) findBorders() []border {
	d := t.Definition
	if d.Access() != def.AlongRows {
		return nil
	}
	var list []border
	for _, i := range realInputs(d) {
		o := &d.Operands[i]
		if o.IsInt() {
			continue
		}
		for _, isPeak := range []bool{false, true} {
			if isPeak && (d.IsFlat() || o.Extent != def.PerElement) {
				continue // elements do not depend on each other
			}
			for _, sign := range []float32{1, -1} {
				if sign < 0 && t.isPositive(o.Name) {
					continue
				}
				list = append(list, t.bordersAlong(i, isPeak, sign)...)
			}
		}
	}
	return list
}

// bordersAlong evaluates the definition at all magnitudes of one input.
func (t *Target) bordersAlong(operand int, isPeak bool, sign float32) []border {
	points := magnitudes()
	kinds := t.kindsAt(operand, points, isPeak, sign)
	if kinds == nil {
		return nil
	}
	made := func(first, last int) region {
		r := region{t.Definition.Operands[operand].Name, isPeak, points[max(first, 0)], points[min(last, len(points)-1)]}
		r.low += (r.high - r.low) / 8 // a threshold is a round number more often than not, and so is an end
		if sign < 0 {
			r.low, r.high = -r.high, -r.low
		}
		return r
	}
	var list []border
	for _, z := range zones(kinds) {
		list = append(list, border{before: made(z[0]-lasting, z[0]), at: made(z[0]-1, z[1]), after: made(z[1], z[1]+lasting)})
	}
	distance := func(b border) float64 { return math.Abs(math.Log2(math.Abs(float64(b.at.low)))) }
	slices.SortStableFunc(list, func(a, b border) int {
		switch x, y := distance(a), distance(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return list[:min(len(list), mostBorders)]
}

// lasting is the number of neighbouring magnitudes at which answers must be of the same kind to make
// a region: half an octave of them. Answers of 16 bits are equal to something by chance.
const lasting = stepsPerOctave / 2

// zones returns the first and the last place between regions of different kinds.
func zones(kinds []string) [][2]int {
	var list [][2]int
	end := -1 // of the last region
	for first := 0; first < len(kinds); {
		next := first + 1
		for next < len(kinds) && kinds[next] == kinds[first] {
			next++
		}
		if next-first >= lasting {
			if end >= 0 && kinds[end] != kinds[first] {
				list = append(list, [2]int{end, first})
			}
			end = next - 1
		}
		first = next
	}
	return list
}

// kindsAt returns the kind of the answers at each magnitude of an input, with the usual values in
// all others; nil if the reference refuses them, or if every answer sums over rows. Each magnitude
// has a row.
func (t *Target) kindsAt(operand int, points []float32, isPeak bool, sign float32) []string {
	d := t.Definition
	c := &Case{Pattern: t.Patterns()[0].Name, Formats: t.Formats[0], Sizes: []Size{{Letter: "R", N: 1}, {Letter: "C", N: 2}}}
	if d.IsFlat() {
		c.Sizes[1].N = 1
	}
	one, sizes := t.newArrays(c.Formats, c.Lengths()), c.Lengths()
	t.Fill(c, 0, one)
	sizes["R"] = len(points)
	arrays := t.newArrays(c.Formats, sizes)
	for i, a := range arrays {
		trial.FillBits(a, func(r, col int) uint64 {
			return one[i].Bits64(r%one[i].Rows, col)
		})
	}
	in := arrays[operand]
	for r := range in.Rows {
		for col := range in.Cols {
			v := sign * points[r] // an input that has no rows keeps the first
			switch {
			case col == 1 && isPeak:
				v = 0
			case col == 1:
				v *= 1 + 1./(2*stepsPerOctave)
			}
			in.Set(r, col, v)
		}
	}
	if reference.Run(d, arrays, reference.Options{Params: t.Params(c)}) != nil {
		return nil
	}
	kinds := make([]string, len(points))
	for _, output := range d.Math().Outputs {
		i := output.Operand
		if a := arrays[i]; !output.Value.Late && a.Rows == len(points) {
			for r := range kinds {
				for col := range a.Cols {
					kinds[r] += kindOf(d, arrays, i, r, col)
				}
			}
		}
	}
	return kinds
}

func (t *Target) newArrays(formats []num.DType, sizes map[string]int) []num.Array {
	arrays := make([]num.Array, len(formats))
	for i := range arrays {
		rows, cols := t.Definition.Operands[i].Matrix(sizes)
		arrays[i] = num.NewArray(formats[i], rows, cols)
	}
	return arrays
}

// kindOf returns the kind of an element of an answer: not a number, infinite, zero, an input's
// element itself, the same as in a row beside it, or another number of one sign.
func kindOf(d *def.Definition, arrays []num.Array, output, r, col int) string {
	a := arrays[output]
	if a.DType.IsInteger() {
		return fmt.Sprint(a.Bits64(r, col), " ")
	}
	v := float64(a.At(r, col))
	switch {
	case v != v:
		return "n"
	case math.IsInf(v, 0):
		return "i"
	case v == 0:
		return "0"
	}
	for k := range arrays {
		if o := &d.Operands[k]; o.IsIn && !o.IsOut && !o.IsInt() && arrays[k].Rows == a.Rows && arrays[k].Cols == a.Cols && float64(arrays[k].At(r, col)) == v {
			return "x"
		}
	}
	switch {
	case r > 0 && a.Bits64(r, col) == a.Bits64(r-1, col), r+1 < a.Rows && a.Bits64(r, col) == a.Bits64(r+1, col):
		return "c"
	case v < 0:
		return "-"
	}
	return "+"
}

// regions has whole tensors in one region each: of one sign, and around every border.
func (l *lister) regions() {
	g := l.drawing("regions")
	add := func(r region) {
		l.add(&Case{Pattern: r.name(), Sizes: l.shape(3, 7, 5)})
		if l.p.pairs {
			l.add(&Case{Pattern: r.name(), Sizes: l.drawSizes(g, 1<<9)})
		}
	}
	for _, r := range l.t.signs() {
		add(r)
	}
	for _, b := range l.t.borders() {
		if add(b.at); l.p.pairs {
			add(b.before)
			add(b.after)
		}
	}
}
