package verify

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/trial"
	"tokitai/verify/explain"
)

// A wrong result of a long sum says little by itself. So the kernel runs again on the smallest
// failing case with other inputs, to find the terms that it loses or counts twice: products and
// sums by index run with ones for some terms and zeros for all others, other definitions with a
// few inputs changed (influence.go).

const (
	mostQuestions  = 256     // further launches
	mostQuestioned = 1 << 18 // elements of the operands of one of them
	mostOnes       = 128     // terms that are one at a time: every format counts to 256 exactly
)

// term is one term of a sum: the places of its factors.
type term []trial.Place

// culprit holds what was found out about the terms of a failure.
type culprit struct {
	texts []string
	terms []int // to show first
}

// questioner runs a kernel again on a case with other inputs.
type questioner struct {
	s     *verification
	bench *bench
	l     *loaded
	f     *finding
	left  int // launches
}

// culprit looks for the terms that explain a failure, until the context ends.
func (s *verification) culprit(ctx context.Context, small *shrunk) culprit {
	f := small.found
	isValue := f.Tier == evidence.Bits || f.Tier == evidence.Set || f.Tier == evidence.Grid
	l := s.t.load(small.c, s.o.Seed)
	elements := 0
	for _, a := range l.inputs() {
		elements += a.Rows * a.Cols
	}
	if !small.isAlone || !isValue || f.Operand < 0 || f.Row < 0 || elements > mostQuestioned {
		return culprit{}
	}
	b, err := s.t.newBench(ctx, s.o, 0)
	if err != nil {
		return culprit{}
	}
	defer b.close()
	q := &questioner{s: s, bench: b, l: l, f: f, left: mostQuestions}
	found, err := until(ctx, func() culprit {
		if terms := l.termsAt(f.Operand, f.Row, f.Col); terms != nil {
			return q.weigh(terms)
		}
		return culprit{texts: q.influence()}
	}, nil)
	if err != nil {
		return culprit{}
	}
	return found
}

// ask runs the kernel on changed inputs and returns the element that was wrong. It is false
// if there was no result, or no launch is left.
func (q *questioner) ask(change func(arrays []num.Array)) (uint64, bool) {
	if q.left--; q.left < 0 || q.bench.isHung.Load() {
		return 0, false
	}
	l := q.l.as(q.l.c)
	change(l.inputs())
	out, err := q.bench.run(l, q.s.o.deadline(), 0)
	if err != nil {
		return 0, false
	}
	return out.operands[q.f.Operand].Bits64(q.f.Row, q.f.Col), true
}

// termsAt returns the terms of the sum at an element of a product or a sum by index; nil for
// other definitions.
func (l *loaded) termsAt(operand, row, col int) []term {
	d := l.target.Definition
	var terms []term
	switch d.Form.(type) {
	case *def.Product:
		at, along := l.indicesAt(operand, row, col), d.SummedOver()
		first := at[along]
		length, _ := l.c.Size(along)
		if d.Groups().Of == along {
			offsets := l.array(d.Operand(d.Groups().Offsets))
			length = int(offsets.Int(at[d.Groups().Number]+1, 0)) - first
		}
		for k := range length {
			at[along] = first + k
			var t term
			for i := range 2 {
				r, c := offsetOf(&d.Operands[i], l.array(i), at)
				t = append(t, trial.Place{Operand: i, Row: r, Col: c})
			}
			terms = append(terms, t)
		}
	case *def.Scatter:
		index := slices.IndexFunc(d.Operands, func(o def.Operand) bool { return o.IsIndex })
		source := slices.IndexFunc(d.Operands, func(o def.Operand) bool { return o.IsIn && !o.IsIndex && !o.IsOut })
		lines := l.array(index)
		for r := range lines.Rows {
			if int(lines.Int(r, 0)) == row {
				terms = append(terms, term{{Operand: source, Row: r, Col: col}})
			}
		}
	}
	return terms
}

// weigh finds out how often the kernel counts each term.
func (q *questioner) weigh(terms []term) culprit {
	d := q.l.target.Definition
	at, noun := place(&d.Operands[q.f.Operand], q.l.array(q.f.Operand), q.f.Row, q.f.Col), "term"
	if d.Product() != nil {
		noun = "product"
	}
	if sum, ok := q.sumOf(terms, nil, nil); !ok || sum != 0 {
		found := culprit{terms: q.largest(terms)}
		if ok {
			found.texts = []string{fmt.Sprintf("with zeros in all %ss %s is %v: it seems not to be their sum", noun, at, sum)}
		}
		return found
	}
	wrong, isAll := q.wrongWeights(terms)
	if len(wrong) == 0 {
		found := culprit{terms: q.largest(terms)}
		const look = "look for rounding, or for what the kernel does with these values"
		switch n := len(terms); {
		case !isAll:
		case n == 1:
			found.texts = []string{fmt.Sprintf("with ones for its factors %s is right: %s", at, look)}
		default:
			found.texts = []string{fmt.Sprintf("each of the %d %ss in %s seems to count exactly once (ones for some of them and zeros for all others give their number): %s", n, noun, at, look)}
		}
		return found
	}
	all := sortedInts(wrong)
	q.left = max(q.left, 64)
	found := culprit{terms: all}
	if text := q.partner(terms, all[0]); text != "" {
		found.texts = []string{text}
		return found
	}
	for _, kind := range []struct {
		is   func(weight float64) bool
		text string
	}{
		{func(w float64) bool { return w == 0 }, "missing"},
		{func(w float64) bool { return w == 2 }, "counted twice"},
		{func(w float64) bool { return w == -1 }, "subtracted"},
		{func(w float64) bool { return w != 0 && w != 2 && w != -1 }, "counted wrongly"},
	} {
		list := slices.DeleteFunc(slices.Clone(all), func(k int) bool { return !kind.is(wrong[k]) })
		if len(list) == 0 {
			continue
		}
		found.texts = append(found.texts, fmt.Sprintf("%s to be %s: with ones in %s %d and zeros in all others, %s is %v",
			termsText(noun, list, len(terms), isAll), kind.text, noun, list[0], at, wrong[list[0]]))
	}
	return found
}

// wrongWeights returns the terms that do not count once, with how often they count, and
// whether all were weighed. The last terms come first: tails are lost more often than others.
func (q *questioner) wrongWeights(terms []term) (wrong map[int]float64, isAll bool) {
	wrong, isAll = map[int]float64{}, true
	var search func(list []int, sum float64)
	ask := func(list []int) (float64, bool) {
		sum, ok := q.sumOf(terms, list, list)
		isAll = isAll && ok
		return sum, ok && sum != float64(len(list))
	}
	search = func(list []int, sum float64) {
		n := len(list)
		if n == 1 {
			wrong[list[0]] = sum
			return
		}
		left, isLeft := ask(list[:n/2])
		right, isRight := ask(list[n/2:])
		if isLeft && isRight && (left == 0 && right == 0 || left == float64(n/2*2) && right == float64((n-n/2)*2)) {
			for _, k := range list { // all alike
				wrong[k] = left / float64(n/2)
			}
			return
		}
		if isLeft {
			search(list[:n/2], left)
		}
		if isRight {
			search(list[n/2:], right)
		}
	}
	each := indices(len(terms))
	for to := len(each); to > 0; to -= mostOnes {
		list := each[max(0, to-mostOnes):to]
		if sum, isWrong := ask(list); isWrong {
			search(list, sum)
		}
	}
	for bit := 1; bit < len(terms); bit *= 2 { // factors of other terms, or faults that cancel
		var without, with []int
		for _, k := range each {
			switch _, isWrong := wrong[k]; {
			case isWrong:
			case k&bit == 0 && len(without) < mostOnes:
				without = append(without, k)
			case k&bit != 0 && len(with) < mostOnes:
				with = append(with, k)
			}
		}
		for _, list := range [][]int{without, with} {
			if len(list) == 0 {
				continue
			}
			if sum, isWrong := ask(list); isWrong {
				search(list, sum)
			}
		}
	}
	return wrong, isAll
}

// sumOf runs the kernel with ones in some terms, for the first and the second factor, and
// zeros in all others. Scales are one, and an old result is zero.
func (q *questioner) sumOf(terms []term, ones ...[]int) (float64, bool) {
	d := q.l.target.Definition
	bits, ok := q.ask(func(arrays []num.Array) {
		for i, a := range arrays {
			switch o := &d.Operands[i]; {
			case !o.IsIn || o.IsIndex:
			case o.Name == d.Scales().Row || o.Name == d.Scales().Col:
				trial.Fill(a, func(int, int) float32 { return 1 })
			default:
				trial.Fill(a, func(int, int) float32 { return 0 })
			}
		}
		for i := range terms[0] {
			for _, k := range ones[i] {
				p := terms[k][i]
				arrays[p.Operand].Set(p.Row, p.Col, 1)
			}
		}
	})
	return float64(num.Value(q.l.c.Formats[q.f.Operand], bits)), ok
}

// partner says with which other factor the kernel multiplies the left one of a term, if that
// is the fault; "" if it is not.
func (q *questioner) partner(terms []term, k int) string {
	if len(terms[0]) != 2 {
		return ""
	}
	each := indices(len(terms))
	ask := func(among []int) bool {
		sum, ok := q.sumOf(terms, []int{k}, among)
		return ok && sum == 1
	}
	if len(each) > 1 && !ask(each) {
		return ""
	}
	for len(each) > 1 {
		if half := each[:len(each)/2]; ask(half) {
			each = half
		} else {
			each = each[len(each)/2:]
		}
	}
	from := each[0]
	if from == k || !ask(each) {
		return ""
	}
	name := func(p trial.Place) string {
		return place(&q.l.target.Definition.Operands[p.Operand], q.l.array(p.Operand), p.Row, p.Col)
	}
	return fmt.Sprintf("%s seems to be multiplied by %s, not by %s", name(terms[k][0]), name(terms[from][1]), name(terms[k][1]))
}

// largest returns the terms with the largest magnitudes.
func (q *questioner) largest(terms []term) []int {
	size := func(k int) float64 {
		product := 1.0
		for _, p := range terms[k] {
			a := q.l.array(p.Operand)
			product *= float64(a.At(p.Row, p.Col))
		}
		return math.Abs(product)
	}
	list := indices(len(terms))
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(size(b), size(a)) })
	return list
}

// termsText begins a sentence about terms: product 37 of 64 seems, the products from 1024 to the
// last, 1029, seem, every 16th product from 5 to 501 seems.
func termsText(noun string, list []int, n int, isAll bool) string {
	first, last := list[0], list[len(list)-1]
	isRange := last-first+1 == len(list)
	switch {
	case len(list) == 1:
		return fmt.Sprintf("%s %d of %d seems", noun, first, n)
	case len(list) == n:
		return fmt.Sprintf("all %d %ss seem", n, noun)
	case isRange && last == n-1:
		return fmt.Sprintf("the %ss from %d to the last, %d, seem", noun, first, last)
	case isRange:
		return fmt.Sprintf("the %ss from %d to %d seem", noun, first, last)
	}
	step := list[1] - first
	for i, k := range list {
		if k != first+i*step {
			step = 0
		}
	}
	switch {
	case step > 0 && isAll:
		return fmt.Sprintf("every %s %s from %d to %d seems", explain.Ordinal(step), noun, first, last)
	case step > 0:
		return fmt.Sprintf("of the %ss that were tried, every %s from %d to %d seems", noun, explain.Ordinal(step), first, last)
	}
	const most = 4
	return fmt.Sprintf("%d of %d %ss, among them %s, seem", len(list), n, noun, joined(list[:min(most, len(list))]))
}

// joined returns numbers with commas between them.
func joined(list []int) string {
	var texts []string
	for _, k := range list {
		texts = append(texts, fmt.Sprint(k))
	}
	return strings.Join(texts, ", ")
}

func sortedInts(m map[int]float64) []int {
	list := make([]int, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
