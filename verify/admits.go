package verify

import (
	"context"
	"fmt"

	"tokitai/num"
	"tokitai/op"
	"tokitai/trial"
	"tokitai/verify/cases"
)

// Usual returns the first kind of data of the target's operation. If it has none for the
// definition, Usual returns the usual parameters and normally distributed values.
func (t *Target) Usual() op.Data {
	if list := t.Cases().Data(); len(list) > 0 {
		return list[0]
	}
	return op.Data{Name: "normal", Definition: t.Definition, Params: t.Cases().UsualParams()}
}

// Formats returns the usual formats of the operands in the target's format.
func (t *Target) Formats() []num.DType { return t.formats()[0] }

// Admits judges whether each output of the target's kernel is one that its promise admits for the
// operands as they were before the call. It returns the number of outputs judged, and what is wrong
// with the first inadmissible one, or "".
func (t *Target) Admits(ctx context.Context, before, after []num.Array, params []float64, waived []string) (judged int64, wrong string, err error) {
	if err := t.check(); err != nil {
		return 0, "", err
	}
	operands := trial.Wrap(t.Definition, before)
	l := &loaded{target: t, c: &cases.Case{Formats: operands.DTypes()}, params: params, operands: operands}
	j, err := t.judge(ctx, l, &outcome{after: trial.Wrap(t.Definition, after), operands: after}, manner{waived: waived})
	if err != nil || j.first == nil {
		return j.elements(), "", err
	}
	f := l.failureOf(j.first)
	return j.Elements, fmt.Sprintf("%s is %s, want %s", f.Place, f.Got, f.Want), nil
}

// elements returns the number of elements, which is 0 for a nil judgement.
func (j *judgement) elements() int64 {
	if j == nil {
		return 0
	}
	return j.Elements
}
