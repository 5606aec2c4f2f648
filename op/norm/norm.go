package norm

import (
	"fmt"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// SquareSumDefinition sums one tensor.
var SquareSumDefinition = def.Must(def.Rowwise("norm.square_sum", func(b *def.Builder) {
	x := b.In("x")
	b.OutScalar("total", def.TotalSum(x.Mul(x)), def.Only(num.F32))

	b.Formula("total = sum x^2 over every element of every tensor")
	b.Clauses(
		"at least one tensor, of any shape",
		"NaN gives NaN; an infinity without NaN gives +Inf",
		"the result depends on the sizes and the order of the tensors, on nothing else",
	)
}))

// TotalDefinition sums the square sums of several tensors, in their order.
var TotalDefinition = def.Must(def.Rowwise("norm.total", func(b *def.Builder) {
	b.OutRow("total", def.RowSum(b.In("sums", def.Only(num.F32))), def.Only(num.F32))

	b.Formula("total[r] = sum sums[r,c]")
	b.Clauses("R, C >= 1")
}))

// ClipDefinition turns a square sum into the norm and the factor that holds it at
// max_norm.
var ClipDefinition = def.Must(def.Rowwise("norm.clip", func(b *def.Builder) {
	total := b.In("total", def.Only(num.F32))
	limit := b.Param("max_norm")
	norm := total.Sqrt().As("root")
	over := def.Select(norm.LessEqual(limit), def.One, limit.Div(norm)).As("ratio")
	b.Out("norm", norm, def.Only(num.F32))
	b.Out("factor", over, def.Only(num.F32))

	b.Formula("norm = sqrt(total),  factor = norm > max_norm ? max_norm/norm : 1")
	b.Clauses(
		"max_norm is finite and above 0",
		"NaN gives NaN; an infinite norm gives factor 0",
	)
}))

// SquareSum writes the sum of the squares of all tensors to total, one f32.
func SquareSum(q *engine.Queue, total *tensor.Tensor, xs []*tensor.Tensor, opts ...engine.Option) error {
	name := SquareSumDefinition.Name
	switch {
	case q == nil:
		return &tensor.BadArgument{Op: name, Operand: "queue", Got: "is nil"}
	case len(xs) == 0:
		return &tensor.BadArgument{Op: name, Operand: "x", Clause: name + ".C1", Got: "has no tensors", Want: "at least one"}
	case len(xs) == 1:
		return engine.Call(q, SquareSumDefinition, []*tensor.Tensor{xs[0], total}, nil, opts...)
	}
	sums, err := tensor.New(q.Device(), num.F32, 1, len(xs))
	if err != nil {
		return err
	}
	defer sums.Close()
	for i, x := range xs {
		one, err := sums.Slice(0, 1, i, i+1)
		if err != nil {
			return err
		}
		if tensor.Overlap(x, total) != tensor.Disjoint {
			return &tensor.BadArgument{Op: name, Operand: "total", Got: fmt.Sprintf("overlaps x[%d]", i), Want: "memory of its own"}
		}
		if err := engine.Call(q, SquareSumDefinition, []*tensor.Tensor{x, one}, nil, opts...); err != nil {
			return fmt.Errorf("tensor %d of %d: %w", i, len(xs), err)
		}
	}
	return engine.Call(q, TotalDefinition, []*tensor.Tensor{sums, total}, nil, opts...)
}

// Clip writes the norm of all tensors, and the factor by which to multiply them
// so that it does not exceed maxNorm, one f32 each.
func Clip(q *engine.Queue, norm, factor *tensor.Tensor, maxNorm float64, xs []*tensor.Tensor, opts ...engine.Option) error {
	if q == nil {
		return &tensor.BadArgument{Op: ClipDefinition.Name, Operand: "queue", Got: "is nil"}
	}
	if err := checkMaxNorm(maxNorm); err != nil {
		return err
	}
	total, err := tensor.New(q.Device(), num.F32, norm.Shape()...)
	if err != nil {
		return err
	}
	defer total.Close()
	if err := SquareSum(q, total, xs, opts...); err != nil {
		return err
	}
	return engine.Call(q, ClipDefinition, []*tensor.Tensor{total, norm, factor}, []float64{maxNorm}, opts...)
}

func checkMaxNorm(v float64) error {
	if !(v > 0) || v-v != 0 {
		return &tensor.BadArgument{Op: ClipDefinition.Name, Operand: "max_norm", Clause: ClipDefinition.Name + ".C1", Got: fmt.Sprintf("is %v", v), Want: "a finite number above 0"}
	}
	return nil
}
