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
	"tokitai/trial"
)

// Sample is the reference's answer for some rows of the outputs.
type Sample struct {
	d    *def.Definition
	Rows []int       // of the outputs; nil if all are compared
	Want []num.Array // by operand; only outputs are set
}

// NewSample computes the answer from the operands before a call. If a row does not depend on
// others, rows are drawn at random, the first and the last among them. Sums over all rows
// need the whole answer, which comes from the CPU's lowering where the reference would take
// minutes.
func NewSample(ctx context.Context, d *def.Definition, operands []num.Array, params []float64, accum def.Accum) (*Sample, error) {
	s := &Sample{d: d, Want: slices.Clone(operands)}
	if canSample(d) {
		s.Rows = someRows(d, operands)
	}
	s.restrict()
	answer := Answer
	if s.Rows != nil {
		answer = byReference
	}
	if err := answer(ctx, d, s.Want, params, accum); err != nil {
		return nil, err
	}
	for i := range d.Operands {
		if !d.Operands[i].IsOut {
			s.Want[i] = num.Array{} // inputs may be large
		}
	}
	return s, nil
}

// Answer computes a definition with the reference, or with the CPU's lowering where the reference would
// take minutes.
func Answer(ctx context.Context, d *def.Definition, operands []num.Array, params []float64, accum def.Accum) error {
	if steps(d, operands) <= mostSteps {
		return byReference(ctx, d, operands, params, accum)
	}
	if err := runOnCPU(ctx, d, operands, params, accum); err != nil {
		return fmt.Errorf("the CPU refused: %w", err)
	}
	return nil
}

func byReference(_ context.Context, d *def.Definition, operands []num.Array, params []float64, accum def.Accum) error {
	if err := reference.Run(d, operands, reference.Options{Params: params, Accum: accum}); err != nil {
		return fmt.Errorf("the reference refused: %w", err)
	}
	return nil
}

// mostSteps is what the reference computes within about ten seconds.
const mostSteps = 1 << 30

// steps returns how many the reference takes for a whole answer.
func steps(d *def.Definition, operands []num.Array) int {
	if p := d.Product(); p != nil {
		out, left := operands[p.Result], operands[p.Left]
		return out.Rows * out.Cols * (left.Rows / left.Matrices()) * left.Cols / (out.Rows / out.Matrices())
	}
	if f := d.Stream(); f != nil {
		const each = 16 // for a product, of tensor cores too
		keys := operands[f.Key].Batch.Axes[0].Size
		if f.IsPaged() {
			keys = operands[f.Pages].Cols * operands[f.Key].Batch.Axes[1].Size
		}
		return operands[f.Query].Rows * keys * operands[f.Query].Cols * each
	}
	most := 1
	for _, a := range operands {
		most = max(most, a.Rows*a.Cols)
	}
	return most * max(1, len(d.Exec().Nodes))
}

// runOnCPU computes a definition with the CPU's lowering of a model instead of the reference.
func runOnCPU(ctx context.Context, d *def.Definition, operands []num.Array, params []float64, accum def.Accum) error {
	q := cpu.Queue().WithContext(ctx)
	memory, err := trial.CopyOf(d, operands, nil).Place(q.Device())
	if err != nil {
		return err
	}
	defer memory.Close()
	tensors, err := memory.Tensors()
	if err != nil {
		return err
	}
	var options []engine.CallOption
	if accum != def.FMAChain {
		options = append(options, engine.Using(cpu.NewMMA(accum)))
	}
	if err := engine.Call(q, d, tensors, params, options...); err != nil {
		return err
	}
	for i := range d.Operands {
		if d.Operands[i].IsOut {
			_, _, result := memory.At(i)
			trial.Copy(operands[i], result)
		}
	}
	return nil
}

// canSample reports whether some rows of the outputs can be computed without the
// others, and without their number. A sum over all rows never has an output per row.
func canSample(d *def.Definition) bool {
	if d.HasAxes() {
		p := d.Product()
		if p == nil || p.Groups.Offsets != "" {
			return false
		}
		batch := d.Operands[p.Result].BatchDims()
		return slices.Equal(d.Operands[p.Left].BatchDims(), batch) && slices.Equal(d.Operands[p.Right].BatchDims(), batch)
	}
	letter := sampledAxis(d)
	if slices.ContainsFunc(d.Operands, func(o def.Operand) bool { return o.IsOut && (len(o.Dims) == 0 || o.Dims[0] != letter) }) {
		return false
	}
	return !slices.ContainsFunc(d.Exec().Nodes, func(n *def.Node) bool {
		return n.Op == def.OpRows || n.Op == def.OpRandom || n.Op == def.OpElement || n.Op == def.OpElementHigh
	})
}

// sampledAxis returns the letter of the rows of the first output that has rows.
func sampledAxis(d *def.Definition) string {
	for i := range d.Operands {
		if o := &d.Operands[i]; o.IsOut && len(o.Dims) > 0 {
			return o.Dims[0]
		}
	}
	return ""
}

// someRows draws as many rows as the reference computes within a fraction of a second; it
// returns nil for all rows.
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
	steps *= max(1, len(d.Exec().Nodes))
	if p := d.Product(); p != nil {
		steps = out.Cols * operands[p.Left].Rows * operands[p.Left].Cols / out.Rows
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

// restrict keeps the sampled rows of the outputs and the inputs that they depend on.
// Outputs become copies.
func (s *Sample) restrict() {
	letter := sampledAxis(s.d)
	for i := range s.d.Operands {
		o := &s.d.Operands[i]
		switch {
		case s.Rows == nil && o.IsOut:
			s.Want[i] = s.Want[i].Clone()
		case s.Rows == nil:
		case s.d.HasAxes():
			s.Want[i] = s.pickMatrices(i)
		case o.IsIndex && o.Bound == letter:
			s.Want[i] = renumber(s.Want[i], s.Rows)
		case slices.Index(o.Dims, letter) == 0:
			s.Want[i] = pickRows(s.Want[i], s.Rows)
		case slices.Contains(o.Dims, letter):
			s.Want[i] = pickColumns(s.Want[i], s.Rows)
		}
	}
}

func pickRows(a num.Array, rows []int) num.Array {
	b := num.NewArray(a.DType, len(rows), a.Cols)
	trial.FillBits(b, func(k, c int) uint64 { return a.Bits64(rows[k], c) })
	return b
}

// pickMatrices returns an operand of many products such that every sampled row is the result
// of a product of its own: a row of the result, and the row or column of the left operand
// that it comes from, with the matrices that belong to it.
func (s *Sample) pickMatrices(i int) num.Array {
	p := s.d.Product()
	from, out := s.Want[i], s.Want[p.Result]
	perMatrix := out.Rows / out.Matrices()
	rows, cols := from.Rows/from.Matrices(), from.Cols
	isLeft := i == p.Left
	switch {
	case isLeft && p.TransposeLeft:
		cols = 1
	case isLeft || i == p.Result:
		rows = 1
	}
	to := num.NewArray(from.DType, len(s.Rows)*rows, cols)
	for k := range s.d.Operands[i].BatchDims() {
		if n := len(s.Rows); k == 0 {
			to.Batch.Append(n, rows*cols)
		} else {
			to.Batch.Append(1, rows*cols)
		}
	}
	trial.FillBits(to, func(r, c int) uint64 {
		row := s.Rows[r/rows]
		m := from.Matrix(row / perMatrix)
		switch {
		case isLeft && p.TransposeLeft:
			return m.Bits64(r%rows, row%perMatrix)
		case isLeft || i == p.Result:
			return m.Bits64(row%perMatrix, c)
		}
		return m.Bits64(r%rows, c)
	})
	return to
}

func pickColumns(a num.Array, columns []int) num.Array {
	b := num.NewArray(a.DType, a.Rows, len(columns))
	trial.FillBits(b, func(r, k int) uint64 { return a.Bits64(r, columns[k]) })
	return b
}

// renumber turns an index into the table into one into its sampled rows; −1 stands for the
// others, which the reference skips.
func renumber(index num.Array, rows []int) num.Array {
	b := num.NewArray(index.DType, index.Rows, index.Cols)
	trial.FillBits(b, func(r, c int) uint32 {
		k, ok := slices.BinarySearch(rows, int(index.Int(r, c)))
		if !ok {
			k = -1
		}
		return uint32(int32(k))
	})
	return b
}

// Differs says where an output differs from the answer; it returns "" if nowhere.
func (s *Sample) Differs(i int, got num.Array) string {
	if s.Rows != nil {
		got = pickRows(got, s.Rows)
	}
	f := trial.RuleOf(s.d).Difference(s.d.Operands[i].Name, got, s.Want[i])
	if f == nil {
		return ""
	}
	if s.Rows != nil {
		f.Row = s.Rows[f.Row]
	}
	return f.String()
}
