package optest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op"
	"tokitai/tensor"
	"tokitai/trial"
)

// Refused checks that an error is a BadArgument that names the operation, the operand and
// the clause, if one is given.
func Refused(t testing.TB, err error, operation, operand, clause string) {
	t.Helper()
	var bad *device.ArgumentError
	if !errors.As(err, &bad) || !errors.Is(err, tensor.ErrBadArgument) {
		t.Errorf("%s with a bad %s: got error %v, want a BadArgument", operation, operand, err)
		return
	}
	if bad.Op != operation || bad.Operand != operand || bad.Clause != clause || bad.Got == "" {
		t.Errorf("got %q with operation %q, operand %q, clause %q; want %q, %q, %q", err, bad.Op, bad.Operand, bad.Clause, operation, operand, clause)
	}
}

// Message checks the whole text of a BadArgument.
func Message(t testing.TB, err error, want string) {
	t.Helper()
	switch {
	case !errors.Is(err, tensor.ErrBadArgument):
		t.Errorf("got error %v, want a BadArgument: %s", err, want)
	case err.Error() != want:
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

// Errors passes for every operand of a call in turn what the contract refuses: no tensor, a
// closed one, other formats, other shapes, another device, overlapping memory. Each error
// must be a BadArgument that names operation, operand, what was given and what was wanted,
// and no byte of any operand may change. The same operands without the mistake must be
// accepted.
func Errors(t testing.TB, s Subject, sizes map[string]int) {
	t.Helper()
	e := &errorTable{s: &s, sizes: sizes, q: newQueue(t, 1, engine.WithAdmission(engine.Off))}
	e.dtypes = s.Definition.Formats()[0]

	if err := s.Call(e.q, e.operands(t)); err != nil {
		t.Fatalf("%s: the operands without a mistake: %v", s.Definition.Name, err)
	}
	if err := s.Call(nil, e.operands(t)); !errors.Is(err, tensor.ErrBadArgument) {
		t.Errorf("%s: no queue gives %v, want a BadArgument", s.Definition.Name, err)
	}
	e.canceled(t)
	for i := range s.Definition.Operands {
		e.missing(t, i)
		e.otherFormats(t, i)
		e.otherShapes(t, i)
		e.otherDevice(t, i)
		e.overlaps(t, i)
	}
}

type errorTable struct {
	s      *Subject
	sizes  map[string]int
	q      *engine.Queue
	dtypes []num.DType
}

// operands returns operands without a mistake.
func (e *errorTable) operands(t testing.TB) []*tensor.Tensor {
	t.Helper()
	_, x := place(t, e.s.operands(e.dtypes, e.sizes, op.Data{}, trial.Layout{Offset: 3}, gen.New(e.s.Definition.Name)), e.q.Device())
	return x
}

// other returns a tensor of another format or shape.
func (e *errorTable) other(t testing.TB, dtype num.DType, shape []int) *tensor.Tensor {
	t.Helper()
	return garbage(t, e.q.Device(), dtype, shape...)
}

// refused makes the call and wants an error that names one of the operands.
func (e *errorTable) refused(t testing.TB, q *engine.Queue, x []*tensor.Tensor, mistake string, hasWant bool, operands ...int) {
	t.Helper()
	d := e.s.Definition
	var before [][]byte
	for _, y := range x {
		raw, _ := y.Bytes() // none of a nil or closed tensor
		before = append(before, raw)
	}
	err := e.s.Call(q, x)
	var names []string
	for _, i := range operands {
		names = append(names, d.Operands[i].Name)
	}
	var bad *device.ArgumentError
	switch {
	case !errors.As(err, &bad) || !errors.Is(err, tensor.ErrBadArgument):
		t.Errorf("%s: %s: got error %v, want a BadArgument", d.Name, mistake, err)
	case bad.Op != d.Name || !slices.Contains(names, bad.Operand) || bad.Got == "" || hasWant && bad.Want == "":
		t.Errorf("%s: %s: error %q has operation %q, operand %q, got %q, want %q; its operand should be %s",
			d.Name, mistake, err, bad.Op, bad.Operand, bad.Got, bad.Want, strings.Join(names, " or "))
	}
	for i, y := range x {
		if after, _ := y.Bytes(); !bytes.Equal(after, before[i]) {
			t.Errorf("%s: %s: %s has changed", d.Name, mistake, d.Operands[i].Name)
		}
	}
}

func (e *errorTable) canceled(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	before := e.s.operands(e.dtypes, e.sizes, op.Data{}, trial.Layout{Offset: 3}, gen.New(e.s.Definition.Name))
	placed, x := place(t, before, e.q.Device())
	if err := e.s.Call(e.q.WithContext(ctx), x); !errors.Is(err, context.Canceled) {
		t.Errorf("%s: a canceled context gives %v, want context.Canceled", e.s.Definition.Name, err)
	}
	after, err := placed.Read()
	OK(t, err)
	if text := after.Fault(before); text != "" {
		t.Errorf("%s: a canceled context: %s", e.s.Definition.Name, text)
	}
}

func (e *errorTable) missing(t testing.TB, i int) {
	t.Helper()
	name := e.s.Definition.Operands[i].Name
	x := e.operands(t)
	x[i] = nil
	e.refused(t, e.q, x, "nil "+name, false, i)
	x = e.operands(t)
	x[i].Close()
	e.refused(t, e.q, x, "closed "+name, false, i)
	x[i] = new(tensor.Tensor)
	e.refused(t, e.q, x, "empty "+name, false, i)
}

// otherFormats gives operand i every format that it, or one stored like it, may not have.
func (e *errorTable) otherFormats(t testing.TB, i int) {
	t.Helper()
	d := e.s.Definition
	for dtype := num.F16; dtype <= num.I64; dtype++ {
		dtypes := slices.Clone(e.dtypes)
		dtypes[i] = dtype
		var wrong []int
		for k := range d.Operands {
			rule := d.Operands[k].DTypes
			isLike := rule.Like != "" && dtypes[d.Operand(rule.Like)] == dtypes[k]
			if !isLike && !slices.Contains(rule.Allowed, dtypes[k]) {
				wrong = append(wrong, k)
			}
		}
		if len(wrong) == 0 {
			continue
		}
		x := e.operands(t)
		x[i] = e.other(t, dtype, x[i].Shape())
		e.refused(t, e.q, x, fmt.Sprintf("%s in %s", d.Operands[i].Name, dtype), true, wrong...)
	}
}

// otherShapes makes each dimension of operand i longer, and removes one, where that
// contradicts another operand.
func (e *errorTable) otherShapes(t testing.TB, i int) {
	t.Helper()
	d := e.s.Definition
	name, dims := d.Operands[i].Name, d.Operands[i].Dims
	if len(dims) == 0 {
		x := e.operands(t)
		x[i] = e.other(t, e.dtypes[i], []int{2})
		e.refused(t, e.q, x, "two elements in "+name, true, i)
		return
	}
	for k, letter := range dims {
		var sharing []int
		for n := range d.Operands {
			isSame := func(other string) bool { return strings.TrimSuffix(other, "+1") == strings.TrimSuffix(letter, "+1") }
			if slices.ContainsFunc(d.Operands[n].Dims, isSame) {
				sharing = append(sharing, n)
			}
		}
		if len(sharing) < 2 {
			continue
		}
		x := e.operands(t)
		shape := slices.Clone(x[i].Shape())
		shape[k]++
		x[i] = e.other(t, e.dtypes[i], shape)
		e.refused(t, e.q, x, fmt.Sprintf("%s with %s one larger", name, letter), true, sharing...)
	}
	if len(dims) == 2 && !d.IsFlat() {
		x := e.operands(t)
		x[i] = e.other(t, e.dtypes[i], []int{x[i].Len()})
		e.refused(t, e.q, x, name+" as a vector", true, i)
	}
}

func (e *errorTable) otherDevice(t testing.TB, i int) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{Workers: 1})
	OK(t, err)
	defer dev.Close()
	x := e.operands(t)
	x[i] = garbage(t, dev, e.dtypes[i], x[i].Shape()...)
	e.refused(t, e.q, x, e.s.Definition.Operands[i].Name+" on another device", true, i)
}

// overlaps puts the first element of an output on another operand's last one, and the whole
// output in another operand's place where the contract does not allow that.
func (e *errorTable) overlaps(t testing.TB, i int) {
	t.Helper()
	d := e.s.Definition
	out := &d.Operands[i]
	if !out.IsOut {
		return
	}
	for k := range d.Operands {
		if k == i || e.dtypes[k] != e.dtypes[i] {
			continue
		}
		x := e.operands(t)
		whole, err := tensor.New(e.q.Device(), e.dtypes[i], 1, x[i].Len()+x[k].Len()-1)
		OK(t, err)
		old := x[k]
		x[k] = part(t, whole, 0, old.Shape())
		x[i] = part(t, whole, x[k].Len()-1, x[i].Shape())
		if d.Operands[k].IsIndex {
			OK(t, x[k].CopyFrom(old))
		}
		if x[k].Len() > 1 {
			e.refused(t, e.q, x, out.Name+" partly on "+d.Operands[k].Name, true, i, k)
		}
		x[i] = x[k]
		if slices.Equal(out.Dims, d.Operands[k].Dims) && !mayBe(d, out, &d.Operands[k]) {
			e.refused(t, e.q, x, out.Name+" being "+d.Operands[k].Name, true, i, k)
		}
	}
}

func mayBe(d *def.Definition, a, b *def.Operand) bool {
	return slices.Contains(d.InPlacePartners(a), b.Name) || slices.Contains(d.InPlacePartners(b), a.Name)
}

// part returns a part of a tensor of one row in another shape.
func part(t testing.TB, whole *tensor.Tensor, first int, shape []int) *tensor.Tensor {
	t.Helper()
	n := 1
	for _, size := range shape {
		n *= size
	}
	x, err := whole.Slice(0, 1, first, first+n)
	OK(t, err)
	x, err = x.Reshape(shape...)
	OK(t, err)
	return x
}
