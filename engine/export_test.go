package engine

import (
	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/tensor"
	"tokitai/trial"
)

// SetCorrupt sets the hook that damages outputs of self-tests; nil removes it.
func SetCorrupt(f func(test string, output num.Array)) { corrupt = f }

// SelfTests are the names of a definition's self-tests, in their order.
func SelfTests(d *def.Definition) []string {
	var names []string
	for _, test := range selfTestsOf(d) {
		names = append(names, test.name)
	}
	return names
}

// RunSelfTest compiles a lowering and runs one of its self-tests, in the class
// that the test is of.
func RunSelfTest(q *Queue, l *Lowering, d *def.Definition, dtypes []num.DType, name string) error {
	for _, test := range selfTestsOf(d) {
		if test.name != name {
			continue
		}
		c, class := newSelfTestCase(d, dtypes, test), 0
		if l.Class != nil {
			class = l.Class(d, c.call())
		}
		p := &plan{lowering: l}
		if p.kernel, p.err = q.compile(l, d, dtypes, class); p.err != nil {
			return p.err
		}
		return q.runSelfTest(p, d, test, c)
	}
	panic("no self-test " + name)
}

// SetLowerings replaces the lowerings that a queue's calls may choose for definitions of a
// form.
func SetLowerings(q *Queue, form def.Form, lowerings ...*Lowering) {
	q.backend = otherLowerings{q.backend, form.String(), lowerings}
}

type otherLowerings struct {
	Backend
	form      string
	lowerings []*Lowering
}

func (o otherLowerings) Preferred(d *def.Definition) []*Lowering {
	if d.Form.String() == o.form {
		return o.lowerings
	}
	return o.Backend.Preferred(d)
}

// Plans is how many plans a queue's device has.
func Plans(q *Queue) int { return len(*q.plans.plans.Load()) }

// HoldMaking keeps every plan of the queue's device from being made until the
// function that it returns is called.
func HoldMaking(q *Queue) (release func()) {
	q.plans.adding.Lock()
	return q.plans.adding.Unlock
}

// CheckCopiedIndices checks the indices of tensors as if the host could not address them.
func CheckCopiedIndices(d *def.Definition, operands []num.Array, tensors []*tensor.Tensor) error {
	l := &Launch{}
	for i := range operands {
		l.Operands = append(l.Operands, lower.Operand{Array: operands[i]})
	}
	return checkIndices(d, l, tensors)
}

// ClassesOfSelfTests returns the classes of a lowering whose kernels the self-tests try.
func ClassesOfSelfTests(l *Lowering, d *def.Definition, dtypes []num.DType) map[int]bool {
	classes := map[int]bool{}
	for _, test := range selfTestsOf(d) {
		c := newSelfTestCase(d, dtypes, test)
		classes[l.Class(d, c.call())] = true
	}
	return classes
}

// ClassOf returns the class of a call on dense operands of the given sizes, which begin so many elements
// behind an aligned address.
func ClassOf(l *Lowering, d *def.Definition, dtypes []num.DType, sizes map[string]int, offset int) int {
	operands := trial.New(d, dtypes, sizes, func(int) trial.Layout { return trial.Layout{Offset: offset} })
	c := (&selfTestCase{operands: operands, params: make([]float64, len(d.Params))}).call()
	for i := range c.Operands {
		c.Operands[i].Pointer += uint64(offset * dtypes[i].Size())
	}
	return l.Class(d, c)
}
