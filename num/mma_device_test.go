package num_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"

	"tokitai/internal/tensorcore"
	"tokitai/num"
)

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
