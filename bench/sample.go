package bench

import (
	"context"
	"fmt"
	"slices"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/tensor"
)

// sample is the reference's answer for some rows of the outputs.
type sample struct {
	d    *def.Definition
	rows []int // of the outputs; nil if all are compared
	want []num.Array
}

// newSample computes the answer from operands as they are before a call. Rows are
// drawn at random, the first and the last among them, where a row does not depend on
// others; sums over all rows need the whole answer, which comes from the CPU's lowering
// where the reference would take minutes.
func newSample(ctx context.Context, d *def.Definition, operands []num.Array, params []float64, model def.Model) (*sample, error) {
	s := &sample{d: d, want: slices.Clone(operands)}
	if canSample(d) {
		s.rows = someRows(d, operands)
	}
	s.restrict()
	if s.rows == nil && steps(d, operands) > mostSteps {
		if err := runOnCPU(ctx, d, s.want, params); err != nil {
			return nil, fmt.Errorf("the CPU refused: %w", err)
		}
	} else if err := reference.Run(d, s.want, reference.Options{Params: params, Model: model}); err != nil {
		return nil, fmt.Errorf("the reference refused: %w", err)
	}
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			s.want[i] = num.Array{} // inputs may be large
		}
	}
	return s, nil
}

// mostSteps is what the reference computes within some ten seconds.
const mostSteps = 1 << 30

// steps is how many the reference takes for a whole answer.
func steps(d *def.Definition, operands []num.Array) int {
	most := 1
	for _, a := range operands {
		most = max(most, a.Rows*a.Cols)
	}
	return most * max(1, len(d.Exec.Nodes))
}

// runOnCPU computes a definition in place of the reference.
func runOnCPU(ctx context.Context, d *def.Definition, operands []num.Array, params []float64) error {
	q := cpu.Queue().WithContext(ctx)
	tensors := make([]*tensor.Tensor, len(operands))
	for i, a := range operands {
		t, err := tensor.New(q.Device(), a.DType, shapeOf(&d.Operands[i], a)...)
		if err != nil {
			return err
		}
		defer t.Close()
		if err := t.SetBytes(a.Data); err != nil {
			return err
		}
		tensors[i] = t
	}
	if err := engine.Call(q, d, tensors, params); err != nil {
		return err
	}
	for i, t := range tensors {
		if !d.Operands[i].IsOut {
			continue
		}
		data, err := t.Bytes()
		if err != nil {
			return err
		}
		copy(operands[i].Data, data)
	}
	return nil
}

// shapeOf is the shape of the tensor that an operand's matrix was.
func shapeOf(o *def.Operand, a num.Array) []int {
	switch len(o.Dims) {
	case 0:
		return nil
	case 1:
		return []int{a.Rows * a.Cols}
	}
	return []int{a.Rows, a.Cols}
}

// canSample reports whether some rows of the outputs can be computed without the
// others, and without their number. A sum over all rows never has an output per row.
func canSample(d *def.Definition) bool {
	if d.Kind == def.KindRowwise && slices.ContainsFunc(d.Operands, func(o def.Operand) bool { return o.IsOut && o.Extent&def.PerRow == 0 }) {
		return false
	}
	return !slices.ContainsFunc(d.Exec.Nodes, func(n *def.Node) bool { return n.Op == def.OpRows || n.Op == def.OpRandom })
}

// someRows draws as many rows as the reference computes within a fraction of a
// second.
func someRows(d *def.Definition, operands []num.Array) []int {
	const (
		budget      = 1 << 22 // steps of the interpreter
		least, most = 2, 32
	)
	out := operands[slices.IndexFunc(d.Operands, func(o def.Operand) bool { return o.IsOut })]
	steps := 1
	for i := range d.Operands {
		steps = max(steps, operands[i].Cols)
	}
	switch d.Kind {
	case def.KindRowwise:
		steps *= len(d.Exec.Nodes)
	case def.KindContraction:
		steps = out.Cols * operands[0].Rows * operands[0].Cols / out.Rows
	}
	n := min(max(budget/max(steps, 1), least), most)
	if n >= out.Rows {
		return nil
	}
	rows := []int{0, out.Rows - 1}
	for g := gen.New("bench/rows"); len(rows) < n; {
		if r := g.Below(out.Rows); !slices.Contains(rows, r) {
			rows = append(rows, r)
		}
	}
	slices.Sort(rows)
	return rows
}

// restrict leaves the sampled rows of the outputs, and what they depend on. What the
// reference writes is a copy.
func (s *sample) restrict() {
	for i := range s.d.Operands {
		o := &s.d.Operands[i]
		switch {
		case s.rows == nil && o.IsOut:
			s.want[i] = s.want[i].Clone()
		case s.rows == nil:
		case s.d.Kind == def.KindContraction && i == 0 && s.d.TransposeLeft:
			s.want[i] = pickColumns(s.want[i], s.rows)
		case s.d.Kind == def.KindContraction && i == 1, s.d.Kind == def.KindGather && i == 1:
		case s.d.Kind == def.KindScatterAdd && i == 0:
			s.want[i] = renumber(s.want[i], s.rows)
		case s.d.Kind == def.KindScatterAdd && i == 1:
		case s.d.Kind != def.KindRowwise || o.Extent&def.PerRow != 0:
			s.want[i] = pickRows(s.want[i], s.rows)
		}
	}
}

func pickRows(a num.Array, rows []int) num.Array {
	b := num.NewArray(a.DType, len(rows), a.Cols)
	for k, r := range rows {
		for c := range a.Cols {
			b.SetBits(k, c, a.Bits(r, c))
		}
	}
	return b
}

func pickColumns(a num.Array, columns []int) num.Array {
	b := num.NewArray(a.DType, a.Rows, len(columns))
	for r := range a.Rows {
		for k, c := range columns {
			b.SetBits(r, k, a.Bits(r, c))
		}
	}
	return b
}

// renumber makes an index into the table point into the sampled rows of it; the
// reference passes over the others.
func renumber(index num.Array, rows []int) num.Array {
	b := num.NewArray(index.DType, index.Rows, 1)
	for r := range index.Rows {
		k, ok := slices.BinarySearch(rows, int(index.Int(r, 0)))
		if !ok {
			k = -1
		}
		b.SetBits(r, 0, uint32(int32(k)))
	}
	return b
}

// differs says where an output has other bits than the answer, or nothing. Every NaN
// is one, except where rows are copied.
func (s *sample) differs(i int, got num.Array) string {
	want := s.want[i]
	digits := 2 * want.DType.Size()
	for k := range want.Rows {
		r := k
		if s.rows != nil {
			r = s.rows[k]
		}
		for c := range want.Cols {
			x, y := got.Bits(r, c), want.Bits(k, c)
			if s.d.Kind != def.KindGather {
				x, y = num.Canonical(want.DType, x), num.Canonical(want.DType, y)
			}
			if x != y {
				return fmt.Sprintf("%s[%d,%d] is 0x%0*x, want 0x%0*x", s.d.Operands[i].Name, r, c, digits, x, digits, y)
			}
		}
	}
	return ""
}
