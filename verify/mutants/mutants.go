// Package mutants makes and judges kernels that are wrong on purpose, each with one fault
// that people have made, and unusual kernels that are right. The verifier must reject the
// first and accept the second. The kernels of an operation are in its folder
// (op/softmax/mutants_test.go), so that programs do not link them; [Test] judges them there,
// and docs/mutants.md shows the outcomes, beside those of the checks in use today.
//
// A kernel is a [Plain]: it loads its inputs as binary32, computes, and stores. A fault
// replaces one of its parts. There are two kinds of correct kernels to break: the reference
// itself, for lowerings that promise bits, and kernels with another order of additions
// (kernels.go), for lowerings that promise to stay in the admissible set.
//
// Start reading at [List]; then take any operation's mutants_test.go.
package mutants

import (
	"slices"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/promise"
)

// Mutant is a kernel to be judged.
type Mutant struct {
	Name       string // unique among all: definition, dtype, fault
	Fault      string // what is wrong, or for a variant what is different
	Origin     string // where the mistake is known from
	Operation  *op.Operation
	Definition *def.Definition
	DType      num.DType
	Lowering   *engine.Lowering
	Level      Level // at which the verifier sees the fault
	IsFailing  bool  // it ends in an error: inadmissible, without being rejected

	peers func(Parts) map[*def.Definition]func(*Call)
}

// Level is the least level of verification that has a case for a fault.
type Level uint8

const (
	Smoke Level = iota
	Quick
)

func (l Level) String() string { return [...]string{"smoke", "quick"}[l] }

// Origins that many mutants share.
const (
	KernelPractice = "kernel practice"
	Simulated      = "simulation"
	ZerosPass      = "KernelBench#165"
	TenCalls       = "llm.c#852"
	TwiceWrong     = "rocm-libraries#8043"
)

// Contract is the promise of a lowering.
type Contract struct {
	isBounded bool
	order     def.Order
	isIEEE    bool
}

func (c Contract) promise() promise.Name {
	if c.isBounded {
		return promise.Ordered
	}
	return promise.Bits
}

// The contracts of mutants: the reference's bits, or the admissible set of an order.
var (
	PromisesBits = Contract{}
	AnyOrder     = Contract{isBounded: true}
	Sequential   = Contract{isBounded: true, order: def.Sequential}
	Lanes16      = Contract{isBounded: true, order: def.Order{Kind: def.Lanes, Width: 16}}
	Lanes128     = Contract{isBounded: true, order: def.Order{Kind: def.Lanes, Width: 128}}
	chunks32     = Contract{isBounded: true, order: def.Order{Kind: def.Chunks, Width: 32}}
	Pairwise     = Contract{isBounded: true, order: def.Order{Kind: def.Pairwise}}
)

// IEEE returns the contract with the further promise that every step of the definition is
// taken and correctly rounded.
func (c Contract) IEEE() Contract {
	c.isIEEE = true
	return c
}

// List collects the kernels of an operation's folder.
type List struct {
	All   []Mutant
	Level Level // of the mutants that follow

	operations []*op.Operation
	d          *def.Definition
	dtype      num.DType
	origin     string
}

// NewList returns an empty list of kernels for the definitions of the operations.
func NewList(operations []*op.Operation) *List { return &List{operations: operations} }

// Of sets the definition and the format of the mutants that follow.
func (l *List) Of(d *def.Definition, dtype num.DType) { l.d, l.dtype = d, dtype }

// From sets the origin of the mutants that follow.
func (l *List) From(origin string) { l.origin = origin }

// Add adds a mutant. The fault's name is lower case with hyphens.
func (l *List) Add(name, fault string, c Contract, k Kernel) {
	d := l.d
	i := slices.IndexFunc(l.operations, func(o *op.Operation) bool { return slices.Contains(o.Definitions, d) })
	if i < 0 {
		panic("mutants: no operation has definition " + d.Name)
	}
	l.All = append(l.All, Mutant{
		Name: d.Name + "/" + l.dtype.String() + "/" + name, Fault: fault, Origin: l.origin,
		Operation: l.operations[i], Definition: d, DType: l.dtype, Level: l.Level,
		Lowering: &engine.Lowering{
			Name: "mutant." + name, Device: "cpu",
			IsBounded: c.isBounded, Promise: c.promise(), Order: c.order, IsIEEE: c.isIEEE,
			Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
				run := k.start()
				return engine.KernelFunc(func(l *engine.Launch) error { return run(newCall(d, l)) }), nil
			},
		},
	})
}

// AddFailing adds a mutant that ends in an error.
func (l *List) AddFailing(name, fault string, c Contract, k Kernel) {
	l.Add(name, fault, c, k)
	l.All[len(l.All)-1].IsFailing = true
}
