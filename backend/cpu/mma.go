package cpu

import (
	"fmt"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/machine"
	"tokitai/lower/cpu/mma"
	"tokitai/num"
)

// tensorCores has a lowering for the model of each known tensor core: NVIDIA's since
// Hopper, of Ampere and Ada, and of Volta; and Hopper's for FP8.
var tensorCores = []*engine.Lowering{NewMMA(def.MMA(16, 25)), NewMMA(def.MMA(8, 24)), NewMMA(def.MMA(4, 23)), NewMMA(def.MMA(32, 13).Narrow(13))}

// NewMMA returns the lowering of contractions, of products that end in an expression, and of streams that computes what a tensor core of the
// given model does: mma(L,F), or panels of it, which multiplies f16 and bf16, or
// mma(L,F,R), which multiplies FP8.
func NewMMA(m def.Accum) *engine.Lowering {
	name, factors := fmt.Sprintf("cpu.mma-%d-%d", m.L, m.F), []num.DType{num.F16, num.BF16}
	if m.R != 0 {
		name, factors = name+fmt.Sprintf("-%d", m.R), num.FP8DTypes
	}
	if m.P != 0 {
		name += fmt.Sprintf("-panels-%d", m.P)
	}
	return &engine.Lowering{
		Name: name, Device: Kind, Promise: engine.Promise{Accum: m}, Factors: factors,
		Compile: func(_ device.Device, d *def.Definition, dtypes []num.DType, _ int) (engine.Kernel, error) {
			p, err := replay(d, dtypes, m)
			return asKernel(d, p, err)
		},
	}
}

// replay makes code that computes a contraction, a stream or its gradients under a model.
func replay(d *def.Definition, dtypes []num.DType, m def.Accum) (lowercpu.Program, error) {
	set := machine.Available()[0]
	query := 0
	switch f := d.Form.(type) {
	case *def.Stream:
		query = f.Query
	case *def.StreamBackward:
		query = f.Query
	case *def.Fused:
		return lowercpu.CompileFused(d, dtypes, func(part *def.Definition, dtypes []num.DType) (lowercpu.Program, error) {
			return generate(lower.Piece{Definition: part}, dtypes, set, func(part *def.Definition, dtypes []num.DType, set machine.Set) (lowercpu.Program, error) {
				return mma.Compile(part, dtypes, m, set)
			})
		})
	default:
		return mma.Compile(d, dtypes, m, set)
	}
	switch err := m.Takes(dtypes[query]); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	case m.P != 0:
		return nil, fmt.Errorf("%s: a stream has no panels, got %s", d.Name, m)
	}
	return weighBy(d, dtypes, m, set, func(part *def.Definition, dtypes []num.DType, set machine.Set) (lowercpu.Program, error) {
		return mma.Compile(part, dtypes, m, set)
	})
}
