package engine_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"testing"

	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/tensor"
	"tokitai/trial/randdef"
)

// shapesCall makes a definition and tensors for it, most of which fit.
func shapesCall(t testing.TB, g *gen.Generator, q, other *engine.Queue) (*def.Definition, engine.Args, engine.Params) {
	d := []*def.Definition{probe, product, rows, sums, flat}[g.Below(5)]
	if g.Below(2) == 0 {
		var err error
		if d, err = randdef.Sized(g, 1+g.Below(6)); err != nil {
			t.Fatal(err)
		}
	}
	sizes := map[string]int{}
	for _, letter := range []string{"R", "C", "M", "N", "K", "Q", "V", "D", "P"} {
		sizes[letter] = 1 + g.Below(4)
	}
	arena := matrix(t, q, num.FloatDTypes[g.Below(3)], 12, 12)
	dtypes := randdef.DTypes(g, d)
	args, params := engine.Args{}, engine.Params{}
	for i, o := range d.Operands {
		args[o.Name] = shapesTensor(t, g, q, other, arena, &o, dtypes[i], sizes)
	}
	for _, p := range d.Params {
		params[p.Name] = float64(g.Below(6) - 2)
		if g.Below(40) == 0 {
			params[p.Name] = []float64{0.5, 1e20}[g.Below(2)]
		}
	}
	return d, args, params
}

func shapesTensor(t testing.TB, g *gen.Generator, q, other *engine.Queue, arena *tensor.Tensor, o *def.Operand, dtype num.DType, sizes map[string]int) *tensor.Tensor {
	var shape []int
	for _, letter := range o.Dims {
		shape = append(shape, sizes[letter])
	}
	switch g.Below(60) { // mistakes
	case 0:
		return nil
	case 1:
		x := matrix(t, q, dtype, shape...)
		x.Close()
		return x
	case 2:
		q = other
	case 3:
		dtype = []num.DType{num.F16, num.BF16, num.F32, num.I32}[g.Below(4)]
	case 4:
		shape = append(shape, 1+g.Below(3))
	case 5:
		if len(shape) > 0 {
			shape[g.Below(len(shape))]++
		}
	case 6:
		shape = shape[:len(shape)/2]
	case 7: // leading dimensions
		shape = append([]int{1}, shape...)
	}
	if len(shape) == 2 && dtype == arena.DType() && g.Below(2) == 0 { // may overlap others
		r, c := g.Below(3)*4, g.Below(3)*4
		if g.Below(8) == 0 {
			r, c = g.Below(12), g.Below(12)
		}
		if v, err := arena.Slice(r, r+shape[0], c, c+shape[1]); err == nil {
			return v
		}
	}
	if dtype == num.I32 {
		x := matrix(t, q, dtype, shape...)
		values := make([]int32, x.Len())
		for i := range values {
			if g.Below(3) == 0 {
				values[i] = int32(g.Below(5))
			}
		}
		if err := x.SetInt32s(values); err != nil {
			t.Fatal(err)
		}
		return x
	}
	return matrix(t, q, dtype, shape...)
}

// checkShapes makes one call: it is refused with nothing written, or its results
// are the reference's.
func checkShapes(t testing.TB, seed uint64, q, other *engine.Queue) (isAccepted bool) {
	t.Helper()
	g := gen.Seeded(seed)
	d, args, params := shapesCall(t, g, q, other)
	opts := []engine.CallOption{engine.WithAdmission(engine.Off)} // the self-tests have their own tests
	if g.Below(2) == 0 {
		opts = append(opts, engine.WithBadIndex(engine.Skip))
	}
	before := contents(args)
	err := engine.Run(q, d, args, append(opts, engine.WithParams(params), engine.CheckOnly())...)
	if err == nil {
		if err := compareCall(q, d, args, params, opts...); err != nil {
			t.Fatalf("seed %d: %s: %v", seed, describe(args), err)
		}
		return true
	}
	again := engine.Run(q, d, args, append(opts, engine.WithParams(params))...)
	var index *engine.IndexError
	if !errors.Is(err, tensor.ErrBadArgument) && !errors.As(err, &index) {
		t.Fatalf("seed %d: %v is neither a bad argument nor a bad index", seed, err)
	}
	if again == nil || again.Error() != err.Error() {
		t.Fatalf("seed %d: checked: %v, called: %v", seed, err, again)
	}
	for name, raw := range contents(args) {
		if !bytes.Equal(raw, before[name]) {
			t.Fatalf("seed %d: %v, but %s has changed", seed, err, name)
		}
	}
	return false
}

func shapesQueues(t testing.TB) (q, other *engine.Queue) {
	quiet := engine.WithLog(slog.New(slog.NewTextHandler(io.Discard, nil)))
	return newQueue(t, quiet), newQueue(t, quiet)
}

func TestShapes(t *testing.T) {
	q, other := shapesQueues(t)
	accepted, refused, calls := 0, 0, testlevel.Pick(600, 3000)
	for seed := range uint64(calls) {
		if seed%500 == 0 { // random definitions are not kept for ever
			q, other = shapesQueues(t)
		}
		if checkShapes(t, seed, q, other) {
			accepted++
		} else {
			refused++
		}
	}
	if accepted < calls/6 || refused < calls/6 {
		t.Errorf("%d calls accepted and %d refused: want many of both", accepted, refused)
	}
}

func FuzzShapes(f *testing.F) {
	for _, seed := range []uint64{0, 1, 2, 3, 1 << 40} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		q, other := shapesQueues(t)
		checkShapes(t, seed, q, other)
	})
}
