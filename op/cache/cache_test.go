package cache_test

import (
	"testing"

	"tokitai/backend/cpu"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/op/cache"
	"tokitai/op/optest"
	"tokitai/tensor"
)

var subject = optest.Subject{
	Definition: cache.AppendDefinition, Data: cache.Operations[0].Data,
	Call: func(q *engine.Queue, x []*tensor.Tensor, opts ...engine.CallOption) error {
		return cache.Append(q, x[2], x[0], x[1], opts...)
	},
}

func size(q, v, d int) map[string]int { return map[string]int{"Q": q, "V": v, "D": d} }

func TestDoc(t *testing.T) { optest.Doc(t, "doc.go", cache.AppendDefinition) }

func TestMatchReference(t *testing.T) {
	optest.MatchReference(t, subject, size(40, 7, 9), size(1, 1, 1), size(300, 200, 3), size(3, 70, 515))
}

func TestErrors(t *testing.T) { optest.Errors(t, subject, size(3, 4, 5)) }

func TestAppend(t *testing.T) {
	old := func() *tensor.Tensor { return optest.Matrix(t, num.F16, 3, 10, 20, 30) }
	optest.Clauses(t, cache.AppendDefinition, map[string]func(t *testing.T){
		"C1_shapes": func(t *testing.T) { optest.Shapes(t, subject, size(6, 4, 3)) },
		"C2_bits": func(t *testing.T) {
			rows, err := optest.Patterns(t, num.F16, 0x7d01, 0x8000).Reshape(2, 1)
			optest.OK(t, err)
			table := old()
			optest.OK(t, cache.Append(cpu.Queue(), table, optest.Ints(t, 2, 0), rows))
			optest.WantBits(t, "cache", table, 0x8000, num.Narrow(num.F16, 20), 0x7d01)
		},
		"C3_others": func(t *testing.T) {
			table := optest.Garbage(t, num.F32, 3, 1)
			before := optest.Bits(t, table)
			optest.OK(t, cache.Append(cpu.Queue(), table, optest.Ints(t, 1), optest.Matrix(t, num.F32, 1, 5)))
			optest.WantBits(t, "cache", table, before[0], num.Narrow(num.F32, 5), before[2])
		},
		"C4_last": func(t *testing.T) {
			table := old()
			optest.OK(t, cache.Append(cpu.Queue(), table, optest.Ints(t, 1, 0, 1, 1), optest.Matrix(t, num.F16, 4, 1, 2, 3, 4)))
			optest.Want(t, "cache", table, 2, 4, 30)
		},
		"C5_bad_slot": func(t *testing.T) {
			table := old()
			if err := cache.Append(cpu.Queue(), table, optest.Ints(t, 1, 3), optest.Matrix(t, num.F16, 2, 1, 2)); err == nil {
				t.Error("a bad slot was accepted")
			}
			optest.Want(t, "after a refusal", table, 10, 20, 30)
			optest.OK(t, cache.Append(cpu.Queue(), table, optest.Ints(t, -1, 1, 3), optest.Matrix(t, num.F16, 3, 1, 2, 3), engine.WithBadIndex(engine.Skip)))
			optest.Want(t, "skipped", table, 10, 2, 30)
		},
		"C6_overlap": TestErrors,
	})
}
