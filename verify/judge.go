package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/num/ball"
	"tokitai/reference"
	"tokitai/trial"
	"tokitai/truth"
)

// finding is one fault of a kernel.
type finding struct {
	Tier    evidence.TierName `json:"tier"`
	Message string            `json:"message"`
	Operand int               `json:"operand"` // -1 if it is not about an element
	Row     int               `json:"row"`
	Col     int               `json:"col"`
	Got     uint32            `json:"got"`
	Want    uint32            `json:"want"`            // the answer, or the least admissible value
	WantTo  uint32            `json:"want_to"`         // the greatest; equal to Want under contract bits
	IsCause bool              `json:"is_cause"`        // the kernel ended in an error: nothing was compared
	IsHang  bool              `json:"is_hang"`         // and its device cannot be used again
	Ints    []int32           `json:"ints,omitempty"`  // of a bounded int32: the admissible values, if there are several
	Truth   string            `json:"truth,omitempty"` // where known

	Near []string `json:"near,omitempty"` // the output's row around the element, as it is and as it should be
}

// worst is the place where a figure was largest.
type worst struct {
	IsSeen  bool    `json:"is_seen,omitempty"`
	Value   float64 `json:"value,omitempty"`
	Operand int     `json:"operand,omitempty"`
	Row     int     `json:"row,omitempty"`
	Col     int     `json:"col,omitempty"`
	Got     uint32  `json:"got,omitempty"`
	Truth   string  `json:"truth,omitempty"`

	DType num.DType `json:"dtype,omitempty"` // of the output
}

// judgement is the result of comparing outputs; those of tiles are added up.
type judgement struct {
	Elements    int64 `json:"elements"`
	Mismatches  int64 `json:"mismatches"`
	Unspecified int64 `json:"unspecified,omitempty"` // bounded: the set is not known
	SameBits    int64 `json:"same_bits,omitempty"`   // bounded: those of the answer under the lowering's model

	Admissible sizes `json:"admissible"`

	TruthElements int64 `json:"truth_elements,omitempty"`
	Misrounded    int64 `json:"misrounded,omitempty"`
	Undecided     int64 `json:"undecided,omitempty"`
	Undefined     int64 `json:"undefined,omitempty"` // not finite, where the truth is
	WorstError    worst `json:"worst_error"`
	WorstShare    worst `json:"worst_share"` // of what is promised

	Bias moments `json:"bias"` // steps from the correct rounding away from zero

	Tiles    int64 `json:"tiles"`
	Compiled int64 `json:"compiled,omitempty"` // elements whose answer was not interpreted
	first    *finding
}

// add adds the judgement of another part; the earlier finding stays first.
func (j *judgement) add(k *judgement) {
	j.Elements += k.Elements
	j.Mismatches += k.Mismatches
	j.Unspecified += k.Unspecified
	j.SameBits += k.SameBits
	j.Admissible.add(k.Admissible)
	j.TruthElements += k.TruthElements
	j.Misrounded += k.Misrounded
	j.Undecided += k.Undecided
	j.Undefined += k.Undefined
	j.Bias.add(k.Bias)
	j.Tiles += k.Tiles
	j.Compiled += k.Compiled
	if k.WorstError.IsSeen && (!j.WorstError.IsSeen || k.WorstError.Value > j.WorstError.Value) {
		j.WorstError = k.WorstError
	}
	if k.WorstShare.IsSeen && (!j.WorstShare.IsSeen || k.WorstShare.Value > j.WorstShare.Value) {
		j.WorstShare = k.WorstShare
	}
	if j.first == nil {
		j.first = k.first
	}
}

// manner says how outputs are judged.
type manner struct {
	withTruth bool // accuracy too
	withBig   bool // what float64 leaves open is decided with more digits

	compiled *compiled // computes answers; nil if all are interpreted
	withAll  bool      // the case is interpreted as a whole nevertheless
	key      uint64    // draws outputs that are interpreted

	progress func(done, total int) // is told of tiles, from several goroutines; may be nil
}

// divide divides a case into tiles; tests replace it to show that a gap is noticed.
var divide = tilesOf

// judge compares the outputs of a run with the answer, tile by tile. It starts no row after
// the context has ended.
func (t *Target) judge(ctx context.Context, l *loaded, out *outcome, m manner) (*judgement, error) {
	d := t.Definition
	inputs := l.inputs()
	tiles := divide(d, inputs, tileElements)
	isWhole := len(tiles) == 1 && tiles[0].operands[outputOf(d)] == (Rect{Rows: inputs[outputOf(d)].Rows, Cols: inputs[outputOf(d)].Cols})
	if answer, judged := l.question.answered(); judged != nil && isWhole && !t.Lowering.IsBounded && out.after.Difference(answer) == nil {
		return new(*judged), nil
	}
	found, errs := make([]*judgement, len(tiles)), make([]error, len(tiles))
	var group sync.WaitGroup
	var done atomic.Int64
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range tiles {
		slots <- struct{}{}
		group.Add(1)
		go func() {
			defer func() { <-slots; group.Done() }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				found[i], errs[i] = t.judgeTile(ctx, l, inputs, out.operands, tiles[i], isWhole, m)
			}
			if m.progress != nil {
				m.progress(int(done.Add(1)), len(tiles))
			}
		}()
	}
	group.Wait()
	total := &judgement{}
	for i := range tiles {
		if errs[i] != nil {
			return nil, errs[i]
		}
		total.add(found[i])
	}
	if !isWhole {
		if err := glue(d, out.operands, tiles, found); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	if f := total.first; f != nil {
		got := out.operands[f.Operand]
		f.show(d, got, "got", func(c int) uint32 { return got.Bits(f.Row, c) })
	}
	return total, nil
}

// glue checks the gluing condition for the tiles of every output.
func glue(d *def.Definition, got []num.Array, tiles []tile, found []*judgement) error {
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			continue
		}
		g := Grid{Rows: got[i].Rows, Cols: got[i].Cols, BlockRows: tiles[0].operands[i].Rows, BlockCols: tiles[0].operands[i].Cols}
		var sections []Section
		for k, tile := range tiles {
			s, err := g.Section(tile.operands[i], window(got[i], tile.operands[i]), found[k].Mismatches)
			if err != nil {
				return err
			}
			sections = append(sections, s)
		}
		if whole := g.Glue(sections); !whole.IsWhole() {
			return errors.New(whole.Reason())
		}
	}
	return nil
}

// judgeTile judges one tile. The answer is computed in memory that the kernel never had,
// from the inputs before the run. If the tile is the whole case, its answer may be known
// from another target, and is kept for others unless compiled code has computed it.
func (t *Target) judgeTile(ctx context.Context, l *loaded, inputs, got []num.Array, at tile, isWhole bool, m manner) (*judgement, error) {
	d := t.Definition
	operands, outputs := make([]num.Array, len(inputs)), make([]num.Array, len(inputs))
	for i := range inputs {
		operands[i] = window(inputs[i], at.operands[i])
		outputs[i] = window(got[i], at.operands[i])
	}
	var answer []num.Array
	var compiled int64
	if isWhole {
		answer, _ = l.question.answered()
	}
	if answer == nil {
		var err error
		m.key = gen.Row(m.key, at.operands[outputOf(d)].Row+at.operands[outputOf(d)].Col) // a draw of its own
		if answer, compiled, err = t.answer(ctx, l, operands, m); err != nil {
			return nil, err
		}
	}
	v := view{target: t, l: l, at: at, rule: trial.RuleOf(d), inputs: operands, got: outputs, answer: answer}
	if m.withTruth || t.Lowering.IsBounded {
		if err := v.enclose(ctx, m); err != nil {
			return nil, err
		}
	}
	j := v.outputs()
	if j.Compiled = compiled; compiled > 0 && j.Mismatches > 0 { // nothing is rejected but by the interpreter
		var err error
		if v.answer, err = t.interpret(ctx, l, operands); err != nil {
			return nil, err
		}
		m.compiled.compare(l, answer, v.answer)
		answer, j = v.answer, v.outputs()
	}
	switch {
	case !isWhole || j.Compiled > 0:
	case t.Lowering.IsBounded || j.Mismatches > 0:
		l.question.learn(d, answer, nil)
	default:
		l.question.learn(d, answer, j)
	}
	return j, nil
}

// answer returns the answer to a part of a case, and how many of its outputs were not
// interpreted.
func (t *Target) answer(ctx context.Context, l *loaded, operands []num.Array, m manner) ([]num.Array, int64, error) {
	if !m.withAll {
		return m.compiled.answer(ctx, l, operands, m.key)
	}
	answer, err := t.interpret(ctx, l, operands)
	if err == nil {
		m.compiled.check(l, operands, answer)
	}
	return answer, 0, err
}

// interpret returns the answer to a part of a case: its operands, the outputs in memory of
// their own.
func (t *Target) interpret(ctx context.Context, l *loaded, operands []num.Array) ([]num.Array, error) {
	d := t.Definition
	answer := slices.Clone(operands)
	for i := range d.Operands {
		if d.Operands[i].IsOut {
			answer[i] = operands[i].Clone()
		}
	}
	return answer, reference.Run(d, answer, reference.Options{Params: l.params, Model: l.model(), Context: ctx})
}

// view is a tile with its answer and enclosures.
type view struct {
	target              *Target
	l                   *loaded
	at                  tile
	rule                trial.Rule
	inputs, got, answer []num.Array
	exact               *truth.Result
	rounded             *truth.Result // what its arithmetic may give: of a bounded lowering, else of the definition, where accuracy is asked for
	ordinary            *truth.Result // the same, with 1 for every input that is no number
	correct             map[int]*truth.Rounding
}

func (v *view) enclose(ctx context.Context, m manner) error {
	t := v.target
	o := truth.Options{Params: v.l.params, Mode: truth.Exact, Model: v.l.model(), Context: ctx}
	var err error
	if v.exact, err = truth.Enclose(t.Definition, v.inputs, o); err != nil {
		return err
	}
	if t.Lowering.IsBounded {
		o.Mode, o.Order, o.FunctionULP, o.IsIEEE = truth.Rounded, &t.Lowering.Order, t.Lowering.FunctionULP, t.Lowering.IsIEEE
		if v.rounded, err = truth.Enclose(t.Definition, v.inputs, o); err != nil {
			return err
		}
		if inputs, hasSpecial := withoutSpecial(t.Definition, v.inputs); !hasSpecial {
			v.ordinary = v.rounded
		} else if v.ordinary, err = truth.Enclose(t.Definition, inputs, o); err != nil {
			return err
		}
	}
	if !m.withTruth {
		return nil
	}
	if v.rounded == nil {
		o.Mode = truth.Rounded
		if v.rounded, err = truth.Enclose(t.Definition, v.inputs, o); err != nil {
			return err
		}
	}
	v.correct = map[int]*truth.Rounding{}
	for i := range t.Definition.Operands {
		if !t.Definition.Operands[i].IsOut || !t.isMeasured(v.l.c.Formats, i) {
			continue
		}
		if !m.withBig {
			v.correct[i] = v.exact.Decide(i)
		} else if v.correct[i], err = v.exact.Round(i); err != nil {
			return err
		}
	}
	return nil
}

// isMeasured reports whether an output's accuracy is reported: if it is stored in the
// target's format, or if no output is. An int32 is right or wrong and has no error in ulps.
func (t *Target) isMeasured(formats []num.DType, output int) bool {
	if !formats[output].IsFloat() {
		return false
	}
	for i := range t.Definition.Operands {
		if t.Definition.Operands[i].IsOut && formats[i] == t.DType {
			return formats[output] == t.DType
		}
	}
	return true
}

// withoutSpecial returns the inputs with 1 in the place of every NaN and infinity, and
// reports whether there was one.
func withoutSpecial(d *def.Definition, inputs []num.Array) (ordinary []num.Array, hasSpecial bool) {
	for i, a := range inputs {
		isCopy := false
		for r := range a.Rows {
			for c := range a.Cols {
				if !d.Operands[i].IsIn || d.Operands[i].IsIndex {
					break
				}
				if x := a.At(r, c); x-x == 0 {
					continue
				}
				if !isCopy {
					a, isCopy, hasSpecial = a.Clone(), true, true
				}
				a.Set(r, c, 1)
			}
		}
		ordinary = append(ordinary, a)
	}
	return ordinary, hasSpecial
}

// outputs judges every output.
func (v *view) outputs() *judgement {
	j := &judgement{Tiles: 1}
	for i := range v.target.Definition.Operands {
		if v.target.Definition.Operands[i].IsOut {
			v.output(j, i)
		}
	}
	return j
}

// output judges every element of one output.
func (v *view) output(j *judgement, i int) {
	got, answer := v.got[i], v.answer[i]
	isMeasured := v.correct[i] != nil
	isPlain := !v.target.Lowering.IsBounded && !isMeasured
	for r := range got.Rows {
		if isPlain && bytes.Equal(got.Row(r), answer.Row(r)) {
			j.Elements += int64(got.Cols)
			continue
		}
		for c := range got.Cols {
			j.Elements++
			x, y := got.Bits(r, c), answer.Bits(r, c)
			lo, hi, isKnown := y, y, true
			if v.target.Lowering.IsBounded {
				lo, hi, isKnown = v.admissible(j, i, r, c)
				if v.rule.Same(got.DType, x, y) {
					j.SameBits++
				}
			}
			if isKnown && !v.isWithin(got.DType, x, lo, hi, i, r, c) {
				j.Mismatches++
				if j.first == nil {
					j.first = v.finding(i, r, c, x, lo, hi)
				}
			}
			if isMeasured {
				v.accuracy(j, i, r, c, x)
			}
		}
	}
}

// isWithin reports whether a value is the answer, or in the admissible set, which lies
// between lo and hi.
func (v *view) isWithin(d num.DType, x, lo, hi uint32, i, r, c int) bool {
	t := v.target
	switch {
	case d == num.I32 && lo != hi:
		return v.rounded.Admits(i, r, c, x)
	case !t.Lowering.IsBounded || v.rule == trial.Patterns || num.IsNaN(d, lo):
		return v.rule.Same(d, x, lo)
	case num.IsNaN(d, x):
		return false
	}
	at := num.Index(d, x)
	return num.Index(d, lo) <= at && at <= num.Index(d, hi)
}

// admissible returns the bounds of the values that a correct bounded kernel may give. Where
// a NaN or an infinity among the inputs reaches the element, only its class is known: NaN,
// an infinity, or some finite number. Where an intermediate result may overflow, nothing is
// known, since that may depend on the order, and the element is counted as unspecified.
func (v *view) admissible(j *judgement, i, r, c int) (lo, hi uint32, isKnown bool) {
	d := v.got[i].DType
	if v.l.isGrid() || v.target.Definition.Kind == def.KindGather {
		j.Admissible.count(1)
		y := v.answer[i].Bits(r, c)
		return y, y, true
	}
	if v.rounded.At(i, r, c).Known() {
		lo, hi = v.rounded.Between(i, r, c)
		j.Admissible.count(v.rounded.Count(i, r, c))
		return lo, hi, true
	}
	y := v.answer[i].Bits(r, c)
	switch {
	case v.exact.At(i, r, c).Known() || !v.ordinary.At(i, r, c).Known():
		j.Unspecified++
		return 0, 0, false
	case num.IsNaN(d, y) || math.IsInf(float64(num.Widen(d, y)), 0):
		return y, y, true
	}
	most := num.FromIndex(d, math.MaxInt32) - 1 // the largest finite value
	return num.FromIndex(d, -num.Index(d, most)), most, true
}

// accuracy compares one element with the truth.
func (v *view) accuracy(j *judgement, i, r, c int, x uint32) {
	d := v.got[i].DType
	b := v.exact.At(i, r, c)
	value := float64(num.Widen(d, x))
	if !b.Known() {
		return
	}
	j.TruthElements++
	k, correct := r*v.got[i].Cols+c, v.correct[i]
	switch correct.State[k] {
	case truth.Undecided:
		j.Undecided++
	case truth.ByFloat64, truth.ByBig:
		if num.Distance(d, x, correct.Bits[k]) != 0 {
			j.Misrounded++
		}
	}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		j.Undefined++
		return
	}
	lo, hi := b.Bounds()
	distance := max(hi-value, value-lo)
	note := func(w *worst, figure float64) {
		if figure > w.Value || !w.IsSeen {
			f := v.finding(i, r, c, x, x, x)
			*w = worst{Value: figure, Operand: i, Row: f.Row, Col: f.Col, Got: x, Truth: f.Truth, DType: d, IsSeen: true}
		}
	}
	note(&j.WorstError, distance/num.ULP(d, b.Mid))
	if p := v.rounded.At(i, r, c); p.Known() {
		note(&j.WorstShare, distance/(num.ULP(d, value)/2+truth.Radius(p, b)))
	}
	// Among subnormals, and where results underflow, honest errors are biased: the
	// numbers there are not many ulps large, so that fewer lie just above than below.
	if math.Abs(b.Mid) < num.ULP(d, 0)/num.ULP(d, 1) {
		return
	}
	if correct.State[k] != truth.Undecided {
		steps := float64(num.Index(d, x) - num.Index(d, correct.Bits[k]))
		j.Bias.count(math.Copysign(steps, steps*b.Mid))
	}
}

// finding returns the finding of an element, at its place in the whole output.
func (v *view) finding(i, r, c int, got, lo, hi uint32) *finding {
	at := v.at.operands[i]
	f := &finding{Tier: evidence.Bits, Operand: i, Row: at.Row + r, Col: at.Col + c, Got: got, Want: lo, WantTo: hi}
	if v.target.Lowering.IsBounded {
		f.Tier = evidence.Set
	}
	if v.exact != nil {
		f.Truth = truthText(v.exact, v.got[i].DType, i, r, c)
	}
	if v.got[i].DType == num.I32 && lo != hi {
		f.Ints = v.rounded.Ints(i, r, c)
	}
	return f
}

// truthText returns the real-number result of an element, or "" where it is not known.
func truthText(exact *truth.Result, d num.DType, operand, row, col int) string {
	if d == num.I32 {
		return intsText(exact.Ints(operand, row, col))
	}
	return ballText(exact.At(operand, row, col))
}

// intsText returns values as text: 3, or one of 1, 3, 9.
func intsText(values []int32) string {
	const most = 8
	text := ""
	for i, v := range values[:min(len(values), most)] {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(v)
	}
	switch {
	case len(values) > most:
		return fmt.Sprintf("one of %d: %s, …", len(values), text)
	case len(values) > 1:
		return "one of " + text
	}
	return text
}

func ballText(b ball.Ball) string {
	if !b.Known() {
		return ""
	}
	return fmt.Sprintf("%.9g", b.Mid)
}

// sizes counts admissible sets by size: exactly up to a limit, by powers of two beyond.
type sizes struct {
	N     int64           `json:"n"`
	Sum   float64         `json:"sum"`
	Worst int64           `json:"worst"`
	Over  int64           `json:"over_one"`
	Small map[int64]int64 `json:"small,omitempty"` // number of sets by size, or by the power of two below it
}

const exactSizes = 256

func (s *sizes) count(n int64) {
	s.N++
	s.Sum += float64(n)
	s.Worst = max(s.Worst, n)
	if n > 1 {
		s.Over++
		if s.Small == nil {
			s.Small = map[int64]int64{}
		}
		s.Small[bucket(n)]++
	}
}

func bucket(n int64) int64 {
	if n <= exactSizes {
		return n
	}
	return int64(math.Ldexp(1, math.Ilogb(float64(n))))
}

func (s *sizes) add(t sizes) {
	s.N += t.N
	s.Sum += t.Sum
	s.Worst = max(s.Worst, t.Worst)
	s.Over += t.Over
	for size, n := range t.Small {
		if s.Small == nil {
			s.Small = map[int64]int64{}
		}
		s.Small[size] += n
	}
}

// median returns the median size; beyond the limit, the power of two below it.
func (s *sizes) median() float64 {
	left := s.N/2 - (s.N - s.Over)
	if left < 0 {
		return 1
	}
	for _, size := range sortedKeys(s.Small) {
		if left -= s.Small[size]; left < 0 {
			return float64(size)
		}
	}
	return float64(s.Worst)
}

// moments are a sample's number, sum and sum of squares.
type moments struct {
	N   int64   `json:"n"`
	Sum float64 `json:"sum"`
	Sqr float64 `json:"sqr"`
}

func (m *moments) count(x float64) {
	m.N++
	m.Sum += x
	m.Sqr += float64(x * x)
}

func (m *moments) add(k moments) {
	m.N += k.N
	m.Sum += k.Sum
	m.Sqr += k.Sqr
}

// t returns the mean in units of its standard error.
func (m moments) t() float64 {
	if m.N < 2 {
		return 0
	}
	n := float64(m.N)
	mean := m.Sum / n
	variance := (m.Sqr - float64(n*float64(mean*mean))) / (n - 1)
	if variance <= 0 {
		if mean == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return mean / math.Sqrt(variance/n)
}
