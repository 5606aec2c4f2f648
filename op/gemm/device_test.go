package gemm_test

import (
	"math/rand/v2"
	"testing"

	"tokitai/backend/gpu"
	"tokitai/backend/gputest"
	"tokitai/def"
	devices "tokitai/device/gpu/gputest"
	"tokitai/engine"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/optest"
	"tokitai/reference"
	"tokitai/tensor"
)

// TestRingsOnGPUs computes products in rings in the simulator, and on emulated GPUs of AMD's by the
// code that clang makes for them: they have the reference's bits, in sizes around tiles and words.
func TestRingsOnGPUs(t *testing.T) {
	t.Run("sim", func(t *testing.T) { ringsOn(t, gputest.NeedsSim(t, 32)) })
	for _, architecture := range []string{"gfx1100", "gfx942"} {
		t.Run(architecture, func(t *testing.T) { ringsOn(t, gputest.Join(devices.NeedsAMDEmulator(t, architecture))) })
	}
}

func ringsOn(t *testing.T, dev *gpu.Device) {
	q, err := engine.NewQueue(dev)
	optest.OK(t, err)
	random := rand.New(rand.NewPCG(5, 6))
	rings := []def.Ring{{P: 3, K: 39}, {P: 2, K: 63}, {P: 9223372036854775783, K: 1}, {P: 2, K: 1}, {P: 5, K: 27}}
	definitions := []*def.Definition{accumulators, gemm.Int8Definition}
	for _, r := range rings[:testlevel.Pick(2, len(rings))] {
		d, err := gemm.ZPKDefinitionOf(r)
		optest.OK(t, err)
		definitions = append(definitions, d)
	}
	for _, d := range definitions {
		for _, s := range [][3]int{{1, 1, 1}, {5, 3, 7}, {65, 70, 67}} {
			operands := randomOperands(random, d, s)
			tensors := make([]*tensor.Tensor, len(operands))
			for i, a := range operands {
				shape := []int{a.Rows, a.Cols}
				if len(d.Operands[i].Dims) == 1 {
					shape = shape[:1]
				}
				tensors[i], err = tensor.FromBytes(dev, a.DType, a.Data, shape...)
				optest.OK(t, err)
			}
			optest.OK(t, engine.Call(q, d, tensors, nil))
			optest.OK(t, q.Wait())
			got, err := tensors[2].Bytes()
			optest.OK(t, err)
			optest.OK(t, reference.Run(d, operands, reference.Options{}))
			if string(got) != string(operands[2].Data) {
				t.Errorf("%s in %s, M, N, K = %v: the result does not have the reference's bits", d.Name, d.Ring(), s)
			}
		}
	}
}

// randomOperands returns operands of any integers, and scales between 0 and 1.
func randomOperands(random *rand.Rand, d *def.Definition, s [3]int) (list []num.Array) {
	sizes := map[string]int{"M": s[0], "N": s[1], "K": s[2]}
	for i, dtype := range d.Formats()[0] {
		rows, cols := d.Operands[i].Matrix(sizes)
		a := num.NewArray(dtype, rows, cols)
		for j := range a.Data {
			a.Data[j] = byte(random.Uint32())
		}
		if dtype == num.F32 {
			for r := range rows {
				a.Set(r, 0, random.Float32())
			}
		}
		list = append(list, a)
	}
	return list
}
