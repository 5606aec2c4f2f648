// Package mutants holds kernels that are wrong on purpose, each with one fault that
// people have made, and kernels that are right in a way of their own. The verifier
// must reject the first and accept the second; docs/mutants.md shows that it does,
// and what the checks in use today say of the same kernels.
//
// A kernel here is a [plain]: it loads its inputs as binary32, computes, and stores.
// A fault replaces one of its parts. There are two kinds of honest kernel to break:
// the reference itself, where a lowering promises bits, and kernels that add up in an
// order of their own (kernels.go), where it promises to stay in the admissible set.
//
// Start reading at [Mutants]; then take any file that is named after an operation.
package mutants

import (
	"slices"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op"
	"tokitai/op/adamw"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
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
}

// Level is the least level of verification that has a case for a fault.
type Level uint8

const (
	Smoke Level = iota
	Quick
)

// Mutants are kernels with one fault each. Every one breaks the contract that its
// lowering declares.
func Mutants() []Mutant {
	return slices.Concat(
		gemmMutants(), softmaxMutants(), crossentropyMutants(), geluMutants(), embeddingMutants(),
		layernormMutants(), adamwMutants(), normMutants(),
	)
}

// Variants are kernels that keep their contract with an order of additions, a form or
// a precision of their own.
func Variants() []Mutant {
	return slices.Concat(gemmVariants(), rowwiseVariants(), embeddingVariants())
}

// Origins that many mutants share.
const (
	practice   = "kernel practice"
	simulated  = "simulation"
	zerosPass  = "KernelBench#165"
	tenCalls   = "llm.c#852"
	twiceWrong = "rocm-libraries#8043"
)

// operations are those whose definitions are mutated.
var operations = slices.Concat(
	gemm.Operations, softmax.Operations, crossentropy.Operations, gelu.Operations, embedding.Operations,
	layernorm.Operations, adamw.Operations, norm.Operations,
)

// operationOf is the first operation that has the definition.
func operationOf(d *def.Definition) *op.Operation {
	for _, o := range operations {
		if slices.Contains(o.Definitions, d) {
			return o
		}
	}
	panic("mutants: no operation has definition " + d.Name)
}

// contract is what a lowering promises.
type contract struct {
	isBounded bool
	order     def.Order
	isIEEE    bool
}

var (
	bits       = contract{}
	anyOrder   = contract{isBounded: true}
	sequential = contract{isBounded: true, order: def.Sequential}
	lanes16    = contract{isBounded: true, order: def.Order{Kind: def.Lanes, Width: 16}}
	lanes128   = contract{isBounded: true, order: def.Order{Kind: def.Lanes, Width: 128}}
	chunks32   = contract{isBounded: true, order: def.Order{Kind: def.Chunks, Width: 32}}
	pairwise   = contract{isBounded: true, order: def.Order{Kind: def.Pairwise}}
)

// ieee adds the promise that every step of the definition is taken and rounded.
func (c contract) ieee() contract {
	c.isIEEE = true
	return c
}

// list collects the mutants of some definitions.
type list struct {
	all    []Mutant
	d      *def.Definition
	dtype  num.DType
	origin string
	level  Level
}

// of sets the definition and the format of the mutants that follow.
func (l *list) of(d *def.Definition, dtype num.DType) { l.d, l.dtype = d, dtype }

// from sets the origin of the mutants that follow.
func (l *list) from(origin string) { l.origin = origin }

// add adds a mutant. The fault's name is lower case with hyphens.
func (l *list) add(name, fault string, c contract, k kernel) {
	d := l.d
	l.all = append(l.all, Mutant{
		Name: d.Name + "/" + l.dtype.String() + "/" + name, Fault: fault, Origin: l.origin,
		Operation: operationOf(d), Definition: d, DType: l.dtype, Level: l.level,
		Lowering: &engine.Lowering{
			Name: "mutant." + name, Device: "cpu",
			IsBounded: c.isBounded, Order: c.order, IsIEEE: c.isIEEE,
			Compile: func(_ device.Device, d *def.Definition, _ []num.DType, _ int) (engine.Kernel, error) {
				run := k.start()
				return engine.KernelFunc(func(l *engine.Launch) error { return run(newCall(d, l)) }), nil
			},
		},
	})
}
