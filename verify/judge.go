package verify

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial"
)

// finding is one fault of a kernel.
type finding struct {
	Tier    evidence.TierName `json:"tier"`
	Message string            `json:"message"`
	Operand int               `json:"operand"` // -1 if it is not about an element
	Row     int               `json:"row"`
	Col     int               `json:"col"`
	Got     uint64            `json:"got"`
	Want    uint64            `json:"want"`             // the answer, or the least admissible value
	WantTo  uint64            `json:"want_to"`          // the greatest; equal to Want under contract bits
	IsCause bool              `json:"is_cause"`         // the kernel ended in an error: nothing was compared
	IsHang  bool              `json:"is_hang"`          // and its device cannot be used again
	Ints    []int32           `json:"ints,omitempty"`   // of a bounded int32: the admissible values, if there are several
	Truth   string            `json:"truth,omitempty"`  // where known
	Clause  string            `json:"clause,omitempty"` // that covers the element; "" if it is a matter of arithmetic

	When string   `json:"when,omitempty"` // under which sizes results differ, where that is known
	Near []string `json:"near,omitempty"` // the output's row around the element, as it is and as it should be

	// IsDerived says that got belongs to a further call that a check made from the case: with
	// other inputs, sizes or parameters. run has that call, as long as the finding is at hand.
	IsDerived bool `json:"is_derived,omitempty"`
	IsJudged  bool `json:"is_judged,omitempty"` // a finding of a check in which Want is admissible, and no other result of the kernel
	run       *loaded

	places []trial.Place // all wrong elements of the run
}

// of records the call that a finding is about, which a check made from a case.
func (f *finding) of(l *loaded) *finding {
	f.run, f.IsDerived = l, true
	return f
}

// callOf returns the call that a finding is about: that of the case, or one that a check made from
// it; nil if that one is not at hand.
func (l *loaded) callOf(f *finding) *loaded {
	if f.IsDerived {
		return f.run
	}
	return l
}

// judgement is the result of comparing outputs; those of tiles are added up.
type judgement struct {
	Elements    int64 `json:"elements"`
	Mismatches  int64 `json:"mismatches"`
	Unspecified int64 `json:"unspecified,omitempty"` // bounded: the set is not known
	OnGrid      int64 `json:"on_grid,omitempty"`     // bounded: one value is right, in every order
	OffGrid     int64 `json:"off_grid,omitempty"`    // of these, the mismatches
	SameBits    int64 `json:"same_bits,omitempty"`   // bounded: those of the answer under the lowering's model

	Admissible sizes             `json:"admissible"`
	AllClose   sizes             `json:"all_close"`            // what allclose would admit for the same elements
	Outputs    map[string]*tally `json:"outputs,omitempty"`    // bounded: by name
	Departures map[string]int64  `json:"departures,omitempty"` // elements outside of their sets, by the clause that covers them
	Waived     int64             `json:"waived,omitempty"`     // of these, those whose clause was waived
	Misses     misses            `json:"misses"`               // the mismatches by their distance from the set
	Allowed    map[string]int64  `json:"allowed,omitempty"`    // elements that needed an allowance, by its text

	Accuracy accuracy `json:"accuracy"`
	Own      accuracy `json:"own"` // of the answer, beside a bounded kernel's

	Tiles     int64 `json:"tiles"`
	Compiled  int64 `json:"compiled,omitempty"`  // elements whose answer was not interpreted
	Freivalds int64 `json:"freivalds,omitempty"` // elements that Freivalds' check judged
	first     *finding
	wrong     []trial.Place // the elements that are not admissible
}

// add adds the judgement of another part; the earlier finding stays first.
func (j *judgement) add(k *judgement) {
	j.Elements += k.Elements
	j.Mismatches += k.Mismatches
	j.Unspecified += k.Unspecified
	j.OnGrid += k.OnGrid
	j.OffGrid += k.OffGrid
	j.SameBits += k.SameBits
	j.Admissible.add(k.Admissible)
	j.AllClose.add(k.AllClose)
	j.Waived += k.Waived
	j.Misses.add(k.Misses)
	addCounts(&j.Departures, k.Departures)
	addCounts(&j.Allowed, k.Allowed)
	j.addTallies(k.Outputs)
	j.Own.add(&k.Own)
	j.Accuracy.add(&k.Accuracy)
	j.Tiles += k.Tiles
	j.Compiled += k.Compiled
	j.Freivalds += k.Freivalds
	if j.first == nil || k.first != nil && k.first.isWorse(j.first) {
		j.first = k.first
	}
	if len(j.wrong) < mostPlaces {
		j.wrong = append(j.wrong, k.wrong...)
	}
}

// output returns the tally of an output.
func (j *judgement) output(name string) *tally {
	if j.Outputs == nil {
		j.Outputs = map[string]*tally{}
	}
	if j.Outputs[name] == nil {
		j.Outputs[name] = &tally{}
	}
	return j.Outputs[name]
}

func (j *judgement) addTallies(outputs map[string]*tally) {
	for name, t := range outputs {
		j.output(name).add(t)
	}
}

// isAnswer reports whether all outputs are those of the answer.
func (j *judgement) isAnswer() bool { return j.Mismatches == 0 && j.Waived == 0 }

func addCounts(to *map[string]int64, from map[string]int64) {
	for name, n := range from {
		if *to == nil {
			*to = map[string]int64{}
		}
		(*to)[name] += n
	}
}

// manner configures how outputs are judged.
type manner struct {
	withTruth bool     // accuracy too
	withBig   bool     // what float64 leaves open is decided with more digits
	waived    []string // clauses by name

	compiled *compiled // computes answers; nil if all are interpreted
	withAll  bool      // the case is interpreted as a whole nevertheless
	key      uint64    // draws outputs that are interpreted, and the vectors of Freivalds' check

	withFreivalds bool // of large products in a ring

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
	if answer, judged := l.question.answered(); judged != nil && isWhole && t.Lowering.Promise.IsBits() && out.after.Difference(answer) == nil {
		return new(*judged), nil
	}
	product, wrong, err := t.judgeProduct(ctx, inputs, out.operands, m)
	if err != nil {
		return nil, err
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
			if errs[i] = ctx.Err(); errs[i] == nil && product != nil {
				found[i] = rightTile(wrong, tiles[i].operands[outputOf(d)])
			}
			if errs[i] == nil && found[i] == nil {
				if found[i], errs[i] = t.judgeTile(ctx, l, inputs, out.operands, tiles[i], isWhole, m); errs[i] == nil && product != nil {
					errs[i] = product.checkTile(d, tiles[i].operands[outputOf(d)], found[i])
				}
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
		if err := glueTiles(d, out.operands, tiles, found); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	if f := total.first; f != nil {
		f.places, total.wrong = total.wrong, nil
		got := out.operands[f.Operand]
		f.show(d, got, "got", func(c int) uint64 { return got.Bits64(f.Row, c) })
	}
	return total, nil
}

// glueTiles checks the gluing condition for the tiles of every output.
func glueTiles(d *def.Definition, got []num.Array, tiles []tile, found []*judgement) error {
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
			return errors.New(whole.Reason("tiles", "blocks"))
		}
	}
	return nil
}

// judgeTile judges one tile. The answer is computed from the inputs as they were before the run, in
// memory that the kernel never had. If the tile is the whole case, its answer may be known from
// another target, and is kept for others unless compiled code has computed it.
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
	v := view{target: t, l: l, at: at, rule: trial.RuleOf(d), inputs: operands, got: outputs, answer: answer, waived: m.waived}
	if err := v.prepare(ctx, m); err != nil {
		return nil, err
	}
	j := v.outputs()
	if j.Compiled = compiled; compiled > 0 && !j.isAnswer() { // only the interpreter rejects
		var err error
		if v.answer, err = t.interpret(ctx, l, operands); err != nil {
			return nil, err
		}
		m.compiled.compare(l, answer, v.answer)
		answer, j = v.answer, v.outputs()
	}
	switch {
	case !isWhole || j.Compiled > 0:
	case !t.Lowering.Promise.IsBits() || !j.isAnswer():
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
	return interpret(t.Definition, operands, reference.Options{Params: l.params, Accum: l.accum(), Context: ctx})
}

// interpret returns the operands, with the outputs of a definition in memory of their own.
func interpret(d *def.Definition, operands []num.Array, o reference.Options) ([]num.Array, error) {
	answer := slices.Clone(operands)
	for i := range d.Operands {
		if d.Operands[i].IsOut {
			answer[i] = operands[i].Clone()
		}
	}
	return answer, reference.Run(d, answer, o)
}

// mostPlaces is how many wrong elements of a case are remembered, to say where they are.
const mostPlaces = 1 << 18

// note remembers a wrong element.
func (j *judgement) note(v *view, operand, r, c int) {
	if len(j.wrong) < mostPlaces {
		at := v.at.operands[operand]
		j.wrong = append(j.wrong, trial.Place{Operand: operand, Row: at.Row + r, Col: at.Col + c})
	}
}
