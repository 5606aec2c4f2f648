package def

import "fmt"

// Model says how the steps of a contraction's sum round. The zero Model is the
// chain of fused multiply-adds: acc = fma(a_k, b_k, acc), k ascending. A Model
// with L > 0 is a tensor core: steps of L exact products, aligned with the
// accumulator at the largest exponent, truncated to F fractional bits, summed
// exactly and truncated to binary32.
type Model struct {
	L, F int
}

// FMAChain is the model that every device offers.
var FMAChain = Model{}

func (m Model) String() string {
	if m == FMAChain {
		return "fma"
	}
	return fmt.Sprintf("mma(%d,%d)", m.L, m.F)
}
