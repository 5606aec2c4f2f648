package verify_test

import (
	"context"
	"fmt"
	"testing"

	"tokitai/def"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// BenchmarkQuick measures outputs compared per second of a whole verification.
func BenchmarkQuick(b *testing.B) {
	wanted := []*def.Definition{gemm.ForwardDefinition, softmax.ForwardDefinition, layernorm.BackwardDefinition, embedding.BackwardDefinition, adamw.InPlaceDefinition}
	for _, d := range wanted {
		for _, x := range cpuTargets() {
			if x.Definition != d || x.DType != num.BF16 {
				continue
			}
			b.Run(fmt.Sprintf("def=%s/dtype=%s/lowering=%s", d.Name, x.DType, x.Lowering.Name), func(b *testing.B) {
				outputs := int64(0)
				for b.Loop() {
					r, err := verify.Run(context.Background(), x, verify.Options{Level: verify.Quick, Seed: 1, Tool: "bench", Version: "0"})
					if err != nil || r.Report.Verdict != evidence.Accepted {
						b.Fatalf("%v %+v", err, r)
					}
					outputs += r.Report.Elements
				}
				b.ReportMetric(float64(outputs)/b.Elapsed().Seconds(), "outputs/s")
			})
		}
	}
}
