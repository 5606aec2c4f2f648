package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/verify/cases"
)

// SetTileElements sets the largest number of outputs of a tile, and returns a function that
// restores it.
func SetTileElements(n int64) (restore func()) {
	old := tileElements
	tileElements = n
	return func() { tileElements = old }
}

// CasesOf returns the cases of a level.
func CasesOf(t *Target, l Level) []*cases.Case { return t.Cases().List(&cases.Request{Level: l}) }

// CasesUnder returns the cases of a verification.
func CasesUnder(t *Target, o Options) []*cases.Case { return t.Cases().List(o.request(t)) }

// ParseCase parses a case's name.
func ParseCase(t *Target, name string) (*cases.Case, error) { return t.Cases().Parse(name) }

// CaseName returns a case's name.
func CaseName(t *Target, c *cases.Case) string { return c.Name(t.Cases()) }

// ChecksOf returns the names of a target's checks by tier.
func ChecksOf(t *Target) map[evidence.TierName][]string {
	names := map[evidence.TierName][]string{}
	for _, k := range t.checks() {
		names[k.tier()] = append(names[k.tier()], k.Name)
	}
	return names
}

// PatternNames returns the names of a target's patterns; grids are those whose sums are exact.
func PatternNames(t *Target) (all, grids []string) {
	for _, p := range t.Cases().Patterns() {
		if all = append(all, p.Name); p.IsGrid {
			grids = append(grids, p.Name)
		}
	}
	return all, grids
}

// Indices returns an index operand's values in a case.
func Indices(t *Target, c *cases.Case, operand string) []int32 {
	a := t.load(c, 0).inputs()[t.Definition.Operand(operand)]
	list := make([]int32, a.Rows)
	for r := range list {
		list[r] = a.Int(r, 0)
	}
	return list
}

// Divisible returns the letter along which a definition is divided, or "".
func Divisible(d *def.Definition) string { return d.Divisible() }

// Parts divides operands into tiles: for each tile, a window of every operand.
func Parts(d *def.Definition, operands []num.Array, most int64) [][]num.Array {
	var list [][]num.Array
	for _, t := range tilesOf(d, operands, most) {
		var part []num.Array
		for i, a := range operands {
			part = append(part, window(a, t.operands[i]))
		}
		list = append(list, part)
	}
	return list
}

// Figures holds the judgement of a run's outputs, without what depends on the order of tiles.
type Figures struct {
	Tiles int64
	Text  string
}

// JudgeDamaged judges the reference's outputs for a case, some of them damaged, in
// tiles of at most so many outputs.
func JudgeDamaged(t *Target, name string, most int64, isDamaged func(operand, r, c int) bool) (Figures, error) {
	defer SetTileElements(most)()
	c, err := t.Cases().Parse(name)
	if err != nil {
		return Figures{}, err
	}
	l := t.load(c, 1)
	out := &outcome{}
	for i, a := range l.inputs() {
		if t.Definition.Operands[i].IsOut {
			a = a.Clone()
		}
		out.operands = append(out.operands, a)
	}
	if err := reference.Run(t.Definition, out.operands, reference.Options{Params: l.params, Accum: t.Lowering.Promise.Accum}); err != nil {
		return Figures{}, err
	}
	for i, a := range out.operands {
		for r := range a.Rows {
			for col := range a.Cols {
				if t.Definition.Operands[i].IsOut && isDamaged(i, r, col) {
					a.SetBits64(r, col, a.Bits64(r, col)^1)
				}
			}
		}
	}
	j, err := t.judge(context.Background(), l, out, manner{withTruth: true})
	if err != nil {
		return Figures{}, err
	}
	f := Figures{Tiles: j.Tiles}
	j.Tiles = 0
	j.Accuracy.Bias, j.Own.Bias = moments{N: j.Accuracy.Bias.N}, moments{N: j.Own.Bias.N}
	j.Own.WorstError, j.Own.WorstShare = worst{Value: j.Own.WorstError.Value}, worst{Value: j.Own.WorstShare.Value} // many may be worst
	if j.first != nil {
		j.first.Near = nil // what a tile has of the row
	}
	text, err := json.Marshal(struct {
		Found *judgement
		First *finding
	}{j, j.first})
	f.Text = string(text)
	return f, err
}

// GlueWithout glues the tiles of a case's outputs, one of them left out; -1 leaves out
// none.
func GlueWithout(t *Target, name string, most int64, left int) error {
	c, err := t.Cases().Parse(name)
	if err != nil {
		return err
	}
	operands := t.load(c, 1).inputs()
	tiles := tilesOf(t.Definition, operands, most)
	if left >= 0 {
		tiles = append(tiles[:left:left], tiles[left+1:]...)
	}
	found := make([]*judgement, len(tiles))
	for i := range found {
		found[i] = &judgement{}
	}
	return glueTiles(t.Definition, operands, tiles, found)
}

// SetDivide replaces how cases are divided into tiles, until the returned function is
// called.
func SetDivide(f func(n int) bool) (undo func()) {
	divide = func(d *def.Definition, operands []num.Array, most int64) []tile {
		var kept []tile
		for i, t := range tilesOf(d, operands, most) {
			if f(i) {
				kept = append(kept, t)
			}
		}
		return kept
	}
	return func() { divide = tilesOf }
}

// SetCompiled makes level quick as short as level smoke, lets compiled code compute answers
// however few there are, and replaces that code unless it is nil.
func SetCompiled(code []*engine.Lowering) (restore func()) {
	oldAdjust, oldLeast, oldJudges := adjust, leastCompiled, judgesOf
	leastCompiled = 1
	adjust = func(r *cases.Request) {
		if r.Level == Quick {
			r.Level = Smoke
		}
	}
	if code != nil {
		judgesOf = func(*def.Definition) []*engine.Lowering { return code }
	}
	return func() { adjust, leastCompiled, judgesOf = oldAdjust, oldLeast, oldJudges }
}

// Drawn returns the indices of n that are interpreted.
func Drawn(n int, key uint64) []int { return drawn(n, key) }

// Picked restricts operands to some indices of a letter.
func Picked(d *def.Definition, operands []num.Array, letter string, lines []int) []num.Array {
	return picked(d, operands, letter, lines)
}

// Operands returns the operands of a case.
func Operands(t *Target, name string) ([]num.Array, []float64, error) {
	c, err := t.Cases().Parse(name)
	if err != nil {
		return nil, nil, err
	}
	l := t.load(c, 1)
	return l.inputs(), l.params, nil
}

// SetPlanOutputs sets how many outputs a level's boundary cases have at most.
func SetPlanOutputs(l Level, n int64) (restore func()) {
	old := adjust
	adjust = func(r *cases.Request) {
		if r.Level == l {
			r.Outputs = n
		}
		old(r)
	}
	return func() { adjust = old }
}

// GridCalls calls f for every case of a level whose pattern is a grid, each combination of
// values and parameters once, with its operands as they are before a run.
func GridCalls(t *Target, level Level, f func(name string, operands []num.Array, params []float64)) {
	seen := map[string]bool{}
	for _, c := range t.Cases().List(&cases.Request{Level: level, Seed: 1}) {
		if p := t.Cases().Pattern(c.Pattern); c.Check != "" || !p.IsGrid {
			continue
		}
		plain := &cases.Case{Pattern: c.Pattern, Sizes: c.Sizes, Params: c.Params, Formats: c.Formats}
		if name := plain.Name(t.Cases()); !seen[name] {
			seen[name] = true
			l := t.load(plain, 1)
			f(name, l.inputs(), l.params)
		}
	}
}

// CulpritOf returns what is said about the terms of the failure of a case, and its inputs; it
// is false if the case passes.
func CulpritOf(t *Target, name string) (texts, inputs []string, ok bool) {
	c, err := t.Cases().Parse(name)
	if err != nil {
		panic(err)
	}
	s := newVerification(t, &Options{Seed: 1}, cases.Schedule{})
	failed := s.alone(context.Background(), c)
	if failed == nil {
		return nil, nil, false
	}
	small := &shrunk{c: failed.c, original: failed.c, found: failed.found, isAlone: true}
	what := s.culprit(context.Background(), small)
	if what.terms != nil {
		inputs = t.load(failed.c, 1).inputsOf(failed.found, what.terms)
	}
	return what.texts, inputs, true
}

// SpendBudget replaces what limits the time of a verification under a budget.
func SpendBudget(limit func(context.Context, time.Duration, func() time.Duration) (context.Context, context.CancelFunc)) (restore func()) {
	withBudget = limit
	return func() { withBudget = budgeted }
}

// ParamsOf returns the parameters of a variation.
func ParamsOf(t *Target, variation int) []float64 {
	return t.Cases().Params(&cases.Case{Pattern: t.Cases().Patterns()[0].Name, Params: variation})
}

// DeclaredBy returns a target's declaration as reports state it.
func DeclaredBy(t *Target) string { return t.terms().Declared }

// WrongRows runs Freivalds' check with a number of vectors, or with as many as it takes if that is 0.
// isWorth says whether a verification would.
func WrongRows(d *def.Definition, operands []num.Array, key uint64, vectors int) (wrong []bool, isWorth bool, err error) {
	f, err := newFreivalds(d, operands, operands)
	if f == nil || err != nil {
		return nil, false, err
	}
	f.draw(key, cmp.Or(vectors, vectorsFor(d.Ring().P)))
	wrong, err = f.wrongRows(context.Background())
	return wrong, f.isWorth(), err
}

// SetLeastProduct sets the number of multiply-adds from which Freivalds' check is used, and returns
// a function that restores it.
func SetLeastProduct(n int) (restore func()) {
	old := leastProduct
	leastProduct = n
	return func() { leastProduct = old }
}

// VectorsFor returns how many vectors Freivalds' check takes.
func VectorsFor(p uint64) int { return vectorsFor(p) }

// Inputs returns the operands of the case with the given name, as they are before a run.
func Inputs(t *Target, name string, seed uint64) []num.Array {
	c, err := t.Cases().Parse(name)
	if err != nil {
		panic(err)
	}
	return t.load(c, seed).inputs()
}

// ScheduledCases returns the names of the cases of a verification in the order in which they run.
func ScheduledCases(t *Target, o Options) (names []string) {
	for _, c := range t.Cases().Schedule(o.request(t)).Cases {
		names = append(names, c.Name(t.Cases()))
	}
	return names
}

// The parts of replays of older reports.
var (
	Resolve          = resolve
	FormerIdentities = formerIdentities
	PatternIdentity  = func(t *Target, name string) string { return t.Cases().PatternIdentity(name) }
)

// Budgeted is budgeted.
func Budgeted(ctx context.Context, budget time.Duration, waited func() time.Duration) (context.Context, context.CancelFunc) {
	return budgeted(ctx, budget, waited)
}

// NewRoom returns the functions of a room.
func NewRoom(most int64) (enter, leave func(int64)) {
	r := newRoom(most)
	return r.enter, r.leave
}

// WorkOfCases returns the work of each case, by its name.
func WorkOfCases(t *Target, o Options) map[string]float64 {
	r := o.request(t)
	works := map[string]float64{}
	for _, c := range t.Cases().Schedule(r).Cases {
		works[c.Name(t.Cases())] = t.Cases().WorkOf(c, r)
	}
	return works
}
