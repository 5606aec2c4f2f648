package engine

import (
	"context"
	"fmt"

	"tokitai/def"
	"tokitai/num"
	"tokitai/trial"
)

// admitMany runs all self-tests that a ManyLauncher joins, together.
func (q *Queue) admitMany(p *plan, d *def.Definition, dtypes []num.DType) error {
	inadmissible := func(cause error, reason string) error {
		return &InadmissibleError{Lowering: p.lowering.ID(d), Device: q.device.Name(), Test: "many", Reason: reason, Cause: cause}
	}
	own, err := q.device.NewQueue()
	if err != nil {
		return inadmissible(err, err.Error())
	}
	defer own.Close()
	tester, many := *q, p.kernel.(ManyLauncher)
	tester.queue = own
	var tests []selfTest
	var cases []selfTestCase
	for _, test := range selfTestsOf(d) {
		if c := newSelfTestCase(d, dtypes, test); many.Joins(c.call()) {
			c.fill(test)
			tests, cases = append(tests, test), append(cases, c)
		}
	}
	if len(cases) == 0 {
		return inadmissible(nil, "it joins no self-test")
	}
	after, err := tester.launchCases(many, cases)
	if err != nil {
		return inadmissible(err, err.Error())
	}
	for i := range cases {
		if err := tester.judge(p, d, tests[i], cases[i], after[i], nil); err != nil {
			return err
		}
	}
	return nil
}

// launchCases runs cases to their end, in one launch, and returns what they left.
func (q *Queue) launchCases(k ManyLauncher, cases []selfTestCase) ([]*trial.Operands, error) {
	var placed []*trial.Placed
	var launches []*Launch
	defer func() {
		for _, p := range placed {
			p.Close()
		}
	}()
	for i := range cases {
		p, l, err := q.placeCase(&cases[i])
		if err != nil {
			return nil, err
		}
		placed, launches = append(placed, p), append(launches, l)
	}
	err := launchManyRecovering(k, launches)
	if err == nil {
		err = q.queue.Wait(context.Background())
	}
	if err != nil {
		return nil, err
	}
	var after []*trial.Operands
	for _, p := range placed {
		x, err := p.Read()
		if err != nil {
			return nil, err
		}
		after = append(after, x)
	}
	return after, nil
}

// launchManyRecovering turns a kernel's panic into an error.
func launchManyRecovering(k ManyLauncher, ls []*Launch) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the kernel panicked: %v", r)
		}
	}()
	return k.LaunchMany(ls)
}
