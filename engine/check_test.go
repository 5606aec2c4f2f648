package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/device"
	"tokitai/engine"
	"tokitai/num"
	"tokitai/tensor"
)

// probe has an operand of every kind.
var probe = def.Must(def.Rowwise("probe", func(b *def.Builder) {
	x, z := b.In("x"), b.In("z", def.Like("x"))
	c, r := b.InCol("c", def.Like("x").Or(num.F32)), b.InRow("r", def.Only(num.F32))
	ignore := b.IntParam("ignore")
	label := b.InIndex("label", ignore)
	p := b.Param("p")
	w := b.In("w", def.Only(num.F32))
	b.Out("y", x.Mul(c).Add(z.Mul(r)).Mul(p), def.Like("x"))
	b.Out("v", z, def.Only(num.F16, num.BF16))
	b.OutRow("first", def.Select(label.Equal(ignore), def.Zero, x.At(label)), def.Only(num.F32))
	b.OutCol("columns", def.ColSum(x), def.Only(num.F32))
	b.OutScalar("total", def.TotalSum(w), def.Only(num.F32))
	b.Out("w", w.Add(def.One))
}))

var product = def.Must(def.Contraction("product", def.ContractionForm{
	Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"N", "K"}, TransposeRight: true, Result: "c", ResultDims: []string{"M", "N"},
}))

var rows = def.Must(def.Gather("rows", def.GatherForm{Index: "index", Table: "table", Out: "out"}))

var sums = def.Must(def.ScatterAdd("sums", def.ScatterForm{Index: "index", Rows: "rows", Result: "result"}))

var flat = def.Must(def.Rowwise("flat", func(b *def.Builder) { b.Out("y", b.In("x").Neg(), def.Like("x")) }))

// valid is a call of each that is accepted.
func valid(t testing.TB, q *engine.Queue) map[*def.Definition]engine.Args {
	return map[*def.Definition]engine.Args{
		probe: {
			"x": matrix(t, q, num.F16, 2, 3), "z": matrix(t, q, num.F16, 2, 3), "c": matrix(t, q, num.F16, 3), "r": matrix(t, q, num.F32, 2),
			"label": indices(t, q, 2, 0), "w": matrix(t, q, num.F32, 2, 3), "y": matrix(t, q, num.F16, 2, 3), "v": matrix(t, q, num.BF16, 2, 3),
			"first": matrix(t, q, num.F32, 2), "columns": matrix(t, q, num.F32, 3), "total": matrix(t, q, num.F32),
		},
		product: {"a": matrix(t, q, num.F16, 2, 3), "b": matrix(t, q, num.F16, 4, 3), "c": matrix(t, q, num.F16, 2, 4)},
		rows:    {"index": indices(t, q, 1, 0, 1), "table": matrix(t, q, num.BF16, 2, 5), "out": matrix(t, q, num.BF16, 3, 5)},
		sums:    {"index": indices(t, q, 1, 0, 1), "rows": matrix(t, q, num.F16, 3, 5), "result": matrix(t, q, num.F32, 2, 5)},
		flat:    {"x": matrix(t, q, num.F16, 2, 3), "y": matrix(t, q, num.F16, 2, 3)},
	}
}

var probeParams = engine.Params{"p": 2, "ignore": -100}

func paramsOf(d *def.Definition) engine.CallOption {
	if d == probe {
		return engine.WithParams(probeParams)
	}
	return engine.WithParams(nil)
}

func slice(t testing.TB, x *tensor.Tensor, rowLo, rowHi, colLo, colHi int) *tensor.Tensor {
	t.Helper()
	v, err := x.Slice(rowLo, rowHi, colLo, colHi)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func reshape(t testing.TB, x *tensor.Tensor, shape ...int) *tensor.Tensor {
	t.Helper()
	v, err := x.Reshape(shape...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// contents are the bytes of every tensor that can be read.
func contents(args engine.Args) map[string][]byte {
	all := map[string][]byte{}
	for name, x := range args {
		if raw, err := x.Bytes(); err == nil {
			all[name] = raw
		}
	}
	return all
}

func wantUnchanged(t *testing.T, what string, before map[string][]byte, args engine.Args) {
	t.Helper()
	for name, raw := range contents(args) {
		if old, ok := before[name]; ok && !bytes.Equal(raw, old) {
			t.Errorf("%s: %s has changed", what, name)
		}
	}
}

// TestRefusedCalls hands in what does not fit, one thing at a time, and wants a
// sentence about it and nothing written.
func TestRefusedCalls(t *testing.T) {
	q, other := newQueue(t), newQueue(t)
	closed := matrix(t, q, num.F16, 2, 3)
	closed.Close()
	for _, test := range []struct {
		name   string
		d      *def.Definition
		change func(a engine.Args)
		want   string
	}{
		{"a missing operand", probe, func(a engine.Args) { delete(a, "x") }, "probe: x is nil"},
		{"a missing output", probe, func(a engine.Args) { a["y"] = nil }, "probe: y is nil"},
		{"a closed tensor", probe, func(a engine.Args) { a["z"] = closed }, "probe: z is closed"},
		{"a view of a closed tensor", flat, func(a engine.Args) {
			whole := matrix(t, q, num.F16, 2, 3)
			a["x"] = slice(t, whole, 0, 2, 0, 3)
			whole.Close()
		}, "flat: x is closed"},
		{"an empty tensor", flat, func(a engine.Args) { a["x"] = &tensor.Tensor{} }, "flat: x is closed"},
		{"another device", probe, func(a engine.Args) { a["r"] = matrix(t, other, num.F32, 2) }, "probe: r is on a different handle to cpu, want cpu, the queue's device"},
		{"an unknown operand", probe, func(a engine.Args) { a["q"] = a["x"] },
			"probe: q is an unknown operand, want x, z, c, r, label, w, y, v, first, columns or total"},

		{"an integer for a real", probe, func(a engine.Args) { a["x"] = indices(t, q, 1, 2) }, "probe: x is i32, want f16, bf16 or f32"},
		{"a format unlike x", probe, func(a engine.Args) { a["z"] = matrix(t, q, num.F32, 2, 3) }, "probe: z is f32, want f16 like x"},
		{"neither like x nor f32", probe, func(a engine.Args) { a["c"] = matrix(t, q, num.BF16, 3) }, "probe: c is bf16, want f16 like x, or f32"},
		{"one format only", probe, func(a engine.Args) { a["r"] = matrix(t, q, num.F16, 2) }, "probe: r is f16, want f32"},
		{"two formats only", probe, func(a engine.Args) { a["v"] = matrix(t, q, num.F32, 2, 3) }, "probe: v is f32, want f16 or bf16"},
		{"a real for an index", probe, func(a engine.Args) { a["label"] = matrix(t, q, num.F32, 2) }, "probe: label is f32, want i32"},

		{"one dimension", probe, func(a engine.Args) { a["x"] = matrix(t, q, num.F16, 3) }, "probe: x has shape [3], want at least two dimensions, rows and columns"},
		{"another number of columns", probe, func(a engine.Args) { a["y"] = matrix(t, q, num.F16, 2, 4) }, "probe: y has shape [2 4], want [2 3] like x"},
		{"another number of rows", probe, func(a engine.Args) { a["z"] = matrix(t, q, num.F16, 1, 3) }, "probe: z has shape [1 3], want [2 3] like x"},
		{"another rank", probe, func(a engine.Args) { a["z"] = matrix(t, q, num.F16, 2, 1, 3) }, "probe: z has shape [2 1 3], want [2 3] like x"},
		{"a column too few", probe, func(a engine.Args) { a["c"] = matrix(t, q, num.F16, 2) }, "probe: c has shape [2], want [3], one for each column of x"},
		{"columns as rows", probe, func(a engine.Args) { a["c"] = matrix(t, q, num.F16, 3, 1) }, "probe: c has shape [3 1], want [3], one for each column of x"},
		{"a row too many", probe, func(a engine.Args) { a["r"] = matrix(t, q, num.F32, 3) }, "probe: r has shape [3], want [2], one for each row of x"},
		{"a column of another number", probe, func(a engine.Args) { a["r"] = matrix(t, q, num.F32, 3, 1) }, "probe: r has shape [3 1], want [2], one for each row of x"},
		{"rows as columns", probe, func(a engine.Args) { a["first"] = matrix(t, q, num.F32, 1, 2) }, "probe: first has shape [1 2], want [2], one for each row of x"},
		{"labels of another number", probe, func(a engine.Args) { a["label"] = indices(t, q, 1) }, "probe: label has shape [1], want [2], one for each row of x"},
		{"two totals", probe, func(a engine.Args) { a["total"] = matrix(t, q, num.F32, 2) }, "probe: total has shape [2], want one element"},
		{"gaps between values per row", probe, func(a engine.Args) {
			a["x"], a["z"], a["y"] = matrix(t, q, num.F16, 2, 2, 3), matrix(t, q, num.F16, 2, 2, 3), matrix(t, q, num.F16, 2, 2, 3)
			a["w"], a["v"], a["label"], a["first"] = matrix(t, q, num.F32, 2, 2, 3), matrix(t, q, num.F16, 2, 2, 3), indices(t, q, 0, 0, 0, 0), matrix(t, q, num.F32, 4)
			a["r"] = slice(t, matrix(t, q, num.F32, 2, 5), 0, 2, 0, 2)
		}, "probe: r has row stride 5, want its elements without gaps"},
		{"a vector times a matrix", product, func(a engine.Args) { a["a"] = matrix(t, q, num.F16, 3) }, "product: a has shape [3], want [M K]"},
		{"nothing to sum over", product, func(a engine.Args) { a["b"] = matrix(t, q, num.F16, 4, 2) }, "product: b has shape [4 2], want K = 3 like a"},
		{"a result of other sizes", product, func(a engine.Args) { a["c"] = matrix(t, q, num.F16, 2, 5) }, "product: c has shape [2 5], want N = 4 like b"},
		{"a result in the wrong format", product, func(a engine.Args) { a["c"] = matrix(t, q, num.BF16, 2, 4) }, "product: c is bf16, want f16 like a, or f32"},
		{"rows of another width", rows, func(a engine.Args) { a["out"] = matrix(t, q, num.BF16, 3, 4) }, "rows: out has shape [3 4], want D = 5 like table"},
		{"another number of queries", rows, func(a engine.Args) { a["out"] = matrix(t, q, num.BF16, 2, 5) }, "rows: out has shape [2 5], want Q = 3 like index"},
		{"another shape of a flat operation", flat, func(a engine.Args) { a["y"] = matrix(t, q, num.F16, 6) }, "flat: y has shape [6], want [2 3] like x"},

		{"two outputs in one place", probe, func(a engine.Args) {
			a["y"] = a["v"]
			a["x"], a["z"], a["c"] = bf16(t, q), bf16(t, q), matrix(t, q, num.F32, 3)
		},
			"probe: y overlaps v, want memory of its own"},
		{"an output over part of an input", probe, func(a engine.Args) {
			whole := matrix(t, q, num.F16, 2, 4)
			a["x"], a["y"] = slice(t, whole, 0, 2, 0, 3), slice(t, whole, 0, 2, 1, 4)
		}, "probe: y overlaps x, want memory of its own, or exactly that of x"},
		{"a row output in a row input", probe, func(a engine.Args) { a["first"] = a["r"] }, "probe: first overlaps r, want memory of its own"},
		{"an update in another input", probe, func(a engine.Args) {
			a["x"], a["z"], a["y"] = matrix(t, q, num.F32, 2, 3), matrix(t, q, num.F32, 2, 3), matrix(t, q, num.F32, 2, 3)
			a["c"], a["w"] = matrix(t, q, num.F32, 3), a["z"]
		}, "probe: w overlaps z, want memory of its own"},
		{"an output in what is updated", probe, func(a engine.Args) {
			a["x"], a["z"], a["y"] = matrix(t, q, num.F32, 2, 3), matrix(t, q, num.F32, 2, 3), a["w"]
			a["c"] = matrix(t, q, num.F32, 3)
		}, "probe: w overlaps y, want memory of its own"},
		{"a product in its operand", product, func(a engine.Args) {
			a["a"] = matrix(t, q, num.F16, 2, 3)
			a["b"] = matrix(t, q, num.F16, 3, 3)
			a["c"] = a["a"]
		},
			"product: c overlaps a, want memory of its own"},
		{"a gather in its table", rows, func(a engine.Args) { a["out"] = matrix(t, q, num.BF16, 3, 5); a["table"] = a["out"] },
			"rows: out overlaps table, want memory of its own"},
	} {
		args := valid(t, q)[test.d]
		test.change(args)
		before := contents(args)
		err := engine.Run(q, test.d, args, paramsOf(test.d))
		if !errors.Is(err, tensor.ErrBadArgument) || err.Error() != test.want {
			t.Errorf("%s: got %v\nwant %s", test.name, err, test.want)
		}
		wantUnchanged(t, test.name, before, args)
	}
	if err := engine.Run(q, flat, engine.Args{"x": closed, "y": closed}); !errors.Is(err, device.ErrClosed) {
		t.Errorf("a closed tensor: %v is not ErrClosed", err)
	}
}

func bf16(t testing.TB, q *engine.Queue) *tensor.Tensor { return matrix(t, q, num.BF16, 2, 3) }

// TestAcceptedCalls are the shapes, places and formats that a contract allows.
func TestAcceptedCalls(t *testing.T) {
	q := newQueue(t)
	for _, test := range []struct {
		name   string
		d      *def.Definition
		change func(a engine.Args)
	}{
		{"as it is", probe, func(engine.Args) {}},
		{"in place", probe, func(a engine.Args) { a["y"] = a["z"] }},
		{"inputs that are one", probe, func(a engine.Args) { a["z"] = a["x"] }},
		{"values per row as a column", probe, func(a engine.Args) { a["r"], a["first"] = matrix(t, q, num.F32, 2, 1), matrix(t, q, num.F32, 2, 1) }},
		{"values per row in a column of a matrix", probe, func(a engine.Args) { a["r"] = slice(t, matrix(t, q, num.F32, 2, 5), 0, 2, 3, 4) }},
		{"values per column as a row", probe, func(a engine.Args) { a["c"], a["columns"] = matrix(t, q, num.F16, 1, 3), matrix(t, q, num.F32, 1, 3) }},
		{"one row and one column", probe, func(a engine.Args) {
			for name, x := range a {
				if x.Rank() == 2 {
					a[name] = slice(t, x, 1, 2, 2, 3)
				}
			}
			a["c"], a["r"], a["label"] = matrix(t, q, num.F16, 1), matrix(t, q, num.F32, 1), indices(t, q, 0)
			a["first"], a["columns"] = matrix(t, q, num.F32, 1), matrix(t, q, num.F32, 1)
		}},
		{"blocks of one matrix", probe, func(a engine.Args) {
			whole := matrix(t, q, num.F16, 4, 9)
			a["x"], a["z"], a["y"] = slice(t, whole, 0, 2, 0, 3), slice(t, whole, 1, 3, 3, 6), slice(t, whole, 2, 4, 6, 9)
		}},
		{"three dimensions", probe, func(a engine.Args) {
			for name, x := range a {
				if x.Rank() == 2 {
					a[name] = matrix(t, q, x.DType(), 2, 2, 3)
				}
			}
			a["r"], a["label"], a["first"] = matrix(t, q, num.F32, 2, 2), indices(t, q, 0, 1, 2, 0), matrix(t, q, num.F32, 4)
		}},
		{"a total in a matrix", probe, func(a engine.Args) { a["total"] = slice(t, matrix(t, q, num.F32, 3, 3), 1, 2, 1, 2) }},
		{"an f32 product", product, func(a engine.Args) { a["c"] = matrix(t, q, num.F32, 2, 4) }},
		{"a product of leading dimensions", product, func(a engine.Args) { a["a"], a["c"] = matrix(t, q, num.F16, 2, 5, 3), matrix(t, q, num.F16, 10, 4) }},
		{"a matrix of queries", rows, func(a engine.Args) {
			a["index"], a["out"] = reshape(t, indices(t, q, 0, 1, 1, 0), 2, 2), matrix(t, q, num.BF16, 2, 2, 5)
		}},
		{"a number", flat, func(a engine.Args) { a["x"], a["y"] = matrix(t, q, num.F32), matrix(t, q, num.F32) }},
		{"a vector", flat, func(a engine.Args) { a["x"], a["y"] = matrix(t, q, num.F32, 7), matrix(t, q, num.F32, 7) }},
		{"a vector in place", flat, func(a engine.Args) { a["x"] = matrix(t, q, num.F32, 7); a["y"] = a["x"] }},
	} {
		args := valid(t, q)[test.d]
		test.change(args)
		if err := compareCall(q, test.d, args, probeParams); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestParams(t *testing.T) {
	q := newQueue(t)
	for _, test := range []struct {
		params engine.Params
		want   string
	}{
		{nil, "probe: ignore is missing, want an int32"},
		{engine.Params{"ignore": 1}, "probe: p is missing, want a number"},
		{engine.Params{"ignore": 1, "p": 1, "q": 2}, "probe: q is an unknown parameter, want ignore or p"},
		{engine.Params{"ignore": 1.5, "p": 1}, "probe: ignore is 1.5, want an int32"},
		{engine.Params{"ignore": 1 << 31, "p": 1}, "probe: ignore is 2.147483648e+09, want an int32"},
		{engine.Params{"ignore": math.NaN(), "p": 1}, "probe: ignore is NaN, want an int32"},
		{engine.Params{"ignore": math.Inf(-1), "p": 1}, "probe: ignore is -Inf, want an int32"},
		{engine.Params{"ignore": 1, "p": math.NaN()}, "probe: p is NaN, want a number"},
	} {
		args := valid(t, q)[probe]
		before := contents(args)
		wantRefusal(t, engine.Run(q, probe, args, engine.WithParams(test.params)), test.want)
		wantUnchanged(t, test.want, before, args)
	}
	wantRefusal(t, engine.Run(q, flat, valid(t, q)[flat], engine.WithParams(engine.Params{"p": 1})), "flat: p is an unknown parameter, want none")
	for _, p := range []engine.Params{{"ignore": math.MinInt32, "p": math.Inf(1)}, {"ignore": math.MaxInt32, "p": 0.1}} {
		if err := compareCall(q, probe, valid(t, q)[probe], p); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}

	x := matrix(t, q, num.F16, 2, 3)
	wantRefusal(t, engine.Call(q, flat, []*tensor.Tensor{x}, nil), "flat: call has 1 operands, want 2")
	wantRefusal(t, engine.Call(q, flat, []*tensor.Tensor{x, x}, []float64{1}), "flat: call has 1 parameters, want 0")
}

func TestNothingGiven(t *testing.T) {
	q := newQueue(t)
	args := valid(t, q)[flat]
	tensors := []*tensor.Tensor{args["x"], args["y"]}
	eval := func(q *engine.Queue, d *def.Definition) error {
		_, err := engine.Eval(q, d, args)
		return err
	}
	wantRefusal(t, engine.Run(q, nil, args), "engine.Run: definition is nil")
	wantRefusal(t, engine.Call(q, nil, tensors, nil), "engine.Call: definition is nil")
	wantRefusal(t, eval(q, nil), "engine.Eval: definition is nil")
	wantRefusal(t, engine.Run(nil, flat, args), "flat: queue is nil")
	wantRefusal(t, engine.Call(nil, flat, tensors, nil), "flat: queue is nil")
	wantRefusal(t, eval(nil, flat), "flat: queue is nil")
	wantRefusal(t, engine.Run(&engine.Queue{}, flat, args), "flat: queue is empty, want one that NewQueue made")
	wantRefusal(t, engine.Run(q.WithContext(nil), flat, args), "flat: context is nil") //lint:ignore SA1012 the mistake is the test
	var none *device.NoDeviceError
	if _, err := engine.NewQueue(nil); !errors.As(err, &none) {
		t.Errorf("no device: got %v", err)
	}
	dev := newQueue(t).Device()
	dev.Close()
	if _, err := engine.NewQueue(dev); !errors.Is(err, device.ErrClosed) {
		t.Errorf("a closed device: got %v", err)
	}
}

func TestBadIndices(t *testing.T) {
	q := newQueue(t)
	for _, test := range []struct {
		name  string
		d     *def.Definition
		index []int32
		want  string
	}{
		{"beyond the row", probe, []int32{0, 3}, "probe: label[1] is 3, want 0 to 2 or -100 (ignore)"},
		{"below the row", probe, []int32{-1, 0}, "probe: label[0] is -1, want 0 to 2 or -100 (ignore)"},
		{"beyond the table", rows, []int32{0, 1, 2}, "rows: index[2] is 2, want 0 to 1"},
		{"far below", rows, []int32{math.MinInt32, 7, 1}, "rows: index[0] is -2147483648, want 0 to 1"},
		{"beyond the result", sums, []int32{0, 5, 1}, "sums: index[1] is 5, want 0 to 1"},
	} {
		operand := "index"
		if test.d == probe {
			operand = "label"
		}
		args := valid(t, q)[test.d]
		args[operand] = indices(t, q, test.index...)
		before := contents(args)
		err := engine.Run(q, test.d, args, paramsOf(test.d))
		var bad *engine.IndexError
		if !errors.As(err, &bad) || err.Error() != test.want {
			t.Errorf("%s: got %v\nwant %s", test.name, err, test.want)
		}
		if bad != nil && (bad.Op != test.d.Name || bad.Operand != operand || bad.Value != test.index[bad.Position]) {
			t.Errorf("%s: got %+v", test.name, bad)
		}
		wantUnchanged(t, test.name, before, args)
		if err := compareCall(q, test.d, args, probeParams, engine.WithBadIndex(engine.Skip)); err != nil {
			t.Errorf("%s, skipped: %v", test.name, err)
		}
	}
	args := valid(t, q)[probe]
	args["label"] = indices(t, q, -100, 2)
	if err := compareCall(q, probe, args, probeParams); err != nil {
		t.Errorf("the exception: %v", err)
	}
	if err := engine.Run(q.With(engine.WithBadIndex(engine.Skip)), rows, engine.Args{
		"index": indices(t, q, 9), "table": matrix(t, q, num.F16, 2, 2), "out": matrix(t, q, num.F16, 1, 2),
	}); err != nil {
		t.Errorf("skipped by the queue's setting: %v", err)
	}
}

func TestCanceled(t *testing.T) {
	q := newQueue(t)
	ctx, cancel := context.WithCancel(context.Background())
	bound := q.WithContext(ctx)
	args := valid(t, q)[flat]
	if err := engine.Run(bound, flat, args); err != nil {
		t.Fatal(err)
	}
	cancel()
	before := contents(args)
	err := engine.Run(bound, flat, args)
	if !errors.Is(err, context.Canceled) || err.Error() != "flat: context canceled" {
		t.Errorf("got %v, want flat: context canceled", err)
	}
	wantUnchanged(t, "canceled", before, args)
	if err := engine.Run(q, flat, args); err != nil {
		t.Errorf("the queue itself: %v", err)
	}
}

func TestObserver(t *testing.T) {
	q := newQueue(t)
	args := valid(t, q)[probe]
	var o recorder
	if err := engine.Run(q, probe, args, paramsOf(probe), engine.WithObserver(&o)); err != nil {
		t.Fatal(err)
	}
	r := o.record
	if o.before != 1 || o.after != 1 || o.err != nil || r.Definition != probe || r.Lowering.Name != "cpu.rowwise" ||
		len(r.Tensors) != 11 || r.Tensors[0] != args["x"] || r.Tensors[6] != args["y"] || fmt.Sprint(r.Params) != "[-100 2]" || r.Queue.Device() != q.Device() {
		t.Errorf("got %+v, record %+v", o, r)
	}

	refusal := errors.New("not now")
	o = recorder{refuse: refusal}
	before := contents(args)
	if err := engine.Run(q, probe, args, paramsOf(probe), engine.WithObserver(&o)); !errors.Is(err, refusal) || err.Error() != "probe: not now" || o.after != 0 {
		t.Errorf("refused: got %v, %+v", err, o)
	}
	wantUnchanged(t, "refused", before, args)

	o = recorder{}
	args["x"] = nil
	if err := engine.Run(q, probe, args, paramsOf(probe), engine.WithObserver(&o)); err == nil || o.before != 0 {
		t.Errorf("a bad argument: got %v, %+v", err, o)
	}

	failure := errors.New("broken")
	fails := lowering("cpu.fails", func(*def.Definition, *engine.Launch) error { return failure })
	args = valid(t, q)[flat]
	o = recorder{}
	err := engine.Run(q, flat, args, engine.Using(fails), engine.WithAdmission(engine.Off), engine.WithObserver(&o))
	if !errors.Is(err, failure) || err.Error() != "flat: broken" || !errors.Is(o.err, failure) || o.after != 1 {
		t.Errorf("a failing kernel: got %v, %+v", err, o)
	}
	err = engine.Run(q, flat, args, engine.Using(fails), engine.WithAdmission(engine.Off))
	if !errors.Is(err, failure) || err.Error() != "flat: broken" {
		t.Errorf("a failing kernel that nobody watches: got %v", err)
	}
	o = recorder{}
	if err := engine.Run(q, flat, args, engine.CheckOnly(), engine.WithObserver(&o)); err != nil || o.before != 0 {
		t.Errorf("checked only: got %v, %+v", err, o)
	}
}

func TestCheckOnly(t *testing.T) {
	q := newQueue(t)
	args := valid(t, q)[flat]
	before := contents(args)
	if err := engine.Run(q, flat, args, engine.CheckOnly()); err != nil || private.Plans(q) != 1 {
		t.Errorf("got %v, %d plans", err, private.Plans(q))
	}
	wantUnchanged(t, "checked only", before, args)
	args["y"] = matrix(t, q, num.F16, 6)
	wantRefusal(t, engine.Run(q, flat, args, engine.CheckOnly()), "flat: y has shape [6], want [2 3] like x")
}

func TestEval(t *testing.T) {
	q := newQueue(t)
	chain := def.Must(def.Rowwise("chain", func(b *def.Builder) {
		x := b.In("x")
		b.Out("z", x, def.Like("y"))
		b.Out("y", x, def.Only(num.F32))
		b.Out("free", x)
	}))
	outer := def.Must(def.Rowwise("outer", func(b *def.Builder) { b.Out("y", b.InRow("r").Mul(b.InCol("c"))) }))
	column := def.Must(def.Rowwise("column", func(b *def.Builder) { b.Out("y", b.InRow("r").Add(def.Select(b.Col().Inside(), def.One, def.Zero))) }))
	for _, test := range []struct {
		name   string
		d      *def.Definition
		args   engine.Args
		params engine.Params
		want   string
	}{
		{"every extent", probe, without(valid(t, q)[probe], "y", "v", "first", "columns", "total"), probeParams,
			"columns f32 [3] first f32 [2] total f32 [] v f16 [2 3] w f32 [2 3] y f16 [2 3]"},
		{"outputs given and not", probe, without(valid(t, q)[probe], "y"), probeParams,
			"columns f32 [3] first f32 [2] total f32 [] v bf16 [2 3] w f32 [2 3] y f16 [2 3]"},
		{"three dimensions", flat, engine.Args{"x": matrix(t, q, num.BF16, 2, 3, 4)}, nil, "y bf16 [2 3 4]"},
		{"a number", flat, engine.Args{"x": matrix(t, q, num.BF16)}, nil, "y bf16 []"},
		{"like an output", chain, engine.Args{"x": matrix(t, q, num.F16, 1, 2)}, nil, "free f16 [1 2] y f32 [1 2] z f32 [1 2]"},
		{"sizes from rows and columns", outer, engine.Args{"r": matrix(t, q, num.F16, 2), "c": matrix(t, q, num.F32, 3)}, nil, "y f16 [2 3]"},
		{"a product", product, without(valid(t, q)[product], "c"), nil, "c f16 [2 4]"},
		{"a gather", rows, without(valid(t, q)[rows], "out"), nil, "out bf16 [3 5]"},
	} {
		results, err := engine.Eval(q, test.d, test.args, engine.WithParams(test.params))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got := describe(results); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
		if test.name == "sizes from rows and columns" {
			if v, _ := results["y"].Float32s(); v[0] == 0 {
				t.Error("nothing was computed")
			}
		}
	}
	fails := func(d *def.Definition, args engine.Args, want string) {
		t.Helper()
		results, err := engine.Eval(q, d, args)
		wantRefusal(t, err, want)
		if results != nil {
			t.Errorf("%s: results with an error", want)
		}
	}
	integers := def.Must(def.Rowwise("integers", func(b *def.Builder) {
		b.OutRow("r", def.Select(b.InIndex("i").Inside(), def.One, def.Zero))
		b.Out("y", def.Select(b.Col().Inside(), def.One, def.Zero))
	}))
	fails(integers, engine.Args{"i": indices(t, q, 1, 2)}, "integers: r has no dtype, want an input that determines it, or the output itself")
	fails(sums, without(valid(t, q)[sums], "result"), "sums: result has no size V, want an input that determines it, or the output itself")
	fails(column, engine.Args{"r": matrix(t, q, num.F32, 2)}, "column: y has no size C, want an input that determines it, or the output itself")
	fails(flat, engine.Args{}, "flat: x is missing")
	fails(flat, engine.Args{"x": indices(t, q, 1)}, "flat: x is i32, want f16, bf16 or f32")
}

func without(args engine.Args, names ...string) engine.Args {
	for _, name := range names {
		delete(args, name)
	}
	return args
}

// TestIndicesOfSeveralColumns checks every index of a row, also where the host reads a copy.
func TestIndicesOfSeveralColumns(t *testing.T) {
	d := &def.Definition{Name: "paged", Operands: []def.Operand{
		{Name: "x", Dims: []string{"P", "B"}, IsIn: true},
		{Name: "pages", Dims: []string{"R", "T"}, IsIn: true, IsIndex: true, Bound: "P"},
	}}
	for bad := range 6 {
		x, pages := num.NewArray(num.F32, 4, 2), num.NewArray(num.I32, 2, 3)
		pages.SetBits(bad/3, bad%3, 4)
		want := engine.IndexError{Op: "paged", Operand: "pages", Position: bad, Columns: 3, Value: 4, Bound: 4}
		copied, err := tensor.FromBytes(cpu.Queue().Device(), num.I32, pages.Data, 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{
			"in place": engine.CheckIndices(d, []num.Array{x, pages}, nil),
			"a copy":   private.CheckCopiedIndices(d, []num.Array{x, {DType: num.I32, Rows: 2, Cols: 3, Stride: 7}}, []*tensor.Tensor{nil, copied}),
		} {
			if got, ok := errors.AsType[*engine.IndexError](err); !ok || *got != want {
				t.Errorf("%s: got %v, want %v", what, err, &want)
			} else if text := fmt.Sprintf("paged: pages[%d,%d] is 4, want 0 to 3", bad/3, bad%3); err.Error() != text {
				t.Errorf("%s: got %q, want %q", what, err, text)
			}
		}
	}
}

// TestScalesOfAnyLetter multiplies columns by scales whose size has the letter of a row's columns.
func TestScalesOfAnyLetter(t *testing.T) {
	d, err := def.Contraction("scaled", def.ContractionForm{
		Left: "a", LeftDims: []string{"M", "K"}, Right: "b", RightDims: []string{"K", "C"}, Result: "y", ResultDims: []string{"M", "C"},
		Scales: def.Scales{Col: "scale"},
	})
	if err != nil {
		t.Fatal(err)
	}
	dev := cpu.Queue().Device()
	of := func(values []float32, shape ...int) *tensor.Tensor {
		x, err := tensor.FromFloat32(dev, num.F32, values, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	y := of(make([]float32, 2), 1, 2)
	if err := engine.Call(cpu.Queue(), d, []*tensor.Tensor{of([]float32{3}, 1, 1), of([]float32{1, 2}, 1, 2), y, of([]float32{5, 7}, 2)}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := y.Float32s(); err != nil || got[0] != 15 || got[1] != 42 {
		t.Errorf("got %v, %v, want 15 and 42", got, err)
	}
}
