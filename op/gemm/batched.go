package gemm

import (
	"tokitai/engine"
	"tokitai/tensor"
)

// batch is the axis of the products of many matrices.
var batch = []string{"H"}

// The three products of stacks of matrices, each set or added to the old result.
var (
	BatchedForwardDefinition           = forward("gemm.batched.forward", batch, false)
	BatchedForwardAccumulateDefinition = forward("gemm.batched.forward.accumulate", batch, true)
	BatchedGradADefinition             = gradA("gemm.batched.grad_a", batch, false)
	BatchedGradAAccumulateDefinition   = gradA("gemm.batched.grad_a.accumulate", batch, true)
	BatchedGradBDefinition             = gradB("gemm.batched.grad_b", batch, false)
	BatchedGradBAccumulateDefinition   = gradB("gemm.batched.grad_b.accumulate", batch, true)
)

// BatchedForward computes C[h] = A[h]·B[h] for every h.
func BatchedForward(q *engine.Queue, c, a, b *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BatchedForwardDefinition, []*tensor.Tensor{a, b, c}, nil, opts...)
}

// BatchedForwardAccumulate computes C[h] = A[h]·B[h] + C[h] for every h.
func BatchedForwardAccumulate(q *engine.Queue, c, a, b *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BatchedForwardAccumulateDefinition, []*tensor.Tensor{a, b, c}, nil, opts...)
}

// BatchedGradA computes dA[h] = dC[h]·B[h]ᵀ for every h.
func BatchedGradA(q *engine.Queue, da, dc, b *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BatchedGradADefinition, []*tensor.Tensor{dc, b, da}, nil, opts...)
}

// BatchedGradAAccumulate computes dA[h] = dC[h]·B[h]ᵀ + dA[h] for every h.
func BatchedGradAAccumulate(q *engine.Queue, da, dc, b *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BatchedGradAAccumulateDefinition, []*tensor.Tensor{dc, b, da}, nil, opts...)
}

// BatchedGradB computes dB[h] = A[h]ᵀ·dC[h] for every h.
func BatchedGradB(q *engine.Queue, db, a, dc *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BatchedGradBDefinition, []*tensor.Tensor{a, dc, db}, nil, opts...)
}

// BatchedGradBAccumulate computes dB[h] = A[h]ᵀ·dC[h] + dB[h] for every h.
func BatchedGradBAccumulate(q *engine.Queue, db, a, dc *tensor.Tensor, opts ...engine.CallOption) error {
	return engine.Call(q, BatchedGradBAccumulateDefinition, []*tensor.Tensor{a, dc, db}, nil, opts...)
}
