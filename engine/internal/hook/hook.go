// Package hook gives the tests of package engine what that package keeps to itself.
//
// A test file in package engine would do that too. But then the packages that the tests import
// and that import the engine, which are most of them, would be compiled once more for these
// tests alone.
package hook

import (
	"sync"

	"tokitai/def"
	"tokitai/internal/answers"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/tensor"
)

// Private is the private part of package engine, whose types are parameters because this
// package cannot import it.
type Private[Queue, Lowering, Backend any] struct {
	// SelfTests returns the names of a definition's self-tests, in their order.
	SelfTests func(d *def.Definition) []string

	// SelfTestCalls returns the calls of a definition's self-tests, without values.
	SelfTestCalls func(d *def.Definition, dtypes []num.DType) []*lower.Call

	// RunSelfTest compiles a lowering and runs one of its self-tests, in the class that the
	// test is of.
	RunSelfTest func(q Queue, l Lowering, d *def.Definition, dtypes []num.DType, name string) error

	// Corrupt, unless it is nil, damages outputs of self-tests before they are compared.
	Corrupt *func(test string, output num.Array)

	// FindAnswer finds the committed answers.
	FindAnswer *func(definition string, formats []num.DType, test string) (answers.Answer, bool, error)

	// Reference computes answers in self-tests.
	Reference *func(*def.Definition, []num.Array, reference.Options) error

	// CheckedReferences holds what the reference has reproduced.
	CheckedReferences *sync.Map

	// Backend returns where a queue has its backend.
	Backend func(q Queue) *Backend

	// Plans returns how many plans a queue's device has.
	Plans func(q Queue) int

	// Adding returns the lock that is held while a plan is added to those of a queue's device.
	Adding func(q Queue) sync.Locker

	// CheckCopiedIndices checks the indices of tensors as if the host could not address them.
	CheckCopiedIndices func(d *def.Definition, operands []num.Array, tensors []*tensor.Tensor) error
}

// Engine is the Private of package engine, which sets it.
var Engine any
