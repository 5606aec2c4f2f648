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
// Hopper, of Ampere and Ada, and of Volta.
var tensorCores = []*engine.Lowering{NewMMA(def.MMA(16, 25)), NewMMA(def.MMA(8, 24)), NewMMA(def.MMA(4, 23))}

// NewMMA returns the lowering of contractions that computes what a tensor core of the
// given model does: mma(L,F), or panels of it. It multiplies f16 and bf16.
func NewMMA(m def.Model) *engine.Lowering {
	name := fmt.Sprintf("cpu.mma-%d-%d", m.L, m.F)
	if m.P != 0 {
		name += fmt.Sprintf("-panels-%d", m.P)
	}
	return &engine.Lowering{
		Name: name, Device: Kind, Model: m,
		Compile: func(_ device.Device, d *def.Definition, dtypes []num.DType, _ int) (engine.Kernel, error) {
			return asKernel(mma.Compile(d, dtypes, m, machine.Available()[0]))
		},
	}
}
