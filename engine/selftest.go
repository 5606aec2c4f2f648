package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"tokitai/def"
	"tokitai/internal/answers"
	"tokitai/internal/gen"
	"tokitai/internal/tensorcore"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial"
)

// A self-test is a small case, derived from a definition, that a compiled kernel
// has to compute with the reference's bits before its first use. Together the
// cases reach the tails of chunks and lanes, special values, gaps between rows,
// and outputs in the place of inputs. They stay below 10⁵ elements an operand.
type selfTest struct {
	name    string
	sizes   map[string]int
	values  func(*gen.Generator) float32
	gap     int              // elements between rows of every other operand, the first among them
	isOdd   bool             // of the others instead
	inPlace bool             // element outputs take the place of element inputs
	kind    *tensorcore.Kind // of factors and old results, instead of values
}

// selfTestsOf lists the cases of a definition. Sizes are those of its matrix axes: rows and columns,
// and between them the length of a product or the rows that an index chooses from.
func selfTestsOf(d *def.Definition) []selfTest {
	ordinary, special := (*gen.Generator).Ordinary, (*gen.Generator).Special
	of := func(n ...int) map[string]int { return testSizes(d, n) }
	switch d.Access() {
	case def.AlongRows:
		tests := []selfTest{}
		for _, c := range []int{1, 7, 255, 257, 515, 1027, 2049} {
			tests = append(tests, selfTest{name: fmt.Sprintf("C=%d", c), sizes: of(2, c), values: ordinary})
		}
		if slices.ContainsFunc(d.Exec().Nodes, comparesElements) {
			tests = append(tests,
				selfTest{name: "ties", sizes: of(40, 37), values: ties},
				selfTest{name: "ties-wide", sizes: of(5, 2051), values: ties},
			)
		}
		if slices.ContainsFunc(d.Operands, mayBeFP8) { // rows of one byte for each element at multiples of 16
			tests = append(tests, selfTest{name: "aligned", sizes: of(2, 528), values: ordinary})
		}
		return append(tests,
			selfTest{name: "special", sizes: of(40, 9), values: special},
			selfTest{name: "rarely-special", sizes: of(40, 9), values: rarelySpecial},
			selfTest{name: "strided", sizes: of(3, 261), values: ordinary, gap: 3},
			selfTest{name: "strided-others", sizes: of(3, 261), values: ordinary, gap: 3, isOdd: true},
			selfTest{name: "in-place", sizes: of(2, 520), values: ordinary, inPlace: true},
			selfTest{name: "tall", sizes: of(521, 3), values: ordinary},
			selfTest{name: "long", sizes: of(1, 1<<16+515), values: ordinary},
		)
	case def.OfSequence:
		return []selfTest{
			{name: "one", sizes: of(1, 1, 1), values: ordinary},
			{name: "blocks", sizes: of(9, 260, 7), values: ordinary},
			{name: "segments", sizes: of(3, 1100, 9), values: ordinary},
			{name: "tiles", sizes: of(70, 70, 33), values: ordinary},
			{name: "special", sizes: of(9, 15, 9), values: special},
			{name: "rarely-special", sizes: of(24, 40, 4), values: rarelySpecial},
			{name: "strided", sizes: of(6, 9, 5), values: ordinary, gap: 3},
			{name: "strided-others", sizes: of(6, 9, 5), values: ordinary, gap: 3, isOdd: true},
			// Rows at multiples of 16 bytes, for kernels that need them.
			{name: "aligned", sizes: of(40, 136, 64), values: ordinary},
			{name: "aligned-rarely-special", sizes: of(24, 40, 32), values: rarelySpecial},
			{name: "aligned-strided", sizes: of(20, 72, 32), values: ordinary, gap: 8},
			{name: "aligned-strided-others", sizes: of(8, 80, 128), values: ordinary, gap: 8, isOdd: true},
		}
	case def.OfProducts:
		return []selfTest{
			{name: "one", sizes: of(1, 1, 1), values: ordinary},
			{name: "tails", sizes: of(5, 257, 7), values: ordinary},
			{name: "tiles", sizes: of(66, 3, 131), values: ordinary},
			{name: "special", sizes: of(9, 5, 9), values: special},
			{name: "rarely-special", sizes: of(9, 5, 9), values: rarelySpecial},
			{name: "strided", sizes: of(6, 9, 5), values: ordinary, gap: 3},
			{name: "strided-others", sizes: of(6, 9, 5), values: ordinary, gap: 3, isOdd: true},
			// Rows at multiples of 16 bytes, for kernels that need them.
			{name: "aligned", sizes: of(136, 72, 264), values: ordinary},
			{name: "aligned-special", sizes: of(16, 8, 24), values: special},
			{name: "aligned-rarely-special", sizes: of(16, 40, 24), values: rarelySpecial},
			{name: "aligned-strided", sizes: of(72, 136, 40), values: ordinary, gap: 8},
			{name: "aligned-strided-others", sizes: of(8, 80, 136), values: ordinary, gap: 8, isOdd: true},
		}
	}
	return []selfTest{
		{name: "one", sizes: of(1, 1, 1), values: ordinary},
		{name: "duplicates", sizes: of(300, 3, 7), values: ordinary},
		{name: "wide", sizes: of(9, 70, 515), values: ordinary},
		{name: "special", sizes: of(40, 5, 9), values: special},
		{name: "rarely-special", sizes: of(40, 5, 9), values: rarelySpecial},
		{name: "strided", sizes: of(6, 5, 9), values: ordinary, gap: 3},
		{name: "strided-others", sizes: of(6, 5, 9), values: ordinary, gap: 3, isOdd: true},
	}
}

// tensorCoreTests lists further cases of contractions under models of tensor cores: the kinds of
// data on which an H200's instructions were held to theirs, with every special value, exponents
// that lie far apart, subnormals, and sums that cancel, underflow and overflow.
func tensorCoreTests(d *def.Definition, factors num.DType) []selfTest {
	var tests []selfTest
	for i := range tensorcore.KindsOf(factors) {
		kind := &tensorcore.KindsOf(factors)[i]
		tests = append(tests, selfTest{name: "tensor-cores-" + kind.Name, sizes: testSizes(d, []int{16, 48, 32}), values: (*gen.Generator).Ordinary, kind: kind})
	}
	return tests
}

// testSizes returns the sizes of a test, given those of the matrix axes. There are several matrices
// along each batch axis, and several groups; a test of one element has one of each.
func testSizes(d *def.Definition, matrix []int) map[string]int {
	sizes := map[string]int{}
	for i, a := range d.MatrixAxes() {
		if i < len(matrix) {
			sizes[a.Letter] = matrix[i]
		}
	}
	isOne := !slices.ContainsFunc(matrix, func(n int) bool { return n != 1 })
	for i, letter := range d.Sizes() {
		if _, isKnown := sizes[letter]; !isKnown {
			if sizes[letter] = 2 + i%2; isOne {
				sizes[letter] = 1
			}
		}
		sizes[letter] = d.FitSize(letter, sizes[letter])
	}
	return sizes
}

// layout returns where an operand of the test is. In strided tests, every other stack has
// its matrices between each other's rows, as heads are, and other inputs repeat theirs.
func (test *selfTest) layout(o *def.Operand, i int) trial.Layout {
	var l trial.Layout
	if (i%2 == 1) == test.isOdd {
		l.Gap = test.gap
	}
	n := len(o.BatchDims())
	switch {
	case n == 0 || test.gap == 0:
	case l.Gap > 0:
		l.Order = []int{n}
		for axis := range n {
			l.Order = append(l.Order, axis)
		}
	case !o.IsOut:
		l.IsRepeated = make([]bool, n)
		l.IsRepeated[0] = true
	}
	return l
}

// rarelySpecial leaves most rows and sums without a special value: where half of
// the values are special, nearly every reduction is NaN.
func rarelySpecial(g *gen.Generator) float32 {
	if g.Below(24) == 0 {
		return g.Special()
	}
	return g.Ordinary()
}

// comparesElements reports whether a node depends on which elements of a row are larger.
func comparesElements(n *def.Node) bool {
	return n.Op == def.OpRowArgMax || n.Op == def.OpRowArgMin || n.Op.IsOrdering()
}

// ties has few values, mostly zeros of both signs, so that extremes are in several
// columns, equal or not in their bits; rarely there is a special one.
func ties(g *gen.Generator) float32 {
	if g.Below(4000) == 0 {
		return g.Special()
	}
	switch g.Below(60) {
	case 0:
		return 1
	case 1:
		return -1
	}
	return float32(math.Copysign(0, float64(g.Below(2))-0.5))
}

// What tests replace, to show that a self-test can fail: corrupt may damage outputs
// before they are compared, the others stand for the committed answers and the
// reference.
var (
	corrupt      func(test string, output num.Array)
	findAnswer   = answers.Find
	runReference = reference.Run
)

// Admit compiles and admits the lowering that calls of d on operands in these
// formats would choose, for every class of shapes that its self-tests reach, and
// returns it.
func Admit(q *Queue, d *def.Definition, dtypes []num.DType, opts ...CallOption) (*Lowering, error) {
	if err := checkCall(q, d, "engine.Admit"); err != nil {
		return nil, err
	}
	if len(dtypes) != len(d.Operands) {
		return nil, bad(d, "call", fmt.Sprintf("has %d formats", len(dtypes)), fmt.Sprint(len(d.Operands)))
	}
	s := q.settings
	apply(&s, opts)
	if err := s.check(d); err != nil {
		return nil, err
	}
	var chosen *Lowering
	for _, test := range selfTestsOf(d) {
		c := newSelfTestCase(d, dtypes, test)
		p, err := q.plan(d, &s, c.call())
		if _, isUnsuited := errors.AsType[*UnsuitedError](err); isUnsuited {
			continue
		}
		if err != nil {
			return nil, err
		}
		chosen = p.lowering
	}
	if chosen == nil {
		return nil, bad(d, "lowering", s.lowering+" computes none of the self-tests", "")
	}
	return chosen, nil
}

func mayBeFP8(o def.Operand) bool { return slices.ContainsFunc(o.DTypes.Allowed, num.DType.IsFP8) }

// admit runs the self-tests that the kernel of the plan's class has to pass.
func (q *Queue) admit(p *plan, d *def.Definition, dtypes []num.DType, class int) error {
	own, err := q.device.NewQueue() // what other calls on q came to is not this kernel's fault
	if err != nil {
		return &InadmissibleError{Lowering: p.lowering.ID(d), Device: q.device.Name(), Reason: err.Error(), Cause: err}
	}
	defer own.Close()
	tester := *q
	tester.queue = own
	ran := 0
	tests := selfTestsOf(d)
	if claim := &p.lowering.Promise; d.Multiplies() && claim.IsBits() && (claim.AccumFor != nil || claim.Accum != def.FMAChain) {
		tests = append(tests, tensorCoreTests(d, dtypes[0])...)
	}
	for _, test := range tests {
		c := newSelfTestCase(d, dtypes, test)
		if l := p.lowering; l.Class != nil && !l.ClassesOfSpeed && l.Class(d, c.call()) != class {
			continue
		}
		if l := p.lowering; l.Suits != nil && l.Suits(q.device, d, c.call()) != nil {
			continue
		}
		ran++
		if err := tester.runSelfTest(p, d, test, c); err != nil {
			return err
		}
		if err := tester.testRejection(p, d, test, c); err != nil {
			return err
		}
	}
	if ran == 0 {
		return &InadmissibleError{Lowering: p.lowering.ID(d), Device: q.device.Name(), Reason: fmt.Sprintf("no self-test reaches its class %d", class)}
	}
	return nil
}

// SelfTestCase is a self-test with its data, for those who recompute its answer.
type SelfTestCase struct {
	Name     string
	Operands []num.Array // in the order of the definition
	Params   []float64   // in the order of the definition
}

// SelfTestCases lists the self-tests of a definition whose operands are stored in
// these formats.
func SelfTestCases(d *def.Definition, dtypes []num.DType) []SelfTestCase {
	var cases []SelfTestCase
	for _, test := range selfTestsOf(d) {
		cases = append(cases, newSelfTestData(d, dtypes, test))
	}
	return cases
}

func newSelfTestData(d *def.Definition, dtypes []num.DType, test selfTest) SelfTestCase {
	c := newSelfTestCase(d, dtypes, test)
	c.fill(test)
	return SelfTestCase{Name: test.name, Operands: c.operands.Copies(), Params: c.params}
}

// checkedReferences holds the definitions and formats for which the reference has reproduced the
// known answers in this process.
var checkedReferences sync.Map

// CheckReference has the reference reproduce the known answers of a shipped definition:
// whoever judges by it should know that it computes right on this machine. A definition
// without known answers passes. What has passed is not computed again.
func CheckReference(d *def.Definition, dtypes []num.DType) error {
	key := fmt.Sprint(d.Hash(), dtypes)
	if _, isChecked := checkedReferences.Load(key); isChecked {
		return nil
	}
	for _, test := range selfTestsOf(d) {
		answer, isKnown, err := findAnswer(d.Hash(), dtypes, test.name)
		switch {
		case err != nil:
			return err
		case !isKnown:
			continue
		}
		c := newSelfTestData(d, dtypes, test)
		if got := trial.AnswerInputs(d, c.Operands, c.Params); got != answer.Inputs {
			return fmt.Errorf("%s: self-test %s: its inputs have hash %v, want %v: this machine does not generate them right", d.Name, c.Name, got, answer.Inputs)
		}
		if err := runReference(d, c.Operands, reference.Options{Params: c.Params}); err != nil {
			return fmt.Errorf("%s: self-test %s: the reference refused: %w", d.Name, c.Name, err)
		}
		if got := trial.AnswerOutputs(d, c.Operands); got != answer.Outputs {
			return fmt.Errorf("%s: self-test %s: the reference does not reproduce the known answer on this machine: its outputs have hash %v, want %v", d.Name, c.Name, got, answer.Outputs)
		}
	}
	checkedReferences.Store(key, true)
	return nil
}

// selfTestCase is a self-test with its data: the operands before the call.
type selfTestCase struct {
	operands *trial.Operands
	params   []float64
}

// newSelfTestCase lays out the operands; fill gives them values.
func newSelfTestCase(d *def.Definition, dtypes []num.DType, test selfTest) selfTestCase {
	c := selfTestCase{operands: trial.New(d, dtypes, test.sizes, func(i int) trial.Layout { return test.layout(&d.Operands[i], i) })}
	for out := range d.Operands {
		for in := range d.Operands {
			if test.inPlace && c.operands.Replace(out, in) {
				break
			}
		}
	}
	for i, p := range d.Params {
		v := float64(i+1) * 0.171875
		if p.IsInt {
			v = p.Range.Clamp(float64(i + 1))
			if choices := int(p.Range.High-p.Range.Low) + 1; p.Range.IsLimited && choices < 8 { // so that tests try each
				v = p.Range.Low + float64((test.sizes["R"]+test.sizes["C"]/2)%choices)
			}
		}
		c.params = append(c.params, v)
	}
	return c
}

// call returns a call on the operands, at addresses as they would have in a device's
// memory: behind a guard.
func (c *selfTestCase) call() *lower.Call {
	call := &lower.Call{Params: slices.Clone(c.params)}
	for _, a := range c.operands.Arrays() {
		call.Operands = append(call.Operands, lower.Operand{Array: a, Pointer: trial.GuardBytes})
	}
	call.Measure(c.operands.Definition)
	return call
}

// fill generates the inputs. What must be overwritten starts as guards.
func (c *selfTestCase) fill(test selfTest) {
	d := c.operands.Definition
	g := gen.New(d.Name + "/" + test.name)
	at := uint32(0) // elements of kinds
	for i := range d.Operands {
		switch o, a := &d.Operands[i], c.operands.Array(i); {
		case !o.IsIn:
		case test.kind != nil && i < 2:
			trial.FillBits(a, func(int, int) uint32 { at++; return test.kind.Factor(a.DType, at) })
		case o.IsOffsets:
			n := test.sizes[o.Bound]
			trial.FillOffsets(a, n, func(int) int { return g.Below(n + 1) }) // a group may be empty
		case test.kind != nil && i == 2:
			trial.Fill(a, func(int, int) float32 { at++; return math.Float32frombits(test.kind.Accumulator(at)) })
		case o.IsLengths || o.Lengths != "":
			trial.FillIndex(d, i, c.operands.Arrays(), func(letter string) int { return test.sizes[letter] }, func(_, _, limit int) int { return g.Below(limit) })
		case o.IsIndex: // mostly valid, some beyond both ends
			trial.FillBits(a, func(int, int) uint32 { return uint32(int32(g.Below(test.sizes[o.Bound]+2)) - 1) })
		case o.IsInt() && a.DType == num.I32:
			trial.FillBits(a, func(int, int) uint32 { return uint32(g.Int32()) })
		default:
			trial.Fill(a, func(int, int) float32 { return test.values(g) })
		}
	}
}

// runSelfTest launches the kernel and judges what it has done.
func (q *Queue) runSelfTest(p *plan, d *def.Definition, test selfTest, c selfTestCase) error {
	c.fill(test)
	after, err := q.launchCase(p.kernel, &c)
	return q.judge(p, d, test, c, after, err)
}

// judge judges what a kernel has done: by the committed answer where there is one, otherwise
// by the reference; a lowering that promises no bits by what it may give.
func (q *Queue) judge(p *plan, d *def.Definition, test selfTest, c selfTestCase, after *trial.Operands, failure error) error {
	inadmissible := func(cause error, format string, args ...any) error {
		return &InadmissibleError{Lowering: p.lowering.ID(d), Device: q.device.Name(), Test: test.name, Reason: fmt.Sprintf(format, args...), Cause: cause}
	}
	before := c.operands
	answer, isKnown, err := findAnswer(d.Hash(), before.DTypes(), test.name)
	if err != nil {
		return inadmissible(err, "%v", err)
	}
	if isKnown {
		if got := trial.AnswerInputs(d, before.Arrays(), c.params); got != answer.Inputs {
			return inadmissible(nil, "its inputs have hash %v, want %v: this machine does not generate them right", got, answer.Inputs)
		}
	}
	if failure != nil {
		return inadmissible(failure, "%v", failure)
	}
	if corrupt != nil {
		for i := range d.Operands {
			if d.Operands[i].IsOut {
				corrupt(test.name, after.Array(i))
			}
		}
	}
	if b := after.Breach(before); b != nil {
		return inadmissible(nil, "%s", b)
	}
	if !p.lowering.Promise.IsBits() {
		reason, err := c.judgeBounded(p.lowering, q.accumOf(p.lowering, d, c.call()), after.Arrays())
		if reason == "" && err == nil {
			reason, err = q.unwritten(p.lowering, p.kernel, c, after)
		}
		switch {
		case err != nil:
			return inadmissible(err, "%v", err)
		case reason != "":
			return inadmissible(nil, "%s", reason)
		}
		return nil
	}
	accum := q.accumOf(p.lowering, d, c.call())
	isKnown = isKnown && accum == def.FMAChain
	if isKnown && trial.AnswerOutputs(d, after.Arrays()) == answer.Outputs {
		return nil
	}
	want, err := c.answer(accum)
	if err != nil {
		return inadmissible(err, "the reference refused: %v", err)
	}
	var reasons []string
	if f := after.Difference(want); f != nil {
		reasons = append(reasons, f.String())
	}
	if h := trial.AnswerOutputs(d, want); isKnown && h != answer.Outputs {
		reasons = append(reasons, fmt.Sprintf("the reference does not reproduce the known answer on this machine: its outputs have hash %v, want %v", h, answer.Outputs))
	}
	if reasons != nil {
		return inadmissible(nil, "%s", strings.Join(reasons, "; "))
	}
	return nil
}

// answer returns the reference's outputs for the case.
func (c *selfTestCase) answer(m def.Accum) ([]num.Array, error) {
	operands := c.operands.Copies()
	return operands, runReference(c.operands.Definition, operands, reference.Options{Params: c.params, Accum: m})
}

// launchCase runs the kernel to its end, in the device's memory, and returns what it left,
// also with an IndexError.
func (q *Queue) launchCase(k Kernel, c *selfTestCase) (*trial.Operands, error) {
	placed, l, err := q.placeCase(c)
	if err != nil {
		return nil, err
	}
	defer placed.Close()
	launched := launchRecovering(k, l)
	if launched == nil {
		launched = q.queue.Wait(context.Background())
	}
	if _, isRejected := errors.AsType[*IndexError](launched); launched != nil && !isRejected {
		return nil, launched
	}
	after, err := placed.Read()
	if err != nil {
		return nil, err
	}
	return after, launched
}

// placeCase copies the operands to the device's memory.
func (q *Queue) placeCase(c *selfTestCase) (*trial.Placed, *Launch, error) {
	placed, err := c.operands.Place(q.device)
	if err != nil {
		return nil, nil, err
	}
	tensors, err := placed.Tensors()
	if err != nil {
		placed.Close()
		return nil, nil, err
	}
	l := &Launch{Call: *c.call(), Context: context.Background(), Device: q.device, Queue: q.queue}
	for i, t := range tensors {
		buffer, _, array := placed.At(i)
		l.Buffers = append(l.Buffers, buffer)
		l.Operands[i] = lower.Operand{Array: array, Pointer: t.Pointer()}
	}
	return placed, l, nil
}

// launchRecovering turns a kernel's panic into an error: an untested kernel may do
// anything. The kernel gets a copy of l that is cleared when it returns, as that of a call
// is: one that retains it fails here.
func launchRecovering(k Kernel, l *Launch) (err error) {
	lent := *l
	lent.Operands, lent.Params, lent.Buffers = slices.Clone(l.Operands), slices.Clone(l.Params), slices.Clone(l.Buffers)
	operands, params, buffers := lent.Operands, lent.Params, lent.Buffers
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the kernel panicked: %v", r)
		}
		clear(operands)
		clear(params)
		clear(buffers)
		lent = Launch{}
	}()
	return k.Launch(&lent)
}
