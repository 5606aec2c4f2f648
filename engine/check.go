package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tokitai/def"
	"tokitai/device"
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
	}
	if err := CheckShapes(d, tensors); err != nil {
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
	if rejectsIndices(d, s) && (s.caller == nil || s.checkOnly) && l.Operands[0].Data != nil && q.recorder == nil { // which leaves them to its runs
		return checkIndices(d, l, tensors)
	}
	return nil
}

// rejectsIndices reports whether a call is refused for a bad index. Offsets that are out
// of order leave nothing to skip.
func rejectsIndices(d *def.Definition, s *settings) bool {
	return s.badIndex == Reject || d.HasOffsets()
}

// CheckParams returns an error if the definition does not allow the parameters, given in
// its order. Every call checks them; programs use it to check early.
func CheckParams(d *def.Definition, params []float64) error {
	if len(params) != len(d.Params) {
		return bad(d, "call", fmt.Sprintf("has %d parameters", len(params)), fmt.Sprint(len(d.Params)))
	}
	for i, v := range params {
		if p := &d.Params[i]; !p.Allows(v) {
			return &device.ArgumentError{Op: d.Name, Operand: p.Name, Clause: d.ParamClause(p.Name), Got: fmt.Sprintf("is %v", v), Want: p.Want()}
		}
	}
	return nil
}

func bad(d *def.Definition, operand, got, want string) error {
	return &device.ArgumentError{Op: d.Name, Operand: operand, Got: got, Want: want}
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

// CheckShapes returns an error if the definition does not allow the formats and shapes of the
// operands, given in its order. Every call checks them; programs use it before they allocate: the
// tensors need no memory.
func CheckShapes(d *def.Definition, tensors []*tensor.Tensor) error {
	for i, t := range tensors {
		if o := &d.Operands[i]; !allows(d, o.DTypes, t.DType(), tensors) {
			return bad(d, o.Name, "is "+t.DType().String(), wantDType(d, o.DTypes, tensors))
		}
	}
	if err := checkShapes(d, tensors); err != nil {
		return err
	}
	return checkEmpty(d, tensors)
}

// checkEmpty refuses sizes of 0, except for the rows of a batch, and for all of a definition that knows
// elements alone.
func checkEmpty(d *def.Definition, tensors []*tensor.Tensor) error {
	for i, t := range tensors {
		o := &d.Operands[i]
		if t.Len() > 0 || d.IsFlat() && o.Extent == def.PerElement {
			continue
		}
		for k, letter := range o.Dims {
			if letter != d.BatchAxis() && sizeAt(d, o, t, k) == 0 {
				return bad(d, o.Name, fmt.Sprintf("has shape %v", t.Shape()), fmt.Sprintf("%s at least 1; only %s may be 0", letter, d.BatchAxis()))
			}
		}
	}
	return nil
}

// sizeAt returns the k-th size of an operand that has no elements.
func sizeAt(d *def.Definition, o *def.Operand, t *tensor.Tensor, k int) int {
	if d.Expression() != nil && !o.IsTable() {
		if o.Dims[k] == "R" {
			return 0
		}
		return t.Cols()
	}
	return dimension(o, t, k)
}

// checkShapes checks that the operands' shapes agree.
func checkShapes(d *def.Definition, tensors []*tensor.Tensor) error {
	if d.Expression() != nil {
		return checkRowwiseShapes(d, tensors)
	}
	for i := range d.Operands {
		o, t := &d.Operands[i], tensors[i]
		if len(o.Dims) >= 2 && t.Rank() < len(o.Dims) {
			return bad(d, o.Name, fmt.Sprintf("has shape %v", t.Shape()), fmt.Sprint(o.Dims))
		}
		for k, letter := range o.Dims {
			if n := dimension(o, t, k); d.CheckSize(letter, n) != nil {
				return bad(d, o.Name, fmt.Sprintf("has shape %v: %s is %d", t.Shape(), letter, n), def.PageSizes)
			}
			want, like := sizeOf(d, tensors, letter)
			if got := dimension(o, t, k); got != want {
				return bad(d, o.Name, fmt.Sprintf("has shape %v", t.Shape()), fmt.Sprintf("%s = %d like %s", letter, want, like))
			}
		}
	}
	return nil
}

// dimension returns the k-th size of an operand. Leading dimensions that have no letter
// are folded into the first.
func dimension(o *def.Operand, t *tensor.Tensor, k int) int {
	if len(o.Dims) == 1 {
		return t.Len()
	}
	shape := t.Shape()
	first := len(shape) - len(o.Dims) // of those with a letter
	if k > 0 {
		return shape[first+k]
	}
	n := 1
	for _, size := range shape[:first+1] {
		n *= size
	}
	return n
}

// sizeOf returns the size that a letter stands for, and the operand that it is read from:
// the first that has it.
func sizeOf(d *def.Definition, tensors []*tensor.Tensor, letter string) (size int, like string) {
	if group, isMore := strings.CutSuffix(letter, "+1"); isMore {
		size, like = sizeOf(d, tensors, group)
		return size + 1, like
	}
	for i := range d.Operands {
		for k, l := range d.Operands[i].Dims {
			if l == letter {
				return dimension(&d.Operands[i], tensors[i], k), d.Operands[i].Name
			}
		}
	}
	for i := range d.Operands { // where offsets alone have it
		if slices.Equal(d.Operands[i].Dims, []string{letter + "+1"}) {
			return tensors[i].Len() - 1, d.Operands[i].Name
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
	slots := -1 // the first operand with slots
	for i := range d.Operands {
		o, t := &d.Operands[i], tensors[i]
		switch o.Extent {
		case def.PerSlot:
			leading := x.Shape()[:x.Rank()-1]
			if !slices.Equal(t.Shape()[:max(0, t.Rank()-1)], leading) && (t.Rank() != 2 || t.Rows() != x.Rows()) {
				return bad(d, o.Name, fmt.Sprintf("has shape %v", t.Shape()), fmt.Sprintf("%v and a number of slots, for each row of %s", leading, name))
			}
			if slots < 0 {
				slots = i
			}
			if k := tensors[slots].Cols(); t.Cols() != k {
				return bad(d, o.Name, fmt.Sprintf("has %d slots", t.Cols()), fmt.Sprintf("%d like %s", k, d.Operands[slots].Name))
			}
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
		case def.Chosen | def.PerColumn, def.Chosen:
			if err := checkTableShape(d, tensors, i, x.Cols()); err != nil {
				return err
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

// checkTableShape checks the shape of a table: rows, as many as the first table with its letter
// has, and in each of them a value for each column, or one.
func checkTableShape(d *def.Definition, tensors []*tensor.Tensor, i, cols int) error {
	o, t := &d.Operands[i], tensors[i]
	first := slices.IndexFunc(d.Operands, func(other def.Operand) bool { return other.IsTable() && other.Dims[0] == o.Dims[0] })
	if first == i {
		first = -1
	}
	rows := func() int { return tensors[first].Shape()[0] }
	switch shape := t.Shape(); {
	case len(o.Dims) == 1 && t.Rank() != 1:
		return bad(d, o.Name, fmt.Sprintf("has shape %v", shape), fmt.Sprintf("[%s], one value for each of its rows", o.Dims[0]))
	case len(o.Dims) == 2 && (t.Rank() != 2 || t.Cols() != cols):
		return bad(d, o.Name, fmt.Sprintf("has shape %v", shape), fmt.Sprintf("[%s %d], rows with a value for each column", o.Dims[0], cols))
	case first >= 0 && shape[0] != rows():
		return bad(d, o.Name, fmt.Sprintf("has shape %v", shape), fmt.Sprintf("%d rows like %s", rows(), d.Operands[first].Name))
	}
	return nil
}

// setOperand folds a checked tensor into the matrix that its definition sees. It fills
// the struct field by field: copying it as a whole costs more than all the rest.
func setOperand(o *lower.Operand, d *def.Definition, i int, t *tensor.Tensor) error {
	o.DType, o.Rows, o.Cols, o.Stride, o.Pointer = t.DType(), t.Rows(), t.Cols(), t.RowStride(), t.Pointer()
	o.Data, o.Batch.Count = nil, 0
	if len(d.Operands[i].Dims) > 2 {
		if err := setBatch(o, d, i, t); err != nil {
			return err
		}
	} else if !t.Folds() {
		return bad(d, d.Operands[i].Name, fmt.Sprintf("has shape %v with strides %v", t.Shape(), t.Strides()), "rows at one distance from each other, as a copy has them")
	}
	if o.Pointer == 0 {
		a, _ := t.Array()
		o.Data = a.Data
	}
	if len(d.Operands[i].Dims) == 1 && d.Operands[i].Extent != def.PerColumn {
		switch {
		case t.IsContiguous():
			o.Rows, o.Cols, o.Stride = t.Len(), 1, 1
		case t.Cols() != 1:
			return bad(d, d.Operands[i].Name, fmt.Sprintf("has row stride %d", t.RowStride()), "its elements without gaps")
		}
	}
	return nil
}

// setBatch gives an operand its batch axes: one for each letter, and for the first as many
// as its leading dimensions have different strides.
func setBatch(o *lower.Operand, d *def.Definition, i int, t *tensor.Tensor) error {
	shape, strides := t.Shape(), t.Strides()
	n := len(shape) - 2
	letters := len(d.Operands[i].Dims) - 2
	size, stride := 1, 0 // of the axis that is being merged, inside out
	fits := true
	var axes num.Batch
	for k := n - 1; k >= 0; k-- {
		switch own := n-1-k < letters-1; { // a letter of its own, or a part of the first
		case own:
			fits = axes.Append(shape[k], strides[k]) && fits
		case shape[k] == 1:
		case size == 1:
			size, stride = shape[k], strides[k]
		case strides[k] == size*stride:
			size *= shape[k]
		default:
			fits = axes.Append(size, stride) && fits
			size, stride = shape[k], strides[k]
		}
	}
	if fits = axes.Append(size, stride) && fits; !fits {
		return bad(d, d.Operands[i].Name, fmt.Sprintf("has shape %v with strides %v", shape, strides), fmt.Sprintf("at most %d batch axes that do not fold", num.MaxBatchAxes))
	}
	for k := range axes.Count { // outermost first
		o.Batch.Axes[k] = axes.Axes[axes.Count-1-k]
	}
	o.Batch.Count = axes.Count
	if o.Stride = strides[n]; shape[n] == 1 {
		o.Stride = o.Cols
	}
	if o.Stride < o.Cols {
		return bad(d, d.Operands[i].Name, fmt.Sprintf("has shape %v with strides %v", shape, strides), "matrices whose rows do not share memory")
	}
	return nil
}

// checkOverlap returns an error if an output shares memory with another operand, unless it
// is exactly an input that it may replace, or if its own elements share memory.
func checkOverlap(d *def.Definition, tensors []*tensor.Tensor) error {
	for i := range d.Operands {
		out := &d.Operands[i]
		if !out.IsOut {
			continue
		}
		if tensors[i].IsBroadcast() {
			return bad(d, out.Name, fmt.Sprintf("repeats elements: shape %v, strides %v", tensors[i].Shape(), tensors[i].Strides()), "memory of its own for every element")
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
	var arrays [def.MaxOperands]num.Array
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
			a = num.Array{DType: a.DType, Rows: a.Rows, Cols: a.Cols, Stride: a.Cols, Data: raw}
		}
		arrays[i] = a
		if err := checkIndex(d, &l.Call, i, arrays[:]); err != nil {
			return err
		}
	}
	return nil
}

// checkIndex returns an error for the first index in use of an operand that is out of range. Lengths
// come before what they are lengths of.
func checkIndex(d *def.Definition, c *lower.Call, operand int, arrays []num.Array) error {
	o, a := &d.Operands[operand], &arrays[operand]
	size := func(letter string) int { return c.Size(d, letter) }
	bound := o.Limit(size)
	except, hasExcept := int32(0), o.Except != ""
	if hasExcept {
		except = int32(c.Params[d.Param(o.Except)])
	}
	last := int32(0)
	for r := range a.Rows {
		for c := range d.InUse(operand, arrays, size, r) {
			v := a.Int(r, c)
			if o.IsOffsets {
				if (r > 0 || v == 0) && v >= last && (r < a.Rows-1 || int(v) == bound) {
					last = v
					continue
				}
				return NewIndexError(d, operand, r, a.Cols, v, bound, 0)
			}
			if v >= 0 && int(v) < bound || hasExcept && v == except {
				continue
			}
			return NewIndexError(d, operand, r*a.Cols+c, a.Cols, v, bound, except)
		}
	}
	return nil
}

// CheckIndices returns the *IndexError with which a call is refused whose operands are these,
// in the host's memory, or nil if every index is in its table. Operands and parameters are in
// the order of the definition.
func CheckIndices(d *def.Definition, operands []num.Array, params []float64) error {
	c := lower.Call{Operands: make([]lower.Operand, len(operands)), Params: params}
	for i := range operands {
		c.Operands[i].Array = operands[i]
	}
	for i := range d.Operands {
		if d.Operands[i].IsIndex {
			if err := checkIndex(d, &c, i, operands); err != nil {
				return err
			}
		}
	}
	return nil
}

// resized returns a list of n elements with anything in them, in the memory of s if that
// is enough.
func resized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
