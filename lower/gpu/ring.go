package gpu

import (
	_ "embed"
	"fmt"
	"math/bits"
	"strings"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/num/zpk"
)

//go:embed kernels/ring.cu
var ringText string

// ringTile is the number of rows and of columns of a tile of kernels/ring.cu.
const ringTile = 64

// exactSums plans the launches of kernels/ring.cu.
type exactSums struct{ contraction }

// compileRing lowers a contraction in a ring, which def has checked.
func compileRing(d *def.Definition, dtypes []num.DType, name string) *Kernel {
	k := &exactSums{contraction{d: d, grouping: lower.GroupingOf(d)}}
	var b strings.Builder
	k.head(&b, dtypes, name, ringMacros(d, dtypes)...)
	b.WriteString(named(ringText, "ENTRY", name+"_ring"))
	return k.kernel(Source{Name: name, Text: b.String(), Entries: []string{name + "_ring"}}, k)
}

// ringMacros are the constants of Montgomery's method, modulo q = p^k with R = 2^64: -1/q mod R,
// and R² mod q. A power of two needs none.
func ringMacros(d *def.Definition, dtypes []num.DType) []string {
	list := []string{"IS_NARROW", number(dtypes[0] == num.I8), "IS_INTEGER", number(!dtypes[2].IsFloat()), "IS_BINARY", number(d.Ring().P == 2)}
	q, err := zpk.Power(d.Ring().P, d.Ring().K)
	if err != nil || dtypes[0] == num.I8 {
		return list
	}
	text := func(v uint64) string { return fmt.Sprintf("%#xull", v) }
	list = append(list, "MODULUS", text(q))
	if d.Ring().P == 2 {
		return list
	}
	inverse := q // mod 2^3
	for range 5 {
		inverse *= 2 - q*inverse
	}
	_, rest := bits.Div64(1, 0, q)
	high, low := bits.Mul64(rest, rest)
	return append(list, "NEGATED_INVERSE", text(-inverse), "SQUARE", text(bits.Rem64(high, low, q)))
}

// launches implements planner.
func (k *exactSums) launches(p *Plan, c *lower.Call, _ Limits) error {
	z := &p.products
	z.SetCall(k.d, c)
	return k.launch(p, c, k.divide(z, ringTile, ringTile), 0, 256, 0)
}
