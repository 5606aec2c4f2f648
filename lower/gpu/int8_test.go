package gpu_test

import (
	"fmt"
	"strings"
	"testing"

	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/lower/gpu"
	"tokitai/lower/gpu/internal/simtest"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/trial"
)

// int8Shapes are products of m×n, summed over k: less than a step of any kind, more steps than are in shared memory,
// and sizes beside those of tiles.
var int8Shapes = [][3]int{{1, 1, 1}, {5, 19, 33}, {16, 32, 512}, {17, 33, 144}, {7, 40, 2600}, {65, 72, 48}, {130, 8, 1041}, {130, 264, 160}}

// int8Operands returns operands of gemm.int8 with any bytes, or with the least alone.
func int8Operands(g *gen.Generator, result num.DType, s [3]int, isLeast bool) []num.Array {
	d := gemm.Int8Definition
	operands := gemmOperands(g, d, []num.DType{num.I8, num.I8, result}, s[0], s[1], s[2], func(g *gen.Generator) float32 { return g.Ordinary() })
	for _, a := range operands[:2] {
		trial.FillBits(a, func(int, int) uint32 {
			if isLeast {
				return 0x80
			}
			return uint32(g.Below(256))
		})
	}
	return operands
}

// int8Results are the formats of the results.
var int8Results = []num.DType{num.F32, num.BF16, num.F16}

func int8Formats(result num.DType) []num.DType {
	return []num.DType{num.I8, num.I8, result, num.F32, num.F32}
}

// TestInt8MMA compares products in i8 by mma.sync with the reference, in tiles of all kinds, with rows at any address.
// The last has 2^17 products of 2^14, which do not fit into an int32.
func TestInt8MMA(t *testing.T) {
	for i, result := range int8Results {
		if isSmoke() && i > 0 {
			continue
		}
		t.Run(result.String(), func(t *testing.T) {
			t.Parallel()
			g := gen.New(fmt.Sprint(t.Name()))
			p := &tables{accum: def.MMA(16, 25)}
			for _, p.variant = range []gpu.Variant{gpu.Element, gpu.Vector} {
				if isSmoke() && p.variant == gpu.Vector {
					continue // nine tiles, which take long to compile
				}
				k := p.compile(t, gemm.Int8Definition, int8Formats(result))
				for n, s := range int8Shapes {
					lead, gap := 3, n%3
					if p.variant == gpu.Vector {
						lead, gap = 16*(n%2), -s[2]&15 // rows of both factors at multiples of 16 bytes
					}
					p.tile = n % gpu.MMATiles(p.variant)
					before := trial.CopyOf(gemm.Int8Definition, int8Operands(g, result, s, false), func(i int) trial.Layout {
						if i > 1 {
							return trial.Layout{Gap: n % 2}
						}
						return trial.Layout{Offset: lead, Gap: gap}
					})
					p.place(t, fmt.Sprint(result, s, p.variant, p.tile), k, before)
				}
				p.tile = gpu.MMATiles(p.variant) - 1
				p.place(t, fmt.Sprint(result, " wraps ", p.variant), k, trial.CopyOf(gemm.Int8Definition, int8Operands(g, result, [3]int{2, 3, 1<<17 + 16}, true), nil))
			}
			inBuilds(t, func(build simtest.Build) string { return p.run(t, build, 32, uint64(i)) })
		})
	}
}

// TestInt8Hopper compares products in i8 by wgmma with the reference, of operands that tensor maps describe and of others.
func TestInt8Hopper(t *testing.T) {
	for i, result := range int8Results {
		if isSmoke() && i > 0 {
			continue
		}
		t.Run(result.String(), func(t *testing.T) {
			t.Parallel()
			g := gen.New(fmt.Sprint(t.Name()))
			k := compileHopper(t, gemm.Int8Definition, int8Formats(result))
			var calls []multiplied
			for n, s := range [][3]int{{130, 264, 80}, {5, 16, 208}, {1, 1, 48}, {130, 131, 83}, {3, 7, 261}} {
				operands := int8Operands(g, result, s, n == 1)
				calls = append(calls, newMultiplied(t, fmt.Sprint(result, s), trial.CopyOf(gemm.Int8Definition, operands, func(j int) trial.Layout {
					if s[2]%16 == 0 {
						return trial.Layout{Gap: alignedGap(operands[j], 16*(n%2))}
					}
					return trial.Layout{Offset: 3, Gap: 5, ColumnGap: 2}
				})))
			}
			inBuilds(t, func(build simtest.Build) string { return multiply(t, build, uint64(i), k, calls) })
		})
	}
}

// TestInt8Refused: tensor cores multiply bytes along rows alone, and store what is scaled.
func TestInt8Refused(t *testing.T) {
	form := def.ContractionForm{
		Left: "A", LeftDims: []string{"M", "K"}, Right: "B", RightDims: []string{"N", "K"}, TransposeRight: true,
		Result: "C", ResultDims: []string{"M", "N"}, Factors: def.Only(num.I8), Ring: def.Ring{P: 2, K: 32},
	}
	across := form
	across.RightDims, across.TransposeRight, across.Scales = []string{"K", "N"}, false, def.Scales{Row: "s"}
	for want, f := range map[string]def.ContractionForm{
		"the result is not scaled":                   form,
		"does not have the summed index in its rows": across,
	} {
		d := def.Must(def.Contraction("refused", f))
		dtypes := d.Formats()[0]
		if _, err := gpu.CompileHopper(d, dtypes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("for Hopper: got %v, want %q", err, want)
		}
		if _, err := gpu.CompileMMA(d, dtypes, gpu.Vector); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("by mma.sync: got %v, want %q", err, want)
		}
	}
}
