// Package mutants makes and judges kernels that are wrong on purpose, each with one fault
// that people have made, and unusual kernels that are right. The verifier must reject the
// first and accept the second. The kernels of an operation are in its folder
// (op/softmax/mutants_test.go), so that programs do not link them; [Test] judges them there,
// and docs/mutants.md shows the outcomes, beside those of the checks in use today.
//
// A kernel is a [Plain]: it loads its inputs as binary32, computes, and stores. A fault
// replaces one of its parts. There are two kinds of correct kernels to break: the reference
// itself, for lowerings that promise bits, and kernels with another order of additions
// (kernels.go), for lowerings that promise to stay in the admissible set. Kernels that promise
// to be stable (op/softmax/stable_test.go) are written in other algebra, with functions whose
// errors they declare (approximate.go). Cheats (cheats.go) are right where somebody looks.
//
// Start reading at [List]; then take any operation's mutants_test.go.
package mutants

import (
	"fmt"
	"slices"
	"strings"

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
	IsCheat    bool  // it is right where somebody looks

	kernel   Kernel
	contract string
	peers    func(Parts) map[*def.Definition]func(*Call)
}

// Level is the least level of verification that has a case for a fault. No level has one for
// a fault that is out of reach.
type Level uint8

const (
	Smoke Level = iota
	Quick
	Full
	Never
)

func (l Level) String() string { return [...]string{"smoke", "quick", "full", "never"}[l] }

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
	isStable  bool
	order     def.Order
	isIEEE    bool
	text      string // of what is declared
	declares  promise.Declaration
}

func (c Contract) promise() promise.Name {
	switch {
	case c.isStable:
		return promise.Stable
	case c.isBounded:
		return promise.Ordered
	}
	return promise.Bits
}

// The contracts of mutants: the reference's bits, the admissible set of an order, or that of
// any stable form.
var (
	PromisesBits = Contract{}
	AnyOrder     = Contract{isBounded: true}
	Sequential   = Contract{isBounded: true, order: def.Sequential}
	Lanes16      = Contract{isBounded: true, order: def.Order{Kind: def.Lanes, Width: 16}}
	Lanes128     = Contract{isBounded: true, order: def.Order{Kind: def.Lanes, Width: 128}}
	chunks32     = Contract{isBounded: true, order: def.Order{Kind: def.Chunks, Width: 32}}
	Pairwise     = Contract{isBounded: true, order: def.Order{Kind: def.Pairwise}}
	Stable       = Contract{isBounded: true, isStable: true}
)

// Declaring returns promise stable with what the text declares, in the words of the command
// line.
func Declaring(text string) Contract {
	d, order, err := promise.ParseDeclaration(text)
	if err != nil {
		panic(fmt.Sprintf("mutants: %v", err))
	}
	c := Stable
	c.text, c.declares, c.order = text, d, order
	return c
}

// IEEE returns the contract with the further promise that every step of the definition is
// taken and correctly rounded.
func (c Contract) IEEE() Contract {
	c.isIEEE = true
	return c
}

// String returns what is promised, as documents have it.
func (c Contract) String() string {
	switch {
	case !c.isBounded:
		return "bits"
	case c.isStable && c.text != "":
		return "stable, " + c.text
	case c.isStable:
		return "stable"
	case c.isIEEE:
		return c.order.String() + ", every step rounded"
	}
	return c.order.String()
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
		Operation: l.operations[i], Definition: d, DType: l.dtype, Level: l.Level, kernel: k, contract: c.String(),
		Lowering: &engine.Lowering{
			Name: "mutant." + name, Device: "cpu",
			IsBounded: c.isBounded, Promise: c.promise(), Declares: c.declares, Order: c.order, IsIEEE: c.isIEEE,
			Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
				run := k.start()
				return engine.KernelFunc(func(l *engine.Launch) error { return run(newCall(d, l)) }), nil
			},
		},
	})
}

// AddAll adds a mutant in each of the formats of a definition.
func (l *List) AddAll(d *def.Definition, name, fault string, c Contract, k Kernel) {
	for _, dtype := range num.FloatDTypes {
		if slices.ContainsFunc(d.Formats(), func(f []num.DType) bool { return d.Format(f) == dtype }) {
			l.Of(d, dtype)
			l.Add(name, fault, c, k)
		}
	}
}

// Need sets the least level that finds the faults of the given names.
func (l *List) Need(level Level, names ...string) {
	for i := range l.All {
		_, name, _ := strings.Cut(l.All[i].Lowering.Name, ".")
		if slices.Contains(names, name) {
			l.All[i].Level = level
		}
	}
}

// AddFailing adds a mutant that ends in an error.
func (l *List) AddFailing(name, fault string, c Contract, k Kernel) {
	l.Add(name, fault, c, k)
	l.All[len(l.All)-1].IsFailing = true
}
