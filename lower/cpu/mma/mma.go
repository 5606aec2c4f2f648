// Package mma computes contractions under the model of a tensor core, mma(L,F) or
// mma(L,F,R), and under panels of it: the answers that a device with such cores must give, to the bit.
//
// [num.MMA] defines the model in integers. Here a step is a few operations of binary64
// arithmetic, every one of them exact but for the truncations that the model asks for:
//
//	e      the largest exponent of the terms that are not zero, at least -133
//	s      2^(F-e)
//	sum    trunc(acc·s) + trunc(a₁b₁·s) + … + trunc(a_L·b_L·s)     below 2^40
//	acc    sum/s, truncated to 24 significant bits and to a multiple of 2^-149, or to
//	       R+1 bits and a multiple of 2^-(126+R); infinite from 2^128 on
//
// Products of f16, bf16 and FP8 values have at most 22 bits and lie between 2^-266 and 2^256, so
// that neither they nor their multiples by s leave the range of binary64. Infinities and
// NaN go through the same operations and come out as the model says.
//
// Operands are packed: each value in binary64, and its exponent in a second array. The
// steps are computed by code generated for AVX-512 or AVX2, or by a loop in Go.
package mma

import (
	"fmt"

	"tokitai/def"
	"tokitai/lower"
	lowercpu "tokitai/lower/cpu"
	"tokitai/lower/cpu/machine"
	"tokitai/num"
)

// A tile of the result is one item of work. Its operands are packed block after block of
// the summed index, and its accumulators are carried from one block to the next.
const (
	tileRows  = 128
	tileCols  = 128
	tileDepth = 128 // an upper limit: a block has whole steps
)

// program is a contraction under one model.
type program struct {
	d      *def.Definition
	accum  def.Accum
	depth  int // products of a block
	tiling lowercpu.Tiling[worker]
	stepper
}

// Compile lowers a contraction for operands stored in the given formats. The model is
// mma(L,F) or panels of it.
func Compile(d *def.Definition, dtypes []num.DType, accum def.Accum, set machine.Set) (lowercpu.Program, error) {
	if d.Product() == nil {
		return nil, fmt.Errorf("%s: rule %s is for contractions, got %s", d.Name, accum, d.Form)
	}
	if accum.Inner() == def.FMAChain {
		return nil, fmt.Errorf("%s: rule %s has no steps, want mma(L,F) or panels of it", d.Name, accum)
	}
	if err := accum.Takes(dtypes[0]); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	s, err := newStepper(accum, set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	p := &program{d: d, accum: accum, depth: tileDepth / accum.L * accum.L, stepper: s}
	p.tiling = lowercpu.Tiling[worker]{
		Rows: tileRows, Cols: tileCols,
		New: func(*lower.Call) *worker { return newWorker(p) },
		Do: func(w *worker, tiles *lower.Tiles, t *lower.Tile) {
			w.scales, w.tile = &tiles.Scales, t
			w.compute()
			w.scales, w.tile = nil, nil // the pool must not keep operands alive
		},
	}
	return p, nil
}

// String describes the program, and lists its code if it was generated.
func (p *program) String() string {
	return fmt.Sprintf("contraction %s: tiles of %d×%d, blocks of %d, strips of %d columns by %s, rule %s\n%s",
		p.d.Name, tileRows, tileCols, p.depth, p.lanes, p.language, p.accum, p.listing())
}

// Bind implements lowercpu.Program.
func (p *program) Bind(c *lower.Call, workers int) lowercpu.Job {
	return p.tiling.Bind(p.d, c, workers)
}
