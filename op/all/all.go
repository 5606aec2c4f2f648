// Package all lists the operations explicitly. Adding an operation is one
// folder beside this one, and one row here.
package all

import (
	"slices"

	"tokitai/op"
	"tokitai/op/adamw"
	"tokitai/op/attention"
	"tokitai/op/cache"
	"tokitai/op/checksum"
	"tokitai/op/combine"
	"tokitai/op/crossentropy"
	"tokitai/op/dispatch"
	"tokitai/op/dropout"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/linear"
	"tokitai/op/norm"
	"tokitai/op/relu2"
	"tokitai/op/rmsnorm"
	"tokitai/op/rope"
	"tokitai/op/router"
	"tokitai/op/sample"
	"tokitai/op/sgd"
	"tokitai/op/silu"
	"tokitai/op/softmax"
	"tokitai/op/swiglu"
)

// Operations are all operations, grouped as in the documents.
var Operations = slices.Concat(
	gemm.Operations,
	linear.Operations,
	softmax.Operations,
	crossentropy.Operations,
	gelu.Operations,
	relu2.Operations,
	silu.Operations,
	swiglu.Operations,
	attention.Operations,
	router.Operations,
	sample.Operations,
	embedding.Operations,
	rope.Operations,
	dispatch.Operations,
	combine.Operations,
	cache.Operations,
	layernorm.Operations,
	rmsnorm.Operations,
	adamw.Operations,
	sgd.Operations,
	norm.Operations,
	dropout.Operations,
	checksum.Operations,
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
