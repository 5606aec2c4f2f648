package norm

import (
	"errors"
	"fmt"

	"tokitai/def"
	"tokitai/device"
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
		"at least one tensor, of any shape; rows may be strided",
		"NaN gives NaN; an infinity without NaN gives +Inf",
		"the order of the additions depends on the sizes and the order of the tensors alone",
		"each square is a binary32: +Inf from |x| = 2^64 on, +0 up to |x| = 2^-75; neither occurs in f16",
		"total is at least +0, and +Inf if the sum overflows",
		"total may not overlap any tensor; the tensors may overlap each other",
	)
}))

// TotalDefinition sums the square sums of several tensors, in their order.
var TotalDefinition = def.Must(def.Rowwise("norm.total", func(b *def.Builder) {
	b.OutRow("total", def.RowSum(b.In("sums", def.Only(num.F32))), def.Only(num.F32))

	b.Formula("total[r] = sum sums[r,c]")
	b.Clauses(
		"R >= 0, C >= 1; leading dimensions count as rows, and rows may be strided",
		"the sum has the fixed order of a row sum of C columns",
		"NaN, or infinities of both signs, give NaN; infinities of one sign, and sums that overflow, that infinity; a zero is +0",
		"total may not overlap sums",
	)
}))

// ClipDefinition turns a square sum into the norm and the factor that holds it at
// max_norm.
var ClipDefinition = def.Must(def.Rowwise("norm.clip", func(b *def.Builder) {
	total := b.In("total", def.Only(num.F32))
	limit := b.Param("max_norm", def.MoreThan(0))
	norm := total.Sqrt().As("root")
	over := def.Select(norm.LessEqual(limit), def.One, limit.Div(norm)).As("ratio")
	b.Out("norm", norm, def.Only(num.F32))
	b.Out("factor", over, def.Only(num.F32))

	b.Formula("norm = sqrt(total),  factor = norm > max_norm ? max_norm/norm : 1")
	b.Clauses(
		"max_norm is finite and above 0, also as binary32",
		"NaN gives NaN; an infinite norm gives factor +0",
		"a norm of at most max_norm gives factor 1 exactly, and no factor is above 1",
		"total = -0 gives norm -0 and factor 1, a total below 0 gives NaN; subnormals are kept",
		"norm or factor may be total itself; any other overlap is refused",
	)
}))

// SquareSum writes the sum of the squares of all tensors to total, one f32.
func SquareSum(q *engine.Queue, total *tensor.Tensor, xs []*tensor.Tensor, opts ...engine.CallOption) error {
	name := SquareSumDefinition.Name
	if q == nil {
		return &device.ArgumentError{Op: name, Operand: "queue", Got: "is nil"}
	}
	if len(xs) == 0 {
		return &device.ArgumentError{Op: name, Operand: "x", Clause: name + ".C1", Got: "has no tensors", Want: "at least one"}
	}
	if len(xs) == 1 {
		return at(0, xs[0], total, engine.Call(q, SquareSumDefinition, []*tensor.Tensor{xs[0], total}, nil, opts...))
	}
	if err := checkTotal(q, total, xs, opts); err != nil {
		return err
	}
	sums, err := takePartial(q, len(xs))
	if err != nil {
		return err
	}
	defer sums.put(q)
	for i, x := range xs {
		sums.calls[i].Tensors[0] = x
	}
	if err := engine.CallAll(q, sums.calls, opts...); err != nil {
		failed, _ := errors.AsType[*engine.CallsError](err)
		return at(failed.At, xs[failed.At], total, failed.Cause)
	}
	total, err = total.Reshape(1)
	if err != nil {
		return err
	}
	return engine.Call(q, TotalDefinition, []*tensor.Tensor{sums.all, total}, nil, opts...)
}

// checkTotal checks what the calls on the tensors will not see: total. They check the tensors
// again, so that those that are right need not be checked twice; a mistake is found where a
// call on each tensor and total would find it.
func checkTotal(q *engine.Queue, total *tensor.Tensor, xs []*tensor.Tensor, opts []engine.CallOption) error {
	checkOnly := append(opts[:len(opts):len(opts)], engine.CheckOnly())
	for i, x := range xs {
		if i > 0 && tensor.Check("", "", x) == nil && x.DType() == xs[0].DType() && x.Device() == xs[0].Device() && x.Folds() && tensor.Overlap(x, total) == tensor.Disjoint {
			continue
		}
		if err := engine.Call(q, SquareSumDefinition, []*tensor.Tensor{x, total}, nil, checkOnly...); err != nil {
			return at(i, x, total, err)
		}
	}
	return nil
}

// positionError says which tensor of several a mistake is in.
type positionError struct {
	position int
	cause    error
}

func (e *positionError) Error() string { return fmt.Sprintf("tensor %d: %v", e.position, e.cause) }
func (e *positionError) Unwrap() error { return e.cause }

// at gives an error the position of the tensor that it is about: one that will not
// do, or whose memory total shares.
func at(i int, x, total *tensor.Tensor, err error) error {
	if err == nil {
		return nil
	}
	var bad *device.ArgumentError
	if errors.As(err, &bad) && (bad.Operand == "x" || bad.Operand == "total" && tensor.Overlap(x, total) != tensor.Disjoint) {
		return &positionError{i, err}
	}
	return err
}

// Clip writes the norm of all tensors, and the factor by which to multiply them
// so that it does not exceed maxNorm, one f32 each.
func Clip(q *engine.Queue, norm, factor *tensor.Tensor, maxNorm float64, xs []*tensor.Tensor, opts ...engine.CallOption) error {
	name := ClipDefinition.Name
	if q == nil {
		return &device.ArgumentError{Op: name, Operand: "queue", Got: "is nil"}
	}
	if err := engine.CheckParams(ClipDefinition, []float64{maxNorm}); err != nil {
		return err
	}
	total, err := tensor.New(q.Device(), num.F32, 1)
	if err != nil {
		return err
	}
	defer total.Close()
	results := []*tensor.Tensor{total, norm, factor}
	for i := 1; i < len(results); i++ {
		operand, x := ClipDefinition.Operands[i].Name, results[i]
		if err := tensor.Check(name, operand, x); err != nil {
			return err
		}
		if x.Len() != 1 {
			return &device.ArgumentError{Op: name, Operand: operand, Got: fmt.Sprintf("has shape %v", x.Shape()), Want: "one element"}
		}
		for k := range xs {
			if tensor.Overlap(x, xs[k]) != tensor.Disjoint {
				return &device.ArgumentError{Op: name, Operand: operand, Clause: name + ".C5", Got: fmt.Sprintf("overlaps tensor %d", k), Want: "memory of its own"}
			}
		}
		if results[i], err = x.Reshape(1); err != nil {
			return err
		}
	}
	if err := SquareSum(q, total, xs, opts...); err != nil {
		return err
	}
	return engine.Call(q, ClipDefinition, results, []float64{maxNorm}, opts...)
}
