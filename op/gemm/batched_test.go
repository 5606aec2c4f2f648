package gemm_test

import (
	"fmt"
	"slices"
	"strings"
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

// plain returns the call on single matrices that a batched or grouped one repeats.
func plain(d *def.Definition) call {
	name := strings.NewReplacer("batched.", "", "grouped.", "").Replace(d.Name)
	for _, p := range products {
		if p.definition.Name == name {
			return p.call
		}
	}
	panic("no " + name)
}

// shapes returns those of the operands of a batched product, in the order of the
// definition.
func shapes(d *def.Definition, sizes map[string]int) [3][]int {
	var list [3][]int
	for i := range list {
		for _, letter := range d.Operands[i].Dims {
			list[i] = append(list[i], sizes[letter])
		}
	}
	return list
}

func random(t testing.TB, g *gen.Generator, d num.DType, shape ...int) *tensor.Tensor {
	t.Helper()
	n := 1
	for _, s := range shape {
		n *= s
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = g.Ordinary()
	}
	x, err := tensor.FromFloat32(cpu.Queue().Device(), d, values, shape...)
	optest.OK(t, err)
	return x
}

// matrixOf returns matrix h of a contiguous stack.
func matrixOf(t testing.TB, x *tensor.Tensor, h int) *tensor.Tensor {
	t.Helper()
	rows := x.Rows() / x.Shape()[0]
	all, err := x.Reshape(x.Rows(), x.Cols())
	optest.OK(t, err)
	m, err := all.Slice(h*rows, (h+1)*rows, 0, x.Cols())
	optest.OK(t, err)
	return m
}

// testMatricesAlone: every matrix, in any company, has the bits of the plain product, and
// every row of the left operand those of that row alone.
func testMatricesAlone(t *testing.T, d *def.Definition, batched, plain call) {
	g := gen.New(d.Name)
	for _, formats := range d.Formats() {
		for _, heads := range []int{1, 3} {
			s := shapes(d, map[string]int{"H": heads, "M": 5, "N": 7, "K": 70})
			left, right, c := random(t, g, formats[0], s[0]...), random(t, g, formats[1], s[1]...), random(t, g, formats[2], s[2]...)
			want, err := tensor.New(cpu.Queue().Device(), formats[2], s[2]...)
			optest.OK(t, err)
			optest.OK(t, want.CopyFrom(c))
			optest.OK(t, batched(cpu.Queue(), c, left, right))
			for h := range heads {
				m := matrixOf(t, want, h)
				if !d.Product().TransposeLeft { // row by row
					for r := range m.Rows() {
						row, err := m.Slice(r, r+1, 0, m.Cols())
						optest.OK(t, err)
						x, err := matrixOf(t, left, h).Slice(r, r+1, 0, left.Cols())
						optest.OK(t, err)
						optest.OK(t, plain(cpu.Queue(), row, x, matrixOf(t, right, h)))
					}
					continue
				}
				optest.OK(t, plain(cpu.Queue(), m, matrixOf(t, left, h), matrixOf(t, right, h)))
			}
			optest.SameBits(t, fmt.Sprintf("%s of %d", d.Name, heads), c, want)
		}
	}
}

// testStrides: heads between each other's rows, matrices that are repeated, two leading
// dimensions that do not fold.
func testStrides(t *testing.T, d *def.Definition, batched call) {
	g := gen.New(d.Name)
	must := func(x *tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		optest.OK(t, err)
		return x
	}
	s := shapes(d, map[string]int{"H": 6, "M": 4, "N": 5, "K": 3})
	interleaved := func(x *tensor.Tensor) *tensor.Tensor { // [2,3,rows,cols], stored as [2,rows,3,cols]
		shape := x.Shape()
		stored := must(tensor.New(cpu.Queue().Device(), x.DType(), 2, shape[1], 3, shape[2]))
		view := must(stored.Permute(0, 2, 1, 3))
		optest.OK(t, view.CopyFrom(must(x.Reshape(2, 3, shape[1], shape[2]))))
		return view
	}
	left, right, c := random(t, g, num.F16, s[0]...), random(t, g, num.F16, s[1]...), random(t, g, num.F16, s[2]...)
	got := interleaved(c)
	optest.OK(t, batched(cpu.Queue(), got, interleaved(left), interleaved(right)))
	want := must(tensor.New(cpu.Queue().Device(), num.F16, s[2]...))
	optest.OK(t, want.CopyFrom(c))
	optest.OK(t, batched(cpu.Queue(), want, left, right))
	optest.SameBits(t, "interleaved heads", must(tensor.FromBytes(cpu.Queue().Device(), num.F16, bytesOf(t, got), s[2]...)), want)

	one := matrixOf(t, right, 0)
	repeated := must(must(one.Reshape(1, one.Rows(), one.Cols())).Expand(s[1]...))
	copied := must(tensor.New(cpu.Queue().Device(), num.F16, s[1]...))
	optest.OK(t, copied.CopyFrom(repeated))
	x, y := must(tensor.New(cpu.Queue().Device(), num.F16, s[2]...)), must(tensor.New(cpu.Queue().Device(), num.F16, s[2]...))
	optest.OK(t, batched(cpu.Queue(), x, left, repeated))
	optest.OK(t, batched(cpu.Queue(), y, left, copied))
	optest.SameBits(t, "one matrix for all", x, y)

	into := must(must(must(tensor.New(cpu.Queue().Device(), num.F16, 1, s[2][1], s[2][2])).Reshape(1, s[2][1], s[2][2])).Expand(s[2]...))
	err := batched(cpu.Queue(), into, left, right)
	optest.Refused(t, err, d.Name, d.Operands[2].Name, "")

	rows, cols := s[0][1], s[0][2]
	many := must(random(t, g, num.F16, 2, 2, 2, 2, 2, rows, cols).Permute(3, 2, 1, 0, 4, 5, 6)) // the last batch axis folds with the rows
	all := slices.Concat([]int{32}, s[1][1:])
	err = batched(cpu.Queue(), random(t, g, num.F16, slices.Concat([]int{32}, s[2][1:])...), many, must(must(one.Reshape(1, one.Rows(), one.Cols())).Expand(all...)))
	optest.Refused(t, err, d.Name, d.Operands[0].Name, "")
}

func bytesOf(t testing.TB, x *tensor.Tensor) []byte {
	t.Helper()
	raw, err := x.Bytes()
	optest.OK(t, err)
	return raw
}

// Many small matrices have the same bits on any number of workers.
func TestManySmallMatrices(t *testing.T) {
	g := gen.New(t.Name())
	a, b := random(t, g, num.BF16, 300, 3, 5), random(t, g, num.BF16, 300, 5, 2)
	var results [][]byte
	for _, workers := range []int{1, 3} {
		dev, err := cpu.New(cpu.Options{Workers: workers})
		optest.OK(t, err)
		defer dev.Close()
		q, err := engine.NewQueue(dev)
		optest.OK(t, err)
		var moved []*tensor.Tensor
		for _, x := range []*tensor.Tensor{a, b} {
			y, err := tensor.FromBytes(dev, num.BF16, bytesOf(t, x), x.Shape()...)
			optest.OK(t, err)
			moved = append(moved, y)
		}
		c, err := tensor.New(dev, num.F32, 300, 3, 2)
		optest.OK(t, err)
		optest.OK(t, gemm.BatchedForward(q, c, moved[0], moved[1]))
		results = append(results, bytesOf(t, c))
	}
	if !slices.Equal(results[0], results[1]) {
		t.Error("three workers give other bits than one")
	}
}
