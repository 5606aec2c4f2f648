// Package all lists the operations explicitly. Adding an operation is one
// folder beside this one, and one row here.
package all

import (
	"slices"

	"tokitai/op"
	"tokitai/op/adamw"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/norm"
	"tokitai/op/softmax"
	"tokitai/op/swiglu"
)

// Operations are all operations, grouped as in the documents.
var Operations = slices.Concat(
	gemm.Operations,
	softmax.Operations,
	crossentropy.Operations,
	gelu.Operations,
	swiglu.Operations,
	embedding.Operations,
	layernorm.Operations,
	adamw.Operations,
	norm.Operations,
)

// Find returns the operation of that name, or nil.
func Find(name string) *op.Operation {
	for _, o := range Operations {
		if o.Name == name {
			return o
		}
	}
	return nil
}
