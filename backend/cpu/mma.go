package cpu

import (
	"fmt"

	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/lower/cpu/machine"
	"tokitai/lower/cpu/mma"
	"tokitai/num"
)

// tensorCores has a lowering for the model of each known tensor core: NVIDIA's since
// Hopper, of Ampere and Ada, and of Volta; and Hopper's for FP8.
var tensorCores = []*engine.Lowering{NewMMA(def.MMA(16, 25)), NewMMA(def.MMA(8, 24)), NewMMA(def.MMA(4, 23)), NewMMA(def.MMA(32, 13).Narrow(13))}

// NewMMA returns the lowering of contractions that computes what a tensor core of the
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
			return asKernel(mma.Compile(d, dtypes, m, machine.Available()[0]))
		},
	}
}
