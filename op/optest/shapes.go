package optest

import (
	"maps"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/internal/gen"
	"tokitai/tensor"
	"tokitai/trial"
)

// Shapes makes the call on operands of rank 2 and 1, and again on the same values
// in other shapes that the contract allows: leading dimensions split in two and,
// for elementwise definitions, everything in one dimension. The results must be the
// same. First sizes that are odd are not split. A rowwise definition is called without rows too.
func Shapes(t testing.TB, s Subject, sizes map[string]int) {
	t.Helper()
	d := s.Definition
	split := func(shape []int, o *def.Operand) []int {
		if shape[0]%2 == 1 || len(o.Dims) == 1 && o.Dims[0] == "C" || o.IsTable() {
			return shape
		}
		return append([]int{2, shape[0] / 2}, shape[1:]...)
	}
	want := shapedCall(t, &s, sizes, func(shape []int, _ *def.Operand) []int { return shape })
	compareOutputs(t, d, "leading dimensions split", shapedCall(t, &s, sizes, split), want)
	if d.Expression() != nil {
		empty := maps.Clone(sizes)
		empty["R"] = 0
		shapedCall(t, &s, empty, func(shape []int, _ *def.Operand) []int { return shape })
	}
	if d.IsFlat() {
		compareOutputs(t, d, "one dimension", shapedCall(t, &s, sizes, func(shape []int, o *def.Operand) []int {
			if o.Extent != def.PerElement {
				return shape
			}
			return []int{shape[0] * shape[1]}
		}), want)
	}
}

func shapedCall(t testing.TB, s *Subject, sizes map[string]int, reshape func([]int, *def.Operand) []int) []*tensor.Tensor {
	t.Helper()
	d := s.Definition
	before := s.operands(d.Formats()[0], sizes, s.kinds()[0], trial.Layout{Offset: 3}, gen.New(d.Name))
	_, x := place(t, before, cpu.Queue().Device())
	for i := range x {
		var err error
		x[i], err = x[i].Reshape(reshape(x[i].Shape(), &d.Operands[i])...)
		OK(t, err)
	}
	OK(t, s.Call(cpu.Queue(), x))
	return x
}

func compareOutputs(t testing.TB, d *def.Definition, what string, got, want []*tensor.Tensor) {
	t.Helper()
	for i, o := range d.Operands {
		if o.IsOut {
			SameBits(t, d.Name+", "+what+": "+o.Name, got[i], want[i])
		}
	}
}
