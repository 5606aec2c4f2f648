package model

import (
	"tokitai/def"
	"tokitai/op/attention"
	"tokitai/op/dropout"
	"tokitai/op/embedding"
	"tokitai/op/gelu"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/rmsnorm"
	"tokitai/op/rope"
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
}

// Rules is the table of gradients by forward definition. Builder.Backward takes it, and further
// rows for definitions of a program's own.
var Rules = map[*def.Definition]Rule{
	Linear:                      {Backward: []*def.Definition{LinearX, LinearW}},
	Bias:                        {Backward: []*def.Definition{BiasBackward}, Same: map[string]string{"x": "y"}},
	Add:                         {Same: map[string]string{"a": "y", "b": "y"}},
	gemm.ForwardDefinition:      {Backward: []*def.Definition{gemm.GradADefinition, gemm.GradBDefinition}},
	embedding.ForwardDefinition: {Backward: []*def.Definition{embedding.BackwardDefinition}},
	dropout.ForwardDefinition:   {Backward: []*def.Definition{dropout.BackwardDefinition}},
	rmsnorm.ForwardDefinition:   {Backward: []*def.Definition{rmsnorm.BackwardDefinition}},
	layernorm.ForwardDefinition: {Backward: []*def.Definition{layernorm.BackwardDefinition}},
	rope.ForwardDefinition:      {Backward: []*def.Definition{rope.BackwardDefinition}},
	attention.ForwardDefinition: {Backward: []*def.Definition{attention.BackwardDefinition}},
	gelu.ForwardDefinition:      {Backward: []*def.Definition{gelu.BackwardDefinition}},
	gelu.ErfForwardDefinition:   {Backward: []*def.Definition{gelu.ErfBackwardDefinition}},
	silu.ForwardDefinition:      {Backward: []*def.Definition{silu.BackwardDefinition}},
	swiglu.ForwardDefinition:    {Backward: []*def.Definition{swiglu.BackwardDefinition}},
	softmax.ForwardDefinition:   {Backward: []*def.Definition{softmax.BackwardDefinition}},
}

// gradientOf returns the forward output of which an operand of a backward definition is the
// gradient, or "".
func gradientOf(forward *def.Definition, operand string, isOut bool) string {
	if len(operand) < 2 || operand[0] != 'd' {
		return ""
	}
	if i := forward.Operand(operand[1:]); i >= 0 && forward.Operands[i].IsOut == isOut {
		return operand[1:]
	}
	return ""
}
