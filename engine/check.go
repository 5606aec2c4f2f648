package engine

import (
	"fmt"
	"math"
	"slices"

	"tokitai/def"
	"tokitai/lower"
	"tokitai/num"
	"tokitai/tensor"
)

// check checks a call against its definition, and fills l with the operands and
// parameters. It writes nothing, and allocates only to refuse. It leaves out indices that
// the host cannot address.
func (q *Queue) check(l *Launch, d *def.Definition, tensors []*tensor.Tensor, params []float64, s *settings) error {
	if len(tensors) != len(d.Operands) {
		return bad(d, "call", fmt.Sprintf("has %d operands", len(tensors)), fmt.Sprint(len(d.Operands)))
	}
	if err := CheckParams(d, params); err != nil {
		return err
	}
	for i, t := range tensors {
		o := &d.Operands[i]
		if err := tensor.Check(d.Name, o.Name, t); err != nil {
			return err
		}
		if !q.reaches(t.Device(), s) {
			name := t.Device().Name()
			if name == q.device.Name() {
				name = "a different handle to " + name
			}
			return bad(d, o.Name, "is on "+name, q.device.Name()+", the queue's device")
		}
		if !allows(d, o.DTypes, t.DType(), tensors) {
			return bad(d, o.Name, "is "+t.DType().String(), wantDType(d, o.DTypes, tensors))
		}
	}
	if err := checkShapes(d, tensors); err != nil {
		return err
	}
	l.Operands, l.Buffers = resized(l.Operands, len(tensors)), resized(l.Buffers, len(tensors))
	for i, t := range tensors {
		l.Buffers[i] = t.Buffer()
		if err := setOperand(&l.Operands[i], d, i, t); err != nil {
			return err
		}
	}
	l.Measure(d)
	if err := checkOverlap(d, tensors); err != nil {
		return err
	}
	l.Params = append(l.Params[:0], params...)
	if s.badIndex == Reject && (s.caller == nil || s.checkOnly) && l.Operands[0].Data != nil {
		return checkIndices(d, l, tensors)
	}
	return nil
}

// CheckParams returns an error if the definition does not allow the parameters, given in
// its order. Every call checks them; programs use it to check early.
func CheckParams(d *def.Definition, params []float64) error {
	if len(params) != len(d.Params) {
		return bad(d, "call", fmt.Sprintf("has %d parameters", len(params)), fmt.Sprint(len(d.Params)))
	}
	for i, v := range params {
		if p := &d.Params[i]; !p.Allows(v) {
			return &tensor.BadArgument{Op: d.Name, Operand: p.Name, Clause: d.ParamClause(p.Name), Got: fmt.Sprintf("is %v", v), Want: p.Want()}
		}
	}
	return nil
}

func bad(d *def.Definition, operand, got, want string) error {
	return &tensor.BadArgument{Op: d.Name, Operand: operand, Got: got, Want: want}
}

func allows(d *def.Definition, r def.Rule, dtype num.DType, tensors []*tensor.Tensor) bool {
	if slices.Contains(r.Allowed, dtype) {
		return true
	}
	return r.Like != "" && tensors[d.Operand(r.Like)].DType() == dtype
}

func wantDType(d *def.Definition, r def.Rule, tensors []*tensor.Tensor) string {
	s := ""
	for i, a := range r.Allowed {
		s += listSeparator(i, len(r.Allowed)) + a.String()
	}
	if r.Like == "" {
		return s
	}
	like := fmt.Sprintf("%s like %s", tensors[d.Operand(r.Like)].DType(), r.Like)
	if s == "" {
		return like
	}
	return like + ", or " + s
}

// maxColumns is the longest row: column numbers are int32.
const maxColumns = math.MaxInt32

// checkShapes checks that the operands' shapes agree.
func checkShapes(d *def.Definition, tensors []*tensor.Tensor) error {
	if d.Kind == def.KindRowwise {
		return checkRowwiseShapes(d, tensors)
	}
	for i := range d.Operands {
		o, t := &d.Operands[i], tensors[i]
		if len(o.Dims) == 2 && t.Rank() < 2 {
			return bad(d, o.Name, fmt.Sprintf("has shape %v", t.Shape()), fmt.Sprintf("[%s %s]", o.Dims[0], o.Dims[1]))
		}
		for k, letter := range o.Dims {
			want, like := sizeOf(d, tensors, letter)
			if got := dimension(o, t, k); got != want {
				return bad(d, o.Name, fmt.Sprintf("has shape %v", t.Shape()), fmt.Sprintf("%s = %d like %s", letter, want, like))
			}
		}
	}
	return nil
}

// dimension returns the k-th size of an operand, with leading dimensions folded.
func dimension(o *def.Operand, t *tensor.Tensor, k int) int {
	switch {
	case len(o.Dims) == 1:
		return t.Len()
	case k == 0:
		return t.Rows()
	}
	return t.Cols()
}

// sizeOf returns the size that a letter stands for, from the first operand that has it.
func sizeOf(d *def.Definition, tensors []*tensor.Tensor, letter string) (size int, like string) {
	for i := range d.Operands {
		for k, l := range d.Operands[i].Dims {
			if l == letter {
				return dimension(&d.Operands[i], tensors[i], k), d.Operands[i].Name
			}
		}
	}
	return 0, ""
}

func checkRowwiseShapes(d *def.Definition, tensors []*tensor.Tensor) error {
	first := slices.IndexFunc(d.Operands, func(o def.Operand) bool { return o.Extent == def.PerElement })
	x, name := tensors[first], d.Operands[first].Name
	if !d.IsFlat() {
		if x.Rank() < 2 {
			return bad(d, name, fmt.Sprintf("has shape %v", x.Shape()), "at least two dimensions, rows and columns")
		}
		if x.Cols() > maxColumns {
			return bad(d, name, fmt.Sprintf("has %d columns", x.Cols()), fmt.Sprintf("at most %d", maxColumns))
		}
	}
	for i := range d.Operands {
		o, t := &d.Operands[i], tensors[i]
		switch o.Extent {
		case def.PerElement:
			if !slices.Equal(t.Shape(), x.Shape()) {
				return bad(d, o.Name, fmt.Sprintf("has shape %v", t.Shape()), fmt.Sprintf("%v like %s", x.Shape(), name))
			}
		case def.PerRow:
			leading := x.Shape()[:x.Rank()-1]
			flat := t.Rank() <= 1 && t.Len() == x.Rows()
			column := t.Rank() == 2 && t.Rows() == x.Rows() && t.Cols() == 1
			if !flat && !column && !slices.Equal(t.Shape(), leading) {
				return bad(d, o.Name, fmt.Sprintf("has shape %v", t.Shape()), fmt.Sprintf("%v, one for each row of %s", leading, name))
			}
		case def.PerColumn:
			if t.Rows() != 1 || t.Cols() != x.Cols() {
				return bad(d, o.Name, fmt.Sprintf("has shape %v", t.Shape()), fmt.Sprintf("[%d], one for each column of %s", x.Cols(), name))
			}
		case def.Scalar:
			if t.Len() != 1 {
				return bad(d, o.Name, fmt.Sprintf("has shape %v", t.Shape()), "one element")
			}
		}
	}
	return nil
}

// setOperand folds a checked tensor into the matrix that its definition sees. It fills
// the struct field by field: copying it as a whole costs more than all the rest.
func setOperand(o *lower.Operand, d *def.Definition, i int, t *tensor.Tensor) error {
	o.DType, o.Rows, o.Cols, o.Stride, o.Pointer = t.DType(), t.Rows(), t.Cols(), t.RowStride(), t.Pointer()
	o.Data = nil
	if o.Pointer == 0 {
		a, _ := t.Array()
		o.Data = a.Data
	}
	if len(d.Operands[i].Dims) == 1 && d.Operands[i].Dims[0] != "C" {
		switch {
		case t.IsContiguous():
			o.Rows, o.Cols, o.Stride = t.Len(), 1, 1
		case t.Cols() != 1:
			return bad(d, d.Operands[i].Name, fmt.Sprintf("has row stride %d", t.RowStride()), "its elements without gaps")
		}
	}
	return nil
}

// checkOverlap returns an error if an output shares memory with another operand, unless it
// is exactly an input that it may replace.
func checkOverlap(d *def.Definition, tensors []*tensor.Tensor) error {
	for i := range d.Operands {
		out := &d.Operands[i]
		if !out.IsOut {
			continue
		}
		for k := range d.Operands {
			in := &d.Operands[k]
			if k == i || in.IsOut && k < i {
				continue
			}
			switch tensor.Overlap(tensors[i], tensors[k]) {
			case tensor.Disjoint:
				continue
			case tensor.Identical:
				if d.MayReplace(out, in) {
					continue
				}
			}
			want := "memory of its own"
			if d.MayReplace(out, in) {
				want = "memory of its own, or exactly that of " + in.Name
			}
			return bad(d, out.Name, "overlaps "+in.Name, want)
		}
	}
	return nil
}

// checkIndices returns an error for the first index out of range. It copies indices that
// the host cannot address, and waits for the copy.
func checkIndices(d *def.Definition, l *Launch, tensors []*tensor.Tensor) error {
	for i := range d.Operands {
		o := &d.Operands[i]
		if !o.IsIndex {
			continue
		}
		a := l.Operands[i].Array
		if a.Data == nil {
			raw, err := tensors[i].Bytes()
			if err != nil {
				return fmt.Errorf("%s: %w", d.Name, err)
			}
			a = num.Array{DType: a.DType, Rows: a.Rows, Cols: 1, Stride: 1, Data: raw}
		}
		bound := l.Size(d, o.Bound)
		except, hasExcept := int32(0), o.Except != ""
		if hasExcept {
			except = int32(l.Params[d.Param(o.Except)])
		}
		for r := range a.Rows {
			v := a.Int(r, 0)
			if v >= 0 && int(v) < bound || hasExcept && v == except {
				continue
			}
			return NewIndexError(d, i, r, v, bound, except)
		}
	}
	return nil
}

// resized returns a list of n elements with anything in them, in the memory of s if that
// is enough.
func resized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
