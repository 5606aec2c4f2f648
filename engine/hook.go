package engine

import (
	"sync"

	"tokitai/def"
	"tokitai/engine/internal/hook"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/tensor"
)

func init() {
	hook.Engine = hook.Private[*Queue, *Lowering, Backend]{
		SelfTests: func(d *def.Definition) (names []string) {
			for _, test := range selfTestsOf(d) {
				names = append(names, test.name)
			}
			return names
		},
		SelfTestCalls: func(d *def.Definition, dtypes []num.DType) (calls []*lower.Call) {
			for _, test := range selfTestsOf(d) {
				c := newSelfTestCase(d, dtypes, test)
				calls = append(calls, c.call())
			}
			return calls
		},
		RunSelfTest: (*Queue).runSelfTestNamed,
		Corrupt:     &corrupt, FindAnswer: &findAnswer, Reference: &runReference, CheckedReferences: &checkedReferences,
		Backend: func(q *Queue) *Backend { return &q.backend },
		Plans:   func(q *Queue) int { return len(*q.plans.plans.Load()) },
		Adding:  func(q *Queue) sync.Locker { return &q.plans.adding },
		CheckCopiedIndices: func(d *def.Definition, operands []num.Array, tensors []*tensor.Tensor) error {
			l := &Launch{}
			for i := range operands {
				l.Operands = append(l.Operands, lower.Operand{Array: operands[i]})
			}
			return checkIndices(d, l, tensors)
		},
	}
}

// runSelfTestNamed compiles a lowering and runs one of its self-tests.
func (q *Queue) runSelfTestNamed(l *Lowering, d *def.Definition, dtypes []num.DType, name string) error {
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
