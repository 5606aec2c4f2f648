package engine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/backend/gputest"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/internal/testlevel"
	"tokitai/num"
	"tokitai/reference"
	"tokitai/tensor"
	"tokitai/trial/randdef"
)

// Random products with batch axes and groups, called on tensors, have the reference's bits.
func TestProductsWithAxes(t *testing.T) {
	callProducts(t, cpu.Queue(), testlevel.Pick(20, 60))
}

// On a simulated GPU too, and bad offsets are rejected there.
func TestProductsWithAxesOnSim(t *testing.T) {
	q, err := engine.NewQueue(gputest.NeedsSim(t, 32))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	callProducts(t, q, testlevel.Pick(3, 20))

	d := contraction(t, "grouped", def.ContractionForm{LeftDims: []string{"M", "K"}, RightDims: []string{"G", "K", "N"}, ResultDims: []string{"M", "N"},
		Groups: def.Groups{Number: "G", Of: "M", Offsets: "offsets"}})
	must := view(t)
	floats := func(values []float32, shape ...int) *tensor.Tensor {
		return must(tensor.FromFloat32(q.Device(), num.F32, values, shape...))
	}
	a, b := floats([]float32{1, 2, 3, 4, 5, 6}, 6, 1), floats([]float32{1, 10}, 2, 1, 1)
	for _, test := range []struct {
		offsets []int32
		want    []float32
		refusal string
	}{
		{[]int32{0, 2, 6}, []float32{1, 2, 30, 40, 50, 60}, ""},
		{[]int32{0, 0, 6}, []float32{10, 20, 30, 40, 50, 60}, ""},
		{[]int32{0, 7, 6}, []float32{9, 9, 9, 9, 9, 9}, "grouped: offsets[2] is 6, want offsets that ascend from 0 to 6"},
		{[]int32{0, 2, 5}, []float32{9, 9, 9, 9, 9, 9}, "grouped: offsets[2] is 5, want offsets that ascend from 0 to 6"},
	} {
		for _, policy := range []engine.BadIndex{engine.Reject, engine.Skip} {
			c := floats([]float32{9, 9, 9, 9, 9, 9}, 6, 1)
			offsets := must(tensor.FromInt32(q.Device(), test.offsets, 3))
			err := engine.Call(q, d, []*tensor.Tensor{a, b, c, offsets}, nil, engine.WithBadIndex(policy))
			if err == nil {
				err = q.Wait()
			}
			if test.refusal == "" && err != nil || test.refusal != "" && (err == nil || err.Error() != test.refusal) {
				t.Errorf("offsets %v: got %v, want %q", test.offsets, err, test.refusal)
			}
			if got, err := c.Float32s(); err != nil || !slices.Equal(got, test.want) {
				t.Errorf("offsets %v: got %v, %v, want %v", test.offsets, got, err, test.want)
			}
		}
	}
}

// callProducts compares calls of random products on a queue with the reference.
func callProducts(t *testing.T, q *engine.Queue, count int) {
	g := gen.New("products with axes")
	for range count {
		d := randdef.Product(g)
		c := randdef.NewCase(g, d, randdef.DTypes(g, d), randdef.ProductSizes(g, d, 9))
		want := c.Clone()
		if err := reference.Run(d, want.Operands, reference.Options{}); err != nil {
			t.Fatal(err)
		}
		p, err := c.Memory.Place(q.Device())
		if err != nil {
			t.Fatal(err)
		}
		tensors, err := p.Tensors()
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Call(q, d, tensors, nil); err != nil {
			t.Fatalf("%v\n%s", err, d.Text())
		}
		if err := q.Wait(); err != nil {
			t.Fatal(err)
		}
		after, err := p.Read()
		if err != nil {
			t.Fatal(err)
		}
		if text := after.Fault(want.Memory); text != "" {
			t.Fatalf("%s\n%s", text, d.Text())
		}
		p.Close()
	}
}

func contraction(t testing.TB, name string, f def.ContractionForm) *def.Definition {
	t.Helper()
	f.Left, f.Right, f.Result = "a", "b", "c"
	d, err := def.Contraction(name, f)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ramp is a tensor of 1, 2, 3, … modulo 7.
func ramp(t testing.TB, shape ...int) *tensor.Tensor {
	t.Helper()
	n := 1
	for _, s := range shape {
		n *= s
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i%7 + 1)
	}
	x, err := tensor.FromFloat32(cpu.Queue().Device(), num.F32, values, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func view(t testing.TB) func(x *tensor.Tensor, err error) *tensor.Tensor {
	return func(x *tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
}

// Heads of [batch, position, head, width], as views, without a copy: every matrix of the
// result is the product of its matrices.
func TestHeads(t *testing.T) {
	must := view(t)
	d := contraction(t, "scores", def.ContractionForm{LeftDims: []string{"H", "M", "K"}, RightDims: []string{"H", "N", "K"}, TransposeRight: true, ResultDims: []string{"H", "M", "N"}})
	const batch, queries, keys, heads, groups, width = 2, 3, 4, 6, 2, 5
	q := must(ramp(t, batch, queries, heads, width).Permute(0, 2, 1, 3))
	k := ramp(t, batch, keys, groups, width) // three heads share a group's keys
	shared := must(must(must(k.Permute(0, 2, 1, 3)).Reshape(batch, groups, 1, keys, width)).Expand(batch, groups, heads/groups, keys, width))
	c := must(ramp(t, batch, queries, heads, keys).Permute(0, 2, 1, 3))
	if err := engine.Call(cpu.Queue(), d, []*tensor.Tensor{q, shared, c}, nil); err != nil {
		t.Fatal(err)
	}
	x, _ := q.Float32s()
	y, _ := k.Float32s()
	got, _ := c.Float32s()
	for i, v := range got {
		key, query, head, b := i%keys, i/keys%queries, i/keys/queries%heads, i/keys/queries/heads
		want := float32(0)
		for w := range width {
			want += x[((b*heads+head)*queries+query)*width+w] * y[((b*keys+key)*groups+head/(heads/groups))*width+w]
		}
		if v != want {
			t.Fatalf("batch %d, head %d, query %d, key %d: got %v, want %v", b, head, query, key, v, want)
		}
	}
}

func TestAxesRefused(t *testing.T) {
	must := view(t)
	batched := contraction(t, "batched", def.ContractionForm{LeftDims: []string{"H", "M", "K"}, RightDims: []string{"H", "K", "N"}, ResultDims: []string{"H", "M", "N"}})
	grouped := contraction(t, "grouped", def.ContractionForm{LeftDims: []string{"M", "K"}, RightDims: []string{"G", "K", "N"}, ResultDims: []string{"M", "N"},
		Groups: def.Groups{Number: "G", Of: "M", Offsets: "offsets"}})
	offsets := func(values ...int32) *tensor.Tensor {
		return must(tensor.FromInt32(cpu.Queue().Device(), values, len(values)))
	}
	a, b, c := ramp(t, 2, 3, 4), ramp(t, 2, 4, 5), ramp(t, 2, 3, 5)
	whole := ramp(t, 2, 6, 5)
	half := must(must(must(whole.Reshape(4, 15)).Slice(0, 4, 0, 15)).Reshape(4, 3, 5))
	many := must(ramp(t, 2, 2, 2, 2, 2, 3, 4).Permute(3, 2, 1, 0, 4, 5, 6))
	for name, test := range map[string]struct {
		d       *def.Definition
		tensors []*tensor.Tensor
		want    string
	}{
		"rank":                {batched, []*tensor.Tensor{ramp(t, 3, 4), b, c}, "batched: a has shape [3 4], want [H M K]"},
		"batch":               {batched, []*tensor.Tensor{a, ramp(t, 3, 4, 5), c}, "batched: b has shape [3 4 5], want H = 2 like a"},
		"sum":                 {batched, []*tensor.Tensor{a, ramp(t, 2, 5, 5), c}, "batched: b has shape [2 5 5], want K = 4 like a"},
		"repeated result":     {batched, []*tensor.Tensor{a, b, must(ramp(t, 1, 3, 5).Expand(2, 3, 5))}, "batched: c repeats elements: shape [2 3 5], strides [0 5 1], want memory of its own for every element"},
		"repeated rows":       {batched, []*tensor.Tensor{must(ramp(t, 2, 1, 4).Expand(2, 3, 4)), b, c}, "batched: a has shape [2 3 4] with strides [4 0 1], want matrices whose rows do not share memory"},
		"result over operand": {batched, []*tensor.Tensor{a, must(whole.Reshape(3, 4, 5)), must(half.Reshape(4, 3, 5))}, "batched: b has shape [3 4 5], want H = 2 like a"},
		"many axes":           {batched, []*tensor.Tensor{many, must(ramp(t, 1, 4, 5).Expand(32, 4, 5)), ramp(t, 32, 3, 5)}, "want at most 4 batch axes that do not fold"},
		"rows do not fold":    {grouped, []*tensor.Tensor{must(ramp(t, 2, 3, 4).Permute(1, 0, 2)), ramp(t, 2, 4, 5), ramp(t, 6, 5), offsets(0, 2, 6)}, "grouped: a has shape [3 2 4] with strides [4 12 1], want rows at one distance from each other"},
		"groups":              {grouped, []*tensor.Tensor{ramp(t, 6, 4), ramp(t, 2, 4, 5), ramp(t, 6, 5), offsets(0, 2, 3, 6)}, "grouped: offsets has shape [4], want G+1 = 3 like b"},
		"first offset":        {grouped, []*tensor.Tensor{ramp(t, 6, 4), ramp(t, 2, 4, 5), ramp(t, 6, 5), offsets(1, 2, 6)}, "grouped: offsets[0] is 1, want offsets that ascend from 0 to 6"},
		"last offset":         {grouped, []*tensor.Tensor{ramp(t, 6, 4), ramp(t, 2, 4, 5), ramp(t, 6, 5), offsets(0, 2, 7)}, "grouped: offsets[2] is 7"},
		"descending offsets":  {grouped, []*tensor.Tensor{ramp(t, 6, 4), ramp(t, 2, 4, 5), ramp(t, 6, 5), offsets(0, 7, 6)}, "grouped: offsets[2] is 6"},
	} {
		before, _ := test.tensors[2].Float32s()
		for _, policy := range []engine.BadIndex{engine.Reject, engine.Skip} { // offsets cannot be skipped
			err := engine.Call(cpu.Queue(), test.d, test.tensors, nil, engine.WithBadIndex(policy))
			if !errors.Is(err, tensor.ErrBadArgument) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %q", name, err, test.want)
			}
		}
		if after, _ := test.tensors[2].Float32s(); !slices.Equal(before, after) {
			t.Errorf("%s: the result was written", name)
		}
	}
	err := engine.Call(cpu.Queue(), grouped, []*tensor.Tensor{ramp(t, 6, 4), ramp(t, 2, 4, 5), ramp(t, 6, 5), offsets(0, 6, 6)}, nil)
	if err != nil {
		t.Errorf("an empty group: %v", err)
	}
	x, err := tensor.New(cpu.Queue().Device(), num.F32, 6, 5)
	if err != nil {
		t.Fatal(err)
	}
	results, err := engine.Eval(cpu.Queue(), grouped, engine.Args{"a": ramp(t, 6, 4), "b": ramp(t, 2, 4, 5), "offsets": offsets(0, 6, 6)})
	if err != nil || !slices.Equal(results["c"].Shape(), x.Shape()) {
		t.Errorf("Eval: %v, %v", results, err)
	}
}

// A call with axes allocates nothing once it has a plan.
func TestAxesAllocateNothing(t *testing.T) {
	if isRaceEnabled {
		t.Skip("the race detector allocates")
	}
	must := view(t)
	d := contraction(t, "batched", def.ContractionForm{LeftDims: []string{"H", "M", "K"}, RightDims: []string{"H", "K", "N"}, ResultDims: []string{"H", "M", "N"}})
	tensors := []*tensor.Tensor{must(ramp(t, 3, 2, 4).Permute(1, 0, 2)), ramp(t, 2, 4, 5), ramp(t, 2, 3, 5)}
	call := func() {
		if err := engine.Call(cpu.Queue(), d, tensors, nil); err != nil {
			t.Fatal(err)
		}
	}
	call()
	if n := testing.AllocsPerRun(20, call); n > 0.5 { // a pool may be emptied
		t.Errorf("%v allocations", n)
	}
}
