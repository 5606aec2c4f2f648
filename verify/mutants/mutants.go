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

// Promise is what a mutant promises.
type Promise struct {
	engine.Promise
	text string // of what is declared
}

// The promises of mutants: the reference's bits, the admissible set of an order, or that of
// any stable form.
var (
	PromisesBits = Promise{}
	AnyOrder     = inOrder(def.Order{})
	Sequential   = inOrder(def.Sequential)
	Lanes16      = inOrder(def.Order{Kind: def.Lanes, Width: 16})
	Lanes128     = inOrder(def.Order{Kind: def.Lanes, Width: 128})
	chunks32     = inOrder(def.Order{Kind: def.Chunks, Width: 32})
	Pairwise     = inOrder(def.Order{Kind: def.Pairwise})
	Stable       = Promise{Promise: engine.Promise{Name: promise.Stable}}
)

func inOrder(o def.Order) Promise {
	return Promise{Promise: engine.Promise{Name: promise.Ordered, Order: o}}
}

// Declaring returns promise stable with what the text declares, in the words of the command
// line.
func Declaring(text string) Promise {
	d, order, err := promise.ParseDeclaration(text)
	if err != nil {
		panic(fmt.Sprintf("mutants: %v", err))
	}
	p := Stable
	p.text, p.Declares, p.Order = text, d, order
	return p
}

// IEEE returns the promise with the addition that every step of the definition is
// taken and correctly rounded.
func (p Promise) IEEE() Promise {
	p.IsIEEE = true
	return p
}

// String returns what is promised, as documents have it.
func (p Promise) String() string {
	switch {
	case p.IsBits():
		return "bits"
	case p.text != "":
		return "stable, " + p.text
	case p.Name == promise.Stable:
		return "stable"
	case p.IsIEEE:
		return p.Order.String() + ", every step rounded"
	}
	return p.Order.String()
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
func (l *List) Add(name, fault string, p Promise, k Kernel) {
	d := l.d
	i := slices.IndexFunc(l.operations, func(o *op.Operation) bool { return slices.Contains(o.Definitions, d) })
	if i < 0 {
		panic("mutants: no operation has definition " + d.Name)
	}
	l.All = append(l.All, Mutant{
		Name: d.Name + "/" + l.dtype.String() + "/" + name, Fault: fault, Origin: l.origin,
		Operation: l.operations[i], Definition: d, DType: l.dtype, Level: l.Level, kernel: k, contract: p.String(),
		Lowering: &engine.Lowering{
			Name: "mutant." + name, Device: "cpu", Promise: p.Promise,
			Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
				run := k.start()
				return engine.KernelFunc(func(l *engine.Launch) error { return run(newCall(d, l)) }), nil
			},
		},
	})
}

// AddAll adds a mutant in each of the formats of a definition.
func (l *List) AddAll(d *def.Definition, name, fault string, p Promise, k Kernel) {
	for _, dtype := range num.FloatDTypes {
		if slices.ContainsFunc(d.Formats(), func(f []num.DType) bool { return d.Format(f) == dtype }) {
			l.Of(d, dtype)
			l.Add(name, fault, p, k)
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
func (l *List) AddFailing(name, fault string, p Promise, k Kernel) {
	l.Add(name, fault, p, k)
	l.All[len(l.All)-1].IsFailing = true
}
