package cases_test

import (
	"slices"
	"sync"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/all"
	"tokitai/promise"
	"tokitai/trial"
	"tokitai/verify"
	"tokitai/verify/cases"
)

// cpuTargets returns the targets of a verification of the CPU.
func cpuTargets() []*verify.Target { return slices.Clone(sharedTargets()) }

var sharedTargets = sync.OnceValue(func() []*verify.Target {
	return slices.DeleteFunc(verify.Targets(all.Operations, cpu.Backend), func(x *verify.Target) bool {
		return slices.Contains(cpu.Backend.OnDemand(x.Definition), x.Lowering)
	})
})

// quick returns the cases of level quick, for reading: tests share those of seed 0.
func quick(x *verify.Target, seed uint64) []*cases.Case {
	list := func() []*cases.Case { return x.Cases().List(&cases.Request{Level: cases.Quick, Seed: seed}) }
	if seed != 0 {
		return list()
	}
	shared, _ := quickCases.LoadOrStore(x, sync.OnceValue(list))
	return shared.(func() []*cases.Case)()
}

var quickCases sync.Map // by target

// someOf returns all targets or, at level smoke, some of every kind.
func someOf(targets []*verify.Target) []*verify.Target {
	var list []*verify.Target
	for i := 0; i < len(targets); i += testlevel.Pick(26, 1) {
		list = append(list, targets[i])
	}
	return list
}

// kernel is a lowering that is never run.
func kernel(name promise.Name) *engine.Lowering {
	l := &engine.Lowering{Name: "test.kernel", Device: "cpu"}
	l.Promise.Name = name
	return l
}

// target makes a target of a definition of op/all, with its operation's patterns.
func target(d *def.Definition, dtype num.DType, l *engine.Lowering) *verify.Target {
	t := &verify.Target{Definition: d, DType: dtype, Lowering: l}
	for _, o := range all.Operations {
		if t.Operation == nil && slices.Contains(o.Definitions, d) {
			t.Operation = o
		}
	}
	return t
}

// patternNames returns the names of a target's patterns; grids are those whose sums are exact.
func patternNames(x *verify.Target) (all, grids []string) {
	for _, p := range x.Cases().Patterns() {
		if all = append(all, p.Name); p.IsGrid {
			grids = append(grids, p.Name)
		}
	}
	return all, grids
}

// indices returns an index operand's values in a case.
func indices(x *verify.Target, c *cases.Case, operand string) []int32 {
	operands := trial.New(x.Definition, c.Formats, c.Lengths(), func(int) trial.Layout { return trial.Layout{} }).Arrays()
	x.Cases().Fill(c, 0, operands)
	a := operands[x.Definition.Operand(operand)]
	list := make([]int32, a.Rows)
	for r := range list {
		list[r] = a.Int(r, 0)
	}
	return list
}
