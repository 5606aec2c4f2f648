package num_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"

	"tokitai/internal/tensorcore"
	"tokitai/internal/testlevel"
	"tokitai/num"
)

// TestMMAInstructionAnswers compares the models with what an H200's matrix instructions
// computed from data with every special value.
func TestMMAInstructionAnswers(t *testing.T) {
	for _, test := range []struct {
		instruction tensorcore.Instruction
		model       num.MMA
	}{
		{tensorcore.Instruction{Family: "mma.sync", M: 16, N: 8, K: 16, DType: num.F16}, num.MMA{L: 16, F: 25}},
		{tensorcore.Instruction{Family: "mma.sync", M: 16, N: 8, K: 16, DType: num.BF16}, num.MMA{L: 16, F: 25}},
		{tensorcore.Instruction{Family: "wgmma", M: 64, N: 64, K: 16, DType: num.F16}, num.MMA{L: 16, F: 25}},
		{tensorcore.Instruction{Family: "wgmma", M: 64, N: 64, K: 16, DType: num.BF16}, num.MMA{L: 16, F: 25}},
		{tensorcore.Instruction{Family: "wgmma", M: 64, N: 64, K: 32, DType: num.E4M3}, num.MMA{L: 32, F: 13, R: 13}},
		{tensorcore.Instruction{Family: "wgmma", M: 64, N: 64, K: 32, DType: num.E5M2}, num.MMA{L: 32, F: 13, R: 13}},
	} {
		i := test.instruction
		x, y := make([]uint32, i.K), make([]uint32, i.K)
		for n, kind := range tensorcore.KindsOf(i.DType) {
			if testlevel.Current() == testlevel.Smoke && n%4 != 0 {
				continue
			}
			b := tensorcore.NewBatch(i, n, tensorcore.AnswerSeed, tensorcore.AnswerOutputs/(i.M*i.N))
			for output := range b.Outputs() {
				c := b.Row(output, x, y)
				d := test.model.Step(i.DType, x, y, math.Float32frombits(c))
				binary.LittleEndian.PutUint32(b.D[4*output:], math.Float32bits(d))
			}
			if got, want := b.Answer(), tensorcore.Answer(i, kind.Name); got != want {
				t.Errorf("%v %v %s: the results hash to %s, the H200's to %q", i, i.DType, kind.Name, got, want)
			}
		}
	}
}

// TestMMADeviceAnswers compares the model with what an H200 computed.
func TestMMADeviceAnswers(t *testing.T) {
	hopper := num.MMA{L: 16, F: 25}
	for n, kind := range tensorcore.Kinds {
		results := sha256.New()
		for tile := range tensorcore.Tiles {
			x := tensorcore.Input(n, tile)
			for r := range 16 {
				for c := range 8 {
					var column [16]uint32
					for k := range column {
						column[k] = x.B[k][c]
					}
					y := hopper.Step(kind.DType, x.A[r][:], column[:], math.Float32frombits(x.C[r][c]))
					binary.Write(results, binary.LittleEndian, y)
				}
			}
		}
		if got := hex.EncodeToString(results.Sum(nil)[:8]); got != kind.Answer {
			t.Errorf("%v %s: the results hash to %s, the H200's to %s", kind.DType, kind.Name, got, kind.Answer)
		}
	}
}
