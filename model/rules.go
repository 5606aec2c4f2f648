package model

import (
	"sync"

	"tokitai/def"
	"tokitai/op/combine"
	"tokitai/op/dropout"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/rmsnorm"
	"tokitai/op/rope"
	"tokitai/op/router"
	"tokitai/op/silu"
	"tokitai/op/softmax"
	"tokitai/op/swiglu"
)

// Rule says how the gradients of a definition are computed.
//
// The operands of a backward definition are matched by name. An input "dNAME" is the gradient of
// the forward output NAME; any other input is the forward operand of that name, which is saved for
// it. An output "dNAME" is the gradient of the forward input NAME. Parameters are those of the
// same names.
type Rule struct {
	Backward []*def.Definition
	Same     map[string]string // the gradient of this input is that of this output itself

	// Compose adds the calls, where one definition with operands of these names is not enough.
	Compose func(s *Step)
}

// shippedRules returns the table of gradients by forward definition. Builder.Backward takes it, and further
// rows for definitions of a program's own.
var shippedRules = sync.OnceValue(func() map[*def.Definition]Rule {
	list := map[*def.Definition]Rule{
		Linear:                        {Backward: []*def.Definition{LinearX, LinearW}},
		Bias:                          {Backward: []*def.Definition{BiasBackward}, Same: map[string]string{"x": "y"}},
		Add:                           {Same: map[string]string{"a": "y", "b": "y"}},
		gemm.ForwardDefinition:        {Backward: []*def.Definition{gemm.GradADefinition, gemm.GradBDefinition}},
		gemm.BatchedForwardDefinition: {Backward: []*def.Definition{gemm.BatchedGradADefinition, gemm.BatchedGradBDefinition}},
		embedding.ForwardDefinition:   {Backward: []*def.Definition{embedding.BackwardDefinition}},
		dropout.ForwardDefinition:     {Backward: []*def.Definition{dropout.BackwardDefinition}},
		rmsnorm.ForwardDefinition:     {Backward: []*def.Definition{rmsnorm.BackwardDefinition}},
		layernorm.ForwardDefinition:   {Backward: []*def.Definition{layernorm.BackwardDefinition}},
		rope.ForwardDefinition:        {Backward: []*def.Definition{rope.BackwardDefinition}},
		gelu.ForwardDefinition:        {Backward: []*def.Definition{gelu.BackwardDefinition}},
		gelu.ErfForwardDefinition:     {Backward: []*def.Definition{gelu.ErfBackwardDefinition}},
		silu.ForwardDefinition:        {Backward: []*def.Definition{silu.BackwardDefinition}},
		swiglu.ForwardDefinition:      {Backward: []*def.Definition{swiglu.BackwardDefinition}},
		softmax.ForwardDefinition:     {Backward: []*def.Definition{softmax.BackwardDefinition}},
		Multiply:                      {Backward: []*def.Definition{MultiplyBackward}},
		Top:                           {Backward: []*def.Definition{TopBackward}},
		Scale:                         {Backward: []*def.Definition{ScaleBackward}},
		Cap:                           {Backward: []*def.Definition{CapBackward}},
		RMSNorm1:                      {Backward: []*def.Definition{RMSNorm1Backward}},
		Grouped:                       {Backward: []*def.Definition{GroupedX, GroupedW}},

		rope.InterleavedForwardDefinition: {Backward: []*def.Definition{rope.InterleavedBackwardDefinition}},

		router.SoftmaxForwardDefinition: {Backward: []*def.Definition{router.SoftmaxBackwardDefinition}},
		router.SigmoidForwardDefinition: {Backward: []*def.Definition{router.SigmoidBackwardDefinition}},
		combine.PermuteDefinition:       {Compose: permuteBackward},
		combine.ForwardDefinition:       {Compose: combineBackward},
	}
	for _, s := range streams() {
		list[s.packed] = Rule{Backward: []*def.Definition{s.backward}}
	}
	return list
})

// permuteBackward adds up the rows of each token, by the places of the dispatch that has the sources.
func permuteBackward(s *Step) {
	place := s.Sibling("source", "place")
	s.Contribute("x", combine.PermuteBackwardDefinition, s.Operand("x").Shape(), place, s.Gradient("rows"))
}

// combineBackward brings gradients and weights to the rows, and the gradients of weights back.
func combineBackward(s *Step) {
	source, slot, place := s.Sibling("place", "source"), s.Sibling("place", "slot"), s.Operand("place")
	n := place.Value().Len()
	dy := s.Call("rows", combine.PermuteDefinition, source.As(n), s.Gradient("y"))[0]
	weight := s.Call("weights", combine.PermuteDefinition, slot.As(n), s.Operand("weight").As(n, 1))[0]
	do := s.Call("split", combine.BackwardDefinition, s.Operand("o"), dy, weight.As(n))
	s.Add("o", do[0])
	s.Contribute("weight", combine.PermuteDefinition, []int{n, 1}, place.As(n), do[1].As(n, 1))
}

// gradientOf returns the forward output whose gradient an operand of a backward definition is, or "".
func gradientOf(forward *def.Definition, operand string, isOut bool) string {
	if len(operand) < 2 || operand[0] != 'd' {
		return ""
	}
	if i := forward.Operand(operand[1:]); i >= 0 && forward.Operands[i].IsOut == isOut {
		return operand[1:]
	}
	return ""
}
