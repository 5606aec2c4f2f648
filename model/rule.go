package model

import (
	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/tensor"
)

// FastRule returns the rule by which a queue sums products of a format under policy fast, if it is one that
// others can compute again; otherwise fma.
func FastRule(q *engine.Queue, format num.DType) (def.Accum, error) {
	const size = 64
	var list [3]*tensor.Tensor
	for i := range list {
		t, err := tensor.New(q.Device(), format, size, size)
		if err != nil {
			return def.Accum{}, err
		}
		defer t.Close()
		list[i] = t
	}
	var l *engine.Lowering
	d := gemm.ForwardDefinition
	if err := engine.Call(q, d, list[:], nil, engine.WithPolicy(engine.Fast), engine.CheckOnly(), engine.ReportLowering(&l)); err != nil {
		return def.Accum{}, err
	}
	if !l.Promise.IsBits() {
		return def.FMAChain, nil
	}
	return l.Promise.AccumOf(q.Device().Describe().Architecture, d, []num.DType{format, format, format}, func(string) int { return size }), nil
}
