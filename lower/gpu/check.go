package gpu

import (
	_ "embed"
	"fmt"
	"strconv"

	"tokitai/def"
	"tokitai/lower"
)

//go:embed kernels/check_index.cu
var checkText string

// Check is what the checking pass asks of one operand of indices. Its answer is a word:
// ones, or the position of the first bad index in the upper half and its value in the
// lower.
type Check struct {
	Operand int // of the definition's
	Bound   int // indices are 0 to Bound-1
	Except  int32
}

// Passed is the word of a check that found nothing.
const Passed = ^uint64(0)

// maxChecked is how many positions a word can tell apart.
const maxChecked = 1 << 32

// hasIndex reports whether a definition has operands of indices.
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

// checkSource is the checking pass of a definition. Its kernel is called name_check;
// name_is_refused tells the others of its answer.
func checkSource(d *def.Definition, name string) string {
	return named(checkText, "PREFIX", name, "INDEX_OPERANDS", strconv.Itoa(indexOperands(d)))
}

// PlanChecked is Plan with a checking pass before: if an index has no row, the launches
// write nothing, and the words that [Plan.Place] is told of say why.
func (k *Kernel) PlanChecked(p *Plan, call *lower.Call, limits Limits) error {
	p.reset()
	for i := range k.d.Operands {
		o := &k.d.Operands[i]
		if !o.IsIndex {
			continue
		}
		a := &call.Operands[i]
		if a.Rows > maxChecked {
			return fmt.Errorf("%s: %s has %d indices, want at most 2^32 where bad ones are rejected", k.d.Name, o.Name, a.Rows)
		}
		c := Check{Operand: i, Bound: call.Size(k.d, o.Bound)}
		if o.Except != "" {
			c.Except = int32(call.Params[k.d.Param(o.Except)])
		}
		blocks := min(tiles(a.Rows, 256), max(8*limits.Multiprocessors, 1))
		p.launch(k.check, [3]uint32{uint32(blocks), 1, 1}, [3]uint32{256, 1, 1}, 0)
		p.pointers(a.Pointer)
		p.status(len(p.Checks))
		p.ints(a.Stride, a.Rows, c.Bound)
		p.half(uint32(c.Except))
		p.bools(o.Except != "")
		p.Checks = append(p.Checks, c)
	}
	return k.planner.launches(p, call, limits)
}
