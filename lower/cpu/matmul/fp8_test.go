package matmul_test

import (
	"slices"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/lower/cpu/cputest"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
	"tokitai/trial/randdef"
)

// TestFP8Patterns has every pattern of both formats as a factor of 1, in all ways in which code reads factors: along
// rows and columns, where they lie and packed, on both sides.
func TestFP8Patterns(t *testing.T) {
	const depth = 16
	eachSet(t, func(t *testing.T, set machine.Set) {
		g := gen.New("patterns of FP8")
		for _, dtype := range num.FP8DTypes {
			one := num.Narrow(dtype, 1)
			for i, d := range slices.Repeat(cputest.Transposes("fp8", def.ContractionForm{Factors: def.Only(dtype)}), 2) {
				for _, other := range []int{1, 5, 60} {
					patterns := i / 4 // the operand that has them
					s := [2]int{other, other}
					s[patterns] = 256
					c := randdef.NewCase(g, d, []num.DType{dtype, dtype, num.F32}, sizes(s[0], s[1], depth))
					for o := range 2 {
						isTransposed := d.Product().TransposeLeft
						if o == 1 {
							isTransposed = !d.Product().TransposeRight
						}
						a := c.Operands[o]
						for r := range a.Rows {
							for col := range a.Cols {
								line, k := r, col
								if isTransposed {
									line, k = col, r
								}
								bits := one
								if o == patterns {
									if bits = 0; k == line%depth {
										bits = uint32(line)
									}
								}
								a.SetBits(r, col, bits)
							}
						}
					}
					compare(t, g, c, set)
				}
			}
		}
	})
}

// TestFP8Sizes has matrices of all sizes, in both formats.
func TestFP8Sizes(t *testing.T) {
	eachSet(t, func(t *testing.T, set machine.Set) {
		g := gen.New("sizes of FP8")
		for _, dtype := range num.FP8DTypes {
			for _, d := range cputest.Transposes("fp8", def.ContractionForm{Factors: def.Only(dtype)}) {
				for range testlevel.Pick(20, 400) {
					size := func() int { return 1 + g.Below(1+g.Below(90)) }
					compare(t, g, randdef.NewCase(g, d, []num.DType{dtype, dtype, num.F32}, sizes(size(), size(), size())), set)
				}
			}
		}
	})
}
