package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/evidence"
	"tokitai/num"
	"tokitai/op/adamw"
	"tokitai/op/crossentropy"
	"tokitai/op/embedding"
	"tokitai/op/gemm"
	"tokitai/op/layernorm"
	"tokitai/op/softmax"
	"tokitai/verify"
)

// batchMutant computes the definition, except that the last bit of a row's last output is wrong if
// happens returns true.
func batchMutant(operand int, happens func(l *engine.Launch, row int) bool) *engine.Lowering {
	return bitwise(damaged(func(l *engine.Launch, out []num.Array) {
		for r := range out[operand].Rows {
			if happens(l, r) {
				a := out[operand]
				a.SetBits(r, a.Cols-1, a.Bits(r, a.Cols-1)^1)
			}
		}
	}))
}

// TestBatchInvarianceBites plants kernels whose rows depend on the batch. Each is right on
// the batch of the case itself: only the check of batches runs the others.
func TestBatchInvarianceBites(t *testing.T) {
	t.Parallel()
	const rows = 33
	count := func(l *engine.Launch) int { return l.Operands[len(l.Operands)-1].Rows }
	isNaN := func(l *engine.Launch, row int) bool {
		x := l.Arrays()[0]
		return row >= 0 && row < x.Rows && x.At(row, 0) != x.At(row, 0)
	}
	isInf := func(l *engine.Launch, row int) bool {
		x := l.Arrays()[0]
		return row >= 0 && row < x.Rows && x.At(row, 0)-x.At(row, 0) != 0 && x.At(row, 0) == x.At(row, 0)
	}
	for _, test := range []struct {
		clause, what string
		happens      func(l *engine.Launch, row int) bool
		want         string // of the message; "" is accepted
	}{
		{"C1", "nothing", func(*engine.Launch, int) bool { return false }, ""},
		{"C1", "one row alone", func(l *engine.Launch, _ int) bool { return count(l) == 1 }, "[0] alone"},
		{"C1", "few rows", func(l *engine.Launch, _ int) bool { return count(l) < 12 }, "[0 7 8 15 16 31 32] alone"},
		{"C1", "half of the rows", func(l *engine.Launch, _ int) bool { return count(l) == rows/2 }, "the first 16"},
		{"C1", "a NaN in the row above", func(l *engine.Launch, r int) bool { return !isNaN(l, r) && isNaN(l, r-1) }, "with NaN"},
		{"C1", "an infinity in the row below", func(l *engine.Launch, r int) bool { return !isInf(l, r) && isInf(l, r+1) }, "with infinities"},
		{"C1", "a NaN anywhere in the tile", func(l *engine.Launch, r int) bool { return !isNaN(l, r) && (isNaN(l, r/16*16) || isNaN(l, r/16*16+1)) }, "with NaN"},
	} {
		for _, d := range []struct {
			*def.Definition
			sizes string
		}{{softmax.ForwardDefinition, "R=%d,C=9"}, {gemm.ForwardDefinition, "M=%d,K=9,N=5"}} {
			t.Run(test.clause+"_"+strings.ReplaceAll(test.what, " ", "_")+"/"+d.Name, func(t *testing.T) {
				x := target(d.Definition, num.F32, batchMutant(len(d.Operands)-1, test.happens))
				check := "batch-" + d.BatchAxis() + ":normal/" + fmt.Sprintf(d.sizes, rows)
				if test.want == "" {
					expectAccepted(t, x, check)
					return
				}
				r := run(t, x, verify.Options{Case: check, Seed: 1})
				if got := r.RejectedBy(); !slices.Equal(got, []evidence.TierName{evidence.Relations}) || !strings.Contains(r.Report.Reason, test.want) {
					t.Errorf("rejected by %v: %s; want relations: %s", got, r.Report.Reason, test.want)
				}
				if plain := run(t, x, verify.Options{Case: "normal/" + fmt.Sprintf(d.sizes, rows), Seed: 1}); plain.RejectedBy() != nil {
					t.Errorf("without the check: rejected by %v, want accepted", plain.RejectedBy())
				}
			})
		}
	}
}

// TestBatchInvarianceOfSome checks that exempt outputs are not compared, and that outputs that
// depend on their place are compared at the same place.
func TestBatchInvarianceOfSome(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d     *def.Definition
		dtype num.DType
		name  string
	}{
		{layernorm.BackwardDefinition, num.F32, "batch-R:normal/R=33,C=5"},
		{crossentropy.Definition, num.F16, "batch-R:normal/R=33,C=5"},
		{adamw.StochasticDefinition, num.BF16, "batch-R:normal/R=17,C=5"},
		{embedding.ForwardDefinition, num.BF16, "batch-Q:normal/Q=33,V=4,D=3"},
		{gemm.GradAAccumulateDefinition, num.F16, "batch-M:normal/M=33,N=4,K=3"},
		{gemm.BatchedForwardDefinition, num.F16, "batch-M:normal/H=3,M=9,K=4,N=3"},
		{gemm.BatchedForwardDefinition, num.F16, "batch-H:normal/H=9,M=3,K=4,N=3"},
	} {
		t.Run("C2_"+test.name, func(t *testing.T) { expectAccepted(t, target(test.d, test.dtype, bitwise(honest)), test.name) })
	}
	for _, isPlaced := range []bool{false, true} { // random words of another place, and of another batch
		x := target(adamw.StochasticDefinition, num.BF16, batchMutant(0, func(l *engine.Launch, row int) bool {
			return isPlaced && row == 0 && l.Operands[0].Rows < 9
		}))
		if got := run(t, x, verify.Options{Case: "batch-R:normal/R=17,C=5", Seed: 1}).RejectedBy(); (got != nil) != isPlaced {
			t.Errorf("a row of %s that depends on the number of rows: %v: rejected by %v", x.Definition, isPlaced, got)
		}
	}
}
