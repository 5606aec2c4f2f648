package engine_test

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/engine/internal/hook"
	"tokitai/internal/answers"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/trial"
)

// private is what package engine keeps to itself.
var private = hook.Engine.(hook.Private[*engine.Queue, *engine.Lowering, engine.Backend])

// setFindAnswer replaces the committed answers, and returns a function that puts them back.
func setFindAnswer(f func(definition string, formats []num.DType, test string) (answers.Answer, bool, error)) (restore func()) {
	*private.FindAnswer = f
	return func() { *private.FindAnswer = answers.Find }
}

// setReference replaces the reference in self-tests, and returns a function that puts it back.
func setReference(f func(*def.Definition, []num.Array, reference.Options) error) (restore func()) {
	*private.Reference = f
	private.CheckedReferences.Clear()
	return func() { *private.Reference = reference.Run }
}

// setCorrupt sets what damages outputs of self-tests; nil removes it.
func setCorrupt(f func(test string, output num.Array)) { *private.Corrupt = f }

// setLowerings replaces the lowerings that a queue's calls may choose for definitions of a form.
func setLowerings(q *engine.Queue, form def.Form, lowerings ...*engine.Lowering) {
	b := private.Backend(q)
	*b = otherLowerings{*b, form.String(), lowerings}
}

type otherLowerings struct {
	engine.Backend
	form      string
	lowerings []*engine.Lowering
}

func (o otherLowerings) Preferred(d *def.Definition) []*engine.Lowering {
	if d.Form.String() == o.form {
		return o.lowerings
	}
	return o.Backend.Preferred(d)
}

// classesOfSelfTests returns the classes of a lowering whose kernels the self-tests try.
func classesOfSelfTests(l *engine.Lowering, d *def.Definition, dtypes []num.DType) map[int]bool {
	classes := map[int]bool{}
	for _, c := range private.SelfTestCalls(d, dtypes) {
		classes[l.Class(d, c)] = true
	}
	return classes
}

// classOf returns the class of a call on dense operands of the given sizes, which begin so many elements
// behind an aligned address.
func classOf(l *engine.Lowering, d *def.Definition, dtypes []num.DType, sizes map[string]int, offset int) int {
	c := &lower.Call{Params: make([]float64, len(d.Params))}
	for i, a := range trial.New(d, dtypes, sizes, func(int) trial.Layout { return trial.Layout{Offset: offset} }).Arrays() {
		c.Operands = append(c.Operands, lower.Operand{Array: a, Pointer: trial.GuardBytes + uint64(offset*dtypes[i].Size())})
	}
	c.Measure(d)
	return l.Class(d, c)
}
