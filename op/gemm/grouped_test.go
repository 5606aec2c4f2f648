package gemm_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"tokitai/backend/cpu"
	"tokitai/def"
	"tokitai/engine"
	"tokitai/internal/gen"
	"tokitai/num"
	"tokitai/op/gemm"
	"tokitai/op/optest"
	"tokitai/tensor"
)

// groupedCalls are the typed calls: the result first, then the operands.
var groupedCalls = map[*def.Definition]func(q *engine.Queue, result, left, right, offsets *tensor.Tensor, opts ...engine.CallOption) error{
	gemm.GroupedForwardDefinition: gemm.GroupedForward,
	gemm.GroupedGradADefinition:   gemm.GroupedGradA,
	gemm.GroupedGradBDefinition:   gemm.GroupedGradB,
}

// oneGroup returns the call with all rows in one group.
func oneGroup(grouped func(q *engine.Queue, result, left, right, offsets *tensor.Tensor, opts ...engine.CallOption) error) call {
	return func(q *engine.Queue, result, left, right *tensor.Tensor, opts ...engine.CallOption) error {
		offsets, err := tensor.FromInt32(q.Device(), []int32{0, int32(left.Rows())}, 2)
		if err != nil {
			return err
		}
		return grouped(q, result, left, right, offsets, opts...)
	}
}

func offsetsOf(t testing.TB, values ...int32) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromInt32(cpu.Queue().Device(), values, len(values))
	optest.OK(t, err)
	return x
}

// testOffsets: offsets that decrease, exceed M or leave rows out are refused whatever a caller says
// of bad indices, and nothing is written.
func testOffsets(t *testing.T, d *def.Definition) {
	g := gen.New(d.Name)
	s := shapes(d, map[string]int{"G": 3, "M": 6, "N": 5, "K": 4})
	left, right, c := random(t, g, num.BF16, s[0]...), random(t, g, num.BF16, s[1]...), random(t, g, num.BF16, s[2]...)
	before := bytesOf(t, c)
	for _, test := range []struct {
		offsets  []int32
		position int
	}{
		{[]int32{0, 4, 2, 6}, 2}, {[]int32{0, 7, 7, 6}, 3}, {[]int32{0, 2, 4, 7}, 3}, {[]int32{0, 2, 4, 5}, 3},
		{[]int32{1, 2, 4, 6}, 0}, {[]int32{-1, 2, 4, 6}, 0}, {[]int32{0, -1, 4, 6}, 1}, {[]int32{0, 0, 0, 0}, 3},
	} {
		for _, policy := range []engine.BadIndex{engine.Reject, engine.Skip} {
			err := groupedCalls[d](cpu.Queue(), c, left, right, offsetsOf(t, test.offsets...), engine.WithBadIndex(policy))
			bad, ok := errors.AsType[*engine.IndexError](err)
			if !ok || bad.Op != d.Name || bad.Operand != "offsets" || !bad.IsOffset {
				t.Errorf("offsets %v: got %v, want an error about them", test.offsets, err)
			} else if want := fmt.Sprintf("%s: offsets[%d] is %d, want offsets that ascend from 0 to 6", d.Name, test.position, test.offsets[test.position]); err.Error() != want {
				t.Errorf("offsets %v: got %v, want %s", test.offsets, err, want)
			}
			if !slices.Equal(bytesOf(t, c), before) {
				t.Fatalf("offsets %v: the result has changed", test.offsets)
			}
		}
	}
	optest.OK(t, groupedCalls[d](cpu.Queue(), c, left, right, offsetsOf(t, 0, 0, 6, 6)))
}

// testGroupsAlone: every group, whatever its size and company, has the bits of the plain product of
// its rows, and these of their rows alone.
func testGroupsAlone(t *testing.T, d *def.Definition) {
	g, plain := gen.New(d.Name), plain(d)
	for _, offsets := range [][]int32{
		{0, 90}, {0, 0, 90, 90}, {0, 1, 2, 3, 90}, {0, 17, 17, 33, 64, 90}, {0, 0, 0}, {0, 89, 90},
	} {
		groups, m := len(offsets)-1, int(offsets[len(offsets)-1])
		for _, formats := range d.Formats() {
			for _, size := range []struct{ n, k int }{{1, 20}, {35, 20}, {48, 384}, {384, 48}} {
				s := shapes(d, map[string]int{"G": groups, "M": m, "N": size.n, "K": size.k})
				left, right, got := random(t, g, formats[0], s[0]...), random(t, g, formats[1], s[1]...), optest.Garbage(t, formats[2], s[2]...)
				optest.OK(t, groupedCalls[d](cpu.Queue(), got, left, right, offsetsOf(t, offsets...)))
				want := optest.Garbage(t, formats[2], s[2]...)
				optest.OK(t, want.CopyFrom(got))
				for i := range groups {
					first, end := int(offsets[i]), int(offsets[i+1])
					rows := func(x *tensor.Tensor) *tensor.Tensor {
						part, err := x.Slice(first, end, 0, x.Cols())
						optest.OK(t, err)
						return part
					}
					switch {
					case first == end && d.Product().TransposeLeft:
						zeros := matrixOf(t, want, i)
						optest.Want(t, "a group without rows", zeros, make([]float32, zeros.Len())...)
					case first == end:
					case d.Product().TransposeLeft:
						optest.OK(t, plain(cpu.Queue(), matrixOf(t, want, i), rows(left), rows(right)))
					default:
						optest.OK(t, plain(cpu.Queue(), rows(want), rows(left), matrixOf(t, right, i)))
						for r := first; r < end; r += 7 {
							row := optest.Garbage(t, formats[2], 1, want.Cols())
							x, err := left.Slice(r, r+1, 0, left.Cols())
							optest.OK(t, err)
							optest.OK(t, plain(cpu.Queue(), row, x, matrixOf(t, right, i)))
							inCompany, err := got.Slice(r, r+1, 0, got.Cols())
							optest.OK(t, err)
							optest.SameBits(t, fmt.Sprintf("%s, offsets %v, row %d", d.Name, offsets, r), inCompany, row)
						}
					}
				}
				optest.SameBits(t, fmt.Sprintf("%s, offsets %v", d.Name, offsets), got, want)
			}
		}
	}
}

// The operations by name choose the format of the result, and take its sizes from their operands.
func TestGroupedOperation(t *testing.T) {
	offsets := offsetsOf(t, 0, 1, 1, 3)
	a := optest.Matrix(t, num.F16, 3, 1, 2, 3, 4, 5, 6)
	b, err := optest.Matrix(t, num.F16, 6, 1, 1, 9, 9, 7, 7, 7, 7, 60000, 0, 0, 60000).Reshape(3, 2, 2)
	optest.OK(t, err)
	run := func(name string, in engine.Args, given map[string]string) (engine.Args, error) {
		o := optest.Operation(gemm.Operations, name)
		v, err := o.NewValues(given)
		optest.OK(t, err)
		return o.Run(cpu.Queue(), in, v)
	}
	in := engine.Args{"A": a, "B": b, "offsets": offsets}
	out, err := run("gemm.grouped.forward", in, nil)
	optest.OK(t, err)
	optest.Want(t, "C", out["C"], 19, 19, inf, inf, inf, inf)
	if got := out["C"]; got.DType() != num.F16 || !slices.Equal(got.Shape(), []int{3, 2}) {
		t.Errorf("C is %v %v, want f16 [3 2]", got.DType(), got.Shape())
	}
	out, err = run("gemm.grouped.forward", in, map[string]string{"out": "f32"})
	optest.OK(t, err)
	optest.Want(t, "C in f32", out["C"], 19, 19, 180000, 240000, 300000, 360000)
	out, err = run("gemm.grouped.grad_a", engine.Args{"dC": a, "B": b, "offsets": offsets}, map[string]string{"out": "f32"})
	optest.OK(t, err)
	optest.Want(t, "dA", out["dA"], 3, 27, 180000, 240000, 300000, 360000)
	out, err = run("gemm.grouped.grad_b", engine.Args{"A": a, "dC": a, "offsets": offsets}, nil)
	optest.OK(t, err)
	optest.Want(t, "dB", out["dB"], 1, 2, 2, 4, 0, 0, 0, 0, 34, 42, 42, 52)
	if got := out["dB"].Shape(); !slices.Equal(got, []int{3, 2, 2}) {
		t.Errorf("dB has shape %v, want [3 2 2]", got)
	}
	_, err = run("gemm.grouped.grad_b", engine.Args{"A": a, "dC": a, "offsets": offsetsOf(t)}, nil)
	optest.Message(t, err, "gemm.grouped.grad_b: offsets has shape [0], want G+1 = 1 like dB")
	for name, c := range map[string]struct {
		in    engine.Args
		given map[string]string
		want  string
	}{
		"out bf16":       {in, map[string]string{"out": "bf16"}, `gemm.grouped.forward: out is "bf16", want f32 or same`},
		"no offsets":     {engine.Args{"A": a, "B": b}, nil, "gemm.grouped.forward: offsets is missing, want inputs A, B, offsets"},
		"too few groups": {engine.Args{"A": a, "B": b, "offsets": offsetsOf(t, 0, 3)}, nil, "gemm.grouped.forward: offsets has shape [2], want G+1 = 4 like B"},
		"too wide":       {engine.Args{"A": optest.Matrix(t, num.F16, 3, 1, 2, 3), "B": b, "offsets": offsets}, nil, "gemm.grouped.forward: B has shape [3 2 2], want K = 1 like A"},
	} {
		_, err := run("gemm.grouped.forward", c.in, c.given)
		if t.Run(name, func(t *testing.T) { optest.Message(t, err, c.want) }); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
