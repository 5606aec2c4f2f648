package gpu

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"

	"tokitai/def"
	"tokitai/lower"
)

//go:embed kernels/check_index.cu
var checkText string

// Check describes the check of one index operand. Its result is a word: all ones, or the
// position of the first out-of-range index in the upper half and its value in the lower.
type Check struct {
	Operand int // of the definition
	Bound   int // indices are 0 to Bound-1; offsets ascend from 0 to Bound
	Except  int32
}

// Passed is the result of a check that found no out-of-range index.
const Passed = ^uint64(0)

// maxChecked is the number of positions that a word can name.
const maxChecked = 1 << 32

// hasIndex reports whether a definition has index operands.
func hasIndex(d *def.Definition) bool { return indexOperands(d) > 0 }

func indexOperands(d *def.Definition) int {
	n := 0
	for i := range d.Operands {
		if d.Operands[i].IsIndex {
			n++
		}
	}
	return n
}

// checkSource returns the source of a definition's checking pass: the kernel name_check,
// and name_is_refused, by which the other kernels read its result.
func checkSource(d *def.Definition, name string) string {
	isAllowed := "(v >= 0 && v < p.bound) || (p.has_except && v == p.except)"
	if d.HasOffsets() { // they ascend from 0 to the bound
		ascends := "(i == 0 ? v == 0 : v >= p.index[(i - 1) * p.stride]) && (i < p.count - 1 || v == p.bound)"
		if isAllowed = ascends; hasLengths(d) { // and other operands have indices in range, as far as they are in use
			isAllowed = "p.is_offsets ? " + ascends + " : (v >= 0 && v < p.bound) || (p.lengths && i % p.cols * p.each >= p.lengths[i / p.cols * p.lengths_stride])"
		}
	}
	params := ""
	if hasLengths(d) {
		params = "    const i32* lengths; // of rows, or null if all of a row is in use: each says so of `each` elements\n" +
			"    i64 lengths_stride, each;\n    i32 is_offsets, none;\n"
	}
	return named(checkText, "PREFIX", name, "INDEX_OPERANDS", strconv.Itoa(indexOperands(d)), "IS_ALLOWED", isAllowed, "LENGTHS_PARAMS", params)
}

// hasLengths reports whether lengths say how much of an index is in use.
func hasLengths(d *def.Definition) bool {
	return slices.ContainsFunc(d.Operands, func(o def.Operand) bool { return o.Lengths != "" })
}

// PlanChecked is like Plan, with a checking pass first: if an index is out of range, the
// launches write nothing, and the words given to [Plan.Place] say why.
func (k *Kernel) PlanChecked(p *Plan, call *lower.Call, limits Limits) error {
	p.reset()
	most := 0
	for i := range k.d.Operands {
		o := &k.d.Operands[i]
		if !o.IsIndex {
			continue
		}
		count := call.Operands[i].Rows * call.Operands[i].Cols
		if most = max(most, count); count > maxChecked {
			return fmt.Errorf("%s: %s has %d indices, want at most 2^32 where out-of-range ones are rejected", k.d.Name, o.Name, count)
		}
	}
	blocks := max(1, min(tiles(most, 256), 8*limits.Multiprocessors))
	if hasIndex(k.d) {
		p.launch(k.check, [3]uint32{uint32(blocks), uint32(indexOperands(k.d)), 1}, [3]uint32{256, 1, 1}, 0)
	}
	for i := range k.d.Operands {
		o := &k.d.Operands[i]
		if !o.IsIndex {
			continue
		}
		a := &call.Operands[i]
		count := a.Rows * a.Cols
		c := Check{Operand: i, Bound: o.Limit(func(letter string) int { return call.Size(k.d, letter) })}
		if o.Except != "" {
			c.Except = int32(call.Params[k.d.Param(o.Except)])
		}
		p.pointers(a.Pointer)
		p.status(len(p.Checks))
		p.ints(a.Stride, a.Cols, count, c.Bound)
		p.half(uint32(c.Except))
		p.bools(o.Except != "")
		if hasLengths(k.d) {
			var lengths lower.Operand
			each := 0
			if o.Lengths != "" {
				lengths, each = call.Operands[k.d.Operand(o.Lengths)], call.Size(k.d, o.Each)
			}
			p.pointers(lengths.Pointer)
			p.ints(lengths.Stride, each)
			p.bools(o.IsOffsets, false)
		}
		p.Checks = append(p.Checks, c)
	}
	checks := len(p.Launches)
	if err := k.planner.launches(p, call, limits); err != nil {
		return err
	}
	p.Launches[checks].IsEarly = true // kernels wait for the checks where they read the words
	return nil
}
